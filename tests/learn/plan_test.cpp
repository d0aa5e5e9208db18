// Plans: the programs that a learner runs, run by hand on bound buffers, give the same bits.
#include "etrace/backend.h"
#include "etrace/nn.h"
#include "learn/scenario.h"
#include "session/program_run.h"

namespace etrace {
namespace {

using namespace testing;

// A program run by hand, in a session of its own.
class Bound {
 public:
  explicit Bound(Program p) : run_(find_backend("interpreter"), std::move(p)) {}
  void set(const std::string& name, PortRole role, const Array& value) {
    run_.set(role, name, value.tensor());
  }
  Array result(const std::string& name, PortRole role) const { return run_.result(role, name); }
  void run() { run_(); }
  const Program& program() const { return run_.program(); }

 private:
  mutable ProgramRun run_;
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
  // Of windows: their own, of two steps, or the whole sequence at once.
  std::int64_t window() const { return multi ? 2 : 6; }
  WindowForm form(std::optional<std::int64_t> steps, bool freeze = false) const {
    WindowForm f{.steps = steps, .weighted = true, .freeze = freeze, .reduction = Reduction::Sum};
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
};

// Everything that goes on, from one program's results to another's arguments.
void carry_on(const Bound& from, Bound& to) {
  for (const std::vector<Alias>* list : {&from.program().aliases, &from.program().exchanges})
    for (const Alias& a : *list) {
      const Port& port = from.program().results[a.result];
      for (const Port& other : to.program().arguments)
        if (other.name == port.name && other.role == port.role)
          to.set(port.name, port.role, from.result(port.name, port.role));
    }
}

TEST_P(Plans, SequencesHaveTheBitsOfTheLearner) {
  const Array mask = array({0.5, 0, 1, 0, 2, 1}, Dtype::F64);
  for (const bool freeze : {false, true}) {
    Learner learner = make_learner(model, *rule);
    const PlanBuilder b = builder(learner);
    const std::optional<std::int64_t> chunk = multi ? std::optional(window()) : std::nullopt;
    const StepFunction loss = squared_error(chunk.value_or(1));
    Bound by_hand(lean(b.window(b.objective(loss, slices, chunk), slices, form(window(), freeze))));
    start(by_hand, learner);
    std::vector<double> losses;
    for (std::int64_t t = 0; t < 6; t += window()) {
      set_data(by_hand, data.part(t, t + window()).all(), slice_axis(mask, 0, t, t + window()));
      by_hand.run();
      for (const double l : by_hand.result("losses", PortRole::Loss).tensor().to_doubles())
        losses.push_back(l);
    }
    const SequenceGradient found = learner.etrace_grad(
        data.all(), loss, {.mask = mask, .freeze = freeze, .chunk_size = chunk, .reduction = Reduction::Sum});
    EXPECT_EQ(losses, found.losses.tensor().to_doubles());
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
  const PlanBuilder b = builder(learner);
  Bound step(lean(b.gradient(b.objective(squared_error(), slices), slices, form(std::nullopt))));
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
    const Avals types{{Dtype::F64, {2, 3}}, {Dtype::F64, {2, 4}}};
    const PlanBuilder b = builder(learner);
    const StepFunction mse = [](StepCall& m, ArraySpan s) { return LossAndAux{loss::mse(m(s[0]), s[1])}; };
    const StepProgram objective = b.objective(mse, types);
    const auto mean = [&](std::optional<std::int64_t> steps) {
      WindowForm f = form(steps);
      f.reduction = Reduction::Mean;
      return f;
    };
    // Two windows of two steps with an update behind each, and one of one step. A multi-step learner has
    // windows of one step here: two of them are summed.
    Bound two(
        lean(multi ? b.window(objective, types, mean({})) : b.train(objective, types, mean(2), *optimizer)));
    Bound one(lean(b.train(objective, types, mean({}), *optimizer)));
    Bound update(lean(b.update(*optimizer, Reduction::Mean)));
    for (Bound* p : {&two, &one}) start(*p, learner);
    set_params(update, learner);
    const auto set_optimizer = [&](Bound& p, std::int64_t done) {
      const std::vector<std::string> names = optimizer->hyperparameter_names(optimizer->leaves());
      for (std::size_t i = 0; i < names.size(); ++i)
        p.set(std::string(entry.name) + "/" + names[i], PortRole::Hyperparameter,
              Array(Tensor::full({Dtype::F64, {}}, optimizer->hyperparameters(done)[i])));
    };
    for (Bound* p : {&two, &one, &update})
      for (const auto& [name, value] : optimizer->state())
        for (const Port& port : p->program().arguments)
          if (port.name == "optimizer/" + name) p->set(port.name, port.role, value);
    const auto run = [&](Bound& p, std::int64_t begin, std::int64_t steps) {
      Arrays part{slice_axis(x, 0, begin, begin + steps), slice_axis(y, 0, begin, begin + steps)};
      if (steps == 1)
        for (Array& a : part) a = squeeze(a, {0});
      set_data(p, part, steps == 1 ? ones({}, Dtype::F64) : ones({steps}, Dtype::F64));
      p.run();
    };
    for (std::int64_t u = 0; u < 2; ++u) {
      if (!multi) {
        set_optimizer(two, u);
        run(two, 2 * u, 2);
        continue;
      }
      run(two, 2 * u, 1);
      run(two, 2 * u + 1, 1);
      carry_on(two, update);
      set_optimizer(update, u);
      update.set("total_weight", PortRole::Weight, full({}, 2.0, Dtype::F64));
      update.run();
      carry_on(update, two);
    }
    carry_on(two, one);
    if (multi) carry_on(update, one);
    set_optimizer(one, 2);
    run(one, 4, 1);
    learner.etrace_train(x, y, loss::mse, *optimizer, {{}, UpdateEvery::Window, 2});
    EXPECT_EQ(one.result("w", PortRole::Param).tensor(), net.w.value().tensor()) << entry.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Rules, Plans, ::testing::Range(std::size_t{0}, plan_cases().size()),
                         [](const auto& info) { return plan_cases()[info.param].name; });

TEST(Plans, ListTheirProgramsWithPorts) {
  Learner learner = make_learner(two_state(), D_RTRL());
  const LearnerPlan plan = learner.plan(squared_error(), Avals{{Dtype::F64, {3}}, {Dtype::F64, {3}}});
  std::vector<std::string> names;
  for (const Program& p : plan.programs) {
    check(p);
    names.push_back(p.name);
  }
  EXPECT_THAT(names, ::testing::ElementsAre("init", "evolve", "evolve_window", "step", "window", "solve"));
  EXPECT_EQ(plan.at("step").aliases.size(), 1U + 2U) << "the trace, counters";
  EXPECT_EQ(plan.at("step").exchanges.size(), 2U) << "states, which are looked at when they are there";
  expect_error<ValueError>("there is no program train_step; there are: init", [&] { plan.at("train_step"); });
}

// A delay reads one place of its ring in the loop: what the ring was at every step is handed on nowhere.
struct Delayed : Module {
  nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 2, 3);
  nn::Delay& delay = child<nn::Delay>("delay", 3, 6.0);
  Array update(const Array& x) override { return delay(rnn(x)); }
};

TEST(Plans, RingsStayInTheLoop) {
  for (const bool batched : {false, true}) {
    Delayed net;
    const Array x = batched ? zeros({4, 2}) : zeros({2});
    LearnerOptions options;
    if (batched) options.batch_size = 4;
    const Learner learner = compile(net, D_RTRL(), x, options);
    const Aval target{Dtype::F32, batched ? Shape{4, 3} : Shape{3}};
    const LearnerPlan plan = learner.plan(squared_error(), Avals{x.aval(), target});
    const Program& window = plan.at("evolve_window");
    std::int64_t steps = 0, ring = 0, largest = 0;
    for (const Port& p : window.arguments) {
      if (p.role == PortRole::Arg) steps = p.aval.shape[0];
      if (p.name.find("ring") != std::string::npos) ring = p.aval.shape.size();
    }
    for (const Eqn& eqn : window.jaxpr.jaxpr.eqns)
      for (const Var& v : eqn.out) largest = std::max(largest, v.aval.shape.size());
    EXPECT_GT(steps, 8);
    EXPECT_LT(largest, steps * ring) << batched;
  }
}

// A third factor is a port, whoever set it; without one there is nothing to plan.
TEST(Plans, AModulatorIsAPort) {
  const Avals slices{{Dtype::F64, {3}}, {Dtype::F64, {3}}};
  const auto has_port = [&](const Learner& l) {
    const std::vector<Port> ports = l.plan(squared_error(), slices).at("window").arguments;
    return std::any_of(ports.begin(), ports.end(), [](const Port& p) {
      return p.role == PortRole::Signal && p.name == "modulator" && p.aval.shape.is_scalar();
    });
  };
  Learner bare = make_learner(two_state(), ThreeFactor());
  expect_error<ValueError>("no modulator was given", [&] { has_port(bare); });
  bare.set_modulator(Array(0.5));
  EXPECT_TRUE(has_port(bare));
  EXPECT_TRUE(has_port(make_learner(two_state(), ThreeFactor({.modulator = Array(0.5)}))));
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
