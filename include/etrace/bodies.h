// How values pass between an equation and its bodies: loops, branches and calls say it in the slot `bodies`
// of their rows, and analyses walk through them without knowing which operation it is.
#pragma once

#include <cstddef>
#include <vector>

#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

struct BodyUse {
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  // What an input of the body is: an operand, or in every round another slice of its leading axis; from the
  // second round on what the body gave for the result `again` of the equation.
  struct Input {
    std::size_t operand = kNone;
    bool sliced = false;
    std::size_t again = kNone;
  };
  // What a result of the body is: a result of the equation, or in every round a slice of it.
  struct Output {
    std::size_t result = kNone;
    bool stacked = false;
  };
  JaxprPtr body;              // none: the operands named by `in` decide which of the bodies runs
  std::vector<Input> in;      // per input of the body
  std::vector<Output> out{};  // per result of the body
  bool decides = false;       // its result decides whether a loop goes on, and is no value of the equation
};

// As the row says; empty: it has no bodies, or says nothing of them.
std::vector<BodyUse> bodies_of(const Eqn&);
// A body whose inputs are the operands from `first` on and whose results are those of the equation.
BodyUse call_use(JaxprPtr body, std::size_t first = 0);

}  // namespace etrace
#pragma GCC visibility pop
