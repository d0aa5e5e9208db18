// trace_window where a slot has many states, as under SnAp, whose traces follow the neighbours of a position.
// Private to ops/.
#pragma once

#include "ops/trace_geometry.h"

namespace etrace::trace {

bool is_wide(const KernelRequest&);  // from eight states on
int wide_threads(const KernelRequest&);
template <class T>
Kernel wide_kernel(const KernelRequest&, const Storage<T>&);

extern template Kernel wide_kernel(const KernelRequest&, const Storage<float>&);
extern template Kernel wide_kernel(const KernelRequest&, const Storage<double>&);

}  // namespace etrace::trace
