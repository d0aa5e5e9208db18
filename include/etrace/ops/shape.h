// Operations that move data without changing it. Axes may be negative in functions, never in primitives.
#pragma once

#include <initializer_list>

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

extern const Primitive broadcast_in_dim_p;  // params: shape, broadcast_dimensions
extern const Primitive reshape_p;           // params: new_sizes, dimensions (null)
extern const Primitive squeeze_p;           // params: dimensions
extern const Primitive expand_dims_p;       // params: dimensions (positions in the result)
extern const Primitive transpose_p;         // params: permutation
extern const Primitive rev_p;               // params: dimensions
extern const Primitive concatenate_p;       // params: dimension
extern const Primitive stack_p;             // params: axis
extern const Primitive split_p;             // params: sizes, axis; one result per size
extern const Primitive pad_p;    // operands: x, value; params: padding_config [[low, high, interior]…]
extern const Primitive slice_p;  // params: start_indices, limit_indices, strides (null = 1)
extern const Primitive iota_p;   // params: dtype, shape, dimension

Array broadcast_in_dim(const Array&, const Shape& shape, const Dims& broadcast_dimensions);
Array broadcast_to(const Array&, const Shape&);  // NumPy's rule
Array reshape(const Array&, const Dims& sizes);  // one size may be -1
Array squeeze(const Array&, const Dims& axes);
Array expand_dims(const Array&, const Dims& axes);
Array transpose(const Array&, const Dims& permutation = {});  // empty: reverses the axes
Array moveaxis(const Array&, int from, int to);
Array rev(const Array&, const Dims& axes);
Array concatenate(ArraySpan, int axis = 0);
Array stack(ArraySpan, int axis = 0);
inline Array concatenate(std::initializer_list<Array> parts, int axis = 0) {  // concatenate({x, s}, -1)
  return concatenate(ArraySpan(parts.begin(), parts.size()), axis);
}
inline Array stack(std::initializer_list<Array> parts, int axis = 0) {
  return stack(ArraySpan(parts.begin(), parts.size()), axis);
}
struct PadAxis {
  std::int64_t low = 0, high = 0, interior = 0;  // negative low/high crop
};
Array pad(const Array&, const Array& value, const std::vector<PadAxis>&);
Array slice(const Array&, const Dims& start, const Dims& limit, const Dims& strides = {});
Array slice_axis(const Array&, int axis, std::int64_t start, std::int64_t limit, std::int64_t stride = 1);
Arrays split(const Array&, const Dims& sizes, int axis = 0);
Array iota(Dtype, const Shape&, int dimension);
Array arange(std::int64_t n, Dtype = Dtype::I32);

}  // namespace etrace
#pragma GCC visibility pop
