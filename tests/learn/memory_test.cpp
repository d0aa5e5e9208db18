// Memory does not grow with time.
#include <memory>
#include <set>

#include "learn/scenario.h"

#include "etrace/backend.h"
#include "etrace/models.h"
#include "native/compile.h"
#include "support/held_bytes.h"

namespace etrace {
namespace {

using namespace testing;

TEST(Memory, FlatOverAMillionSteps) {
  constexpr std::int64_t kChunk = 1000, kSteps = 1'000'000;
  const Model m = leaky_linear();
  const Sequence data = draw_sequence(m, kChunk);
  Learner learner = make_learner(m, D_RTRL());
  std::int64_t early = 0;
  for (std::int64_t done = 0; done < kSteps; done += kChunk) {
    if (done == kSteps / 10) early = held_bytes();
    if (done / kChunk % 2 == 0)
      learner.etrace_grad(data.all(), squared_error());
    else
      learner.etrace_evolve(data.args);
  }
  EXPECT_EQ(learner.age(), kSteps);
  EXPECT_LT(held_bytes() - early, kMayVary);
}

TEST(Memory, AFewBytesPerWindowWouldBeSeen) {
  const std::int64_t early = held_bytes();
  std::vector<std::unique_ptr<char[]>> kept(900);
  for (auto& k : kept) k = std::make_unique<char[]>(100);
  EXPECT_GT(held_bytes() - early, kMayVary);
}

// The words of docs/rules.md as sums over the relations, against the slots that rules have: groups of one
// state per unit and of several, samples, sparse reach.
struct Words {
  std::int64_t traces = 0, sides = 0, neighbours = 0, parameters = 0, states = 0;
};
Words counted_on(const ETraceGraph& g) {
  Words w;
  std::set<std::uint64_t> inputs;  // operators may share them
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations) {
    const std::int64_t batch = g.module_info.batch_size.value_or(1);
    std::int64_t weights = 0;
    for (const TrainableSource& t : r.trainables) weights += t.var.aval.shape.size();
    w.parameters += weights;
    if (inputs.insert(r.x_var->id).second) w.sides += r.x_var->aval.shape.size();
    for (const std::size_t k : r.hidden_groups) {
      const HiddenGroup& group = g.hidden_groups[k];
      const auto reach = static_cast<std::int64_t>(group.snap ? group.snap->num_neighbour() : 1);
      w.traces += batch * weights * group.num_state();
      w.neighbours += batch * weights * group.num_state() * reach;
      w.sides += group.varshape().size() * group.num_state();
    }
  }
  for (const HiddenGroup& group : g.hidden_groups) w.states += group.varshape().size() * group.num_state();
  return w;
}

TEST(Memory, IsWhatTheDocumentsCount) {
  for (const char* name : {"lif", "lif_expon", "alif", "gif", "mini_gru", "lstm", "gru"})
    for (const std::optional<std::int64_t> batch :
         {std::optional<std::int64_t>(), std::optional<std::int64_t>(3)}) {
      SCOPED_TRACE(std::string(name) + (batch ? " in a batch" : ""));
      const ReadyModel ready = make_model(name, {.batch = batch, .dtype = Dtype::F64});
      const Model m = trace_step(*ready.module, ready.example, name).model;
      const auto numbers = [&](const LearningRule& rule, const auto& expected) {
        CompileOptions options;
        rule.configure(options);
        const ETraceGraph g = compile_etrace_graph(m, options);
        std::int64_t total = 0;
        for (const TraceSlot& s : rule.bind(g)->slots())
          if (s.role == PortRole::Trace) total += s.aval.shape.size();
        EXPECT_EQ(total, expected(counted_on(g))) << rule.describe();
      };
      numbers(D_RTRL(), [](const Words& w) { return w.traces; });
      numbers(OSTLRecurrent(), [](const Words& w) { return w.traces; });
      numbers(EProp({.kappa_filter_decay = 0.5}), [](const Words& w) { return 2 * w.traces; });
      numbers(pp_prop(), [](const Words& w) { return w.sides; });
      numbers(SnAp(), [](const Words& w) { return w.neighbours; });
      numbers(UORO(), [](const Words& w) { return w.parameters + w.states; });
    }
  // A plain recurrent layer in scope diagonal has no trace to carry.
  const Model plain = tanh_rnn(3);
  const ETraceGraph g = compile_etrace_graph(plain);
  std::int64_t total = 0;
  for (const TraceSlot& s : D_RTRL().bind(g)->slots()) total += s.aval.shape.size();
  EXPECT_EQ(total, counted_on(g).sides);
}

// Programs --------------------------------------------------------------------------------------------------
constexpr std::int64_t kSamples = 32, kUnits = 24;

const StepFunction kSquared = [](StepCall& step, ArraySpan s) {
  return LossAndAux{loss::mse(step(s[0]), s[1])};
};

struct Planned {
  ReadyModel ready;
  Learner learner;
  LearnerPlan plan() const {
    const Model& m = learner.graph().module_info.model;
    return learner.plan(kSquared, Avals{ready.example[0].aval(), aval_of(m.program.jaxpr.outs[0])});
  }
};
Planned planned(const char* model, const RuleRow& row, std::int64_t units = kUnits) {
  ReadyModel ready = make_model(model, {.sizes = {4, units, 2}, .batch = kSamples});
  Learner learner = compile(*ready.module, *telling_rule(row), ready.example,
                            {.batch_size = kSamples, .backend = "interpreter", .execution_window = 8});
  return {std::move(ready), std::move(learner)};
}

std::int64_t largest_value(const ClosedJaxpr& program) {
  std::int64_t most = 0;
  for (const Eqn& eqn : program.jaxpr.eqns) {
    for (const Var& v : eqn.out) most = std::max(most, v.aval.shape.size());
    for (const JaxprPtr& body : nested_jaxprs(eqn)) most = std::max(most, largest_value(*body));
  }
  return most;
}

// The Jacobian of all states by all states would have (batch · units)² numbers: no program makes it. Rules
// that look at coupled positions (OSTLRecurrent) have a sample's for one step at a time; SnAp carries it by
// definition where every position is a neighbour, and is left out.
TEST(Memory, NoValueIsAsLargeAsTheWholeJacobian) {
  for (const char* model : {"gru", "lif_expon"})
    for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
      if (row->name == "SnAp") continue;
      SCOPED_TRACE(row->name + std::string(" on ") + model);
      for (const Program& p : planned(model, *row).plan().programs)
        EXPECT_LT(largest_value(p.jaxpr), kSamples * kUnits * kSamples * kUnits / 2) << p.name;
    }
}

