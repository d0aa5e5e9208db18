// The public oracle: what is exact is called so and is, what is broken is found, and the references agree
// with each other.
#include "etrace/verify.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/expected.h"
#include "etrace/models.h"
#include "etrace/ops/numpy.h"
#include "support/learning.h"
#include "support/learning_models.h"
#include "support/numeric.h"
#include "support/step_model.h"
#include "support/values.h"

namespace etrace {
namespace {

using namespace testing;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr double kDecay = 0.8;

// h ← 0.8·h + x·W + b, y = h·V: one group, each position by itself.
Model leaky_integrator() {
  return step_model(
      {arg("x", {3}), hidden("h", {4}), param("W", {3, 4}), param("b", {4}), param("V", {4, 2})}, [](In& in) {
        in.set("h", kDecay * in["h"] + matmul(in["x"], in["W"], in["b"]));
        return matmul(in["h"], in["V"]);
      });
}
Model tanh_rnn() {
  return step_model({arg("x", {3}), hidden("h", {4}), param("W", {7, 4}), param("V", {4, 2})}, [](In& in) {
    in.set("h", tanh(0.5 * matmul(concatenate(Arrays{in["x"], in["h"]}), in["W"])));
    return matmul(in["h"], in["V"]);
  });
}

StepFunction squared_error() {
  return [](StepCall& model, ArraySpan s) { return LossAndAux{loss::mse(model(s[0]), s[1])}; };
}
Arrays sequences(std::int64_t steps, std::uint64_t seed = 3) {
  Random random(seed);
  return {random.f64({steps, 3}), random.f64({steps, 2})};
}
VerifyReport verified(const Model& model, const LearningRule& rule, const VerifyOptions& options = {},
                      std::int64_t steps = 8) {
  return verify(model, rule, sequences(steps), squared_error(), options);
}
const VerifyReport::Leaf& leaf(const VerifyReport& r, std::string_view name) {
  for (const VerifyReport::Leaf& l : r.leaves)
    if (to_string(l.id) == name) return l;
  throw ValueError("test", "no such leaf");
}

Model reference_file(const std::string& name) {
  return read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json");
}
// On the sequence that the file carries.
VerifyReport verify_file(const std::string& name, const LearningRule& rule, const VerifyOptions& options) {
  const Model m = reference_file(name);
  for (const ExpectedRun& run : m.expected->runs.value()) {
    if (!run.args || !run.targets.defined()) continue;
    Arrays s = to_arrays(*run.args);
    s.push_back(run.targets);
    const StepFunction f = [](StepCall& model, ArraySpan slices) {
      const std::vector<etrace::StepInput> args(slices.begin(), slices.end() - 1);
      return LossAndAux{loss::mse(model(args)[0], slices.back())};
    };
    return verify(m, rule, s, f, options);
  }
  throw ValueError("test", "the file carries no sequence");
}

// D_RTRL that forgets what it carries: e ← ∂h/∂y·∂y/∂θ.
struct Forgetful : ForgetfulRule {
  Forgetful() : ForgetfulRule(ForgetfulRule::Jacobian) {}
};

TEST(Verify, LeakyIntegratorIsExactThroughout) {
  const VerifyReport r = verified(leaky_integrator(), D_RTRL{});
  EXPECT_TRUE(r.met()) << r.to_string();
  EXPECT_EQ(r.steps, 8);
  for (const VerifyReport::Leaf& l : r.leaves) {
    EXPECT_TRUE(l.alive);
    EXPECT_EQ(l.expected.single_step.expectation, Expectation::Exact) << l.expected.single_step.reason;
    ASSERT_EQ(l.measures.size(), 6U);  // single steps, 1, 2, 4, 5, 8
    for (const VerifyReport::Measure& m : l.measures) {
      EXPECT_EQ(m.verdict, Verdict::Met);
      EXPECT_LT(m.deviation, 1e-13) << to_string(l.id) << " " << m.window;
      EXPECT_NEAR(m.cosine, 1.0, 1e-12);
      EXPECT_NEAR(m.norm_ratio, 1.0, 1e-12);
      EXPECT_EQ(m.sign_agreement, 1.0);
    }
  }
  EXPECT_THAT(leaf(r, "W").expected.windows.reason, HasSubstr("position-diagonal"));
  EXPECT_THAT(leaf(r, "V").expected.windows.reason, HasSubstr("own step only"));
}

TEST(Verify, SinglePrecisionHasItsOwnTolerance) {
  const ReadyModel ready = make_model("mini_gru", {.sizes = {3, 4, 2}});
  Random random(5);
  const VerifyReport r = verify(*ready.module, D_RTRL{}, random.tensor({Dtype::F32, {6, 3}}),
                                random.tensor({Dtype::F32, {6, 2}}), loss::mse);
  EXPECT_EQ(r.dtype, Dtype::F32);
  EXPECT_EQ(r.tolerance, 1e-4);
  EXPECT_EQ(leaf(r, "out/weight.weight").measures[0].verdict, Verdict::Met);
}

TEST(Verify, DenseRecurrenceIsApproximate) {
  const VerifyReport r = verified(tanh_rnn(), D_RTRL{});
  EXPECT_TRUE(r.met());
  const VerifyReport::Leaf& w = leaf(r, "W");
  EXPECT_EQ(w.expected.single_step.expectation, Expectation::Approximate);
  EXPECT_THAT(w.expected.single_step.reason, HasSubstr("scope diagonal leaves out"));
  for (const VerifyReport::Measure& m : w.measures) {
    EXPECT_GT(m.cosine, 0.9) << m.window;
    EXPECT_LE(m.cosine, 1.0);
    EXPECT_TRUE(m.window >= r.steps || m.deviation > 1e-4) << m.window;
  }
  EXPECT_EQ(w.measures.back().verdict, Verdict::Met);  // the whole sequence at once is reverse mode
  const VerifyReport coupled = verified(tanh_rnn(), OSTLRecurrent{});
  EXPECT_THAT(leaf(coupled, "W").expected.single_step.reason,
              HasSubstr("positions of group 0 depend on each other"));
}

TEST(Verify, FactorisedTraceIsApproximate) {
  const VerifyReport r = verified(leaky_integrator(), pp_prop({.decay_or_rank = 0.9}));
  EXPECT_TRUE(r.met());
  EXPECT_THAT(leaf(r, "W").expected.windows.reason, HasSubstr("product of two"));
  EXPECT_GT(leaf(r, "W").measures[0].deviation, 1e-3);
}

TEST(Verify, BrokenRuleIsFound) {
  const VerifyReport r = verified(leaky_integrator(), Forgetful{});
  EXPECT_FALSE(r.met());
  for (const VerifyReport::Measure& m : leaf(r, "W").measures)
    EXPECT_EQ(m.verdict, m.window < r.steps ? Verdict::Broken : Verdict::Met) << m.window;
  EXPECT_EQ(leaf(r, "V").measures[0].verdict, Verdict::Met);
  EXPECT_THAT(r.failures().front(), AllOf(HasSubstr("single steps"), HasSubstr("must be exact")));
  EXPECT_THAT(r.to_string(), HasSubstr("NOT MET: W"));
}

TEST(Verify, ReducedTracesAreNoExactOnes) {
  const VerifyReport r = verified(leaky_integrator(), D_RTRL({.trace_dtype = Dtype::F16}));
  EXPECT_TRUE(r.met());
  EXPECT_THAT(leaf(r, "W").expected.single_step.reason, HasSubstr("its trace is kept in"));
}

// Expectations ----------------------------------------------------------------------------------------------
LeafExpectation expected(const Model& model, std::string_view name, const LearningRule& rule = D_RTRL{}) {
  CompileOptions options;
  rule.configure(options);
  const ETraceGraph g = compile_etrace_graph(model, options);
  const std::vector<ParamLeafId> ids = param_leaf_ids(g.module_info);
  const std::vector<LeafExpectation> all = expected_gradients(g, rule);
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (to_string(ids[i]) == name) return all[i];
  throw ValueError("test", "no such leaf");
}

TEST(Expectations, ResultOfTheOldState) {
  const Model m = step_model({arg("x", {3}), hidden("h", {4}), param("W", {3, 4})}, [](In& in) {
    const Array old = in["h"];
    in.set("h", 0.5 * old + matmul(in["x"], in["W"]));
    return old;
  });
  EXPECT_EQ(expected(m, "W").single_step.expectation, Expectation::Exact);
  EXPECT_EQ(expected(m, "W").windows.expectation, Expectation::Exact);
  const Sequence data = draw_sequence(m, 6);
  EXPECT_TRUE(verify(m, D_RTRL{}, data.all(), squared_error(), {.lags = 0}).met());
}

// What is said must hold in numbers, to the last parameter: exact ones are, approximate ones are not.
void expect_kept(const Model& m, const LearningRule& rule, Expectation single, Expectation windows) {
  SCOPED_TRACE(rule.describe());
  const VerifyReport r =
      verify(m, rule, draw_sequence(m, 6).all(), squared_error(), {.windows = {1, 2}, .lags = 0});
  for (const VerifyReport::Leaf& l : r.leaves)
    for (const VerifyReport::Measure& measure : l.measures) {
      EXPECT_EQ(measure.expected, measure.window == 0 ? single : windows) << measure.window;
      EXPECT_EQ(measure.deviation < 1e-9, measure.expected == Expectation::Exact) << measure.deviation;
    }
}

// The own step is reverse mode, so what no later step reads needs no trace, whatever its tail does.
TEST(Expectations, StatesThatNobodyReads) {
  const Model moved = step_model({arg("x", {3}), hidden("h", {4}), param("W", {3, 4})}, [](In& in) {
    in.set("h", roll(matmul(in["x"], in["W"]), 1, 0));
    return in["h"];
  });
  expect_kept(moved, D_RTRL{}, Expectation::Exact, Expectation::Exact);
  expect_kept(moved, pp_prop({.decay_or_rank = 0.9}), Expectation::Exact, Expectation::Exact);
  EXPECT_THAT(expected(moved, "W").single_step.reason, HasSubstr("nothing later reads"));
  const Model straight = step_model({arg("x", {3}), hidden("h", {4}), param("W", {3, 4})}, [](In& in) {
    in.set("h", tanh(matmul(in["x"], in["W"])));
    return in["h"];
  });
  expect_kept(straight, D_RTRL{}, Expectation::Exact, Expectation::Exact);
  expect_kept(straight, pp_prop({.decay_or_rank = 0.9}), Expectation::Approximate, Expectation::Exact);
  expect_kept(straight, EProp({.kappa_filter_decay = 0.9}), Expectation::Approximate, Expectation::Exact);
}

// Windows follow an old state into another group within the step, single steps do not.
TEST(Expectations, AnOldStateInTheNextGroup) {
  const Model m =
      step_model({arg("x", {3}), hidden("a", {4}), hidden("v", {4}), param("W", {3, 4})}, [](In& in) {
        const Array old = in["a"];
        in.set("a", 0.5 * old + matmul(in["x"], in["W"]));
        in.set("v", tanh(matmul_plain(old, 0.3 * eye(4, Dtype::F64) + 0.1)));
        return in["v"];
      });
  expect_kept(m, D_RTRL{}, Expectation::Approximate, Expectation::Exact);
}

// Whether a way matters is for values to say where zeros may lie on it: masks, sparse matrices, branches.
TEST(Expectations, WaysThatZerosMayCut) {
  const auto recurrent = [](const std::function<Array(const Array& y, const Array& h)>& f) {
    return step_model({arg("x", {4}), hidden("h", {4}), param("W", {4, 4}), param("R", {4, 4})}, [&](In& in) {
      in.set("h", f(matmul(in["x"], in["W"]) + matmul(in["h"], in["R"]), in["h"]));
      return in["h"];
    });
  };
  const Array mask = array(std::vector<double>{1, 0, 1, 0}, {4}, Dtype::F64);
  const auto said = [&](const Model& m) { return expected(m, "W").single_step.expectation; };
  EXPECT_EQ(said(recurrent([](const Array& y, const Array&) { return tanh(y); })), Expectation::Approximate);
  EXPECT_EQ(said(recurrent([&](const Array& y, const Array&) { return y * mask; })),
            Expectation::PossiblyApproximate);
  // The zeros of one step are those of the next, when a state has kept them.
  EXPECT_EQ(said(recurrent([&](const Array& y, const Array& h) { return mask * (y + h); })),
            Expectation::PossiblyApproximate);
  EXPECT_EQ(said(recurrent([&](const Array& y, const Array&) { return y + mask; })),
            Expectation::Approximate);
  EXPECT_EQ(
      said(recurrent([](const Array& y, const Array& h) { return where(sum(square(h)) > 0.0, 0.1 * h, y); })),
      Expectation::PossiblyApproximate);
}

// Filters of an input that never changes add up to what it gives.
TEST(Expectations, AnInputThatNeverChanges) {
  const Model m =
      step_model({arg("x", {2}), hidden("c", {3}), hidden("h", {4}), param("W", {3, 4})}, [](In& in) {
        const Array old = in["h"];
        in.set("h", matmul(in["c"], in["W"]) + sum(in["x"]));
        return old;
      });
  const LeafExpectation e = expected(m, "W", pp_prop({.decay_or_rank = 0.9}));
  EXPECT_EQ(e.single_step.expectation, Expectation::PossiblyApproximate);
  const VerifyReport r = verify(m, pp_prop({.decay_or_rank = 0.9}), draw_sequence(m, 6).all(),
                                squared_error(), {.windows = {1}, .lags = 0});
  EXPECT_LT(leaf(r, "W").measures[0].deviation, 1e-12);
}

// What a state hands on directly is in the trace of the operator, beside which a composite one follows the
// ways through other weights.
TEST(Expectations, ACompositeTraceBesideADirectOne) {
  const auto model = [](bool by_weight) {
    return step_model({arg("x", {3}), hidden("a", {4}), hidden("c", {4}), hidden("v", {4}),
                       param("W", {3, 4}), param("U", {4, 4})},
                      [=](In& in) {
                        const Array y = matmul(in["x"], in["W"]), old = in["c"] + in["v"];
                        in.set("a", tanh(y));
                        in.set("c", y + (by_weight ? matmul(in["a"], in["U"]) : in["a"]));
                        in.set("v", matmul(y, in["U"]));
                        return old;
                      });
  };
  for (const bool by_weight : {false, true}) {
    const Model m = model(by_weight);
    const D_RTRL rule({.composite = true});
    const VerifyReport r =
        verify(m, rule, draw_sequence(m, 6).all(), squared_error(), {.windows = {2}, .lags = 0});
    EXPECT_TRUE(r.met()) << r.to_string();
    EXPECT_EQ(leaf(r, "W").expected.single_step.expectation,
              by_weight ? Expectation::Approximate : Expectation::Exact);
    EXPECT_EQ(leaf(r, "W").measures[0].deviation < 1e-9, !by_weight);
  }
}

// A trace of another state of the group is not met by the signal of this one, unless it reads that.
TEST(Expectations, StatesOfOneGroupThatDoNotMeet) {
  const Model m =
      step_model({arg("x", {4}), hidden("a", {4}), hidden("h", {4}), param("W", {4, 4})}, [](In& in) {
        const Array plain = matmul_plain(in["x"], in["W"]), old = in["a"];
        in.set("a", matmul(in["x"], in["W"]));
        in.set("h", where(old > 0.0, plain, 0.5 * plain));
        return in["h"];
      });
  const std::shared_ptr<const LearningRule> leaky =
      make_rule("ETraceConfig", {{"temporal_recursion", "scalar_leak"}, {"decay", 0.8}});
  EXPECT_NE(expected(m, "W", *leaky).single_step.expectation, Expectation::Approximate);
}

// A product between states that the parameter does not reach does not matter to it.
TEST(Expectations, MixingOfOtherStates) {
  const Model m =
      step_model({arg("x", {3}), hidden("a", {4}), hidden("b", {4}), param("W", {3, 4})}, [](In& in) {
        const Array mixed = matmul_plain(in["b"], 0.3 * eye(4, Dtype::F64) + 0.1);
        in.set("a", 0.5 * in["a"] * tanh(mixed) + matmul(in["x"], in["W"]));
        in.set("b", 0.5 * in["b"] + tanh(mixed) + matmul_plain(in["x"], full({3, 4}, 0.3, Dtype::F64)));
        return in["a"];
      });
  expect_kept(m, OSTLRecurrent{}, Expectation::Exact, Expectation::Exact);
}

TEST(Expectations, GroupsInSeries) {
  const Model m =
      step_model({arg("x", {3}), hidden("a", {4}), hidden("c", {4}), param("W", {3, 4})}, [](In& in) {
        in.set("a", 0.5 * in["a"] + matmul(in["x"], in["W"]));
        in.set("c", 0.7 * in["c"] + matmul(in["a"], full({4, 4}, 0.1, Dtype::F64)));
        return in["c"];
      });
  const LeafExpectation e = expected(m, "W");
  EXPECT_EQ(e.single_step.expectation, Expectation::Approximate);
  EXPECT_EQ(e.windows.expectation, Expectation::Approximate);
}

TEST(Expectations, TailThatMovesPositions) {
  const Model m = step_model({arg("x", {3}), hidden("h", {4}), param("W", {3, 4})}, [](In& in) {
    in.set("h", 0.5 * in["h"] + roll(matmul(in["x"], in["W"]), 1, 0));
    return in["h"];
  });
  EXPECT_THAT(expected(m, "W").windows.reason, HasSubstr("does not preserve positions"));
}

// Operators that only move entries say where they move them.
TEST(Expectations, MovementsOfPositions) {
  const auto after = [](const std::function<Array(const Array&)>& tail) {
    const Model m = step_model({arg("x", {3}), hidden("h", {4}), param("W", {3, 4})}, [&](In& in) {
      in.set("h", 0.5 * in["h"] + tail(matmul(in["x"], in["W"])));
      return in["h"];
    });
    return expected(m, "W").windows.expectation;
  };
  const auto take_in_order = [](const Array& y, const std::vector<double>& order) {
    return take(y, array(order, {4}, Dtype::I32), 0);
  };
  EXPECT_EQ(after([](const Array& y) { return roll(y, 1, 0); }), Expectation::Approximate);
  EXPECT_EQ(after([](const Array& y) { return flip(tanh(y), 0); }), Expectation::Approximate);
  EXPECT_EQ(after([&](const Array& y) { return take_in_order(y, {1, 0, 2, 3}); }), Expectation::Approximate);
  EXPECT_EQ(after([](const Array& y) {
              return reshape(transpose(reshape(y, {2, 2})), {4});
            }),
            Expectation::Approximate);
  // One position for all of them: what the others get may never be read.
  EXPECT_EQ(after([](const Array& y) { return broadcast_to(slice_axis(y, 0, 1, 2), {4}); }),
            Expectation::PossiblyApproximate);
  // There and back: nothing has moved, which the sweep over axes does not see.
  EXPECT_EQ(after([](const Array& y) { return flip(flip(y, 0), 0); }), Expectation::PossiblyApproximate);
  // Of a recurrence as well.
  const Model m = step_model({arg("x", {3}), hidden("h", {4}), param("W", {3, 4})}, [](In& in) {
    in.set("h", 0.5 * roll(in["h"], 1, 0) + matmul(in["x"], in["W"]));
    return in["h"];
  });
  EXPECT_EQ(expected(m, "W", OSTLRecurrent{}).windows.expectation, Expectation::Approximate);
  // And of a product behind a movement.
  EXPECT_EQ(expected(tanh_rnn(), "W", OSTLRecurrent{}).windows.expectation, Expectation::Approximate);
}

// What is lost for sure, and what values decide about.
TEST(Expectations, PossiblyApproximate) {
  const auto after = [](const std::function<Array(const Array&)>& tail) {
    const Model m = step_model({arg("x", {3}), hidden("h", {4}), param("W", {3, 4})}, [&](In& in) {
      in.set("h", 0.5 * in["h"] + tail(matmul(in["x"], in["W"])));
      return in["h"];
    });
    return expected(m, "W").windows.expectation;
  };
  EXPECT_EQ(after([](const Array& y) { return y + sum(y); }), Expectation::Approximate);
  EXPECT_EQ(after([](const Array& y) { return cumsum(y, 0); }), Expectation::PossiblyApproximate);
  EXPECT_EQ(after([](const Array& y) { return y * stop_gradient(sum(y)); }), Expectation::Exact);
  EXPECT_EQ(name(Expectation::PossiblyApproximate), "possibly approximate");
  // What acts on all positions alike is nothing behind a norm.
  const Model alike = step_model(
      {arg("x", {2, 1, 4}), hidden("h", {2, 1, 4}), param("K", {1, 1, 3}), param("b", {1})}, [](In& in) {
        const Array y = conv(in["h"] + in["x"], in["K"], in["b"]);
        in.set("h", softmax(y, -1));
        return y;
      });
  EXPECT_EQ(expected(alike, "b").windows.expectation, Expectation::PossiblyApproximate);
  // An old state that one branch alone reads.
  const Model m = step_model({arg("x", {3}), hidden("h", {4}), param("g", {4})}, [](In& in) {
    const Array old = in["h"];
    in.set("h", 0.5 * old + in["g"]);
    return cond(
        sum(in["x"]) > 0.0, [](ArraySpan a) { return Arrays{a[0] + a[1]}; },
        [](ArraySpan a) { return Arrays{a[1]}; }, Arrays{old, sum(in["x"]) * in["g"]})[0];
  });
  CompileOptions options;
  options.control_flow.cond = ControlFlowPolicy::Cond::Opaque;
  const ETraceGraph g = compile_etrace_graph(m, options);
  EXPECT_EQ(expected_gradients(g, D_RTRL{}).at(0).windows.expectation, Expectation::PossiblyApproximate);
}

TEST(Expectations, PlainWeightIntoAState) {
  const Model m =
      step_model({arg("x", {4}), hidden("h", {4}), param("W", {4, 4}), param("g", {4})}, [](In& in) {
        in.set("h", 0.5 * in["h"] + matmul(in["x"], in["W"]) + in["g"]);
        return in["h"];
      });
  EXPECT_THAT(expected(m, "g").single_step.reason, HasSubstr("gradient of its own step only"));
  EXPECT_THAT(expected(m, "g").windows.reason, HasSubstr("credit ends where a window begins"));
  EXPECT_EQ(expected(m, "W").single_step.expectation, Expectation::Exact);
}

TEST(Expectations, UnknownRule) {
  class Own : public LearningRule {
   public:
    std::string name() const override { return "own"; }
    std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<Own>(*this); }
    std::unique_ptr<const BoundRule> bind(const ETraceGraph& g) const override { return D_RTRL().bind(g); }
  };
  const LeafExpectation e = expected(leaky_integrator(), "W", Own{});
  EXPECT_EQ(e.single_step.expectation, Expectation::NoStatement);
  EXPECT_THAT(e.single_step.reason, HasSubstr("rule own"));
}

// A state that comes back through a plain product is not traced through it, whatever the product is made of.
TEST(Expectations, PlainProductsOnTheWayBack) {
  const auto reason = [](const char* file, const char* leaf, const LearningRule& rule = D_RTRL{}) {
    const LeafExpectation e = expected(reference_file(file), leaf, rule);
    EXPECT_EQ(e.single_step.expectation, e.windows.expectation);
    return std::string(name(e.windows.expectation)) + ": " + e.windows.reason;
  };
  EXPECT_EQ(reason("min_plain_rec", "w"),
            "approximate: c comes back through plain dot_general of g, which scope diagonal leaves out");
  EXPECT_THAT(reason("min_plain_gate", "w"),
              HasSubstr("approximate: c comes back through plain dot_general"));
  EXPECT_THAT(reason("min_plain_sum", "w"), HasSubstr("approximate: c comes back through plain dot_general"));
  EXPECT_THAT(reason("p2_plain_rec", "w"), HasSubstr("approximate: h comes back through plain dot_general"));
  EXPECT_THAT(reason("p2_plain_conv", "w"), HasSubstr("plain conv_general_dilated"));
  EXPECT_THAT(reason("min_plain_rec", "w", OSTLRecurrent{}), HasSubstr("depend on each other"));
  EXPECT_THAT(reason("p2_const_diag", "w"), HasSubstr("exact: position-diagonal"));
}

TEST(Verify, PlainProductsAreMeasuredAsTheyAre) {
  for (const char* file :
       {"min_plain_rec", "min_plain_gate", "min_plain_sum", "p2_plain_rec", "p2_plain_conv"}) {
    const VerifyReport r = verify_file(file, D_RTRL{}, {.windows = {2}, .lags = 0});
    EXPECT_TRUE(r.met()) << r.to_string();
    const VerifyReport::Leaf& w = leaf(r, "w");
    EXPECT_TRUE(w.alive);
    EXPECT_GT(w.measures[0].deviation, 1e-3) << file;
    EXPECT_EQ(w.measures[0].verdict, Verdict::Measured);
    EXPECT_THAT(r.to_string(), HasSubstr("scope coupled (")) << file;
  }
  const VerifyReport kept = verify_file("p2_const_diag", D_RTRL{}, {.windows = {2}, .lags = 0});
  EXPECT_EQ(leaf(kept, "w").measures[0].verdict, Verdict::Met) << kept.to_string();
  EXPECT_EQ(kept.scopes, "");
}

// Layers above a parameter are named once, and what each scope would keep is said.
TEST(Expectations, AStackOfLayersHasOneReasonPerLayer) {
  constexpr std::size_t kLayers = 24;
  std::vector<testing::StepInput> inputs{arg("x", {2})};
  for (std::size_t i = 0; i < kLayers; ++i) {
    inputs.push_back(hidden("h" + std::to_string(i), {2}));
    inputs.push_back(param("w" + std::to_string(i), {4, 2}));
  }
  const Model m = step_model(inputs, [](In& in) {
    Array below = in["x"];
    for (std::size_t i = 0; i < kLayers; ++i) {
      const std::string h = "h" + std::to_string(i);
      in.set(h, 0.5 * in[h] + tanh(matmul(concatenate(Arrays{below, in[h]}), in["w" + std::to_string(i)])));
      below = in[h];
    }
    return below;
  });
  const ETraceGraph g = compile_etrace_graph(m);
  VerifyReport r;
  const std::vector<LeafExpectation> expectations = expected_gradients(g, D_RTRL{});
  for (const LeafExpectation& e : expectations) {
    r.leaves.emplace_back();
    r.leaves.back().expected = e;
  }
  EXPECT_EQ(
      expectations[0].windows.reason,
      "h0 comes back through etp_mv of w0, which scope diagonal leaves out; passes on to h1, h2, h3, h4 "
      "and 19 more, where no trace of it is kept");
  EXPECT_EQ(r.reasons().size(), 2 * kLayers - 1);  // the last layer passes nothing on
  EXPECT_LT(r.to_json().size(), 40000U);
}

TEST(Verify, EveryReasonOnceWithItsParameters) {
  const VerifyReport r = verified(tanh_rnn(), D_RTRL{}, {.windows = {2}, .lags = 0});
  const std::vector<VerifyReport::Reason> reasons = r.reasons();
  ASSERT_EQ(reasons.size(), 2U);
  EXPECT_EQ(reasons[0].expectation, Expectation::Approximate);
  EXPECT_TRUE(reasons[0].single_step && reasons[0].windows);
  EXPECT_EQ(reasons[0].leaves, (std::vector<std::size_t>{0}));
  EXPECT_THAT(
      r.to_string(),
      HasSubstr(
          "  approximate: h comes back through etp_mv of W, which scope diagonal leaves out\n      W\n"));
  EXPECT_EQ(nlohmann::json::parse(r.to_json())["reasons"][1]["parameters"], nlohmann::json({1}));
}

// What is judged how
// ------------------------------------------------------------------------------------------
TEST(Verify, StoppedGradientsAreNotHeldAgainstDifferences) {
  const VerifyReport r =
      verify_file("p2_stopgrad", D_RTRL{}, {.windows = {2}, .lags = 0, .finite_differences = true});
  EXPECT_GT(*leaf(r, "w").finite_differences, 1e-2);
  EXPECT_THAT(leaf(r, "w").differences_exempt, HasSubstr("stop_gradient lies on its way"));
  EXPECT_TRUE(r.met()) << r.to_string();
  EXPECT_THAT(r.to_string(), HasSubstr("differences not judged: a stop_gradient"));
  // A weight behind which nothing is stopped is still judged.
  const VerifyReport other = verified(
      step_model({arg("x", {3}), hidden("h", {4}), param("W", {3, 4}), param("V", {4, 2})},
                 [](In& in) {
                   in.set("h", 0.4 * in["h"] + 0.3 * stop_gradient(in["h"]) + matmul(in["x"], in["W"]));
                   return matmul(in["h"], in["V"]);
                 }),
      D_RTRL{}, {.windows = {2}, .lags = 0, .finite_differences = true});
  EXPECT_EQ(leaf(other, "V").differences_exempt, "");
  EXPECT_NE(leaf(other, "W").differences_exempt, "");
}

TEST(Verify, TheNarrowestTypeOnTheWaySetsTheTolerance) {
  const VerifyReport r =
      verify_file("p2_f32_mix", D_RTRL{}, {.windows = {2}, .lags = 0, .finite_differences = true});
  EXPECT_EQ(r.tolerance, 1e-9);
  EXPECT_EQ(leaf(r, "w").dtype, Dtype::F32);
  EXPECT_EQ(leaf(r, "w").tolerance, 1e-4);
  EXPECT_TRUE(r.met()) << r.to_string();
  EXPECT_THAT(r.to_string(), HasSubstr("w: exact below 1.0e-04, because float32 values lie on its way"));
}

// What the reference must not share -------------------------------------------------------------------------
// y = x², of which the library is told half the slope.
const Primitive half_slope_p{{
    .name = "test_half_slope",
    .doc = "x squared, with a derivative that is wrong",
    .abstract = [](const Params&, std::span<const Aval> in) { return Avals{in[0]}; },
    .lower = [](const Params&, ArraySpan x) { return Arrays{x[0] * x[0]}; },
    .jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) { return Arrays{x[0] * dx[0]}; },
    .samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> { return {}; },
}};

