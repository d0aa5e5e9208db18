#include "ops/trace_geometry.h"

#include <algorithm>

#include "runtime/thread_pool.h"

namespace etrace::trace {

Index Geometry::matrices() const {
  Index n = 1;
  for (const Axis& a : outer) n *= a.size;
  return n;
}

Axis Geometry::start_of(Index matrix) const {
  Axis start{0, 0, 0, 0};
  for (std::size_t a = outer.size(); a-- > 0;) {
    const Index i = matrix % outer[a].size;
    matrix /= outer[a].size;
    start.source += i * outer[a].source;
    start.anchor += i * outer[a].anchor;
    start.parameter += i * outer[a].parameter;
  }
  return start;
}

Index threads_that_pay(const Geometry& g) {
  constexpr Index kPartWork = 1 << 16;  // trace elements that outweigh the hand-over to another thread
  return std::clamp<Index>(g.slots * g.batch * g.states / kPartWork, 1, default_pool().size());
}

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

Geometry geometry_of(const KernelRequest& r) {
  const Layout at(r.params);
  const TracePattern p = pattern_of(r.params);
  Geometry g{};
  g.batch = r.x(at.trace).shape[0], g.states = r.x(at.trace).shape[1];
  g.steps = r.x(at.injection).shape[0], g.positions = r.x(at.injection).shape[3];
  g.elements = at.source ? r.x(*at.source).shape[2] : 0;
  g.slots = p.slots.size();
  g.shared = !p.position_axes.empty();
  const std::vector<Axis> axes = axes_of(p, at.source.has_value(), g.parameters);
  if (!p.anchor_table.empty() || (at.source && !p.source_table.empty())) {
    g.anchor = p.anchors();
    g.source = at.source ? p.sources() : std::vector<Index>(g.anchor.size(), 0);
    const Dims strides = strides_of(p.slots);
    for (Index s = 0; s < g.slots; ++s) {
      Index place = 0;
      for (std::size_t a = 0; a < axes.size(); ++a)
        place += s / strides[a] % axes[a].size * axes[a].parameter;
      g.parameter.push_back(place);
    }
    g.column = {g.slots, 1, 1, 1};
    return g;
  }
  std::vector<Axis> joined;
  for (const Axis& axis : axes) {
    if (axis.size == 1) continue;
    if (!joined.empty() && joined.back().joins(axis))
      joined.back() = {joined.back().size * axis.size, axis.source, axis.anchor, axis.parameter};
    else
      joined.push_back(axis);
  }
  if (!joined.empty()) {
    g.column = joined.back();
    joined.pop_back();
  }
  if (!joined.empty()) {
    g.row = joined.back();
    joined.pop_back();
  }
  g.outer = std::move(joined);
  return g;
}

}  // namespace etrace::trace
