// Where a native program spends its time.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "etrace/backend.h"

#pragma GCC visibility push(default)
namespace etrace::native {

// One step of emitted code: fused loops, a matrix product, or a kernel of the library.
struct StepTime {
  std::string kind;                    // "loops n3", "product", "kernel"
  std::vector<std::string> equations;  // "c:f32[32,256] = add a b"
  std::vector<std::string> paths;      // of the modules they come from, each once
  double seconds = 0.0;                // over all runs
  std::int64_t calls = 0;              // over all runs; more than one per run inside a loop over time
};

// Native code with a clock around every step; reading the clock twice per step is its only cost. IoError as
// of compile_native().
class ProfiledProgram {
 public:
  explicit ProfiledProgram(const Program&);
  const std::shared_ptr<const Runnable>& code() const { return code_; }
  std::vector<StepTime> times() const;  // so far, the slowest first
  void reset();

 private:
  std::int64_t (*table_)[2] = nullptr;  // of the module, which the code keeps: nanoseconds and calls per step
  std::vector<StepTime> steps_;
  std::shared_ptr<const Runnable> code_;
};

}  // namespace etrace::native
#pragma GCC visibility pop
