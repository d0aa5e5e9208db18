// Batches of series whose lengths differ: samples stand still in steps that are padding.
#pragma once

#include "etrace/learning_rule.h"
#include "etrace/model_io.h"

#pragma GCC visibility push(default)
namespace etrace::train {

// The step with one argument more, `active` [batch]: a sample for which it is 0 keeps its states. States
// without an axis of samples (random keys) move on.
Model with_padding(const Model&, std::int64_t batch, Dtype);

// Whether the rule can let single samples of a batch stand still. Those that count the steps of a whole batch
// (pp_prop) cannot.
bool freezes_samples(const LearningRule&);

}  // namespace etrace::train
#pragma GCC visibility pop
