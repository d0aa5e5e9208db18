// A first model: a GRU that learns online, in constant memory.
#include <etrace/etrace.h>

#include <cstdio>

namespace et = etrace;

// Layers and states are members; update() is one time step.
struct GruNet : et::Module {
  et::nn::GRUCell& rnn = child<et::nn::GRUCell>("rnn", 3, 16);
  et::nn::Linear& out = child<et::nn::Linear>("out", 16, 1);
  et::Array update(const et::Array& x) override { return out(rnn(x)); }
};

int main() {
  // The task: say the mean of the first feature over the last three steps. 40 steps, a batch of 8.
  const et::Array xs = et::random::normal(et::random::key(0), {40, 8, 3});
  const et::Array first = et::concatenate({et::zeros({2, 8, 1}), et::slice_axis(xs, 2, 0, 1)});
  const auto steps = [&](int start) { return et::slice_axis(first, 0, start, start + 40); };
  const et::Array ys = (steps(0) + steps(1) + steps(2)) / 3.0;

  // Compiling traces one step, finds what can be learned online, and makes the learning program.
  GruNet model;
  et::Learner learner = et::compile(model, et::D_RTRL{}, et::zeros({8, 3}), {.batch_size = 8});
  et::optim::Adam optimizer(model, 1e-2);
  std::printf("%s\n", learner.describe().c_str());

  double before = 0.0, after = 0.0;
  for (int epoch = 0; epoch < 150; ++epoch) {
    learner.reset_state();        // traces
    learner.reset_model_state();  // hidden states
    const et::SequenceGradient result = learner.etrace_grad(xs, ys, et::loss::mse);
    optimizer.update(result.grads);
    (epoch == 0 ? before : after) = result.loss;
  }
  std::printf("loss %.3f before, %.3f after 150 updates\n", before, after);
}
