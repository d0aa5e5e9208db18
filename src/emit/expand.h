// Operations that run as kernels of the library, in terms of those that have code: for targets that cannot
// call it. Their sums have another order than the kernel's, unless their file says otherwise.
#pragma once

#include <functional>

#include "etrace/array.h"
#include "etrace/primitive.h"

namespace etrace::emit {

// The row's `lower`, or a formula of expand.cpp; null: there is none.
decltype(PrimitiveSpec::lower) expansion(const Primitive&);

// acc ← f(acc, the terms at n) for n in order, beginning with start. xs: [N, …], N > 0. Written out if they
// are few, else a loop.
using ChainTerm = std::function<Array(const Array& acc, ArraySpan x)>;
Array chained(const ChainTerm&, const Array& start, const Arrays& xs);

// With the bits of the kernels.
Arrays sparse_product_formula(const Params&, ArraySpan x);
Arrays sparse_gradient_formula(const Params&, ArraySpan x);

// trace_window (expand_trace.cpp): with the bits of the kernel that the library runs for the equation, or, of
// some forms of the pass, in another order of sums.
Arrays trace_pass_formula(const Params&, ArraySpan x);
// Whether an equation that is expanded has the bits of its kernel: trace_window, conv_general_dilated.
bool has_bits_of_kernel(const Eqn&);

}  // namespace etrace::emit
