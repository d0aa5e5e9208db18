// One path for one thing: scores, reference gradients and updates are programs of the plan, and what a plan
// shows is what is compiled.
#include "etrace/backend.h"
#include "etrace/verify.h"
#include "learn/run/score_run.h"
#include "learn/scenario.h"
#include "session/program_run.h"

namespace etrace {
namespace {

using namespace testing;

std::vector<std::size_t> sorted_hashes(const std::vector<Program>& programs) {
  std::vector<std::size_t> out;
  for (const Program& p : programs) out.push_back(hash(p.jaxpr));
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<std::string> names_of(const LearnerPlan& plan) {
  std::vector<std::string> out;
  for (const Program& p : plan.programs) out.push_back(p.name);
  return out;
}

const StepFunction kSquaredError = [](StepCall& m, ArraySpan s) {
  return LossAndAux{loss::mse(m(s[0]), s[1]), {sum(s[0])}};
};
const StepFunction kWindowError = [](StepCall& m, ArraySpan s) {
  const Array out = m(MultiStepData{s[0]});
  return LossAndAux{mean(square(out - s[1]), {1, 2})};
};
const Avals kSlices{{Dtype::F64, {2, 3}}, {Dtype::F64, {2, 4}}};

TEST(TrainPlan, IsWhatTrainingCompiles) {
  for (const VjpMethod method : {VjpMethod::SingleStep, VjpMethod::MultiStep})
    for (const UpdateEvery update : {UpdateEvery::Step, UpdateEvery::Window, UpdateEvery::Sequence})
      for (const std::int64_t length : {1, 7, 50}) {
        const bool windows = method == VjpMethod::MultiStep && update != UpdateEvery::Step;
        LeakyNet net;
        Learner learner =
            compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .vjp_method = method});
        optim::Adam adam(net, 1e-3, {}, {.clip_norm = 1.0});
        TrainOptions o;
        o.mask = ones({length}, Dtype::F64);
        o.update = update;
        o.window = 4;
        if (windows) o.chunk_size = 4;
        const StepFunction& f = windows ? kWindowError : kSquaredError;
        const LearnerPlan plan = learner.train_plan(kSlices, length, f, adam, o);
        EXPECT_TRUE(learner.compiled().empty()) << "a plan compiles nothing";
        const Array x = Random(1).f64({length, 2, 3}), y = Random(2).f64({length, 2, 4});
        learner.etrace_train(Arrays{x, y}, f, adam, o);
        EXPECT_EQ(sorted_hashes(plan.programs), sorted_hashes(learner.compiled()))
            << ::testing::PrintToString(names_of(plan)) << length;
        std::vector<std::string> names = names_of(plan);
        std::sort(names.begin(), names.end());
        EXPECT_EQ(std::unique(names.begin(), names.end()), names.end());
      }
}

TEST(TrainPlan, Mistakes) {
  LeakyNet net, other;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  optim::SGD sgd(net, 0.1), foreign(other, 0.1);
  expect_error<ValueError>("a sequence of 0 steps",
                           [&] { learner.train_plan(kSlices, 0, kSquaredError, sgd); });
  expect_error<ValueError>("bound to another model",
                           [&] { learner.train_plan(kSlices, 3, kSquaredError, foreign); });
}

TEST(Plans, AStandingModulatorIsEnough) {
  LeakyNet net;
  Learner learner = compile(net, *make_rule("ThreeFactor", {{"modulator", 0.5}}), zeros({2, 3}, Dtype::F64),
                            {.batch_size = 2});
  const auto has_modulator = [](const Program& p) {
    return std::any_of(p.arguments.begin(), p.arguments.end(),
                       [](const Port& port) { return port.name == "modulator"; });
  };
  EXPECT_TRUE(has_modulator(learner.plan(kSquaredError, kSlices).at("step")));
  Learner later = compile(net, *make_rule("ThreeFactor", {}), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  later.set_modulator(full({}, 0.7, Dtype::F64));
  EXPECT_TRUE(has_modulator(later.plan(kSquaredError, kSlices).at("window")));
}

TEST(Plans, WindowsOfOneStepNameNothingTwice) {
  LeakyNet net;
  const Learner learner =
      compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2, .execution_window = 1});
  const optim::SGD sgd(net, 0.1);
  EXPECT_EQ(
      names_of(learner.plan(kSquaredError, kSlices, &sgd)),
      (std::vector<std::string>{"init", "evolve", "step", "window_of_one", "train_step", "update", "solve"}));
}

// Counts the programs that are compiled.
class CountingScores final : public Backend {
 public:
  std::string_view name() const override { return "test-counting-scores"; }
  std::string_view doc() const override { return "the interpreter, for a test that counts programs"; }
  std::shared_ptr<const Runnable> compile(const Program& p) const override {
    ++compiled;
    return find_backend("interpreter").compile(p);
  }
  mutable int compiled = 0;
};
const CountingScores kCountingScores;
const RegisterBackend kCountingScoresRow(kCountingScores);

