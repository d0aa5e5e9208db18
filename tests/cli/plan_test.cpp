// etrace plan, as a user meets it: ports, counts, passes, JSON, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/process.h"

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

TEST(PlanVerb, Mistakes) {
  EXPECT_THAT(run_etrace({"plan", "gru", "--program", "fly"}).text, HasSubstr("there is no program fly"));
  EXPECT_EQ(run_etrace({"plan", "gru", "--method", "none"}).code, 2);
  EXPECT_THAT(run_etrace({"plan", "gru", "--rule-option", "x"}).text, HasSubstr("expected NAME=VALUE"));
  EXPECT_THAT(run_etrace({"plan", "gru", "--rule-option", "x=1"}).text, HasSubstr("takes no option x"));
}

}  // namespace
}  // namespace etrace
