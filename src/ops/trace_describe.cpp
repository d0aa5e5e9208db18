#include "ops/trace_describe.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>

#include "ops/sparse_lines.h"
#include "ops/structure_common.h"

namespace etrace::trace_pass {

namespace {

template <class T>
Tensor table(const std::vector<T>& values) {
  return Tensor::of(values, {static_cast<std::int64_t>(values.size())});
}

// One per slot axis, as the strides of a pattern say; and how many elements the parameter has.
std::vector<Axis> axes_of(const TracePattern& p, bool has_source, Index& parameters) {
  std::vector<Axis> axes(p.slots.rank());
  parameters = 1;
  for (std::size_t a = axes.size(); a-- > 0;) {
    axes[a] = {p.slots[a], 0, 0, 0};
    if (!p.anchor_strides.empty()) axes[a].anchor = p.anchor_strides[a];
    if (!p.source_strides.empty() && has_source) axes[a].source = p.source_strides[a];
    if (std::count(p.position_axes.begin(), p.position_axes.end(), static_cast<int>(a)) > 0) continue;
    axes[a].parameter = parameters;
    parameters *= p.slots[a];
  }
  return axes;
}

// Which element of the parameter each slot adds to.
std::vector<Index> parameters_of(const TracePattern& p, const std::vector<Axis>& axes) {
  const Dims strides = strides_of(p.slots);
  std::vector<Index> out;
  for (Index s = 0; s < p.slots.size(); ++s) {
    Index place = 0;
    for (std::size_t a = 0; a < axes.size(); ++a) place += s / strides[a] % axes[a].size * axes[a].parameter;
    out.push_back(place);
  }
  return out;
}

std::vector<Axis> joined_axes(const std::vector<Axis>& axes) {
  std::vector<Axis> joined;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!joined.empty() && joined.back().joins(axis))
      joined.back() = {joined.back().size * axis.size, axis.source, axis.anchor, axis.parameter};
    else
      joined.push_back(axis);
  }
  return joined;
}

void set_row(etp_trace_window& d, const Axis& a) {
  d.row_size = a.size, d.row_source = a.source, d.row_anchor = a.anchor, d.row_parameter = a.parameter;
}
void set_column(etp_trace_window& d, const Axis& a) {
  d.column_size = a.size, d.column_source = a.source, d.column_anchor = a.anchor;
  d.column_parameter = a.parameter;
}

Tensor outer_table(const std::vector<Axis>& outer) {
  std::vector<Index> out;
  for (const Axis& a : outer) out.insert(out.end(), {a.size, a.source, a.anchor, a.parameter});
  return table(out);
}

}  // namespace

Described describe(const KernelRequest& r) {
  const Layout at(r.params);
  const TracePattern p = pattern_of(r.params);
  Described out;
  etp_trace_window& d = out.d;
  d.dtype = static_cast<Index>(r.x(at.injection).dtype), d.stored = static_cast<Index>(r.x(at.trace).dtype);
  d.batch = r.x(at.trace).shape[0], d.states = r.x(at.trace).shape[1];
  d.steps = r.x(at.injection).shape[0], d.positions = r.x(at.injection).shape[3];
  d.elements = at.source ? r.x(*at.source).shape[2] : 0;
  d.slots = p.slots.size();
  d.has_gain = at.gain ? 1 : 0, d.has_gradient = at.entry ? 1 : 0;
  d.has_weighted = at.weighted ? 1 : 0, d.has_total = at.total ? 1 : 0;
  d.shared = p.position_axes.empty() ? 0 : 1;
  d.wanted_threads = r.params.has("threads") ? std::max<Index>(1, r.params.integer("threads")) : 0;
  d.matrices = 1;
  const std::vector<Axis> axes = axes_of(p, at.source.has_value(), d.parameters);
  if (!p.anchor_table.empty() || (at.source && !p.source_table.empty())) {
    d.gathered = 1;
    set_row(d, {1, 0, 0, 0});
    set_column(d, {d.slots, 1, 1, 1});
    const std::vector<Index> anchors = p.anchors();
    out.tables = {outer_table({}), table(at.source ? p.sources() : std::vector<Index>(anchors.size(), 0)),
                  table(anchors), table(parameters_of(p, axes))};
    return out;
  }
  std::vector<Axis> outer = joined_axes(axes);
  const auto take = [&]() -> Axis {
    if (outer.empty()) return {1, 0, 0, 0};
    const Axis last = outer.back();
    outer.pop_back();
    return last;
  };
  set_column(d, take());
  set_row(d, take());
  d.outer_axes = static_cast<Index>(outer.size());
  for (const Axis& a : outer) d.matrices *= a.size;
  out.tables = {outer_table(outer)};
  return out;
}

// Patches ---------------------------------------------------------------------------------------------------
namespace {

constexpr Index kRowsAtMost = 4096;  // of a matrix: its sums stay in the caches

// Along one kind of axes: where each index stands in the source or among the anchors, in the slots, in the
// parameter.
struct Places {
  std::vector<Index> data, slot, parameter;
};

struct PatchPlaces {
  bool anchored_columns = true;  // else the rows are the anchors
  Places rows, columns;
  std::vector<Index> position_slot, position_source, position_anchor;

