// Every form in which a compiled graph is shown: records, report, text, JSON, DOT, HTML, and the page of
// kinds. ETRACE_UPDATE_GOLDEN=1 rewrites tests/report/golden/; read the difference before you commit it.
#include "etrace/explain.h"
#include "etrace/expected.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>

#include "etrace/compiler.h"
#include "etrace/etp.h"
#include "etrace/module.h"
#include "etrace/ops/numpy.h"
#include "etrace/primitive.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string contents(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

Model reference(const std::string& name) {
  return read_model_file(std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json");
}

ETraceGraph compiled(const std::string& name, const CompileOptions& options = {}) {
  return compile_etrace_graph(reference(name), options);
}

std::vector<std::string> reference_names() {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(ETRACE_REFERENCE_DIR))
    if (entry.path().extension() == ".json") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

void expect_golden(const std::string& file, const std::string& text) {
  const fs::path path = fs::path(ETRACE_TEST_DIR) / "report" / "golden" / file;
  if (std::getenv("ETRACE_UPDATE_GOLDEN") != nullptr) std::ofstream(path, std::ios::binary) << text;
  EXPECT_EQ(text, contents(path)) << file;
}

// The text without its tables by rule: which rules share a line follows from the rows, and anybody may add
// one.
std::string without_rule_tables(std::string text) {
  for (const char* head : {"What each scope keeps of what is left out", "Numbers kept per rule"}) {
    const std::size_t begin = text.find(head);
    if (begin != std::string::npos) text.erase(begin, text.find("\n\n", begin) + 2 - begin);
  }
  return text;
}

// Records ---------------------------------------------------------------------------------------------------
TEST(Diagnostics, NamesAreTheLowerCaseKinds) {
  EXPECT_EQ(name(DiagnosticKind::RELATION_INCLUDED), "relation_included");
  EXPECT_EQ(name(DiagnosticKind::TRANSITION_MIXES_POSITIONS), "transition_mixes_positions");
  EXPECT_EQ(usual_level(DiagnosticKind::WEIGHT_IN_WHILE), DiagnosticLevel::Error);
  EXPECT_LT(DiagnosticLevel::Info, DiagnosticLevel::Warning);
  EXPECT_LT(DiagnosticLevel::Warning, DiagnosticLevel::Error);
  std::vector<std::string_view> names;
  for (const DiagnosticKind k : all_diagnostic_kinds()) {
    EXPECT_FALSE(meaning(k).empty()) << name(k);
    names.push_back(name(k));
  }
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(Diagnostics, ARecordIsOneLine) {
  const CompilationRecord r{DiagnosticKind::RELATION_EXCLUDED_NON_TEMPORAL,
                            DiagnosticLevel::Warning,
                            "out/weight reaches\nno hidden state",
                            "etp_mm",
                            StatePath{std::string("out"), std::string("weight")},
                            {},
                            {},
                            "fine for a readout",
                            Origin{{"net", "out"}, "model.cpp", 7}};
  EXPECT_EQ(to_string(r),
            "warning relation_excluded_non_temporal: out/weight reaches no hidden state — fine for a readout "
            "(at net.out (model.cpp:7)) [docs/diagnostics.md#relation_excluded_non_temporal]");
}

TEST(Diagnostics, EveryKindIsOnItsPage) {
  const std::string page = contents(fs::path(ETRACE_TEST_DIR) / ".." / "docs" / "diagnostics.md");
  for (const DiagnosticKind k : all_diagnostic_kinds()) {
    const std::string kind(name(k)), level(name(usual_level(k))), words(meaning(k));
    EXPECT_THAT(page,
                HasSubstr("\n### " + kind + "\n\nLevel " + level + ": " + words + ".\n\n- *Context:* "));
    EXPECT_THAT(page, HasSubstr("| [`" + kind + "`](#" + kind + ") | " + level + " | " + words + " |"));
  }
}

TEST(Diagnostics, FiltersCombine) {
  const ETraceGraph g = compiled("cell_GRUCell");
  EXPECT_EQ(g.explain_records({}).size(), g.diagnostics.size());
  EXPECT_EQ(
      g.explain_records({.weight_path = {}, .hidden_path = {}, .kind = DiagnosticKind::RELATION_INCLUDED})
          .size(),
      2U);
  const StatePath wz{std::string("cell"), std::string("Wz"), std::string("weight")},
      h{std::string("cell"), std::string("h")};
  // Wz: included, and left out of the recurrence. h: two relations, and three ways back.
  EXPECT_EQ(g.explain_records({.weight_path = wz, .hidden_path = {}, .kind = {}}).size(), 2U);
  EXPECT_EQ(g.explain_records({.weight_path = {}, .hidden_path = h, .kind = {}}).size(), 5U);
  EXPECT_TRUE(
      g.explain_records({.weight_path = wz, .hidden_path = {}, .kind = DiagnosticKind::STATE_MISMATCH})
          .empty());
}

// Report ----------------------------------------------------------------------------------------------------
TEST(Report, CountsAndListsAGru) {
  const CompilationReport r(compiled("cell_GRUCell"));
  ASSERT_EQ(r.hidden_groups.size(), 1U);
  EXPECT_EQ(to_string(r.hidden_groups[0].second.at(0)), "cell/h");
  EXPECT_EQ(r.etrace_weights.size(), 4U);  // two relations, weight and bias each
  ASSERT_EQ(r.excluded_weights.size(), 2U);
  EXPECT_EQ(to_string(r.excluded_weights[0].path), "cell/Wr/weight");
  EXPECT_EQ(r.excluded_weights[0].reason, DiagnosticKind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT);
  EXPECT_EQ(r.excluded_weights[1].reason, DiagnosticKind::RELATION_EXCLUDED_NON_TEMPORAL);
  EXPECT_TRUE(r.dynamic_states.empty());
  EXPECT_EQ(r.warnings, 1U);
  EXPECT_EQ(r.errors, 0U);
  EXPECT_THAT(r.to_string(), AllOf(HasSubstr("The hidden groups are:"),
                                   HasSubstr("cell/Wz/weight.bias -> group 0"), Not(HasSubstr("warning"))));
  EXPECT_THAT(r.to_string(2),
              AllOf(HasSubstr("warning relation_excluded_weight_to_weight"), Not(HasSubstr("info "))));
  EXPECT_THAT(r.to_string(3), HasSubstr("info relation_included"));
}

TEST(Report, AWeightWithoutAnOperatorHasNoReason) {
  const CompilationReport r(compiled("struct_nontemporal_and_plain"));
  const auto plain = std::find_if(r.excluded_weights.begin(), r.excluded_weights.end(),
                                  [](const auto& w) { return !w.reason; });
  ASSERT_NE(plain, r.excluded_weights.end());
  EXPECT_THAT(r.to_string(), HasSubstr(to_string(plain->path) + ": no trainable operator uses it"));
}

// Numbers in the traces that the reference system allocated. A factorised x is listed there once per
// relation, kept by us once per distinct x.
std::int64_t numbers(const ExpectedRun& run, const Json& relations) {
  std::int64_t total = 0;
  const auto x_of = [&](std::size_t r) {
    const Json& x = relations.at(r)["x"];
    return x.is_object() ? x["name"] : Json();
  };
  for (const auto& [key, value] : *run.traces) {
    if (key.size() > 2 && key.compare(key.size() - 2, 2, "/x") == 0) {
      const std::size_t relation = std::stoul(key.substr(8));
      bool shared = false;
      for (std::size_t q = 0; q < relation; ++q) shared = shared || x_of(q) == x_of(relation);
      if (shared) continue;
    }
    if (const auto* one = std::get_if<Tensor>(&value)) total += one->size();
    if (const auto* named = std::get_if<Named<Tensor>>(&value))
      for (const auto& [k, t] : *named) total += t.size();
  }
  return total;
}

bool carries(const Json& graph) {
  return std::all_of(graph["hidden_groups"].begin(), graph["hidden_groups"].end(),
                     [](const Json& g) { return g["recurs"].get<bool>(); });
}

TEST(Report, MemoryIsWhatTheTracesOfTheReferenceCasesHold) {
  std::size_t compared = 0;
  for (const std::string& file : reference_names()) {
    if (file == "op_einsum_shared_b3")
      continue;  // there the reference system folds positions that we keep apart
    const Model model = reference(file);
    if (!model.expected || !model.expected->runs) continue;
    std::map<std::string, Json> graphs;
    for (const ExpectedRun& run : *model.expected->runs) {
      if (!run.traces) continue;
      CompileOptions options{.compat = Compat::Braintrace};
      if (run.algorithm == "OSTLRecurrent")
        options.include_recurrent_mixing = true;
      else if (run.algorithm != "D_RTRL" && run.algorithm != "pp_prop")
        continue;
      Json& graph = graphs[run.algorithm];
      if (graph.is_null()) graph = Json::parse(explain_json(compile_etrace_graph(model, options)));
      const Json& found = graph["summary"]["trace_memory"]["numbers"][run.algorithm];
      // Where nothing is carried, we keep the two sides of the last step.
      if (carries(graph)) {
        EXPECT_EQ(found, numbers(run, graph["relations"])) << file << " " << run.id;
        ++compared;
      } else {
        EXPECT_LE(found, numbers(run, graph["relations"])) << file << " " << run.id;
      }
    }
  }
  EXPECT_GT(compared, 180U);
}

TEST(Report, SnapWidensTheTrace) {
  CompileOptions options;
  options.include_recurrent_mixing = true;
  const CompilationReport coupled(compiled("struct_sparse_ring", options));
  options.sparse_n = 2;
  const ETraceGraph g = compiled("struct_sparse_ring", options);
  const CompilationReport snap(g);
  const auto width = static_cast<std::int64_t>(g.hidden_groups.at(0).snap->num_neighbour());
  EXPECT_GT(width, 1);
  const auto of = [](const CompilationReport& r, const std::string& rule) {
    const auto it =
        std::find_if(r.memory.begin(), r.memory.end(), [&](const TraceMemory& m) { return m.rule == rule; });
    return it == r.memory.end() ? 0 : it->relations.at(0);
  };
  ASSERT_GT(of(coupled, "OSTLRecurrent"), 0);
  EXPECT_EQ(of(snap, "SnAp"), width * of(coupled, "OSTLRecurrent"));
}

// Text ------------------------------------------------------------------------------------------------------
TEST(Explain, TextOfAGru) {
  expect_golden("cell_GRUCell.txt", without_rule_tables(compiled("cell_GRUCell").explain()));
}
TEST(Explain, TextOfAMixedPath) {
  expect_golden("struct_mixed_path.txt", without_rule_tables(compiled("struct_mixed_path").explain()));
}
TEST(Explain, TextOfAnUntracedWeight) {
  expect_golden("struct_nontemporal_and_plain.txt",
                without_rule_tables(compiled("struct_nontemporal_and_plain").explain()));
}
TEST(Explain, TablesByRule) {
  const std::string text = compiled("cell_GRUCell").explain();
  EXPECT_THAT(text, ::testing::ContainsRegex("coupled +90 .*OSTLRecurrent.* each position's own share"));
  EXPECT_THAT(text, ::testing::ContainsRegex("snap2 +450 .*SnAp.* all of it: 5 positions for each"));
  EXPECT_THAT(text, ::testing::ContainsRegex("cell/Wz/weight.weight, cell/Wz/weight.bias +45 .*13"));
  EXPECT_THAT(text, ::testing::ContainsRegex("in all +90 .*26"));
}
TEST(Explain, DotOfAMixedPath) {
  expect_golden("struct_mixed_path.dot", explain_dot(compiled("struct_mixed_path")));
}

TEST(Explain, EveryFormIsTheSameTwice) {
  for (const char* file : {"net_TwoLayerGRU_b3", "snn_alif_expcu", "struct_two_populations"}) {
    const ETraceGraph a = compiled(file), b = compiled(file);
    EXPECT_EQ(a.explain(), b.explain()) << file;
    EXPECT_EQ(explain_json(a), explain_json(b)) << file;
    EXPECT_EQ(explain_dot(a), explain_dot(b)) << file;
    EXPECT_EQ(explain_html(a), explain_html(b)) << file;
  }
}

// JSON ------------------------------------------------------------------------------------------------------
TEST(ExplainJson, HoldsTheWholeGraph) {
  const ETraceGraph g = compiled("cell_LSTMCell_b3");
  const Json j = Json::parse(explain_json(g));
  EXPECT_EQ(j["format"], "etrace.graph");
  EXPECT_EQ(j["name"], "cell_LSTMCell_b3");
  EXPECT_EQ(j["weights"].size(), g.module_info.weights.size());
  EXPECT_EQ(j["diagnostics"].size(), g.diagnostics.size());
  EXPECT_EQ(j["program"]["equations"].size(), g.module_info.jaxpr().eqns.size());
  ASSERT_EQ(j["hidden_groups"].size(), 1U);
  EXPECT_EQ(j["hidden_groups"][0]["varshape"], Json({3, 5}));
  EXPECT_EQ(j["hidden_groups"][0]["num_state"], 2);
  ASSERT_EQ(j["relations"].size(), 4U);
  const Json& r = j["relations"][0];
  EXPECT_EQ(r["primitive"], "etp_mm");
  EXPECT_EQ(r["path"], Json({"cell", "Wi", "weight"}));
  EXPECT_EQ(r["x"]["shape"], Json({3, 8}));
  EXPECT_EQ(r["y"]["dtype"], "float64");
  EXPECT_EQ(r["connected"].size(), 2U);
  EXPECT_EQ(r["connected"][0]["classification"], "all_direct");
  EXPECT_EQ(r["reads"], Json::parse(R"([{"group": 0, "at": "t-1"}])"));
  EXPECT_EQ(r["trace_memory"]["slots"]["weight"], Json({8, 5}));
  EXPECT_TRUE(j["program"]["equations"].at(r["equation"].get<std::size_t>())["etp"]);
  EXPECT_EQ(r["trace_memory"]["numbers"]["D_RTRL"], 3 * (8 + 1) * 5 * 2);
  EXPECT_EQ(r["trace_memory"]["numbers"]["pp_prop"], 3 * 8 + 3 * 5 * 2);
  EXPECT_EQ(j["relations"][1]["trace_memory"]["numbers"]["pp_prop"], 3 * 5 * 2);  // x is kept once
  EXPECT_EQ(r["trainables"][0]["names"], Json({"cell/Wi/weight.weight"}));
  EXPECT_EQ(j["summary"]["parameters"], 10);
  EXPECT_EQ(j["summary"]["learned_online"], 8);
  EXPECT_EQ(j["summary"]["batch_size"], 3);
  EXPECT_EQ(j["hidden_groups"][0]["batch_size"], 3);
  ASSERT_EQ(j["hidden_groups"][0]["dropped"].size(), 4U);
  EXPECT_EQ(j["hidden_groups"][0]["dropped"][0]["weight_path"], Json({"cell", "Wi", "weight"}));
  EXPECT_EQ(j["scopes"][1]["scope"], "coupled");
  EXPECT_EQ(j["weights"].back()["excluded"]["reason"], "relation_excluded_non_temporal");
}

TEST(ExplainJson, NamesOfVarsAreThoseOfTheProgram) {
  const Json j = Json::parse(explain_json(compiled("cell_GRUCell")));
  for (const Json& r : j["relations"]) {
    const std::string text = j["program"]["equations"].at(r["equation"].get<std::size_t>())["text"];
    EXPECT_EQ(text.find(r["y"]["name"].get<std::string>() + ":f64[5] = etp_mv["), 0U) << text;
    EXPECT_THAT(text, HasSubstr("] " + r["x"]["name"].get<std::string>() + " "));
  }
}

TEST(ExplainJson, EveryReferenceCaseHasEveryForm) {
  for (const std::string& file : reference_names()) {
    if (file == "struct_while_weight_inside") continue;  // refused by the compiler
    const ETraceGraph g = compiled(file);
    const Json j = Json::parse(explain_json(g));
    EXPECT_EQ(j["relations"].size(), g.hidden_param_op_relations.size()) << file;
    for (const Json& r : j["relations"]) EXPECT_FALSE(r["equation"].is_null()) << file;
    EXPECT_THAT(explain_dot(g), HasSubstr("digraph")) << file;
    EXPECT_THAT(explain_html(g), HasSubstr("</html>")) << file;
    EXPECT_FALSE(g.explain().empty()) << file;
  }
}

// HTML ------------------------------------------------------------------------------------------------------
TEST(ExplainHtml, TextOfTheModelIsHarmless) {
  Model m = reference("struct_nontemporal_and_plain");
  m.name = "<b>&name</b>";
  const auto rename = [](OutputRecord& r) {
    if (!r.path.empty()) r.path.insert(r.path.begin(), std::string("<script>alert(\"'\")</script>"));
  };
  for (InputRecord& r : m.inputs) rename(r);
  for (OutputRecord& r : m.outputs) rename(r);
  const ETraceGraph g = compile_etrace_graph(m);
  const std::string page = explain_html(g);
  EXPECT_THAT(page, Not(HasSubstr("<script>alert")));
  EXPECT_THAT(page, Not(HasSubstr("<b>&name")));
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(&quot;&#39;&quot;)&lt;/script&gt;"));
  EXPECT_THAT(page, HasSubstr("<title>&lt;b&gt;&amp;name&lt;/b&gt; · etrace</title>"));
  const std::string dot = explain_dot(g);
  EXPECT_THAT(dot, HasSubstr("alert(\\\"'\\\")"));
}

// Parameters are counted alike on both sides of the stroke: each leaf of a dictionary is one.
TEST(ExplainHtml, CountsTheParametersThatTheSummaryCounts) {
  for (const char* name : {"cell_GRUCell", "net_TwoLayerRNN", "struct_nontemporal_and_plain"}) {
    const ETraceGraph g = compiled(name);
    const auto counts = nlohmann::json::parse(explain_json(g))["summary"];
    EXPECT_THAT(explain_html(g), HasSubstr(std::to_string(counts["learned_online"].get<int>()) + " / " +
                                           std::to_string(counts["parameters"].get<int>())))
        << name;
  }
}

TEST(ExplainHtml, LoadsNothing) {
  const std::string page = explain_html(compiled("net_TwoLayerRNN"));
  for (const char* text : {"http:", "https:", "src=", "@import", "<link"})
    EXPECT_THAT(page, Not(HasSubstr(text))) << text;
}

// Command line ----------------------------------------------------------------------------------------------
#ifdef ETRACE_CLI
struct Result {
  int status;
  std::string output;  // both streams
};
Result run_cli(const std::string& arguments) {
  FILE* pipe = popen((std::string(ETRACE_CLI) + " explain " + arguments + " 2>&1").c_str(), "r");
  std::string output;
  std::array<char, 4096> piece{};
  for (std::size_t n = 0; (n = fread(piece.data(), 1, piece.size(), pipe)) > 0;)
    output.append(piece.data(), n);
  return {pclose(pipe), output};
}
const std::string kGru = std::string(ETRACE_REFERENCE_DIR) + "/cell_GRUCell.json";

TEST(ExplainCli, DumpsThePrograms) {
  const std::map<std::string, std::string> mark{{"module_info", "{ lambda"},
                                                {"groups", "# group 0: transition"},
                                                {"relations", "# relation 1: cell/Wh/weight through etp_mv"},
                                                {"perturbation", "# perturbed"},
                                                {"graph", "# program"}};
  for (const auto& [pass, text] : mark) {
    const Result r = run_cli(kGru + " --dump-after " + pass);
    EXPECT_EQ(r.status, 0) << r.output;
    EXPECT_THAT(r.output, AllOf(HasSubstr(text), HasSubstr("{ lambda")));
  }
  EXPECT_NE(run_cli(kGru + " --dump-after nothing").status, 0);
}

TEST(ExplainCli, DumpsLoopsThatAreTracedInside) {
  const std::string model = std::string(ETRACE_REFERENCE_DIR) + "/struct_scan_long.json";
  for (const std::string pass : {"groups", "relations", "perturbation", "graph"}) {
    const Result r = run_cli(model + " --dump-after " + pass);
    EXPECT_EQ(r.status, 0) << r.output;
    EXPECT_THAT(r.output, HasSubstr(pass == "perturbation" ? "# perturbed" : ", inside a loop of 40 steps"));
  }
}

TEST(ExplainCli, TakesAScope) {
  // Which rules run in the scopes that are shown is said, in both forms.
  EXPECT_THAT(run_cli(kGru + " --scope snap3").output,
              AllOf(HasSubstr("SnAp-3"), HasSubstr("In sparse scopes (snapN) runs: SnAp.")));
  const Json snap = Json::parse(run_cli(kGru + " --scope snap3 --json").output);
  EXPECT_THAT(snap["notes"].at(0).get<std::string>(),
              ::testing::ContainsRegex("In scope coupled runs: [^.]*OSTLRecurrent"));
  const std::string lru = std::string(ETRACE_REFERENCE_DIR) + "/cell_LRUCell.json";
  EXPECT_TRUE(Json::parse(run_cli(lru + " --json").output)["notes"].empty());
  // The highest level is everything.
  EXPECT_EQ(run_cli(kGru + " --level 3").output, run_cli(kGru).output);
  EXPECT_GT(run_cli(kGru + " --level 3").output.size(), run_cli(kGru + " --level 2").output.size());
  EXPECT_EQ(run_cli(kGru + " --scope coupled --compat braintrace --level 1").status, 0);
  EXPECT_THAT(run_cli(kGru + " --scope snap0").output, HasSubstr("expected diagonal, coupled, or snap1"));
  EXPECT_NE(run_cli(kGru + " --json --dot").status, 0);
  const Result composite = run_cli(kGru + " --composite");
  EXPECT_EQ(composite.status, 0);
  EXPECT_THAT(composite.output, AllOf(HasSubstr("all_through_other_etp"), HasSubstr("a composite relation")));
}

TEST(ExplainCli, ShowsTheRecordsOfAFailedCompilation) {
  const Result strict = run_cli(kGru + " --strict");
  EXPECT_NE(strict.status, 0);
  EXPECT_THAT(strict.output, AllOf(HasSubstr("info relation_included"), HasSubstr("strict mode")));
  const Result refused = run_cli(std::string(ETRACE_REFERENCE_DIR) + "/struct_while_weight_inside.json");
  EXPECT_NE(refused.status, 0);
  EXPECT_THAT(refused.output, HasSubstr("error weight_in_while"));
}
#endif

// One parameter, learned online or not.
struct OneWeight : Module {
  explicit OneWeight(bool online_) : online(online_) {}
  bool online;
  ParamState& w = param("w", ones({3}));
  HiddenState& h = hidden("h", {3});
  Array update(const Array& x) override {
    const Array kept = 0.5 * h.value();
    h.set(kept + x * (online ? element_wise(w.value()) : w.value()));
    return h.value();
  }
};

TEST(Explain, NumbersAgreeWithTheirVerb) {
  for (const bool online : {false, true}) {
    OneWeight net(online);
    EXPECT_THAT(
        compile_etrace_graph(net, zeros({3})).explain(),
        HasSubstr(online ? "1 of 1 parameter is learned online" : "0 of 1 parameter is learned online"));
  }
}

}  // namespace
}  // namespace etrace
