// A learning rule of one's own, in one file: D-RTRL with broadcast feedback. Each hidden unit hears the
// learning signal through a fixed random sign in place of its own weight to the output, as in feedback
// alignment. The traces, their windows and their gradients are ParameterTraces; the rule says only what
// becomes of the signal.
//
// last line: 12 of 16 units follow the gradient, the others go against it
#include <etrace/etrace.h>
#include <etrace/parameter_traces.h>

#include <algorithm>
#include <cstdio>

namespace et = etrace;

namespace {

// On a graph: the signal of every unit is multiplied by its sign, [K, *varshape, S] with the batch in front.
class SignedTraces : public et::ParameterTraces {
 public:
  SignedTraces(const et::ETraceGraph& graph, std::string rule, std::uint64_t seed)
      : et::ParameterTraces(graph, {.rule = std::move(rule)}), graph_(graph), seed_(seed) {}

  // What a step adds to the traces meets this signal as well.
  et::OwnStep own_step() const override { return et::OwnStep::Signal; }
  et::Arrays learning_signal(const et::WindowData&, et::ArraySpan, SignalTo,
                             et::Arrays signal) const override {
    for (std::size_t k = 0; k < signal.size(); ++k) {
      const et::HiddenGroup& group = graph_.hidden_groups[k];
      const std::int64_t states = group.num_state(), units = group.varshape().size() / group.batch();
      const et::Array draw = et::random::bernoulli(et::random::key(seed_), 0.9, {1, units, 1});
      const et::Array signs = et::where(draw, et::ones({}, signal[k].dtype()), -1.0);
      const et::Array split = et::reshape(signal[k], {signal[k].size() / (units * states), units, states});
      signal[k] = et::reshape(split * signs, signal[k].shape().to_dims());
    }
    return signal;
  }

 private:
  const et::ETraceGraph& graph_;
  std::uint64_t seed_;
};

class RandomSigns : public et::LearningRule {
 public:
  explicit RandomSigns(std::uint64_t seed = 0) : seed_(seed) {}
  std::string name() const override { return "RandomSigns"; }
  std::string describe() const override { return "RandomSigns (seed " + std::to_string(seed_) + ")"; }
  std::shared_ptr<const et::LearningRule> clone() const override {
    return std::make_shared<RandomSigns>(*this);
  }
  Theory theory(bool) const override { return {Theory::Approximate, "the signal has random signs"}; }

  std::unique_ptr<const et::BoundRule> bind(const et::ETraceGraph& graph) const override {
    return std::make_unique<SignedTraces>(graph, name(), seed_);
  }

 private:
  std::uint64_t seed_;
};

// The row: command line, help and checks read it. In a program of one's own it is there as soon as this file
// is linked.
const et::RegisterRule kRow(
    {.name = "RandomSigns",
     .aliases = {},
     .doc = "D_RTRL whose learning signals have fixed random signs",
     .expectation = et::LearningRule::Theory::Approximate,
     .gradient = "approximate: the signal is not the gradient",
     .options = {{"seed", et::RuleOption::Type::Integer, "0", "0 and up", "of the signs"}},
     .make = [](const et::RuleOptions& o) {
       return std::make_shared<RandomSigns>(static_cast<std::uint64_t>(o.integer("seed").value_or(0)));
     }});

struct Net : et::Module {
  et::nn::GRUCell& rnn = child<et::nn::GRUCell>("rnn", 3, 16);
  et::nn::Linear& out = child<et::nn::Linear>("out", 16, 2);
  et::Array update(const et::Array& x) override { return out(rnn(x)); }
};

}  // namespace

int main() {
  Net net;
  const et::Array xs = et::random::normal(et::random::key(1), {10, 4, 3}),
                  ys = et::random::normal(et::random::key(2), {10, 4, 2});
  const auto gradient = [&](const char* rule) {
    et::Learner learner = et::compile(net, rule, et::Arrays{et::zeros({4, 3})}, {.batch_size = 4});
    return learner.etrace_grad(xs, ys, et::loss::mse).grads.at("rnn/Wh/weight.weight");
  };
  const et::Array own = gradient("RandomSigns"), plain = gradient("D_RTRL");
  const std::vector<double> along = et::sum(own * plain, {0}).tensor().to_doubles();  // per unit
  const auto follow = std::count_if(along.begin(), along.end(), [](double v) { return v > 0.0; });
  std::printf("%s\n", et::find_rule("random signs").doc.c_str());
  std::printf("%d of %d units follow the gradient, the others go against it\n", static_cast<int>(follow),
              static_cast<int>(along.size()));
}
