// The gradient of single steps: the own step counts every way once, for every parameter, whatever the model's
// structure; what a result reads of old states goes to the states that it read; and nothing of that depends
// on the window in which steps are executed.
#include "learn/scenario.h"

#include "etrace/etrace.h"
#include "etrace/expected.h"
#include "etrace/verify.h"
#include "support/gradient_judge.h"
#include "support/step_model.h"

namespace etrace {
namespace {

using namespace testing;

Array normals(std::uint64_t key, const Shape& shape, double scale = 1.0) {
  return scale * random::normal(random::key(key), shape, Dtype::F64);
}

template <class Net, class... Args>
ParamValues gradient_of(const LearningRule& rule, std::int64_t inputs, const Array& xs, const Array& ys,
                        const LearnerOptions& how, Args... args) {
  Net net(args...);
  Learner learner = compile(net, rule, zeros({inputs}, Dtype::F64), how);
  return learner.etrace_grad(xs, ys, loss::mse).grads;
}

// Results that read old states ------------------------------------------------------------------------------
// The first state's group comes last if that state has no memory.
struct ReadsBefore : Module {
  bool leak;
  HiddenState& a = hidden("a", {4}, Dtype::F64);  // the last input
  HiddenState& v = hidden("v", {4}, Dtype::F64);  // a leaky layer
  ParamState& w = param("w", normals(1, {4, 4}, 0.3));
  explicit ReadsBefore(bool l) : leak(l) {}
  Array update(const Array& x) override {
    const Array before = a.value(), old = v.value();
    a.set(leak ? 1e-300 * before + x : x);  // the same numbers in both cases
    v.set(0.9 * old + matmul(x, w.value()));
    return old;  // predict, then update
  }
};

TEST(OwnStep, SignalsToOldStatesFindTheirState) {
  const Array xs = normals(2, {6, 4}), ys = normals(3, {6, 4});
  for (const bool leak : {false, true})
    for (const VjpMethod method : {VjpMethod::SingleStep, VjpMethod::MultiStep}) {
      const ParamValues g = gradient_of<ReadsBefore>(D_RTRL(), 4, xs, ys, {.vjp_method = method}, leak);
      EXPECT_NEAR(norm(g.at("w")), 2.381275219891, 1e-11) << leak << " " << name(method);
    }
}

// A vanilla layer in front of a leaky one, of another size.
TEST(OwnStep, AVanillaLayerInFrontOfALeakyOne) {
  const Model m =
      step_model({arg("x", {3}), hidden("h", {5}), hidden("v", {4}), param("u", {8, 5}), param("w", {5, 4})},
                 [](In& in) {
                   const Array old = in["v"];
                   in.set("h", tanh(matmul(concatenate(Arrays{in["x"], in["h"]}), in["u"])));
                   in.set("v", 0.8 * old + matmul(in["h"], in["w"]));
                   return old;
                 });
  const Sequence data = draw_sequence(m, 6);
  const ParamValues expected = bptt(m, data).grads;
  for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
    SCOPED_TRACE(row->name);
    ParamValues found[2];
    for (const std::int64_t window : {1, 4}) {
      Learner learner = make_learner(m, *telling_rule(*row), CompileOptions{}, window);
      found[window == 1 ? 0 : 1] = online(learner, data);
    }
    expect_gradients(found[1], found[0], 1e-11, {"w"});
    if (row->name == "D_RTRL" || row->name == "OSTLRecurrent" || row->name == "SnAp")
      expect_gradients(found[0], expected, 1e-10, {"w"});
  }
}

// An operator that feeds a state of its own size and, past it, one of another size, for which it has no
// trace: the own step of factorised traces counts that way, too.
TEST(OwnStep, AStateOfAnotherSizeBesideTheTracedOne) {
  const Array mixing = normals(5, {2, 3});
  const Model m =
      step_model({arg("x", {4}), hidden("a", {3}), hidden("v", {2}), param("w", {4, 2})}, [&](In& in) {
        const Array y = matmul(in["x"], in["w"]);
        in.set("a", matmul_plain(y, mixing));
        in.set("v", tanh(y));
        return in["a"];
      });
  const Sequence data = draw_sequence(m, 6);
  const ParamValues expected = bptt(m, data).grads;
  EXPECT_GT(norm(expected.at("w")), 1e-3);
  for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
    SCOPED_TRACE(row->name);
    const std::shared_ptr<const LearningRule> rule = telling_rule(*row);
    Learner learner = make_learner(m, *rule);
    if (rule->bind(learner.graph())->own_step() == OwnStep::Signal) continue;  // another signal than the loss
    expect_gradients(online(learner, data), expected, 1e-11);
  }
}

