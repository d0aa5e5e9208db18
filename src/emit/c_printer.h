// The emitted program as one C99 translation unit for a host (runtime/etp_abi.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emit/program.h"

#pragma GCC visibility push(default)
namespace etrace::emit {

// After schedule() and place_buffers(). Equal programs have equal texts.
std::string print_c(const EmitProgram&);

// The same with a clock around every step of `run`. The module then exports `int64_t etrace_times[][2]`: for
// each step the nanoseconds that it took and how often it ran, since the module was loaded.
struct TimedStep {
  enum Kind : std::uint8_t { Loops, Product, Call };
  Kind kind = Loops;
  std::string function{};   // Loops: its name in the text
  std::vector<int> eqns{};  // EmitProgram::eqns
};
std::string print_timed_c(const EmitProgram&, std::vector<TimedStep>&);

// Calls and products, in the order in which the text numbers them.
struct HostSteps {
  std::vector<const Call*> calls;
  std::vector<const Product*> products;
};
HostSteps host_steps(const EmitProgram&);

// A function `static void NAME(char* const* p, int64_t lo, int64_t hi)`: positions lo … hi of the nest's
// first axis (if that is an Each axis). p are the pointers of nest_pointers(), in that order.
std::string print_nest(const EmitProgram&, const Nest&, const std::string& name);

struct Pointer {
  ValueId value;
  Index first;
  std::vector<std::pair<int, Index>> time;
  bool operator==(const Pointer&) const = default;
};
std::vector<Pointer> nest_pointers(const Nest&);

}  // namespace etrace::emit
#pragma GCC visibility pop
