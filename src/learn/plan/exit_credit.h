// What a cotangent of the states at the exit of a window says to parameters and to the states at its entry,
// for rules that estimate it (DNI). Credit reaches a parameter where it is used outside of every relation;
// what passes through a relation's operand is in that relation's trace already. Under compat no parameter
// that has a relation anywhere gets any.
#pragma once

#include "etrace/executor.h"
#include "learn/plan/step_split.h"

namespace etrace {

class ExitCredit {
 public:
  explicit ExitCredit(const ETraceGraph&);  // must outlive it

  struct Found {
    Arrays params;  // per leaf; undefined: none
    Arrays states;  // at entry, in the order of the program's inputs; undefined: none
  };
  // arguments [K, …]; estimate: per group [*varshape, S].
  Found gradients(std::int64_t steps, ArraySpan params, ArraySpan states, ArraySpan arguments,
                  const Array& active, ArraySpan estimate) const;

 private:
  const ETraceGraph& g_;
  std::vector<bool> leaf_gets_credit_;
  std::unique_ptr<const StepSplit> steps_;
};

}  // namespace etrace