// One entry for all positions of a state: the state is as large as it was, whatever is kept of the spread.
TEST(OwnStep, AStateThatOneEntrySpreadsOver) {
  const Model m = step_model({arg("x", {3}), hidden("h", {4}), param("w", {3, 4})}, [](In& in) {
    const Array old = in["h"];
    in.set("h", broadcast_to(slice_axis(matmul(in["x"], in["w"]), 0, 0, 1), {4}));
    return old;
  });
  const Sequence data = draw_sequence(m, 6);
  for (const std::int64_t window : {0, 2}) {
    Learner learner = make_learner(m, InWindows(D_RTRL()));
    const ParamValues found = online(learner, data, window == 0 ? 6 : window);
    if (window == 0) expect_gradients(found, bptt(m, data).grads, 1e-11);
  }
  Learner steps = make_learner(m, D_RTRL());
  EXPECT_GT(norm(online(steps, data).at("w")), 1e-3);
}

// A tail that mixes positions, and a result that reads the old state.
struct MixedTail : Module {
  HiddenState& a = hidden("a", {4}, Dtype::F64);
  ParamState& w = param("w", normals(1, {3, 4}, 0.5));
  Array update(const Array& x) override {
    const Array y = matmul(x, w.value()), old = a.value();
    a.set(0.5 * old + y + 0.1 * sum(y));
    return old;
  }
};

TEST(OwnStep, GradientsDoNotDependOnTheExecutionWindow) {
  const Array xs = normals(3, {8, 3}), ys = normals(4, {8, 4});
  for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
    SCOPED_TRACE(row->name);
    const auto found = [&](std::int64_t window) {
      return gradient_of<MixedTail>(*telling_rule(*row), 3, xs, ys, {.execution_window = window});
    };
    const ParamValues one = found(1);
    EXPECT_GT(norm(one.at("w")), 1e-3);
    for (const std::int64_t window : {2, 3, 8}) expect_gradients(found(window), one, 1e-11);
  }
}

// Padding in the middle of a window, and results of old states.
TEST(OwnStep, GradientsWithPaddingDoNotDependOnTheExecutionWindow) {
  const auto memoryless = [](In& in) {
    const Array old = in["a"], y = matmul(in["x"], in["w"]);
    in.set("a", tanh(y) + 0.1 * sum(y));
    return old + in["a"];
  };
  const auto leaky = [](In& in) {
    const Array old = in["a"], y = matmul(in["x"], in["w"]);
    in.set("a", 0.5 * old + y + 0.1 * sum(y));
    return old * in["a"];
  };
  for (const auto& step : {std::function<Array(In&)>(memoryless), std::function<Array(In&)>(leaky)}) {
    const Model m = step_model({arg("x", {3}), hidden("a", {4}), param("w", {3, 4})}, step);
    Sequence data = draw_sequence(m, 8);
    data.weights = Array(Tensor::of(std::vector<double>{1, 0, 0.5, 1, 0, 0, 2, 1}, {8}));
    for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
      SCOPED_TRACE(row->name);
      const auto found = [&](std::int64_t window) {
        Learner learner = make_learner(m, *telling_rule(*row), CompileOptions{}, window);
        return online(learner, data, 0, /*freeze=*/true);
      };
      const ParamValues one = found(1);
      for (const std::int64_t window : {2, 8}) expect_gradients(found(window), one, 1e-11);
    }
  }
}

// Weights that are shared -----------------------------------------------------------------------------------
// Behind the first operator a mean is subtracted, the second has a bias of its own.
struct SharedWeight : Module {
  bool share;
  HiddenState& a = hidden("a", {4}, Dtype::F64);
  HiddenState& b = hidden("b", {4}, Dtype::F64);
  ParamState& w = param("w", normals(1, {4, 4}, 0.3));
  ParamState& w2 = param("w2", normals(1, {4, 4}, 0.3));
  ParamState& bias = param("bias", zeros({4}, Dtype::F64));
  explicit SharedWeight(bool s) : share(s) {}
  Array update(const Array& x) override {
    const Array u = matmul(x, w.value());
    const Array v = matmul(x, share ? w.value() : w2.value(), bias.value());
    a.set(0.5 * a.value() + (u - mean(u)));
    b.set(0.5 * b.value() + v);
    return a.value() + b.value() + 0.0 * sum(w2.value());
  }
};

