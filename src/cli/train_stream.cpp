#include "cli/train_stream.h"

#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <optional>

#include "base/file.h"
#include "cli/help.h"
#include "cli/interrupt.h"
#include "cli/memory_hint.h"
#include "cli/progress.h"

namespace etrace::cli {

namespace {

// A line that is redrawn on a terminal; elsewhere one at 1,000, 2,000 … 10,000, 20,000 … lines.
class StreamTerminal : public train::StreamView {
 public:
  StreamTerminal(bool quiet, bool to_errors)
      : quiet_(quiet),
        out_(to_errors ? std::cerr : std::cout),
        form_(quiet ? Progress::Form::Silent
                    : Progress::form_of(to_errors ? Progress::Stream::Error : Progress::Stream::Output)) {}

  void say(const std::string& text) override {
    if (!quiet_) result(text);
  }
  void result(const std::string& text) override {
    end_line();
    out_ << text << std::flush;
  }
  void warn(const std::string& text) override {
    end_line();
    std::cerr << "etrace train: " << text << std::endl;
  }
  void line(const StreamLearner& l, double rate) override {
    if (form_ == Progress::Form::Lines && is_round(l.lines()))
      out_ << train::stream_line(l, rate) << std::endl;
    if (form_ != Progress::Form::Terminal) return;
    const auto now = Clock::now();
    if (now - drawn_ < std::chrono::milliseconds(100)) return;
    drawn_ = now;
    out_ << "\r\x1b[K" << train::stream_line(l, rate) << std::flush;
    open_ = true;
  }
  bool stop_requested() override { return interrupt_.requested(); }

  void end_line() {
    if (open_) out_ << "\n";
    open_ = false;
  }
  int interrupted_code() const { return interrupt_.exit_code(); }

 private:
  using Clock = std::chrono::steady_clock;
  static bool is_round(std::int64_t lines) {
    std::int64_t step = 1000;
    while (lines >= 10 * step) step *= 10;
    return lines % step == 0;
  }

  bool quiet_;
  std::ostream& out_;
  Progress::Form form_;
  Clock::time_point drawn_ = {};
  bool open_ = false;  // a terminal's line that has no end yet
  Interrupt interrupt_;
};

}  // namespace

int run_stream(const train::StreamPlan& plan, bool quiet) {
  StreamTerminal view(quiet, plan.json == kStandardOutput);
  train::StreamResult result;
  with_memory_hint("--hidden makes it smaller, as does --rule pp_prop", [&] {
    train::StreamRun run(plan, view);
    try {
      result = run();
    } catch (...) {
      view.end_line();
      throw;
    }
  });
  if (result.reason == train::StreamResult::Reason::Interrupted && !result.files_lost)
    return view.interrupted_code();
  return result.files_lost ? 2 : 0;
}

std::string stream_table() { return help_table("Of a stream, --set can change", train::stream_options()); }

}  // namespace etrace::cli
