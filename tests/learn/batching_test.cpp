// A batch is the sum of its samples: with a batch axis in the graph, and with lanes made by vmap.
#include "learn/scenario.h"

#include <random>

#include "etrace/models.h"
#include "etrace/nn.h"

namespace etrace {
namespace {

using namespace testing;

// Sample b of a sequence [T, B, …], with its batch axis or without.
Sequence one_sample(const Sequence& s, std::int64_t b, bool keep_axis) {
  const auto pick = [&](const Array& a) {
    const Array one = slice_axis(a, 1, b, b + 1);
    return keep_axis ? one : squeeze(one, {1});
  };
  Sequence out{{}, pick(s.targets), s.weights};
  for (const Array& a : s.args) out.args.push_back(pick(a));
  return out;
}

void set_states(Learner& to, const Arrays& batched, std::int64_t b, bool keep_axis) {
  const std::vector<std::string> names = to.state_names();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Array one = slice_axis(batched[i], 0, b, b + 1);
    to.set_state(names[i], keep_axis ? one : squeeze(one, {0}));
  }
}

// L98, L99: the sum over samples, each run alone on the unbatched twin.
TEST(Batches, L98_L99_AreSumsOverSamples) {
  struct Pair {
    const char *batched, *alone;
  };
  const VjpMethod multi = VjpMethod::MultiStep;
  for (const Pair& p : {Pair{"mm_bias", "mv_bias"},
                        {"gmm_bias", "gmv_bias"},
                        {"emb", "emb_v"},
                        {"elemwise_batch", "elemwise"},
                        {"sp_mm_csr", "sp_mv_csr"},
                        {"lora_mm", "lora_mv"}})
    for (const auto& [rule, window] :
         {std::pair<std::shared_ptr<const LearningRule>, std::int64_t>(std::make_shared<D_RTRL>(), 0),
          {std::make_shared<InWindows>(D_RTRL()), 2},
          {factorised(0.8), 0},
          {factorised(0.8, multi), 5}}) {
      SCOPED_TRACE(std::string(p.batched) + ", " + rule->describe());
      const Model batched = operator_model(operator_case(p.batched), Structure::Chain),
                  alone = operator_model(operator_case(p.alone), Structure::Chain);
      const Sequence data = draw_sequence(batched, 5);
      Learner all = make_learner(batched, *rule);
      const ParamValues params = all.params();
      const Arrays states = states_of(all);
      const ParamValues found = online(all, data, window);
      ParamValues total;
      for (std::int64_t b = 0; b < states[0].shape()[0]; ++b) {
        Learner one = make_learner(alone, *rule);
        one.set_params(params);
        set_states(one, states, b, false);
        const ParamValues g = online(one, one_sample(data, b, false), window);
        total = b == 0 ? g : sum_of(total, g);
      }
      expect_gradients(found, total, 1e-12);
    }
}

// One x for all samples: an operator without a batch axis that feeds states with one gives what the same
// operator gives on as many equal rows.
TEST(Batches, AnOperatorWithoutSamplesFeedsAll) {
  const auto model = [](bool rows, bool embed) {
    const auto x = embed ? arg("x", {}, Dtype::I32) : arg("x", {3});
    return step_model({x, hidden("h", {2, 4}), param("w", {3, 4})}, [rows, embed](In& in) {
      const Array one = in["x"];
      const Array data = rows ? broadcast_to(expand_dims(one, {0}), one.shape().with_front(2)) : one;
      const Array y = embed ? embedding(data, in["w"]) : matmul(data, in["w"]);
      in.set("h", 0.8 * in["h"] + y);
      return sin(in["h"]);
    });
  };
  for (const bool embed : {false, true})
    for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
      SCOPED_TRACE(row->name + (embed ? ", embedding" : ", matmul"));
      const auto found = [&](bool rows) {
        const Model m = model(rows, embed);
        Learner learner = make_learner(m, *telling_rule(*row));
        return online(learner, draw_sequence(m, 5));
      };
      expect_gradients(found(false), found(true), 1e-12);
    }
}

