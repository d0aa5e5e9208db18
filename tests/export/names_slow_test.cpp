// Exported programs of models with hostile names: the same tokens in every file, and what a compiler makes of
// them learns the same bits and runs nothing of the names.
#include <gtest/gtest.h>

#include <filesystem>

#include "etrace/etrace.h"
#include "etrace/export.h"
#include "support/exported.h"
#include "support/hostile_names.h"

namespace etrace {
namespace {

using namespace testing;

Model gru() { return read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/cell_GRUCell_b3.json"); }

TEST(ExportNames, DoNotReachTheTokens) {
  std::uint64_t seed = 1;
  for (const char* optimizer : {"sgd", "adam"})
    for (int k = 0; k < 3; ++k) {
      Dice dice(++seed);
      Renaming plain = plain_names(), hostile = hostile_names(dice);
      const Texts a = exported_texts(renamed(gru(), plain), D_RTRL(), optimizer);
      EXPECT_GE(a.size(), 6U);
      EXPECT_EQ(difference_of_texts(a, exported_texts(renamed(gru(), hostile), D_RTRL(), optimizer)), "");
    }
}

// A comment that joined lines and trigraphs would end, and what would then run before main().
constexpr const char* kRuns = " __attribute__((constructor)) static void f(void) { __builtin_trap(); } /*";

Model trapped(const std::string& end) {
  Model m = gru();
  m.name = end + kRuns;
  for (InputRecord& in : m.inputs)
    if (in.role != Role::Arg) in.path.insert(in.path.begin(), end + kRuns);
  for (OutputRecord& out : m.outputs)
    if (out.role != Role::Out) out.path.insert(out.path.begin(), end + kRuns);
  for (Eqn& e : m.program.jaxpr.eqns) e.origin.module = {end + kRuns};
  return m;
}

TEST(ExportNames, RunNothing) {
  for (const std::string end : {"*\\\n/", "*?\?/\n/", "*/", "\"; ", "\r", "*\\ \r\n/"}) {
    SCOPED_TRACE(end);
    const Model m = trapped(end);
    const D_RTRL rule;
    CompileOptions options;
    rule.configure(options);
    const ETraceGraph graph = compile_etrace_graph(m, options);
    const Learner learner(graph, rule, {.backend = "interpreter"});
    const optim::SGD sgd(0.01);
    const Aval target = aval_of(m.program.jaxpr.outs[0]);
    // By the engine for this machine, and as C99.
    expect_same(check_export(learner, loss::mse, sgd, target, {}, {.updates = 5}));
  }
}

}  // namespace
}  // namespace etrace
