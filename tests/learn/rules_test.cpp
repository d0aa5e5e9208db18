// The rules on small recurrent models: where they equal reverse mode, where they equal each other, and where
// they must not.
#include "learn/scenario.h"

#include "etrace/nn.h"

namespace etrace {
namespace {

using namespace testing;

std::vector<std::shared_ptr<const LearningRule>> all_rules(VjpMethod method) {
  const auto with_method = [&](const LearningRule& rule) -> std::shared_ptr<const LearningRule> {
    return method == VjpMethod::SingleStep ? rule.clone() : std::make_shared<InWindows>(rule);
  };
  return {with_method(D_RTRL()), with_method(OSTLRecurrent()), factorised(16, method)};
}

TEST(Reference, L1_ReverseModeAgreesWithDifferences) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 6);
  const ParamValues params = initial_params(m);
  const Bptt reference = bptt(m, data);
  Random random(3);
  Tensors directions;
  for (const Array& p : params.values) directions.push_back(random.tensor(p.aval()));
  const TensorFunction loss = [&](std::span<const Tensor> w) {
    return Tensors{sum(bptt(m, data, to_arrays(w), initial_states(m)).losses).tensor()};
  };
  const double slope =
      to_double(directional_difference(loss, to_tensors(params.values), directions, 1e-3)[0].at(0));
  EXPECT_NEAR(slope, inner(to_tensors(reference.grads.values), directions).value, 1e-8);
}

// One window over everything from empty traces is reverse mode, whatever the rule.
TEST(WholeWindow, L2_L3_L46_EveryRuleIsReverseMode) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 8);
  for (const auto& rule : all_rules(VjpMethod::MultiStep)) {
    SCOPED_TRACE(rule->describe());
    expect_gradients(gradients_of(m, *rule, data, 8), bptt(m, data).grads, 1e-12);
  }
}

TEST(WholeWindow, L4_BlindToTheRule) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 8);
  const VjpMethod multi = VjpMethod::MultiStep;
  const auto whole = [&](const LearningRule& rule) { return gradients_of(m, rule, data, 8); };
  EXPECT_EQ(largest_deviation(whole(*factorised(0.99, multi)), whole(*factorised(0.01, multi))), 0.0);
  EXPECT_EQ(largest_deviation(whole(InWindows(OSTLRecurrent())), whole(InWindows(D_RTRL()))), 0.0);
}

TEST(Windows, L5_ShorterOnesSeeTheRule) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 8);
  const VjpMethod multi = VjpMethod::MultiStep;
  const auto pairs = [&](const LearningRule& rule) { return gradients_of(m, rule, data, 2); };
  EXPECT_GT(largest_deviation(pairs(*factorised(0.99, multi)), pairs(*factorised(0.01, multi))), 1e-6);
  EXPECT_GT(largest_deviation(pairs(InWindows(OSTLRecurrent())), pairs(InWindows(D_RTRL()))), 1e-6);
}

TEST(WholeWindow, L6_TwoLayers) {
  const Model m = step_model({arg("x", {3}), hidden("h", {4}), hidden("k", {2}), param("u", {4, 2}),
                              param("v", {2, 2}), param("w", {4, 4}), param("win", {3, 4})},
                             [](In& in) {
                               in.set("h", tanh(matmul(in["x"], in["win"]) + matmul(in["h"], in["w"])));
                               in.set("k", tanh(matmul(in["h"], in["u"]) + matmul(in["k"], in["v"])));
                               return in["k"];
                             });
  const Sequence data = draw_sequence(m, 6);
  for (const auto& rule : all_rules(VjpMethod::MultiStep)) {
    SCOPED_TRACE(rule->describe());
    expect_gradients(gradients_of(m, *rule, data, 6), bptt(m, data).grads, 1e-12);
    EXPECT_GT(largest_deviation(gradients_of(m, *rule, data, 2), bptt(m, data).grads), 1e-6);
  }
}

