// e-prop: the filter behind the trace, and random feedback.
#include <fmt/format.h>

#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// h ← x·w, no memory at all; the loss of a step is c·h with the coefficient in its slice.
Model memoryless_line() {
  Model m = step_model({arg("x", {1}), hidden("h", {1}), param("w", {1, 1})}, [](In& in) {
    in.set("h", 0.0 * in["h"] + matmul(in["x"], in["w"]));
    return in["h"];
  });
  return m;
}

TEST(Kappa, L47_TwoStepsByHand) {
  const StepFunction weighted = [](StepCall& model, ArraySpan s) -> LossAndAux {
    return {sum(model(s[0]) * s[1])};
  };
  const Array x = array({2, 2}, {2, 1}, Dtype::F64), c = array({1, -1}, {2, 1}, Dtype::F64);
  Learner learner = make_learner(memoryless_line(), EProp({.kappa_filter_decay = 0.5}));
  // ē: 2, then 0.5·2 + 2 = 3.
  const ParamValues first = learner
                                .etrace_grad(Arrays{slice_axis(x, 0, 0, 1), slice_axis(c, 0, 0, 1)}, weighted,
                                             {.reduction = Reduction::Sum})
                                .grads,
                    second = learner
                                 .etrace_grad(Arrays{slice_axis(x, 0, 1, 2), slice_axis(c, 0, 1, 2)},
                                              weighted, {.reduction = Reduction::Sum})
                                 .grads;
  EXPECT_DOUBLE_EQ(first.values[0].item<double>(), 2.0);
  EXPECT_DOUBLE_EQ(second.values[0].item<double>(), -3.0);
}

TEST(Kappa, L48_ZeroIsDRtrlToTheBit) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 8);
  EXPECT_EQ(largest_deviation(gradients_of(m, EProp(), data), gradients_of(m, D_RTRL(), data)), 0.0);
  EXPECT_EQ(largest_deviation(gradients_of(m, InWindows(EProp()), data, 2),
                              gradients_of(m, InWindows(D_RTRL()), data, 2)),
            0.0);
  EXPECT_GT(largest_deviation(gradients_of(m, EProp({.kappa_filter_decay = 0.5}), data),
                              gradients_of(m, D_RTRL(), data)),
            1e-6);
}

// The filter by its definition, from D-RTRL's own traces: ē ← κ·ē + e, state by state.
TEST(Kappa, L49_FiltersTheTraceAsDefined) {
  constexpr double kKappa = 0.8;
  for (const Structure structure : kStructures) {
    SCOPED_TRACE(name(structure));
    const Model m = operator_model(operator_case("mm_bias"), structure);
    const Sequence data = draw_sequence(m, 6);
    Learner plain = make_learner(m, D_RTRL()),
            filtered = make_learner(m, EProp({.kappa_filter_decay = kKappa}));
    Arrays expected;
    for (std::int64_t t = 0; t < data.length(); ++t) {
      const Sequence now = data.part(t, t + 1);
      online(plain, now);
      online(filtered, now);
      const Arrays e = traces_of(plain);
      if (expected.empty())
        for (const Array& a : e) expected.push_back(zeros_like(a));
      for (std::size_t i = 0; i < e.size(); ++i) expected[i] = kKappa * expected[i] + e[i];
    }
    const Arrays found = traces_of(filtered);  // e and ē in turn
    ASSERT_EQ(found.size(), 2 * expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_LE(relative_deviation(found[2 * i], traces_of(plain)[i]), 1e-13);
      EXPECT_LE(relative_deviation(found[2 * i + 1], expected[i]), 1e-13);
    }
  }
}

// It moves with the trace: a run without gradients leaves the same filter as one with them. The reference
// moves it when it forms a gradient.
TEST(Kappa, MovesWithoutGradients) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 5);
  const EProp rule({.kappa_filter_decay = 0.8});
  for (const Compat compat : {Compat::None, Compat::Braintrace}) {
    Learner learns = make_learner(m, rule, compat), watches = make_learner(m, rule, compat);
    online(learns, data);
    watches.etrace_evolve(data.args);
    const Arrays a = traces_of(learns), b = traces_of(watches);
    double apart = 0.0;
    for (std::size_t i = 0; i < a.size(); ++i) apart = std::max(apart, norm(a[i] - b[i]));
    if (compat == Compat::None)
      EXPECT_LE(apart, 1e-14);
    else
      EXPECT_GT(apart, 1e-3);
  }
}

