// Signals from elsewhere: a modulator (ThreeFactor), and estimates of what is to come (DNI).
#include "etrace/transform.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// ∂loss/∂h of every step, for models whose result is their only state.
Array signals_of(const Model& m, const Sequence& data) {
  Learner learner = make_learner(m, D_RTRL());
  Arrays out;
  for (std::int64_t t = 0; t < data.length(); ++t) {
    learner(item(data.args[0], t));
    out.push_back(2.0 * (learner.state("h") - item(data.targets, t)));
  }
  return stack(out);
}

ParamValues modulated(Learner& learner, const Sequence& data, const etrace::StepInput& modulator) {
  return learner
      .etrace_grad(data.all(), squared_error(), {.reduction = Reduction::Sum, .modulator = modulator})
      .grads;
}

TEST(ThreeFactor, L88_WithTheLossesOwnSignalItIsDRtrl) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 6);
  const Array signal = signals_of(m, data);
  const ParamValues expected = gradients_of(m, D_RTRL(), data);
  const auto with = [&](const Array& s) {
    Learner learner = make_learner(m, ThreeFactor());
    return modulated(learner, data, MultiStepData{s});
  };
  expect_gradients(with(signal), expected, 1e-12);
  const ParamValues twice = with(2.0 * signal);
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    EXPECT_LE(relative_deviation(twice.values[i], 2.0 * expected.values[i]), 1e-12);
}

// Steps that are frozen, of all samples or of one, are as if they were not there.
TEST(ThreeFactor, NothingIsLearnedFromPadding) {
  constexpr std::int64_t kBatch = 2, kLength = 6;
  const Array x = Random(1).f64({kLength, kBatch, 3}), y = Random(2).f64({kLength, kBatch, 4});
  const auto gradient = [](const Array& inputs, const Array& targets, const Array& mask,
                           std::int64_t window) {
    LeakyNet net;
    const std::int64_t batch = inputs.shape()[1];
    Learner l = compile(net, ThreeFactor({.modulator = Array(0.7)}), zeros({batch, 3}, Dtype::F64),
                        {.batch_size = batch, .execution_window = window});
    return l
        .etrace_grad(inputs, targets, loss::mse, {.mask = mask, .freeze = true, .reduction = Reduction::Sum})
        .grads;
  };
  const std::vector<double> mask{1, 1, 0, 1, 1, 0, 0, 0, 1, 0, 0, 1};  // [step, sample]
  const auto counts = [&](std::int64_t t, std::int64_t b) {
    return mask[static_cast<std::size_t>(t * kBatch + b)] != 0.0;
  };
  ParamValues expected;
  for (std::int64_t b = 0; b < kBatch; ++b) {
    Arrays xs, ys;
    for (std::int64_t t = 0; t < kLength; ++t) {
      if (!counts(t, b)) continue;
      xs.push_back(slice_axis(slice_axis(x, 0, t, t + 1), 1, b, b + 1));
      ys.push_back(slice_axis(slice_axis(y, 0, t, t + 1), 1, b, b + 1));
    }
    const auto length = static_cast<std::int64_t>(xs.size());
    const ParamValues one = gradient(concatenate(xs), concatenate(ys), ones({length, 1}, Dtype::F64), 1);
    expected = b == 0 ? one : sum_of(expected, one);
  }
  for (const std::int64_t window : {1, 4})
    expect_gradients(gradient(x, y, array(mask, {kLength, kBatch}, Dtype::F64), window), expected, 1e-12);
  // The same for steps of all samples.
  const Array last = array({1, 1, 1, 1, 0, 0}, Dtype::F64), all = ones({4}, Dtype::F64);
  for (const std::int64_t window : {1, 4})
    expect_gradients(gradient(x, y, last, window),
                     gradient(slice_axis(x, 0, 0, 4), slice_axis(y, 0, 0, 4), all, 1), 1e-12);
}

// Two groups of different sizes, side by side, for two samples.
Model in_batch_of_two() {
  return step_model(
      {arg("x", {2, 3}), hidden("h", {2, 4}), hidden("g", {2, 3}), param("w", {3, 4}), param("u", {3, 3})},
      [](In& in) {
        in.set("h", tanh(0.5 * in["h"] + matmul(in["x"], in["w"])));
        in.set("g", tanh(0.8 * in["g"] + matmul(in["x"], in["u"])));
        return concatenate(Arrays{in["h"], in["g"]}, -1);
      });
}

