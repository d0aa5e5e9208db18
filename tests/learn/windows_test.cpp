// Steps that run together as one window give what they give one by one: gradients, traces, states and losses.
// For every operator, with weights and with padding, for all rules; and traces that are stored in fewer bits.
#include <gtest/gtest.h>

#include <cmath>

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "support/functions.h"
#include "support/learning.h"
#include "support/learning_models.h"
#include "support/values.h"

namespace etrace {
namespace {

using namespace testing;

constexpr std::int64_t kWindowSteps = 5;

struct Outcome {
  ParamValues grads;
  Arrays values;  // losses, states, traces
};

Outcome outcome_of(const Model& model, const LearningRule& rule, const Sequence& data, bool freeze,
                   std::int64_t window, Compat compat = Compat::None) {
  Learner learner = make_learner(model, rule, compat, window);
  const SequenceGradient r = learner.etrace_grad(
      data.all(), squared_error(), {.mask = data.weights, .freeze = freeze, .reduction = Reduction::Sum});
  Outcome out{r.grads, {r.losses}};
  for (const Array& a : states_of(learner)) out.values.push_back(a);
  for (const Array& a : traces_of(learner)) out.values.push_back(a);
  return out;
}

void expect_equal(const Outcome& found, const Outcome& expected, double tolerance) {
  ASSERT_EQ(found.values.size(), expected.values.size());
  for (std::size_t i = 0; i < expected.values.size(); ++i)
    EXPECT_LE(relative_deviation(found.values[i], expected.values[i]), tolerance) << "value " << i;
  for (std::size_t i = 0; i < expected.grads.leaves.size(); ++i)
    EXPECT_LE(relative_deviation(found.grads.values[i], expected.grads.values[i]), tolerance)
        << "gradient of " << to_string(expected.grads.leaves[i]);
}

std::shared_ptr<const LearningRule> rule_named(const std::string& name) {
  return make_rule(name, name == "pp_prop" ? RuleOptions{{"decay_or_rank", 0.8}} : RuleOptions{});
}

class Windows : public ::testing::TestWithParam<std::tuple<std::size_t, std::string>> {};

TEST_P(Windows, EqualSingleSteps) {
  const auto rule = rule_named(std::get<1>(GetParam()));
  // Two states in a chain: the richest of the structures.
  const Model model = operator_model(operator_cases()[std::get<0>(GetParam())], Structure::Chain);
  Sequence data = draw_sequence(model, kWindowSteps);
  const Outcome plain = outcome_of(model, *rule, data, false, 1);
  for (const std::int64_t window : {std::int64_t{2}, kWindowSteps})
    expect_equal(outcome_of(model, *rule, data, false, window), plain, 1e-12);
  data.weights = array({0.5, 0.0, 2.0, 0.0, 1.0}, Dtype::F64);
  for (const bool freeze : {false, true}) {
    SCOPED_TRACE(freeze ? "frozen" : "weighted");
    const Outcome steps = outcome_of(model, *rule, data, freeze, 1);
    for (const std::int64_t window : {std::int64_t{3}, kWindowSteps})
      expect_equal(outcome_of(model, *rule, data, freeze, window), steps, 1e-12);
    EXPECT_GT(largest_deviation(steps.grads, plain.grads), 1e-6);
  }
}

INSTANTIATE_TEST_SUITE_P(Operators, Windows,
                         ::testing::Combine(::testing::Range(std::size_t{0}, operator_cases().size()),
                                            ::testing::Values("d_rtrl", "pp_prop")),
                         [](const auto& info) {
                           return operator_cases()[std::get<0>(info.param)].name + "_" +
                                  std::get<1>(info.param);
                         });

// A dense cell in all structures, for every rule there is.
TEST(Windows, EveryStructureAndRule) {
  for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep))
    for (const Structure structure : kStructures) {
      SCOPED_TRACE(row->name + ", " + name(structure));
      const auto rule = telling_rule(*row);
      const Model model = operator_model(operator_case("mm_bias"), structure);
      const Sequence data = draw_sequence(model, 7);
      const Outcome plain = outcome_of(model, *rule, data, false, 1);
      for (const std::int64_t window : {std::int64_t{2}, std::int64_t{3}, std::int64_t{7}})
        expect_equal(outcome_of(model, *rule, data, false, window), plain, 1e-12);
    }
}

