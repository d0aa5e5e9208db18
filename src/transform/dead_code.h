// Dead-code elimination in place.
#pragma once

#include "etrace/ir.h"

namespace etrace {

// Equations, results and constants that nobody reads go. True if anything changed.
bool drop_dead_code(ClosedJaxpr&);

}  // namespace etrace