Model read_out(const std::function<Array(const Array&)>& f) {
  return step_model({arg("x", {3}), hidden("h", {4}), param("W", {3, 4}), param("V", {4, 2})}, [&](In& in) {
    in.set("h", kDecay * in["h"] + matmul(in["x"], in["W"]));
    return matmul(f(in["h"]), in["V"]);
  });
}

TEST(Verify, AWrongDerivativeDeviatesFromTheFunction) {
  const VerifyReport r = verified(read_out([](const Array& h) { return bind1(half_slope_p, {h}); }), D_RTRL{},
                                  {.windows = {2}, .lags = 0});
  EXPECT_FALSE(r.met()) << r.to_string();
  EXPECT_GT(*leaf(r, "W").slope, 1e-2);
  EXPECT_LT(*leaf(r, "V").slope, 1e-6);
  EXPECT_THAT(r.to_string(), AllOf(HasSubstr("NOT MET: W: along one direction"), HasSubstr("derivative is")));
  const VerifyReport right =
      verified(read_out([](const Array& h) { return h * h; }), D_RTRL{}, {.windows = {2}, .lags = 0});
  EXPECT_TRUE(right.met()) << right.to_string();
  EXPECT_LT(*leaf(right, "W").slope, 1e-6);
  EXPECT_THAT(right.to_string(), HasSubstr("direction for 2 of 2 parameters"));
}

