// Windows of gather and scatter; see the header.
#include "ops/index_common.h"

#include <algorithm>

#include "etrace/ops/elementwise.h"

namespace etrace::structure {

namespace {

struct Keys {
  const char *window, *collapsed, *index_map, *indices_batching;
};
constexpr Keys kGather{"offset_dims", "collapsed_slice_dims", "start_index_map",
                       "start_indices_batching_dims"};
constexpr Keys kScatter{"update_window_dims", "inserted_window_dims", "scatter_dims_to_operand_dims",
                        "scatter_indices_batching_dims"};

WindowDims read_dims(std::string_view op, const Params& params, const Keys& keys) {
  const Attr* attr = params.find("dimension_numbers");
  const Attr::Dict* dict = attr == nullptr ? nullptr : attr->dict_items();
  if (dict == nullptr)
    throw CompilationError(std::string(op),
                           std::string("parameter 'dimension_numbers' must be a record with ") + keys.window +
                               ", " + keys.collapsed + " and " + keys.index_map);
  const Params p(*dict);
  return {p.dims(keys.window), p.dims(keys.collapsed), p.dims(keys.index_map),
          p.dims_or("operand_batching_dims", {}), p.dims_or(keys.indices_batching, {})};
}

Attr write_dims(const WindowDims& d, const Keys& keys) {
  return Attr::dict({{keys.window, d.window},
                     {keys.collapsed, d.collapsed},
                     {keys.index_map, d.index_map},
                     {"operand_batching_dims", d.operand_batching},
                     {keys.indices_batching, d.indices_batching}});
}

void check_ascending(std::string_view op, std::string_view what, const Dims& axes, std::size_t rank) {
  check_axes(op, what, axes, rank);
  if (!std::is_sorted(axes.begin(), axes.end()))
    refuse(op, std::string(what) + " " + show(axes) + " must ascend");
}

// Operand axes that a window shows.
Dims shown_axes(const WindowDims& d, std::size_t rank) {
  return other_axes(rank, joined(d.collapsed, d.operand_batching));
}

}  // namespace

WindowDims gather_dims(const Params& params) { return read_dims("gather", params, kGather); }
WindowDims scatter_dims(const Params& params) { return read_dims("scatter", params, kScatter); }
Attr gather_attr(const WindowDims& d) { return write_dims(d, kGather); }
Attr scatter_attr(const WindowDims& d) { return write_dims(d, kScatter); }

WindowDims batched_dims(const WindowDims& d, bool operand, bool indices) {
  WindowDims out = d;
  out.window = shifted(d.window);
  if (operand) {
    out.collapsed = shifted(d.collapsed);
    out.index_map = shifted(d.index_map);
    out.operand_batching = shifted(d.operand_batching);
  }
  if (indices) out.indices_batching = shifted(d.indices_batching);
  if (operand && indices) {
    out.operand_batching = with_front(0, out.operand_batching);
    out.indices_batching = with_front(0, out.indices_batching);
  } else if (operand) {
    out.window = with_front(0, out.window);
  }
  return out;
}

WindowAxis window_axis(const WindowDims& d, const Shape& operand, const Shape& windows, const Dims& sizes,
                       std::size_t axis) {
  const Dims vectors = other_axes(windows.rank(), d.window);
  for (std::size_t k = 0; k < d.operand_batching.size(); ++k)
    if (d.operand_batching[k] == to_dim(axis)) {
      const std::size_t of_indices = to_index(d.indices_batching[k]);
      return {to_index(vectors[of_indices]), of_indices};
    }
  const Dims shown = other_axes(operand.rank(), joined(d.collapsed, d.operand_batching));
  const auto at = std::find(shown.begin(), shown.end(), to_dim(axis));
  if (at == shown.end() || sizes[axis] != operand[axis]) return {};
  return {to_index(d.window[to_index(at - shown.begin())]), {}};
}

WindowDims take_dims(std::size_t rank, std::size_t axis, std::size_t index_rank) {
  const Dims behind = axis_range(to_dim(axis + index_rank), to_dim(rank - axis - 1));
  return {joined(axis_range(0, to_dim(axis)), behind), {to_dim(axis)}, {to_dim(axis)}, {}, {}};
}

Array wrap_negative(std::string_view op, const Array& indices, std::int64_t size) {
  const Dtype dtype = indices.dtype();
  if (!is_integer(dtype))
    refuse_type(
        op, "the indices " + to_string(indices.aval()) + " must be integers; convert them to int32 first");
  if (dtype == Dtype::U32) return indices;
  return where(indices < full({}, std::int64_t{0}, dtype), indices + full({}, size, dtype), indices);
}

Mode mode_of(std::string_view op, const Params& params) {
  static constexpr std::array<std::string_view, 3> kNames{"clip", "fill_or_drop", "promise_in_bounds"};
  const Attr* attr = params.find("mode");
  if (attr == nullptr || attr->is_null()) return Mode::FillOrDrop;
  std::string text;
  if (const auto* number = attr->get_if<std::int64_t>(); number != nullptr && *number >= 0 && *number < 3)
    text = kNames[to_index(*number)];
  else if (const auto* word = attr->get_if<std::string>())
    text = *word;
  constexpr std::string_view kPrefix = "gatherscattermode.";
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  if (text.starts_with(kPrefix)) text.erase(0, kPrefix.size());
  if (text == "fill_or_drop" || text == "fill" || text == "drop") return Mode::FillOrDrop;
  if (text == "clip" || text == "promise_in_bounds") return Mode::Clip;
  throw CompilationError(std::string(op), "parameter 'mode' must be clip, fill_or_drop or promise_in_bounds" +
                                              (text.empty() ? std::string() : ", but is '" + text + "'"));
}

Shape gathered_shape(std::string_view op, const WindowDims& d, const Aval& x, const Aval& indices,
                     const Dims& sizes) {
  const std::size_t rank = x.shape.rank();
  if (!is_integer(indices.dtype))
    refuse_type(op, "the indices " + to_string(indices) + " must be integers; convert them to int32 first");
  if (indices.shape.is_scalar())
    refuse(op, "the indices need a last axis that holds the components of an index, even of size 1");
  if (indices.shape.back() != to_dim(d.index_map.size()))
    refuse(op, "the last axis of the indices " + to_string(indices) + " must have size " +
                   std::to_string(d.index_map.size()) + ", one component for each of the operand axes " +
                   show(d.index_map));
  check_axes(op, "the index map", d.index_map, rank);
  check_ascending(op, "collapsed axes", d.collapsed, rank);
  check_axes(op, "batching axes of the operand", d.operand_batching, rank);
  check_axes(op, "batching axes of the indices", d.indices_batching, indices.shape.rank() - 1);
  check_axes(op, "axes", joined(d.collapsed, d.operand_batching), rank);
  check_axes(op, "axes", joined(d.index_map, d.operand_batching), rank);
  if (d.operand_batching.size() != d.indices_batching.size())
    refuse(op, "batching axes " + show(d.operand_batching) + " of the operand and " +
                   show(d.indices_batching) + " of the indices must come in pairs");
  for (std::size_t i = 0; i < d.operand_batching.size(); ++i)
    if (x.shape[to_index(d.operand_batching[i])] != indices.shape[to_index(d.indices_batching[i])])
      refuse(op, "the operand " + to_string(x) + " and the indices " + to_string(indices) +
                     " differ in size along their batching axes " + show(d.operand_batching) + " and " +
                     show(d.indices_batching));
  if (sizes.size() != rank)
    refuse(op, "the window sizes " + show(sizes) + " must have one entry for each axis of " + to_string(x));
  for (std::size_t i = 0; i < rank; ++i) {
    const bool unit = contains(d.collapsed, to_dim(i)), batching = contains(d.operand_batching, to_dim(i));
    if ((unit || batching) && sizes[i] != 1)
      refuse(op, "the window has size " + std::to_string(sizes[i]) + " along axis " + std::to_string(i) +
                     ", but a collapsed or batching axis must have 1");
    if (!batching && (sizes[i] < 0 || sizes[i] > x.shape[i]))
      refuse(op, "a window of sizes " + show(sizes) + " does not fit into the operand " + to_string(x));
  }
  const Dims shown = shown_axes(d, rank);
  const std::size_t out_rank = indices.shape.rank() - 1 + shown.size();
  if (d.window.size() != shown.size())
    refuse(op, "the window shows " + std::to_string(shown.size()) + " axes, but " + show(d.window) +
                   " names " + std::to_string(d.window.size()) + " places for them");
  check_ascending(op, "window axes", d.window, out_rank);
  Dims out;
  for (std::size_t i = 0, in_window = 0, vector = 0; i < out_rank; ++i)
    out.push_back(contains(d.window, to_dim(i)) ? sizes[to_index(shown[in_window++])]
                                                : indices.shape[vector++]);
  return {out};
}

Dims update_window_sizes(std::string_view op, const WindowDims& d, const Aval& x, const Aval& updates) {
  const Dims shown = shown_axes(d, x.shape.rank());
  check_ascending(op, "window axes", d.window, updates.shape.rank());
  if (d.window.size() != shown.size())
    refuse(op, "the window shows " + std::to_string(shown.size()) + " axes of the operand " + to_string(x) +
                   ", but " + show(d.window) + " names " + std::to_string(d.window.size()) +
                   " axes of the updates");
  Dims sizes(x.shape.rank(), 1);
  for (std::size_t i = 0; i < shown.size(); ++i)
    sizes[to_index(shown[i])] = updates.shape[to_index(d.window[i])];
  return sizes;
}

Windows::Windows(const WindowDims& d, const Aval& x, const Aval& indices, const Shape& result,
                 const Dims& sizes, Mode mode)
    : read_(index_reader(indices.dtype)), mode_(mode) {
  const Dims in_x = strides_of(x.shape), in_indices = strides_of(indices.shape),
             in_result = strides_of(result);
  const Dims shown = shown_axes(d, x.shape.rank());
  extents = pick(sizes, shown);
  x_strides = pick(in_x, shown);
  result_strides = pick(in_result, d.window);
  for (std::size_t k = 0; k < d.index_map.size(); ++k) {
    const std::size_t axis = to_index(d.index_map[k]);
    components_.push_back({to_dim(k), x.shape[axis] - sizes[axis], in_x[axis]});
  }
  const std::size_t vector_rank = indices.shape.rank() - 1;
  Dims batch_strides(vector_rank, 0);
  for (std::size_t i = 0; i < d.operand_batching.size(); ++i)
    batch_strides[to_index(d.indices_batching[i])] = in_x[to_index(d.operand_batching[i])];
  vectors_ = Box<3>(indices.shape.dims().first(vector_rank),
                    {pick(in_result, other_axes(result.rank(), d.window)),
                     Dims(in_indices.begin(), in_indices.end() - 1), batch_strides});
}

}  // namespace etrace::structure
