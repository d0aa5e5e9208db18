// Leaky readouts: found by structure, and what e-prop makes of them.
#include "compiler/readouts.h"

#include <cmath>

#include "etrace/models.h"
#include "etrace/verify.h"
#include "learn/rules/readout_filter.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;
using ::testing::HasSubstr;

Model built_in(const char* name, std::optional<std::int64_t> batch = {}) {
  const ReadyModel ready = make_model(name, {.batch = batch, .dtype = Dtype::F64});
  return trace_step(*ready.module, ready.example, name).model;
}

// v ← .9 v + x·win + tanh(v)·w of the old v, z = tanh(v), and a readout of z.
Model layer_and(const std::function<Array(In&, const Array& z)>& readout,
                std::vector<testing::StepInput> more = {}) {
  std::vector<testing::StepInput> inputs{arg("x", {3}),        hidden("v", {4}),   hidden("q", {2}),
                                         param("win", {3, 4}), param("w", {4, 4}), param("out", {4, 2})};
  inputs.insert(inputs.end(), more.begin(), more.end());
  return step_model(inputs, [&](In& in) {
    in.set("v", 0.9 * in["v"] + matmul(in["x"], in["win"]) + matmul(tanh(in["v"]), in["w"]));
    return readout(in, tanh(in["v"]));
  });
}

ETraceGraph compiled_for(const Model& m, const LearningRule& rule) {
  CompileOptions options;
  rule.configure(options);
  return compile_etrace_graph(m, options);
}
std::vector<LeakyReadout> readouts(const Model& m, const LearningRule& rule = D_RTRL()) {
  return leaky_readouts(compiled_for(m, rule));
}

// The only one, with its decay or the reason why there is none.
void expect_decay(const Model& m, double decay) {
  for (const auto& rule : {make_rule("D_RTRL"), make_rule("OSTLRecurrent"), make_rule("SnAp")}) {
    const std::vector<LeakyReadout> found = readouts(m, *rule);
    ASSERT_EQ(found.size(), 1U) << rule->describe();
    ASSERT_TRUE(found[0].decay) << found[0].unknown;
    EXPECT_NEAR(*found[0].decay, decay, 1e-12);
  }
}
void expect_unknown(const Model& m, const char* why) {
  const std::vector<LeakyReadout> found = readouts(m);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_FALSE(found[0].decay);
  EXPECT_THAT(found[0].unknown, HasSubstr(why));
}

TEST(Readouts, BuiltInModels) {
  for (const char* name : {"lif", "lif_expon", "alif", "gif", "if", "conv_snn", "lif_ref"}) {
    SCOPED_TRACE(name);
    expect_decay(built_in(name), std::exp(-0.1));
  }
  expect_decay(built_in("lif", 3), std::exp(-0.1));
  for (const char* name : {"gru", "lstm", "rnn", "two_layer_gru", "lru", "mini_gru"})
    EXPECT_TRUE(readouts(built_in(name)).empty()) << name;
}

TEST(Readouts, ByWhatTheyKeepOfThemselves) {
  expect_decay(layer_and([](In& in, const Array& z) {
                 in.set("q", 0.7 * in["q"] + matmul(z, in["out"]));
                 return in["q"];
               }),
               0.7);
  // The same in other words: q + (y − q)/4, and the result is a function of it.
  expect_decay(layer_and([](In& in, const Array& z) {
                 in.set("q", in["q"] + 0.25 * (matmul(z, in["out"]) - in["q"]));
                 return 2.0 * tanh(in["q"]) - 1.0;
               }),
               0.75);
  // A decay from constants of the program.
  expect_decay(layer_and([](In& in, const Array& z) {
                 in.set("q", exp(-1.0 / full({2}, 5.0, Dtype::F64)) * in["q"] + matmul(z, in["out"]));
                 return in["q"];
               }),
               std::exp(-0.2));
  expect_unknown(layer_and([](In& in, const Array& z) {
                   in.set("q", array({0.5, 0.6}, Dtype::F64) * in["q"] + matmul(z, in["out"]));
                   return in["q"];
                 }),
                 "decay differently");
  expect_unknown(layer_and(
                     [](In& in, const Array& z) {
                       in.set("q", logistic(in["tau"]) * in["q"] + matmul(z, in["out"]));
                       return in["q"];
                     },
                     {param("tau", {2})}),
                 "depends on parameters");
  expect_unknown(layer_and(
                     [](In& in, const Array& z) {
                       const Array current = 0.5 * in["i"] + matmul(z, in["out"]);
                       in.set("q", 0.7 * in["q"] + in["i"]);
                       in.set("i", current);
                       return in["q"];
                     },
                     {hidden("i", {2})}),
                 "2 states per unit");
  expect_unknown(layer_and([](In& in, const Array& z) {
                   in.set("q", in["q"] + matmul(z, in["out"]));
                   return in["q"];
                 }),
                 "which is no decay");
}