// As if a pass had taken the mark out of what was recorded.
TEST(Verify, ADroppedMarkDeviatesFromTheFunctionAsItWasWritten) {
  const Model written = read_out([](const Array&h) { return stop_gradient(h) * h; }),
              dropped = read_out([](const Array&h) { return h * h; });
  const VerifyReport r = verified(dropped, D_RTRL{}, {.windows = {2}, .lags = 0, .as_written = &written});
  EXPECT_FALSE(r.met()) << r.to_string();
  EXPECT_GT(leaf(r, "W").as_recorded, 1e-2);
  EXPECT_THAT(r.to_string(), HasSubstr("a pass has changed its derivative"));
  EXPECT_NE(leaf(r, "W").differences_exempt, "");
  EXPECT_TRUE(verified(written, D_RTRL{}, {.windows = {2}, .lags = 0}).met());
}

// At a kink differences show no slope, and nothing is judged by them.
TEST(Verify, DifferencesAtAKinkAreNotJudged) {
  const Model kink = step_model(
      {arg("x", {3}), hidden("h", {4}), param("W", {3, 4}), param("b", {2}), param("V", {4, 2})}, [](In& in) {
        in.set("h", kDecay * in["h"] + matmul(in["x"], in["W"]));
        return matmul(in["h"], in["V"]) + relu(in["b"] - in["b"] * 0.0);
      });
  Model at_zero = kink;
  for (InputRecord& in : at_zero.inputs)
    if (in.role == Role::Param && in.init.shape() == Shape{2}) in.init = Tensor::zeros(in.init.aval());
  const VerifyReport r = verified(at_zero, D_RTRL{}, {.windows = {2}, .lags = 0});
  EXPECT_FALSE(leaf(r, "b").slope.has_value());
  EXPECT_TRUE(leaf(r, "W").slope.has_value());
  EXPECT_TRUE(r.met()) << r.to_string();
}

