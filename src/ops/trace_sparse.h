// trace_window where slots name their anchor and source in tables, one slot per parameter. Private to ops/.
#pragma once

#include "ops/trace_geometry.h"

namespace etrace::trace {

// A table, and no parameter with several slots.
bool is_sparse(const KernelRequest&);
int sparse_threads(const KernelRequest&);
template <class T>
Kernel sparse_kernel(const KernelRequest&, const Storage<T>&);

extern template Kernel sparse_kernel(const KernelRequest&, const Storage<float>&);
extern template Kernel sparse_kernel(const KernelRequest&, const Storage<double>&);

}  // namespace etrace::trace