// One weight, two calls: a trace each.
Model tied_model() {
  return step_model({arg("x", {3}), hidden("h", {3}), hidden("k", {3}), param("w", {3, 3})}, [](In& in) {
    in.set("h", 0.8 * in["h"] + tanh(matmul(in["x"], in["w"])));
    in.set("k", 0.6 * in["k"] + sin(matmul(in["x"] * 0.5, in["w"])));
    return in["h"] * in["k"];
  });
}
TEST(WholeWindow, L7_TiedWeight) {
  const Model m = tied_model();
  const Sequence data = draw_sequence(m, 6);
  for (const auto& rule : all_rules(VjpMethod::MultiStep)) {
    SCOPED_TRACE(rule->describe());
    expect_gradients(gradients_of(m, *rule, data, 6), bptt(m, data).grads, 1e-12);
  }
  Learner learner = make_learner(m, D_RTRL());
  EXPECT_EQ(learner.get_etrace_of("w").size(), 2U);
  expect_gradients(online(learner, data), bptt(m, data).grads, 1e-10);
}

TEST(Diagonal, L8_LeakyLinear) {
  const Model m = leaky_linear();
  const Sequence data = draw_sequence(m, 7);
  expect_gradients(gradients_of(m, D_RTRL(), data), bptt(m, data).grads, 1e-10);
  for (const std::int64_t window : {1, 2, 3})
    expect_gradients(gradients_of(m, InWindows(D_RTRL()), data, window), bptt(m, data).grads, 1e-10);
}

TEST(Diagonal, L15_L16_TwoStates) {
  const Model m = two_state();
  const Sequence data = draw_sequence(m, 8);
  expect_gradients(gradients_of(m, D_RTRL(), data), bptt(m, data).grads, 1e-10);
  const ParamValues windows = gradients_of(m, InWindows(D_RTRL()), data, 3);
  expect_gradients(windows, bptt(m, data).grads, 1e-10);
  EXPECT_EQ(largest_deviation(gradients_of(m, InWindows(OSTLRecurrent()), data, 3), windows), 0.0);
}

// Operators of every kind: the first step is exact for any rule. L17 … L23, L26 and L27 in full are in
// exactness_test.cpp.
TEST(FirstStep, L17_L27_ExactForEveryRule) {
  for (const OperatorCase& c : operator_cases()) {
    SCOPED_TRACE(c.name);
    const Model m = operator_model(c, Structure::Chain);
    const Sequence one = draw_sequence(m, 1), two = draw_sequence(m, 2);
    const ParamValues expected = bptt(m, one).grads;
    for (const auto& rule :
         {std::shared_ptr<const LearningRule>(std::make_shared<D_RTRL>()), factorised(0.9)})
      expect_gradients(gradients_of(m, *rule, one), expected, 1e-10);
    for (const Array& g : gradients_of(m, *factorised(0.9), two).values) EXPECT_TRUE(std::isfinite(norm(g)));
  }
}

TEST(FirstStep, L25_TheSecondOfTheFactorisedRuleIsNear) {
  for (const char* name : {"mm_bias", "mv_bias", "elemwise", "conv_1d_first", "conv_1d_last", "sp_mm_csr",
                           "sp_mv_csr", "lora_mm"}) {
    SCOPED_TRACE(name);
    const Model m = operator_model(operator_case(name));
    const Sequence two = draw_sequence(m, 2);
    EXPECT_LT(largest_deviation(gradients_of(m, *factorised(0.9), two), bptt(m, two).grads), 1.0);
  }
}

TEST(Operators, L28_EinsumIsTheDenseProduct) {
  const Model a = operator_model(operator_case("einsum_dense"), Structure::Coupled),
              b = operator_model(operator_case("mm_no_bias"), Structure::Coupled);
  const Sequence data = draw_sequence(a, 6);
  expect_gradients(gradients_of(a, D_RTRL(), data), gradients_of(b, D_RTRL(), data), 1e-12);
  expect_gradients(gradients_of(a, InWindows(D_RTRL()), data, 2),
                   gradients_of(b, InWindows(D_RTRL()), data, 2), 1e-12);
}

// tanh(W) inside the operator or before it.
TEST(Operators, L30_FunctionInsideAndOutside) {
  const auto model = [](bool inside) {
    return step_model({arg("x", {2, 3}), hidden("h", {2, 4}), param("w", {3, 4})}, [inside](In& in) {
      const WeightFn f = [](const Array& w) { return tanh(w); };
      const Array y = inside ? matmul(in["x"], in["w"], {}, {.weight_fn = f}) : matmul(in["x"], f(in["w"]));
      in.set("h", 0.8 * in["h"] + tanh(y));
      return in["h"];
    });
  };
  const Sequence data = draw_sequence(model(true), 6);
  expect_gradients(gradients_of(model(true), D_RTRL(), data), gradients_of(model(false), D_RTRL(), data),
                   1e-12);
  expect_gradients(gradients_of(model(true), *factorised(0.7), data),
                   gradients_of(model(false), *factorised(0.7), data), 1e-12);
}

