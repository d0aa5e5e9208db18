// The jaxpr as the emitter wants it: calls inlined, operations without code for the target expanded,
// constants folded, nothing computed twice.
#pragma once

#include "emit/target.h"
#include "etrace/ir.h"

namespace etrace::emit {

ClosedJaxpr prepare(const ClosedJaxpr&, const Target&);

}  // namespace etrace::emit
