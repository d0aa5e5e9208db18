// trace_window over many steps of a dense weight. Private to ops/.
#pragma once

#include "ops/trace_geometry.h"

namespace etrace::trace {

// The anchors of a row lie side by side, the row has one source, and no slots share a parameter.
bool tiles_fit(const Geometry&, const Layout&);
int tile_threads(const KernelRequest&);
template <class T>
Kernel tile_kernel(const KernelRequest&);

extern template Kernel tile_kernel<float>(const KernelRequest&);
extern template Kernel tile_kernel<double>(const KernelRequest&);

}  // namespace etrace::trace
