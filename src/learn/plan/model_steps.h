// A model over several steps, without a learning rule: the one loop behind forward passes, scores, reference
// gradients and the fit of an estimate. On Arrays, to be recorded into programs. It is plain on purpose:
// learners cut their steps (step_split.h), and this is what they are held against.
#pragma once

#include "etrace/plan.h"

namespace etrace {

class ModelSteps {
 public:
  explicit ModelSteps(const Model&);  // must outlive it

  // Positions among the model's inputs: parameter leaves and states, in the order of the inputs as for a
  // learner.
  const std::vector<std::size_t>& params() const { return params_; }
  const std::vector<std::size_t>& states() const { return states_; }

  // One step: arguments by number.
  struct Step {
    Arrays states, results;
  };
  Step step(ArraySpan params, ArraySpan states, ArraySpan args) const;
  // K steps on arguments [K, …]; so are the results.
  Step run(ArraySpan params, ArraySpan states, ArraySpan args, std::int64_t steps) const;

  struct Scored {
    Array losses;  // [K], or as the step function gives them for a window
    Arrays aux, states;
  };
  Scored step(ArraySpan params, ArraySpan states, const StepProgram&, ArraySpan slices) const;
  // Slices [K, …], for step functions of one step and of windows of K. `param_per_step`: parameters [K, …].
  Scored run(ArraySpan params, ArraySpan states, const StepProgram&, ArraySpan slices, std::int64_t steps,
             bool param_per_step = false) const;

 private:
  const Model& model_;
  std::vector<std::size_t> params_, states_;
};

}  // namespace etrace