TEST(Batches, L98_ConvolutionsToo) {
  for (const char* name : {"conv_1d_first", "conv_2d_last_strided", "einsum_shared"}) {
    SCOPED_TRACE(name);
    const OperatorCase& both = operator_case(name);
    OperatorCase single = both;
    for (auto& in : single.inputs)
      if (in.role == Role::Arg) in.shape = in.shape.without(0).with_front(1);
    single.y = both.y.without(0).with_front(1);
    const Model batched = operator_model(both), alone = operator_model(single);
    const Sequence data = draw_sequence(batched, 5);
    Learner all = make_learner(batched, D_RTRL());
    const Arrays states = states_of(all);
    ParamValues total;
    for (std::int64_t b = 0; b < 2; ++b) {
      Learner one = make_learner(alone, D_RTRL());
      one.set_params(all.params());
      set_states(one, states, b, true);
      const ParamValues g = online(one, one_sample(data, b, true));
      total = b == 0 ? g : sum_of(total, g);
    }
    expect_gradients(online(all, data), total, 1e-12);
  }
}

// vmap ------------------------------------------------------------------------------------------------------
// Input, optionally normalised, into integrate-and-fire neurons.
struct SpikingNet : Module {
  explicit SpikingNet(bool normalised, std::int64_t in = 3)
      : linear(child<nn::Linear>("linear", in, 5, nn::LinearOptions{.dtype = Dtype::F64})),
        neuron(child<nn::LIF>("neuron", 5, nn::LIFOptions{.dtype = Dtype::F64})),
        normalised_(normalised) {}
  Array update(const Array& x) override {
    Array y = linear(x);
    if (normalised_) y = y / sqrt(mean(square(y), {-1}, true) + 1e-3);
    return neuron(4.0 * y);
  }
  nn::Linear& linear;
  nn::LIF& neuron;

 private:
  bool normalised_;
};

// L100 … L102: lanes, a batch, and samples one by one.
TEST(Lanes, L100_L101_L102_VmapBatchAndSumOfLanes) {
  constexpr std::int64_t kLanes = 3;
  Random random(8);
  const Array x = random.f64({6, kLanes, 3}, 0.0, 2.0), y = random.f64({6, kLanes, 5});
  const Loss squared = [](const Array& out, const Array& target) { return sum(square(out - target)); };
  for (const bool normalised : {false, true})
    for (const auto& rule :
         {std::shared_ptr<const LearningRule>(std::make_shared<D_RTRL>()), factorised(0.7)}) {
      SCOPED_TRACE(rule->describe() + (normalised ? ", normalised" : ""));
      SpikingNet a(normalised), b(normalised);
      Learner lanes = compile(a, *rule, zeros({kLanes, 3}, Dtype::F64), {.batch_size = kLanes, .vmap = true});
      Learner batch = compile(b, *rule, zeros({kLanes, 3}, Dtype::F64), {.batch_size = kLanes});
      const SequenceOptions sums{.reduction = Reduction::Sum};
      const SequenceGradient mapped = lanes.etrace_grad(x, y, squared, sums);
      expect_gradients(batch.etrace_grad(x, y, squared, sums).grads, mapped.grads, 1e-12);
      ParamValues total;
      double loss = 0.0;
      for (std::int64_t l = 0; l < kLanes; ++l) {
        SpikingNet net(normalised);
        Learner one = compile(net, *rule, zeros({3}, Dtype::F64));
        const auto lane = [&](const Array& s) { return squeeze(slice_axis(s, 1, l, l + 1), {1}); };
        const SequenceGradient g = one.etrace_grad(lane(x), lane(y), squared, sums);
        total = l == 0 ? g.grads : sum_of(total, g.grads);
        loss += g.loss;
      }
      EXPECT_NEAR(mapped.loss, loss, 1e-10);
      expect_gradients(mapped.grads, total, 1e-12);
      // Targets of another lane must make a difference.
      SpikingNet c(normalised);
      Learner permuted =
          compile(c, *rule, zeros({kLanes, 3}, Dtype::F64), {.batch_size = kLanes, .vmap = true});
      EXPECT_GT(largest_deviation(permuted.etrace_grad(x, roll(y, 1, 1), squared, sums).grads, mapped.grads),
                1e-6);
    }
}

