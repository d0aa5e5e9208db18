// etrace profile and etrace plan --emit c: what the native backend makes of a program, and what each part
// takes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/train_fixture.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_etrace;

class Emitted : public testing::TrainFixture {
 protected:
  testing::Surroundings own_cache(const std::string& more = "LANG=C") const {
    return {.environment = {"ETRACE_CACHE_DIR=" + file("cache"), more}};
  }
};

TEST_F(Emitted, ProfileNamesEquationsAndModules) {
  const auto r = run_etrace({"profile", "rnn", "--rule", "D_RTRL", "--seconds", "0", "--json"}, own_cache());
  ASSERT_EQ(r.code, 0) << r.text;
  const auto all = nlohmann::json::parse(r.text);
  EXPECT_EQ(all.at("program"), "window");
  EXPECT_EQ(all.at("runs"), 1);
  double sum = 0.0;
  bool product_in_module = false, inside_the_loop = false;
  for (const auto& step : all.at("steps")) {
    sum += step.at("us_per_run").get<double>();
    EXPECT_GE(step.at("calls"), 1);
    inside_the_loop = inside_the_loop || step.at("calls") > 1;
    product_in_module = product_in_module || (step.at("kind") == "product" && !step.at("paths").empty());
  }
  EXPECT_TRUE(product_in_module) << r.text;
  EXPECT_TRUE(inside_the_loop) << "a window has a loop over its steps";
  EXPECT_LE(sum, all.at("us_per_run"));

  const auto table = run_etrace({"profile", "lif", "--rule", "pp_prop", "--program", "step", "--seconds", "0",
                                 "--spikes", "0.1", "--top", "2"},
                                own_cache());
  EXPECT_EQ(table.code, 0) << table.text;
  EXPECT_THAT(table.text,
              AllOf(HasSubstr("program step of lif with pp_prop: "), HasSubstr("more steps; --top")));
}

TEST_F(Emitted, ProfileSaysWhatIsMissing) {
  const auto none = run_etrace({"profile", "rnn"}, own_cache("CC=/nonexistent/cc"));
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.text, HasSubstr("no C compiler was found"));
  const auto wrong = run_etrace({"profile", "rnn", "--program", "windw"});
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.text, HasSubstr("window"));
}

TEST_F(Emitted, PlanPrintsTheC) {
  const auto r = run_etrace({"plan", "rnn", "--program", "step", "--emit", "c"});
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.text, AllOf(HasSubstr("/* step: emitted by etrace. */"),
                            HasSubstr("static void run(const etp_run* r)"), HasSubstr("= dot_general"),
                            HasSubstr("rnn.W */")));
  const auto all = run_etrace({"plan", "rnn", "--emit", "c"});
  EXPECT_EQ(all.code, 2);
  EXPECT_THAT(all.text, HasSubstr("--program"));
}

TEST_F(Emitted, SourcesAreKeptOnRequest) {
  const auto r = run_etrace(tiny({"--updates", "1", "--backend", "native", "--quiet"}),
                            own_cache("ETRACE_KEEP_SOURCE=" + file("kept/sources")));
  EXPECT_EQ(r.code, 0) << r.text;
  std::size_t trains = 0;
  for (const auto& entry : std::filesystem::directory_iterator(file("kept/sources"))) {
    EXPECT_EQ(entry.path().extension(), ".c");
    EXPECT_THAT(testing::contents(entry.path()), HasSubstr("etrace_module"));
    const std::string name = entry.path().filename().string();
    trains += name.starts_with("train_window-") || name.starts_with("window-") ? 1 : 0;
  }
  EXPECT_GE(trains, 1U) << "the windows of a sequence";
}

}  // namespace
}  // namespace etrace