TEST(OwnStep, OtherParametersOfASharedWeightsOperatorKeepTheirOwnStep) {
  const Array xs = normals(2, {6, 4}), ys = normals(3, {6, 4});
  for (const bool share : {false, true})
    for (const VjpMethod method : {VjpMethod::SingleStep, VjpMethod::MultiStep}) {
      const ParamValues g = gradient_of<SharedWeight>(D_RTRL(), 4, xs, ys, {.vjp_method = method}, share);
      EXPECT_NEAR(norm(g.at("bias")), 1.127593286284, 1e-11) << share << " " << name(method);
    }
}

// pp_prop's own step by reverse mode is closed over relations that share leaves: at the first step, where
// nothing is remembered, every parameter has the gradient of the step.
TEST(OwnStep, FactorRulesAreExactAtTheFirstStep) {
  const Array xs = normals(2, {1, 4}), ys = normals(3, {1, 4});
  for (const char* rule : {"pp_prop", "D_RTRL"}) {
    const ParamValues g = gradient_of<SharedWeight>(*make_rule(rule), 4, xs, ys, {}, true),
                      expected = gradient_of<SharedWeight>(D_RTRL(), 4, xs, ys,
                                                           {.vjp_method = VjpMethod::MultiStep}, true);
    expect_gradients(g, expected, 1e-12, {"bias", "w"});
  }
}

// Ways from an operator's result, or from its parameter, that the factors of a trace do not follow: reverse
// mode takes the whole own step then.
TEST(OwnStep, WaysThatFactorsDoNotFollow) {
  const std::vector<testing::StepInput> inputs{arg("x", {2}), hidden("a", {2}), hidden("b", {2}),
                                               param("w", {2, 2}), param("u", {2, 2})};
  const std::vector<std::pair<std::string, std::function<Array(In&)>>> steps{
      {"through another weight to a state of its group",
       [](In& in) {
         in.set("a", 0.5 * in["a"] + matmul(in["x"], in["w"]));
         in.set("b", tanh(matmul(in["a"], in["u"])) + 0.2 * in["a"]);
         return in["b"];
       }},
      {"through another weight to a state of another group",
       [](In& in) {
         const Array y = matmul(in["x"], in["w"]);
         in.set("a", 0.5 * in["a"] + y);
         in.set("b", 0.7 * in["b"] + tanh(matmul(y, in["u"])));
         return in["a"] + in["b"];
       }},
      {"its own operator twice",
       [](In& in) {
         in.set("a", 0.5 * in["a"] + matmul(tanh(matmul(in["x"], in["w"])), in["w"]));
         return in["a"];
       }},
      {"a use of the weight without a trace", [](In& in) {
         in.set("a", 0.5 * in["a"] + matmul(in["x"], in["w"]) + tanh(dot(in["x"], in["w"])));
         return in["a"];
       }}};
  for (const auto& [what, step] : steps) {
    SCOPED_TRACE(what);
    const Judgement j = judge(step_model(inputs, step), {.first_step = rule_choices()});
    for (const Finding& f : j.findings) ADD_FAILURE() << to_string(f);
    EXPECT_GT(j.first_steps, 40U);
  }
}

// One state follows another within the step -----------------------------------------------------------------
struct Filtered : Module {  // a vanilla network with a low-pass filter of its activity
  HiddenState& h = hidden("h", {4}, Dtype::F64);
  HiddenState& r = hidden("r", {4}, Dtype::F64);
  ParamState& w = param("w", normals(1, {3, 4}, 0.5));
  ParamState& u = param("u", normals(2, {4, 4}, 0.5));
  Array update(const Array& x) override {
    const Array a = matmul(x, w.value()), b = matmul(h.value(), u.value());
    h.set(tanh(a + b));
    r.set(0.9 * r.value() + 0.1 * h.value());
    return r.value();
  }
};
struct Memoryless : Module {  // a memoryless state beside an integrator
  HiddenState& a = hidden("a", {4}, Dtype::F64);
  HiddenState& v = hidden("v", {4}, Dtype::F64);
  ParamState& w = param("w", normals(1, {3, 4}, 0.5));
  Array update(const Array& x) override {
    const Array y = matmul(x, w.value());
    a.set(tanh(y));
    v.set(0.5 * v.value() + y + a.value());
    return v.value();
  }
};

template <class Net>
VerifyReport verified(const char* rule) {
  Net net;
  VerifyOptions o;
  o.windows = {1, 2};
  o.lags = 0;
  return verify(net, *make_rule(rule), normals(3, {8, 3}), normals(4, {8, 4}), loss::mse, o);
}

