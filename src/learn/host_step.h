// Steps that the host calls one by one, on buffers that stay where they are.
#pragma once

#include "learn/learner_impl.h"

namespace etrace {

class HostStep {
 public:
  HostStep(Learner::Impl&, const Loss&, optim::Optimizer*);

  const Learner::StepResult& evolve(ArraySpan args);
  const Learner::StepResult& learn(ArraySpan args, const Array& target);
  // Values back to the model, the learner and the optimiser; nothing if there is nothing new.
  // Without the optimiser, which may be gone, when the learner ends.
  void give_back(bool with_optimizer = true);

 private:
  // A program with a pointer per port; those of the data are set at every call.
  struct Bound {
    Loaded loaded;
    std::vector<const void*> in;
    std::vector<void*> out;
    std::vector<std::size_t> data;  // arguments and slices, in order
    Tensors results;                // what is not carried
  };
  void take_over();  // values of model, learner and optimiser into the buffers
  Bound bind(const Loaded&);
  void bind_learning(const Array& target);
  void take_modulator(const Array& target);
  void set_data(Bound&, ArraySpan args, const Array* target);

  Learner::Impl& learner_;
  Loss loss_;
  optim::Optimizer* optimizer_;
  bool live_ = false;  // the newest values are here
  Tensors params_, states_, slots_;
  std::vector<double> hyper_;
  Tensor modulator_;  // for rules that take one: the learner's, as it was at the last call
  Tensors kept_;      // data of the current call
  std::optional<Bound> evolving_, learning_;
  Aval target_;
  Learner::StepResult evolved_, learned_;
};

}  // namespace etrace
