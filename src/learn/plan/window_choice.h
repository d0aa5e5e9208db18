// How many steps a single-step learner runs at once. Private to learn/.
//
// A window passes the traces and the gradients once in K steps and keeps, for each of its steps, x, y, f, D
// and the signals:
//
//   time per step ~ ((traces + gradients) / K + kept) / bandwidth        memory ~ traces + K · kept
//
// so that K grows where what is passed is large beside what is kept and K steps of that stay in the caches,
// and shrinks where K · kept leaves them altogether or passes a limit. (On two cores with 32 MB of cache: W1,
// W2, W3 at batch 1 take 5 to 15 % less time in windows of 64 than of 32, W2 at batch 32 a third more.) The
// choice follows from sizes alone and is the same on every machine.
#pragma once

#include <optional>

#include "etrace/plan.h"

namespace etrace {

// `wanted`: K, if it is not to be chosen. `memory_limit`: bytes for traces and windows; ValueError with the
// numbers if not even single steps keep to it.
ExecutionChoice choose_window(const ETraceGraph&, const BoundRule&, std::optional<std::int64_t> wanted,
                              std::optional<std::int64_t> memory_limit);

}  // namespace etrace
