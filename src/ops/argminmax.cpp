// argmax and argmin: the position of the first extreme element along one axis; the first NaN beats all
// numbers.
#include "etrace/axes.h"
#include "etrace/ops/index.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

std::size_t axis_of(std::string_view op, const Params& params, const Aval& x) {
  const Dims axes = params.dims("axes");
  if (axes.size() != 1)
    refuse(op, "takes one axis, but got axes " + show(axes) + "; flatten with reshape first");
  check_axes(op, "axes", axes, x.shape.rank());
  return to_index(axes[0]);
}

template <const Primitive& P>
Avals typing(const Params& params, std::span<const Aval> in) {
  expect_operands(P.name(), in, 1);
  expect_number(P.name(), in[0].dtype, true);
  const std::size_t axis = axis_of(P.name(), params, in[0]);
  if (in[0].shape[axis] == 0)
    refuse(P.name(), "axis " + std::to_string(axis) + " of the operand " + to_string(in[0]) +
                         " is empty and has no extreme element");
  const Dtype index = params.dtype("index_dtype");
  if (!is_integer(index))
    refuse_type(P.name(), "index_dtype must be an integer type, but is " + std::string(name(index)));
  return {{index, in[0].shape.without(axis)}};
}

// Better(a, b): a takes the place of an earlier b.
template <class Better>
Kernel arg_kernel(const KernelRequest& q, Better better) {
  const Shape& shape = q.x(0).shape;
  const std::size_t axis = axis_of("argmax", q.params, q.x(0));
  const std::int64_t n = shape[axis], inner = strides_of(shape)[axis], count = q.y().shape.size();
  return visit_number(q.x(0).dtype, [&]<class T>(std::type_identity<T>) {
    return visit_integer(q.y().dtype, [&]<class I>(std::type_identity<I>) -> Kernel {
      return {[=](const KernelArgs& k) {
        const T* x = static_cast<const T*>(k.in[0]);
        I* y = static_cast<I*>(k.out[0]);
        for (std::int64_t o = 0; o < count; ++o) {
          const T* line = x + (o / inner) * n * inner + o % inner;
          std::int64_t best = 0;
          T value = line[0];
          for (std::int64_t i = 1; i < n && !is_nan(value); ++i)
            if (const T v = line[i * inner]; better(v, value) || is_nan(v)) {
              best = i;
              value = v;
            }
          y[o] = static_cast<I>(best);
        }
      }};
    });
  });
}

template <const Primitive& P>
Arrays batch(const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t) {
  return {bind1(P, {x[0]}, params.with("axes", shifted(params.dims("axes"))))};
}

AxisTable other_axes_kept(const EmitRequest& q) {
  AxisTable t(q);
  std::size_t b = 0;
  for (const std::int64_t a : other_axes(q.x(0).shape.rank(), q.params.dims("axes")))
    t.keep(b++, 0, to_index(a));
  return t;
}

// The position does not move under small changes.
Arrays no_tangent(const Params&, ArraySpan, ArraySpan, ArraySpan) { return {Array()}; }

Samples arg_samples(std::uint64_t seed) {
  Source r(seed);
  const std::int64_t n = r.integer(2, 6);
  auto params = [](int axis, Dtype index) -> Params {
    return {{"axes", Dims{axis}}, {"index_dtype", index}};
  };
  return {{{r.distinct({n})}, params(0, Dtype::I32)},
          {{r.distinct({n, 3})}, params(0, Dtype::I64)},
          {{r.distinct({2, n, 3}, Dtype::F32)}, params(1, Dtype::I32)},
          {{r.distinct({0, n})}, params(1, Dtype::U32)},
          {{r.ints({2, n}, 0, 2)}, params(1, Dtype::I32), false},
          {{r.bools({n})}, params(0, Dtype::I32), false}};
}

}  // namespace

const Primitive argmax_p{{
    .name = "argmax",
    .doc = "y = the first i with the largest x[i] along the axis",
    .params = {"axes", "index_dtype"},
    .abstract = typing<argmax_p>,
    .kernel = [](const KernelRequest& q) { return arg_kernel(q, [](auto a, auto b) { return a > b; }); },
    .axes = other_axes_kept,
    .jvp = no_tangent,
    .batch = batch<argmax_p>,
    .samples = arg_samples,
}};

const Primitive argmin_p{{
    .name = "argmin",
    .doc = "y = the first i with the smallest x[i] along the axis",
    .params = {"axes", "index_dtype"},
    .abstract = typing<argmin_p>,
    .kernel = [](const KernelRequest& q) { return arg_kernel(q, [](auto a, auto b) { return a < b; }); },
    .axes = other_axes_kept,
    .jvp = no_tangent,
    .batch = batch<argmin_p>,
    .samples = arg_samples,
}};

namespace {
Array extreme_position(const Primitive& prim, const Array& x, int axis) {
  return bind1(prim, {x},
               {{"axes", Dims{normalize_axis(prim.name(), axis, x.rank())}}, {"index_dtype", Dtype::I32}});
}
}  // namespace

Array argmax(const Array& x, int axis) { return extreme_position(argmax_p, x, axis); }
Array argmin(const Array& x, int axis) { return extreme_position(argmin_p, x, axis); }

}  // namespace etrace
