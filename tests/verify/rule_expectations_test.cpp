// What `etrace verify` says of every rule of the table, and that it is kept.
#include "etrace/compare_rules.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

Expectation expectation_of(LearningRule::Theory::Statement s) {
  if (s == LearningRule::Theory::Exact) return Expectation::Exact;
  return s == LearningRule::Theory::Approximate ? Expectation::Approximate : Expectation::NoStatement;
}

// h ← 0.9 h + x·w: the graph itself would allow an exact trace, so that what verify expects is what theory
// says of the rule. Measured, it is exact or it is not: a wrong statement does not pass.
TEST(RuleExpectations, EveryRuleHasOneAndKeepsIt) {
  const StepFunction loss = [](StepCall& model, ArraySpan s) {
    return LossAndAux{loss::mse(model(s[0]), s[1])};
  };
  std::set<std::string> seen;
  for (const auto& rule : rules_to_compare()) {
    SCOPED_TRACE(rule->describe());
    seen.insert(rule->name());
    const Model m = leaky_linear();
    const VerifyReport r = verify(m, *rule, draw_sequence(m, 6).all(), loss, {.windows = {1, 2}, .lags = 2});
    EXPECT_TRUE(r.met()) << r.to_string();
    ASSERT_EQ(r.leaves.size(), 1U);
    EXPECT_TRUE(r.leaves[0].alive);
    EXPECT_FALSE(r.reasons().empty());
    ASSERT_FALSE(r.leaves[0].measures.empty());
    const Expectation expected = expectation_of(rule->theory(true).statement);
    for (const VerifyReport::Measure& measure : r.leaves[0].measures) {
      EXPECT_EQ(name(measure.expected), name(expected)) << "window " << measure.window;
      const bool exact = measure.deviation < 1e-9;
      if (measure.expected == Expectation::Exact) {
        EXPECT_TRUE(exact) << measure.deviation;
      } else if (measure.expected == Expectation::Approximate) {
        EXPECT_FALSE(exact) << "window " << measure.window << ": then it should be said to be exact";
      }
    }
  }
  for (const RuleRow* row : rule_rows())
    EXPECT_EQ(seen.contains(row->name), !row->compared.empty()) << row->name;
}

// With a dense recurrence a rule is exact where verify says so: of ours, SnAp alone.
TEST(RuleExpectations, DenseRecurrenceIsExactForSaturatedRulesOnly) {
  const StepFunction loss = [](StepCall& model, ArraySpan s) {
    return LossAndAux{loss::mse(model(s[0]), s[1])};
  };
  const Model m = tanh_rnn();
  for (const auto& rule : rules_to_compare()) {
    SCOPED_TRACE(rule->describe());
    const VerifyReport r = verify(m, *rule, draw_sequence(m, 6).all(), loss, {.windows = {2}, .lags = 0});
    EXPECT_TRUE(r.met()) << r.to_string();
    for (const VerifyReport::Leaf& leaf : r.leaves)
      for (const VerifyReport::Measure& measure : leaf.measures) {
        const bool exact = measure.expected == Expectation::Exact;
        EXPECT_TRUE(exact || rule->name() != "SnAp");
        EXPECT_FALSE(exact && rule->name() == "D_RTRL");
        EXPECT_EQ(measure.deviation < 1e-9, exact) << to_string(leaf.id) << " " << measure.deviation;
      }
  }
}

// h ← tanh(x·W + hᵀ·R), as many rows as columns: shapes fit as if the axes stood in their places.
struct ExchangedAxes : Module {
  Array update(const Array& x) override {
    h.set(tanh(matmul(x, w.value()) + matmul(transpose(h.value()), rec.value())));
    return h.value();
  }
  ParamState& w = param("w", random::normal(random::key(1), {3, 3}, Dtype::F64) * 0.5);
  ParamState& rec = param("rec", random::normal(random::key(2), {3, 3}, Dtype::F64) * 0.6);
  HiddenState& h = hidden("h", {3, 3}, Dtype::F64);
};

TEST(RuleExpectations, AxesThatAreExchangedAreNotTakenForPositions) {
  const Array xs = random::normal(random::key(3), {6, 3, 3}, Dtype::F64),
              ys = random::normal(random::key(4), {6, 3, 3}, Dtype::F64);
  ExchangedAxes net;
  const VerifyReport r = verify(net, SnAp({.n = 30}), xs, ys, loss::mse, {.windows = {1, 2}, .lags = 0});
  EXPECT_TRUE(r.met()) << r.to_string();
}

}  // namespace
}  // namespace etrace
