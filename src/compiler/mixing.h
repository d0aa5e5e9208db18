// Which equations mix the positions of hidden values. Private to compiler/.
#pragma once

#include <vector>

#include "etrace/ir.h"

namespace etrace {

// A product of which every result depends on several entries of what is multiplied, but for special values
// of the weight. Kernels, sparse matrices, equations of axes and functions of the weight may be such that it
// does not.
bool sums_fully(const Eqn&);

// Whether a body of the equation multiplies values that come from the operands marked in `hidden`, or, with
// count_etp, applies a trainable mixing operator to them. A loop's carry counts from its second round on.
bool body_mixes(const Eqn&, const std::vector<bool>& hidden, bool count_etp);

}  // namespace etrace
