// gather: copies a window of x for every vector of indices; take and take_along_axis are made from it.
// Linear in x: its transpose adds the windows back (scatter_add).
#include <limits>

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

// What windows outside x hold: the parameter, else NaN, the least signed integer, the largest unsigned one,
// true.
Scalar fill_value(const Params& params, Dtype dtype) {
  const Attr* attr = params.find("fill_value");
  if (attr != nullptr && !attr->is_null()) {
    if (const auto* b = attr->get_if<bool>()) return *b;
    if (const auto* i = attr->get_if<std::int64_t>()) return *i;
    if (const auto* d = attr->get_if<double>()) return *d;
    const auto* text = attr->get_if<std::string>();
    if (text != nullptr && *text == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (text != nullptr && *text == "inf") return std::numeric_limits<double>::infinity();
    if (text != nullptr && *text == "-inf") return -std::numeric_limits<double>::infinity();
    throw CompilationError("gather", "parameter 'fill_value' must be a number");
  }
  if (is_floating(dtype)) return std::numeric_limits<double>::quiet_NaN();
  if (dtype == Dtype::I32) return std::int64_t{std::numeric_limits<std::int32_t>::min()};
  if (dtype == Dtype::I64) return std::numeric_limits<std::int64_t>::min();
  if (dtype == Dtype::U32) return std::int64_t{std::numeric_limits<std::uint32_t>::max()};
  return true;
}

// Reads every component of the index vector, then x at the clipped start.
Emission gather_code(const EmitRequest& q) {
  const Shape &x = q.x(0).shape, &y = q.y().shape;
  const WindowDims d = gather_dims(q.params);
  const Dims sizes = q.params.dims("slice_sizes"), in_x = strides_of(x),
             in_indices = strides_of(q.x(1).shape);
  Dims vector(y.rank(), 0), element(y.rank(), 0);  // steps in the indices and in x
  std::size_t next_vector = 0, next_window = 0;
  const Dims shown = other_axes(x.rank(), joined(d.collapsed, d.operand_batching));
  for (std::size_t a = 0; a < y.rank(); ++a) {
    if (contains(d.window, to_dim(a))) {
      element[a] = in_x[to_index(shown[next_window++])];
      continue;
    }
    vector[a] = in_indices[next_vector];
    for (std::size_t i = 0; i < d.indices_batching.size(); ++i)
      if (d.indices_batching[i] == to_dim(next_vector)) element[a] = in_x[to_index(d.operand_batching[i])];
    ++next_vector;
  }
  MapCode code;
  std::string offset = "0", inside = "1";
  for (std::size_t k = 0; k < d.index_map.size(); ++k) {
    const auto axis = to_index(d.index_map[k]);
    const std::string start = "(int64_t)$" + std::to_string(k), limit = std::to_string(x[axis] - sizes[axis]);
    code.reads.push_back({1, {to_dim(k), vector}, {}});
    offset += " + etp_clip(" + start + ", " + limit + ") * " + std::to_string(in_x[axis]);
    if (q.x(1).dtype != Dtype::U32) inside += " && " + start + " >= 0";
    inside += " && " + start + " <= " + limit;
  }
  code.reads.push_back({0, {0, element}, offset});
  code.text = "$" + std::to_string(d.index_map.size());
  if (mode_of("gather", q.params) == Mode::FillOrDrop) {
    if (q.x(0).dtype == Dtype::F16 || q.x(0).dtype == Dtype::BF16) return KernelCode{};
    code.text = "(" + inside + ") ? " + code.text + " : " +
                c_number({q.x(0).dtype, fill_value(q.params, q.x(0).dtype)});
  }
  return code;
}

AxisTable gather_axes(const EmitRequest& q) {
  const WindowDims d = gather_dims(q.params);
  const Dims sizes = q.params.dims("slice_sizes"), vectors = other_axes(q.y().shape.rank(), d.window);
  AxisTable t(q);
  for (const std::int64_t a : d.window) t.at(to_index(a), 1) = {AxisSource::Same};
  for (std::size_t v = 0; v < vectors.size(); ++v) t.keep(to_index(vectors[v]), 1, v);
  for (std::size_t a = 0; a < q.x(0).shape.rank(); ++a)
    if (const WindowAxis w = window_axis(d, q.x(0).shape, q.y().shape, sizes, a); w.windows)
      t.keep(*w.windows, 0, a);
  return t;
}

Params gather_params(const WindowDims& d, const Dims& sizes, const char* mode) {
  return {
      {"dimension_numbers", gather_attr(d)}, {"slice_sizes", sizes}, {"mode", mode}, {"fill_value", nullptr}};
}

// One entry of `axis` for each index; the other axes are whole.
Params take_params(const Shape& x, std::size_t axis, std::size_t index_rank, const char* mode) {
  Dims sizes = x.to_dims();
  sizes[axis] = 1;
  return gather_params(take_dims(x.rank(), axis, index_rank), sizes, mode);
}

Params take_along_params(const Shape& x, std::size_t axis, const char* mode) {
  const Dims others = other_axes(x.rank(), Dims{to_dim(axis)});
  return gather_params({{}, {to_dim(axis)}, {to_dim(axis)}, others, others}, Dims(x.rank(), 1), mode);
}

}  // namespace