TEST(Readouts, WhatIsNone) {
  // A leaky layer that no state feeds; one that feeds another weight; one that feeds a state; one that is not
  // read; one whose decay the data decides; one that is not linear in itself.
  EXPECT_TRUE(readouts(leaky_linear()).empty());
  EXPECT_TRUE(readouts(layer_and(
                           [](In& in, const Array& z) {
                             in.set("q", 0.7 * in["q"] + matmul(z, in["out"]));
                             return matmul(in["q"], in["last"]);
                           },
                           {param("last", {2, 2})}))
                  .empty());
  EXPECT_TRUE(readouts(layer_and(
                           [](In& in, const Array& z) {
                             in.set("q", 0.7 * in["q"] + matmul(z, in["out"]));
                             return matmul_plain(in["q"], in["last"]);
                           },
                           {param("last", {2, 2})}))
                  .empty());
  EXPECT_TRUE(readouts(layer_and(
                           [](In& in, const Array& z) {
                             in.set("q", 0.7 * in["q"] + matmul(z, in["out"]));
                             in.set("n", in["n"] + sum(in["q"]) * ones({3}, Dtype::F64));
                             return in["q"];
                           },
                           {hidden("n", {3})}))
                  .empty());
  EXPECT_TRUE(readouts(layer_and([](In& in, const Array& z) {
                in.set("q", 0.7 * in["q"] + matmul(z, in["out"]));
                return z;
              })).empty());
  EXPECT_TRUE(readouts(layer_and([](In& in, const Array& z) {
                in.set("q", logistic(slice(in["x"], {0}, {2})) * in["q"] + matmul(z, in["out"]));
                return in["q"];
              })).empty());
  // The data choose among decays, by a number that is not floating.
  EXPECT_TRUE(readouts(layer_and([](In& in, const Array& z) {
                const Array y = matmul(z, in["out"]);
                in.set("q", where(y > 0.0, 0.7 * in["q"], 0.5 * in["q"]) + y);
                return in["q"];
              })).empty());
  EXPECT_TRUE(readouts(layer_and([](In& in, const Array& z) {
                const Array y = matmul(z, in["out"]), q = in["q"];
                in.set("q", cond(
                                sum(in["x"]) > 0.0, [](ArraySpan a) { return Arrays{0.7 * a[0] + a[1]}; },
                                [](ArraySpan a) { return Arrays{0.5 * a[0] + a[1]}; }, Arrays{q, y})[0]);
                return in["q"];
              })).empty());
  EXPECT_TRUE(readouts(layer_and([](In& in, const Array& z) {
                in.set("q", 0.7 * tanh(in["q"]) + matmul(z, in["out"]));
                return in["q"];
              })).empty());
}

// e-prop ----------------------------------------------------------------------------------------------------
TEST(MatchedFilter, IsThatOfTheReadoutWhichItLeavesOut) {
  for (const char* name : {"lif", "alif", "conv_snn"}) {
    SCOPED_TRACE(name);
    const Model m = built_in(name);
    const Sequence data = draw_sequence(m, 12);
    const EProp given({.kappa_filter_decay = std::exp(-0.1), .unfiltered = {"out/r"}});
    expect_gradients(gradients_of(m, EProp(), data), gradients_of(m, given, data), 1e-13);
    // A kappa of one's own leaves the readout out by itself; its own weight is exact under every kappa.
    expect_gradients(gradients_of(m, EProp({.kappa_filter_decay = std::exp(-0.1)}), data),
                     gradients_of(m, EProp(), data), 1e-13);
    expect_gradients(gradients_of(m, EProp({.kappa_filter_decay = 0.5}), data), bptt(m, data).grads, 1e-12,
                     {"out/W"});
    // In windows reverse mode leads through the readout.
    expect_gradients(gradients_of(m, InWindows(EProp()), data, 4),
                     gradients_of(m, InWindows(D_RTRL()), data, 4), 1e-13);
  }
}

