// A neuron of one's own: a resonator whose spikes have a surrogate derivative.
//     du/dt = −u/τ − ω·v + I    dv/dt = −v/τ + ω·u    a spike where u ≥ 1, after which u is 1 smaller
#include <etrace/etrace.h>

#include <cstdio>

namespace et = etrace;

struct Resonator : et::Module {
  explicit Resonator(std::int64_t size)
      : u(hidden("u", {size})), v(hidden("v", {size})), omega(param("omega", 0.2 * et::ones({size}))) {}
  et::HiddenState &u, &v;
  et::ParamState& omega;  // learned: one frequency per neuron
  static constexpr double kTau = 20.0, kDt = 1.0;

  et::Array update(const et::Array& current) override {
    // element_wise tells the compiler that a weight acts position by position: it gets a trace.
    const et::Array w = et::element_wise(omega.value());
    const et::nn::Surrogate slope = et::nn::surrogate::sigmoid();
    const et::Array start = u.value() - et::nn::spike(u.value() - 1.0, slope);
    const et::nn::System drift = [&](et::ArraySpan x) {
      return et::Arrays{-x[0] / kTau - w * x[1] + current, -x[1] / kTau + w * x[0]};
    };
    const et::Arrays next = et::nn::rk4(drift, {start, v.value()}, kDt);
    u.set(next[0]);
    v.set(next[1]);
    return et::nn::spike(u.value() - 1.0, slope);
  }
};

struct Net : et::Module {
  et::nn::Linear& in = child<et::nn::Linear>("in", 2, 12);
  Resonator& neurons = child<Resonator>("neurons", 12);
  et::nn::LeakyRateReadout& out = child<et::nn::LeakyRateReadout>("out", 12, 1);
  et::Array update(const et::Array& x) override { return out(neurons(in(x))); }
};

int main() {
  // Follow a slow sine from two faster ones.
  const et::Array t = et::reshape(et::arange(100, et::Dtype::F32), {100, 1, 1});
  const et::Array xs = et::concatenate({et::sin(0.3 * t), et::cos(0.3 * t)}, 2), ys = et::sin(0.1 * t);

  Net model;
  et::Learner learner = et::compile(model, et::D_RTRL{}, et::zeros({1, 2}), {.batch_size = 1});
  for (const auto& weight : learner.report().etrace_weights)
    std::printf("learned online: %s\n", weight.name.c_str());
  et::optim::Adam optimizer(model, 1e-2, {}, {.clip_norm = 1.0});
  const et::Array start = model.neurons.omega.value();
  double first = 0.0, last = 0.0;
  for (int i = 0; i < 60; ++i) {
    learner.reset_state();
    learner.reset_model_state();
    (i == 0 ? first : last) = learner.etrace_train(xs, ys, et::loss::mse, optimizer).loss;
  }
  const double moved = et::max(et::abs(model.neurons.omega.value() - start)).item<float>();
  std::printf("%s\n", moved > 1e-3 && last < 0.8 * first
                          ? "the neuron's own frequency is learned, and the loss falls"
                          : "not learned");
}