// References ------------------------------------------------------------------------------------------------
TEST(Verify, FiniteDifferencesAndFullRtrlAgreeWithBptt) {
  for (const Model& m : {leaky_integrator(), tanh_rnn()}) {
    const VerifyReport r =
        verified(m, D_RTRL{}, {.windows = {8}, .finite_differences = true, .full_rtrl = true});
    for (const VerifyReport::Leaf& l : r.leaves) {
      EXPECT_LT(*l.finite_differences, 1e-6) << to_string(l.id);
      EXPECT_LT(*l.full_rtrl, 1e-9) << to_string(l.id);
    }
    EXPECT_THAT(r.to_string(), HasSubstr("from central differences"));
  }
}

TEST(Verify, SurrogateDerivativesAreNotHeldAgainstDifferences) {
  const ReadyModel ready = make_model("lif", {.sizes = {3, 4, 2}, .dtype = Dtype::F64});
  Random random(7);
  const VerifyReport r = verify(*ready.module, D_RTRL{}, random.f64({6, 3}, 0.0, 4.0), random.f64({6, 2}),
                                loss::mse, {.windows = {2}, .finite_differences = true});
  EXPECT_TRUE(r.surrogate);
  EXPECT_TRUE(r.met()) << r.to_string();
}

// Credit ----------------------------------------------------------------------------------------------------
TEST(Verify, CreditOfALeakyIntegratorFadesWithItsDecay) {
  Arrays s = sequences(10);
  s[0] = full({10, 3}, 0.5, Dtype::F64);  // every step acts alike
  const VerifyReport r = verify(leaky_integrator(), D_RTRL{}, s, squared_error(), {.windows = {1}});
  const VerifyReport::Leaf& w = leaf(r, "W");
  ASSERT_EQ(w.credit.size(), 10U);
  for (std::size_t d = 0; d < 10; ++d) {
    EXPECT_NEAR(w.credit[d].bptt / w.credit[0].bptt, std::pow(kDecay, static_cast<double>(d)), 1e-10);
    EXPECT_NEAR(w.credit[d].online, w.credit[d].bptt, 1e-12 * w.credit[0].bptt);
    EXPECT_NEAR(w.credit[d].cosine, 1.0, 1e-10);
  }
  EXPECT_EQ(w.bptt_horizon, w.online_horizon);
  EXPECT_EQ(leaf(r, "V").bptt_horizon, 1);
  EXPECT_EQ(leaf(r, "V").credit[1].bptt, 0.0);
}

