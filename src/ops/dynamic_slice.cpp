// dynamic_slice and dynamic_update_slice: a window of fixed sizes at a start that is a value. Starts are
// clamped so that the window lies inside. Each is the other's transpose. Where a batch has its own starts,
// they become gather and scatter.
#include <algorithm>
#include <cstring>

#include "etrace/axes.h"
#include "etrace/emission.h"
#include "etrace/facts.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/shape.h"
#include "ops/index_common.h"

namespace etrace {

using namespace structure;

namespace {

void check_starts(std::string_view op, const Aval& x, std::span<const Aval> starts, const Dims& sizes) {
  if (starts.size() != x.shape.rank())
    refuse(op, "takes one start for each axis of the operand " + to_string(x) + ", but got " +
                   std::to_string(starts.size()));
  for (const Aval& s : starts)
    if (!is_integer(s.dtype) || !s.shape.is_scalar())
      refuse_type(op, "starts must be integer scalars, but one is " + to_string(s));
  if (sizes.size() != x.shape.rank())
    refuse(op, "a window of sizes " + show(sizes) + " must have one size for each axis of " + to_string(x));
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (sizes[i] < 0 || sizes[i] > x.shape[i])
      refuse(op, "a window of sizes " + show(sizes) + " does not fit into the operand " + to_string(x));
}

// The offset of the clamped window, read from the operands that hold the starts.
class StartReader {
 public:
  StartReader(const Shape& x, const Dims& sizes, std::span<const Aval> starts) {
    const Dims strides = strides_of(x);
    for (std::size_t i = 0; i < starts.size(); ++i)
      axes_.push_back({index_reader(starts[i].dtype), x[i] - sizes[i], strides[i]});
  }
  std::int64_t operator()(const void* const* starts) const {
    std::int64_t offset = 0;
    for (std::size_t i = 0; i < axes_.size(); ++i)
      offset += std::clamp<std::int64_t>(axes_[i].read(starts[i], 0), 0, axes_[i].limit) * axes_[i].stride;
    return offset;
  }

