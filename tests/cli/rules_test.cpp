// etrace rules, as a user meets it: the list, the table, JSON, page, errors. The page in a browser is tested
// in tests/tools/rules_page_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "cli/process.h"
#include "etrace/compare_rules.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_etrace;

std::string reference_model(const std::string& name) {
  return std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json";
}

// The rules of the program: those of this one without the stranger's (tests/strangers.cpp).
std::vector<const RuleRow*> rules_of_the_library() {
  std::vector<const RuleRow*> rows = rule_rows();
  std::erase_if(rows, [](const RuleRow* r) { return r->name == "Stranger"; });
  return rows;
}

TEST(RulesVerb, WithoutAModelItListsRulesAndOptions) {
  const auto r = run_etrace({"rules"});
  EXPECT_EQ(r.code, 0) << r.text;
  for (const RuleRow* row : rules_of_the_library()) {
    EXPECT_THAT(r.text, HasSubstr("  " + row->name)) << row->name;
    for (const RuleOption& o : row->options) EXPECT_THAT(r.text, HasSubstr(o.name + ":"));
  }
  EXPECT_THAT(r.text, HasSubstr("etrace rules MODEL measures all of them on a model"));
}

// Every rule of the table is there, measured in every way it can run, or refused with a reason.
TEST(RulesVerb, EveryRuleIsMeasuredOrRefused) {
  const auto r = run_etrace({"rules", "gru", "--steps", "9", "--window", "1", "4", "40", "--lags", "5",
                             "--repeats", "1", "--seeds", "2", "--json"});
  ASSERT_EQ(r.code, 0) << r.text;
  const auto json = nlohmann::json::parse(r.text);
  EXPECT_EQ(json["format"], "etrace.rules");
  EXPECT_EQ(json["steps"], 9);
  EXPECT_EQ(json["draws"], 2);
  std::set<std::string> seen;
  for (const auto& row : json["rows"]) {
    const std::string rule = row["rule"];
    seen.insert(rule.substr(0, rule.find(' ')));
    EXPECT_TRUE(row["window"].is_null() || row["window"] == 1 || row["window"] == 4) << row;
    EXPECT_GT(row["trace_bytes"].get<double>(), 0.0) << row;
    EXPECT_GT(row["working_bytes"].get<double>(), 0.0) << row;
    EXPECT_GT(row["seconds_per_step"].get<double>(), 0.0) << row;
    EXPECT_TRUE(row["cosine"].is_number()) << row;
    EXPECT_LE(row["lowest_cosine"].get<double>(), row["cosine"].get<double>() + 1e-12) << row;
    EXPECT_EQ(row["parameters"].size(), json["judged"].size()) << row;
    EXPECT_EQ(row["draws"], 2) << row;
  }
  for (const RuleRow* row : rules_of_the_library())
    EXPECT_EQ(seen.contains(row->name), !row->compared.empty()) << row->name;
  std::vector<std::string> refused;
  for (const auto& f : json["refused"])
    refused.push_back(f["rule"].get<std::string>() + " in " + f["where"].get<std::string>());
  EXPECT_THAT(refused, ::testing::UnorderedElementsAre("DNI in single steps", "ThreeFactor in windows"));
  // The gates of a GRU act through time, its readout does not.
  EXPECT_THAT(json["judged"].dump(), AllOf(HasSubstr("rnn/Wr/weight.weight"), Not(HasSubstr("out/"))));
}

TEST(RulesVerb, TableFitsATerminalAndListsTheBest) {
  const auto r = run_etrace(
      {"rules", "lif", "--steps", "9", "--scale", "3", "--window", "4", "--lags", "4", "--repeats", "1"});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, AllOf(HasSubstr("lif: 9 steps, 3 draws, float64, interpreter"),
                            HasSubstr("Left out: out/W (feeds the leaky readout out/r alone)"),
                            HasSubstr("BPTT's own horizon: "), HasSubstr("\nBest for their memory"),
                            HasSubstr("\n   1. "), HasSubstr("Refused\n")));
  std::istringstream lines(r.text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 101U) << line;
}

