// Nothing that is not finite is carried on: a program looks at what it is about to carry on and, if any of it
// is no number, keeps what it had.
#pragma once

#include "etrace/array.h"
#include "etrace/ir.h"

#pragma GCC visibility push(default)
namespace etrace {

// A truth value: every element of every array is finite. Undefined arrays and whole numbers are.
Array all_finite(ArraySpan);

// `next` if `go`, else `old`, array by array.
Arrays if_finite(const Array& go, ArraySpan next, ArraySpan old);

// Where a trace, or a sum of gradients, is kept unless a truth value says to go on, the pass over the trace
// is told so instead: it then leaves them where they are, and nothing is copied. The same bits.
ClosedJaxpr guard_passes(ClosedJaxpr);

// Looks at the factors of a product in place of the product (finite factors have a finite product, unless it
// overflows), so that no product is stored for the sake of a look. A gradient of a pass of few steps is left
// to what the pass was given: looking at it would cost as much as the pass.
ClosedJaxpr look_at_factors(ClosedJaxpr);

}  // namespace etrace
#pragma GCC visibility pop
