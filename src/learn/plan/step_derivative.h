// The loss of one step back to its hidden states, operators and parameters, in two halves: what has to be
// computed with the step (residuals), and linear maps of these that are applied to all steps of a window at
// once.
#pragma once

#include "etrace/executor.h"
#include "learn/plan/own_steps.h"
#include "learn/plan/step_split.h"

#pragma GCC visibility push(default)
namespace etrace {

// (extra inputs of one step, its outputs) -> loss
using StepLoss = std::function<Array(ArraySpan extra, ArraySpan outputs)>;

// The losses of K steps and what they say to the hidden states, the operators and the parameters.
struct StepGradients {
  // Per group: dL/dh [K, *varshape, S] with the group's other states held, whose part is in the Jacobian;
  // past the states of other groups it is total.
  Arrays group_signal;
  Arrays before_signal;  // the same for the state before each step, past all new ones; empty: none
  Arrays cotangents;  // per relation: dL/dy [K, *y], total; undefined where OwnSteps does not place it there
  Arrays leaves;      // per parameter leaf, summed over the steps: the gradient beside the rule
};

class StepDerivative {
 public:
  // `extra`: types of the loss's own inputs, of which the first are these parameter leaves, read by the loss
  // itself. The graph must outlive it.
  StepDerivative(const ETraceGraph&, OwnSteps, const StepLoss&, std::span<const Aval> extra,
                 std::vector<std::size_t> own_params = {});

  std::size_t num_residuals() const;
  // Of one step, at these values.
  Arrays residuals(ArraySpan args, ArraySpan states, ArraySpan params, ArraySpan extra) const;
  // From the residuals of K steps; stacked[i]: with a leading axis K.
  StepGradients gradients(std::int64_t steps, ArraySpan residuals, const std::vector<bool>& stacked) const;

 private:
  // One linearisation, with some hidden states cut off from what they were computed from. What it is
  // differentiated by, true or false for each: hidden states after the step and states before it, results of
  // operators, parameter leaves; and parameters as the loss reads them itself.
  struct Way {
    std::vector<bool> cut, hidden, operators, leaves, before, direct;
    Linearization map = {};
  };
  Way nothing() const;
  Way through_everything() const;
  Way within(const HiddenGroup&) const;
  Way past_new_states() const;
  void add_way(const StepLoss&, std::span<const Aval> extra, Way);
  // Cotangents; undefined for what a way is not differentiated by.
  struct Found {
    Arrays hidden, operators, leaves, before, direct;  // all but parameters with a leading axis K
  };
  Found transposed(const Way&, std::int64_t steps, ArraySpan residuals,
                   const std::vector<bool>& stacked) const;
  Array group_signal(std::int64_t steps, const HiddenGroup&, const Found&) const;
  Array before_signal(std::int64_t steps, const HiddenGroup&, const Found&) const;

  const ETraceGraph& g_;
  ETraceGraphExecutor executor_;
  OwnSteps own_;
  std::vector<std::size_t> own_params_;  // leaves that the loss reads itself
  // Relations with place Cotangent, and the values added to their y.
  std::vector<std::size_t> operators_;
  std::vector<Var> operator_perturbations_;
  std::vector<Way> ways_;
};

}  // namespace etrace
#pragma GCC visibility pop