// L89, L90: numbers and arrays spread over every group; nothing, and what is refused.
TEST(ThreeFactor, L89_L90_WhatAModulatorMayBe) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 4);
  Learner learner = make_learner(m, ThreeFactor());
  const auto run = [&](const etrace::StepInput& modulator) {
    learner.reset_state();
    learner.reset_model_state();
    return modulated(learner, data, modulator).at("w");
  };
  expect_error<ValueError>("ThreeFactor needs a modulator", [&] { run(Array()); });
  expect_error<ValueError>("a modulator of shape [3] does not spread over the states [4,1] of group 0",
                           [&] { run(zeros({3}, Dtype::F64)); });
  expect_error<ValueError>("its first axis must have 4", [&] { run(MultiStepData{zeros({5}, Dtype::F64)}); });
  const Array one = run(Array(1.0));
  EXPECT_GT(norm(one), 1e-6);
  EXPECT_EQ(relative_deviation(run(full({4}, 1.0, Dtype::F64)), one), 0.0);
  EXPECT_EQ(relative_deviation(run(full({4, 1}, 1.0, Dtype::F64)), one), 0.0);
  EXPECT_EQ(relative_deviation(run(MultiStepData{full({4}, 1.0, Dtype::F64)}), one), 0.0) << "one per step";
  EXPECT_EQ(relative_deviation(run(Array(-1.0)), -one), 0.0);
  EXPECT_EQ(norm(run(Array(0.0))), 0.0);
  learner.set_modulator(Array(1.0));
  EXPECT_EQ(relative_deviation(run(Array()), one), 0.0) << "the one that stands";
  EXPECT_EQ(norm(run(Array(0.0))), 0.0) << "that of the call wins";
  Learner plain = make_learner(m, D_RTRL());
  expect_error<ValueError>("takes no modulator", [&] { plain.set_modulator(Array(1.0)); });
  expect_error<ValueError>("D_RTRL takes none", [&] { modulated(plain, data, Array(1.0)); });
}

// A number is one of the learner's type, wherever it is given: 0.7 of float64 is not 0.7 of float32.
TEST(ThreeFactor, ANumberIsExactInFloat64) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 4);
  const auto run = [&](const LearningRule& rule, const etrace::StepInput& modulator, bool stands = false) {
    Learner learner = make_learner(m, rule);
    if (stands) learner.set_modulator(value_of(modulator));
    return modulated(learner, data, stands ? etrace::StepInput(Array()) : modulator).at("w").tensor();
  };
  const Tensor exact = run(ThreeFactor(), full({}, 0.7, Dtype::F64));
  EXPECT_EQ(run(ThreeFactor(), Array(0.7)), exact) << "in a call";
  EXPECT_EQ(run(ThreeFactor(), Array(0.7), true), exact) << "by set_modulator";
  EXPECT_EQ(run(ThreeFactor({.modulator = 0.7}), Array()), exact) << "in the rule";
  EXPECT_EQ(run(*make_rule("ThreeFactor", {{"modulator", 0.7}}), Array()), exact) << "by name";
}

