// A loop in real time: one sample comes, one answer goes, and the parameters move before the next one.
#include <etrace/etrace.h>

#include <cmath>
#include <cstdio>

namespace et = etrace;

struct Net : et::Module {
  et::nn::GRUCell& rnn = child<et::nn::GRUCell>("rnn", 2, 24);
  et::nn::Linear& out = child<et::nn::Linear>("out", 24, 1);
  et::Array update(const et::Array& x) override { return out(rnn(x)); }
};

int main() {
  Net model;
  et::Learner learner = et::compile(model, et::D_RTRL{}, et::zeros({2}));
  et::optim::Adam optimizer(model, 5e-3);

  // Buffers of the program's own: the learner reads them where they lie, and a step allocates nothing.
  alignas(64) float sensors[2];
  alignas(64) float wanted[1];
  const et::Array x(et::Tensor::over({et::Dtype::F32, {2}}, sensors));
  const et::Array target(et::Tensor::over({et::Dtype::F32, {1}}, wanted));
  learner.bind_step(et::loss::mse, &optimizer);
  learner.prepare(target.aval());  // before time matters

  // A plant that answers to a command; half-way its gain changes.
  float position = 0.0F;
  double jump = 0.0, end = 0.0;
  for (int t = 0; t < 3000; ++t) {
    const float command =
        std::sin(0.05F * static_cast<float>(t)) + 0.3F * std::sin(1.7F * static_cast<float>(t));
    sensors[0] = position;
    sensors[1] = command;
    position = 0.9F * position + 0.1F * (t < 1500 ? 1.0F : -0.6F) * command;
    wanted[0] = position;
    const double error = learner.step(x, target).loss;  // forward, trace, gradient, update
    if (t >= 1500 && t < 1520) jump += error / 20.0;
    if (t >= 2900) end += error / 100.0;
  }
  std::printf("%s\n",
              end < 0.5 * jump ? "the prediction follows the plant after it has changed" : "it was lost");
}
