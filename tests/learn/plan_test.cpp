// Plans: the programs that a learner runs, run by hand on bound buffers, give the same bits.
#include "etrace/backend.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

// Buffers for every port; aliased results are the argument's.
class Bound {
 public:
  explicit Bound(Program p) : program_(std::move(p)), code_(find_backend("interpreter").compile(program_)) {
    for (const Port& port : program_.arguments) arguments_.push_back(Tensor::zeros(port.aval));
    for (const Port& port : program_.results) results_.push_back(Tensor::zeros(port.aval));
    for (const Alias& a : program_.aliases) results_[a.result] = arguments_[a.argument];
  }
  void set(const std::string& name, PortRole role, const Array& value) {
    Tensor& t = arguments_[find(program_.arguments, name, role)];
    const Tensor given = value.tensor();
    ASSERT_EQ(given.aval(), t.aval()) << name;
    std::memcpy(t.writable(), given.bytes(), t.aval().bytes());
  }
  Array result(const std::string& name, PortRole role) const {
    const Tensor& t = results_[find(program_.results, name, role)];
    return Tensor::copy_of(t.aval(), t.bytes());
  }
  void run() {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Tensor& t : arguments_) in.push_back(t.bytes());
    for (Tensor& t : results_) out.push_back(t.writable());
    code_->run(in.data(), out.data());
  }
  const Program& program() const { return program_; }

 private:
  static std::size_t find(const std::vector<Port>& ports, const std::string& name, PortRole role) {
    for (std::size_t i = 0; i < ports.size(); ++i)
      if (ports[i].name == name && ports[i].role == role) return i;
    throw std::runtime_error("no port " + name);
  }
  Program program_;
  std::shared_ptr<const Runnable> code_;
  Tensors arguments_, results_;
};

void set_params(Bound& b, const Learner& l) {
  const ParamValues p = l.params();
  for (std::size_t i = 0; i < p.leaves.size(); ++i)
    b.set(to_string(p.leaves[i]), PortRole::Param, p.values[i]);
}
void set_states(Bound& b, const Learner& l) {
  for (const std::string& name : l.state_names()) b.set(name, PortRole::State, l.state(name));
}
void set_data(Bound& b, const Arrays& slices, const Array& weights) {
  for (std::size_t i = 0; i < slices.size(); ++i)
    b.set("slice" + std::to_string(i), PortRole::Slice, slices[i]);
  b.set("weights", PortRole::Weight, weights);
}

// What the rule remembers at the start; traces, keys and parameters of its own have their ports.
void set_memory(Bound& b, const PlanBuilder& builder) {
  Bound init(lean(builder.init()));
  init.run();
  for (const Port& port : init.program().results)
    b.set(port.name, port.role, init.result(port.name, port.role));
}

// Every rule of the table, in each way that it can run.
struct PlanCase {
  std::string name;
  std::shared_ptr<const LearningRule> rule;
};
std::vector<PlanCase> plan_cases() {
  std::vector<PlanCase> out;
  for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep))
    out.push_back({row->name, telling_rule(*row)});
  for (const RuleRow* row : rows_that_run(VjpMethod::MultiStep))
    out.push_back({row->name + "_windows", std::make_shared<const InWindows>(*telling_rule(*row))});
  return out;
}

class Plans : public ::testing::TestWithParam<std::size_t> {
 protected:
  const std::shared_ptr<const LearningRule> rule = plan_cases()[GetParam()].rule;
  const Model model = two_state();
  const Sequence data = draw_sequence(model, 6);
  const Avals slices{{Dtype::F64, {3}}, {Dtype::F64, {3}}};
  const Array modulator = full({}, 0.7, Dtype::F64);
  const bool multi = method_of(*rule) == VjpMethod::MultiStep;

