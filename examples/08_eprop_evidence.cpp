// e-prop as its authors compute it, second task: adaptive neurons gather evidence over 2,250 steps and decide
// at the end. As 07_eprop_pattern.cpp, with a threshold that adapts, neurons that are silent for five steps
// after a spike, cross-entropy over the last 150 steps, and Adam as TensorFlow has it. A file may hold any
// number of samples per update.
//
//   08_eprop_evidence evidence_accumulation.npz        prints one loss per line
//
// argument: tests/eprop/evidence_accumulation.npz
//
// numbers to 1e-8: 0.741152550006 0.740388187700 0.665785233177 0.663644193322 0.729428962844
#include <etrace/etrace.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

namespace et = etrace;

namespace {

constexpr et::Dtype kF64 = et::Dtype::F64;
constexpr std::int64_t kUnits = 100, kRecall = 150;

struct Data {
  explicit Data(const std::string& path) {
    for (const auto& [name, tensor] : et::load_npz(path).tensors)
      arrays[name] = et::convert(et::Array(tensor), kF64);
  }
  const et::Array& at(const std::string& name) const { return arrays.at(name); }
  std::map<std::string, et::Array> arrays;
};

// y = x·W, W given, no bias.
struct Weights : et::Module {
  explicit Weights(const et::Array& initial) : w(param("w", initial)) {}
  et::ParamState& w;
  et::Array update(const et::Array& x) override { return et::matmul(x, w.value()); }
};

//   v ← α·v + x·W_in + z·W_rec − v_th·z        a ← ρ·a + z
//   z ← H(v − v_th − β·a) where r ≤ 0, else 0        r ← r + 5·z − 1, within [0, 5]
//   z̄ ← κ·z̄ + (1 − κ)·z        y = z̄·W_out        n ← n + z
// The second half of the neurons adapts (β > 0). Within its pause a neuron has no pseudo-derivative either.
struct Network : et::Module {
  explicit Network(const Data& d)
      : in(child<Weights>("in", d.at("w_in"))),
        rec(child<Weights>("rec", d.at("w_rec"))),
        out(child<Weights>("out", d.at("w_out"))),
        feedback((1.0 - kKappa) * et::transpose(d.at("feedback"), {1, 0})) {}

  static constexpr double kThreshold = 0.6, kDampening = 0.3, kPause = 5.0;
  static inline const double kAlpha = std::exp(-1.0 / 20.0), kKappa = kAlpha, kRho = std::exp(-1.0 / 2000.0);

  Weights &in, &rec, &out;
  et::HiddenState &v = hidden("v", {kUnits}, kF64), &a = hidden("a", {kUnits}, kF64),
                  &z = hidden("z", {kUnits}, kF64), &count = hidden("count", {kUnits}, kF64);
  et::ShortTermState &low = short_term("low", et::zeros({kUnits}, kF64)),
                     &pause = short_term("pause", et::zeros({kUnits}, kF64));
  et::FixedRandomFeedback feedback;
  et::Array beta = 1.7 * (1.0 - kRho) / (1.0 - kAlpha) * et::convert(et::arange(kUnits) >= kUnits / 2, kF64);

  et::Array update(const et::Array& x) override {
    const et::Array before = z.value();
    const et::Array current = in(x) + rec(before);
    v.set(kAlpha * v.value() + current - kThreshold * et::stop_gradient(before));
    a.set(kRho * a.value() + before);
    const et::Array free = et::convert(pause.value() <= 0.0, kF64);
    const auto slope = et::nn::surrogate::relu_grad(kDampening, 1.0);
    const et::Array above = v.value() - (kThreshold + beta * a.value());
    z.set(free * et::nn::spike(above / kThreshold, slope));
    const et::Array fired = et::stop_gradient(z.value());
    pause.set(et::minimum(et::maximum(pause.value() + kPause * fired - 1.0, 0.0), kPause));
    count.set(count.value() + z.value());
    low.set(kKappa * low.value() + (1.0 - kKappa) * fired);
    return feedback.attach(out(low.value()), z.value());
  }
};

// d/dn of c/2·Σ (n/T − f)², n the counts of each sample by itself, in the units of the loss (a mean over the
// samples and the steps of the decision): the signal to the counts, zero to the other states.
et::Arrays rate_signals(const et::Learner& learner, std::int64_t steps) {
  constexpr double kStrength = 300.0, kTargetRate = 0.01;
  const auto length = static_cast<double>(steps);
  et::Arrays out;
  for (const et::HiddenGroup& group : learner.graph().hidden_groups) {
    et::Arrays states;
    for (const et::HiddenInfo& h : group.hidden_states) {
      const et::Array value = learner.state(et::to_string(h.path));  // [samples, units]
      const et::Array too_many = value / length - kTargetRate;
      const double share = kStrength / length / kRecall / static_cast<double>(value.shape()[0]);
      states.push_back(et::to_string(h.path) == "count" ? share * too_many : et::zeros_like(value));
    }
    out.push_back(group.concat_hidden(states));
  }
  return out;
}

void run(const std::string& path) {
  const Data data(path);
  Network net(data);
  // [updates, samples, steps, inputs] and [updates, samples]
  const et::Array &spikes = data.at("input_spikes"), &cues = data.at("target");
  const std::int64_t updates = spikes.shape()[0], samples = spikes.shape()[1], steps = spikes.shape()[2],
                     inputs = spikes.shape()[3];
  const et::EProp rule({.kappa_filter_decay = Network::kKappa, .unfiltered = {"count"}});
  et::Learner learner = et::compile(net, rule, et::zeros({samples, inputs}, kF64), {.batch_size = samples});
  const et::Array off_diagonal = 1.0 - et::eye(kUnits, kF64);
  et::optim::Adam optimizer(net, 5e-3, {.epsilon_first = true},
                            {.constraints = {et::optim::fixed_mask("rec", off_diagonal)}});
  const et::Array decision = et::convert(et::arange(steps) >= steps - kRecall, kF64);
  for (std::int64_t i = 0; i < updates; ++i) {
    learner.reset_state();
    learner.reset_model_state();
    const et::Array of_update = et::reshape(et::slice_axis(spikes, 0, i, i + 1), {samples, steps, inputs});
    const et::Array cue = et::convert(et::slice_axis(cues, 0, i, i + 1), et::Dtype::I32);
    const et::SequenceGradient task =
        learner.etrace_grad(et::moveaxis(of_update, 1, 0), et::broadcast_to(cue, {steps, samples}),
                            et::loss::cross_entropy, {.mask = decision});
    et::GradientSum gradient;
    gradient.add(task.grads);
    gradient.add(learner.solve(rate_signals(learner, steps)));
    optimizer.update(gradient.value());
    std::printf("%.12f\n", task.loss);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: 08_eprop_evidence evidence_accumulation.npz\n");
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
