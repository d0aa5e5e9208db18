// Folders of runs, as a user meets them: what is in one, going on, two at once, eval, runs, configurations.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>

#include "cli/train_fixture.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::contents;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::operator+;  // NOLINT(misc-unused-using-decls): operators are not seen
using testing::Process;
using testing::run_etrace;
using testing::Words;

class Runs : public testing::TrainFixture {
 protected:
  Process::Result run(const Words& words) const {
    return run_etrace(words, {.environment = {"ETRACE_RUNS=" + file("runs")}});
  }
  Process::Result train(const Words& more) const {
    return run(tiny(Words{"--backend", "interpreter"} + more));
  }
  nlohmann::json status(const std::string& name) const {
    return nlohmann::json::parse(contents(file("runs/" + name + "/run.json")));
  }
  std::string in(const std::string& name, const std::string& what) const {
    return file("runs/" + name + "/" + what);
  }
};

TEST_F(Runs, AFolderHoldsAllThatARunLeaves) {
  const auto r = train({"--updates", "60", "--name", "a"});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("run folder " + file("runs/a")));
  for (const char* name : {"config.toml", "run.json", "log.jsonl", "best.safetensors", "page.html",
                           "checkpoints/last.safetensors"})
    EXPECT_TRUE(fs::is_regular_file(in("a", name))) << name;
  bool events = false;
  for (const auto& e : fs::directory_iterator(file("runs/a")))
    events = events || e.path().filename().string().starts_with("events.out.tfevents.");
  EXPECT_TRUE(events);
  const auto json = status("a");
  EXPECT_EQ(json.at("status"), "done");
  EXPECT_EQ(json.at("updates"), 60);
  EXPECT_EQ(json.at("reason"), "updates");
  EXPECT_TRUE(json.at("final").contains("accuracy"));
  EXPECT_TRUE(json.contains("outcome"));
  EXPECT_EQ(json.at("settings").at("--hidden"), "4");
  EXPECT_EQ(json.at("command").at(0), "train");
}

TEST_F(Runs, AFolderStandsForItsModel) {
  ASSERT_EQ(train({"--updates", "5", "--name", "a", "--quiet"}).code, 0);
  for (const char* verb : {"explain", "summary"}) {
    const auto r = run({verb, file("runs/a")});
    EXPECT_EQ(r.code, 0) << r.text;
    EXPECT_THAT(r.text, HasSubstr("weight"));
  }
  const auto by_folder = run({"verify", file("runs/a"), "--steps", "4", "--lags", "0"});
  const auto by_file =
      run({"verify", "gru", "--load", in("a", "best.safetensors"), "--steps", "4", "--lags", "0"});
  EXPECT_EQ(by_folder.text, by_file.text);
  const auto none = run({"explain", file("runs")});
  EXPECT_EQ(none.code, 2);
  EXPECT_THAT(none.text, HasSubstr("is a folder without best.safetensors; expected the folder of a run"));
}

TEST_F(Runs, AConfigurationGivesTheSameRun) {
  ASSERT_EQ(train({"--updates", "60", "--name", "a", "--rule", "pp_prop", "--decay", "0.9"}).code, 0);
  const auto again = run({"train", "--config", in("a", "config.toml"), "--name", "b"});
  ASSERT_EQ(again.code, 0) << again.text;
  EXPECT_EQ(contents(in("a", "config.toml")), contents(in("b", "config.toml")));
  EXPECT_EQ(contents(in("a", "best.safetensors")), contents(in("b", "best.safetensors")));
  EXPECT_EQ(status("a").at("final"), status("b").at("final"));
  const auto typed = run({"train", "--config", in("a", "config.toml"), "--name", "c", "--seed", "7"});
  ASSERT_EQ(typed.code, 0) << typed.text;
  EXPECT_EQ(status("c").at("seed"), 7) << "what is typed holds";
}

TEST_F(Runs, EvalGivesTheScoreOfTheRun) {
  const auto r = train({"--updates", "60", "--name", "a", "--quiet"});
  ASSERT_EQ(r.code, 0) << r.text;
  const auto scored = run({"eval", file("runs/a"), "--backend", "interpreter"});
  ASSERT_EQ(scored.code, 0) << scored.text;
  EXPECT_THAT(scored.text, HasSubstr(r.text.substr(r.text.find("loss"))));
  EXPECT_THAT(run({"eval", file("runs/a"), "--load", "x"}).text, HasSubstr("leave out --load"));
  EXPECT_THAT(run({"eval"}).text, HasSubstr("what shall be scored?"));
}