// Same-step chains ------------------------------------------------------------------------------------------
// g ← α g + w x;  v ← β v + g, of the new g
Model synapse_chain(double alpha, double beta) {
  return step_model({arg("x", {1}), hidden("g", {1}), hidden("v", {1}), param("w", {1, 1})}, [=](In& in) {
    in.set("g", alpha * in["g"] + matmul(in["x"], in["w"]));
    in.set("v", beta * in["v"] + in["g"]);
    return in["v"];
  });
}
TEST(Chain, L31_L33_CountsOnce) {
  const Model m = synapse_chain(0.8, 0.7);
  const Sequence data = draw_sequence(m, 5);
  expect_gradients(gradients_of(m, D_RTRL(), data), bptt(m, data).grads, 1e-10);
  for (const std::int64_t window : {1, 3})
    expect_gradients(gradients_of(m, InWindows(D_RTRL()), data, window), bptt(m, data).grads, 1e-10);
}
TEST(Chain, L32_TwiceUnderCompat) {
  const Model m = synapse_chain(0.8, 0.7);
  const Sequence one = draw_sequence(m, 1);
  const double ours = gradients_of(m, D_RTRL(), one).at("w").item<double>(),
               theirs = gradients_of(m, D_RTRL(), one, 0, Compat::Braintrace).at("w").item<double>();
  EXPECT_DOUBLE_EQ(theirs, 2.0 * ours);
}
TEST(Chain, L34_LongShortTermMemory) {
  struct Net : Module {
    nn::LSTMCell& rnn = child<nn::LSTMCell>("rnn", 3, 4, nn::CellOptions{.dtype = Dtype::F64});
    Array update(const Array& x) override { return rnn(x); }
  };
  Random random(2);
  const Array x = random.f64({6, 1, 3}), y = random.f64({6, 1, 4});
  std::vector<ParamValues> found;
  for (const Compat compat : {Compat::None, Compat::Braintrace}) {
    Net net;
    Learner learner = compile(net, D_RTRL(), zeros({1, 3}, Dtype::F64), {.batch_size = 1, .compat = compat});
    found.push_back(learner.etrace_grad(x, y, loss::mse).grads);
    for (const Array& g : found.back().values) EXPECT_TRUE(std::isfinite(norm(g)));
  }
  EXPECT_GT(largest_deviation(found[0], found[1], {"rnn/Wi/weight.weight"}), 1e-6);
}

// With weights of the size that networks start from, the approximation is a good one.
TEST(Dense, L35_SingleStepsPointTheRightWay) {
  Model m = plain_and_traced();
  set_initial(m, "h", zeros({4}));
  for (const char* weight : {"w", "win"}) set_initial(m, weight, 0.2 * initial_params(m).at(weight));
  const Sequence data = draw_sequence(m, 6);
  const Array found = gradients_of(m, D_RTRL(), data).at("w"), expected = bptt(m, data).grads.at("w");
  EXPECT_GE(cosine(found, expected), 0.99);
  const double size = norm(found) / norm(expected);
  EXPECT_GT(size, 0.8);
  EXPECT_LT(size, 1.3);
  EXPECT_GE(sum(convert(sign(found) * sign(expected) > 0.0, Dtype::F64)).item<double>(), 0.9 * 16);
  EXPECT_GT(relative_deviation(found, expected), 1e-6);
}

// Forward pass ----------------------------------------------------------------------------------------------
TEST(Forward, L42_BitForBitTheModels) {
  for (const char* name : {"mm_weight_fn", "conv_2d_last_strided", "emb", "sp_mm_csr", "lora_mm"}) {
    SCOPED_TRACE(name);
    const Model m = operator_model(operator_case(name), Structure::Chain);
    const Sequence data = draw_sequence(m, 3);
    Learner learner = make_learner(m, D_RTRL());
    Arrays inputs;
    for (const InputRecord& in : m.inputs) inputs.push_back(in.role == Role::Arg ? Array() : Array(in.init));
    for (std::int64_t t = 0; t < 3; ++t) {
      inputs[0] = item(data.args[0], t);
      const Arrays out = eval_jaxpr(m.program, inputs);
      EXPECT_EQ(learner(inputs[0]).tensor(), out[0].tensor());
      for (std::size_t i = 1; i < out.size(); ++i) inputs[i] = out[i];
    }
    EXPECT_EQ(learner.state("v").tensor(), inputs[2].tensor());
  }
}

