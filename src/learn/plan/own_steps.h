// Where the own step of every relation and parameter leaf comes from on a graph (OwnStep in
// etrace/learning_rule.h).
#pragma once

#include "etrace/learning_rule.h"

#pragma GCC visibility push(default)
namespace etrace {

struct OwnSteps {
  enum class Place : std::uint8_t {
    Signal,     // in the rule: the signal meets f·x
    Cotangent,  // in the rule: ∂L/∂y meets x, in the pass over the trace
    Leaf,       // reverse mode to the parameter leaves
  };
  std::vector<Place> relations, composites;

  // What a parameter leaf gets beside the rule, from all its uses but the operators of place Cotangent.
  enum class LeafWays : std::uint8_t {
    None,        // nothing: the reference's formula
    PastStates,  // what passes no hidden state; the rule brings the rest
    All,         // reverse mode of the step
  };
  std::vector<LeafWays> leaves;  // in the order of param_leaves()
};
OwnSteps own_steps(const ETraceGraph&, OwnStep);

}  // namespace etrace
#pragma GCC visibility pop
