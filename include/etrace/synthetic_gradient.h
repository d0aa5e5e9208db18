// Fitting the estimate of the rule DNI (etrace/synthesizer.h): what later losses say to the states at the
// border of a window, learned from the windows themselves.
//
//   Learner learner = compile(model, DNI{}, example, {.vjp_method = VjpMethod::MultiStep});
//   train_synthetic_gradient(learner, {xs, ys}, window_loss, {.chunk_size = 5, .epochs = 20});
//   learner.etrace_grad({xs, ys}, window_loss, {.chunk_size = 5});
#pragma once

#include "etrace/learner.h"

#pragma GCC visibility push(default)
namespace etrace {

struct SyntheticGradientOptions {
  std::int64_t chunk_size = 1;  // steps of a window; it must divide the sequence
  std::int64_t epochs = 1;      // times through the sequence
  // What moves the estimate's parameters, in its pure form; null: SGD with this learning rate.
  const optim::Optimizer* optimizer = nullptr;
  double learning_rate = 1e-2;
  bool reset = true;  // states of the model to their start first; false: from where they are
};

// For every window of the sequence: the gradient of its loss, and of the estimate at its exit, with respect
// to the states at its entry is what the estimate at that entry is drawn to, by one step on Σ mean((est −
// target)²) over the groups; at the end of the sequence the target is zero. Sequences and step function are
// those of etrace_grad with this chunk_size, and from then on the learner takes no other loss and no other
// window (ValueError): an estimate of something else is worse than none. Setting the rule's parameters by
// hand ends that. Parameters of the model stay as they are, and so do its states, apart from the reset. The
// mean error of each epoch, every window before its step. ValueError if the rule has no such estimate or
// nothing in it to fit.
// LIMIT: a checkpoint keeps the fitted parameters, not what they were fitted for.
std::vector<double> train_synthetic_gradient(Learner&, ArraySpan sequences, const StepFunction&,
                                             const SyntheticGradientOptions& = {});

}  // namespace etrace
#pragma GCC visibility pop
