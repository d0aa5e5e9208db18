// Reductions and running reductions.
#pragma once

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

extern const Primitive reduce_sum_p, reduce_max_p, reduce_min_p, reduce_prod_p, reduce_and_p,
    reduce_or_p;                                                                 // axes
extern const Primitive cumsum_p, cumprod_p, cummax_p, cummin_p, cumlogsumexp_p;  // params: axis, reverse

// Empty axes: all of them.
Array sum(const Array&, const Dims& axes = {}, bool keepdims = false);
Array mean(const Array&, const Dims& axes = {}, bool keepdims = false);
Array variance(const Array&, const Dims& axes = {}, bool keepdims = false);  // two passes
Array prod(const Array&, const Dims& axes = {}, bool keepdims = false);
Array max(const Array&, const Dims& axes = {}, bool keepdims = false);
Array min(const Array&, const Dims& axes = {}, bool keepdims = false);
Array all(const Array&, const Dims& axes = {}, bool keepdims = false);
Array any(const Array&, const Dims& axes = {}, bool keepdims = false);
// Sum over exactly these axes, none if empty (the bare primitive).
Array reduce_sum(const Array&, const Dims& axes);
Array cumsum(const Array&, int axis, bool reverse = false);
Array cumprod(const Array&, int axis, bool reverse = false);
Array cummax(const Array&, int axis, bool reverse = false);
Array cummin(const Array&, int axis, bool reverse = false);
Array cumlogsumexp(const Array&, int axis, bool reverse = false);
Array logsumexp(const Array&, const Dims& axes = {}, bool keepdims = false);
Array softmax(const Array&, int axis = -1);
Array log_softmax(const Array&, int axis = -1);

}  // namespace etrace
#pragma GCC visibility pop
