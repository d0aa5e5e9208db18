// Values for which a gradient is not exact. Theory follows ways through a step; whether what it finds cancels
// for all values (a mask that is zero where it counts, what is even of two entries that are each other's
// opposite) only values tell. Private to verify/.
#pragma once

#include <vector>

#include "etrace/verify.h"

namespace etrace {

// What is called approximate and is exact on every draw of short random sequences, states and parameters is
// called possibly approximate from then on.
void keep_what_is_seen(const ETraceGraph&, const LearningRule&, std::vector<LeafExpectation>&);

}  // namespace etrace