TEST(Verify, CreditThatTheRuleDrops) {
  const VerifyReport r = verified(tanh_rnn(), D_RTRL{}, {.windows = {1}, .lags = 4});
  const VerifyReport::Leaf& w = leaf(r, "W");
  ASSERT_EQ(w.credit.size(), 4U);
  EXPECT_GT(w.credit[2].bptt, 1e-6);
  EXPECT_LT(w.credit[2].online, 1e-15);  // the only way back is the product that the scope cuts
  EXPECT_EQ(w.online_horizon, 1);
}

// Liveness, forms, errors -----------------------------------------------------------------------------------
TEST(Verify, ZeroGradientIsNoComfort) {
  const Model m = step_model({arg("x", {3}), hidden("h", {2}), param("W", {3, 2})}, [](In& in) {
    in.set("h", 0.5 * in["h"] + matmul(in["x"], in["W"]));
    return 0.0 * in["h"];
  });
  const VerifyReport r = verified(m, D_RTRL{});
  EXPECT_FALSE(r.leaves[0].alive);
  for (const VerifyReport::Measure& x : r.leaves[0].measures) EXPECT_EQ(x.verdict, Verdict::NotAlive);
  EXPECT_FALSE(r.met());
  EXPECT_THAT(r.failures().front(),
              HasSubstr("nothing was compared: the BPTT gradient of every parameter is zero"));
  EXPECT_THAT(r.to_string(), HasSubstr("without a gradient to compare"));
}

