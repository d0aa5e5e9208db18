// All passes. c_printer.h makes text of the result.
#pragma once

#include "emit/program.h"

namespace etrace::emit {

EmitProgram build(const Program&);  // ready for a printer

}  // namespace etrace::emit
