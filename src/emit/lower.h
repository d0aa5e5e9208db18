// From jaxpr to the emitted program's first form: one step per equation, views composed, every result stored.
// What is superfluous goes in fuse.cpp.
#pragma once

#include "emit/program.h"
#include "emit/target.h"

namespace etrace::emit {

EmitProgram lower(const Program&, const Target&);

}  // namespace etrace::emit
