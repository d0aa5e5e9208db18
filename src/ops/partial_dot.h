// A product in pieces: the sum over a stretch of the contracted axis, going on from what earlier stretches
// gave. So [a, b]·W needs no [a, b], and what of it is known earlier can be computed earlier; the bits are
// those of the one product, because every element is one chain over k in ascending order either way.
// Recorded by simplify/split_products.cpp.
#pragma once

#include "etrace/primitive.h"
#include "ops/dot_dims.h"

#pragma GCC visibility push(default)
namespace etrace {

// partial_dot(a, b) and partial_dot(a, b, c): y[batch, i, j] = (c[batch, i, j] +) Σ_k a[batch, i, k]·
// b[batch, j, k] over k < depth, counted from lhs_start and rhs_start. params: dimension_numbers as of
// dot_general, with one contracted axis; lhs_start, rhs_start, depth
extern const Primitive partial_dot_p;

DotStretch dot_stretch(const Params&);
Params partial_dot_params(const DotDims&, const DotStretch&);

}  // namespace etrace
#pragma GCC visibility pop
