// The handlers; see the header.
#include "cli/interrupt.h"

#include <csignal>

namespace etrace::cli {

namespace {

volatile std::sig_atomic_t caught = 0;
constexpr int kSignals[] = {SIGINT, SIGTERM};

extern "C" void remember(int signal) { caught = signal; }

}  // namespace

Interrupt::Interrupt() {
  caught = 0;
  struct sigaction action {};
  action.sa_handler = remember;
  action.sa_flags = static_cast<int>(SA_RESETHAND) | SA_RESTART;  // the second one is not ours
  for (const int s : kSignals) sigaction(s, &action, nullptr);
}

Interrupt::~Interrupt() {
  for (const int s : kSignals) std::signal(s, SIG_DFL);
}

int Interrupt::signal() const { return caught; }

}  // namespace etrace::cli
