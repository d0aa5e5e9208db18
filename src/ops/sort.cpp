// sort: all operands reordered together along one axis, so that the first num_keys of them ascend
// (lexicographically). NaN comes last, -0 equals +0, and equal keys keep their order, whether or not a stable
// sort was asked for: results must not depend on the algorithm.
#include <algorithm>

#include "etrace/axes.h"
#include "etrace/ops/index.h"
#include "etrace/ops/shape.h"
#include "ops/index_common.h"

namespace etrace {

using namespace structure;

namespace {

struct SortPlan {
  std::size_t axis, num_keys;
};
SortPlan plan_of(const Params& params) {
  return {to_index(params.integer("dimension")), to_index(params.integer_or("num_keys", 1))};
}

template <class T>
int compare(const void* data, std::int64_t i, std::int64_t j) {
  const T a = static_cast<const T*>(data)[i], b = static_cast<const T*>(data)[j];
  if (a < b) return -1;
  if (b < a) return 1;
  return static_cast<int>(is_nan(a)) - static_cast<int>(is_nan(b));
}
using Compare = int (*)(const void*, std::int64_t, std::int64_t);

// The permutation that sorts these keys along the axis, as one more sorted operand.
Array permutation_of(ArraySpan keys, const Params& params) {
  const Shape& shape = keys[0].shape();
  const int axis = static_cast<int>(params.integer("dimension"));
  Arrays operands(keys.begin(), keys.end());
  operands.push_back(iota(Dtype::I32, shape, axis));
  return bind_primitive(sort_p, operands, params).back();
}

}  // namespace

const Primitive sort_p{{
    .name = "sort",
    .doc = "y_k = x_k in the order that sorts the first num_keys operands along `dimension`",
    .params = {"dimension", "is_stable", "num_keys"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      if (in.empty()) refuse("sort", "needs at least one operand");
      const std::int64_t keys = params.integer_or("num_keys", 1);
      check_axes("sort", "dimension", Dims{params.integer("dimension")}, in[0].shape.rank());
      if (keys < 1 || keys > to_dim(in.size()))
        refuse("sort", "num_keys is " + std::to_string(keys) + ", but there are " +
                           std::to_string(in.size()) + " operands");
      for (std::size_t i = 0; i < in.size(); ++i) {
        if (in[i].shape != in[0].shape)
          refuse("sort",
                 "the operands " + to_string(in[0]) + " and " + to_string(in[i]) + " must have one shape");
        if (to_dim(i) < keys) expect_number("sort", in[i].dtype, true);
      }
      return {in.begin(), in.end()};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const auto [axis, num_keys] = plan_of(q.params);
      const Shape& shape = q.x(0).shape;
      const std::int64_t n = shape[axis], step = strides_of(shape)[axis];
      std::vector<Compare> keys;
      for (std::size_t i = 0; i < num_keys; ++i)
        keys.push_back(
            visit_number(q.x(i).dtype, []<class T>(std::type_identity<T>) -> Compare { return compare<T>; }));
      std::vector<StridedCopy> element;
      for (const Aval& a : q.in) element.emplace_back(Dims{}, Dims{}, Dims{}, size_of(a.dtype), q.context);
      const Box<1> lines(shape.with(axis, std::min<std::int64_t>(n, 1)).dims(), {strides_of(shape)});
      Kernel kernel;
      kernel.scratch_bytes = to_index(n) * sizeof(std::int64_t);
      kernel.run = [=](const KernelArgs& k) {
        auto* order = static_cast<std::int64_t*>(k.scratch);  // offsets of the elements of one line
        lines.for_each([&](const std::array<std::int64_t, 1>& at) {
          for (std::int64_t i = 0; i < n; ++i) order[i] = at[0] + i * step;
          std::sort(order, order + n, [&](std::int64_t i, std::int64_t j) {
            for (std::size_t key = 0; key < keys.size(); ++key)
              if (const int c = keys[key](k.in[key], i, j); c != 0) return c < 0;
            return i < j;
          });
          for (std::size_t v = 0; v < element.size(); ++v)
            for (std::int64_t i = 0; i < n; ++i) element[v](k.in[v], order[i], k.out[v], at[0] + i * step);
        });
      };
      return kernel;
    },
    .axes = [](const EmitRequest& q) { return AxisTable::aligned(q).mix(plan_of(q.params).axis); },
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      const auto [axis, num_keys] = plan_of(params);
      const Array order = permutation_of(x.first(num_keys), params);
      Arrays dy(x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        if (dx[i].defined()) dy[i] = gather_along_axis(dx[i], order, axis);
      return dy;
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched,
                std::int64_t n) -> Arrays {
      Arrays operands;
      for (std::size_t i = 0; i < x.size(); ++i) operands.push_back(with_batch_axis(x[i], batched[i], n));
      return bind_primitive(sort_p, operands, params.with("dimension", params.integer("dimension") + 1));
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(3, 6);
      auto params = [](int axis, int keys) -> Params {
        return {{"dimension", axis}, {"is_stable", true}, {"num_keys", keys}};
      };
      return {{{r.distinct({n})}, params(0, 1)},
              {{r.distinct({n, 4})}, params(0, 1)},
              {{r.distinct({2, n}), r.floats({2, n})}, params(1, 1)},
              {{r.ints({2, n}, 0, 1), r.distinct({2, n}), r.floats({2, n})}, params(1, 2)},
              {{r.distinct({n, 0})}, params(0, 1)},
              {{r.distinct({0})}, params(0, 1)},
              {{r.floats({n}, Dtype::F32), r.ints({n}, 0, 9)}, params(0, 1), false},
              {{r.bools({n}), r.ints({n}, 0, 2, Dtype::I64)}, params(0, 2), false}};
    },
}};

Array sort(const Array& x, int axis) {
  return bind1(sort_p, {x},
               {{"dimension", normalize_axis("sort", axis, x.rank())}, {"is_stable", true}, {"num_keys", 1}});
}

Array argsort(const Array& x, int axis) {
  return permutation_of(
      {&x, 1},
      {{"dimension", normalize_axis("argsort", axis, x.rank())}, {"is_stable", true}, {"num_keys", 1}});
}

}  // namespace etrace
