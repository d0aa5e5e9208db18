// The jaxpr as the emitter wants it: calls inlined, operations without code of their own expanded, constants
// folded, nothing computed twice.
#pragma once

#include "etrace/ir.h"

namespace etrace::emit {

ClosedJaxpr prepare(const ClosedJaxpr&);

}  // namespace etrace::emit
