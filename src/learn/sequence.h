// Whole sequences as one program: windows in a loop, gradients summed, parameters updated on the way.
#pragma once

#include "etrace/learner.h"

namespace etrace {

class SequenceDriver {
 public:
  // `window`: steps that run at once where the step function takes single steps.
  SequenceDriver(const PlanBuilder& builder, const StepProgram& program, std::int64_t window)
      : builder_(builder), program_(program), window_(window) {}

  // All steps of [T, …], gradients summed.
  PlanBuilder::Learned gradients(ArraySpan params, const Carry&, ArraySpan sequences, const Array& weights,
                                 bool freeze) const;
  struct Trained {
    Arrays params, optimizer;
    Carry carry;
    Array losses;
    Arrays aux;
  };
  // An update of the parameters after every `every` steps, and one after the rest.
  Trained train(ArraySpan params, ArraySpan optimizer_state, const Carry&, ArraySpan sequences,
                const Array& weights, bool freeze, const optim::Optimizer&, Reduction,
                std::int64_t every) const;

 private:
  const PlanBuilder& builder_;
  const StepProgram& program_;
  std::int64_t window_;
};

// The same without gradients: (results…, states…, memory…). active [T] or undefined.
Arrays evolve_sequence(const PlanBuilder&, ArraySpan params, const Carry&, ArraySpan sequences,
                       const Array& active, std::int64_t window);

// Gradients of Σ weight·loss, divided by the sum of the weights for a mean.
Arrays reduced(Arrays gradients, const Array& weights, Reduction, Compat);

}  // namespace etrace