TEST_F(Runs, AKilledRunGoesOnWithTheSameBits) {
  ASSERT_EQ(train({"--updates", "200", "--name", "whole", "--every", "20"}).code, 0);
  Process killed(tiny({"--backend", "interpreter", "--updates", "200", "--name", "killed", "--every", "20",
                       "--json", "-", "--quiet"}),
                 {.environment = {"ETRACE_RUNS=" + file("runs")}});
  std::string line;
  for (int lines = 0; lines < 90 && killed.read_line(line);) ++lines;
  killed.kill(SIGKILL);
  killed.wait();
  EXPECT_THAT(run({"runs"}).text, HasSubstr("killed"));
  const auto r = run({"train", file("runs/killed"), "--resume"});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("going on after"));
  EXPECT_EQ(contents(in("whole", "best.safetensors")), contents(in("killed", "best.safetensors")));
  EXPECT_EQ(status("whole").at("final"), status("killed").at("final"));
  EXPECT_EQ(status("whole").at("best"), status("killed").at("best"));
  std::vector<int> batches;
  std::istringstream log(contents(in("killed", "log.jsonl")));
  while (std::getline(log, line))
    if (const auto j = nlohmann::json::parse(line); j.at("event") == "batch")
      batches.push_back(j.at("batches"));
  ASSERT_EQ(batches.size(), 200U) << "every batch once";
  for (std::size_t i = 0; i < batches.size(); ++i) EXPECT_EQ(batches[i], static_cast<int>(i) + 1);
}

TEST_F(Runs, ARunGoesOnWithAnotherRateOnRequest) {
  ASSERT_EQ(train({"--updates", "40", "--name", "a", "--every", "20"}).code, 0);
  const auto same = run({"train", file("runs/a"), "--resume", "--updates", "60"});
  EXPECT_EQ(same.code, 0) << same.text;
  const auto other = run({"train", file("runs/a"), "--resume", "--updates", "80", "--lr", "0.001"});
  ASSERT_EQ(other.code, 0) << other.text;
  EXPECT_EQ(status("a").at("settings").at("--lr"), "0.001");
  EXPECT_THAT(run({"train", file("runs/a"), "--resume", "--updates", "99", "--hidden", "5"}).text,
              HasSubstr("--hidden is 4 there and 5 here"));
}

TEST_F(Runs, StopsEarlyWithPatience) {
  const auto r =
      train({"--updates", "3000", "--name", "a", "--patience", "2", "--check-every", "5", "--lr", "0"});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("2 checks without a better score"));
  EXPECT_EQ(status("a").at("reason"), "patience");
  EXPECT_EQ(status("a").at("batches"), 15);
}

TEST_F(Runs, AFolderIsNotOverwrittenAndNotShared) {
  ASSERT_EQ(train({"--updates", "2", "--name", "a"}).code, 0);
  EXPECT_THAT(train({"--updates", "2", "--name", "a"}).text, HasSubstr("exists: add --resume"));
  EXPECT_THAT(run({"train", file("runs/a")}).text, HasSubstr("is a run: add --resume"));
  EXPECT_THAT(run({"train", "copying", "--resume"}).text, HasSubstr("--resume needs the run to go on with"));
  Process first(tiny({"--updates", "100000", "--name", "b", "--json", "-", "--quiet"}),
                {.environment = {"ETRACE_RUNS=" + file("runs")}});
  for (std::string line; line.find("\"batch\"") == std::string::npos;) ASSERT_TRUE(first.read_line(line));
  const auto second = run({"train", file("runs/b"), "--resume"});
  EXPECT_EQ(second.code, 2);
  EXPECT_THAT(second.text, HasSubstr("another process works in the run folder"));
  first.kill(SIGINT);
  EXPECT_EQ(first.wait().code, 130);
  EXPECT_EQ(status("b").at("status"), "stopped");
}