TEST(Forward, L43_ManyStepsInOneCall) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 5);
  for (const auto& rule : all_rules(VjpMethod::SingleStep)) {
    SCOPED_TRACE(rule->describe());
    Learner one = make_learner(m, *rule), many = make_learner(m, *rule);
    Arrays outputs;
    for (std::int64_t t = 0; t < 5; ++t) outputs.push_back(one(item(data.args[0], t)));
    expect_same(Arrays{many(MultiStepData{data.args[0]})}, Arrays{stack(outputs)});
    expect_same(states_of(many), states_of(one));
    expect_same(traces_of(many), traces_of(one));
  }
}

// L38, L41: a learner of windows rolls the same traces as one of single steps.
TEST(Forward, L38_L41_TracesDoNotDependOnTheMode) {
  const Model m = operator_model(operator_case("mm_bias"), Structure::Coupled);
  const Sequence data = draw_sequence(m, 6);
  Learner steps = make_learner(m, D_RTRL()), windows = make_learner(m, InWindows(D_RTRL()));
  online(steps, data);
  online(windows, data, 2);
  expect_same(traces_of(windows), traces_of(steps));
  expect_same(states_of(windows), states_of(steps));
}

struct GruNet : Module {
  explicit GruNet(std::int64_t width) : rnn(child<nn::GRUCell>("rnn", 3, width)) {}
  Array update(const Array& x) override { return rnn(x); }
  nn::GRUCell& rnn;
};

TEST(Forward, L39_TwoWindowsOfAGatedNet) {
  Random random(4);
  const Array x = convert(random.f64({12, 2, 3}), Dtype::F32),
              y = convert(random.f64({12, 2, 5}), Dtype::F32);
  std::vector<ParamValues> found;
  for (const std::int64_t window : {6, 1}) {
    GruNet net(5);
    Learner learner = compile(net, D_RTRL(), zeros({2, 3}), {.batch_size = 2, .execution_window = window});
    found.push_back(learner.etrace_grad(x, y, loss::mse).grads);
  }
  expect_gradients(found[0], found[1], 1e-5);
}

TEST(Forward, L44_LongRunsStayFinite) {
  const Array x = convert(Random(5).f64({150, 1, 3}), Dtype::F32);
  for (const std::string rule : {"d_rtrl", "ostl_recurrent"}) {
    GruNet net(16);
    Learner learner = compile(net, rule, Arrays{zeros({1, 3})}, {.batch_size = 1});
    learner.etrace_evolve(Arrays{x});
    for (const EligibilityTrace& t : learner.etraces()) {
      const double largest = max(abs(t.value)).item<double>();
      EXPECT_GT(largest, 0.0) << t.name;
      EXPECT_LT(largest, 1e3) << t.name;
    }
  }
}

// The factorised rule ---------------------------------------------------------------------------------------
ParamValues factorised_pairs(const Model& m, const IODimOptions& options, const Sequence& data) {
  return gradients_of(m, InWindows(pp_prop(options)), data, 2);
}

TEST(Factorised, L55_L56_OneDecayOrTwo) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 8);
  const ParamValues one = factorised_pairs(m, {.decay_or_rank = 0.9}, data);
  EXPECT_EQ(
      largest_deviation(factorised_pairs(m, {.decay_or_rank = 0.9, .input_decay_or_rank = 0.9}, data), one),
      0.0);
  EXPECT_GT(
      largest_deviation(factorised_pairs(m, {.decay_or_rank = 0.0, .input_decay_or_rank = 0.9}, data), one),
      1e-6);
}

// Without memory it is D-RTRL where the Jacobian is zero, and only there.
TEST(Factorised, L57_RankOneOnARecurrentWeight) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 8);
  const ParamValues memoryless = gradients_of(m, *factorised(1, VjpMethod::MultiStep), data, 2);
  expect_gradients(memoryless, gradients_of(m, InWindows(D_RTRL()), data, 2), 1e-12);
}
TEST(Factorised, L58_RankOneOnSpikingNeurons) {
  struct Net : Module {
    nn::LIFLayer& lif =
        child<nn::LIFLayer>("lif", 3, 4, nn::LIFLayerOptions{.neuron = {.dtype = Dtype::F64}});
    Array update(const Array& x) override { return lif(x); }
  };
  Random random(2);
  const Array x = random.f64({8, 1, 3}, 0.0, 3.0), y = random.f64({8, 1, 4});
  std::vector<ParamValues> found;
  for (const bool memoryless : {false, true}) {
    Net net;
    const auto rule = memoryless ? factorised(1, VjpMethod::MultiStep)
                                 : std::shared_ptr<const LearningRule>(std::make_shared<InWindows>(D_RTRL()));
    Learner learner =
        compile(net, *rule, zeros({1, 3}, Dtype::F64), {.batch_size = 1, .vjp_method = VjpMethod::MultiStep});
    found.push_back(learner.etrace_grad(x, y, loss::mse, {.chunk_size = 2}).grads);
  }
  EXPECT_GT(largest_deviation(found[1], found[0], {"lif/syn/weight.weight"}), 1e-6);
}

