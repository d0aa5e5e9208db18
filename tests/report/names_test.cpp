// Pages, drawings and files of reports have the tags and tokens that they have for plain names.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "etrace/etrace.h"
#include "report/run_page.h"
#include "support/c_tokens.h"
#include "support/hostile_names.h"
#include "support/learning.h"
#include "support/page_tokens.h"

namespace etrace {
namespace {

using namespace testing;
using ::testing::ElementsAre;

TEST(PageTokens, AreThoseOfABrowser) {
  EXPECT_THAT(
      page_tokens("<!doctype html><p class='a>b' id=x>a &lt; b</p><br/><script>if (a<b) '<b>';</script>x"),
      ElementsAre("!doctype html", "p class id", "/p", "br", "script", "/script"));
  EXPECT_THAT(page_tokens("<p title=\"\" onload=\"\">x<!-- <b>"), ElementsAre("p title onload", "!"));
}

// Where two pages part; empty: they have the same tags.
std::string difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  const auto [x, y] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
  if (x == a.end() && y == b.end()) return "";
  std::string out = "tag " + std::to_string(x - a.begin()) + ":";
  for (auto i = x; i != a.end() && i < x + 4; ++i) out += " <" + *i + ">";
  out += " and";
  for (auto i = y; i != b.end() && i < y + 4; ++i) out += " <" + *i + ">";
  return out;
}

ETraceGraph graph_of(const Model& m) { return compile_etrace_graph(m); }

Model reference(const char* name) {
  return read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json");
}

TEST(ReportNames, AreTextInPagesAndDrawings) {
  for (const char* name : {"cell_GRUCell_b3", "net_TwoLayerRNN", "edge_custom_vjp_fwd_bwd"})
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
      SCOPED_TRACE(::testing::Message() << name << " " << seed);
      const Model m = reference(name);
      Dice dice(seed);
      Renaming plain = plain_names(), hostile = hostile_names(dice);
      const ETraceGraph a = graph_of(renamed(m, plain)), b = graph_of(renamed(m, hostile));
      EXPECT_EQ(difference(page_tokens(explain_html(a)), page_tokens(explain_html(b))), "");
      // The language of Graphviz has the comments, strings and directives of C.
      const auto dots = [](std::string text) { return c_tokens(text, {}); };
      const std::vector<CToken> x = dots(explain_dot(a)), y = dots(explain_dot(b));
      ASSERT_EQ(x.size(), y.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        if (x[i].kind != CToken::String) {
          ASSERT_EQ(x[i].text, y[i].text);
        }
    }
}

// Of valid letters: files of JSON hold no others.
TEST(ReportNames, ComeBackFromJson) {
  const std::string odd = "a\"b\\c\n</script><!-- \x01 é {} */";
  Model m = reference("cell_GRUCell_b3");
  m.name = odd;
  for (InputRecord& in : m.inputs)
    if (!in.path.empty()) in.path.front() = odd;
  for (OutputRecord& out : m.outputs)
    if (!out.path.empty()) out.path.front() = odd;
  std::size_t found = 0;
  const nlohmann::json flat = nlohmann::json::parse(explain_json(graph_of(m))).flatten();
  for (const nlohmann::json& value : flat)
    found += value.is_string() && value.get<std::string>().starts_with(odd) ? 1 : 0;
  EXPECT_GT(found, 0U);
  EXPECT_EQ(read_model(write_model(m)).inputs.back().path, m.inputs.back().path);
}

TEST(ReportNames, AreTextInPagesOfVerify) {
  const Model m = reference("cell_GRUCell_b3");
  VerifyReport r = verify(m, D_RTRL{}, draw_sequence(m, 3).all(),
                          [](StepCall& step, ArraySpan s) {
                            return LossAndAux{sum(square(step(std::vector<StepInput>{s[0]})[0]))};
                          },
                          {.windows = {2}, .lags = 2});
  const auto expected = page_tokens(r.to_html());
  EXPECT_GT(expected.size(), 50U);
  Dice dice(7);
  for (int k = 0; k < 20; ++k) {
    r.model = "m" + hostile_name(dice), r.rule = "r" + hostile_name(dice);
    for (VerifyReport::Leaf& leaf : r.leaves) leaf.id.path = {"n" + hostile_name(dice)};
    EXPECT_EQ(difference(expected, page_tokens(r.to_html())), "");
  }
}

TEST(ReportNames, AreTextInPagesOfRuns) {
  const auto page = [](const std::function<std::string()>& name) {
    RunPage p;
    p.title = name(), p.lead = name(), p.curves_note = name(), p.pictures_note = name();
    p.tiles = {{name(), name()}};
    p.plots = {{.title = name(), .curves = {{name(), {{0, 1}, {1, 2}}}}, .x = name()}};
    p.layers = {{name(), name(), {0.1, 0.2}}};
    p.pictures = {{name(), name(), 1, 2, {{0.0F, 1.0F}}}};
    p.weights = {{name(), {}, {.low = 0, .high = 1, .shares = {0.5, 0.5}}}};
    p.tables = {{name(), name(), {name(), name()}, {{name(), name()}}}};
    p.texts = {{name(), name(), name()}};
    return page_tokens(p.to_html());
  };
  int k = 0;
  const auto expected = page([&] { return "n" + std::to_string(k++); });
  Dice dice(11);
  for (int i = 0; i < 30; ++i)
    EXPECT_EQ(difference(expected, page([&] { return "n" + hostile_name(dice); })), "");
}

}  // namespace
}  // namespace etrace
