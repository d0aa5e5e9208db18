// Types at the border of a graph's step.
#pragma once

#include "etrace/learning_rule.h"
#include "io/step_outputs.h"

namespace etrace {

Avals argument_types(const ETraceGraph&);  // by argument number
Avals result_types(const ETraceGraph&);
Avals state_types(const ETraceGraph&);  // hidden and other states, in the order of the program's inputs
std::vector<StatePath> state_paths(const ETraceGraph&);
// Per state: whether its leading axis counts samples. For a mask per sample of so many: NotSupportedError if
// nothing says it of a state that has such an axis.
std::vector<bool> states_per_sample(const ETraceGraph&);
void require_known_samples(const ETraceGraph&, std::int64_t samples);
Dtype working_dtype(const ETraceGraph&);  // of the first hidden state: in it losses are weighted
// A third factor as a learner keeps it: a bare number in the working type, memory of others copied.
Array kept_modulator(const ETraceGraph&, const Array&);
// The one that the rule comes with; undefined: none.
Array standing_modulator(const ETraceGraph&, const LearningRule&);

}  // namespace etrace
