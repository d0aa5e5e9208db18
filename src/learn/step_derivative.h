// The loss of one step back to its hidden states and parameters, in two halves: what has to be computed with
// the step (residuals), and linear maps of these that are applied to all steps of a window at once.
#pragma once

#include "etrace/executor.h"
#include "learn/step_split.h"

#pragma GCC visibility push(default)
namespace etrace {

// (extra inputs of one step, its outputs) -> loss
using StepLoss = std::function<Array(ArraySpan extra, ArraySpan outputs)>;

// The losses of K steps and what they say to the hidden states and the parameters.
struct StepGradients {
  Arrays group_signal;   // per group: dL/dh, [K, *varshape, S]
  Arrays entry_signal;   // the same for the state before each step, past the new ones; empty: none
  Arrays instantaneous;  // per parameter leaf, summed over the steps: the gradient that no trace carries
};

// By default a way between two states of one group within the step counts once, parameters outside of every
// relation (and those whose tails mix positions) get the gradient of the step, and what a loss reads of the
// old states counts; compat leaves all of that out.
class StepDerivative {
 public:
  // `extra`: types of the loss's own inputs.
  StepDerivative(const ETraceGraph&, const StepLoss&, std::span<const Aval> extra);

  std::size_t num_residuals() const;
  // Of one step, at these values.
  Arrays residuals(ArraySpan args, ArraySpan states, ArraySpan params, ArraySpan extra) const;
  // From the residuals of K steps; stacked[i]: with a leading axis K.
  StepGradients gradients(std::int64_t steps, ArraySpan residuals, const std::vector<bool>& stacked) const;

 private:
  // One linearisation, with some states cut off from what they were computed from.
  struct Way {
    std::vector<bool> cut;                              // per perturbation
    std::vector<std::size_t> perturbed, params, entry;  // what it is differentiated by
    Linearization map;
  };
  void add_way(const StepLoss&, std::span<const Aval> extra, Way);
  // Cotangents of perturbations [K, …], parameters and entry states [K, …] of one way.
  struct Found {
    Arrays perturbed, params, entry;
  };
  Found transposed(const Way&, std::int64_t steps, ArraySpan residuals,
                   const std::vector<bool>& stacked) const;
  Arrays group_signal(std::int64_t steps, const Way&, const Found&,
                      std::span<const std::size_t> groups) const;

  const ETraceGraph& g_;
  ETraceGraphExecutor executor_;
  std::vector<Way> ways_;
};

// Parameter leaves that get the whole gradient of a step beside what their traces carry: those that no
// relation has, and those with a tail that mixes positions.
std::vector<bool> leaves_with_step_gradient(const ETraceGraph&);
// Relations, and composite ones, whose own step is thereby counted.
std::vector<bool> relations_without_own_step(const ETraceGraph&);
std::vector<bool> composites_without_own_step(const ETraceGraph&);

}  // namespace etrace
#pragma GCC visibility pop
