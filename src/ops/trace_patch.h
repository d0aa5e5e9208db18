// trace_window where one parameter feeds many positions (convolution, shared bias). Private to ops/.
#pragma once

#include "ops/trace_geometry.h"

namespace etrace::trace {

// Slots are positions × rows × columns: the parameter has no axis for the positions; rows and columns are
// one of them the sources of a patch, the other the anchors at a position, or there is no source.
bool is_patch(const KernelRequest&);
int patch_threads(const KernelRequest&);
template <class T>
Kernel patch_kernel(const KernelRequest&, const Storage<T>&);

extern template Kernel patch_kernel(const KernelRequest&, const Storage<float>&);
extern template Kernel patch_kernel(const KernelRequest&, const Storage<double>&);

}  // namespace etrace::trace
