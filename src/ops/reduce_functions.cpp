// Reductions as functions of model code, and what is composed from them.
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

Dims chosen_axes(std::string_view op, const Array& x, const Dims& axes) {
  return axes.empty() ? axis_range(0, to_dim(x.rank())) : normalize_axes(op, axes, x.rank());
}

Array reduce(const Primitive& prim, const Array& x, const Dims& axes, bool keepdims) {
  const Dims over = chosen_axes(prim.name(), x, axes);
  const Array y = over.empty() ? x : bind1(prim, {x}, {{"axes", over}});
  if (!keepdims) return y;
  Dims shape = x.shape().to_dims();
  for (const std::int64_t a : over) shape[to_index(a)] = 1;
  return reshape(y, shape);
}

Array as_number(const Array& x) { return x.dtype() == Dtype::Bool ? convert(x, Dtype::I32) : x; }
Array as_float(const Array& x) { return is_floating(x.dtype()) ? x : convert(x, Dtype::F32); }
Array as_bool(const Array& x) {
  return x.dtype() == Dtype::Bool ? x : not_equal_to(x, zeros_of({x.dtype(), {}}));
}

// The largest element, held constant: subtracting it changes no result but keeps exp in range.
Array safe_max(const Array& x, const Dims& axes) {
  const Array top = stop_gradient(max(x, axes, true));
  return where(is_finite(top), top, zeros_of(top.aval()));
}

}  // namespace

Array reduce_sum(const Array& x, const Dims& axes) {
  return axes.empty() ? x : bind1(reduce_sum_p, {x}, {{"axes", axes}});
}

Array sum(const Array& x, const Dims& axes, bool keepdims) {
  return reduce(reduce_sum_p, as_number(x), axes, keepdims);
}
Array prod(const Array& x, const Dims& axes, bool keepdims) {
  return reduce(reduce_prod_p, as_number(x), axes, keepdims);
}
Array max(const Array& x, const Dims& axes, bool keepdims) { return reduce(reduce_max_p, x, axes, keepdims); }
Array min(const Array& x, const Dims& axes, bool keepdims) { return reduce(reduce_min_p, x, axes, keepdims); }
Array all(const Array& x, const Dims& axes, bool keepdims) {
  return reduce(reduce_and_p, as_bool(x), axes, keepdims);
}
Array any(const Array& x, const Dims& axes, bool keepdims) {
  return reduce(reduce_or_p, as_bool(x), axes, keepdims);
}

Array mean(const Array& x, const Dims& axes, bool keepdims) {
  const Shape over(pick(x.shape().dims(), chosen_axes("mean", x, axes)));
  return sum(as_float(x), axes, keepdims) / static_cast<double>(over.size());
}

Array variance(const Array& x, const Dims& axes, bool keepdims) {
  const Array values = as_float(x);
  return mean(square(values - mean(values, axes, true)), axes, keepdims);
}

Array logsumexp(const Array& x, const Dims& axes, bool keepdims) {
  const Array values = as_float(x);
  const Array top = safe_max(values, axes);
  const Array y = log(sum(exp(values - top), axes, true)) + top;
  return keepdims ? y : squeeze(y, chosen_axes("logsumexp", x, axes));
}

Array softmax(const Array& x, int axis) {
  const Array values = as_float(x), e = exp(values - safe_max(values, {axis}));
  return e / sum(e, {axis}, true);
}

Array log_softmax(const Array& x, int axis) {
  const Array values = as_float(x), shifted_values = values - safe_max(values, {axis});
  return shifted_values - log(sum(exp(shifted_values), {axis}, true));
}

}  // namespace etrace
