// The sequence that a model file carries.
#pragma once

#include "etrace/model_io.h"

namespace etrace::cli {

// The run that brings arguments, targets and outputs; null if there is none.
const ExpectedRun* reference_run(const Model&);

}  // namespace etrace::cli
