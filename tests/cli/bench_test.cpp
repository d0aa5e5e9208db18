// etrace bench: parts, choices, JSON and mistakes. No time is asserted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/process.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::run_etrace;

class BenchVerb : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(json_); }
  nlohmann::json written() const { return nlohmann::json::parse(std::ifstream(json_)); }
  const std::string json_ = ::testing::TempDir() + "etrace_bench_" + std::to_string(getpid()) + ".json";
};

TEST_F(BenchVerb, ARowStandsBesideItsLimit) {
  const auto r =
      run_etrace({"bench", "--quick", "--part", "workloads", "--only", "W1", "--rule", "D_RTRL,BPTT",
                  "--batch", "1", "--backend", "interpreter", "--threads", "1", "--json", json_});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("\nW1           D_RTRL         1  step   interpreter       1 "));
  const nlohmann::json rows = written().at("workloads");
  ASSERT_EQ(rows.size(), 3U);  // step, window; reverse mode has one form
  for (const auto& row : rows) {
    EXPECT_GT(row.at("us_per_step"), 0.0);
    EXPECT_GT(row.at("limit_us"), 0.0);
  }
  EXPECT_GT(rows[0].at("trace_bytes"), 0);
  EXPECT_EQ(rows[0].at("window"), 1);
  EXPECT_GT(rows[1].at("window"), 1);  // what the learner chose
  EXPECT_EQ(rows[2].at("rule"), "BPTT");
}

TEST_F(BenchVerb, WindowsOfAGivenLength) {
  const auto r = run_etrace(
      {"bench",     "--quick", "--part",   "workloads", "--only",  "W1", "--rule",    "D_RTRL,multi_step",
       "--form",    "window",  "--window", "5",         "--batch", "1",  "--backend", "interpreter",
       "--threads", "1",       "--json",   json_});
  EXPECT_EQ(r.code, 0) << r.text;
  const nlohmann::json rows = written().at("workloads");
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].at("window"), 5);
  EXPECT_EQ(rows[1].at("window"), 32);  // multi_step has windows of its own
  EXPECT_EQ(run_etrace({"bench", "--window", "0"}).code, 2);
  EXPECT_EQ(run_etrace({"bench", "--window", "many"}).code, 2);
}

TEST_F(BenchVerb, LatencyOfSteps) {
  const auto r = run_etrace(
      {"bench", "--latency", "--steps", "50", "--backend", "interpreter", "--threads", "1", "--json", json_});
  EXPECT_EQ(r.code, 0) << r.text;
  const nlohmann::json all = written();
  EXPECT_FALSE(all.contains("machine"));
  const nlohmann::json row = all.at("latency").at(0);
  EXPECT_EQ(row.at("steps"), 50);
  EXPECT_LE(row.at("p50_us"), row.at("p99_us"));
  EXPECT_LE(row.at("p99.9_us"), row.at("max_us"));
}

TEST_F(BenchVerb, LengthAndSizeOfOneWorkload) {
  const auto r = run_etrace(
      {"bench", "--quick", "--part", "length,size", "--only", "W1", "--threads", "1", "--json", json_});
  EXPECT_EQ(r.code, 0) << r.text;
  const nlohmann::json all = written();
  ASSERT_EQ(all.at("length").size(), 3U);  // BPTT, D_RTRL, pp_prop
  EXPECT_EQ(all.at("length").at(0).at("length"), 100);
  ASSERT_EQ(all.at("size").size(), 2U);
  EXPECT_EQ(all.at("size").at(1).at("size"), 64);
}

TEST_F(BenchVerb, StartTakesPartsApart) {
  const auto r = run_etrace({"bench", "--quick", "--part", "start", "--only", "W1", "--rule", "D_RTRL",
                             "--batch", "1", "--threads", "1", "--json", json_});
  EXPECT_EQ(r.code, 0) << r.text;
  const nlohmann::json rows = written().at("start");
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].at("batch"), 1);
  for (const char* key : {"model_ms", "build_ms", "first_step_ms", "first_window_ms", "cold_ready_ms",
                          "cached_ready_ms", "cached_window_ms"})
    EXPECT_GT(rows[0].at(key), 0.0) << key;
}

TEST_F(BenchVerb, SparseCountsBytesPerSynapse) {
  const auto r = run_etrace({"bench", "--quick", "--part", "sparse", "--threads", "1", "--json", json_});
  EXPECT_EQ(r.code, 0) << r.text;
  const nlohmann::json rows = written().at("sparse");
  ASSERT_EQ(rows.size(), 4U);  // two optimisers, in the program and after it
  for (const auto& row : rows) EXPECT_GT(row.at("peak_bytes"), row.at("synapses").get<double>() * 8.0);
}

TEST_F(BenchVerb, CtrlCKeepsWhatWasMeasured) {
  testing::Process bench({"bench", "--quick", "--part", "machine,workloads", "--only", "W1", "--batch", "1",
                          "--backend", "interpreter", "--threads", "1", "--json", json_});
  std::string line;
  while (bench.read_line(line) && !line.starts_with("W1 ")) continue;
  bench.kill(SIGINT);
  const auto r = bench.wait();
  EXPECT_EQ(r.code, 130);
  EXPECT_THAT(r.text, HasSubstr("stopped; what was measured is kept"));
  const nlohmann::json kept = written();
  EXPECT_EQ(kept.at("stopped"), true);
  EXPECT_EQ(kept.at("machine").size(), 1U);
  EXPECT_GE(kept.at("workloads").size(), 1U);
}

TEST_F(BenchVerb, Mistakes) {
  EXPECT_THAT(run_etrace({"bench", "--only", "W9"}).text,
              HasSubstr("expected one of W1, W2, W3, W4, W3-saturated, W5, W6"));
  EXPECT_THAT(run_etrace({"bench", "--part", "speed"}).text, HasSubstr("expected one of machine, workloads"));
  const auto r = run_etrace({"bench", "--json", "/nonexistent/x.json"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, AllOf(HasSubstr("etrace bench: "), HasSubstr("--json")));
  EXPECT_THAT(run_etrace({"bench", "--help"}).text, HasSubstr("W2 a GRU of 512"));
}

}  // namespace
}  // namespace etrace
