// transpose (axes in another order), rev (axes backwards), and moveaxis made from transpose.
#include "etrace/emission.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {
// Only axes of size 1 move: the elements stay where they are.
bool same_order(const Shape& shape, const Dims& permutation) {
  std::int64_t last = -1;
  for (const std::int64_t axis : permutation) {
    if (shape[to_index(axis)] == 1) continue;
    if (axis < last) return false;
    last = axis;
  }
  return true;
}
}  // namespace

const Primitive transpose_p{{
    .name = "transpose",
    .doc = "axis i of y is axis permutation[i] of x",
    .params = {"permutation"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("transpose", in, 1);
      const Dims order = params.dims("permutation");
      if (order.size() != in[0].shape.rank())
        refuse("transpose", "permutation " + show(order) + " must name every axis of the operand " +
                                to_string(in[0]) + " once");
      check_axes("transpose", "permutation", order, order.size());
      return {{in[0].dtype, pick(in[0].shape.dims(), order)}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      if (same_order(q.x(0).shape, q.params.dims("permutation"))) return copy_kernel(q.y().bytes());
      const StridedCopy copy =
          permuting_copy(q.x(0).shape, q.params.dims("permutation"), size_of(q.x(0).dtype), q.context);
      return {[copy](const KernelArgs& k) { copy(k.in[0], k.out[0]); }};
    },
    .emit = [](const EmitRequest& q) -> Emission {
      return whole_view(q, {0, pick(strides_of(q.x(0).shape), q.params.dims("permutation"))});
    },
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(transpose_p, {dx[0]}, params)};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan, std::span<const Aval>) -> Arrays {
      return {transpose(ct[0], inverse_permutation(params.dims("permutation")))};
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t) -> Arrays {
      return {transpose(x[0], with_front(0, shifted(params.dims("permutation"))))};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(2, 5), wide = r.integer(33, 40);
      auto params = [](const Dims& order) -> Params { return {{"permutation", order}}; };
      return {{{r.floats({n, 3})}, params({1, 0})},
              {{r.floats({n, 2, 5})}, params({2, 0, 1})},
              {{r.floats({2, n, 1, 4}, Dtype::F32)}, params({3, 1, 0, 2})},
              {{r.floats({wide, 37}, Dtype::F32)}, params({1, 0}), false},
              {{r.floats({})}, params({})},
              {{r.floats({0, n})}, params({1, 0})},
              {{r.bools({n, 5})}, params({1, 0}), false},
              {{r.ints({n, 5, 2}, -9, 9, Dtype::I64)}, params({0, 2, 1}), false}};
    },
}};

const Primitive rev_p{{
    .name = "rev",
    .doc = "y is x with the axes `dimensions` run backwards",
    .params = {"dimensions"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("rev", in, 1);
      check_axes("rev", "dimensions", params.dims("dimensions"), in[0].shape.rank());
      return {in[0]};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const Shape& shape = q.x(0).shape;
      const Dims dst = strides_of(shape);
      Dims src = dst;
      std::int64_t start = 0;
      for (const std::int64_t a : q.params.dims("dimensions")) {
        const std::size_t i = to_index(a);
        start += (shape[i] - 1) * dst[i];
        src[i] = -dst[i];
      }
      const StridedCopy copy(shape.dims(), dst, src, size_of(q.x(0).dtype), q.context);
      if (shape.size() == 0) return {[](const KernelArgs&) {}};
      return {[copy, start](const KernelArgs& k) { copy(k.in[0], start, k.out[0], 0); }};
    },
    .emit = [](const EmitRequest& q) -> Emission {
      const Shape& shape = q.x(0).shape;
      IndexForm at{0, strides_of(shape)};
      for (const std::int64_t a : q.params.dims("dimensions")) {
        at.first += (shape[to_index(a)] - 1) * at.step[to_index(a)];
        at.step[to_index(a)] *= -1;
      }
      return whole_view(q, at);
    },
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(rev_p, {dx[0]}, params)};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan, std::span<const Aval>) -> Arrays {
      return {bind1(rev_p, {ct[0]}, params)};
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t) -> Arrays {
      return {rev(x[0], shifted(params.dims("dimensions")))};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(2, 5);
      auto params = [](const Dims& axes) -> Params { return {{"dimensions", axes}}; };
      return {{{r.floats({n})}, params({0})},
              {{r.floats({n, 3})}, params({0, 1})},
              {{r.floats({2, n, 3}, Dtype::F32)}, params({1})},
              {{r.floats({})}, params({})},
              {{r.floats({2, 0})}, params({0})},
              {{r.ints({n, 2}, -9, 9)}, params({1}), false}};
    },
}};

Array transpose(const Array& x, const Dims& permutation) {
  const Dims in_order = axis_range(0, to_dim(x.rank()));
  const Dims order = permutation.empty() ? Dims(in_order.rbegin(), in_order.rend())
                                         : normalize_axes("transpose", permutation, x.rank());
  if (order == in_order) return x;
  return move_data(transpose_p, x, {{"permutation", order}});
}

Array moveaxis(const Array& x, int from, int to) {
  const std::int64_t source = normalize_axis("moveaxis", from, x.rank());
  Dims order = other_axes(x.rank(), Dims{source});
  order.insert(order.begin() + static_cast<std::ptrdiff_t>(normalize_axis("moveaxis", to, x.rank())), source);
  return transpose(x, order);
}

Array rev(const Array& x, const Dims& axes) {
  if (axes.empty()) return x;
  return move_data(rev_p, x, {{"dimensions", normalize_axes("rev", axes, x.rank())}});
}

}  // namespace etrace
