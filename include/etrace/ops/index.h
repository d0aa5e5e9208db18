// Reading and writing at positions that are values, and ordering.
#pragma once

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

extern const Primitive dynamic_slice_p;  // operands: x, start…; params: slice_sizes. Starts are clamped
extern const Primitive dynamic_update_slice_p;  // operands: x, update, start…
// JAX's gather/scatter. params of gather: dimension_numbers {offset_dims, collapsed_slice_dims,
// start_index_map, operand_batching_dims, start_indices_batching_dims}, slice_sizes, mode ("clip",
// "fill_or_drop", "promise_in_bounds"; JAX's spellings "GatherScatterMode.CLIP" and the numbers 0, 1, 2 are
// accepted), fill_value.
extern const Primitive gather_p;  // operands: x, indices[…, k]
// params: dimension_numbers {update_window_dims, inserted_window_dims, scatter_dims_to_operand_dims,
// operand_batching_dims, scatter_indices_batching_dims}, mode, indices_are_sorted, unique_indices (both
// ignored)
extern const Primitive scatter_p, scatter_add_p;  // operands: x, indices, updates
extern const Primitive sort_p;  // params: dimension, is_stable, num_keys; sorts all operands together
extern const Primitive argmax_p, argmin_p;  // params: axes (one), index_dtype. The first of equals; NaN wins

Array dynamic_slice(const Array&, ArraySpan starts, const Dims& sizes);
Array dynamic_update_slice(const Array&, const Array& update, ArraySpan starts);
Array dynamic_index(const Array&, const Array& index,
                    int axis = 0);  // one entry along an axis, the axis dropped
Array take(const Array&, const Array& indices,
           int axis = 0);  // indices.shape in place of the axis; out of range: clipped
Array take_along_axis(const Array&, const Array& indices, int axis);
Array scatter_add(const Array&, const Array& indices, const Array& updates,
                  int axis = 0);  // x[indices] += updates
Array scatter_set(const Array&, const Array& indices, const Array& updates, int axis = 0);
Array sort(const Array&, int axis = -1);
Array argsort(const Array&, int axis = -1);
Array argmax(const Array&, int axis = -1);
Array argmin(const Array&, int axis = -1);
Array one_hot(const Array& indices, std::int64_t num, Dtype = Dtype::F32);

}  // namespace etrace
#pragma GCC visibility pop