  // False if they are no patches.
  bool lay_out(const std::vector<Axis>& all, const Dims& all_strides) {
    std::vector<Axis> axes;
    Dims slot_strides;
    std::vector<Kind> kinds;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Axis& a = all[i];
      if (a.size == 1) continue;
      if (a.parameter != 0 && a.anchor != 0 && a.source != 0) return false;
      axes.push_back(a);
      slot_strides.push_back(all_strides[i]);
      kinds.push_back(a.parameter == 0 ? Position : a.anchor != 0 ? Anchored : Sourced);
    }
    if (kinds.empty() || kinds.back() == Position) return false;
    anchored_columns = kinds.back() == Anchored;
    std::size_t first_column = axes.size();
    while (first_column > 0 && kinds[first_column - 1] == kinds.back()) --first_column;
    rows = columns = {{0}, {0}, {0}};
    position_slot = position_source = position_anchor = {0};
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const Axis& x = axes[a];
      if (kinds[a] == Position) {
        position_slot = structure::spread(position_slot, x.size, slot_strides[a]);
        position_source = structure::spread(position_source, x.size, x.source);
        position_anchor = structure::spread(position_anchor, x.size, x.anchor);
        continue;
      }
      if (a < first_column && kinds[a] == kinds.back()) return false;  // one kind on both sides of the other
      Places& to = a >= first_column ? columns : rows;
      to.data = structure::spread(to.data, x.size, kinds[a] == Anchored ? x.anchor : x.source);
      to.slot = structure::spread(to.slot, x.size, slot_strides[a]);
      to.parameter = structure::spread(to.parameter, x.size, x.parameter);
    }
    return static_cast<Index>(rows.data.size() * columns.data.size()) <= kRowsAtMost;
  }

 private:
  enum Kind : std::uint8_t { Position, Anchored, Sourced };
};

}  // namespace

std::optional<Described> describe_patches(const KernelRequest& r, const etp_trace_window& known) {
  const TracePattern p = pattern_of(r.params);
  if (known.gathered != 0 || p.position_axes.empty() || known.slots == 0) return std::nullopt;
  if (known.steps * known.batch * std::max(known.elements, known.states * known.positions) >
      std::numeric_limits<std::int32_t>::max())
    return std::nullopt;
  Index parameters = 0;
  PatchPlaces f;
  if (!f.lay_out(axes_of(p, Layout(r.params).source.has_value(), parameters), strides_of(p.slots)))
    return std::nullopt;
  Described out{known,
                {table(f.rows.data), table(f.rows.slot), table(f.rows.parameter), table(f.columns.data),
                 table(f.columns.parameter), table(f.position_slot), table(f.position_source),
                 table(f.position_anchor)}};
  out.d.anchored_columns = f.anchored_columns ? 1 : 0;
  out.d.row_count = static_cast<Index>(f.rows.data.size());
  out.d.column_count = static_cast<Index>(f.columns.data.size());
  out.d.position_count = static_cast<Index>(f.position_slot.size());
  return out;
}

// Lines -----------------------------------------------------------------------------------------------------
Described describe_lines(const KernelRequest& r, const etp_trace_window& known) {
  const bool has_source = Layout(r.params).source.has_value();
  const TracePattern p = pattern_of(r.params);
  const SharedList anchor = p.anchor_table.empty() ? SharedList(p.anchors()) : p.anchor_table;
  const SharedList source = !has_source ? SharedList(Dims(static_cast<std::size_t>(known.slots), 0))
                            : p.source_table.empty() ? SharedList(p.sources())
                                                     : p.source_table;
  const auto sorted = [](const SharedList& a) { return std::is_sorted(a.begin(), a.end()); };
  const bool by_anchor = sorted(anchor) || !sorted(source);
  Described out{known, {}};
  if (!has_source) out.d.elements = 1;
  const auto lines = by_anchor ? sparse_lines(anchor, source, known.positions)
                               : sparse_lines(source, anchor, out.d.elements);
  out.d.by_anchor = by_anchor ? 1 : 0;
  out.d.in_order = lines->in_order() ? 1 : 0;
  out.tables = tables_of(lines);
  return out;
}

// Wide ------------------------------------------------------------------------------------------------------
Described describe_wide(const KernelRequest& r, const etp_trace_window& known) {
  const TracePattern p = pattern_of(r.params);
  const std::vector<Index> anchor = p.anchors();
  std::vector<Index> first(static_cast<std::size_t>(known.positions) + 1, 0), slot(anchor.size());
  for (const Index a : anchor) ++first[static_cast<std::size_t>(a) + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<Index> next(first.begin(), first.end() - 1);
  for (std::size_t s = 0; s < anchor.size(); ++s)
    slot[static_cast<std::size_t>(next[static_cast<std::size_t>(anchor[s])]++)] = static_cast<Index>(s);
  // Whether the slots of the next position stand beside those of this one, one by one.
  Tensor beside = Tensor::zeros({Dtype::Bool, {known.positions}});
  for (std::size_t q = 0; q + 2 < first.size(); ++q)
    if (first[q + 1] - first[q] == first[q + 2] - first[q + 1] &&
        std::equal(slot.begin() + first[q], slot.begin() + first[q + 1], slot.begin() + first[q + 1],
                   [](Index a, Index b) { return a + 1 == b; }))
      beside.writable()[q] = std::byte{1};
  Index parameters = 0;
  const std::vector<Axis> axes = axes_of(p, known.elements > 0, parameters);
  return {known,
          {table(first), table(slot), table(known.elements > 0 ? p.sources() : std::vector<Index>{}),
           table(parameters_of(p, axes)), beside}};
}

}  // namespace etrace::trace_pass