TEST(Factorised, L59_OneCallOfManySteps) {
  const Model m = tanh_rnn();
  const Sequence data = draw_sequence(m, 6);
  Learner learner = make_learner(m, *factorised(0.9, VjpMethod::MultiStep));
  learner(MultiStepData{data.args[0]});
  EXPECT_EQ(learner.running_index(), 1);
  EXPECT_EQ(learner.age(), 6);
}

TEST(Factorised, DecaysAndRanks) {
  EXPECT_EQ(DecayOrRank(1).decay(), 0.0);
  EXPECT_DOUBLE_EQ(DecayOrRank(3).decay(), 0.5);
  EXPECT_DOUBLE_EQ(DecayOrRank(19).decay(), 0.9);
  for (const int rank : {1, 3, 5, 19}) EXPECT_EQ(DecayOrRank(DecayOrRank(rank).decay()).rank(), rank);
  expect_error<ValueError>("decay 1; it must lie in [0, 1)", [] { DecayOrRank(1.0); });
  expect_error<ValueError>("decay -0.5", [] { DecayOrRank(-0.5); });
  expect_error<ValueError>("rank 0; it must be at least 1", [] { DecayOrRank(0); });
}

// The scope -------------------------------------------------------------------------------------------------
Model rolled_model(double mixing) {
  return step_model({arg("x", {3}), hidden("h", {4}), param("w", {3, 4})}, [=](In& in) {
    const Array kept = mixing == 0.0 ? 0.5 * in["h"] : 0.5 * in["h"] + mixing * roll(in["h"], 1, 0);
    in.set("h", kept + tanh(matmul(in["x"], in["w"])));
    return in["h"];
  });
}
TEST(Coupled, L61_ExactWherePositionsStayApart) {
  const Model m = rolled_model(0.0);
  const Sequence data = draw_sequence(m, 6);
  expect_gradients(gradients_of(m, OSTLRecurrent(), data), bptt(m, data).grads, 1e-10);
}
TEST(Coupled, L62_NotWhereTheyMix) {
  const Model m = rolled_model(0.1);
  const Sequence data = draw_sequence(m, 6);
  EXPECT_GT(largest_deviation(gradients_of(m, OSTLRecurrent(), data), bptt(m, data).grads), 1e-6);
}

// Rules by name ---------------------------------------------------------------------------------------------
TEST(Names, RulesAreFoundInAnyCase) {
  EXPECT_EQ(make_rule(" D_RTRL ")->name(), "D_RTRL");
  EXPECT_EQ(make_rule("OstlRecurrent")->name(), "OSTLRecurrent");
  EXPECT_EQ(make_rule("es_d_rtrl", {{"decay_or_rank", 0.5}})->describe(), "pp_prop (decay 0.5)");
  EXPECT_EQ(make_rule("pp-prop", {{"decay_or_rank", 3}})->describe(), "pp_prop (decay 0.5)") << "a rank";
  EXPECT_EQ(make_rule("pp_prop")->describe(), "pp_prop (decay 0.95)") << "has a default";
  expect_error<ValueError>("(did you mean D_RTRL?)", [] { make_rule("d_rtl"); });
  expect_error<TypeError>("D_RTRL takes no option decay_or_rank; it takes: trace_dtype", [] {
    make_rule("d_rtrl", {{"decay_or_rank", 0.5}});
  });
  expect_error<TypeError>("pp_prop takes no option trace_dtype", [] {
    make_rule("pp_prop", {{"trace_dtype", "bf16"}});
  });
  expect_error<TypeError>("trace_dtype is", [] { make_rule("D_RTRL", {{"trace_dtype", 3}}); });
}

}  // namespace
}  // namespace etrace
