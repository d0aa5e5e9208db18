// Rules side by side: `etrace train --compare`, and BPTT as one of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cli/train_fixture.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using testing::contents;
using ::testing::HasSubstr;
using testing::operator+;  // NOLINT(misc-unused-using-decls): operators are not seen
using testing::Process;
using testing::run_etrace;
using testing::Words;

class Compare : public testing::TrainFixture {
 protected:
  Process::Result run(const Words& words) const {
    return run_etrace(words, {.environment = {"ETRACE_RUNS=" + file("runs")}});
  }
  Process::Result compare(const Words& more) const {
    return run(tiny(Words{"--backend", "interpreter", "--updates", "5", "--check-every", "2"} + more));
  }
  nlohmann::json json(const std::string& path) const { return nlohmann::json::parse(contents(file(path))); }
};

TEST_F(Compare, RulesOnTheSameDataMakeOneTable) {
  const auto r = compare({"--compare", "bptt,d_rtrl", "--seeds", "2", "--name", "c"});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, AllOf(HasSubstr("4/4 "), HasSubstr("rule    accuracy"), HasSubstr("\nBPTT    "),
                            HasSubstr("\nD_RTRL  ")));
  const auto table = json("runs/c/compare.json");
  ASSERT_EQ(table.at("rules").size(), 2U);
  EXPECT_EQ(table.at("rules")[0].at("name"), "BPTT");
  EXPECT_EQ(table.at("rules")[0].at("accuracy").at("runs"), 2);
  EXPECT_EQ(table.at("rules")[0].at("trace_bytes").at("mean"), 0.0);
  EXPECT_LE(table.at("rules")[1].at("cosine_start").at("mean"), 1.0);
  EXPECT_EQ(json("runs/c/D_RTRL-1/run.json").at("seed"), 1);
  EXPECT_THAT(contents(file("runs/c/page.html")), AllOf(HasSubstr("class=\"band c1\""), HasSubstr("D_RTRL")));
  // What is done stays; other settings are refused.
  EXPECT_THAT(compare({"--compare", "bptt,d_rtrl", "--seeds", "2", "--name", "c"}).text,
              HasSubstr("(was there already)"));
  const auto other = compare({"--compare", "bptt,d_rtrl", "--seeds", "2", "--name", "c", "--lr", "0.5"});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.text, HasSubstr("has a run BPTT-0 with other settings; choose another --name"));
}

TEST_F(Compare, ARunThatFailsIsSaid) {
  const auto r = compare({"--compare", "bptt,d_rtrl", "--update", "step"});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.text, HasSubstr("BPTT failed: etrace train: BPTT goes back from the end of a sequence"));
}

TEST_F(Compare, WhatSeveralRunsCannotShareIsRefused) {
  EXPECT_THAT(compare({"--compare", "bptt", "--save", file("x.npz")}).text,
              HasSubstr("--save is for one run"));
  EXPECT_THAT(compare({"--compare", "bpt"}).text, HasSubstr("bpt"));
  EXPECT_THAT(compare({"--seeds", "2", "--runs", "none"}).text, HasSubstr("leave out --runs none"));
  EXPECT_THAT(compare({"--rule", "bptt", "--rule-option", "x=1"}).text, HasSubstr("BPTT has no options"));
}

// With a window as long as the sequence, online learning is BPTT.
TEST_F(Compare, BpttIsTheLimitOfTheWindow) {
  ASSERT_EQ(compare({"--rule", "bptt", "--name", "a", "--dtype", "f64"}).code, 0);
  ASSERT_EQ(compare({"--window", "3", "--name", "b", "--dtype", "f64"}).code, 0);
  const auto a = json("runs/a/run.json"), b = json("runs/b/run.json");
  EXPECT_NEAR(a.at("final").at("loss").get<double>(), b.at("final").at("loss").get<double>(), 1e-9);
  EXPECT_NEAR(b.at("fidelity").at("start").at("cosine").get<double>(), 1.0, 1e-9);
  EXPECT_EQ(b.at("fidelity").at("end").at("parameters").size(), 8U);
}

TEST_F(Compare, BpttIsResumedBitForBit) {
  ASSERT_EQ(compare({"--rule", "bptt", "--name", "a"}).code, 0);
  ASSERT_EQ(run(tiny({"--backend", "interpreter", "--rule", "bptt", "--updates", "3", "--name", "b",
                      "--check-every", "2"}))
                .code,
            0);
  const auto r = run({"train", file("runs/b"), "--resume", "--updates", "5"});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_EQ(json("runs/a/run.json").at("final"), json("runs/b/run.json").at("final"));
  EXPECT_TRUE(json("runs/b/run.json").at("fidelity").contains("start")) << "measured before the first part";
}

TEST_F(Compare, AFallingRateIsPartOfTheRun) {
  const auto r = compare({"--schedule", "cosine", "--warmup", "2", "--name", "a"});
  ASSERT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("learning rate 0.01\n  (cosine over 5 updates, rising for 2)"));
  const auto longer = run({"train", file("runs/a"), "--resume", "--updates", "9"});
  ASSERT_EQ(longer.code, 0) << longer.text;
  EXPECT_THAT(longer.text, HasSubstr("(cosine over 9 updates, rising for 2)"));
  EXPECT_EQ(json("runs/a/run.json").at("batches"), 9);
  EXPECT_EQ(run({"train", file("runs/a"), "--resume"}).code, 0) << "the new end is the run's from then on";
}

// Without the folder of a run nobody has said that the rate shall be another one.
TEST_F(Compare, AnotherRateIsNotTheRateOfACheckpoint) {
  const std::vector<std::string> typed{"train",      "delayed_xor", "--hidden",     "4",
                                       "--schedule", "cosine",      "--checkpoint", file("c"),
                                       "--runs",     "none",        "--quiet"};
  auto first = typed, longer = typed;
  first.insert(first.end(), {"--updates", "5"});
  longer.insert(longer.end(), {"--updates", "9", "--resume"});
  ASSERT_EQ(run(first).code, 0);
  EXPECT_THAT(run(longer).text, HasSubstr("--schedule is cosine over 5 updates there and cosine over 9"));
}

TEST_F(Compare, TheBenchOfAccuracyListsItsRowsAndGoesOn) {
  EXPECT_THAT(run({"bench-accuracy", "--list"}).text,
              AllOf(HasSubstr("15a  delayed match, 500 steps, ALIF"), HasSubstr("parity")));
  EXPECT_THAT(run({"bench-accuracy", "--only", "99"}).text, HasSubstr("row"));
  const auto r =
      run({"bench-accuracy", "--only", "8", "--seeds", "1", "--folder", file("b"), "--seconds", "0.01"});
  EXPECT_EQ(r.code, 1);
  EXPECT_THAT(r.text, AllOf(HasSubstr("| 8 | digits by rows"), HasSubstr("the time was up")));
}

}  // namespace
}  // namespace etrace
