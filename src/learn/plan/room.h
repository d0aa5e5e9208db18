// What learning takes on a device, and what other ways would take. Private to the library.
#pragma once

#include <optional>

#include "etrace/plan.h"

namespace etrace {

// Bytes of traces that another rule would have for this graph's model; none if it cannot be bound to it.
std::optional<std::int64_t> trace_bytes_with(const ETraceGraph&, VjpMethod, std::string_view rule,
                                             const RuleOptions&);

// ValueError, before anything is allocated, if parameters, gradients, traces and what a window keeps do not
// fit into `free` bytes of a backend's memory: what each of them takes, and what would take less.
void require_room(const ETraceGraph&, const LearningRule&, VjpMethod, const ExecutionChoice&,
                  std::string_view backend, std::size_t free);

}  // namespace etrace
