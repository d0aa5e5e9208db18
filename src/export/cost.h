// What a step costs, counted in the loops that are emitted. Private to export/.
#pragma once

#include "emit/program.h"

namespace etrace::device {

struct Cost {
  std::int64_t multiply_adds = 0;  // and multiplications, divisions, functions
  std::int64_t instructions = 0;   // about, of a scalar machine
  std::int64_t code = 0;           // bytes, about
  bool is_bound = true;            // false: a loop runs until a condition holds, and is counted once
};
// doubles: whether the machine has instructions for them.
Cost cost_of(const emit::EmitProgram&, bool doubles);

// A bound for the bytes of stack that the loops of a program need, from what they name.
std::int64_t stack_of(const emit::EmitProgram&);

}  // namespace etrace::device
