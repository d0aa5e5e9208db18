// All passes. c_printer.h makes text of the result.
#pragma once

#include "emit/program.h"

#pragma GCC visibility push(default)
namespace etrace::emit {

EmitProgram build(const Program&);  // ready for a printer

}  // namespace etrace::emit
#pragma GCC visibility pop
