// etrace verify, as a user meets it: table, JSON, exit status, errors. Its page is tested in
// tests/tools/verify_page_test.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/process.h"

namespace etrace {
namespace {

using ::testing::HasSubstr;
using testing::run_etrace;

std::string reference(const std::string& name) {
  return std::string(ETRACE_REFERENCE_DIR) + "/" + name + ".json";
}

TEST(VerifyVerb, TableOfABuiltInModel) {
  const auto r = run_etrace({"verify", "gru", "--steps", "6", "--window", "1", "3"});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("gru: D_RTRL, 6 steps, float64"));
  EXPECT_THAT(r.text, HasSubstr("K=3"));
  EXPECT_THAT(r.text, HasSubstr("scope diagonal leaves out"));
  std::istringstream lines(r.text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

TEST(VerifyVerb, FileBringsItsOwnSequence) {
  const auto r = run_etrace({"verify", reference("cell_LRUCell"), "--json"});
  EXPECT_EQ(r.code, 0) << r.text;
  const auto json = nlohmann::json::parse(r.text);
  EXPECT_EQ(json["steps"], 8);
  EXPECT_EQ(json["met"], true);
  for (const auto& p : json["parameters"]) EXPECT_EQ(p["expected"]["windows"], "exact") << p;
}

TEST(VerifyVerb, TheSameSeedGivesTheSameReport) {
  const std::vector<std::string> words{"verify",  "lif", "--rule",  "pp_prop", "--decay", "0.9",
                                       "--steps", "5",   "--scale", "3",       "--json"};
  std::vector<std::string> other = words;
  other.insert(other.end(), {"--seed", "1"});
  EXPECT_EQ(run_etrace(words).text, run_etrace(words).text);
  EXPECT_NE(run_etrace(words).text, run_etrace(other).text);
}

TEST(VerifyVerb, ChecksBpttItself) {
  const auto r =
      run_etrace({"verify", "mini_gru", "--steps", "5", "--batch", "2", "--rtrl", "--finite-differences"});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("from central differences and from full RTRL"));
}

// The loss of one class is zero: everything agrees with everything, and that is no success.
TEST(VerifyVerb, ComparingNothingFails) {
  const auto r = run_etrace({"verify", "gru", "--steps", "4", "--loss", "cross_entropy"});
  EXPECT_EQ(r.code, 1) << r.text;
  EXPECT_THAT(r.text, HasSubstr("NOT MET: nothing was compared"));
  const auto classes = run_etrace({"verify", "lif_expon", "--steps", "4", "--loss", "cross_entropy"});
  EXPECT_EQ(classes.code, 0) << classes.text;
}

TEST(VerifyVerb, OneMethodAlone) {
  const auto modes = [](const std::vector<std::string>& more) {
    std::vector<std::string> words{"verify", "rnn", "--steps", "4", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto r = run_etrace(words);
    EXPECT_EQ(r.code, 0) << r.text;
    std::string out;
    const auto json = nlohmann::json::parse(r.text);
    for (const auto& m : json["parameters"][0]["measures"])
      out += m["window"].is_null() ? "s" : std::to_string(m["window"].get<int>());
    EXPECT_FALSE(json["parameters"][0]["credit"].empty());
    return out;
  };
  EXPECT_EQ(modes({}), "s124");
  EXPECT_EQ(modes({"--method", "single-step"}), "s");
  EXPECT_EQ(modes({"--method", "multi-step", "--window", "2", "3"}), "23");
  EXPECT_EQ(modes({"--rule", "dni"}), "124") << "windows only";
  EXPECT_EQ(modes({"--rule", "three_factor", "--rule-option", "modulator=1"}), "s") << "single steps only";
  const auto r = run_etrace({"verify", "rnn", "--steps", "4", "--method", "multi-step"});
  EXPECT_THAT(r.text, HasSubstr("In windows of 1 step: direction"));
}

// With compat the numbers are those of the reference system, and nothing is promised about them.
TEST(VerifyVerb, Compat) {
  const std::vector<std::string> words{"verify", reference("net_TwoLayerGRU"), "--rule", "ostl_recurrent",
                                       "--json"};
  std::vector<std::string> compat = words;
  compat.insert(compat.end(), {"--compat", "braintrace"});
  const auto own = nlohmann::json::parse(run_etrace(words).text),
             theirs = nlohmann::json::parse(run_etrace(compat).text);
  EXPECT_NE(own["parameters"][0]["measures"], theirs["parameters"][0]["measures"]);
  for (const auto& p : theirs["parameters"]) EXPECT_EQ(p["expected"]["single_step"], "no statement");
  EXPECT_THAT(theirs["reasons"][0]["text"].get<std::string>(), HasSubstr("compat reproduces"));
}

TEST(VerifyVerb, AThirdFactorIsAskedForInWordsOfTheCommandLine) {
  const auto r = run_etrace({"verify", "rnn", "--rule", "ThreeFactor"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, HasSubstr("--rule-option modulator=1"));
  EXPECT_EQ(run_etrace({"verify", "rnn", "--rule", "ThreeFactor", "--rule-option", "modulator=1", "--steps",
                        "2", "--lags", "0"})
                .code,
            0);
}

TEST(VerifyVerb, ANaNHasNoSign) {
  const auto r = run_etrace({"verify", "lru", "--scale", "1e308", "--steps", "3"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, HasSubstr("the loss over the sequence is nan, so nothing can be compared"));
  EXPECT_THAT(run_etrace({"verify", "lru", "--scale", "-1"}).text,
              HasSubstr("--scale: expected a number that is 0 or more, got '-1'"));
}

TEST(VerifyVerb, Errors) {
  const auto says = [](const std::vector<std::string>& words, int code, const char* phrase) {
    std::vector<std::string> all{"verify"};
    all.insert(all.end(), words.begin(), words.end());
    const auto r = run_etrace(all);
    EXPECT_EQ(r.code, code) << r.text;
    EXPECT_THAT(r.text, HasSubstr(phrase));
  };
  says({"nowhere"}, 2, "neither a file nor a built-in model");
  says({"gru", "--rule", "magic"}, 2, "there is no learning rule 'magic'");
  says({"gru", "--loss", "none"}, 2, "there is no loss 'none'");
  says({reference("cell_GRUCell"), "--dtype", "f32"}, 2, "a model file has its own types");
  says({reference("cell_GRUCell"), "--steps", "99"}, 2, "the file carries a sequence of 8");
  says({reference("struct_no_relations")}, 2, "no parameter is learned online");
  says({"gru", "--window", "0"}, 2, "--window");
  says({"gru", "--window", "7", "--steps", "5"}, 2, "a window of 7 steps in a sequence of 5; give 1 to 5");
  says({"gru", "--json", "--html", "x.html"}, 2, "excludes");
  says({"gru", "--method", "single-step", "--window", "3"}, 2, "--window is for --method multi-step");
  says({"gru", "--method", "single-step", "--rule", "dni"}, 2, "DNI");
  says({"gru", "--method", "windows"}, 2, "expected one of single-step, multi-step");
  says({"gru", "--compat", "jax"}, 2, "expected one of braintrace");
}

}  // namespace
}  // namespace etrace
