// The learner as an object: traces, signals from elsewhere, resets, values, plans, compilation.
#include "learn/scenario.h"

#include "etrace/interp.h"

namespace etrace {
namespace {

using namespace testing;

class LearnerApi : public ::testing::Test {
 protected:
  const Model model = operator_model(operator_case("mv_leaves"), Structure::Coupled);
  const Sequence data = draw_sequence(model, 5);
  Learner learner = make_learner(model, D_RTRL());
};

// Traces ----------------------------------------------------------------------------------------------------
TEST_F(LearnerApi, TracesOfAParameter) {
  learner.etrace_evolve(data.args);
  const std::vector<EligibilityTrace> found = learner.get_etrace_of("p");
  ASSERT_EQ(found.size(), 2U);  // weight and bias
  EXPECT_EQ(found[0].name, "relation0/group0/weight");
  EXPECT_EQ(found[0].value.shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(found[1].name, "relation0/group0/bias");
  EXPECT_EQ(found[1].value.shape(), (Shape{4, 2}));
  EXPECT_EQ(learner.etraces().size(), 2U);
  expect_error<ValueError>("q has no trace; traced are: p", [&] { learner.get_etrace_of("q"); });
}

// The trace of the bias by its recursion: e ← D·e + ∂h/∂y.
TEST_F(LearnerApi, TracesObeyTheirRecursion) {
  const ETraceGraphExecutor executor(learner.graph());
  const Arrays params = initial_params(model).values;
  Arrays states = initial_states(model);
  Array bias = zeros({4, 2}, Dtype::F64), weight = zeros({3, 4, 2}, Dtype::F64);
  for (std::int64_t t = 0; t < 5; ++t) {
    const Array x = item(data.args[0], t);
    const StepValues v = executor.solve_h2w_h2h_jacobian(executor.program_inputs(Arrays{x}, states, params));
    const Array &d = v.data.jacobians[0], &f = v.data.df[0][0];  // [4, 2, 2], [4, 2]
    bias = sum(d * expand_dims(bias, {1}), {2}) + f;
    weight = sum(expand_dims(d, {0}) * expand_dims(weight, {2}), {3}) +
             reshape(x, {3, 1, 1}) * expand_dims(f, {0});
    states = v.states;
    learner(x);
    expect_same(traces_of(learner), Arrays{weight, bias});
  }
}

TEST_F(LearnerApi, FactorisedTraces) {
  Learner l = make_learner(model, *factorised(0.8));
  const ETraceGraphExecutor executor(l.graph());
  const Arrays params = initial_params(model).values;
  Arrays states = initial_states(model);
  Array ex = zeros({3}, Dtype::F64), ef = zeros({4, 2}, Dtype::F64);
  for (std::int64_t t = 0; t < 5; ++t) {
    const Array x = item(data.args[0], t);
    const StepValues v = executor.solve_h2w_h2h_jacobian(executor.program_inputs(Arrays{x}, states, params));
    ex = 0.8 * ex + x;
    ef = 0.8 * sum(v.data.jacobians[0] * expand_dims(ef, {1}), {2}) + 0.2 * v.data.df[0][0];
    states = v.states;
    l(x);
  }
  const std::vector<EligibilityTrace> found = l.get_etrace_of("p");
  ASSERT_EQ(found.size(), 2U);
  EXPECT_EQ(found[0].name, "relation0/x");
  EXPECT_EQ(found[1].name, "relation0/group0/df");
  expect_same(Arrays{found[0].value, found[1].value}, Arrays{ex, ef});

  // Σ_a signal·εf / (1 − α⁵) against x's trace.
  const Array signal = Random(3).f64({4, 2});
  const Array ct = sum(signal * ef, {1}) / (1.0 - std::pow(0.8, 5));
  const ParamValues g = l.solve(Arrays{signal});
  EXPECT_LE(relative_deviation(g.at("p.weight"), outer(ex, ct)), 1e-12);
  EXPECT_LE(relative_deviation(g.at("p.bias"), ct), 1e-12);
}

// Signals from elsewhere ------------------------------------------------------------------------------------
TEST_F(LearnerApi, SolveIsTheContractionWithTheTrace) {
  learner.etrace_evolve(data.args);
  const Array signal = Random(3).f64({4, 2});
  const ParamValues g = learner.solve(Arrays{signal});
  const Arrays traces = traces_of(learner);
  EXPECT_LE(relative_deviation(g.at("p.weight"), sum(traces[0] * expand_dims(signal, {0}), {2})), 1e-12);
  EXPECT_LE(relative_deviation(g.at("p.bias"), sum(traces[1] * signal, {1})), 1e-12);
  const ParamValues doubled = learner.solve(Arrays{2.0 * signal});
  EXPECT_LE(relative_deviation(doubled.at("p.weight"), 2.0 * g.at("p.weight")), 1e-15);
  expect_error<ValueError>("2 signals for 1 hidden groups", [&] { learner.solve(Arrays{signal, signal}); });
  expect_error<ValueError>("signal 0 has shape [4], expected [4,2]",
                           [&] { learner.solve(Arrays{zeros({4}, Dtype::F64)}); });
}

// The gradient of a step is solve() with that step's signal, for all operators.
TEST(Solve, IsTheGradientOfAStep) {
  for (const char* name : {"mm_normalized", "conv_1d_first", "einsum_shared", "emb", "elemwise_batch",
                           "sp_mm_coo_weight_fn", "lora_mm_weight_fn", "processed_mask"}) {
    SCOPED_TRACE(name);
    const Model m = operator_model(operator_case(name));
    const Sequence data = draw_sequence(m, 4);
    Learner stepped = make_learner(m, D_RTRL()), solved = make_learner(m, D_RTRL());
    online(stepped, data.part(0, 3));
    const ParamValues expected = online(stepped, data.part(3, 4));
    const Array out = item(solved.etrace_evolve(data.args)[0], 3);
    const Array signal = expand_dims(2.0 * (out - item(data.targets, 3)), {-1});
    expect_gradients(solved.solve(Arrays{signal}), expected, 1e-12);
  }
}

// Resetting -------------------------------------------------------------------------------------------------
TEST_F(LearnerApi, Resets) {
  const ParamValues first = online(learner, data);
  const Arrays states = states_of(learner);
  learner.reset_state();
  for (const Array& t : traces_of(learner)) EXPECT_EQ(norm(t), 0.0);
  EXPECT_EQ(learner.running_index(), 0);
  EXPECT_EQ(learner.age(), 0);
  expect_same(states_of(learner), states, 0.0);
  learner.reset_model_state();
  expect_same(states_of(learner), initial_states(model), 0.0);
  EXPECT_EQ(largest_deviation(online(learner, data), first), 0.0);
}

TEST_F(LearnerApi, CountsStepsAndCalls) {
  Learner windows = make_learner(model, InWindows(D_RTRL()));
  learner(item(data.args[0], 0));
  learner(MultiStepData{data.args[0]});
  EXPECT_EQ(learner.age(), 6);
  EXPECT_EQ(learner.running_index(), 6);
  windows(item(data.args[0], 0));
  windows(MultiStepData{data.args[0]});
  EXPECT_EQ(windows.age(), 6);
  EXPECT_EQ(windows.running_index(), 2);
}

// Values ----------------------------------------------------------------------------------------------------
TEST_F(LearnerApi, ParametersAndStates) {
  EXPECT_EQ(learner.state_names(), (std::vector<std::string>{"v", "a"}));
  learner.set_state("v", ones({4}, Dtype::F64));
  expect_same(Arrays{learner.state("v")}, Arrays{ones({4}, Dtype::F64)});
  expect_error<ValueError>("there is no state w; there are: v, a", [&] { learner.state("w"); });
  expect_error<ValueError>("v has type", [&] { learner.set_state("v", ones({3}, Dtype::F64)); });

  ParamValues p = learner.params();
  EXPECT_EQ(to_string(p.leaves[0]), "p.bias");
  p.values[0] = ones({4}, Dtype::F64);
  learner.set_params(p);
  expect_same(Arrays{learner.params().at("p.bias")}, Arrays{ones({4}, Dtype::F64)});
  ParamValues wrong = p;
  wrong.values[0] = ones({3}, Dtype::F64);
  wrong.values[1] = wrong.values[1] + 1.0;
  expect_error<ValueError>("p.bias has type", [&] { learner.set_params(wrong); });
  expect_same(learner.params().values, p.values, 0.0);
  wrong.leaves[0].path = path_of("q");
  expect_error<ValueError>("the step uses no parameter q", [&] { learner.set_params(wrong); });
}

// Compiling -------------------------------------------------------------------------------------------------
struct NoOnlineWeight : Module {
  ParamState& w = param("w", ones({3, 3}));
  HiddenState& h = hidden("h", {3});
  Array update(const Array& x) override {
    h.set(tanh(matmul_plain(x + h.value(), w.value())));
    return h.value();
  }
};
TEST(Compile, NeedsAParameterThatIsLearnedOnline) {
  NoOnlineWeight net;
  expect_error<CompilationError>("no parameter is learned online",
                                 [&] { compile(net, D_RTRL(), zeros({3})); });
}

TEST(Compile, OfAModuleSharesItsValues) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  learner(ones({2, 3}, Dtype::F64));
  EXPECT_EQ(net.v.value().tensor(), learner.state("v").tensor());
  net.w.set(zeros({3, 4}, Dtype::F64));
  EXPECT_EQ(norm(learner.params().at("w")), 0.0);
  learner.reset_model_state();
  EXPECT_EQ(norm(net.v.value()), 0.0);
}

TEST(Compile, ByNameAndWithWhatIsNotThere) {
  LeakyNet net;
  EXPECT_EQ(compile(net, "pp_prop", Arrays{zeros({3}, Dtype::F64)}, {}, {{"decay_or_rank", 3}}).rule().name(),
            "pp_prop");
  expect_error<ValueError>("there is no backend 'gpu'; expected one of auto, cuda, interpreter",
                           [&] { compile(net, D_RTRL(), zeros({3}, Dtype::F64), {.backend = "gpu"}); });
}

TEST(Compile, MovingALearner) {
  LeakyNet net;
  Learner a = compile(net, D_RTRL(), zeros({3}, Dtype::F64));
  a(ones({3}, Dtype::F64));
  Learner b = std::move(a);
  b(ones({3}, Dtype::F64));
  EXPECT_EQ(b.age(), 2);
  EXPECT_EQ(b.graph().hidden_groups.size(), 1U);
}

// Fading sums of gradients ----------------------------------------------------------------------------------
TEST(GradExpon, Fades) {
  const ParamLeafId w{path_of("w"), 0}, b{path_of("b"), 0};
  const auto grads = [&](const Array& gw, const Array& gb) { return ParamValues{{w, b}, {gw, gb}}; };
  GradExpon g(0.5);
  g.update(grads(vec({1, 2}), {}));
  g.update(grads(vec({1, 0}), vec({4})));
  g.update(grads({}, vec({1})));
  EXPECT_EQ(values(g.value().at("w")), (std::vector<double>{0.75, 0.5}));
  EXPECT_EQ(values(g.value().at("b")), (std::vector<double>{3.0}));
  g.reset();
  g.update(grads(vec({1, 2}), vec({1})));
  EXPECT_EQ(values(g.value().at("w")), (std::vector<double>{1, 2}));
  expect_error<ValueError>("other parameters than before", [&] { g.update({{w}, {vec({1, 2})}}); });
  EXPECT_DOUBLE_EQ(GradExpon::from_tau(10.0, 1.0).decay(), std::exp(-0.1));
  expect_error<ValueError>("it must lie in (0, 1)", [] { GradExpon(1.0); });
  expect_error<ValueError>("both must be positive", [] { GradExpon::from_tau(0.0, 1.0); });
}

}  // namespace
}  // namespace etrace