TEST_F(Runs, AFolderThatCannotBeMadeFailsBeforeTheWork) {
  std::ofstream(file("runs")) << "a file";
  const auto r = train({"--updates", "2"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, AllOf(HasSubstr("cannot be made"), HasSubstr("--runs none")));
}

TEST_F(Runs, AreListedSortedFilteredAndCompared) {
  for (const char* seed : {"1", "2"}) ASSERT_EQ(train({"--updates", "4", "--seed", seed}).code, 0);
  ASSERT_EQ(train({"--updates", "4", "--rule", "pp_prop", "--name", "other"}).code, 0);
  const auto table = run({"runs"});
  EXPECT_THAT(table.text, AllOf(HasSubstr("name "), HasSubstr("copying-gru-D_RTRL-1 "),
                                HasSubstr("copying-gru-D_RTRL-2 "), HasSubstr("other")));
  const auto sorted = run({"runs", "--sort=-seed", "--csv"}).text;
  EXPECT_LT(sorted.find("D_RTRL-2"), sorted.find("D_RTRL-1"));
  EXPECT_THAT(sorted, HasSubstr("name,status,task,model,rule,seed,updates"));
  const auto filtered = run({"runs", "--filter", "rule=pp_prop"}).text;
  EXPECT_THAT(filtered, AllOf(HasSubstr("other"), Not(HasSubstr("D_RTRL-1"))));
  EXPECT_THAT(run({"runs", "--filter", "hidden!=4"}).text, Not(HasSubstr("other")));
  EXPECT_THAT(run({"runs", "--diff", "other", "copying-gru-D_RTRL-1"}).text,
              AllOf(HasSubstr("rule: pp_prop | D_RTRL\n"), HasSubstr("seed: 0 | 1\n")));
  EXPECT_THAT(run({"runs", "--seeds"}).text, HasSubstr("over 2 seeds: copying gru D_RTRL"));
  EXPECT_THAT(run({"runs", "--sort", "acuracy"}).text, HasSubstr("did you mean accuracy?"));
  EXPECT_THAT(run({"runs", "--filter", "rule"}).text, HasSubstr("expected NAME=VALUE"));
  EXPECT_THAT(run({"runs", "--diff", "other", "nothing"}).text, HasSubstr("has no run.json"));
}

TEST_F(Runs, ConfigurationsAreCheckedLikeOptions) {
  const auto message = [&](const std::string& text) {
    std::ofstream(file("c.toml")) << text;
    return run({"train", "--config", file("c.toml")}).text;
  };
  EXPECT_THAT(message("task = \"copying\"\nhiden = 3\n"), HasSubstr("--hiden"));
  EXPECT_THAT(message("task = \"copying\"\nhidden = -3\n"), HasSubstr("expected a whole number from 1"));
  EXPECT_THAT(message("task = \"copying\"\n[set]\nlga = 3\n"), HasSubstr("has no setting 'lga'"));
  EXPECT_THAT(message("task = 'copying'\nlr = \n"), HasSubstr("line 2"));
}

TEST_F(Runs, ARunThatLearnsNothingSaysSo) {
  const auto r = train({"--updates", "2", "--lr", "0", "--set", "lag=30"});
  EXPECT_THAT(r.text, AllOf(HasSubstr("NO BETTER THAN GUESSING"),
                            HasSubstr("what to try: `etrace train copying` alone")));
}

// Labels by chance: a network learns them by heart, and that is said. Advice names the file, and no delays.
TEST_F(Runs, ARunThatLearnsByHeartSaysSo) {
  std::ofstream out(file("noise.csv"));
  out << "label,a,b,c,d\n";
  std::uint32_t x = 7;
  const auto draw = [&] { return (x = x * 1664525u + 1013904223u) >> 8; };
  for (int i = 0; i < 30; ++i) {
    out << (draw() % 2 ? "yes" : "no");
    for (int k = 0; k < 4; ++k) out << ',' << draw() % 1000;
    out << '\n';
  }
  out.close();
  const auto r = run({"train", file("noise.csv"), "--set", "read=label=label", "--hidden", "24", "--updates",
                      "300", "--lr", "0.02", "--backend", "interpreter", "--no-fidelity", "--model", "lstm"});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, AllOf(HasSubstr("NO BETTER THAN GUESSING"), HasSubstr("by heart"),
                            HasSubstr("`etrace train " + file("noise.csv") + "` alone"),
                            Not(HasSubstr("shorter delays"))));
}

}  // namespace
}  // namespace etrace
