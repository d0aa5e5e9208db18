// Memory does not grow with time.
#include <set>

#include "learn/scenario.h"

#include <unistd.h>

#include <fstream>

#include "etrace/backend.h"
#include "etrace/models.h"
#include "native/compile.h"

#if defined(__SANITIZE_ADDRESS__)
extern "C" std::size_t __sanitizer_get_current_allocated_bytes();  // Debian's gcc has no header for it
#endif

namespace etrace {
namespace {

using namespace testing;

// What the process holds. The address sanitizer keeps freed memory for a while; it knows what is in use.
std::int64_t held_bytes() {
#if defined(__SANITIZE_ADDRESS__)
  return static_cast<std::int64_t>(__sanitizer_get_current_allocated_bytes());
#else
  std::ifstream file("/proc/self/statm");
  std::int64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * sysconf(_SC_PAGESIZE);
#endif
}

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
  ASSERT_GT(early, 0) << "memory cannot be measured here";
  EXPECT_EQ(learner.age(), kSteps);
  EXPECT_LT(held_bytes() - early, std::int64_t{4} << 20);
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
      if (row->name == "SnAp" || row->name == "ThreeFactor") continue;  // the latter: D_RTRL with a port more
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

// What lies between arguments and results of a window, on both engines: no second copy of a trace.
TEST(Memory, WindowsHoldNoCopyOfATrace) {
  for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
    if (row->name != "D_RTRL" && row->name != "EProp") continue;
    SCOPED_TRACE(row->name);
    const Planned p = planned("gru", *row, 192);
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
