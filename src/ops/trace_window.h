// What the rules and the kernel of trace_window share. Private to ops/.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "etrace/ops/trace_window.h"

namespace etrace::trace {

// Where each operand stands.
struct Layout {
  explicit Layout(const Params&);
  std::size_t trace = 0, transition = 1, injection = 2;
  std::optional<std::size_t> source, gain, entry, weighted, go, total;
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
// As many as the parameter `threads` asks for, else `chosen`; at most `most` have something to do.
int threads_of(const Params&, std::int64_t chosen, std::int64_t most);

}  // namespace etrace::trace
