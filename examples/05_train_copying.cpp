// Online training from C++: a GRU learns to name two symbols five steps after they were shown. Every sequence
// is seen once, forward in time; what is remembered of it are the eligibility traces.
//
// last line: solved
#include <iostream>

#include "etrace/learner.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "etrace/tasks.h"

namespace et = etrace;

struct GruNet : et::Module {
  GruNet(std::int64_t in, std::int64_t hidden, std::int64_t out)
      : rnn(child<et::nn::GRUCell>("rnn", in, hidden)), readout(child<et::nn::Linear>("out", hidden, out)) {}
  et::Array update(const et::Array& x) override { return readout(rnn(x)); }
  et::nn::GRUCell& rnn;
  et::nn::Linear& readout;
};

int main() {
  constexpr std::int64_t kBatch = 32, kHidden = 32;
  const auto task = et::make_task("copying", {.settings = {{"symbols", 2}, {"alphabet", 3}, {"lag", 5}}});
  const std::int64_t inputs = task->spec().num_inputs;
  GruNet model(inputs, kHidden, task->spec().num_outputs);
  et::Learner learner = et::compile(model, et::D_RTRL{}, et::zeros({kBatch, inputs}), {.batch_size = kBatch});
  et::optim::Adam optimizer(model, 5e-3, {}, {.clip_norm = 1.0});

  // One step: the loss, and beside it the model's output, from which the accuracy comes.
  const et::StepFunction step = [](et::StepCall& net, et::ArraySpan slices) {
    const et::Array logits = net(slices[0]);
    return et::LossAndAux{et::loss::cross_entropy(logits, slices[1]), {logits}};
  };

  double accuracy = 0.0;
  for (std::uint64_t i = 0; i < 2000 && accuracy < 0.99; ++i) {
    const et::TaskBatch batch = task->batch(i, kBatch);
    learner.reset_state();  // sequences are independent: traces and states start at zero
    learner.reset_model_state();
    et::TrainOptions options;
    options.mask = batch.mask;  // only the answers count
    const auto r = learner.etrace_train(et::Arrays{batch.inputs, batch.targets}, step, optimizer, options);
    accuracy = 0.95 * accuracy + 0.05 * et::accuracy(r.aux[0], batch);
    if (i % 100 == 0) std::cout << "batch " << i << ": loss " << r.loss << ", accuracy " << accuracy << "\n";
  }
  std::cout << (accuracy >= 0.99 ? "solved" : "not solved") << "\n";
}
