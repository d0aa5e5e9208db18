// What the rules and the kernel of trace_window share. Private to ops/.
#pragma once

#include <optional>

#include "etrace/ops/trace_window.h"

namespace etrace::trace {

// Where each operand stands.
struct Layout {
  explicit Layout(const Params&);
  std::size_t trace = 0, transition = 1, injection = 2;
  std::optional<std::size_t> source, gain, entry, weighted;
  std::size_t count = 3;
};

TracePattern pattern_of(const Params&);
Kernel make_kernel(const KernelRequest&);

}  // namespace etrace::trace