TEST(OwnStep, AWayThroughAnotherGroupCountsOnce) {
  for (const char* rule : {"D_RTRL", "OSTLRecurrent", "SnAp"}) {
    SCOPED_TRACE(rule);
    const VerifyReport r = verified<Memoryless>(rule);
    EXPECT_TRUE(r.met()) << r.to_string();
    EXPECT_EQ(r.leaves[0].measures[0].expected, Expectation::Exact);
    EXPECT_LT(r.leaves[0].measures[0].deviation, 1e-14);
    const VerifyReport filtered = verified<Filtered>(rule);
    EXPECT_TRUE(filtered.met()) << filtered.to_string();
  }
}

// Operators whose own step goes straight to the parameter ---------------------------------------------------
// Inside a loop that is traced inside, the adjoint of the whole outer step is taken out of what the inner
// steps meet; the result reads the old state, the new one, and what the loop gives beside.
TEST(OwnStep, LoopsThatAreTracedInside) {
  const Model m =
      step_model({arg("x", {5, 3}), hidden("h", {4}), param("b", {4}), param("w", {3, 4})}, [](In& in) {
        const Array old = in["h"];
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan x) -> ScanResult {
              const Array y = matmul(x[0], in["w"], in["b"]);
              return {{0.9 * sin(c[0]) + 0.3 * tanh(y)}, {c[0] * y}};
            },
            {in["h"]}, {in["x"]});
        in.set("h", r.carry[0]);
        return in["h"] * old + sum(r.ys[0], {0});
      });
  const Sequence data = draw_sequence(m, 7);
  CompileOptions o;
  o.control_flow.scan_unroll_limit = 2;
  for (const char* name : {"D_RTRL", "EProp", "ThreeFactor"}) {
    SCOPED_TRACE(name);
    const std::shared_ptr<const LearningRule> rule = telling_rule(find_rule(name));
    const auto found = [&](std::int64_t window) {
      Learner learner = make_learner(m, *rule, o, window);
      EXPECT_TRUE(learner.graph().hidden_groups[0].descent.has_value());
      return online(learner, data);
    };
    const ParamValues one = found(1);
    for (const std::int64_t window : {2, 7}) expect_gradients(found(window), one, 1e-11);
  }
  // The loop's other results depend on its states within the loop, which no signal to the new state tells.
  Learner learner = make_learner(m, D_RTRL(), o, 1);
  const Sequence first = data.part(0, 1);
  expect_gradients(online(learner, first), bptt(m, first).grads, 1e-10);
}

// One y for all samples, spread by its tail, which mixes positions as well; and a weight in two operators.
TEST(OwnStep, ResultsThatAreSpreadOverSamples) {
  const Model m = step_model(
      {arg("x", {3, 4}), hidden("h", {3, 4}), hidden("v", {3, 4}), param("e", {4}), param("w", {4, 4})},
      [](In& in) {
        const Array y = element_wise(in["e"]), z = matmul(in["x"], in["w"]);
        in.set("h", 0.5 * in["h"] + in["x"] * y);
        in.set("v", 0.7 * in["v"] + z + y * mean(y) + tanh(in["h"]));
        return in["v"] + in["h"] * y;
      });
  const Sequence data = draw_sequence(m, 6);
  const auto gradient = [&](const LearningRule& rule, std::int64_t window, const Sequence& of) {
    Learner learner = make_learner(m, rule, CompileOptions{}, window);
    return online(learner, of);
  };
  for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
    SCOPED_TRACE(row->name);
    const std::shared_ptr<const LearningRule> rule = telling_rule(*row);
    expect_gradients(gradient(*rule, 6, data), gradient(*rule, 1, data), 1e-11);
  }
  expect_gradients(gradient(D_RTRL(), 1, data), bptt(m, data).grads, 1e-10, {"w"});
  const Sequence first = data.part(0, 1);
  expect_gradients(gradient(D_RTRL(), 1, first), bptt(m, first).grads, 1e-12);
}

// Signals from elsewhere ------------------------------------------------------------------------------------
struct Modulated : Module {
  int kind;
  HiddenState& a = hidden("a", {4}, Dtype::F64);
  HiddenState& v = hidden("v", {4}, Dtype::F64);
  ParamState& w = param("w", normals(1, {3, 4}, 0.5));
  explicit Modulated(int k) : kind(k) {}
  Array update(const Array& x) override {
    const Array y = matmul(x, w.value()), old = a.value();
    a.set(kind == 0 ? 0.5 * old + y : kind == 1 ? 0.5 * old + y + 0.1 * sum(y) : tanh(y));
    v.set(kind == 2 ? 0.5 * v.value() + y + a.value() : v.value() * 0.5);
    return kind == 3 ? old : kind == 2 ? v.value() : a.value();
  }
};

