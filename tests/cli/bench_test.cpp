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
  EXPECT_THAT(r.text, HasSubstr("\nW1  D_RTRL         1  step   interpreter       1 "));
  const nlohmann::json rows = written().at("workloads");
  ASSERT_EQ(rows.size(), 3U);  // step, window; reverse mode has one form
  for (const auto& row : rows) {
    EXPECT_GT(row.at("us_per_step"), 0.0);
    EXPECT_GT(row.at("limit_us"), 0.0);
  }
  EXPECT_GT(rows[0].at("trace_bytes"), 0);
  EXPECT_EQ(rows[2].at("rule"), "BPTT");
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

TEST_F(BenchVerb, Mistakes) {
  EXPECT_THAT(run_etrace({"bench", "--only", "W9"}).text, HasSubstr("expected one of W1, W2, W3, W5, W6"));
  EXPECT_THAT(run_etrace({"bench", "--part", "speed"}).text, HasSubstr("expected one of machine, workloads"));
  const auto r = run_etrace({"bench", "--json", "/nonexistent/x.json"});
  EXPECT_EQ(r.code, 2);
  EXPECT_THAT(r.text, AllOf(HasSubstr("etrace bench: "), HasSubstr("--json")));
  EXPECT_THAT(run_etrace({"bench", "--help"}).text, HasSubstr("W2 a GRU of 512"));
}

}  // namespace
}  // namespace etrace