TEST(Lanes, WhatCompileChecks) {
  SpikingNet net(false);
  expect_error<ValueError>("vmap needs a batch_size", [&] {
    compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.vmap = true});
  });
  expect_error<ValueError>("leading axis of 4 lanes", [&] {
    compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 4, .vmap = true});
  });
  expect_error<ValueError>("batch_size is 0", [&] {
    compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 0});
  });
  expect_error<ValueError>("no example argument", [&] { compile(net, D_RTRL(), Arrays{}); });
  expect_error<ValueError>("verbose is 3",
                           [&] { compile(net, D_RTRL(), zeros({3}, Dtype::F64), {.verbose = 3}); });
  expect_error<ValueError>("execution_window is 0",
                           [&] { compile(net, D_RTRL(), zeros({3}, Dtype::F64), {.execution_window = 0}); });
}

// Samples that stand still
// -----------------------------------------------------------------------------------
struct DelayedNet : Module {
  explicit DelayedNet(nn::DelayMemory memory)
      : in(child<nn::Linear>("in", 3, 4, nn::LinearOptions{.dtype = Dtype::F64})),
        late(child<nn::Delay>("late", 4, array({0, 1, 2, 4}),
                              nn::DelayOptions{.memory = memory, .dtype = Dtype::F64})),
        out(child<nn::Expon>("out", 4, nn::ExponOptions{.dtype = Dtype::F64})) {}
  Array update(const Array& x) override { return out(late(in(x))); }
  nn::Linear& in;
  nn::Delay& late;
  nn::Expon& out;
};

using MakeModule = std::function<std::shared_ptr<Module>()>;
struct StandingCase {
  std::string name;
  std::int64_t results;
  MakeModule make;
};
std::vector<StandingCase> models_that_stand() {
  std::vector<StandingCase> out;
  for (const BuiltinModel& m : builtin_models())
    if (m.sizes.size() == 3 && !m.name.starts_with("conv"))
      out.push_back({std::string(m.name), 2, [name = m.name] {
                       return make_model(name, {.sizes = {3, 5, 2}, .dtype = Dtype::F64}).module;
                     }});
  for (const nn::DelayMemory memory : {nn::DelayMemory::Ring, nn::DelayMemory::Hidden})
    out.push_back({memory == nn::DelayMemory::Ring ? "a ring" : "a delay in hidden states", 4,
                   [memory] { return std::make_shared<DelayedNet>(memory); }});
  return out;
}