  PlanBuilder builder(const Learner& l) const { return {l.graph(), *rule, method_of(*rule)}; }
  SequenceForm form(std::optional<std::int64_t> length, bool freeze = false) const {
    SequenceForm f{.length = length,
                   .execution_window = 32,
                   .weighted = true,
                   .freeze = freeze,
                   .reduction = Reduction::Sum};
    if (multi && length) f.chunk = 2;
    if (rule->takes_modulator()) f.modulator = modulator.aval();
    return f;
  }
  void start(Bound& b, Learner& l) const {
    set_params(b, l);
    set_states(b, l);
    set_memory(b, builder(l));
    if (!rule->takes_modulator()) return;
    l.set_modulator(modulator);
    if (b.program().name.find("evolve") == std::string::npos) b.set("modulator", PortRole::Signal, modulator);
  }
  StepFunction loss(const SequenceForm& f) const { return squared_error(f.chunk.value_or(1)); }
  Program gradient(const Learner& l, const SequenceForm& f) const {
    const PlanBuilder b = builder(l);
    return lean(b.gradient(b.objective(loss(f), slices, f), slices, f));
  }
};

TEST_P(Plans, SequencesHaveTheBitsOfTheLearner) {
  const Array mask = array({0.5, 0, 1, 0, 2, 1}, Dtype::F64);
  for (const bool freeze : {false, true}) {
    Learner learner = make_learner(model, *rule);
    const SequenceForm f = form(6, freeze);
    Bound by_hand(gradient(learner, f));
    start(by_hand, learner);
    set_data(by_hand, data.all(), mask);
    by_hand.run();
    const SequenceGradient found = learner.etrace_grad(
        data.all(), loss(f),
        {.mask = mask, .freeze = freeze, .chunk_size = f.chunk, .reduction = Reduction::Sum});
    EXPECT_EQ(by_hand.result("losses", PortRole::Loss).tensor(), found.losses.tensor());
    for (std::size_t i = 0; i < found.grads.leaves.size(); ++i)
      EXPECT_EQ(by_hand.result(to_string(found.grads.leaves[i]), PortRole::Gradient).tensor(),
                found.grads.values[i].tensor());
    for (const std::string& name : learner.state_names())
      EXPECT_EQ(by_hand.result(name, PortRole::State).tensor(), learner.state(name).tensor()) << name;
    EXPECT_GT(norm(found.grads.values[0]), 1e-8);
  }
}

// Traces are replaced in place from step to step; the sum of the steps is the sequence.
TEST_P(Plans, StepsAndSolve) {
  Learner learner = make_learner(model, *rule);
  Bound step(gradient(learner, form(std::nullopt)));
  start(step, learner);
  for (std::int64_t t = 0; t < 6; ++t) {
    set_data(step, {item(data.args[0], t), item(data.targets, t)}, full({}, 1.0, Dtype::F64));
    step.run();
    const SequenceGradient found =
        learner.etrace_grad(data.part(t, t + 1).all(), squared_error(), {.reduction = Reduction::Sum});
    for (std::size_t i = 0; i < found.grads.leaves.size(); ++i)
      EXPECT_EQ(step.result(to_string(found.grads.leaves[i]), PortRole::Gradient).tensor(),
                found.grads.values[i].tensor())
          << "step " << t;
  }
  const PlanBuilder b = builder(learner);
  Bound solve(lean(b.solve()));
  set_params(solve, learner);
  for (const Port& port : solve.program().arguments)
    if (port.role != PortRole::Param && port.role != PortRole::Signal)
      solve.set(port.name, port.role, step.result(port.name, port.role));
  const Array signal = Random(3).f64({3, 2});
  solve.set("signal0", PortRole::Signal, signal);
  solve.run();
  const ParamValues found = learner.solve(Arrays{signal});
  EXPECT_EQ(solve.result("w", PortRole::Gradient).tensor(), found.at("w").tensor());
}

TEST_P(Plans, EvolvingMovesStatesAndTraces) {
  Learner learner = make_learner(model, *rule);
  Bound evolve(lean(builder(learner).evolve({})));
  start(evolve, learner);
  for (std::int64_t t = 0; t < 4; ++t) {
    evolve.set("arg0", PortRole::Arg, item(data.args[0], t));
    evolve.run();
    EXPECT_EQ(evolve.result("result0", PortRole::Result).tensor(), learner(item(data.args[0], t)).tensor());
  }
  EXPECT_EQ(evolve.result("calls", PortRole::Counter).item<std::int64_t>(), learner.running_index());
}

