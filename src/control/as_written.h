// A second recording of a model, by which the first is checked: without what compiles parts of it on the way.
#pragma once

#include <cstdint>

#pragma GCC visibility push(default)
namespace etrace {

// While one lives, in this thread, jit makes no call: the function itself is recorded.
class AsWritten {
 public:
  AsWritten();
  ~AsWritten();
  AsWritten(const AsWritten&) = delete;
  AsWritten& operator=(const AsWritten&) = delete;
  static bool active();

 private:
  bool before_;
};

// How many calls of jit this thread has recorded. Where none was, a second recording would be the same.
std::uint64_t recorded_calls();
void count_recorded_call();

}  // namespace etrace
#pragma GCC visibility pop
