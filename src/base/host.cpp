#include "etrace/host.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "base/interruptible.h"

namespace etrace {

namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kPeriod = std::chrono::milliseconds(50);

// A function that threads read while another one replaces it.
template <class F>
class Replaceable {
 public:
  void set(F f) {
    auto next = f ? std::make_shared<const F>(std::move(f)) : nullptr;
    const std::lock_guard lock(mutex_);
    function_ = std::move(next);
    any_.store(function_ != nullptr, std::memory_order_release);
  }
  bool any() const { return any_.load(std::memory_order_acquire); }
  std::shared_ptr<const F> get() const {
    const std::lock_guard lock(mutex_);
    return function_;
  }

 private:
  mutable std::mutex mutex_;
  std::shared_ptr<const F> function_;
  std::atomic<bool> any_{false};
};

// Never destroyed, since threads warn until the process ends, and in static memory, since a step that is
// asked about interrupts allocates nothing.
template <class T>
T& lasting() {
  alignas(T) static unsigned char place[sizeof(T)];
  static T& instance = *new (place) T;
  return instance;
}
auto& hook() { return lasting<Replaceable<std::function<void()>>>(); }
thread_local bool may_end = false;
auto& sink() { return lasting<Replaceable<std::function<void(const std::string&)>>>(); }

}  // namespace

void set_interrupt_hook(std::function<void()> f) { hook().set(std::move(f)); }

void check_interrupt() {
  if (!hook().any()) return;
  thread_local Clock::time_point next;
  const Clock::time_point now = Clock::now();
  if (now < next) return;
  next = now + kPeriod;
  if (const auto f = hook().get()) (*f)();
}

Interruptible::Interruptible(bool on) : before_(may_end) { may_end = on; }
Interruptible::~Interruptible() { may_end = before_; }
bool Interruptible::active() { return may_end; }
void Interruptible::check() {
  if (may_end) check_interrupt();
}

void set_warning_sink(std::function<void(const std::string&)> f) { sink().set(std::move(f)); }

void warn(const std::string& text) {
  if (const auto f = sink().get())
    (*f)(text);
  else
    std::fprintf(stderr, "etrace: %s\n", text.c_str());
}

}  // namespace etrace