TEST(Scores, AreTheLossesOfTheLearnerInAFewPrograms) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  ScoreRun scores(learner.graph().module_info.model, kSquaredError, kSlices, "test-counting-scores");
  scores.follow(net);
  kCountingScores.compiled = 0;
  const Array x = Random(1).f64({60, 2, 3}), y = Random(2).f64({60, 2, 4});
  for (std::int64_t length = 1; length <= 60; ++length) {
    const Arrays data{slice_axis(x, 0, 0, length), slice_axis(y, 0, 0, length)};
    learner.reset_state();
    learner.reset_model_state();
    const SequenceGradient learned = learner.etrace_grad(data, kSquaredError);
    const ScoreRun::Scores found = scores(data);
    ASSERT_EQ(found.losses.shape(), learned.losses.shape());
    EXPECT_LT(norm(Array(found.losses) - learned.losses), 1e-14) << length;
    EXPECT_EQ(found.aux[0], learned.aux[0].tensor());
    if (length % 20 == 0) net.w.set(net.w.value() * 0.9);  // the parameters of the moment count
  }
  EXPECT_LE(kCountingScores.compiled, 10);
  EXPECT_EQ(sorted_hashes(scores.compiled()).size(), static_cast<std::size_t>(kCountingScores.compiled));
}

TEST(Scores, Mistakes) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  ScoreRun scores(learner.graph().module_info.model, kSquaredError, kSlices, "interpreter");
  const Array x = Random(1).f64({5, 2, 3}), y = Random(2).f64({4, 2, 4});
  expect_error<ValueError>("1 sequences, but a step takes 2", [&] { scores(Arrays{x}); });
  expect_error<ValueError>("sequence 1 has type f64[4,2,4], expected f64[5,2,4]", [&] {
    scores(Arrays{x, y});
  });
  struct Other : Module {
    HiddenState& h = hidden("h", {1});
    Array update(const Array& in) override { return in; }
  } other;
  expect_error<ValueError>("the module has no parameter w", [&] { scores.follow(other); });
}

TEST(ProgramRuns, Mistakes) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  const ModelPlan plan(learner.graph().module_info.model);
  ProgramRun run(find_backend("interpreter"), lean(plan.forward(std::nullopt)));
  expect_error<ValueError>("forward has no port param v; it has: param w, state v, arg arg0", [&] {
    run.set(PortRole::Param, "v", Tensor::zeros({Dtype::F64, {}}));
  });
  expect_error<ValueError>("param w of forward has type f64[3,4], but the value has f64[]", [&] {
    run.set(PortRole::Param, "w", Tensor::zeros({Dtype::F64, {}}));
  });
  expect_error<ValueError>("forward has no port loss losses", [&] { run.result(PortRole::Loss, "losses"); });
}

// A state that is given another type than the programs were made for is an error, not another reading of its
// bytes.
TEST(Session, AStateOfAnotherTypeIsRefused) {
  LeakyNet net;
  Learner learner = compile(net, D_RTRL(), zeros({2, 3}, Dtype::F64), {.batch_size = 2});
  const Array x = zeros({2, 3}, Dtype::F64);
  learner.step(x);
  init_all_states(net, 4);
  expect_error<ValueError>("state v has become f64[4,4], but the programs were made for f64[2,4]",
                           [&] { learner.step(x); });
  init_all_states(net, 2);
  EXPECT_NO_THROW(learner.step(x));
}

// The leaves of a parameter may stand in any order among the inputs: gradients meet by name.
TEST(ReferenceGradients, LeavesInAnyOrder) {
  struct Biased : Module {
    nn::Linear& in = child<nn::Linear>("in", 3, 3, nn::LinearOptions{.dtype = Dtype::F64});
    HiddenState& h = hidden("h", {3}, Dtype::F64);
    Array update(const Array& x) override {
      h.set(tanh(0.5 * h.value() + in(x)));
      return h.value();
    }
  } net;
  init_all_states(net);
  Model m = trace_step(net, zeros({3}, Dtype::F64)).model;
  std::vector<std::size_t> leaves;
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (m.inputs[i].role == Role::Param) leaves.push_back(i);
  ASSERT_EQ(leaves.size(), 2U);
  std::swap(m.inputs[leaves[0]], m.inputs[leaves[1]]);
  std::swap(m.program.jaxpr.invars[leaves[0]], m.program.jaxpr.invars[leaves[1]]);
  const VerifyReport r = verify(m, D_RTRL(), Arrays{Random(1).f64({6, 3}), Random(2).f64({6, 3})},
                                squared_error(), {.finite_differences = true, .full_rtrl = true});
  EXPECT_TRUE(r.met()) << r.to_string();
}

}  // namespace
}  // namespace etrace
