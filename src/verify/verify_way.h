// What lies on the way from a parameter to the loss, as far as it matters for judging numbers. Private to
// verify/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "etrace/plan.h"

namespace etrace {

struct LeafWay {
  Dtype narrowest = Dtype::F64;    // of the floating values that depend on it, over all steps
  std::string differences_exempt;  // why finite differences see another function than the gradient; or empty
};
// In the order of param_leaves(), for the model as it came in.
std::vector<LeafWay> ways_of_parameters(const Model&, const StepProgram&);

// Deviations below which two gradients of values of this type count as equal: between rules and BPTT, and
// between BPTT and finite differences. None: differences of such values say nothing.
double exact_below(Dtype);
std::optional<double> differences_below(Dtype);
double unit_roundoff(Dtype);

}  // namespace etrace
