// The descriptor of a trace_window, and the tables of its kernels. Private to ops/.
#pragma once

#include "core/named_kernel.h"
#include "kernels/trace_geometry.h"
#include "ops/trace_window.h"

namespace etrace::trace_pass {

struct Described {
  etp_trace_window d{};
  Tensors tables;
};

// For the forms that walk rows of columns.
Described describe(const KernelRequest&);
// For the others, given what describe() says; patches: none if slots are no positions × rows × columns, with
// the sources of a patch along one of these and the anchors at a position along the other.
std::optional<Described> describe_patches(const KernelRequest&, const etp_trace_window&);
Described describe_lines(const KernelRequest&, const etp_trace_window&);
Described describe_wide(const KernelRequest&, const etp_trace_window&);

}  // namespace etrace::trace_pass
