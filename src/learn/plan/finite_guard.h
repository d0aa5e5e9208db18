// Nothing that is not finite is carried on: a program looks (ops/all_finite.h) at what it is about to carry
// on and, if any of it is no number, keeps what it had.
#pragma once

#include "etrace/array.h"
#include "etrace/ir.h"
#include "etrace/program.h"
#include "ops/all_finite.h"

#pragma GCC visibility push(default)
namespace etrace {

// `next` if `go`, else `old`, array by array.
Arrays if_finite(const Array& go, ArraySpan next, ArraySpan old);

// Traces and gradients are looked at by what they are made from, where that is less: finite operands of a
// pass over a trace have a finite trace and gradient, unless they overflow, and so have factors of a product.
// The look then comes before the pass, and the pass is told whether to go on; if not, it leaves trace and sum
// where they are, and nothing is copied. `finite_arguments` are known to be finite and not looked at.
ClosedJaxpr look_early(ClosedJaxpr, const std::vector<bool>& finite_arguments);
ClosedJaxpr guard_passes(ClosedJaxpr);
// What must be there before it can be looked at is not copied once it is known to be finite: it has a buffer
// of its own, and whoever runs the program exchanges the two.
Program exchange_buffers(Program);
// The other way: every buffer is kept, and what is finite is copied there. For hosts that have one of each.
Program keep_buffers(Program);

}  // namespace etrace
#pragma GCC visibility pop
