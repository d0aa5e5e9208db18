// Runs whose process is killed at the n-th thing that it does to the disk, for many n; disks that are full
// from a point on; folders that cannot be written; two processes at once. Nothing that was kept is lost, and
// a run that goes on ends with the bits of one that was left alone.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "cli/train_fixture.h"

namespace etrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;

class Killed : public TrainFixture {
 protected:
  // Checks, checkpoints and the best parameters at different places.
  Words run(const std::string& folder, const Words& more = {}) const {
    return tiny(Words{"--backend", "interpreter", "--updates", "60", "--every", "7", "--check-every", "5",
                      "--runs", file(folder), "--name", "r"} +
                more);
  }
  Words stream(const std::string& folder, const Words& more = {}) const {
    return Words{"train",     file("s.csv"), "--stream", "--hidden",   "3",
                 "--backend", "interpreter", "--runs",   file(folder), "--name",
                 "r",         "--every",     "13",       "--set",      "window=10"} +
           more;
  }
  void put_stream() const {
    std::ofstream out(file("s.csv"));
    out << "a,kind\n";
    for (int i = 0; i < 100; ++i)
      out << i * 7919 % 101 << "," << (i * 7919 % 101 > 50 ? "up" : "down") << "\n";
  }

  static Surroundings disk(const std::string& what) {
    return {.environment = {std::string("LD_PRELOAD=") + ETRACE_DISK, what,
                            "ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0"}};
  }
  long calls(const Words& words) const {
    EXPECT_EQ(run_etrace(words, disk("ETRACE_DISK_COUNT=" + file("count"))).code, 0);
    return std::stol(contents(file("count")));
  }
  static std::set<long> points(long calls, std::size_t count) {
    std::mt19937 random(20);
    std::set<long> out{1, 2, calls};
    while (out.size() < count)
      out.insert(1 + static_cast<long>(random() % static_cast<unsigned long>(calls)));
    return out;
  }

  // A log without the times, which differ, and with the last word about the end only: a run that was killed
  // behind it has two.
  static std::string without_times(const std::string& log) {
    std::string out;
    std::istringstream lines(log);
    for (std::string line; std::getline(lines, line);) {
      auto json = nlohmann::json::parse(line);
      json.erase("seconds");
      if (json["event"] == "end" && lines.peek() != EOF) continue;
      if (json["event"] != "start") out += json.dump() + "\n";  // a run that goes on says so
    }
    return out;
  }
  void expect_same_end(const std::string& a, const std::string& b, const std::string& where) const {
    for (const char* name : {"checkpoints/last.safetensors", "best.safetensors", "config.toml"}) {
      if (!fs::exists(file(a + "/r/" + name))) continue;
      EXPECT_EQ(contents(file(a + "/r/" + name)), contents(file(b + "/r/" + name))) << where << name;
    }
    EXPECT_EQ(without_times(contents(file(a + "/r/log.jsonl"))),
              without_times(contents(file(b + "/r/log.jsonl"))))
        << where;
    const auto json = [&](const std::string& f) {
      return nlohmann::json::parse(contents(file(f + "/r/run.json")));
    };
    EXPECT_EQ(json(a)["final"], json(b)["final"]) << where;
    EXPECT_EQ(json(b)["status"], "done") << where;
  }
};

TEST_F(Killed, AtTwentyPointsEndsWithTheSameBits) {
  const long all = calls(run("whole"));
  ASSERT_GT(all, 60);
  for (const long n : points(all, 20)) {
    const std::string folder = "k" + std::to_string(n), where = "killed at call " + std::to_string(n) + " ";
    const auto killed = run_etrace(run(folder), disk("ETRACE_DISK_KILL=" + std::to_string(n)));
    ASSERT_EQ(killed.code, 137) << where << killed.text;
    // Some a second time on their way, then to the end.
    if (n % 3 == 0)
      run_etrace(run(folder, {"--resume"}), disk("ETRACE_DISK_KILL=" + std::to_string(1 + all / 3)));
    const auto rest = run_etrace(run(folder, {"--resume"}));
    ASSERT_EQ(rest.code, 0) << where << rest.text;
    expect_same_end("whole", folder, where);
  }
}

