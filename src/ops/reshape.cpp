// reshape, squeeze, expand_dims: the same numbers in the same order under another shape.
#include "etrace/emission.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

Kernel reinterpret(const KernelRequest& q) { return copy_kernel(q.y().bytes()); }

Arrays back_to_operand(const Params&, ArraySpan ct, ArraySpan, std::span<const Aval> in) {
  return {reshape(ct[0], in[0].shape.to_dims())};
}

Shape expanded(const Shape& shape, const Dims& axes) {
  const std::size_t rank = shape.rank() + axes.size();
  check_axes("expand_dims", "dimensions", axes, rank);
  Dims out;
  for (std::size_t i = 0, next = 0; i < rank; ++i)
    out.push_back(contains(axes, to_dim(i)) ? 1 : shape[next++]);
  return {out};
}

}  // namespace

const Primitive reshape_p{{
    .name = "reshape",
    .doc = "y has the elements of x in row-major order under the shape new_sizes",
    .params = {"new_sizes", "dimensions"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("reshape", in, 1);
      const Shape to(params.dims("new_sizes"));
      if (const Dims order = params.dims_or("dimensions", {});
          !order.empty() && order != axis_range(0, to_dim(in[0].shape.rank())))
        throw NotSupportedError("reshape", "parameter 'dimensions' " + show(order) +
                                               " reorders axes; write a transpose before the reshape");
      if (to.size() != in[0].shape.size())
        refuse("reshape", "the operand " + to_string(in[0]) + " has " + std::to_string(in[0].shape.size()) +
                              " elements and cannot take the shape " + to_string(to) + " with " +
                              std::to_string(to.size()));
      return {{in[0].dtype, to}};
    },
    .kernel = reinterpret,
    .emit = [](const EmitRequest&) -> Emission { return ReshapeCode{}; },
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(reshape_p, {dx[0]}, params)};
    },
    .transpose = back_to_operand,
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t n) -> Arrays {
      return {reshape(x[0], with_front(n, params.dims("new_sizes")))};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(2, 5);
      auto params = [](const Dims& sizes) -> Params {
        return {{"new_sizes", sizes}, {"dimensions", nullptr}};
      };
      return {{{r.floats({n, 6})}, params({3, 2 * n})},
              {{r.floats({n, 3}, Dtype::F32)}, params({n * 3})},
              {{r.floats({1})}, params({})},
              {{r.floats({})}, params({1, 1})},
              {{r.floats({0, 3})}, params({5, 0})},
              {{r.ints({4, n}, -9, 9)}, params({2, n, 2}), false}};
    },
}};

const Primitive squeeze_p{{
    .name = "squeeze",
    .doc = "y is x without the axes `dimensions`, which have size 1",
    .params = {"dimensions"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("squeeze", in, 1);
      const Dims axes = params.dims("dimensions");
      const Shape& shape = in[0].shape;
      check_axes("squeeze", "dimensions", axes, shape.rank());
      for (const std::int64_t a : axes)
        if (shape[to_index(a)] != 1)
          refuse("squeeze", "axis " + std::to_string(a) + " of the operand " + to_string(in[0]) +
                                " has size " + std::to_string(shape[to_index(a)]) +
                                ", only axes of size 1 can be dropped");
      return {{in[0].dtype, pick(shape.dims(), other_axes(shape.rank(), axes))}};
    },
    .kernel = reinterpret,
    .emit = [](const EmitRequest&) -> Emission { return ReshapeCode{}; },
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(squeeze_p, {dx[0]}, params)};
    },
    .transpose = back_to_operand,
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t) -> Arrays {
      return {squeeze(x[0], shifted(params.dims("dimensions")))};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(2, 5);
      auto params = [](const Dims& axes) -> Params { return {{"dimensions", axes}}; };
      return {{{r.floats({1, n, 1})}, params({0, 2})},
              {{r.floats({n, 1, 3}, Dtype::F32)}, params({1})},
              {{r.floats({1})}, params({0})},
              {{r.floats({0, 1})}, params({1})},
              {{r.bools({n, 1})}, params({1}), false}};
    },
}};

const Primitive expand_dims_p{{
    .name = "expand_dims",
    .doc = "y is x with new axes of size 1 at the positions `dimensions` of y",
    .params = {"dimensions"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("expand_dims", in, 1);
      return {{in[0].dtype, expanded(in[0].shape, params.dims("dimensions"))}};
    },
    .kernel = reinterpret,
    .emit = [](const EmitRequest&) -> Emission { return ReshapeCode{}; },
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(expand_dims_p, {dx[0]}, params)};
    },
    .transpose = back_to_operand,
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t) -> Arrays {
      return {expand_dims(x[0], shifted(params.dims("dimensions")))};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(2, 5);
      auto params = [](const Dims& axes) -> Params { return {{"dimensions", axes}}; };
      return {{{r.floats({n})}, params({0, 2})},
              {{r.floats({n, 3}, Dtype::F32)}, params({1})},
              {{r.floats({})}, params({0})},
              {{r.floats({0})}, params({1})},
              {{r.ints({n}, 0, 9, Dtype::I64)}, params({1}), false}};
    },
}};

Array reshape(const Array& x, const Dims& sizes) {
  Dims to = sizes;
  std::int64_t known = 1;
  std::size_t free = to.size();
  for (std::size_t i = 0; i < to.size(); ++i) {
    if (to[i] != -1) {
      known *= to[i];
    } else if (free == to.size()) {
      free = i;
    } else {
      refuse("reshape", "the sizes " + show(sizes) + " leave more than one axis open (-1)");
    }
  }
  if (free < to.size()) {
    if (known == 0 || x.size() % known != 0)
      refuse("reshape", "no size of the open axis in " + show(sizes) + " fits the " +
                            std::to_string(x.size()) + " elements of " + to_string(x.aval()));
    to[free] = x.size() / known;
  }
  if (x.shape() == Shape(to)) return x;
  return move_data(reshape_p, x, {{"new_sizes", to}, {"dimensions", nullptr}});
}

Array squeeze(const Array& x, const Dims& axes) {
  if (axes.empty()) return x;
  return move_data(squeeze_p, x, {{"dimensions", normalize_axes("squeeze", axes, x.rank())}});
}

Array expand_dims(const Array& x, const Dims& axes) {
  if (axes.empty()) return x;
  return move_data(expand_dims_p, x,
                   {{"dimensions", normalize_axes("expand_dims", axes, x.rank() + axes.size())}});
}

}  // namespace etrace