// What windows never read is not carried through them.
TEST(MatchedFilter, TakesNoMemoryInWindows) {
  for (const char* name : {"lif", "alif", "conv_snn"}) {
    SCOPED_TRACE(name);
    const Model m = built_in(name);
    const auto learner = [&](const LearningRule& rule, VjpMethod method) {
      return Learner(compiled_for(m, rule), rule, {.vjp_method = method});
    };
    const Learner steps = learner(EProp(), VjpMethod::SingleStep),
                  windows = learner(EProp(), VjpMethod::MultiStep),
                  plain = learner(D_RTRL(), VjpMethod::MultiStep),
                  given = learner(EProp({.kappa_filter_decay = 0.9}), VjpMethod::MultiStep);
    EXPECT_EQ(windows.trace_bytes(), plain.trace_bytes());
    EXPECT_EQ(steps.trace_bytes(), 2 * plain.trace_bytes());
    EXPECT_EQ(given.trace_bytes(), 2 * plain.trace_bytes());  // signals at an entry meet it
    EXPECT_EQ(windows.describe(), "EProp (no filter: windows lead back through out/r), multi-step");
    EXPECT_THAT(steps.describe(), HasSubstr("kappa 0.9048 of out/r"));
    const Sequence data = draw_sequence(m, 12);
    EXPECT_EQ(largest_deviation(gradients_of(m, InWindows(EProp()), data, 4),
                                gradients_of(m, InWindows(D_RTRL()), data, 4)),
              0.0);
  }
  // A class that is more than its settings stays what it is.
  struct Own : EProp {
    std::string describe() const override { return "Own"; }
    std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<Own>(*this); }
  };
  EXPECT_EQ(Own().for_method(VjpMethod::MultiStep)->describe(), "Own");
}

// Without the filter a layer's gradient has a tenth of its size; with another readout's state it had eight
// times the readout's.
TEST(MatchedFilter, GivesGradientsTheirSize) {
  const StepFunction mse = [](StepCall& m, ArraySpan s) { return LossAndAux{loss::mse(m(s[0]), s[1])}; };
  for (const char* name : {"lif", "alif", "if", "gif"}) {
    SCOPED_TRACE(name);
    const Model m = built_in(name);
    const Arrays data{3.0 * random::normal(random::key(1), {64, 4}, Dtype::F64),
                      random::normal(random::key(2), {64, 2}, Dtype::F64)};
    const auto ratio = [&](const LearningRule& rule, const char* leaf) {
      const VerifyReport r =
          verify(m, rule, data, mse, {.windows = {64}, .lags = 0, .method = VjpMethod::SingleStep});
      for (const VerifyReport::Leaf& l : r.leaves)
        if (to_string(l.id) == leaf) return l.measures[0].norm_ratio;
      throw ValueError("test", "no such leaf");
    };
    const char* weight = "syn/weight.weight";
    EXPECT_LT(ratio(D_RTRL(), weight), 0.2);
    EXPECT_GT(ratio(EProp(), weight), 0.5);
    EXPECT_LT(ratio(EProp(), weight), 1.5);
    EXPECT_NEAR(ratio(EProp(), "out/W"), 1.0, 1e-12);
  }
}

// A filter stands for what a readout keeps, so a weight that reaches the readout by another way as well
// is not exact, though its own group passes nothing on.
TEST(MatchedFilter, IsNotExactWhereTheWeightFeedsTheReadoutToo) {
  const Model m =
      step_model({arg("x", {3}), hidden("h", {2}), hidden("r", {2}), param("w", {3, 2})}, [](In& in) {
        const Array y = matmul(in["x"], in["w"]);
        in.set("h", tanh(y));
        in.set("r", 0.5 * in["r"] + y + in["h"]);
        return in["r"];
      });
  ASSERT_EQ(readouts(m, EProp()).size(), 1U);
  const ETraceGraph g = compiled_for(m, EProp());
  const LeafExpectation e = expected_gradients(g, EProp()).at(0);
  EXPECT_NE(e.single_step.expectation, Expectation::Exact) << e.single_step.reason;
  EXPECT_THAT(e.single_step.reason, HasSubstr("a filter of the trace stands for what r keeps"));
  EXPECT_EQ(expected_gradients(compiled_for(m, D_RTRL()), D_RTRL()).at(0).single_step.expectation,
            Expectation::Exact);
  const Sequence data = draw_sequence(m, 6);
  const auto apart = [&](const LearningRule& rule) {
    return largest_deviation(gradients_of(m, rule, data), bptt(m, data).grads);
  };
  EXPECT_LT(apart(D_RTRL()), 1e-12);
  EXPECT_GT(apart(EProp()), 1e-3);
}

