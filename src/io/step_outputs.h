// Which input and output of a step is what. Records are found by number and by path: they may stand in any
// order.
#pragma once

#include <optional>

#include "etrace/array.h"
#include "etrace/model_io.h"

#pragma GCC visibility push(default)
namespace etrace {

inline bool is_state(Role role) { return role == Role::Hidden || role == Role::Other; }
std::string state_leaf_name(const InputRecord&);  // "rnn/h", "rnn/W/weight.bias"

// Types of the step's arguments and results by their number.
Avals argument_types(const Model&);
Avals result_types(const Model&);

// The step's results by their number: positions among the program's outputs.
std::vector<std::size_t> result_outputs(const Model&);
// For every state that the step takes (hidden and other, in the order of the inputs) the position of its new
// value among the program's outputs; none: it keeps the old one.
std::vector<std::optional<std::size_t>> state_outputs(const Model&);

// The same from the values of all outputs; behind those of the model there may be more.
Arrays results_of(const Model&, ArraySpan outputs);
Arrays new_states_of(const Model&, ArraySpan old_states, ArraySpan outputs);

}  // namespace etrace
#pragma GCC visibility pop
