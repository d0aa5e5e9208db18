// The jaxpr as the emitter wants it: calls inlined, operations without code for the target expanded,
// constants folded, nothing computed twice.
#pragma once

#include "emit/target.h"
#include "etrace/ir.h"

namespace etrace::emit {

ClosedJaxpr prepare(const ClosedJaxpr&, const Target&);

// Cheap values anew for each of their readers (recompute.cpp).
ClosedJaxpr recompute_cheap(const ClosedJaxpr&);

}  // namespace etrace::emit
