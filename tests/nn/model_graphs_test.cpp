// What the compiler finds in the built-in models: groups, and which weight reaches which state.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/compiler.h"
#include "etrace/etp.h"
#include "etrace/models.h"

namespace etrace {
namespace {

using ::testing::ElementsAre;

std::string joined(const std::vector<StatePath>& paths) {
  std::string text;
  for (const StatePath& p : paths) text += (text.empty() ? "" : " ") + to_string(p);
  return text;
}

struct Found {
  std::vector<std::string> groups, relations, excluded;
};
Found found_in(const char* name, std::optional<std::int64_t> batch = std::nullopt) {
  const ReadyModel ready = make_model(name, {.batch = batch});
  const ETraceGraph graph = compile_etrace_graph(*ready.module, ready.example);
  Found found;
  for (const HiddenGroup& g : graph.hidden_groups) {
    EXPECT_TRUE(g.is_diagonal_recurrence) << name << ": " << g.mixing_reason;
    found.groups.push_back(joined(g.hidden_paths));
  }
  for (const HiddenParamOpRelation& r : graph.hidden_param_op_relations) {
    EXPECT_EQ(r.primitive, batch ? &etp_mm_p : &etp_mv_p);
    found.relations.push_back(to_string(r.path()) + " -> " + joined(r.connected_hidden_paths));
  }
  for (const CompilationReport::Excluded& e : CompilationReport(graph).excluded_weights)
    found.excluded.push_back(to_string(e.path));
  return found;
}

TEST(ModelGraphs, Lstm) {
  const Found f = found_in("lstm");
  EXPECT_THAT(f.groups, ElementsAre("rnn/h rnn/c"));
  EXPECT_THAT(f.relations, ElementsAre("rnn/Wi/weight -> rnn/c rnn/h", "rnn/Wg/weight -> rnn/c rnn/h",
                                       "rnn/Wf/weight -> rnn/c rnn/h", "rnn/Wo/weight -> rnn/h"));
  EXPECT_THAT(f.excluded, ElementsAre("out/weight"));
}

TEST(ModelGraphs, MiniGru) {
  const Found f = found_in("mini_gru");
  EXPECT_THAT(f.groups, ElementsAre("rnn/h"));
  EXPECT_THAT(f.relations, ElementsAre("rnn/W_z/weight -> rnn/h", "rnn/W_x/weight -> rnn/h"));
  EXPECT_THAT(f.excluded, ElementsAre("out/weight"));
}

TEST(ModelGraphs, SpikingModels) {
  const Found delta = found_in("lif");
  EXPECT_THAT(delta.groups, ElementsAre("V", "out/r"));
  EXPECT_THAT(delta.relations, ElementsAre("syn/weight -> V", "out/W -> out/r"));
  const Found expon = found_in("lif_expon");
  EXPECT_THAT(expon.groups, ElementsAre("V g", "out/r"));
  EXPECT_THAT(expon.relations, ElementsAre("syn/weight -> g V", "out/W -> out/r"));
  EXPECT_TRUE(expon.excluded.empty());
}

TEST(ModelGraphs, ABatchChangesNothing) {
  for (const char* name : {"lstm", "mini_gru", "lif", "lif_expon"}) {
    SCOPED_TRACE(name);
    const Found one = found_in(name), three = found_in(name, 3);
    EXPECT_EQ(one.groups, three.groups);
    EXPECT_EQ(one.relations, three.relations);
    EXPECT_EQ(one.excluded, three.excluded);
  }
}

}  // namespace
}  // namespace etrace
