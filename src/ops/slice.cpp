// slice: x[start : limit : stride] along every axis. Its transpose pads with zeros.
#include <algorithm>

#include "etrace/emission.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

struct Window {
  Dims start, limit, strides, sizes;
};

Window window_of(const Params& params, const Aval& x) {
  Window w{params.dims("start_indices"), params.dims("limit_indices"), {}, {}};
  const std::size_t rank = x.shape.rank();
  w.strides = params.dims_or("strides", Dims(rank, 1));
  if (w.start.size() != rank || w.limit.size() != rank || w.strides.size() != rank)
    refuse("slice", "start " + show(w.start) + ", limit " + show(w.limit) + " and strides " +
                        show(w.strides) + " must have one entry for each axis of the operand " +
                        to_string(x));
  for (std::size_t i = 0; i < rank; ++i) {
    if (w.start[i] < 0 || w.limit[i] < w.start[i] || w.limit[i] > x.shape[i])
      refuse("slice", "the range " + std::to_string(w.start[i]) + " … " + std::to_string(w.limit[i]) +
                          " does not lie within axis " + std::to_string(i) + " of the operand " +
                          to_string(x));
    if (w.strides[i] < 1)
      refuse("slice", "strides " + show(w.strides) + " must be positive; use rev to run backwards");
    w.sizes.push_back((w.limit[i] - w.start[i] + w.strides[i] - 1) / w.strides[i]);
  }
  return w;
}

}  // namespace

const Primitive slice_p{{
    .name = "slice",
    .doc = "y[i] = x[start_indices + i·strides], up to limit_indices",
    .params = {"start_indices", "limit_indices", "strides"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("slice", in, 1);
      return {{in[0].dtype, window_of(params, in[0]).sizes}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const Window w = window_of(q.params, q.x(0));
      Dims src = strides_of(q.x(0).shape);
      std::int64_t start = 0;
      for (std::size_t i = 0; i < src.size(); ++i) {
        start += w.start[i] * src[i];
        src[i] *= w.strides[i];
      }
      const StridedCopy copy(w.sizes, strides_of(q.y().shape), src, size_of(q.y().dtype), q.context);
      if (q.y().shape.size() == 0) return {[](const KernelArgs&) {}};
      return {[copy, start](const KernelArgs& k) { copy(k.in[0], start, k.out[0], 0); }};
    },
    .emit = [](const EmitRequest& q) -> Emission {
      const Window w = window_of(q.params, q.x(0));
      IndexForm at{0, strides_of(q.x(0).shape)};
      for (std::size_t i = 0; i < at.step.size(); ++i) {
        at.first += w.start[i] * at.step[i];
        at.step[i] *= w.strides[i];
      }
      return whole_view(q, at);
    },
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(slice_p, {dx[0]}, params)};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan, std::span<const Aval> in) -> Arrays {
      const Window w = window_of(params, in[0]);
      std::vector<PadAxis> config;
      for (std::size_t i = 0; i < w.sizes.size(); ++i) {
        const std::int64_t covered = w.sizes[i] == 0 ? 0 : (w.sizes[i] - 1) * w.strides[i] + 1;
        config.push_back({w.start[i], in[0].shape[i] - w.start[i] - covered, w.strides[i] - 1});
      }
      return {pad(ct[0], 0.0, config)};
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t n) -> Arrays {
      const Window w = window_of(params, {x[0].dtype(), x[0].shape().without(0)});
      return {slice(x[0], with_front(0, w.start), with_front(n, w.limit), with_front(1, w.strides))};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(4, 7);
      auto params = [](const Dims& start, const Dims& limit, const Attr& strides) -> Params {
        return {{"start_indices", start}, {"limit_indices", limit}, {"strides", strides}};
      };
      return {{{r.floats({n})}, params({1}, {n - 1}, nullptr)},
              {{r.floats({n, 5})}, params({0, 1}, {n, 5}, Dims{2, 3})},
              {{r.floats({3, n, 2})}, params({1, 0, 0}, {2, n, 2}, Dims{1, 1, 1})},
              {{r.floats({})}, params({}, {}, nullptr)},
              {{r.floats({n, 2})}, params({2, 0}, {2, 2}, nullptr)},
              {{r.floats({0, 3})}, params({0, 1}, {0, 3}, Dims{1, 2})},
              {{r.floats({n, 4}, Dtype::F32)}, params({1, 2}, {n, 3}, nullptr)},
              {{r.ints({n}, -9, 9)}, params({0}, {n}, Dims{3}), false}};
    },
}};

Array slice(const Array& x, const Dims& start, const Dims& limit, const Dims& strides) {
  const bool unit = std::all_of(strides.begin(), strides.end(), [](std::int64_t s) { return s == 1; });
  if (unit && limit == x.shape().to_dims() && start == Dims(x.rank(), 0)) return x;
  Attr steps;  // null: 1 along every axis
  if (!unit) steps = strides;
  return move_data(slice_p, x, {{"start_indices", start}, {"limit_indices", limit}, {"strides", steps}});
}

Array slice_axis(const Array& x, int axis, std::int64_t start, std::int64_t limit, std::int64_t stride) {
  const std::size_t d = to_index(normalize_axis("slice_axis", axis, x.rank()));
  Dims from(x.rank(), 0), to = x.shape().to_dims(), steps(x.rank(), 1);
  from[d] = start;
  to[d] = limit;
  steps[d] = stride;
  return slice(x, from, to, steps);
}

}  // namespace etrace