TEST_F(Killed, StreamsToo) {
  put_stream();
  const long all = calls(stream("whole"));
  for (const long n : points(all, 20)) {
    const std::string folder = "k" + std::to_string(n), where = "killed at call " + std::to_string(n) + " ";
    ASSERT_EQ(run_etrace(stream(folder), disk("ETRACE_DISK_KILL=" + std::to_string(n))).code, 137) << where;
    const auto rest = run_etrace(stream(folder, {"--resume"}));
    ASSERT_EQ(rest.code, 0) << where << rest.text;
    expect_same_end("whole", folder, where);
  }
}

// A disk that is full from a point on costs files, is said, and loses nothing that was there.
TEST_F(Killed, AFullDisk) {
  put_stream();
  for (const bool is_stream : {false, true}) {
    const auto words = [&](const std::string& folder, const Words& more = {}) {
      return is_stream ? stream(folder, more) : run(folder, more);
    };
    const std::string kind = is_stream ? "s" : "t";
    const long all = calls(words(kind + "whole"));
    for (const long n : points(all, 5)) {
      const std::string folder = kind + "f" + std::to_string(n),
                        where = "full from call " + std::to_string(n) + " ";
      const auto full = run_etrace(words(folder), disk("ETRACE_DISK_FULL=" + std::to_string(n)));
      EXPECT_THAT(full.code, AnyOf(0, 2)) << where << full.text;  // 0: nothing was written from there on
      if (full.code == 2) {
        EXPECT_THAT(full.text, AnyOf(HasSubstr("No space left on device"), HasSubstr("is the disk full?")))
            << where;
      }
      const auto rest = run_etrace(words(folder, {"--resume"}));
      ASSERT_EQ(rest.code, 0) << where << rest.text;
      expect_same_end(kind + "whole", folder, where);
    }
  }
}

TEST_F(Killed, AFolderThatCannotBeWritten) {
  ASSERT_EQ(run_etrace(run("a")).code, 0);
  const std::string before = contents(file("a/r/checkpoints/last.safetensors"));
  // Root writes everywhere, but nobody makes a folder below a file.
  std::ofstream(file("plain")) << "a file";
  const auto made = run_etrace(run("plain"));
  EXPECT_EQ(made.code, 2);
  EXPECT_THAT(made.text, AllOf(HasSubstr("cannot be made"), HasSubstr("--runs none")));
  if (geteuid() != 0) {
    fs::permissions(file("a/r"), fs::perms::owner_read | fs::perms::owner_exec);
    const auto kept = run_etrace({"train", file("a/r"), "--resume", "--updates", "70"});
    EXPECT_EQ(kept.code, 2);
    EXPECT_THAT(kept.text, HasSubstr("cannot be written"));
    fs::permissions(file("a/r"), fs::perms::owner_all);
  }
  EXPECT_EQ(contents(file("a/r/checkpoints/last.safetensors")), before);
}

TEST_F(Killed, TwoProcessesOnOneFolder) {
  ASSERT_EQ(mkfifo(file("p").c_str(), 0600), 0);
  put_stream();
  const int hold = ::open(file("p").c_str(), O_RDWR | O_CLOEXEC);  // the stream goes on until it is closed
  Process first(Words{"train", file("p"), "--stream", "--hidden", "3", "--backend", "interpreter", "--runs",
                      file("a"), "--name", "r", "--json", "-", "--set", "classes=up,down"});
  const std::string text = contents(file("s.csv"));
  ASSERT_EQ(::write(hold, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  std::string line;
  while (first.read_line(line) && line.find("\"start\"") == std::string::npos) {
  }
  for (const Words& words :
       {Words{"train", file("a/r"), "--resume"}, run("a", {"--resume"}), stream("a", {"--resume"})}) {
    const auto second = run_etrace(words);
    EXPECT_EQ(second.code, 2);
    EXPECT_THAT(second.text, HasSubstr("another process works in the run folder"));
  }
  EXPECT_THAT(run_etrace(run("a")).text, HasSubstr("exists: add --resume"));
  ::close(hold);
  const auto end = first.wait();
  EXPECT_EQ(end.code, 0) << end.text;
  EXPECT_THAT(end.text, HasSubstr("100 lines: accuracy"));
}

}  // namespace
}  // namespace etrace::testing