 private:
  struct Axis {
    ReadIndex read;
    std::int64_t limit, stride;
  };
  std::vector<Axis> axes_;
};

Emission dynamic_slice_code(const EmitRequest& q) {
  const Dims strides = strides_of(q.x(0).shape);
  MapCode code{.text = "$" + std::to_string(strides.size())};
  std::string offset;
  for (std::size_t i = 0; i < strides.size(); ++i) {
    code.reads.push_back({i + 1, {0, Dims(strides.size(), 0)}, {}});
    offset += (i > 0 ? " + " : "") + std::string("etp_clip((int64_t)$") + std::to_string(i) + ", " +
              std::to_string(q.x(0).shape[i] - q.y().shape[i]) + ") * " + std::to_string(strides[i]);
  }
  code.reads.push_back({0, {0, strides}, offset});
  return code;
}

// Of the operand that the window is taken from, or put into the other from: as a whole along an axis it
// cannot move, otherwise a start decides.
AxisTable window_axes(const EmitRequest& q, const Shape& window, std::size_t moved) {
  AxisTable t = AxisTable::aligned(q);
  for (std::size_t a = 0; a < window.rank(); ++a) {
    if (window[a] == q.x(0).shape[a])
      t.keep(a, moved, a);
    else
      t.at(a, moved) = {};
  }
  return t;
}

// In terms of gather and scatter the operations have one index vector, whose window is everything. Behind a
// batch axis of the starts there is one such vector [n, rank] for each entry.
struct OneWindow {
  Array vectors;
  WindowDims dims;
};
OneWindow one_window(ArraySpan starts, const std::vector<bool>& batched, bool x_batched, std::int64_t n) {
  const std::size_t rank = starts.size(), first = batched.size() - rank;
  Dtype dtype = starts[0].dtype();
  for (const Array& s : starts) dtype = promote(dtype, s.dtype());
  Arrays columns;
  for (std::size_t i = 0; i < rank; ++i)
    columns.push_back(with_batch_axis(convert(starts[i], dtype), batched[first + i], n));
  const Dims axes = axis_range(0, to_dim(rank));
  return {stack(columns, 1), batched_dims({axes, {}, axes, {}, {}}, x_batched, true)};
}

bool starts_batched(const std::vector<bool>& batched, std::size_t first) {
  return std::find(batched.begin() + static_cast<std::ptrdiff_t>(first), batched.end(), true) !=
         batched.end();
}

// Operands x… and the starts behind a batch axis that all entries share.
Arrays behind_batch_axis(Arrays x, ArraySpan starts) {
  x.push_back(starts.empty() ? full({}, std::int64_t{0}, Dtype::I32)
                             : full({}, std::int64_t{0}, starts[0].dtype()));
  x.insert(x.end(), starts.begin(), starts.end());
  return x;
}

Arrays followed_by(Arrays x, ArraySpan starts) {
  x.insert(x.end(), starts.begin(), starts.end());
  return x;
}

}  // namespace

const Primitive dynamic_slice_p{{
    .name = "dynamic_slice",
    .doc = "y[i] = x[clamp(start, 0, size of x - slice_sizes) + i]",
    .params = {"slice_sizes"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      if (in.empty()) refuse("dynamic_slice", "takes an operand and one start for each of its axes");
      const Dims sizes = params.dims("slice_sizes");
      check_starts("dynamic_slice", in[0], in.subspan(1), sizes);
      return {{in[0].dtype, sizes}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const Shape &x = q.x(0).shape, &y = q.y().shape;
      const StartReader start(x, y.to_dims(), q.in.subspan(1));
      const StridedCopy copy(y.dims(), strides_of(y), strides_of(x), size_of(q.y().dtype), q.context);
      return {[=](const KernelArgs& k) { copy(k.in[0], start(k.in + 1), k.out[0], 0); }};
    },
    .emit = dynamic_slice_code,
    .axes = [](const EmitRequest& q) { return window_axes(q, q.y().shape, 0); },
    .facts =
        [](const FactRequest& q) {
          return FactRequest{q.params, q.in.first(1), q.out, q.known.first(1), false}.moved(Shows::Part);
        },
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return bind_primitive(dynamic_slice_p, followed_by({dx[0]}, x.subspan(1)), params);
    },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      Arrays out(x.size());
      out[0] = dynamic_update_slice(zeros_of(in[0]), ct[0], x.subspan(1));
      return out;
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched,
                std::int64_t n) -> Arrays {
      Dims sizes = params.dims("slice_sizes");
      if (!starts_batched(batched, 1))
        return bind_primitive(dynamic_slice_p, behind_batch_axis({x[0]}, x.subspan(1)),
                              {{"slice_sizes", with_front(n, sizes)}});
      const OneWindow w = one_window(x.subspan(1), batched, batched[0], n);
      if (batched[0]) sizes = with_front(1, sizes);
      return {bind1(gather_p, {x[0], w.vectors},
                    {{"dimension_numbers", gather_attr(w.dims)}, {"slice_sizes", sizes}, {"mode", "clip"}})};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(3, 6);
      auto params = [](const Dims& sizes) -> Params { return {{"slice_sizes", sizes}}; };
      auto at = [&](Dtype dtype = Dtype::I32) { return r.ints({}, -2, 6, dtype); };
      return {{{r.floats({n}), at()}, params({2})},
              {{r.floats({n, 5}), at(), at(Dtype::I64)}, params({n, 2})},
              {{r.floats({2, n, 3}), at(), at(), at()}, params({1, 2, 3})},
              {{r.floats({})}, params({})},
              {{r.floats({n, 3}), at(), at()}, params({0, 2})},
              {{r.floats({n, 3}, Dtype::F32), at(), r.ints({}, 0, 4, Dtype::U32)}, params({2, 2})},
              {{r.ints({n}, -9, 9), at()}, params({n - 1}), false}};
    },
}};