// Every operator for every rule: it runs, in steps and windows alike, single-step and multi-step, or it is
// refused by name.
class EveryRule : public ::testing::TestWithParam<std::size_t> {};

TEST_P(EveryRule, RunsOnTheOperator) {
  const OperatorCase& c = operator_cases()[GetParam()];
  const Model model = operator_model(c, Structure::Coupled);
  const Sequence data = draw_sequence(model, 4);
  for (const VjpMethod method : {VjpMethod::SingleStep, VjpMethod::MultiStep})
    for (const RuleRow* row : rows_that_run(method)) {
      SCOPED_TRACE(row->name + ", " + std::string(name(method)));
      const auto rule = telling_rule(*row);
      try {
        if (method == VjpMethod::SingleStep) {
          expect_equal(outcome_of(model, *rule, data, false, 4), outcome_of(model, *rule, data, false, 1),
                       1e-12);
          continue;
        }
        Learner learner = make_learner(model, InWindows(*rule));
        for (const Array& g : online(learner, data, 2).values) EXPECT_TRUE(std::isfinite(norm(g)));
      } catch (const NotSupportedError& e) {
        EXPECT_NE(std::string(e.what()).find(rule->name()), std::string::npos) << e.what();
      }
    }
}

INSTANTIATE_TEST_SUITE_P(Operators, EveryRule, ::testing::Range(std::size_t{0}, operator_cases().size()),
                         [](const auto& info) { return operator_cases()[info.param].name; });

// Traces with a source of their own and derived ones side by side.
TEST(Windows, L40_RelationsOfSeveralKinds) {
  const Model model = step_model(
      {arg("x", {2, 3}), hidden("h", {2, 4}), param("e", {4}), param("u", {3, 4}), param("w", {3, 4})},
      [](In& in) {
        const WeightFn mixed = [](const Array& w) { return w / sqrt(sum(square(w)) + 1.0); };
        in.set("h", element_wise(in["e"]) * in["h"] + tanh(matmul(in["x"], in["w"])) +
                        matmul(in["x"], in["u"], {}, {.weight_fn = mixed}));
        return in["h"];
      });
  const Sequence data = draw_sequence(model, 12);
  const Outcome plain = outcome_of(model, D_RTRL(), data, false, 1);
  expect_equal(outcome_of(model, D_RTRL(), data, false, 6), plain, 1e-12);
  expect_gradients(plain.grads, bptt(model, data).grads, 1e-9);
}

// L29: under compat a shared einsum sums positions too early; a window keeps even that.
TEST(Windows, L29_EarlySumsOfCompat) {
  for (const char* name : {"einsum_shared", "einsum_shared_weight_fn", "einsum_shared_last"}) {
    SCOPED_TRACE(name);
    const Model model = operator_model(operator_case(name), Structure::Coupled);
    const Sequence data = draw_sequence(model, kWindowSteps);
    const Outcome plain = outcome_of(model, D_RTRL(), data, false, 1, Compat::Braintrace);
    expect_equal(outcome_of(model, D_RTRL(), data, false, kWindowSteps, Compat::Braintrace), plain, 1e-12);
    EXPECT_GT(largest_deviation(plain.grads, bptt(model, data).grads), 1e-6);
  }
}

