// The whole compilation, continuing a list of records.
#pragma once

#include "etrace/compiler.h"

namespace etrace {

ETraceGraph compile_traced_step(const Model&, const CompileOptions&, Reporter);

}  // namespace etrace