const Primitive gather_p{{
    .name = "gather",
    .doc = "y[b, w] = x[start(indices[b]) + w] for all windows b and positions w inside",
    .params = {"dimension_numbers", "slice_sizes", "mode", "fill_value"},
    .ignored_params = {"indices_are_sorted", "unique_indices"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("gather", in, 2);
      mode_of("gather", params);
      return {{in[0].dtype,
               gathered_shape("gather", gather_dims(params), in[0], in[1], params.dims("slice_sizes"))}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const Aval &x = q.x(0), &y = q.y();
      const Windows windows(gather_dims(q.params), x, q.x(1), y.shape, q.params.dims("slice_sizes"),
                            mode_of("gather", q.params));
      const std::size_t bytes = size_of(x.dtype);
      const StridedCopy copy(windows.extents, windows.result_strides, windows.x_strides, bytes, q.context);
      const Tensor fill = Tensor::full({x.dtype, {}}, fill_value(q.params, x.dtype));
      const StridedCopy spread(windows.extents, windows.result_strides, Dims(windows.extents.size(), 0),
                               bytes, q.context);
      return {[=](const KernelArgs& k) {
        windows.for_each(k.in[1], [&](std::int64_t from, std::int64_t to, bool inside) {
          if (inside)
            copy(k.in[0], from, k.out[0], to);
          else
            spread(fill.bytes(), 0, k.out[0], to);
        });
      }};
    },
    .emit = gather_code,
    .axes = gather_axes,
    .facts =
        [](const FactRequest& q) {
          if (mode_of("gather", q.params) == Mode::FillOrDrop)
            return Facts{.zeros = q.x(0).zeros, .shows = Shows::Part};
          return FactRequest{q.params, q.in.first(1), q.out, q.known.first(1), false}.moved(Shows::Part);
        },
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(gather_p, {dx[0], x[1]}, params.with("fill_value", 0.0))};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      return {bind1(scatter_add_p, {zeros_of(in[0]), x[1], ct[0]},
                    {{"dimension_numbers", scatter_attr(gather_dims(params))},
                     {"mode", mode_of("gather", params) == Mode::Clip ? "clip" : "fill_or_drop"}}),
              {}};
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched,
                std::int64_t n) -> Arrays {
      Dims sizes = params.dims("slice_sizes");
      if (batched[0]) sizes = with_front(batched[1] ? 1 : n, sizes);
      const WindowDims d = batched_dims(gather_dims(params), batched[0], batched[1]);
      return {bind1(gather_p, {x[0], x[1]},
                    params.with("dimension_numbers", gather_attr(d)).with("slice_sizes", sizes))};
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(3, 6);
      const WindowDims corner{{1, 2}, {}, {0, 1}, {}, {}};  // a window of two axes for each index pair
      return {{{r.floats({n, 4}), r.ints({5, 1}, 0, n - 1)}, take_params({n, 4}, 0, 1, "promise_in_bounds")},
              {{r.floats({3, n}), r.ints({2, 2, 1}, -3, 9)}, take_params({3, n}, 1, 2, "clip")},
              {{r.floats({n}), r.ints({4, 1}, -2, 7, Dtype::I64)},
               take_params({n}, 0, 1, "fill_or_drop").with("fill_value", 0.5)},
              {{r.floats({n, 4}), r.ints({3, 2}, -1, 3)}, gather_params(corner, {2, 3}, "clip")},
              {{r.floats({n, 4}, Dtype::F32), r.ints({3, 2}, -1, 3)}, gather_params(corner, {2, 0}, "clip")},
              {{r.floats({n, 4, 2}), r.ints({n, 3, 2, 1}, 0, 3)}, take_along_params({n, 4, 2}, 1, "clip")},
              {{r.floats({n, 3}), r.ints({0, 1}, 0, 2)}, take_params({n, 3}, 1, 1, "clip")},
              {{r.floats({2, 0}), r.ints({3, 1}, 0, 1)}, take_params({2, 0}, 0, 1, "clip")},
              {{r.floats({n}), r.ints({1}, 0, n - 1)}, take_params({n}, 0, 0, "clip")},
              {{r.ints({n}, -9, 9), r.ints({4, 1}, -2, 8)}, take_params({n}, 0, 1, "fill_or_drop"), false}};
    },
}};

Array take(const Array& x, const Array& indices, int axis) {
  const std::size_t d = to_index(normalize_axis("take", axis, x.rank()));
  const Array starts = expand_dims(wrap_negative("take", indices, x.shape()[d]), {-1});
  return bind1(gather_p, {x, starts}, take_params(x.shape(), d, indices.rank(), "clip"));
}

Array structure::gather_along_axis(const Array& x, const Array& indices, std::size_t axis) {
  if (indices.size() == 0) return zeros_of({x.dtype(), indices.shape()});  // also where the axis is empty
  return bind1(gather_p, {x, expand_dims(indices, {-1})}, take_along_params(x.shape(), axis, "clip"));
}

Array take_along_axis(const Array& x, const Array& indices, int axis) {
  const std::size_t d = to_index(normalize_axis("take_along_axis", axis, x.rank()));
  if (indices.rank() != x.rank() || indices.shape().with(d, 0) != x.shape().with(d, 0))
    refuse("take_along_axis", "the indices " + to_string(indices.aval()) + " must have the shape of " +
                                  to_string(x.aval()) + " except along axis " + std::to_string(d));
  return gather_along_axis(x, wrap_negative("take_along_axis", indices, x.shape()[d]), d);
}

Array one_hot(const Array& indices, std::int64_t num, Dtype dtype) {
  const Shape shape(joined(indices.shape().to_dims(), {num}));
  const Array positions = iota(indices.dtype(), shape, -1);
  return convert(equal_to(broadcast_to(expand_dims(indices, {-1}), shape), positions), dtype);
}

}  // namespace etrace
