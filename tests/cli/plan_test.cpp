// etrace plan, as a user meets it: ports, counts, passes, JSON, errors.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/process.h"
#include "train/training.h"

namespace etrace {
namespace {

using ::testing::HasSubstr;
using testing::run_etrace;

TEST(PlanVerb, PortsOfEveryProgram) {
  const auto r = run_etrace({"plan", "gru", "--rule", "pp_prop"});
  EXPECT_EQ(r.code, 0) << r.text;
  for (const char* name :
       {"init", "evolve", "evolve_window", "step", "window", "train_step", "train_window", "update", "solve"})
    EXPECT_THAT(r.text, HasSubstr(std::string("program ") + name + "\n"));
  EXPECT_THAT(r.text, HasSubstr("optimizer_slot optimizer/rnn/Wz/weight.weight/m"));
  EXPECT_THAT(r.text, HasSubstr("hyperparameter adam/lr"));
  EXPECT_THAT(r.text, HasSubstr("in place of argument"));
}

TEST(PlanVerb, PassesAndEquations) {
  const auto r = run_etrace({"plan", "rnn", "--program", "step", "--passes", "--equations"});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("as recorded"));
  EXPECT_THAT(r.text, HasSubstr("after rewrite:"));
  EXPECT_THAT(r.text, HasSubstr("etp_mv"));
}

TEST(PlanVerb, CodeForTargets) {
  const auto native = run_etrace({"plan", "rnn", "--program", "step", "--emit", "c"});
  EXPECT_EQ(native.code, 0) << native.text;
  EXPECT_THAT(native.text, HasSubstr("etrace_module"));
  const auto alone = run_etrace({"plan", "rnn", "--program", "step", "--emit", "c99"});
  EXPECT_EQ(alone.code, 0) << alone.text;
  EXPECT_THAT(alone.text, HasSubstr("void etrace_step(const void* const* a, void* const* results) {"));
  EXPECT_NE(run_etrace({"plan", "rnn", "--program", "step", "--emit", "cobol"}).code, 0);
}

TEST(PlanVerb, WhyNot) {
  const auto r = run_etrace({"plan", "gru", "--program", "step", "--why"});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, ::testing::MatchesRegex("step: [0-9]+ refusals\n(.|\n)*"));
  EXPECT_THAT(r.text, HasSubstr("not fused: another step has to run in between: "));
  EXPECT_THAT(r.text, HasSubstr("copied: "));
  EXPECT_NE(run_etrace({"plan", "gru", "--why", "--json"}).code, 0);
}

TEST(PlanVerb, Json) {
  const auto r = run_etrace({"plan", "lif", "--json", "--method", "multi-step", "--batch", "2"});
  EXPECT_EQ(r.code, 0) << r.text;
  const auto all = nlohmann::json::parse(r.text);
  ASSERT_FALSE(all.empty());
  for (const auto& p : all) {
    EXPECT_TRUE(p.contains("arena_bytes"));
    for (const auto& port : p["results"]) EXPECT_TRUE(port.contains("role"));
  }
  const auto explained = nlohmann::json::parse(run_etrace({"explain", "gru", "--json"}).text);
  EXPECT_EQ(explained["programs"].size(), 6U);
  EXPECT_EQ(explained["programs"][2]["results"][1]["role"], "state");
}

// What `etrace plan TASK` prints is what a training with the same options compiles.
void expect_plan_of(const std::vector<std::string>& options, const train::TrainSettings& settings) {
  std::vector<std::string> words{"plan", "copying", "--set", "lag=3", "--hidden",
                                 "5",    "--batch", "2",     "--json"};
  words.insert(words.end(), options.begin(), options.end());
  const auto r = run_etrace(words);
  ASSERT_EQ(r.code, 0) << r.text;
  std::vector<std::string> printed, compiled;
  for (const auto& p : nlohmann::json::parse(r.text)) printed.push_back(p.at("fingerprint"));
  train::TrainSettings s = settings;
  s.task = "copying";
  s.task_settings = {{"lag", 3}};
  s.hidden = 5;
  s.batch = 2;
  s.backend = "interpreter";
  train::Training training(s);
  training.learn();
  training.score(Part::Check, 1);
  for (const Program& p : training.compiled()) compiled.push_back(fmt::format("{:016x}", hash(p.jaxpr)));
  std::sort(printed.begin(), printed.end());
  std::sort(compiled.begin(), compiled.end());
  EXPECT_EQ(printed, compiled) << ::testing::PrintToString(options);
}

TEST(PlanVerb, ATaskIsPlannedAsItIsTrained) {
  expect_plan_of({}, {});
  expect_plan_of({"--update", "step", "--rule", "pp_prop", "--decay", "0.9", "--clip-norm", "0"},
                 {.rule = "pp_prop",
                  .rule_options = {"decay_or_rank=0.9"},
                  .clip_norm = {},
                  .update = UpdateEvery::Step});
  expect_plan_of({"--model", "lif", "--update", "window", "--window", "3", "--optimizer", "sgd"},
                 {.model = "lif", .window = 3, .optimizer = "sgd", .update = UpdateEvery::Window});
  expect_plan_of({"--dtype", "f64", "--method", "single-step"},
                 {.method = VjpMethod::SingleStep, .dtype = Dtype::F64});
  const auto r = run_etrace({"plan", "copying", "--hidden", "5", "--batch", "2"});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("task copying: "));
  EXPECT_THAT(r.text, HasSubstr("program update\n"));
  EXPECT_THAT(r.text, HasSubstr("program score\n"));
}

TEST(PlanVerb, OptionsOfAModelAreNotThoseOfATask) {
  EXPECT_THAT(run_etrace({"plan", "copying", "--sizes", "3,4,2"}).text,
              HasSubstr("--sizes is for a MODEL, and copying is a task"));
  EXPECT_THAT(run_etrace({"plan", "copying", "--program", "solve"}).text,
              HasSubstr("there is no program solve; there are: "));
}

TEST(PlanVerb, Mistakes) {
  EXPECT_THAT(run_etrace({"plan", "gru", "--program", "fly"}).text, HasSubstr("there is no program fly"));
  EXPECT_EQ(run_etrace({"plan", "gru", "--method", "none"}).code, 2);
  EXPECT_THAT(run_etrace({"plan", "gru", "--rule-option", "x"}).text, HasSubstr("expected NAME=VALUE"));
  EXPECT_THAT(run_etrace({"plan", "gru", "--rule-option", "x=1"}).text, HasSubstr("takes no option x"));
}

}  // namespace
}  // namespace etrace
