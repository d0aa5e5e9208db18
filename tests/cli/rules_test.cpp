// etrace rules, as a user meets it: the list, the table, JSON, page, errors. The page in a browser is tested
// in tests/tools/rules_page_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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

TEST(RulesVerb, WithoutAModelItListsRulesAndOptions) {
  const auto r = run_etrace({"rules"});
  EXPECT_EQ(r.code, 0) << r.text;
  for (const RuleRow* row : rule_rows()) {
    EXPECT_THAT(r.text, HasSubstr("  " + row->name)) << row->name;
    for (const RuleOption& o : row->options) EXPECT_THAT(r.text, HasSubstr(o.name + ":"));
  }
  EXPECT_THAT(r.text, HasSubstr("etrace rules MODEL measures all of them on a model"));
}

// Every rule of the table is there, measured in every way it can run, or refused with a reason.
TEST(RulesVerb, EveryRuleIsMeasuredOrRefused) {
  const auto r = run_etrace({"rules", "gru", "--steps", "9", "--window", "1", "4", "40", "--lags", "5",
                             "--repeats", "1", "--json"});
  ASSERT_EQ(r.code, 0) << r.text;
  const auto json = nlohmann::json::parse(r.text);
  EXPECT_EQ(json["format"], "etrace.rules");
  EXPECT_EQ(json["steps"], 9);
  std::set<std::string> seen;
  for (const auto& row : json["rows"]) {
    const std::string rule = row["rule"];
    seen.insert(rule.substr(0, rule.find(' ')));
    EXPECT_TRUE(row["window"].is_null() || row["window"] == 1 || row["window"] == 4) << row;
    EXPECT_GT(row["trace_bytes"].get<double>(), 0.0) << row;
    EXPECT_GT(row["working_bytes"].get<double>(), 0.0) << row;
    EXPECT_GT(row["seconds_per_step"].get<double>(), 0.0) << row;
    EXPECT_TRUE(row["cosine"].is_number()) << row;
    EXPECT_LE(row["lowest_cosine"].get<double>(), row["cosine"].get<double>() + 1.0) << row;
  }
  for (const RuleRow* row : rule_rows())
    EXPECT_EQ(seen.contains(row->name), !row->compared.empty()) << row->name;
  std::vector<std::string> refused;
  for (const auto& f : json["refused"])
    refused.push_back(f["rule"].get<std::string>() + " in " + f["where"].get<std::string>());
  EXPECT_THAT(refused, ::testing::ElementsAre("DNI in single steps", "ThreeFactor in windows"));
  // The gates of a GRU act through time, its readout does not.
  EXPECT_THAT(json["judged"].dump(), AllOf(HasSubstr("rnn/Wr/weight.weight"), Not(HasSubstr("out/"))));
}

TEST(RulesVerb, TableFitsATerminalAndMarksTheBest) {
  const auto r = run_etrace(
      {"rules", "lif", "--steps", "9", "--scale", "3", "--window", "4", "--lags", "4", "--repeats", "1"});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, AllOf(HasSubstr("lif: 9 steps, float64, interpreter"), HasSubstr("\n* "),
                            HasSubstr("BPTT's own horizon: "), HasSubstr("Refused\n")));
  std::istringstream lines(r.text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 101U) << line;
}

TEST(RulesVerb, FilesMethodsAndSingleRules) {
  const auto r =
      run_etrace({"rules", reference_model("cell_LRUCell"), "--rule", "d_rtrl", "--rule", "pp_prop",
                  "--method", "multi-step", "--window", "3", "--lags", "0", "--repeats", "1", "--json"});
  ASSERT_EQ(r.code, 0) << r.text;
  const auto json = nlohmann::json::parse(r.text);
  ASSERT_EQ(json["rows"].size(), 4U) << "D_RTRL with composites and without, pp_prop with two decays";
  EXPECT_NEAR(json["rows"][0]["cosine"].get<double>(), 1.0, 1e-9) << "exact on a diagonal recurrence";
  EXPECT_LT(json["rows"][2]["cosine"].get<double>(), 0.9999);
  EXPECT_EQ(json["rows"][0]["horizon"], nullptr);
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
  says({"gru", "--method", "single-step", "--window", "3"}, "--window is for --method multi-step");
  says({"gru", "--json", "--html", "x.html"}, "excludes");
  says({reference_model("struct_no_relations")}, "no parameter is learned online");
}

}  // namespace
}  // namespace etrace