// v ← .8 v + x·win + z·w, z ← tanh(v), n ← n + z, read as (z, n).
Model counting(bool batched = false) {
  const auto shape = [&](std::int64_t n) { return batched ? Shape{2, n} : Shape{n}; };
  return step_model({arg("x", shape(3)), hidden("v", shape(4)), hidden("z", shape(4)), hidden("n", shape(4)),
                     param("w", {4, 4}), param("win", {3, 4})},
                    [](In& in) {
                      const Array v = 0.8 * in["v"] + matmul(in["x"], in["win"]) + matmul(in["z"], in["w"]);
                      const Array z = tanh(v), n = in["n"] + z;
                      in.set("v", v);
                      in.set("z", z);
                      in.set("n", n);
                      return concatenate(Arrays{z, n}, static_cast<int>(z.rank()) - 1);
                    });
}

// Signals to n meet the trace itself, those to z the filter: by linearity the sum of D_RTRL on the one part
// of the loss and EProp on the other.
TEST(Kappa, StatesThatAreNotFiltered) {
  const StepFunction weighted = [](StepCall& model, ArraySpan s) -> LossAndAux {
    return {sum(model(s[0]) * s[1])};
  };
  for (const bool batched : {false, true})
    for (const std::int64_t order : {0, 2}) {  // diagonal, SnAp-2
      SCOPED_TRACE(fmt::format("batched {}, sparse_n {}", batched, order));
      const Model m = counting(batched);
      const Sequence data = draw_sequence(m, 7);
      const Array to_z = data.targets *
                         broadcast_to(array({1, 1, 1, 1, 0, 0, 0, 0}, Dtype::F64), data.targets.shape()),
                  to_n = data.targets - to_z;
      const auto rule = [&](double kappa, std::vector<std::string> unfiltered) {
        ETraceAxes axes{.trace_filter = TraceFilter::Kappa, .kappa = kappa};
        if (order > 0) {
          axes.recurrence_scope = RecurrenceScope::SparseN;
          axes.sparse_n = order;
        }
        return ConfiguredRule(axes, {.unfiltered = std::move(unfiltered)});
      };
      const auto gradient = [&](const LearningRule& r, const Array& coefficients) {
        Learner learner = make_learner(m, r);
        return learner
            .etrace_grad(Arrays{data.args[0], coefficients}, weighted, {.reduction = Reduction::Sum})
            .grads;
      };
      const auto summed = [](const ParamValues& a, const ParamValues& b) {
        GradientSum sum;
        sum.add(a);
        sum.add(b);
        return sum.value();
      };
      const ParamValues found = gradient(rule(0.7, {"n"}), data.targets);
      expect_gradients(found, summed(gradient(rule(0.7, {}), to_z), gradient(rule(0.0, {}), to_n)), 1e-12);
      EXPECT_GT(largest_deviation(found, gradient(rule(0.7, {}), data.targets)), 1e-3);
      expect_gradients(gradient(rule(0.7, {"v", "z", "n"}), data.targets),
                       gradient(rule(0.0, {}), data.targets), 1e-12);

      // The same for a signal from outside.
      const auto solved = [&](const LearningRule& r, const char* state) {
        Learner learner = make_learner(m, r);
        learner.etrace_evolve(data.args);
        Arrays signals;
        for (const HiddenGroup& group : learner.graph().hidden_groups) {
          Arrays states;
          for (const HiddenInfo& h : group.hidden_states)
            states.push_back(to_string(h.path) == state ? ones_like(zeros_of(h.invar.aval))
                                                        : zeros_of(h.invar.aval));
          signals.push_back(group.concat_hidden(states));
        }
        return learner.solve(signals);
      };
      expect_gradients(solved(rule(0.7, {"n"}), "n"), solved(rule(0.0, {}), "n"), 1e-12);
      expect_gradients(solved(rule(0.7, {"n"}), "z"), solved(rule(0.7, {}), "z"), 1e-12);
      EXPECT_GT(largest_deviation(solved(rule(0.7, {}), "n"), solved(rule(0.0, {}), "n")), 1e-3);
    }
}