// Steps of weight zero, at the start, in the middle or at the end, change nothing of a sample: its losses,
// its part of the gradient and its states are those of its own steps alone. The batch is as large as a layer.
TEST(Batches, SamplesThatStandStillAreAsIfAlone) {
  constexpr std::int64_t kSteps = 9, kBatch = 5;
  std::mt19937_64 draw(3);
  std::vector<double> weights(kSteps * kBatch);
  for (double& w : weights) w = draw() % 5 < 2 ? 0.0 : 0.5 + static_cast<double>(draw() % 3);
  const Array mask = array(weights, {kSteps, kBatch}, Dtype::F64);
  const Array x = Random(1).f64({kSteps, kBatch, 3});
  for (const StandingCase& c : models_that_stand())
    for (const std::string rule : {"D_RTRL", "EProp"}) {
      SCOPED_TRACE(c.name + ", " + rule);
      const std::shared_ptr<Module> all = c.make();
      Learner learner = compile(*all, *make_rule(rule), zeros({kBatch, 3}, Dtype::F64),
                                {.batch_size = kBatch, .execution_window = 4});
      const Array y = Random(2).f64({kSteps, kBatch, c.results});
      const auto gradient = [](Learner& l, const Array& xs, const Array& ys, const Array& m) {
        return l.etrace_grad(xs, ys, loss::mse, {.mask = m, .freeze = true, .reduction = Reduction::Sum})
            .grads;
      };
      const ParamValues found = gradient(learner, x, y, mask);
      const std::shared_ptr<Module> alone = c.make();
      Learner one = compile(*alone, *make_rule(rule), zeros({1, 3}, Dtype::F64),
                            {.batch_size = 1, .execution_window = 4});
      ParamValues total;
      for (std::int64_t b = 0; b < kBatch; ++b) {
        Arrays xs, ys, ms;
        for (std::int64_t t = 0; t < kSteps; ++t) {
          if (weights[static_cast<std::size_t>(t * kBatch + b)] == 0.0) continue;
          const auto own = [&](const Array& a) {
            return slice_axis(slice_axis(a, 0, t, t + 1), 1, b, b + 1);
          };
          xs.push_back(own(x)), ys.push_back(own(y)), ms.push_back(own(mask));
        }
        one.reset_state();
        one.reset_model_state();
        const ParamValues g = gradient(one, concatenate(xs), concatenate(ys), concatenate(ms));
        total = b == 0 ? g : sum_of(total, g);
        for (const std::string& name : learner.state_names()) {
          const Array own = slice_axis(learner.state(name), 0, b, b + 1);
          if (!is_floating(own.dtype())) continue;
          EXPECT_LE(norm(own - one.state(name)), 1e-12 * (1.0 + norm(own))) << name << " of sample " << b;
        }
      }
      for (std::size_t i = 0; i < total.values.size(); ++i)
        EXPECT_LE(norm(found.values[i] - total.values[i]), 1e-10 * (1e-6 + norm(total.values[i])))
            << to_string(total.leaves[i]);
    }
}

// What all samples share and what goes on in every step would go on without those that stand.
struct Counting : Module {
  bool goes_on;
  ShortTermState& steps = short_term("steps", zeros({}, Dtype::F64), false);
  HiddenState& h = hidden("h", {4}, Dtype::F64);
  ParamState& w = param("w", random::normal(random::key(1), {3, 4}, Dtype::F64));
  explicit Counting(bool on) : goes_on(on) {}
  Array update(const Array& x) override {
    const Array now = steps.value(), old = h.value();
    if (goes_on) steps.set(now + 1.0);
    h.set(0.9 * old + matmul(x, w.value()) * cos(now));
    return h.value();
  }
};
TEST(Batches, ASharedStateThatGoesOnIsRefused) {
  const Array x = Random(1).f64({4, 2, 3}), y = Random(2).f64({4, 2, 4});
  const Array by_sample = array({1, 1, 0, 1, 1, 1, 1, 0}, {4, 2}, Dtype::F64),
              by_step = array({1, 1, 0, 1}, {4}, Dtype::F64);
  for (const bool goes_on : {false, true}) {
    Counting net(goes_on);
    Learner l = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
    l.etrace_grad(x, y, loss::mse, {.mask = by_step, .freeze = true});
    l.etrace_grad(x, y, loss::mse, {.mask = by_sample});
    const auto stand = [&] { l.etrace_grad(x, y, loss::mse, {.mask = by_sample, .freeze = true}); };
    const auto evolve = [&] { l.etrace_evolve(Arrays{x}, {.mask = by_sample, .freeze = true}); };
    if (goes_on) {
      expect_error<NotSupportedError>("state steps of type f64[] is one for all samples", stand);
      expect_error<NotSupportedError>("state steps of type f64[] is one for all samples", evolve);
    } else {
      stand();
      evolve();
    }
  }
}

}  // namespace
}  // namespace etrace
