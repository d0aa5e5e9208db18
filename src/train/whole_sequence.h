// Backpropagation through time: reverse mode through a whole sequence, which needs all of its states at once.
// What the rule BPTT of a run trains with, and what online gradients are compared with.
#pragma once

#include <memory>
#include <optional>

#include "etrace/learner.h"
#include "session/program_run.h"

#pragma GCC visibility push(default)
namespace etrace::train {

class WholeSequence {
 public:
  // `step` sees single steps; sequences start from the states that the traced step holds. The module must
  // hold the parameters of the step, and outlive this.
  WholeSequence(Module&, const Model& traced, StepFunction step, std::string backend);

  struct Result {
    double loss = 0.0;  // the mean over the weights of the mask
    ParamValues grads;
    Tensors aux;
  };
  // With the parameters of the moment. Every sequence has as many steps as the first one had.
  Result operator()(ArraySpan sequences, const Array& mask);

 private:
  void prepare(ArraySpan sequences);

  Module* module_;
  std::unique_ptr<const Model> model_;
  ModelPlan plan_;
  StepFunction step_;
  std::string backend_;
  std::int64_t steps_ = 0;
  std::size_t num_aux_ = 0;
  std::optional<ProgramRun> run_;
};

}  // namespace etrace::train
#pragma GCC visibility pop