// Sequences of any length are the same few windows, so that nothing grows with the length.
TEST(Memory, AnyLengthIsTheSameFewWindows) {
  std::set<std::int64_t> known;
  for (std::int64_t length = 1; length < 500; ++length) {
    std::int64_t steps = 0;
    const std::vector<std::int64_t> windows = window_lengths(length, 32);
    for (const std::int64_t w : windows) steps += w;
    EXPECT_EQ(steps, length);
    EXPECT_LE(windows.size(), static_cast<std::size_t>(length / 32 + 3)) << length;
    known.insert(windows.begin(), windows.end());
  }
  EXPECT_THAT(known, ::testing::ElementsAre(1, 2, 3, 4, 6, 8, 12, 16, 24, 32));
}

// Whatever the length: no program that a sequence runs in needs more between arguments and results than the
// whole window, and they share it (tests/native/workspace_test.cpp).
TEST(Memory, ShorterWindowsNeedNoMoreThanTheWholeOne) {
  for (const char* model : {"gru", "lstm", "lif_expon"}) {
    SCOPED_TRACE(model);
    const ReadyModel ready = make_model(model, {.sizes = {4, 96, 2}, .batch = kSamples});
    const Learner l = compile(*ready.module, D_RTRL(), ready.example,
                              {.batch_size = kSamples, .backend = "interpreter", .execution_window = 32});
    const Avals slices{ready.example[0].aval(), aval_of(l.graph().module_info.model.program.jaxpr.outs[0])};
    const optim::Adam adam(*ready.module, 1e-3);
    const auto arena = [&](std::int64_t length) {
      std::size_t most = 0;
      for (const Program& p : l.train_plan(slices, length, kSquared, adam).programs)
        most = std::max(most, native::emit_program(p).program.arena_bytes);
      return most;
    };
    const std::size_t whole = arena(64);
    EXPECT_GT(whole, 0U);
    for (const std::int64_t length : {33, 63, 95, 100})
      EXPECT_LE(static_cast<double>(arena(length)), 1.1 * static_cast<double>(whole)) << length;
  }
}

// What lies between arguments and results of a window, on both engines: no second copy of a trace.
TEST(Memory, WindowsHoldNoCopyOfATrace) {
  for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
    if (row->name != "D_RTRL" && row->name != "EProp") continue;
    SCOPED_TRACE(row->name);
    const Planned p = planned("gru", *row, 384);
    const LearnerPlan plan = p.plan();
    const std::size_t traces = static_cast<std::size_t>(p.learner.trace_bytes());
    for (const char* name : {"window", "step"}) {
      EXPECT_LT(find_backend("interpreter").compile(plan.at(name))->arena_bytes(), traces) << name;
      EXPECT_LT(native::emit_program(plan.at(name)).program.arena_bytes, traces) << name;
    }
  }
}

}  // namespace
}  // namespace etrace