TEST(Kappa, StatesThatAreNotFilteredByName) {
  const Model m = counting();
  expect_error<ValueError>(
      "unfiltered names spikes, which is no hidden state in a group; there are: v, z, n",
      [&] { make_learner(m, EProp({.kappa_filter_decay = 0.5, .unfiltered = {"spikes"}})); });
  const auto rule = make_rule("EProp", {{"kappa_filter_decay", 0.5}, {"unfiltered", "n, z"}});
  EXPECT_EQ(rule->describe(), "EProp (kappa 0.5, not for n, z)");
  EXPECT_EQ(largest_deviation(gradients_of(m, *rule, draw_sequence(m, 5)),
                              gradients_of(m, EProp({.kappa_filter_decay = 0.5, .unfiltered = {"z", "n"}}),
                                           draw_sequence(m, 5))),
            0.0);
}

// Random feedback -------------------------------------------------------------------------------------------
Model with_readout(double scale) {
  Model m =
      step_model({arg("x", {3}), hidden("h", {4}), param("out", {4, 4}), param("w", {3, 4})}, [](In& in) {
        in.set("h", 0.8 * in["h"] + tanh(matmul(in["x"], in["w"])));
        return matmul_plain(in["h"], in["out"]);
      });
  set_initial(m, "out", scale * initial_params(m).at("out"));
  return m;
}

// A loss that is linear in the result: its gradient scales with the readout, and with nothing else.
ParamValues linear_gradient(const Model& m, const LearningRule& rule) {
  const StepFunction linear = [](StepCall& model, ArraySpan s) -> LossAndAux {
    return {sum(model(s[0]) * s[1])};
  };
  const Sequence data = draw_sequence(m, 5);
  Learner learner = make_learner(m, rule);
  return learner.etrace_grad(data.all(), linear, {.reduction = Reduction::Sum}).grads;
}

TEST(RandomFeedback, L50_L51_TheSizeOfTheReadoutDoesNotMatter) {
  const EProp random({.feedback = Feedback::Random, .random_feedback_key = 3});
  const auto of = [](double scale, const LearningRule& rule) {
    return linear_gradient(with_readout(scale), rule);
  };
  expect_gradients(of(5.0, random), of(1.0, random), 1e-6, {"w"});
  EXPECT_GT(largest_deviation(of(5.0, EProp()), of(1.0, EProp()), {"w"}), 1e-4);
  EXPECT_GT(largest_deviation(of(1.0, EProp({.feedback = Feedback::Random, .random_feedback_key = 4})),
                              of(1.0, random), {"w"}),
            1e-4);
}

// One step by hand: λ/‖λ‖·B meets the trace; B is what the learner says it is.
TEST(RandomFeedback, ByHand) {
  const Model m = leaky_linear();
  const Sequence data = draw_sequence(m, 1);
  Learner learner = make_learner(m, EProp({.feedback = Feedback::Random, .random_feedback_key = 3}));
  const Array b = learner.rule_param("group0/feedback");
  EXPECT_GT(norm(b), 0.05);
  const Array found = online(learner, data).at("w");
  const Array signal = 2.0 * (learner.state("h") - item(data.targets, 0));
  const Array mapped = dot(signal / (norm(signal) + 1e-8), b);
  const Array expected = reshape(item(data.args[0], 0), {3, 1}) * reshape(mapped, {1, 4});
  EXPECT_LE(relative_deviation(found, expected), 1e-12);
  learner.reset_state();
  EXPECT_EQ(learner.rule_param("group0/feedback").tensor(), b.tensor()) << "resets leave it";
  EXPECT_THAT(learner.rule_param_names(), ::testing::ElementsAre("group0/feedback"));
  expect_error<ValueError>("it has: group0/feedback", [&] { learner.rule_param("feedback"); });
  expect_error<ValueError>("has type", [&] { learner.set_rule_param("group0/feedback", zeros({2, 2})); });
}

