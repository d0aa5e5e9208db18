// The records of a step are found by number and path: their order means nothing, to learners, windows, verify
// and reverse mode. A state that is no hidden one and has no output keeps its value.
#include "learn/scenario.h"

#include <numeric>
#include <random>

#include "etrace/executor.h"
#include "etrace/verify.h"
#include "io/step_outputs.h"

namespace etrace {
namespace {

using namespace testing;

// Two layers, a constant that is kept in a state, and a second result.
Model two_layers() {
  Model m = step_model({arg("x", {3}), hidden("a", {4}), hidden("b", {4}), hidden("kept", {4}),
                        param("u", {4, 4}), param("w", {3, 4})},
                       [](In& in) {
                         in.set("a", 0.9 * in["a"] + matmul(in["x"], in["w"]) * in["kept"]);
                         in.set("b", 0.1 * in["b"] + tanh(matmul(in["a"], in["u"])));
                         return in["b"];
                       });
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (to_string(m.inputs[i].path) == "kept") {
      m.inputs[i].role = Role::Other;
      m.inputs[i].type = "ShortTermState";
    }
  for (std::size_t o = 0; o < m.outputs.size(); ++o)
    if (to_string(m.outputs[o].path) == "kept") {
      m.outputs.erase(m.outputs.begin() + static_cast<std::ptrdiff_t>(o));
      m.program.jaxpr.outs.erase(m.program.jaxpr.outs.begin() + static_cast<std::ptrdiff_t>(o));
    }
  m.outputs.push_back({.role = Role::Out, .index = 1});
  for (const Eqn& eqn : m.program.jaxpr.eqns)
    if (eqn.prim->name() == "tanh") m.program.jaxpr.outs.emplace_back(eqn.out[0]);
  return m;
}

Model in_order(const Model& m, const std::vector<std::size_t>& order) {
  Model out = m;
  for (std::size_t i = 0; i < order.size(); ++i) {
    out.outputs[i] = m.outputs[order[i]];
    out.program.jaxpr.outs[i] = m.program.jaxpr.outs[order[i]];
  }
  return out;
}

std::vector<Model> in_other_orders(const Model& m) {
  std::vector<std::size_t> order(m.outputs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::vector<Model> out{in_order(m, {order.rbegin(), order.rend()})};
  for (const std::uint64_t seed : {1, 2, 3}) {
    std::mt19937_64 rng(seed);
    std::shuffle(order.begin(), order.end(), rng);
    out.push_back(in_order(m, order));
  }
  return out;
}

TEST(OutputOrder, ResultsByNumberAndStatesByPath) {
  const Model m = two_layers();
  Random random(3);
  Arrays in, states;
  for (const InputRecord& r : m.inputs)
    in.push_back(r.role == Role::Arg ? Array(random.f64({3})) : Array(r.init));
  const StepValues expected = ETraceGraphExecutor(compile_etrace_graph(m)).solve_h2w_h2h_jacobian(in);
  ASSERT_EQ(expected.outputs.size(), 2U);
  ASSERT_EQ(expected.states.size(), 3U);
  EXPECT_EQ(expected.states[2].tensor(), in[3].tensor()) << "a state without an output keeps its value";
  for (const Model& other : in_other_orders(m)) {
    EXPECT_EQ(result_outputs(other).size(), 2U);
    const ETraceGraph g = compile_etrace_graph(other);
    const StepValues found = ETraceGraphExecutor(g).solve_h2w_h2h_jacobian(in);
    for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(found.outputs[i].tensor(), expected.outputs[i].tensor());
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(found.states[i].tensor(), expected.states[i].tensor());
  }
}

TEST(OutputOrder, GradientsOfEveryRule) {
  const Model m = two_layers();
  const Sequence data = draw_sequence(m, 5);
  const std::vector<Model> others = in_other_orders(m);
  for (const VjpMethod method : {VjpMethod::SingleStep, VjpMethod::MultiStep})
    for (const RuleRow* row : rows_that_run(method)) {
      SCOPED_TRACE(row->name);
      const std::shared_ptr<const LearningRule> rule = method == VjpMethod::SingleStep
                                                           ? telling_rule(*row)
                                                           : std::make_shared<InWindows>(*telling_rule(*row));
      const std::int64_t window = method == VjpMethod::SingleStep ? 0 : 2;
      const ParamValues expected = gradients_of(m, *rule, data, window);
      for (const Model& other : others)
        expect_gradients(gradients_of(other, *rule, data, window), expected, 1e-14);
    }
}

TEST(OutputOrder, Verify) {
  const Model m = two_layers();
  const Sequence data = draw_sequence(m, 5);
  const StepFunction f = [](StepCall& model, ArraySpan s) {
    return LossAndAux{loss::mse(model(std::vector<etrace::StepInput>{s[0]})[0], s[1])};
  };
  const VerifyReport expected =
      verify(m, SnAp(), data.all(), f, {.windows = {2}, .lags = 2, .full_rtrl = true});
  EXPECT_TRUE(expected.met()) << expected.to_string();
  for (const Model& other : in_other_orders(m)) {
    const VerifyReport found =
        verify(other, SnAp(), data.all(), f, {.windows = {2}, .lags = 2, .full_rtrl = true});
    EXPECT_EQ(found.to_string(), expected.to_string());
  }
}

// Parameter leaves ------------------------------------------------------------------------------------------
// The leaves of a parameter stand in any order among the inputs, other inputs in between.
Model with_leaves(const std::vector<std::string>& order) {
  const std::vector<testing::StepInput> leaves{leaf("p", "bias", 0, {4}), leaf("p", "scale", 1, {4}),
                                               leaf("p", "weight", 2, {3, 4}), hidden("h", {4})};
  std::vector<testing::StepInput> inputs{arg("x", {3})};
  for (const std::string& name : order)
    for (const testing::StepInput& in : leaves)
      if (name == (in.role == Role::Hidden ? "h" : std::get<std::string>(in.leaf_key.back())))
        inputs.push_back(in);
  Model m = step_model(inputs, [](In& in) {
    in.set("h", 0.7 * in["h"] + matmul(in["x"], in["p:weight"] * in["p:scale"], in["p:bias"]));
    return in["h"];
  });
  for (InputRecord& r : m.inputs)  // the same values in every order
    if (r.role != Role::Arg) {
      Random random(r.role == Role::Hidden ? 1 : static_cast<std::uint64_t>(r.leaf) + 2);
      r.init = random.f64(r.init.shape()).tensor();
    }
  return m;
}

TEST(LeafOrder, GradientsByNumber) {
  const Model m = with_leaves({"h", "bias", "scale", "weight"});
  const Sequence data = draw_sequence(m, 5);
  expect_gradients(gradients_of(m, D_RTRL(), data), bptt(m, data).grads, 1e-12);
  for (const std::vector<std::string>& order :
       {std::vector<std::string>{"weight", "scale", "bias", "h"}, {"scale", "h", "weight", "bias"}})
    for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
      SCOPED_TRACE(row->name + " " + order.front());
      const ParamValues found = gradients_of(with_leaves(order), *telling_rule(*row), data),
                        same = gradients_of(m, *telling_rule(*row), data);
      for (const char* name : {"p.bias", "p.scale", "p.weight"})
        EXPECT_LT(relative_deviation(found.at(name), same.at(name)), 1e-13) << name;
    }
}

TEST(LeafOrder, HiddenStatesAreOneArray) {
  Model m = two_layers();
  for (InputRecord& r : m.inputs)
    if (to_string(r.path) == "b") r.path = {"a"}, r.leaf = 1;
  for (OutputRecord& r : m.outputs)
    if (to_string(r.path) == "b") r.path = {"a"}, r.leaf = 1;
  expect_error<NotSupportedError>("hidden state a has several leaves", [&] { compile_etrace_graph(m); });
}

}  // namespace
}  // namespace etrace