TEST(RulesVerb, FilesMethodsAndSingleRules) {
  const auto r =
      run_etrace({"rules", reference_model("cell_LRUCell"), "--only", "d_rtrl", "--rule", "pp_prop",
                  "--method", "multi-step", "--window", "3", "--lags", "0", "--repeats", "1", "--json"});
  ASSERT_EQ(r.code, 0) << r.text;
  const auto json = nlohmann::json::parse(r.text);
  EXPECT_EQ(json["draws"], 1) << "the file carries its sequence";
  std::map<std::string, double> cosine;
  for (const auto& row : json["rows"]) cosine[row["rule"]] = row["cosine"];
  ASSERT_TRUE(cosine.contains("D_RTRL") && cosine.contains("pp_prop (decay 0.8)")) << r.text;
  EXPECT_NEAR(cosine["D_RTRL"], 1.0, 1e-9) << "exact on a diagonal recurrence";
  EXPECT_LT(cosine["pp_prop (decay 0.8)"], 0.9999);
  EXPECT_EQ(json["rows"][0]["horizon"], nullptr);
}

TEST(RulesVerb, OnlySkipAndSeconds) {
  const auto rules_in = [](std::vector<std::string> words) {
    std::vector<std::string> all{"rules",     "rnn", "--steps", "4", "--method", "single-step", "--lags", "0",
                                 "--repeats", "1",   "--seeds", "1", "--json"};
    all.insert(all.end(), words.begin(), words.end());
    const auto r = run_etrace(all);
    EXPECT_EQ(r.code, 0) << r.text;
    std::set<std::string> out;
    const auto json = nlohmann::json::parse(r.text);
    for (const auto& row : json["rows"]) out.insert(row["rule"].get<std::string>().substr(0, 5));
    return out;
  };
  EXPECT_THAT(rules_in({"--only", "UORO", "--only", "SnAp"}), ::testing::ElementsAre("SnAp ", "UORO "));
  EXPECT_THAT(rules_in({"--only", "UORO", "--only", "SnAp", "--skip", "uoro"}),
              ::testing::ElementsAre("SnAp "));
  EXPECT_FALSE(rules_in({"--skip", "SnAp"}).contains("SnAp "));
  EXPECT_TRUE(rules_in({"--seconds", "1e-9"}).empty());
  const auto text = run_etrace({"rules", "rnn", "--steps", "4", "--seconds", "1e-9"});
  EXPECT_THAT(text.text, AllOf(HasSubstr("Not measured"), HasSubstr("the time was up")));
}

TEST(RulesVerb, Errors) {
  const auto says = [](const std::vector<std::string>& words, const char* phrase) {
    std::vector<std::string> all{"rules"};
    all.insert(all.end(), words.begin(), words.end());
    const auto r = run_etrace(all);
    EXPECT_EQ(r.code, 2) << r.text;
    EXPECT_THAT(r.text, HasSubstr(phrase));
  };
  says({"nowhere"}, "neither a file nor a built-in model");
  says({"--json"}, "MODEL is missing");
  says({"gru", "--rule", "magic"}, "there is no learning rule 'magic'");
  says({"gru", "--rule", "config"}, "ETraceConfig is a family and not one rule");
  says({"gru", "--skip", "magic"}, "there is no learning rule 'magic'");
  says({"gru", "--only", "UORO", "--skip", "UORO"}, "--skip leaves no rule to measure");
  says({"gru", "--seconds", "0"}, "--seconds is 0; it must be positive");
  says({"gru", "--seeds", "0"}, "--seeds");
  says({"--skip", "UORO"}, "MODEL is missing");
  says({"gru", "--method", "single-step", "--window", "3"}, "--window is for --method multi-step");
  says({"gru", "--json", "--html", "x.html"}, "excludes");
  says({reference_model("struct_no_relations")}, "no parameter is learned online");
}

}  // namespace
}  // namespace etrace