TEST(RandomFeedback, L52_L53_ByCoordinates) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 8);
  const auto pairs = [&](const LearningRule& rule) { return gradients_of(m, InWindows(rule), data, 2); };
  const ConfiguredRule same(ETraceConfig({.learning_signal = LearningSignal::RandomFeedback}),
                            {.random_feedback_key = 3});
  EXPECT_EQ(
      largest_deviation(pairs(same), pairs(EProp({.feedback = Feedback::Random, .random_feedback_key = 3}))),
      0.0);
  const ETraceConfig sides(
      {.trace_factorization = TraceFactorization::IoFactorized, .decay = PerSide<double>(0.9)});
  const ConfiguredRule symmetric(sides);
  const ConfiguredRule random(sides.replace({{"learning_signal", "random_feedback"}}),
                              {.random_feedback_key = 3});
  const ConfiguredRule coupled(sides.replace({{"recurrence_scope", "coupled"}}));
  EXPECT_GT(largest_deviation(pairs(random), pairs(symmetric)), 1e-6);
  EXPECT_GT(largest_deviation(pairs(coupled), pairs(symmetric)), 1e-6);
}

// The recursion that is put in the place of the Jacobian.
TEST(Recursion, L9_L14_LeaksAndNone) {
  const auto leak = [](double decay) {
    return ConfiguredRule(
        ETraceConfig({.temporal_recursion = TemporalRecursion::ScalarLeak, .decay = PerSide<double>(decay)}));
  };
  const ConfiguredRule none(ETraceConfig({.temporal_recursion = TemporalRecursion::None}));
  const auto pairs = [](const Model& m, const LearningRule& rule) {
    return gradients_of(m, InWindows(rule), draw_sequence(m, 8), 2);
  };
  const Model line = leaky_linear(), net = tanh_rnn(), two = two_state();
  EXPECT_EQ(largest_deviation(pairs(line, leak(0.9)), pairs(line, D_RTRL())), 0.0);
  EXPECT_GT(largest_deviation(pairs(line, leak(0.5)), pairs(line, D_RTRL())), 1e-6);
  EXPECT_EQ(largest_deviation(pairs(net, none), pairs(net, D_RTRL())), 0.0) << "D is zero";
  EXPECT_GT(largest_deviation(pairs(net, leak(0.9)), pairs(net, D_RTRL())), 1e-6);
  EXPECT_GT(largest_deviation(pairs(two, none), pairs(two, D_RTRL())), 1e-6);
}

TEST(Parts, FilterAndFeedback) {
  KappaFilter filter(zeros({2}, Dtype::F64), 0.75);
  filter.update(array({4, 8}, Dtype::F64));
  EXPECT_DOUBLE_EQ(item(filter.update(array({0, 4}, Dtype::F64)), 1).item<double>(), 0.75 * 2.0 + 1.0);
  filter.reset();
  EXPECT_EQ(norm(filter.value()), 0.0);
  expect_error<ValueError>("kappa 1", [] { KappaFilter f(zeros({2}), 1.0); });
  const FixedRandomFeedback feedback(2, 5, 1);
  // attach: the value stays to the bit, the gradient also goes to the layer, as ct·B.
  const Array y = random::normal(random::key(4), {3, 2}), layer = random::normal(random::key(5), {3, 5}),
              ct = random::normal(random::key(6), {3, 2});
  EXPECT_EQ(feedback.attach(y, layer).tensor(), y.tensor());
  const Arrays back =
      grad([&](ArraySpan in) { return sum(feedback.attach(in[0], in[1]) * ct); }, {0, 1})(Arrays{y, layer});
  EXPECT_LE(relative_deviation(back[0], ct), 1e-6);
  EXPECT_LE(relative_deviation(back[1], feedback.project(ct)), 1e-6);
  expect_error<ValueError>("attached to a layer of shape", [&] { feedback.attach(y, ones({3, 4})); });
  EXPECT_EQ(feedback.project(ones({3, 2})).shape(), Shape({3, 5}));
  expect_error<ValueError>("for 2 targets", [&] { feedback.project(ones({3})); });
}

}  // namespace
}  // namespace etrace
