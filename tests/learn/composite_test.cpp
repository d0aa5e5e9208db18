// Composite relations: weights behind other weights, against RTRL with dense matrices and the recurrence of
// the rule's scope.
#include "etrace/nn/gru_cell.h"
#include "etrace/verify.h"
#include "learn/dense_rtrl.h"

namespace etrace {
namespace {

using namespace testing;

// Networks -------------------------------------------------------------------------------------------------
using Batch = std::optional<std::int64_t>;
Shape shaped(Batch batch, const Shape& s) { return batch ? s.with_front(*batch) : s; }

Array gru(const Array& x, const ByName& at, const Cut& cut) {
  const Array h = at("h"), old = cut(h);
  const auto joined = [&](const Array& a) {
    return concatenate(Arrays{x, a}, static_cast<int>(a.rank()) - 1);
  };
  const Array z = logistic(matmul(joined(old), at("wz"))), r = logistic(matmul(joined(old), at("wr")));
  return (1.0 - z) * h + z * tanh(matmul(joined(cut(r * h)), at("wh"), at("b")));
}

Net gru_net(Batch batch) {
  return {"gru",
          {arg("x", shaped(batch, {2})), hidden("h", shaped(batch, {3})), param("b", {3}),
           param("wh", {5, 3}), param("wr", {5, 3}), param("wz", {5, 3})},
          {"h"},
          {"wr"},
          [](const ByName& at, const Cut& cut) { return Arrays{gru(at("x"), at, cut)}; },
          [](const ByName& at) { return sin(at("h")); }};
}

Net embedded_gru(Batch batch) {
  return {
      "embedding",
      {arg("x", batch ? Shape{*batch} : Shape{}, Dtype::I32), hidden("h", shaped(batch, {3})),
       param("b", {3}), param("table", {3, 2}), param("wh", {5, 3}), param("wr", {5, 3}),
       param("wz", {5, 3})},
      {"h"},
      {"table", "wr"},
      [](const ByName& at, const Cut& cut) { return Arrays{gru(embedding(at("x"), at("table")), at, cut)}; },
      [](const ByName& at) { return at("h"); }};
}

// A convolution has a batch of its own, also before states without one.
Net convolved_rnn(Batch batch) {
  return {
      "convolution",
      {arg("x", {batch.value_or(1), 2, 4}), hidden("h", shaped(batch, {3})), param("k", {2, 2, 3}),
       param("kb", {2}), param("w", {3, 3}), param("win", {8, 3})},
      {"h"},
      {"k", "kb"},
      [batch](const ByName& at, const Cut& cut) {
        const Array seen = tanh(conv(at("x"), at("k"), at("kb")));
        const Array flat = batch ? reshape(seen, {*batch, 8}) : reshape(seen, {8});
        return Arrays{0.6 * at("h") + 0.4 * tanh(matmul(flat, at("win")) + matmul(cut(at("h")), at("w")))};
      },
      [](const ByName& at) { return at("h"); }};
}

// Two states, of which one reads the other in the same step; a gain per input in front.
Net two_states(Batch batch) {
  return {"states",
          {arg("x", shaped(batch, {2})), hidden("a", shaped(batch, {3})), hidden("v", shaped(batch, {3})),
           param("gain", {2}), param("inner", {2, 4}), param("w", {4, 3})},
          {"v", "a"},
          {"gain", "inner"},
          [](const ByName& at, const Cut&) {
            const Array drive =
                matmul(tanh(matmul(at("x") * element_wise(at("gain")), at("inner"))), at("w"));
            const Array v = 0.9 * at("v") + drive - 0.1 * at("a");
            return Arrays{v, 0.8 * at("a") + sin(v)};
          },
          [](const ByName& at) { return at("v") * at("a"); }};
}

// Rows of an operator that are no samples: all of them act on every state.
Net rows_net(Batch batch) {
  return {"rows",
          {arg("x", {4, 2}), hidden("h", shaped(batch, {3})), param("rows", {2, 5}), param("w", {5, 3})},
          {"h"},
          {"rows"},
          [batch](const ByName& at, const Cut&) {
            const Array seen = sin(matmul(at("x"), at("rows")));
            const Array mean = reshape(sum(seen * seen, {0}), {1, 5});
            const Array all = batch ? broadcast_to(mean, {*batch, 5}) : reshape(mean, {5});
            return Arrays{0.8 * at("h") + matmul(all, at("w")) * cos(at("h"))};
          },
          [](const ByName& at) { return at("h"); }};
}

// Directly, and through another weight as well.
Net partial_net(Batch batch) {
  return {
      "partial",
      {arg("x", shaped(batch, {2})), hidden("h", shaped(batch, {3})), param("u", {3, 3}), param("w", {2, 3})},
      {"h"},
      {"w"},
      [](const ByName& at, const Cut&) {
        const Array y = matmul(at("x"), at("w"));
        return Arrays{0.5 * at("h") + tanh(y) + y * matmul(sin(y), at("u")) * cos(at("h"))};
      },
      [](const ByName& at) { return at("h"); }};
}

class Composite : public ::testing::TestWithParam<std::tuple<int, bool>> {
 protected:
  Net net() const {
    const auto [which, batched] = GetParam();
    const Batch batch = batched ? Batch(2) : Batch();
    switch (which) {
      case 0:
        return gru_net(batch);
      case 1:
        return embedded_gru(batch);
      case 2:
        return convolved_rnn(batch);
      case 3:
        return two_states(batch);
      case 4:
        return rows_net(batch);
      default:
        return partial_net(batch);
    }
  }
};

std::shared_ptr<const LearningRule> scoped(bool coupled, bool composite) {
  const ParamDimOptions o{.composite = composite};
  if (coupled) return std::make_shared<OSTLRecurrent>(o);
  return std::make_shared<D_RTRL>(o);
}

TEST_P(Composite, SingleStepsAreDenseRtrl) {
  const Net n = net();
  const Model m = n.model();
  const Sequence data = draw_sequence(m, 5);
  for (const bool coupled : {false, true}) {
    SCOPED_TRACE(coupled ? "coupled" : "diagonal");
    const ParamValues expected = DenseRtrl(n, coupled).single_steps(data);
    for (const std::int64_t window : {1, 32}) {
      Learner learner = make_learner(m, *scoped(coupled, true), Compat::None, window);
      EXPECT_EQ(learner.graph().composite_relations.size(),
                n.name == "embedding" ? 2U : n.behind.size() - (n.name == "convolution"));
      expect_gradients(online(learner, data), expected, 1e-9);
    }
    EXPECT_GT(largest_deviation(gradients_of(m, *scoped(coupled, false), data), expected, n.behind), 1e-6);
  }
}

TEST_P(Composite, WindowsAreDenseRtrl) {
  const Net n = net();
  const Model m = n.model();
  const Sequence data = draw_sequence(m, 5);
  for (const bool coupled : {false, true}) {
    SCOPED_TRACE(coupled ? "coupled" : "diagonal");
    for (const std::int64_t window : {1, 2}) {
      const ParamValues expected = DenseRtrl(n, coupled).windows(data, window);
      expect_gradients(gradients_of(m, InWindows(*scoped(coupled, true)), data, window), expected, 1e-9);
      EXPECT_GT(largest_deviation(gradients_of(m, InWindows(*scoped(coupled, false)), data, window), expected,
                                  n.behind),
                1e-6);
    }
  }
}

std::string composite_name(const ::testing::TestParamInfo<std::tuple<int, bool>>& info) {
  static const char* const names[] = {"Gru", "Embedding", "Convolution", "TwoStates", "Rows", "Partial"};
  return std::string(names[std::get<0>(info.param)]) + (std::get<1>(info.param) ? "_batch" : "");
}
INSTANTIATE_TEST_SUITE_P(Nets, Composite, ::testing::Combine(::testing::Range(0, 6), ::testing::Bool()),
                         composite_name);

// Rules ----------------------------------------------------------------------------------------------------
std::vector<std::shared_ptr<const LearningRule>> composing_rules() {
  const RuleOptions::Item on{"composite", true};
  return {make_rule("D_RTRL", {on}),
          make_rule("OSTLRecurrent", {on}),
          make_rule("EProp", {on, {"kappa_filter_decay", 0.7}}),
          make_rule("EProp", {on, {"feedback", "random"}, {"random_feedback_key", 5}}),
          make_rule("ThreeFactor", {on, {"modulator", 0.5}}),
          make_rule("ETraceConfig", {on, {"temporal_recursion", "scalar_leak"}, {"decay", 0.8}}),
          make_rule("ETraceConfig", {on, {"temporal_recursion", "none"}})};
}

TEST(CompositeRules, StepsAndExecutionWindowsAgree) {
  for (const Net& n : {embedded_gru(2), two_states({})}) {
    const Model m = n.model();
    const Sequence data = draw_sequence(m, 5);
    for (const auto& rule : composing_rules()) {
      SCOPED_TRACE(n.name + ", " + rule->describe());
      Learner steps = make_learner(m, *rule, Compat::None, 1),
              window = make_learner(m, *rule, Compat::None, 3);
      expect_gradients(online(window, data), online(steps, data), 1e-11);
      const std::vector<EligibilityTrace> a = steps.etraces(), b = window.etraces();
      ASSERT_EQ(a.size(), b.size());
      for (std::size_t i = 0; i < a.size(); ++i)
        EXPECT_LE(relative_deviation(b[i].value, a[i].value), 1e-11) << a[i].name;
    }
  }
}

TEST(CompositeRules, TheModulatorMeetsTheWholeTrace) {
  const Net n = embedded_gru(2);
  const Model m = n.model();
  const Sequence data = draw_sequence(m, 5);
  const ParamValues found =
      gradients_of(m, *make_rule("ThreeFactor", {{"composite", true}, {"modulator", 0.5}}), data);
  expect_gradients(found, DenseRtrl(n, false).single_steps(data, 0.5), 1e-9);
  EXPECT_GT(largest_deviation(found, DenseRtrl(n, false).single_steps(data), n.behind), 1e-3);
}

TEST(CompositeRules, AFilterOfZeroIsNone) {
  const Model m = gru_net(2).model();
  const Sequence data = draw_sequence(m, 5);
  const RuleOptions::Item on{"composite", true};
  EXPECT_LE(largest_deviation(gradients_of(m, *make_rule("EProp", {on}), data),
                              gradients_of(m, *make_rule("D_RTRL", {on}), data)),
            1e-14);
}

// Padding changes nothing: the same as a sequence without it. Windows that hold none of it, too.
TEST(CompositeRules, FrozenStepsAreNotThere) {
  for (const Net& n : {gru_net({}), two_states(2)}) {
    const Model m = n.model();
    Sequence data = draw_sequence(m, 6);
    data.weights = array({1, 1, 0, 0.5, 0, 1}, Dtype::F64);
    Sequence without = data;
    const auto taken = [](const Array& a) {
      return concatenate(Arrays{slice_axis(a, 0, 0, 2), slice_axis(a, 0, 3, 4), slice_axis(a, 0, 5, 6)});
    };
    for (Array& a : without.args) a = taken(a);
    without.targets = taken(data.targets);
    without.weights = taken(data.weights);
    for (const auto& rule : {scoped(true, true), composing_rules()[2]}) {
      SCOPED_TRACE(n.name + ", " + rule->describe());
      Learner padded = make_learner(m, *rule, Compat::None, 4), plain = make_learner(m, *rule);
      expect_gradients(online(padded, data, 0, true), online(plain, without), 1e-11);
    }
  }
}

// A weight per sample: each learns as it would alone.
TEST(CompositeRules, MasksPerSample) {
  const Model both = gru_net(2).model(), one = gru_net(1).model();
  const Sequence data = draw_sequence(both, 5);
  const Array mask = array({1, 0.5, 0, 1, 1, 0, 0, 2, 1, 1}, {5, 2}, Dtype::F64);
  const StepFunction per_sample = [](StepCall& model, ArraySpan s) {
    return LossAndAux{sum(square(model(s[0]) - s[1]), {1})};
  };
  Learner learner = make_learner(both, *scoped(true, true));
  const SequenceOptions how{.mask = mask, .freeze = true, .reduction = Reduction::Sum};
  const ParamValues found = learner.etrace_grad(data.all(), per_sample, how).grads;
  ParamValues total;
  for (std::int64_t b = 0; b < 2; ++b) {
    Model alone = one;
    for (InputRecord& in : alone.inputs)
      for (const InputRecord& all : both.inputs)
        if (in.path == all.path && in.role != Role::Arg)
          in.init = in.role == Role::Param ? all.init : slice_axis(all.init, 0, b, b + 1).tensor();
    Sequence own{{slice_axis(data.args[0], 1, b, b + 1)},
                 slice_axis(data.targets, 1, b, b + 1),
                 squeeze(slice_axis(mask, 1, b, b + 1), {1})};
    Learner single = make_learner(alone, *scoped(true, true));
    const ParamValues g = online(single, own, 0, true);
    total = b == 0 ? g : sum_of(total, g);
  }
  expect_gradients(found, total, 1e-11);
}

// solve() contracts a signal with the traces as they stand.
TEST(CompositeRules, TracesAreTheDenseInfluence) {
  const Net n = embedded_gru(2);
  const Model m = n.model();
  const Sequence data = draw_sequence(m, 4);
  DenseRtrl dense(n, false);
  dense.single_steps(data);
  Learner learner = make_learner(m, *scoped(false, true));
  learner.etrace_evolve(data.args);
  const std::vector<EligibilityTrace> traces = learner.get_etrace_of("table");
  ASSERT_EQ(traces.size(), 1U);
  EXPECT_EQ(traces[0].name, "composite0/group0/weight");
  EXPECT_EQ(traces[0].value.shape(), (Shape{2, 3, 3, 2, 1}));  // samples, states, rows and columns, one state
  for (std::size_t i = 0; i < dense.params.leaves.size(); ++i) {
    if (to_string(dense.params.leaves[i]) != "table") continue;
    EXPECT_LE(relative_deviation(reshape(traces[0].value, {6, 6}), dense.influence[i]), 1e-9);
  }
}

// Low precision halves the memory and stays near.
TEST(CompositeRules, TracesInLowPrecision) {
  const Model m = gru_net({}).model();
  const Sequence data = draw_sequence(m, 5);
  // Step by step, so that all credit comes from the trace.
  Learner full = make_learner(m, *scoped(false, true), Compat::None, 1),
          half = make_learner(m, D_RTRL({.trace_dtype = Dtype::BF16, .composite = true}), Compat::None, 1);
  const double apart = largest_deviation(online(half, data), online(full, data), {"wr"});
  EXPECT_GT(apart, 1e-9);
  EXPECT_LT(apart, 0.05);
}

// Where states act on themselves alone, nothing is missing: this is BPTT.
Model leaky_chain() {
  return step_model(
      {arg("x", {3}), hidden("h", {4}), param("a", {3, 2}), param("b", {2, 4}), param("v", {4, 2})},
      [](In& in) {
        in.set("h", 0.8 * in["h"] + matmul(sin(matmul(in["x"], in["a"])), in["b"]));
        return matmul(in["h"], in["v"]);
      });
}

TEST(CompositeRules, LowRankChainIsExactAndVerifiedSo) {
  const Model m = leaky_chain();
  const Sequence data = draw_sequence(m, 6);
  expect_gradients(gradients_of(m, *scoped(false, true), data), bptt(m, data).grads, 1e-9);
  expect_gradients(gradients_of(m, InWindows(*scoped(false, true)), data, 2), bptt(m, data).grads, 1e-9);
  EXPECT_GT(largest_deviation(gradients_of(m, D_RTRL(), data), bptt(m, data).grads, {"a"}), 1e-6);
  const auto expectation = [&](const LearningRule& rule, const Model& model) {
    const VerifyReport r = verify(model, rule, draw_sequence(model, 6).all(), squared_error());
    EXPECT_TRUE(r.met()) << r.to_string();
    return r.leaves[0].expected.single_step;
  };
  EXPECT_EQ(expectation(*scoped(false, true), m).expectation, Expectation::Exact);
  EXPECT_THAT(expectation(*scoped(false, true), m).reason, ::testing::HasSubstr("a trace of every state"));
  EXPECT_EQ(expectation(D_RTRL(), m).expectation, Expectation::Approximate);
  // Two layers: what one hands on to the other has no trace.
  const Model layers =
      step_model({arg("x", {3}), hidden("h", {4}), hidden("k", {4}), param("a", {3, 2}), param("b", {2, 4}),
                  param("c", {4, 4})},
                 [](In& in) {
                   in.set("h", 0.8 * in["h"] + matmul(sin(matmul(in["x"], in["a"])), in["b"]));
                   in.set("k", 0.7 * in["k"] + matmul(in["h"], in["c"]));
                   return in["k"];
                 });
  EXPECT_EQ(expectation(*scoped(false, true), layers).expectation, Expectation::Approximate);
}

// One operator with a direct way into one group and one through another weight into a second.
TEST(CompositeRules, GroupsBehindOtherWeights) {
  const Model m =
      step_model({arg("x", {2}), hidden("h", {3}), hidden("k", {4}), param("c", {3, 4}), param("w", {2, 3})},
                 [](In& in) {
                   const Array y = matmul(in["x"], in["w"]);
                   in.set("h", 0.8 * in["h"] + tanh(y));
                   in.set("k", 0.7 * in["k"] + matmul(sin(y), in["c"]));
                   return sum(in["h"]) * in["k"];
                 });
  const Sequence data = draw_sequence(m, 6);
  expect_gradients(gradients_of(m, *scoped(false, true), data), bptt(m, data).grads, 1e-9);
  expect_gradients(gradients_of(m, InWindows(*scoped(false, true)), data, 2), bptt(m, data).grads, 1e-9);
  EXPECT_GT(largest_deviation(gradients_of(m, D_RTRL(), data), bptt(m, data).grads, {"w"}), 1e-6);
  const VerifyReport r = verify(m, *scoped(false, true), data.all(), squared_error());
  EXPECT_TRUE(r.met()) << r.to_string();
  for (const VerifyReport::Leaf& l : r.leaves)
    EXPECT_EQ(l.expected.single_step.expectation, Expectation::Exact) << l.expected.single_step.reason;
}

// The estimate of DNI goes to what has no trace; with none of it, this is D-RTRL.
TEST(CompositeRules, DniWithoutAnEstimate) {
  const Model m = embedded_gru(2).model();
  const Sequence data = draw_sequence(m, 5);
  EXPECT_EQ(largest_deviation(gradients_of(m, InWindows(DNI({.composite = true})), data, 2),
                              gradients_of(m, InWindows(*scoped(false, true)), data, 2)),
            0.0);
}

// Refusals and costs ---------------------------------------------------------------------------------------
TEST(CompositeRules, TheBudgetRefusesWithTheNumbers) {
  const Model m = gru_net(2).model();  // wr: 15 slots for 2·3 states, of 8 bytes
  const D_RTRL fits({.composite = true, .composite_max_bytes = 720});
  EXPECT_NO_THROW(make_learner(m, fits));
  const D_RTRL tight({.composite = true, .composite_max_bytes = 719});
  for (const char* phrase : {"wr 720 bytes (f64[6,1,5,3])", "over composite_max_bytes=719", "multi-step"})
    expect_error<NotSupportedError>(phrase, [&] { make_learner(m, tight); });
  expect_error<ValueError>("composite_max_bytes is -1",
                           [] { D_RTRL({.composite = true, .composite_max_bytes = -1}); });
}

TEST(CompositeRules, RulesWithoutSuchTracesNameTheWeight) {
  const Model m = gru_net({}).model();
  for (const RuleOptions& axes :
       {RuleOptions{{"trace_factorization", "io_factorized"}, {"decay", 0.9}},
        RuleOptions{{"trace_factorization", "random_projection"}, {"recurrence_scope", "coupled"}},
        RuleOptions{{"recurrence_scope", "sparse_n"}, {"sparse_n", 2}}}) {
    RuleOptions with = axes;
    with.set("composite", true);
    expect_error<NotSupportedError>("wr: composite relations",
                                    [&] { make_learner(m, *make_rule("ETraceConfig", with)); });
    EXPECT_NO_THROW(make_learner(m, *make_rule("ETraceConfig", axes)));
  }
  CompileOptions compat;
  compat.compat = Compat::Braintrace;
  expect_error<NotSupportedError>("composite relations are unknown to the reference system",
                                  [&] { make_learner(m, D_RTRL({.composite = true}), compat); });
}

TEST(CompositeRules, RecordsSayWhatItCosts) {
  const Model m = gru_net(2).model();
  const ETraceGraph off = compile_etrace_graph(m);
  EXPECT_TRUE(off.composite_relations.empty());
  const auto excluded = off.explain_records({.weight_path = path_of("wr"),
                                             .hidden_path = {},
                                             .kind = DiagnosticKind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT});
  ASSERT_EQ(excluded.size(), 1U);
  for (const char* phrase : {"multi-step", "composite=true", "90 numbers"})
    EXPECT_THAT(excluded[0].note, ::testing::HasSubstr(phrase));
  CompileOptions options;
  options.composite = true;
  const ETraceGraph on = compile_etrace_graph(m, options);
  ASSERT_EQ(on.composite_relations.size(), 1U);
  EXPECT_EQ(on.composite_relations[0].path_classification,
            std::vector<PathClassification>{PathClassification::AllThroughOtherEtp});
  EXPECT_THAT(on.explain(), ::testing::HasSubstr("all_through_other_etp"));
  const CompilationReport report(on);
  EXPECT_TRUE(report.excluded_weights.empty());
  EXPECT_THAT(report.to_string(), ::testing::HasSubstr("wr -> group 0, through other weights"));
  EXPECT_THAT(on.diagnostics,
              ::testing::Contains(::testing::Field(&CompilationRecord::message,
                                                   ::testing::HasSubstr("traces hold 90 numbers"))));
}

// Samples that meet on the way are reported, and the gradient of the own step stays whole.
TEST(CompositeRules, SamplesThatMeet) {
  const Model m =
      step_model({arg("x", {3, 2}), hidden("h", {3, 4}), param("a", {2, 2}), param("b", {2, 4})}, [](In& in) {
        const Array y = matmul(in["x"], in["a"]);
        const Array apart = y - sum(y, {0}, true) / 3.0;
        in.set("h", 0.8 * in["h"] + matmul(apart, in["b"]));
        return in["h"];
      });
  Learner learner = make_learner(m, D_RTRL({.composite = true}));
  EXPECT_FALSE(learner.graph().composite_relations[0].tail_reasons[0].empty());
  const Sequence once = draw_sequence(m, 1);
  expect_gradients(online(learner, once), bptt(m, once).grads, 1e-12);
}

// On a GRU of 24 units the gradient of the reset gate comes near that of BPTT.
TEST(CompositeRules, TheResetGateOfALargerGru) {
  nn::GRUCell cell(4, 24, {.dtype = Dtype::F64, .seed = 3});
  const Model m = compile_etrace_graph(cell, zeros({4}, Dtype::F64)).module_info.model;
  const Sequence data = draw_sequence(m, 20);
  const auto gate = [](const ParamValues& all) {
    for (std::size_t i = 0; i < all.leaves.size(); ++i)
      if (to_string(all.leaves[i]) == "Wr/weight.weight") return all.values[i];
    throw ValueError("test", "no reset gate");
  };
  const Array expected = gate(bptt(m, data).grads);
  EXPECT_GT(norm(expected), 1e-3);
  for (const bool coupled : {false, true}) {
    const double alone = cosine(gate(gradients_of(m, *scoped(coupled, false), data)), expected),
                 traced = cosine(gate(gradients_of(m, *scoped(coupled, true), data)), expected);
    EXPECT_GT(traced, alone + 0.03) << coupled;
    EXPECT_GT(traced, 0.88) << coupled;
  }
}

}  // namespace
}  // namespace etrace
