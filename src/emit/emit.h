// All passes. c_printer.h makes text of the result.
#pragma once

#include "emit/program.h"
#include "emit/target.h"

#pragma GCC visibility push(default)
namespace etrace::emit {

// Ready for a printer. NotSupportedError names an operation that the target has no code for.
// Refusals, in the order of the program, for who asks; some of them are about steps that went later.
EmitProgram build(const Program&, const Target& = native_target(), std::vector<Refusal>* why = nullptr);
std::string text_of(const std::vector<Refusal>&, const EmitProgram&);
// The same, followed from pass to pass with names in place of numbers (follow.cpp): InternalError if a pass
// changes what a result is made of, or a step would read what was overwritten. build() does so by itself for
// small programs where assertions are on.
EmitProgram build_proved(const Program&, const Target& = native_target());

// The names of all elements of the results (follow.cpp). InternalError if a step reads what was overwritten.
struct FollowOptions {
  bool backwards = false;  // positions of nests; and row by row what threads share so
  std::size_t branch = 0;  // of every cond
};
std::vector<std::uint64_t> follow(const EmitProgram&, const FollowOptions& = {});
double work_to_follow(const EmitProgram&);  // about how many elements are looked at

}  // namespace etrace::emit
#pragma GCC visibility pop
