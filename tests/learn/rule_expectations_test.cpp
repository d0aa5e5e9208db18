// What `etrace verify` says of every rule of the table, and that it is kept.
#include <map>

#include "etrace/compare_rules.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// h ← 0.9 h + x·w: the graph itself would allow an exact trace.
TEST(RuleExpectations, EveryRuleHasOneAndKeepsIt) {
  const std::map<std::string, Expectation> expected{
      {"D_RTRL", Expectation::Exact},
      {"OSTLRecurrent", Expectation::Exact},
      {"SnAp", Expectation::Exact},
      {"DNI", Expectation::Exact},
      {"EProp", Expectation::Exact},  // no readout: no filter
      {"EProp (kappa 0.9)", Expectation::Approximate},
      {"EProp (random feedback from key 0)", Expectation::Approximate},
      {"pp_prop", Expectation::Approximate},
      {"OSTLFeedforward", Expectation::Approximate},
      {"UORO", Expectation::Approximate},
      {"ThreeFactor", Expectation::NoStatement}};
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
    const auto line =
        expected.contains(rule->describe()) ? expected.find(rule->describe()) : expected.find(rule->name());
    ASSERT_NE(line, expected.end()) << "a new rule needs a line here";
    for (const VerifyReport::Measure& measure : r.leaves[0].measures) {
      EXPECT_EQ(name(measure.expected), name(line->second)) << "window " << measure.window;
      if (measure.expected == Expectation::Exact)
        EXPECT_LT(measure.deviation, 1e-9);
      else
        EXPECT_GT(measure.deviation, 1e-9)
            << "window " << measure.window << ": then it should be said to be exact";
    }
  }
  for (const RuleRow* row : rule_rows())
    EXPECT_EQ(seen.contains(row->name), !row->compared.empty()) << row->name;
}

// One step has no past: with a dense recurrence nothing is exact but the single step of a sequence of one.
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
        const bool exact = rule->name() == "SnAp";
        EXPECT_EQ(measure.deviation < 1e-9, exact) << to_string(leaf.id) << " " << measure.deviation;
      }
  }
}

}  // namespace
}  // namespace etrace
