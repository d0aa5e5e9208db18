// Memory does not grow with time.
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
  LearnerPlan plan(std::int64_t length) const {
    const Model& m = learner.graph().module_info.model;
    return learner.plan(kSquared, Avals{ready.example[0].aval(), aval_of(m.program.jaxpr.outs[0])}, length);
  }
};
Planned planned(const char* model, const RuleRow& row) {
  ReadyModel ready = make_model(model, {.sizes = {4, kUnits, 2}, .batch = kSamples});
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
      for (const Program& p : planned(model, *row).plan(16).programs)
        EXPECT_LT(largest_value(p.jaxpr), kSamples * kUnits * kSamples * kUnits / 2) << p.name;
    }
}

// What lies between arguments and results, on both engines, is the same for any length.
TEST(Memory, BetweenPortsNothingGrowsWithTheSequence) {
  for (const RuleRow* row : rows_that_run(VjpMethod::SingleStep)) {
    if (row->name == "ThreeFactor") continue;
    SCOPED_TRACE(row->name);
    const Planned p = planned("gru", *row);
    const auto arenas = [&](std::int64_t length) {
      const LearnerPlan plan = p.plan(length);
      const Program& sequence = plan.at("sequence");
      return std::pair(find_backend("interpreter").compile(sequence)->arena_bytes(),
                       native::emit_program(sequence).program.arena_bytes);
    };
    const auto few = arenas(32), many = arenas(320);
    EXPECT_GT(few.first, 0U);
    EXPECT_EQ(few.first, many.first);
    EXPECT_EQ(few.second, many.second);
  }
}

}  // namespace
}  // namespace etrace