TEST(Verify, Agreement) {
  const auto of = [](std::vector<double> v) { return Tensor::of(v, {static_cast<std::int64_t>(v.size())}); };
  const Agreement a = agreement(of({3.0, -4.0}), of({3.0, 4.0}));
  EXPECT_DOUBLE_EQ(a.deviation, 1.6);
  EXPECT_DOUBLE_EQ(a.norm_ratio, 1.0);
  EXPECT_DOUBLE_EQ(a.cosine, -7.0 / 25.0);
  EXPECT_DOUBLE_EQ(a.sign_agreement, 0.5);
  EXPECT_TRUE(std::isinf(agreement(of({1.0}), of({0.0})).deviation));
  EXPECT_TRUE(std::isnan(agreement(of({1.0}), of({0.0})).cosine));
  EXPECT_EQ(agreement(of({0.0}), of({0.0})).deviation, 0.0);
  expect_error<ValueError>("cannot be compared", [&] { agreement(of({1.0}), of({1.0, 2.0})); });
}

TEST(Verify, TextFitsAHundredColumns) {
  const VerifyReport r = verified(tanh_rnn(), D_RTRL{}, {.windows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10}}, 12);
  std::istringstream lines(r.to_string());
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

TEST(Verify, JsonHoldsEverything) {
  const VerifyReport r = verified(leaky_integrator(), D_RTRL{}, {.windows = {2}});
  const auto json = nlohmann::json::parse(r.to_json());
  EXPECT_EQ(json["format"], "etrace.verify");
  EXPECT_EQ(json["met"], true);
  ASSERT_EQ(json["parameters"].size(), r.leaves.size());
  EXPECT_EQ(json["parameters"][0]["measures"][1]["window"], 2);
  EXPECT_EQ(json["parameters"][0]["credit"].size(), 8U);
  EXPECT_TRUE(json["parameters"][0]["full_rtrl"].is_null());
}