TEST(MatchedFilter, WhereThereIsNoneItIsDRtrl) {
  const Model none = built_in("gru");
  const Sequence data = draw_sequence(none, 6);
  EXPECT_EQ(largest_deviation(gradients_of(none, EProp(), data), gradients_of(none, D_RTRL(), data)), 0.0);
  const Model m = built_in("lif");
  const Sequence spikes = draw_sequence(m, 6);
  EXPECT_EQ(largest_deviation(gradients_of(m, EProp({.kappa_filter_decay = 0.0}), spikes),
                              gradients_of(m, D_RTRL(), spikes)),
            0.0);
  Learner compat = make_learner(m, EProp(), Compat::Braintrace),
          reference = make_learner(m, D_RTRL(), Compat::Braintrace);
  EXPECT_EQ(largest_deviation(online(compat, spikes), online(reference, spikes)), 0.0);
}

// A layer beside the one that is read has no filter to expect.
TEST(MatchedFilter, FiltersWhatFeedsTheReadoutAlone) {
  const Model m = layer_and(
      [](In& in, const Array& z) {
        in.set("q", 0.7 * in["q"] + matmul(z, in["out"]));
        in.set("u", 0.6 * in["u"] + matmul(in["x"], in["beside"]));
        return concatenate(Arrays{in["q"], in["u"]});
      },
      {hidden("u", {3}), param("beside", {3, 3})});
  const Sequence data = draw_sequence(m, 8);
  expect_gradients(gradients_of(m, EProp(), data), bptt(m, data).grads, 1e-12, {"beside", "out"});
  CompileOptions options;
  const ETraceGraph g = compile_etrace_graph(m, options);
  EXPECT_EQ(EProp().describe_on(g), "EProp (kappa 0.7 of q)");
}

TEST(MatchedFilter, SaysWhatItDoes) {
  const auto graph = [](const Model& m, bool composite = false) {
    CompileOptions options;
    options.composite = composite;
    return compile_etrace_graph(m, options);
  };
  const ETraceGraph lif = graph(built_in("lif")), gru = graph(built_in("gru"));
  EXPECT_EQ(EProp().describe(), "EProp");
  EXPECT_EQ(EProp().describe_on(lif), "EProp (kappa 0.9048 of out/r)");
  EXPECT_EQ(EProp({.kappa_filter_decay = 0.8}).describe_on(lif), "EProp (kappa 0.8, not for out/r)");
  EXPECT_EQ(EProp().describe_on(gru), "EProp (no filter: there is no leaky readout)");
  EXPECT_EQ(D_RTRL().describe_on(lif), "D_RTRL");
  EXPECT_THAT(readout_notes(lif).at(0), HasSubstr("out/r is a leaky readout: 0.9048 of it is kept"));
  EXPECT_TRUE(readout_notes(gru).empty());
  const ETraceGraph unknown = graph(layer_and([](In& in, const Array& z) {
    in.set("q", array({0.5, 0.6}, Dtype::F64) * in["q"] + matmul(z, in["out"]));
    return in["q"];
  }));
  EXPECT_EQ(EProp().describe_on(unknown), "EProp (no filter: q: its units decay differently)");
  EXPECT_THAT(readout_notes(unknown).at(0),
              HasSubstr("EProp has no filter unless kappa_filter_decay is given"));
  const ETraceGraph composite = graph(built_in("lif"), true);
  EXPECT_EQ(EProp({.composite = true}).describe_on(composite),
            composite.composite_relations.empty()
                ? "EProp (kappa 0.9048 of out/r, composite)"
                : "EProp (no filter: composite traces carry what the readout keeps, composite)");
}

}  // namespace
}  // namespace etrace
