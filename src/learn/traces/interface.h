// Types at the border of a graph's step.
#pragma once

#include "etrace/learning_rule.h"
#include "io/step_outputs.h"

namespace etrace {

Avals argument_types(const ETraceGraph&);  // by argument number
Avals result_types(const ETraceGraph&);
Avals state_types(const ETraceGraph&);  // hidden and other states, in the order of the program's inputs
std::vector<StatePath> state_paths(const ETraceGraph&);
bool holds_key(const InputRecord&);  // of random numbers, as its type says
std::vector<bool> states_per_sample(
    const ETraceGraph&);  // per state: whether its leading axis counts samples
// For samples that stand still one by one. NotSupportedError if nothing says whether an axis of this size
// counts samples, and for a state that all samples share and that goes on while some of them stand: a counter
// of steps, statistics over the batch. Random keys may.
void require_own_states(const ETraceGraph&, std::int64_t samples);
Dtype working_dtype(const ETraceGraph&);  // of the first hidden state: in it losses are weighted
// A third factor as a learner keeps it: a bare number in the working type, memory of others copied.
Array kept_modulator(const ETraceGraph&, const Array&);
// The one that the rule comes with; undefined: none.
Array standing_modulator(const ETraceGraph&, const LearningRule&);

}  // namespace etrace