TEST(Verify, Errors) {
  const Model m = leaky_integrator();
  expect_error<ValueError>("a window of 0 steps", [&] { verified(m, D_RTRL{}, {.windows = {0}}); });
  expect_error<ValueError>("a window of 99 steps in a sequence of", [&] {
    verified(m, D_RTRL{}, {.windows = {2, 99}});
  });
  expect_error<ValueError>("no sequence", [&] { verify(m, D_RTRL{}, Arrays{}, squared_error()); });
  expect_error<ValueError>("same number of steps", [&] {
    Random random(1);
    verify(m, D_RTRL{}, Arrays{random.f64({4, 3}), random.f64({5, 2})}, squared_error());
  });
  expect_error<NotSupportedError>("48 numbers, more than max_influence = 20",
                                  [&] { verified(m, D_RTRL{}, {.full_rtrl = true, .max_influence = 20}); });
}

TEST(Verify, NothingIsComparedWithNan) {
  const Arrays s = sequences(4);
  const Arrays bad{s[0] * std::numeric_limits<double>::infinity(), s[1]};
  expect_error<ValueError>("nothing can be compared",
                           [&] { verify(leaky_integrator(), D_RTRL{}, bad, squared_error()); });
}

TEST(Verify, TheModelIsLeftAsItWas) {
  const ReadyModel ready = make_model("gru", {.sizes = {3, 4, 2}, .dtype = Dtype::F64});
  std::vector<Tensor> before, after;
  const auto values = [&](std::vector<Tensor>& out) {
    for (const StateEntry& e : states(*ready.module))
      for (const Array& a : e.state->leaves()) out.push_back(a.tensor());
  };
  values(before);
  const Arrays s = sequences(4);
  EXPECT_TRUE(verify(*ready.module, D_RTRL{}, s[0], s[1], loss::mse, {.windows = {2}}).met());
  values(after);
  EXPECT_EQ(before, after);
}