// Padding ---------------------------------------------------------------------------------------------------
// Frozen steps are as if they were not there, wherever they stand.
TEST(Freezing, PaddingLeavesNoMark) {
  for (const std::string rule : {"d_rtrl", "pp_prop"})
    for (const char* op : {"mm_bias", "conv_1d_first", "elemwise_batch"}) {
      SCOPED_TRACE(rule + ", " + op);
      const Model model = operator_model(operator_case(op), Structure::Coupled);
      Sequence data = draw_sequence(model, 6);
      data.weights = array({1, 0, 1, 0, 0, 1}, Dtype::F64);
      Sequence kept;
      const auto pick = [](const Array& a) { return take(a, array({0, 2, 5}, Dtype::I32)); };
      for (const Array& a : data.args) kept.args.push_back(pick(a));
      kept.targets = pick(data.targets);
      Outcome padded = outcome_of(model, *rule_named(rule), data, true, 4);
      padded.values[0] = pick(padded.values[0]);  // losses are reported for all steps
      expect_equal(padded, outcome_of(model, *rule_named(rule), kept, false, 4), 1e-12);
    }
}

TEST(Freezing, WindowsOfMultiStepLearners) {
  const Model model = operator_model(operator_case("mm_bias"), Structure::Chain);
  Sequence data = draw_sequence(model, 6);
  data.weights = array({1, 0, 1, 0, 0, 1}, Dtype::F64);
  Learner single = make_learner(model, D_RTRL()), windows = make_learner(model, InWindows(D_RTRL()));
  expect_gradients(online(windows, data, 3, true), online(single, data, 0, true), 1e-10);
  expect_same(states_of(windows), states_of(single));
  expect_same(traces_of(windows), traces_of(single));
}

// Stored precision ------------------------------------------------------------------------------------------
class TraceDtype : public ::testing::TestWithParam<Dtype> {};

TEST_P(TraceDtype, KeepsItsTypeAndItsDigits) {
  const Dtype dtype = GetParam();
  const double digits = dtype == Dtype::F32 ? 1e-6 : dtype == Dtype::F16 ? 5e-3 : 5e-2;
  for (const char* op : {"mm_bias", "conv_1d_first", "sp_mm_csr", "lora_mm", "emb", "elemwise"}) {
    SCOPED_TRACE(op);
    const Model model = operator_model(operator_case(op), Structure::Coupled);
    const Sequence data = draw_sequence(model, 6);
    Learner full = make_learner(model, D_RTRL());
    Learner stored = make_learner(model, D_RTRL({.trace_dtype = dtype}), Compat::None, 1);
    const ParamValues expected = online(full, data), found = online(stored, data);
    for (const EligibilityTrace& t : stored.etraces()) EXPECT_EQ(t.value.dtype(), dtype) << t.name;
    for (const Array& g : found.values) EXPECT_EQ(g.dtype(), Dtype::F64);
    expect_gradients(found, expected, digits);
    EXPECT_GT(largest_deviation(found, expected), 1e-10);  // the traces really are coarser
  }
}

// A window rounds the trace once where single steps round it at every step.
TEST_P(TraceDtype, WindowsRoundOnce) {
  const Model model = operator_model(operator_case("mm_bias"));
  const Sequence data = draw_sequence(model, 12);
  Learner exact = make_learner(model, D_RTRL());
  const ParamValues expected = online(exact, data);
  Learner window = make_learner(model, D_RTRL({.trace_dtype = GetParam()}), Compat::None, 12);
  Learner steps = make_learner(model, D_RTRL({.trace_dtype = GetParam()}), Compat::None, 1);
  EXPECT_LT(largest_deviation(online(window, data), expected),
            largest_deviation(online(steps, data), expected));
}

INSTANTIATE_TEST_SUITE_P(Types, TraceDtype, ::testing::Values(Dtype::F32, Dtype::F16, Dtype::BF16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(TraceDtypes, OnlyFloatingTypes) {
  expect_error<TypeError>("trace_dtype int32 cannot hold a trace",
                          [] { D_RTRL({.trace_dtype = Dtype::I32}); });
}

}  // namespace
}  // namespace etrace
