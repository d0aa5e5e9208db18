// Which rule? All of them on one model: memory of the traces, time of a step, closeness to BPTT.
#include <etrace/etrace.h>

#include <cstdio>
#include <memory>
#include <vector>

namespace et = etrace;

struct GruNet : et::Module {
  et::nn::GRUCell& rnn = child<et::nn::GRUCell>("rnn", 4, 16);
  et::nn::Linear& out = child<et::nn::Linear>("out", 16, 2);
  et::Array update(const et::Array& x) override { return out(rnn(x)); }
};

int main() {
  const et::Array xs = et::random::normal(et::random::key(2), {15, 4});
  const et::Array ys = et::random::normal(et::random::key(3), {15, 2});
  GruNet net;
  et::init_all_states(net);

  const std::vector<std::shared_ptr<const et::LearningRule>> rules = {
      std::make_shared<et::D_RTRL>(), std::make_shared<et::pp_prop>(et::IODimOptions{.decay_or_rank = 0.95}),
      std::make_shared<et::EProp>(), std::make_shared<et::UORO>()};
  const et::Model model = et::trace_step(net, et::zeros({4})).model;
  std::printf("%s\n", et::compare_rules(model, rules, et::Arrays{xs, ys}, et::step_function(et::loss::mse),
                                        {.windows = {8}, .seconds = 10.0})
                          .to_string()
                          .c_str());

  // Traces of pp_prop are of the size of states, not of weights.
  for (const auto& rule : {rules[0], rules[1]}) {
    const et::Learner learner = et::compile(net, *rule, et::zeros({1, 4}), {.batch_size = 1});
    std::printf("%s: %lld bytes of traces\n", rule->name().c_str(),
                static_cast<long long>(learner.trace_bytes()));
  }
}