const Primitive dynamic_update_slice_p{{
    .name = "dynamic_update_slice",
    .doc = "y = x, then y[clamp(start, 0, size of x - size of update) + i] = update[i]",
    .abstract = [](const Params&, std::span<const Aval> in) -> Avals {
      const std::string_view op = "dynamic_update_slice";
      if (in.size() < 2) refuse(op, "takes an operand, an update and one start for each axis");
      if (in[1].dtype != in[0].dtype)
        refuse_type(op, "the update " + to_string(in[1]) + " must have the element type of the operand " +
                            to_string(in[0]) + "; convert one of them first");
      check_starts(op, in[0], in.subspan(2), in[1].shape.to_dims());
      return {in[0]};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const Shape &x = q.x(0).shape, &update = q.x(1).shape;
      const StartReader start(x, update.to_dims(), q.in.subspan(2));
      const StridedCopy copy(update.dims(), strides_of(x), strides_of(update), size_of(q.y().dtype),
                             q.context);
      Kernel kernel;
      kernel.in_place = {{0, 0}};
      kernel.run = [=, bytes = q.y().bytes()](const KernelArgs& k) {
        if (k.out[0] != k.in[0] && bytes > 0) std::memcpy(k.out[0], k.in[0], bytes);
        copy(k.in[1], 0, k.out[0], start(k.in + 2));
      };
      return kernel;
    },
    .axes = [](const EmitRequest& q) { return window_axes(q, q.x(1).shape, 1); },
    .jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return {dynamic_update_slice(instantiate(dx[0], x[0].aval()), instantiate(dx[1], x[1].aval()),
                                   x.subspan(2))};
    },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      Arrays out(x.size());
      if (!x[0].defined()) out[0] = dynamic_update_slice(ct[0], zeros_of(in[1]), x.subspan(2));
      if (!x[1].defined()) out[1] = dynamic_slice(ct[0], x.subspan(2), in[1].shape.to_dims());
      return out;
    },
    .batch = [](const Params&, ArraySpan x, const std::vector<bool>& batched, std::int64_t n) -> Arrays {
      const Array operand = with_batch_axis(x[0], batched[0], n),
                  update = with_batch_axis(x[1], batched[1], n);
      if (!starts_batched(batched, 2))
        return bind_primitive(dynamic_update_slice_p, behind_batch_axis({operand, update}, x.subspan(2)));
      const OneWindow w = one_window(x.subspan(2), batched, true, n);
      return {bind1(scatter_p, {operand, w.vectors, update},
                    {{"dimension_numbers", scatter_attr(w.dims)}, {"mode", "clip"}})};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(3, 6);
      auto at = [&](Dtype dtype = Dtype::I32) { return r.ints({}, -2, 6, dtype); };
      return {{{r.floats({n}), r.floats({2}), at()}, {}},
              {{r.floats({n, 5}), r.floats({2, 5}), at(), at(Dtype::I64)}, {}},
              {{r.floats({2, n, 3}), r.floats({1, 2, 2}), at(), at(), at()}, {}},
              {{r.floats({}), r.floats({})}, {}},
              {{r.floats({n, 3}), r.floats({0, 3}), at(), at()}, {}},
              {{r.floats({n, 3}, Dtype::F32), r.floats({1, 3}, Dtype::F32), at(), at()}, {}},
              {{r.bools({n}), r.bools({2}), at()}, {}, false}};
    },
}};

Array dynamic_slice(const Array& x, ArraySpan starts, const Dims& sizes) {
  return bind_primitive(dynamic_slice_p, followed_by({x}, starts), {{"slice_sizes", sizes}})[0];
}

Array dynamic_update_slice(const Array& x, const Array& update, ArraySpan starts) {
  return bind_primitive(dynamic_update_slice_p, followed_by({x, convert(update, x.dtype())}, starts))[0];
}

Array dynamic_index(const Array& x, const Array& index, int axis) {
  const std::int64_t d = normalize_axis("dynamic_index", axis, x.rank());
  Arrays starts(x.rank(), full({}, std::int64_t{0}, index.dtype()));
  Dims sizes = x.shape().to_dims();
  starts[to_index(d)] = index;
  sizes[to_index(d)] = 1;
  return squeeze(dynamic_slice(x, starts, sizes), {d});
}

}  // namespace etrace
