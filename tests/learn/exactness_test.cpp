// D-RTRL is exact where positions do not mix: its gradient, summed over single steps or over windows shorter
// than the sequence, is that of reverse mode through all of it. For every operator and four kinds of states;
// the same comparison must fail for rules that forget.
#include <gtest/gtest.h>

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
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
  const ForgetfulRule wrong(ForgetfulRule::Jacobian);
  EXPECT_GT(largest_deviation(run(wrong, 0), expected, names), 1e-6);
}

TEST_P(Exactness, Windows) {
  for (const std::int64_t window : {1, 2, 3}) {
    SCOPED_TRACE("windows of " + std::to_string(window));
    std::vector<std::string> names;
    const ParamValues found = run(InWindows(D_RTRL()), window, &names);
    expect_gradients(found, expected, 1e-9, names);
    if (window != 2) continue;
    for (const auto what : {ForgetfulRule::Jacobian, ForgetfulRule::Trace}) {
      const InWindows wrong{ForgetfulRule(what)};
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

// Single steps and windows, with a rule that must fail.
void expect_exact(const Model& m, std::int64_t steps = 6) {
  const Sequence data = draw_sequence(m, steps);
  const ParamValues expected = bptt(m, data).grads;
  const auto run = [&](const LearningRule& rule, std::int64_t window) {
    Learner learner = make_learner(m, rule);
    return online(learner, data, window);
  };
  expect_gradients(run(D_RTRL(), 0), expected, 1e-9);
  expect_gradients(run(InWindows(D_RTRL()), 2), expected, 1e-9);
  EXPECT_GT(largest_deviation(run(ForgetfulRule(ForgetfulRule::Jacobian), 0), expected), 1e-6);
}

TEST(ExactCells, OneWeightInTwoGroups) {
  const Model m =
      step_model({arg("x", {3}), hidden("h", {4}), hidden("k", {4}), param("w", {3, 4})}, [](In& in) {
        const Array y = matmul(in["x"], in["w"]);
        in.set("h", 0.8 * in["h"] + tanh(y));
        in.set("k", 0.5 * sin(in["k"]) + y);
        return in["h"] * in["k"];
      });
  EXPECT_EQ(compile_etrace_graph(m).hidden_param_op_relations[0].hidden_groups.size(), 2U);
  expect_exact(m);
}

// Three states, each read by the next within the step and by the one before over time.
TEST(ExactCells, LongChain) {
  expect_exact(step_model({arg("x", {2, 3}), hidden("a", {2, 4}), hidden("b", {2, 4}), hidden("c", {2, 4}),
                           param("u", {3, 4}), param("w", {3, 4})},
                          [](In& in) {
                            in.set("a", 0.8 * in["a"] + tanh(matmul(in["x"], in["w"])) - 0.1 * in["c"]);
                            in.set("b", 0.6 * in["b"] + sin(in["a"]));
                            in.set("c", 0.7 * in["c"] + in["b"] * tanh(matmul(in["x"], in["u"]) + in["a"]));
                            return in["c"] * in["a"];
                          }));
}

// A state that is carried but not hidden: the input, low-pass filtered.
TEST(ExactCells, OtherStatesAreCarried) {
  expect_exact(step_model({arg("x", {3}),
                           hidden("h", {4}),
                           {Role::Other, path_of("slow"), {3}, "ShortTermState"},
                           param("w", {3, 4})},
                          [](In& in) {
                            in.set("slow", 0.5 * in["slow"] + in["x"]);
                            in.set("h", 0.8 * in["h"] + tanh(matmul(in["slow"], in["w"])));
                            return in["h"];
                          }));
}

// Operators whose outputs meet on the way: y·y', and a gate that is learned element by element.
TEST(ExactCells, OperatorsThatMeet) {
  expect_exact(step_model(
      {arg("x", {3}), hidden("h", {4}), param("e", {4}), param("u", {3, 4}), param("w", {3, 4})}, [](In& in) {
        const Array gate = logistic(matmul(in["x"], in["u"])), leak = logistic(element_wise(in["e"]));
        in.set("h", leak * in["h"] + gate * tanh(matmul(in["x"], in["w"])));
        return in["h"];
      }));
}

}  // namespace
}  // namespace etrace
