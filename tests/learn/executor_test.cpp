// The executor: what one step or several give to the traces, and the backward map.
#include "learn/plan/step_derivative.h"
#include "learn/scenario.h"

#include "etrace/transform.h"

namespace etrace {
namespace {

using namespace testing;

class Executor : public ::testing::Test {
 protected:
  const Model model = operator_model(operator_case("mm_bias"), Structure::Coupled);
  const ETraceGraph graph = compile_etrace_graph(model);
  const ETraceVjpGraphExecutor executor{graph};
  const Sequence data = draw_sequence(model, 3);
  const Arrays states = initial_states(model), params = initial_params(model).values;

  Array step_arg(std::int64_t t) const { return item(data.args[0], t); }
  // New states (v, a) and the result, from the program alone.
  Arrays step(const Array& x, ArraySpan s, ArraySpan p) const {
    return eval_jaxpr(model.program, executor.program_inputs(Arrays{x}, s, p));
  }
};

TEST_F(Executor, OneStep) {
  const StepValues v =
      executor.solve_h2w_h2h_jacobian(std::vector<etrace::StepInput>{step_arg(0)}, states, params);
  const Arrays expected = step(step_arg(0), states, params);
  ASSERT_EQ(v.outputs.size(), 1U);
  EXPECT_EQ(v.outputs[0].tensor(), expected[0].tensor());
  EXPECT_EQ(v.states[0].tensor(), expected[1].tensor());
  EXPECT_EQ(v.states[1].tensor(), expected[2].tensor());
  // x is the input; ∂v/∂y = 1 − tanh²(y), ∂a/∂y = 0; D holds the four derivatives of the coupled step.
  EXPECT_EQ(v.data.operands[0][0].tensor(), step_arg(0).tensor());
  const Array y = matmul_plain(step_arg(0), params[1]) + params[0];
  expect_same(v.data.df[0], Arrays{stack(Arrays{1.0 - square(tanh(y)), zeros_like(y)}, 2)});
  const Array one = ones_like(y);
  const Array d =
      stack(Arrays{0.7 * cos(states[0]), -0.2 * one, 0.3 * (1.0 - square(tanh(states[0]))), 0.85 * one}, 2);
  expect_same(v.data.jacobians, Arrays{reshape(d, {2, 4, 2, 2})});
}

TEST_F(Executor, ManyStepsAreOneAfterTheOther) {
  const StepValues all = executor.solve_h2w_h2h_jacobian(
      std::vector<etrace::StepInput>{MultiStepData{data.args[0]}}, states, params);
  EXPECT_EQ(all.outputs[0].shape(), (Shape{3, 2, 4}));
  Arrays now = states;
  for (std::int64_t t = 0; t < 3; ++t) {
    const StepValues one = executor.solve_h2w_h2h_jacobian(
        std::vector<etrace::StepInput>{SingleStepData{step_arg(t)}}, now, params);
    EXPECT_EQ(item(all.outputs[0], t).tensor(), one.outputs[0].tensor());
    expect_same(Arrays{item(all.data.df[0][0], t)}, one.data.df[0]);
    expect_same(Arrays{item(all.data.jacobians[0], t)}, one.data.jacobians);
    expect_same(Arrays{item(all.data.operands[0][0], t)}, Arrays{one.data.operands[0][0]});
    now = one.states;
  }
  expect_same(all.states, now);
}

TEST_F(Executor, SingleStepDataIsTheSameAtEveryStep) {
  const Model m =
      step_model({arg("x", {3}), arg("gain", {4}), hidden("h", {4}), param("w", {3, 4})}, [](In& in) {
        in.set("h", 0.9 * in["h"] + in["gain"] * matmul(in["x"], in["w"]));
        return in["h"];
      });
  const Sequence s = draw_sequence(m, 4);
  const Array gain = item(s.args[1], 0);
  Learner wrapped = make_learner(m, D_RTRL()), bare = make_learner(m, D_RTRL()),
          repeated = make_learner(m, D_RTRL());
  const Arrays a = wrapped.update({MultiStepData{s.args[0]}, SingleStepData{gain}}),
               b = bare.update({MultiStepData{s.args[0]}, gain}),
               c = repeated.update(
                   {MultiStepData{s.args[0]}, MultiStepData{broadcast_to(expand_dims(gain, {0}), {4, 4})}});
  expect_same(a, c);
  expect_same(b, c);
  expect_same(traces_of(wrapped), traces_of(repeated));
}

TEST_F(Executor, LengthsMustAgree) {
  const std::vector<etrace::StepInput> unequal{MultiStepData{zeros({3, 2})}, MultiStepData{zeros({4, 2})}};
  expect_error<ValueError>("have 3 and 4 steps", [&] { multi_step_length(unequal); });
  expect_error<ValueError>("needs a leading time axis", [&] {
    multi_step_length(std::vector<etrace::StepInput>{MultiStepData{Array(1.0)}});
  });
  EXPECT_FALSE(multi_step_length(std::vector<etrace::StepInput>{zeros({3}), SingleStepData{zeros({4})}}));
  EXPECT_EQ(multi_step_length(std::vector<etrace::StepInput>{MultiStepData{zeros({1, 2})}, zeros({4})}), 1);
}

// The backward map ------------------------------------------------------------------------------------------
TEST_F(Executor, BackwardOfOneStep) {
  const auto lin =
      executor.solve_h2w_h2h_l2h_jacobian(std::vector<etrace::StepInput>{step_arg(0)}, states, params);
  Random random(4);
  const Arrays out{random.f64({2, 4})}, next{random.f64({2, 4}), random.f64({2, 4})};
  const BackwardMap::Cotangents ct = lin.backward(out, next);
  // By reverse mode through the program, parameters held.
  const Function program = [&](ArraySpan a) {
    const Arrays all = step(a[0], a.subspan(1, 2), params);
    return Arrays{all[0], all[1], all[2]};
  };
  Arrays at{step_arg(0), states[0], states[1], out[0], next[0], next[1]};
  const Arrays expected = vjp(program, 3)(at);
  expect_same(ct.args, Arrays{expected[3]});
  expect_same(ct.states, Arrays{expected[4], expected[5]});
  EXPECT_TRUE(ct.params.empty());
  // The result is v itself: its perturbation feels both cotangents; a's feels its own.
  expect_same(ct.perturbations, Arrays{out[0] + next[0], next[1]});
}

TEST_F(Executor, BackwardOfManySteps) {
  const auto lin = executor.solve_h2w_h2h_l2h_jacobian(
      std::vector<etrace::StepInput>{MultiStepData{data.args[0]}}, states, params);
  const Arrays out{2.0 * (lin.values.outputs[0] - data.targets)};
  const BackwardMap::Cotangents ct = lin.backward(out, Arrays(2));
  EXPECT_TRUE(ct.perturbations.empty());
  const Bptt reference = bptt(model, data);
  ASSERT_EQ(ct.params.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_LE(relative_deviation(ct.params[i], reference.grads.values[i]), 1e-12);
}

TEST_F(Executor, BackwardIsLinearAndRepeatable) {
  for (const bool many : {false, true}) {
    const std::vector<etrace::StepInput> args{many ? etrace::StepInput(MultiStepData{data.args[0]})
                                                   : etrace::StepInput(step_arg(0))};
    const auto lin = executor.solve_h2w_h2h_l2h_jacobian(args, states, params);
    Random random(5);
    const Shape out_shape = many ? Shape{3, 2, 4} : Shape{2, 4};
    const Arrays a{random.f64(out_shape)}, b{random.f64(out_shape)}, none(2);
    const Arrays sa{random.f64({2, 4}), Array()}, sb{Array(), random.f64({2, 4})};
    const auto flat = [&](const BackwardMap::Cotangents& c) {
      Arrays all = c.args;
      for (const Arrays* list : {&c.states, &c.params, &c.perturbations})
        all.insert(all.end(), list->begin(), list->end());
      return all;
    };
    const Arrays once = flat(lin.backward(a, sa)), twice = flat(lin.backward(a, sa));
    for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(once[i].tensor(), twice[i].tensor());
    const Arrays other = flat(lin.backward(b, sb));
    const Arrays both = flat(lin.backward(Arrays{2.0 * a[0] - b[0]}, Arrays{2.0 * sa[0], -1.0 * sb[1]}));
    for (std::size_t i = 0; i < both.size(); ++i)
      EXPECT_LE(relative_deviation(both[i], 2.0 * once[i] - other[i]), 1e-12);
    for (const Array& zero : flat(lin.backward(Arrays(1), none))) EXPECT_EQ(norm(zero), 0.0);
  }
}

TEST_F(Executor, BackwardChecksItsCotangents) {
  const auto lin =
      executor.solve_h2w_h2h_l2h_jacobian(std::vector<etrace::StepInput>{step_arg(0)}, states, params);
  expect_error<ValueError>("2 and 2 cotangents for 1 outputs and 2 states",
                           [&] { lin.backward(Arrays(2), Arrays(2)); });
  expect_error<TypeError>("the cotangent of state 1 has type", [&] {
    lin.backward(Arrays(1), Arrays{Array(), zeros({2, 4})});
  });
}

// Signals ---------------------------------------------------------------------------------------------------
// args, states and targets of every step, [K, …].
StepGradients gradients_of_steps(const ETraceGraph& g, const Array& args, const Arrays& states,
                                 ArraySpan params, const Array& targets) {
  const StepLoss loss = [](ArraySpan target, ArraySpan out) { return sum(square(out[0] - target[0])); };
  const StepDerivative derivative(g, own_steps(g, OwnStep::ReverseMode), loss,
                                  Avals{{targets.dtype(), targets.shape().without(0)}});
  Arrays mapped{args, targets};
  mapped.insert(mapped.end(), states.begin(), states.end());
  const Arrays residuals = vmap([&](ArraySpan m) {
    return derivative.residuals(m.first(1), m.subspan(2), params, m.subspan(1, 1));
  })(mapped);
  return derivative.gradients(args.shape()[0], residuals, std::vector<bool>(residuals.size(), true));
}

TEST_F(Executor, SignalsOfSteps) {
  Random random(6);
  const Arrays states{random.f64({3, 2, 4}), random.f64({3, 2, 4})};
  const StepGradients g = gradients_of_steps(executor.graph(), data.args[0], states, params, data.targets);
  Arrays expected;
  for (std::int64_t t = 0; t < 3; ++t) {
    const Array v = step(step_arg(t), Arrays{item(states[0], t), item(states[1], t)}, params)[0];
    const Array signal = 2.0 * (v - item(data.targets, t));
    expected.push_back(stack(Arrays{signal, zeros_like(signal)}, 2));
  }
  expect_same(g.group_signal, Arrays{stack(expected)});
  EXPECT_TRUE(g.before_signal.empty()) << "a loss that reads new states only costs no signal to the old ones";
}

}  // namespace
}  // namespace etrace