// Groups, neurons and samples have modulators of their own: the gradient is that of the factors one by one.
TEST(ThreeFactor, ModulatorsOfGroups) {
  const Model m = in_batch_of_two();
  const Sequence data = draw_sequence(m, 4);
  const auto run = [&](const std::vector<GroupModulator>& each, bool stands = false) {
    CompileOptions options;
    options.batch_size = 2;
    Learner learner = make_learner(m, ThreeFactor(), options);
    if (stands) learner.set_modulator(each);
    return learner
        .etrace_grad(
            data.all(), squared_error(),
            {.reduction = Reduction::Sum, .modulators = stands ? std::vector<GroupModulator>{} : each})
        .grads;
  };
  using Over = GroupModulator;
  const Array n = f64({1.0, 2.0, -3.0, 0.5}), k = f64({2.0, 0.0, 1.0}), b = f64({0.0, 2.0});
  const ParamValues one = run({{"h", Array(1.0)}, {"g", Array(1.0)}});
  const ParamValues own = run({{"g", k, Over::Neurons}, {"h", n, Over::Neurons}});
  EXPECT_GT(norm(one.at("w")), 1e-3);
  EXPECT_LT(relative_deviation(own.at("w"), one.at("w") * n), 1e-12);
  EXPECT_LT(relative_deviation(own.at("u"), one.at("u") * k), 1e-12);
  EXPECT_EQ(run({{"g", k, Over::Neurons}, {"h", n, Over::Neurons}}, true).at("w").tensor(),
            own.at("w").tensor());
  const ParamValues samples = run({{"h", b, Over::Samples}, {"g", Array(0.0)}});
  EXPECT_EQ(norm(samples.at("u")), 0.0);
  EXPECT_EQ(samples.at("w").tensor(),
            run({{"h", broadcast_to(reshape(b, {2, 1, 1}), {2, 4, 1})}, {"g", Array(0.0)}}).at("w").tensor());
  const Array steps = broadcast_to(expand_dims(n, {0}), {4, 4});
  EXPECT_EQ(run({{"h", MultiStepData{steps}, Over::Neurons}, {"g", k, Over::Neurons}}).at("w").tensor(),
            own.at("w").tensor());
  expect_error<ValueError>("no modulator for the group of g", [&] { run({{"h", n, Over::Neurons}}); });
  expect_error<ValueError>("a modulator for x, which names no group of hidden states; there are: h, g", [&] {
    run({{"h", Array(1.0)}, {"g", Array(1.0)}, {"x", Array(1.0)}});
  });
  expect_error<ValueError>("has shape [3]; the states of its group have [2,4,1]", [&] {
    run({{"h", k, Over::Neurons}, {"g", k, Over::Neurons}});
  });
  expect_error<ValueError>("say whether it counts samples or neurons", [&] {
    run({{"h", n}, {"g", k, Over::Neurons}});
  });
  expect_error<ValueError>("the same at all steps", [&] {
    run({{"h", MultiStepData{steps}, Over::Neurons}, {"g", k, Over::Neurons}}, true);
  });
}

// What stands is the learner's own: memory that it was given may change afterwards.
TEST(ThreeFactor, AModulatorIsCopied) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 4);
  std::vector<double> reward{0.5};
  Learner learner = make_learner(m, ThreeFactor());
  learner.set_modulator(Tensor::over({Dtype::F64, {1}}, reward.data()));
  reward[0] = 100.0;
  const Tensor found = modulated(learner, data, Array()).at("w").tensor();
  Learner other = make_learner(m, ThreeFactor());
  EXPECT_EQ(found, modulated(other, data, Array(0.5)).at("w").tensor());
}

// L91: what has no trace learns from the loss; windows of execution change nothing.
TEST(ThreeFactor, L91_PlainParametersLearnFromTheLoss) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 5);
  Learner learner = make_learner(m, ThreeFactor({.modulator = Array(0.3)}));
  expect_gradients(online(learner, data), gradients_of(m, D_RTRL(), data), 1e-12, {"out", "win"});
}

// DNI -------------------------------------------------------------------------------------------------------
// ∂(Σ_{t ≥ b} loss)/∂h_b for every b, by reverse mode; zero at the end.
Array future_signals(const Model& m, const Sequence& data) {
  const ParamValues params = initial_params(m);
  const std::int64_t steps = data.length();
  const auto step = [&](const Array& x, const Array& h) {
    Arrays in;
    std::size_t p = 0;
    for (const InputRecord& r : m.inputs)
      in.push_back(r.role == Role::Arg ? x : r.role == Role::Param ? params.values[p++] : h);
    const Arrays out = eval_jaxpr(m.program, in);
    std::pair<Array, Array> found;  // result, state
    for (std::size_t i = 0; i < m.outputs.size(); ++i) {
      if (m.outputs[i].role == Role::Out) found.first = out[i];
      if (m.outputs[i].role == Role::Hidden) found.second = out[i];
    }
    return found;
  };
  Array h = initial_states(m)[0];
  Arrays out;
  for (std::int64_t b = 0; b <= steps; ++b) {
    const ScalarFunction future = [&](ArraySpan at) {
      Array now = at[0], total = zeros_of({Dtype::F64, {}});
      for (std::int64_t t = b; t < steps; ++t) {
        const auto [y, next] = step(item(data.args[0], t), now);
        total = total + sum(square(y - item(data.targets, t)));
        now = next;
      }
      return total;
    };
    out.push_back(b == steps ? zeros_like(h) : grad(future)(Arrays{h})[0]);
    if (b < steps) h = step(item(data.args[0], b), h).second;
  }
  return expand_dims(stack(out), {2});  // [steps + 1, n, 1]
}

