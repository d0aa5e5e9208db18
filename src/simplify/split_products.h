// [a, b]·W without [a, b]: a product whose operand is a concatenation along the contracted axis becomes a
// chain of partial products (ops/partial_dot.h), with the bits of the one product.
//   everywhere  where nobody else reads the concatenation, which then goes
//   in a loop   where the first parts are the step's own data
// Products of a step's data with what stays the same are one product for all steps, before the innermost
// loop; the loop goes on from there.
#pragma once

#include "etrace/ir.h"

namespace etrace {

// One program; of loops in it, what leaves them. True if anything changed.
bool split_products(ClosedJaxpr&);

}  // namespace etrace