TEST_P(Plans, TrainingWithEveryOptimiser) {
  for (const optim::Entry& entry : optim::all()) {
    LeakyNet net;
    auto optimizer = optim::make(
        entry.name, {.learning_rate = optim::schedule::exponential(0.1, 0.5), .common = {.clip_norm = 1.0}});
    optimizer->bind(net);
    Learner learner =
        compile(net, *rule, zeros({2, 3}, Dtype::F64), {.batch_size = 2, .vjp_method = method_of(*rule)});
    const Array x = Random(1).f64({5, 2, 3}), y = Random(2).f64({5, 2, 4});
    SequenceForm f = form(5);
    f.reduction = Reduction::Mean;
    f.chunk.reset();
    const Avals types{{Dtype::F64, {2, 3}}, {Dtype::F64, {2, 4}}};
    const PlanBuilder b = builder(learner);
    const StepFunction mse = [](StepCall& m, ArraySpan s) { return LossAndAux{loss::mse(m(s[0]), s[1])}; };
    Bound train(lean(b.train(b.objective(mse, types, f), types, f, *optimizer, 2)));
    start(train, learner);
    for (const auto& [name, value] : optimizer->state())
      train.set("optimizer/" + name, PortRole::OptimizerSlot, value);
    const std::vector<ParamLeafId> leaves = optimizer->leaves();
    const std::vector<std::string> names = optimizer->hyperparameter_names(leaves);
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::vector<double> values;
      for (std::int64_t u = 0; u < 3; ++u) values.push_back(optimizer->hyperparameters(u)[i]);
      train.set(std::string(entry.name) + "/" + names[i], PortRole::Hyperparameter,
                Array(Tensor::of(values, {3})));
    }
    set_data(train, {x, y}, ones({5}, Dtype::F64));
    train.run();
    learner.etrace_train(x, y, loss::mse, *optimizer, {{}, UpdateEvery::Window, 2});
    EXPECT_EQ(train.result("w", PortRole::Param).tensor(), net.w.value().tensor()) << entry.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Plans, ::testing::Range(std::size_t{0}, plan_cases().size()),
                         [](const auto& info) { return plan_cases()[info.param].name; });

TEST(Plans, ListTheirProgramsWithPorts) {
  Learner learner = make_learner(two_state(), D_RTRL());
  const LearnerPlan plan = learner.plan(squared_error(), Avals{{Dtype::F64, {3}}, {Dtype::F64, {3}}}, 100);
  std::vector<std::string> names;
  for (const Program& p : plan.programs) {
    check(p);
    names.push_back(p.name);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("init", "evolve", "step", "window", "sequence", "solve"));
  EXPECT_EQ(plan.at("step").aliases.size(), 2U + 1U + 2U) << "states, the trace, counters";
  expect_error<ValueError>("there is no program train; there are: init", [&] { plan.at("train"); });
}

// A vanilla recurrence in diagonal scope needs no pass over a trace: x and f of the last step stand for it.
TEST(Plans, NoTraceWhereTheJacobianIsZero) {
  Learner learner = make_learner(tanh_rnn(), D_RTRL());
  const LearnerPlan plan = learner.plan(squared_error(), Avals{{Dtype::F64, {3}}, {Dtype::F64, {4}}});
  std::size_t numbers = 0;
  for (const Port& p : plan.at("step").arguments)
    if (p.role == PortRole::Trace) numbers += static_cast<std::size_t>(p.aval.shape.size());
  EXPECT_EQ(numbers, 4U + 4U + 3U + 4U) << "x and f of two relations";
  learner(draw_sequence(tanh_rnn(), 1).args[0].tensor().shape().rank() == 2
              ? item(draw_sequence(tanh_rnn(), 1).args[0], 0)
              : Array());
  EXPECT_EQ(learner.get_etrace_of("w")[0].value.shape(), (Shape{4, 4, 1})) << "made when somebody asks";
}

}  // namespace
}  // namespace etrace
