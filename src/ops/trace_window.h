// What the rules and the kernel of trace_window share. Private to ops/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "etrace/ops/trace_window.h"

namespace etrace::trace_pass {

// Where each operand stands.
struct Layout {
  explicit Layout(const Params&);
  std::size_t trace = 0, transition = 1, injection = 2;
  std::optional<std::size_t> source, gain, entry, weighted, rounding, go, total;
  std::size_t count = 3;
};

TracePattern pattern_of(const Params&);
Kernel make_kernel(const KernelRequest&);

struct Choice {
  TraceForm form;
  int threads;
  std::string reason;
};
Choice choice_of(const KernelRequest&);  // what make_kernel() does
std::vector<TraceForm> forms_that_fit(const KernelRequest&);

}  // namespace etrace::trace_pass
