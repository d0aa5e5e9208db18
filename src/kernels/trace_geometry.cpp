#include "kernels/trace_geometry.h"

#include <algorithm>

namespace etrace::trace_pass {

Geometry::Geometry(const etp_trace_window& d, const void* const* in)
    : etp_trace_window(d),
      row{d.row_size, d.row_source, d.row_anchor, d.row_parameter},
      column{d.column_size, d.column_source, d.column_anchor, d.column_parameter} {
  if (in == nullptr) return;
  outer = {table_of<Axis>(in, 0), static_cast<std::size_t>(d.outer_axes)};
  if (gathered == 0) return;
  source = table_of<Index>(in, 1), anchor = table_of<Index>(in, 2), parameter = table_of<Index>(in, 3);
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

Index threads_of(const etp_trace_window& d, Index chosen, Index most) {
  return std::clamp<Index>(d.wanted_threads > 0 ? d.wanted_threads : chosen, 1, std::max<Index>(1, most));
}

Index threads_that_pay(const etp_trace_window& d, Index threads, Index per_step) {
  constexpr Index kPartWork = 1 << 16;  // trace elements that outweigh the hand-over to another thread
  constexpr Index kSteps = 4;  // steps of a window that cost what reading and writing an element does
  const Index elements = d.slots * d.batch * d.states * std::max<Index>(1, d.steps * per_step / kSteps);
  return std::clamp<Index>(elements / kPartWork, 1, threads);
}

}  // namespace etrace::trace_pass
