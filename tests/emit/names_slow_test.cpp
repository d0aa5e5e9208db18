// The tokens of what is emitted for learners do not depend on names: every operator, every rule, all targets.
#include <gtest/gtest.h>

#include "etrace/etrace.h"
#include "etrace/rules.h"
#include "support/hostile_names.h"
#include "support/learning_models.h"

namespace etrace {
namespace {

using namespace testing;

Model reference(const std::string& name) {
  return read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json");
}

void expect_same_tokens(const Program& p, std::uint64_t seed) {
  SCOPED_TRACE(p.name.substr(0, 20));
  Dice dice(seed);
  Renaming plain = plain_names(), hostile = bare_names(dice);
  EXPECT_EQ(difference_of_texts(printed(built(renamed(p, plain))), printed(built(renamed(p, hostile)))), "");
}

TEST(Names, OfPortsAndModulesDoNotReachTheTokens) {
  std::uint64_t seed = 1;
  for (const char* model : {"cell_GRUCell_b3", "jax_gru"})
    for (const Program& p : learner_programs(reference(model), D_RTRL())) expect_same_tokens(p, ++seed);
}

// Every operator that owns a weight.
TEST(Names, OfEveryOperatorDoNotReachTheTokens) {
  std::uint64_t seed = 100;
  for (const OperatorCase& c : operator_cases()) {
    SCOPED_TRACE(c.name);
    for (const Program& p : learner_programs(operator_model(c), D_RTRL()))
      if (p.name == "step") expect_same_tokens(p, ++seed);
  }
}

// From the file on, with every rule.
TEST(Names, OfModelsDoNotReachTheTokens) {
  const Model m = reference("cell_GRUCell_b3");
  std::uint64_t seed = 200, compared = 0;
  for (const RuleRow* row : rule_rows()) {
    SCOPED_TRACE(row->name);
    Dice dice(++seed);
    Renaming plain = plain_names(), hostile = hostile_names(dice);
    const Model a = renamed(m, plain), b = renamed(m, hostile);
    const auto rule = row->make({});
    std::vector<Program> first;
    try {
      first = learner_programs(a, *rule);
    } catch (const Error&) {  // not step by step, or not without a modulator
      continue;
    }
    const std::vector<Program> second = learner_programs(b, *rule);
    ++compared;
    ASSERT_EQ(first.size(), second.size());
    const std::size_t k = seed % first.size();
    EXPECT_EQ(difference_of_texts(printed(built(first[k])), printed(built(second[k]))), "") << first[k].name;
  }
  EXPECT_GE(compared, 8U);
}

}  // namespace
}  // namespace etrace
