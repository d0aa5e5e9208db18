// broadcast_in_dim: operand axis i becomes result axis broadcast_dimensions[i]; all else is repetition.
// Its transpose is the sum over what was repeated.
#include "etrace/emission.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

// Steps of the operand along the axes of the result, 0 where it repeats.
Dims repeated_strides(const Params& params, const Shape& from, const Shape& to) {
  const Dims axes = params.dims("broadcast_dimensions"), strides = strides_of(from);
  Dims out(to.rank(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i)
    if (from[i] != 1) out[to_index(axes[i])] = strides[i];
  return out;
}

}  // namespace

const Primitive broadcast_in_dim_p{{
    .name = "broadcast_in_dim",
    .doc = "y[j] = x[i], i_k = j[broadcast_dimensions[k]], or 0 where x has size 1",
    .params = {"shape", "broadcast_dimensions"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      const std::string_view op = "broadcast_in_dim";
      expect_operands(op, in, 1);
      const Shape shape(params.dims("shape")), &from = in[0].shape;
      const Dims axes = params.dims("broadcast_dimensions");
      if (axes.size() != from.rank())
        refuse(op, "broadcast_dimensions " + show(axes) +
                       " must name one axis for each axis of the operand " + to_string(in[0]));
      check_axes(op, "broadcast_dimensions", axes, shape.rank());
      for (std::size_t i = 0; i < axes.size(); ++i) {
        if (i > 0 && axes[i] <= axes[i - 1])
          refuse(op, "broadcast_dimensions " + show(axes) + " must ascend; use transpose to reorder axes");
        if (const std::int64_t to = shape[to_index(axes[i])]; from[i] != 1 && from[i] != to)
          refuse(op, "axis " + std::to_string(i) + " of the operand " + to_string(in[0]) +
                         " cannot become axis " + std::to_string(axes[i]) + " of " + to_string(shape) +
                         "; sizes must agree or be 1");
      }
      return {{in[0].dtype, shape}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      if (q.x(0).shape.size() == q.y().shape.size()) return copy_kernel(q.y().bytes());  // axes of size 1
      const Shape& to = q.y().shape;
      const StridedCopy copy(to.dims(), strides_of(to), repeated_strides(q.params, q.x(0).shape, to),
                             size_of(q.x(0).dtype), q.context);
      return {[copy](const KernelArgs& k) { copy(k.in[0], k.out[0]); }};
    },
    .emit = [](const EmitRequest& q) -> Emission {
      return whole_view(q, {0, repeated_strides(q.params, q.x(0).shape, q.y().shape)});
    },
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(broadcast_in_dim_p, {dx[0]}, params)};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan, std::span<const Aval> in) -> Arrays {
      const Dims axes = params.dims("broadcast_dimensions");
      const Shape& to = ct[0].shape();
      Dims kept;
      for (std::size_t i = 0; i < axes.size(); ++i)
        if (in[0].shape[i] == to[to_index(axes[i])]) kept.push_back(axes[i]);
      return {reshape(reduce_sum(ct[0], other_axes(to.rank(), kept)), in[0].shape.to_dims())};
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t n) -> Arrays {
      return {broadcast_in_dim(x[0], with_front(n, params.dims("shape")),
                               with_front(0, shifted(params.dims("broadcast_dimensions"))))};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(2, 5), m = r.integer(2, 4);
      auto params = [](const Shape& shape, const Dims& axes) -> Params {
        return {{"shape", shape}, {"broadcast_dimensions", axes}};
      };
      return {{{r.floats({n})}, params({m, n}, {1})},
              {{r.floats({n})}, params({n, m}, {0})},
              {{r.floats({})}, params({m, n}, {})},
              {{r.floats({})}, params({}, {})},
              {{r.floats({n, 1, m})}, params({2, n, 3, m}, {1, 2, 3})},
              {{r.floats({1, m}, Dtype::F32)}, params({n, m}, {0, 1})},
              {{r.floats({1, 3})}, params({0, 3}, {0, 1})},
              {{r.floats({0, 3})}, params({2, 0, 3}, {1, 2})},
              {{r.ints({n}, -5, 5)}, params({2, n}, {1}), false},
              {{r.bools({n, 1})}, params({n, m}, {0, 1}), false}};
    },
}};

Array broadcast_in_dim(const Array& x, const Shape& shape, const Dims& broadcast_dimensions) {
  if (x.shape() == shape && broadcast_dimensions == axis_range(0, to_dim(shape.rank()))) return x;
  return move_data(broadcast_in_dim_p, x, {{"shape", shape}, {"broadcast_dimensions", broadcast_dimensions}});
}

Array broadcast_to(const Array& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  const auto merged = numpy_broadcast_shapes(x.shape(), shape);
  if (!merged || *merged != shape)
    refuse("broadcast_to",
           "an array of type " + to_string(x.aval()) + " cannot be broadcast to " + to_string(shape));
  return broadcast_in_dim(x, shape, axis_range(to_dim(shape.rank() - x.rank()), to_dim(x.rank())));
}

}  // namespace etrace