// Reference models ------------------------------------------------------------------------------------------
// Theory never promises what a rule does not keep, and BPTT is what forward mode says.
class ReferenceModels : public ::testing::TestWithParam<std::string> {};

TEST_P(ReferenceModels, KeepWhatTheoryPromises) {
  for (const auto& rule : {make_rule("d_rtrl"), make_rule("ostl_recurrent")}) {
    const VerifyReport r = verify_file(GetParam(), *rule, {.windows = {2}, .lags = 2, .full_rtrl = true});
    EXPECT_TRUE(r.met()) << r.to_string();
  }
}

INSTANTIATE_TEST_SUITE_P(Files, ReferenceModels,
                         ::testing::Values("cell_GRUCell_b3", "cell_LRUCell", "cell_LSTMCell", "cell_MGUCell",
                                           "cell_MiniLSTM_b3", "net_TwoLayerGRU", "op_conv1d_b3",
                                           "op_element_wise", "op_embedding_b3", "op_lora",
                                           "op_sparse_csr_b3", "snn_alif_expcu", "snn_lif_delta_b3",
                                           "struct_cond_gate", "struct_mixed_path",
                                           "struct_nontemporal_and_plain", "struct_one_weight_two_groups",
                                           "struct_scaled_weight", "struct_tied_weight"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace etrace
