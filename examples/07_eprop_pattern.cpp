// e-prop as its authors compute it, first task: 100 spiking neurons learn to generate a sum of sines. The
// file holds weights, feedback, input spikes and the target of Bellec et al. (2020), with the losses that
// NEST and the authors' program report for five updates; in float64 they come out here to 1e-8.
//
//   07_eprop_pattern pattern_generation.npz        prints one loss per line
//
// Which part does what:
//   e = ψ·low-pass of the input        the trace of z, from the model's equations (D-RTRL)
//   ē ← κ·ē + e                        EProp's filter, that of the leaky readout
//   signal B·(y − y*)                  FixedRandomFeedback
//   c·(rate − target)·Σe               a state that counts spikes: its trace is Σe, unfiltered; when the
//                                      sequence is over, solve() contracts it with the regulariser's signal
//   no neuron acts on itself           a mask of the optimiser
//
// argument: tests/eprop/pattern_generation.npz
//
// numbers to 1e-8: 101.964356999041 103.466731126205 103.340607074771 103.680244037686 104.412775748752
#include <etrace/etrace.h>

#include <cmath>
#include <cstdio>
#include <exception>
#include <map>
#include <string>

namespace et = etrace;

namespace {

constexpr et::Dtype kF64 = et::Dtype::F64;

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

//   v ← α·v + (1 − α)·(x·W_in + z·W_rec) − v_th·z        z ← H(v − v_th), dH/dv taken to be triangular
//   z̄ ← κ·z̄ + (1 − κ)·z        y = z̄·W_out        n ← n + z
// The reset is not differentiated. z̄ is no memory that credit passes through: EProp's filter stands for it.
struct Network : et::Module {
  explicit Network(const Data& d)
      : in(child<Weights>("in", d.at("w_in"))),
        rec(child<Weights>("rec", d.at("w_rec"))),
        out(child<Weights>("out", d.at("w_out"))),
        feedback((1.0 - kKappa) * et::transpose(d.at("feedback"), {1, 0})) {}

  static constexpr double kThreshold = 0.03, kDampening = 0.3;
  static inline const double kAlpha = std::exp(-1.0 / 30.0), kKappa = kAlpha;
  static constexpr std::int64_t kUnits = 100;

  Weights &in, &rec, &out;
  et::HiddenState &v = hidden("v", {kUnits}, kF64), &z = hidden("z", {kUnits}, kF64),
                  &count = hidden("count", {kUnits}, kF64);
  et::ShortTermState& low = short_term("low", et::zeros({kUnits}, kF64));
  et::FixedRandomFeedback feedback;

  et::Array update(const et::Array& x) override {
    const et::Array before = z.value();
    const et::Array current = in(x) + rec(before);
    v.set(kAlpha * v.value() + (1.0 - kAlpha) * current - kThreshold * et::stop_gradient(before));
    const auto slope = et::nn::surrogate::relu_grad(kDampening, 1.0);
    z.set(et::nn::spike((v.value() - kThreshold) / kThreshold, slope));
    count.set(count.value() + z.value());
    low.set(kKappa * low.value() + (1.0 - kKappa) * et::stop_gradient(z.value()));
    return feedback.attach(out(low.value()), z.value());
  }
};

et::Array half_squared_error(const et::Array& y, const et::Array& target) {
  return 0.5 * et::sum(et::square(y - target));
}

// d/dn of c/2·Σ (n/T − f)²: the signal to the counts, zero to the other states.
et::Arrays rate_signals(const et::Learner& learner, std::int64_t steps) {
  constexpr double kStrength = 300.0, kTargetRate = 0.01;
  const auto length = static_cast<double>(steps);
  et::Arrays out;
  for (const et::HiddenGroup& group : learner.graph().hidden_groups) {
    et::Arrays states;
    for (const et::HiddenInfo& h : group.hidden_states) {
      const et::Array value = learner.state(et::to_string(h.path));
      states.push_back(et::to_string(h.path) == "count" ? kStrength / length * (value / length - kTargetRate)
                                                        : et::zeros_like(value));
    }
    out.push_back(group.concat_hidden(states));
  }
  return out;
}

void run(const std::string& path) {
  const Data data(path);
  Network net(data);
  const std::int64_t steps = data.at("input_spikes").shape()[0];
  const et::Array xs = data.at("input_spikes"), ys = et::reshape(data.at("target"), {steps, 1});
  const et::EProp rule({.kappa_filter_decay = Network::kKappa, .unfiltered = {"count"}});
  et::Learner learner = et::compile(net, rule, et::zeros({xs.shape()[1]}, kF64));
  const et::Array off_diagonal = 1.0 - et::eye(Network::kUnits, kF64);
  et::optim::SGD optimizer(net, 1e-4, {}, {.constraints = {et::optim::fixed_mask("rec", off_diagonal)}});
  for (int i = 0; i < 5; ++i) {
    learner.reset_state();
    learner.reset_model_state();
    const et::SequenceGradient task =
        learner.etrace_grad(xs, ys, half_squared_error, {.reduction = et::Reduction::Sum});
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
    std::fprintf(stderr, "usage: 07_eprop_pattern pattern_generation.npz\n");
    return 2;
  }
  try {
    run(argv[1]);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
