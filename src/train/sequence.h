// The sequences that a model file carries.
#pragma once

#include "etrace/expected.h"
#include "etrace/model_io.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// The run that brings arguments, targets and outputs; null if there is none.
const ExpectedRun* reference_run(const Model&);

}  // namespace etrace::train
#pragma GCC visibility pop
