// D-RTRL is exact where positions do not mix: its gradient, summed over single steps or over windows shorter
// than the sequence, is that of reverse mode through all of it. For every operator and four kinds of states;
// the same comparison must fail for rules that forget.
#include <gtest/gtest.h>

#include "support/learning.h"
#include "support/learning_models.h"

namespace etrace {
namespace {

using namespace testing;

// Parameters outside of every operator act on the state, so no trace carries them.
std::vector<std::string> traced_leaves(const Learner& learner) {
  std::vector<std::string> out;
  for (const ParamLeafId& id : learner.params().leaves) {
    bool found = false;
    for (const HiddenParamOpRelation& r : learner.graph().hidden_param_op_relations)
      for (const TrainableSource& t : r.trainables)
        for (const auto& [path, index] : t.leaves) found = found || (path == id.path && index == id.leaf);
    if (found) out.push_back(to_string(id));
  }
  return out;
}

class Exactness : public ::testing::TestWithParam<std::tuple<std::size_t, Structure>> {
 protected:
  const OperatorCase& c = operator_cases()[std::get<0>(GetParam())];
  const Model model = operator_model(c, std::get<1>(GetParam()));
  const Sequence data = draw_sequence(model, 5);
  const ParamValues expected = bptt(model, data).grads;

  ParamValues run(const LearningRule& rule, std::int64_t window, std::vector<std::string>* names = nullptr) {
    Learner learner = make_learner(model, rule);
    if (names != nullptr) *names = traced_leaves(learner);
    return online(learner, data, window);
  }
};

TEST_P(Exactness, SingleSteps) {
  std::vector<std::string> names;
  const ParamValues found = run(D_RTRL(), 0, &names);
  expect_gradients(found, expected, 1e-9, names);
  const ForgetfulRule wrong(ForgetfulRule::Jacobian, VjpMethod::SingleStep);
  EXPECT_GT(largest_deviation(run(wrong, 0), expected, names), 1e-6);
}

TEST_P(Exactness, Windows) {
  for (const std::int64_t window : {1, 2, 3}) {
    SCOPED_TRACE("windows of " + std::to_string(window));
    std::vector<std::string> names;
    const ParamValues found = run(D_RTRL({.vjp_method = VjpMethod::MultiStep}), window, &names);
    expect_gradients(found, expected, 1e-9, names);
    if (window != 2) continue;
    for (const auto what : {ForgetfulRule::Jacobian, ForgetfulRule::Trace}) {
      const ForgetfulRule wrong(what, VjpMethod::MultiStep);
      EXPECT_GT(largest_deviation(run(wrong, window), expected, names), 1e-6);
    }
  }
}

std::string exactness_name(const ::testing::TestParamInfo<std::tuple<std::size_t, Structure>>& info) {
  return operator_cases()[std::get<0>(info.param)].name + "_" + name(std::get<1>(info.param));
}
INSTANTIATE_TEST_SUITE_P(Operators, Exactness,
                         ::testing::Combine(::testing::Range(std::size_t{0}, operator_cases().size()),
                                            ::testing::ValuesIn(kStructures)),
                         exactness_name);

}  // namespace
}  // namespace etrace
