// How many steps a single-step learner runs at once. Private to learn/.
//
// A window passes the traces once in K steps and keeps, for each of its steps, x, f, D and the signals:
//
//   time per step ~ (traces / K + kept) / bandwidth        memory ~ traces + K · kept
//
// so that K grows with traces / kept until that no longer pays, and shrinks where K · kept leaves the caches
// or passes a limit. The choice follows from sizes alone and is the same on every machine.
#pragma once

#include <optional>

#include "etrace/plan.h"

namespace etrace {

// `wanted`: K, if it is not to be chosen. `memory_limit`: bytes for traces and windows; ValueError with the
// numbers if not even single steps keep to it.
ExecutionChoice choose_window(const ETraceGraph&, const BoundRule&, std::optional<std::int64_t> wanted,
                              std::optional<std::int64_t> memory_limit);

}  // namespace etrace
