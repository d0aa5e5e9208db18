// Models over sequences: what a model file carries, and which inputs and outputs of a step play which part.
#pragma once

#include <initializer_list>
#include <vector>

#include "etrace/expected.h"
#include "etrace/model_io.h"

namespace etrace::cli {

// The run that brings arguments, targets and outputs; null if there is none.
const ExpectedRun* reference_run(const Model&);

// Indices into model.inputs.
std::vector<std::size_t> inputs_with(const Model&, std::initializer_list<Role>);
// Index into model.outputs of the state's new value. CompilationError if there is none.
std::size_t output_of_state(const Model&, const InputRecord& state);

}  // namespace etrace::cli
