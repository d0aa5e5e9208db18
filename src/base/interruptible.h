// Loops of a call that somebody may want to end (etrace/host.h).
#pragma once

#pragma GCC visibility push(default)
namespace etrace {

// While one is alive on a thread, loops that run there may end between two of their steps: all that they have
// written goes with the call. Programs of learners run without: what they replace in place must stay whole.
class Interruptible {
 public:
  explicit Interruptible(bool on = true);
  ~Interruptible();
  Interruptible(const Interruptible&) = delete;
  Interruptible& operator=(const Interruptible&) = delete;

  static bool active();  // is there one that is on
  static void check();   // by the loops, once per step

 private:
  bool before_;
};

}  // namespace etrace
#pragma GCC visibility pop
