// Steps that the host calls one by one: launches that are made once, on the session's buffers.
#pragma once

#include "learn/run/learner_impl.h"

namespace etrace {

class HostStep {
 public:
  HostStep(Learner::Impl&, const Loss&, optim::Optimizer*);

  const Learner::StepResult& evolve(ArraySpan args);
  const Learner::StepResult& learn(ArraySpan args, const Array& target);
  // The launches alone.
  void prepare_evolving();
  void prepare_learning(const Aval& target);

 private:
  // A launch, the arguments that a call gives, and what comes back.
  struct Bound {
    Launch launch;
    std::vector<std::size_t> data;
    Learner::StepResult result;
    Tensor loss;  // of the last step
    std::shared_ptr<const LabelCheck> labels = {};
    Learner::StepResult left_out = {};  // what comes back where the data is not finite and is to be skipped
  };
  void take_modulator();
  bool set_data(Bound&, ArraySpan args, const Array* target);  // false: not finite, to be left out
  void run(Bound&);
  const Learner::StepResult& leave_out(Bound&);

  Learner::Impl& learner_;
  Loss loss_;
  optim::Optimizer* optimizer_;
  std::vector<double> hyper_;
  Tensor modulator_;  // for rules that take one: the learner's, as it was at the last call
  bool modulator_by_group_ = false;
  Tensors kept_;  // data of the current call
  Arrays given_;  // the same, for the labels among it
  std::optional<Bound> evolving_, learning_;
};

}  // namespace etrace