TEST(OwnStep, WithoutAModulatorNothingIsLearned) {
  const Array xs = normals(3, {8, 3}), ys = normals(4, {8, 4});
  for (const int kind : {0, 1, 2, 3})
    for (const std::int64_t window : {1, 8}) {
      SCOPED_TRACE(kind);
      const auto with = [&](double modulator) {
        return norm(gradient_of<Modulated>(*make_rule("ThreeFactor", {{"modulator", modulator}}), 3, xs, ys,
                                           {.execution_window = window}, kind)
                        .at("w"));
      };
      EXPECT_EQ(with(0.0), 0.0);
      EXPECT_GT(with(1.0), 0.1);
      EXPECT_NEAR(with(2.0), 2.0 * with(1.0), 1e-12);
    }
}

// A rule that replaces the signal has its own step by that signal; one that forgets to say so is refused.
class Doubled : public ParameterTraces {
 public:
  Doubled(const ETraceGraph& g, OwnStep own) : ParameterTraces(g, {.rule = "Doubled"}), own_(own) {}
  OwnStep own_step() const override { return own_; }
  Arrays learning_signal(const WindowData&, ArraySpan, SignalTo, Arrays signal) const override {
    for (Array& s : signal) s = 2.0 * s;
    return signal;
  }

 private:
  OwnStep own_;
};
class DoubledRule : public D_RTRL {
 public:
  explicit DoubledRule(OwnStep own) : own_(own) {}
  std::string name() const override { return "Doubled"; }
  std::shared_ptr<const LearningRule> clone() const override { return std::make_shared<DoubledRule>(*this); }
  std::unique_ptr<const BoundRule> bind(const ETraceGraph& g) const override {
    return std::make_unique<Doubled>(g, own_);
  }

 private:
  OwnStep own_;
};

TEST(OwnStep, ARuleThatReplacesTheSignalMustSaySo) {
  const Model m = leaky_linear();
  const Sequence data = draw_sequence(m, 4);
  const ParamValues found = gradients_of(m, DoubledRule(OwnStep::Signal), data),
                    plain = gradients_of(m, D_RTRL(), data);
  expect_gradients(found, sum_of(plain, plain), 1e-12);
  expect_error<ValueError>("OwnStep::Signal",
                           [&] { gradients_of(m, DoubledRule(OwnStep::ReverseMode), data); });
}

// Model files -----------------------------------------------------------------------------------------------
VerifyReport verify_file(const std::string& name, const LearningRule& rule) {
  const Model m = read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json");
  const ExpectedRun& run = m.expected->runs.value().at(0);
  Arrays sequences = to_arrays(run.args.value());
  sequences.push_back(run.targets);
  const StepFunction f = [](StepCall& model, ArraySpan s) {
    return LossAndAux{loss::mse(model(s[0]), s[1])};
  };
  VerifyOptions o;
  o.lags = 0;
  return verify(m, rule, sequences, f, o);
}

TEST(OwnStep, FilesThatWereWrong) {
  struct Case {
    std::string file;
    std::vector<std::string> exact;  // in single steps, for every one of the rules below
  };
  const std::vector<Case> cases{{"own_before_step_shapes", {}},
                                {"own_snap_single_false_exact", {"w10"}},
                                {"own_memoryless_direct", {"w"}},
                                {"own_memoryless_through", {}},
                                {"own_filtered", {}},
                                {"own_false_exact_60159", {"w0"}},
                                {"own_state_order_same", {"w"}},
                                {"own_state_order_other", {"w"}}};
  for (const Case& c : cases)
    for (const char* rule : {"D_RTRL", "OSTLRecurrent", "SnAp"}) {
      SCOPED_TRACE(c.file + " " + rule);
      const VerifyReport r = verify_file(c.file, *make_rule(rule));
      EXPECT_TRUE(r.met()) << r.to_string();
      for (const VerifyReport::Leaf& leaf : r.leaves) {
        if (std::find(c.exact.begin(), c.exact.end(), to_string(leaf.id)) == c.exact.end()) continue;
        EXPECT_EQ(leaf.measures[0].expected, Expectation::Exact) << leaf.expected.single_step.reason;
        EXPECT_LT(leaf.measures[0].deviation, 1e-14);
      }
    }
  EXPECT_LT(verify_file("own_before_step_shapes", SnAp()).leaves[0].measures[0].deviation, 1e-13);
  // No trace of v is kept: approximate, in windows as well.
  const VerifyReport through = verify_file("own_memoryless_through", D_RTRL());
  EXPECT_EQ(through.leaves[0].measures[0].expected, Expectation::Approximate);
  EXPECT_GT(through.leaves[0].measures[0].deviation, 0.01);
}

}  // namespace
}  // namespace etrace