// Knows the future.
class Oracle : public Synthesizer {
 public:
  explicit Oracle(Array table) : table_(std::move(table)) {}
  std::string name() const override { return "oracle"; }
  std::vector<TraceSlot> params(const ETraceGraph&) const override { return {}; }
  Arrays estimate(const ETraceGraph&, const WindowData& w, ArraySpan, ArraySpan) const override {
    return {take(table_, w.age + Array(Tensor::full({Dtype::I32, {}}, w.steps)), 0)};
  }

 private:
  Array table_;
};

TEST(Dni, L92_ZeroIsDRtrlToTheBit) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 8);
  EXPECT_EQ(largest_deviation(gradients_of(m, InWindows(DNI()), data, 2),
                              gradients_of(m, InWindows(D_RTRL()), data, 2)),
            0.0);
}

TEST(Dni, L93_AnEstimateMovesPlainParametersOnly) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 8);
  const auto constant = std::make_shared<Oracle>(full({9, 4, 1}, 0.7, Dtype::F64));
  const ParamValues found = gradients_of(m, InWindows(DNI({.synthesizer = constant})), data, 2),
                    plain = gradients_of(m, InWindows(D_RTRL()), data, 2);
  EXPECT_GT(largest_deviation(found, plain, {"win"}), 1e-3);
  EXPECT_EQ(largest_deviation(found, plain, {"out", "w"}), 0.0);
}

TEST(Dni, L94_TheFutureItselfGivesReverseMode) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 8);
  const Array future = future_signals(m, data);
  const ParamValues expected = bptt(m, data).grads;
  const auto oracle = std::make_shared<Oracle>(future);
  for (const std::int64_t window : {1, 2, 4}) {
    const ParamValues found = gradients_of(m, InWindows(DNI({.synthesizer = oracle})), data, window);
    expect_gradients(found, expected, 1e-10, {"out", "win"});
    EXPECT_GT(largest_deviation(gradients_of(m, InWindows(D_RTRL()), data, window), expected, {"win"}), 1e-3);
  }
}

// A parameter that is used inside an operator and outside: each use by its own way.
TEST(Dni, CreditGoesToOccurrences) {
  const Model m = step_model({arg("x", {3}), hidden("h", {3}), param("w", {3, 3})}, [](In& in) {
    in.set("h", tanh(matmul_plain(in["x"], in["w"]) + 0.5 * in["h"] + 0.3 * matmul(in["x"], in["w"])));
    return in["h"];
  });
  const Sequence data = draw_sequence(m, 6);
  const auto oracle = std::make_shared<Oracle>(future_signals(m, data));
  expect_gradients(gradients_of(m, InWindows(DNI({.synthesizer = oracle})), data, 2), bptt(m, data).grads,
                   1e-10);
  EXPECT_GT(largest_deviation(gradients_of(m, InWindows(D_RTRL()), data, 2), bptt(m, data).grads), 1e-3);
}

TEST(Dni, L97_AWrongEstimateIsRefused) {
  const Model m = plain_and_traced();
  const Sequence data = draw_sequence(m, 4);
  const auto wrong = std::make_shared<Oracle>(full({9, 3, 1}, 0.0, Dtype::F64));
  expect_error<ValueError>("gives an estimate of shape [3,1] for group 0",
                           [&] { gradients_of(m, InWindows(DNI({.synthesizer = wrong})), data, 2); });
}

TEST(Dni, TheAffineSynthesizerIsARuleParameter) {
  const Model m = plain_and_traced();
  Learner learner = make_learner(m, InWindows(DNI()));
  EXPECT_THAT(learner.rule_param_names(),
              ::testing::ElementsAre("synthesizer/group0/weight", "synthesizer/group0/bias"));
  const Sequence data = draw_sequence(m, 6);
  const ParamValues zero = online(learner, data, 2);
  learner.reset_state();
  learner.reset_model_state();
  learner.set_rule_param("synthesizer/group0/bias", full({4}, 0.5, Dtype::F64));
  const ParamValues found = online(learner, data, 2);
  EXPECT_GT(largest_deviation(found, zero, {"win"}), 1e-3);
  const auto same = std::make_shared<Oracle>(full({9, 4, 1}, 0.5, Dtype::F64));
  EXPECT_EQ(largest_deviation(found, gradients_of(m, InWindows(DNI({.synthesizer = same})), data, 2)), 0.0);
}

}  // namespace
}  // namespace etrace
