// Files that mislead and processes that end: an error with words, and nothing else harmed.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "cli/train_fixture.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using testing::contents;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::operator+;  // NOLINT(misc-unused-using-decls): operators are not seen
using testing::Process;
using testing::run_etrace;
using testing::Words;
namespace fs = std::filesystem;

class OddSurroundings : public testing::TrainFixture {
 protected:
  Process::Result run(const Words& words) const {
    return run_etrace(words, {.environment = {"ETRACE_RUNS=" + file("runs")}});
  }
  std::string put(const std::string& name, const std::string& bytes) const {
    fs::create_directories(fs::path(file(name)).parent_path());
    std::ofstream(file(name), std::ios::binary) << bytes;
    return file(name);
  }
  Words small() const { return {"--backend", "interpreter", "--updates", "3", "--quiet", "--no-fidelity"}; }
};

TEST_F(OddSurroundings, APathThatIsNoUtf8EndsNoProcess) {
  std::string table = "id,x,kind\n";
  for (int i = 0; i < 40; ++i)
    table += std::to_string(i) + "," + std::to_string(i % 2) + "," + (i % 2 == 0 ? "a" : "b") + "\n";
  const std::string path = put("m\xe4rz.csv", table);
  for (const Words& more : {Words{}, Words{"--runs", "none"}, Words{"--stream"}}) {
    const auto r = run(Words{"train", path, "--hidden", "4"} +
                       Words{"--backend", "interpreter", "--updates", "2", "--quiet"} + more);
    EXPECT_EQ(r.code, 2) << r.text;
    EXPECT_THAT(r.text, AllOf(HasSubstr("m\\xe4rz.csv"), HasSubstr("no UTF-8")));
  }
  EXPECT_EQ(run({"data", "show", path}).code, 0) << "to the system names are bytes";
  const auto named = run(tiny(small() + Words{"--name", "m\xe4rz"}));
  EXPECT_EQ(named.code, 0) << named.text;
  EXPECT_EQ(run({"eval", file("runs/m\xe4rz")}).code, 0);
}

TEST_F(OddSurroundings, AnOddRunHarmsNoOther) {
  ASSERT_EQ(run(tiny(small() + Words{"--name", "good"})).code, 0);
  int number = 0;
  for (const std::string& odd :
       {std::string("[]"), std::string("{"), std::string(R"({"format":1})"),
        std::string(R"({"format":"etrace.run","task":[1],"seed":{},"settings":3,"final":[]})"),
        std::string(100000, '['), std::string("\xff")})
    put("runs/odd" + std::to_string(number++) + "/run.json", odd);
  for (const Words& verb :
       {Words{"runs"}, Words{"runs", "--csv"}, Words{"runs", "--seeds"}, Words{"runs", "--filter", "lr=1"}}) {
    const auto r = run(verb);
    EXPECT_EQ(r.code, 0) << r.text;
    EXPECT_THAT(r.text, HasSubstr("odd0/run.json: "));
  }
  EXPECT_THAT(run({"runs"}).text, HasSubstr("good"));
  for (int i = 0; i < number; ++i)
    for (const char* verb : {"eval", "explain", "train"}) {
      const auto r = run({verb, file("runs/odd" + std::to_string(i))});
      EXPECT_EQ(r.code, 2) << r.text;
      EXPECT_THAT(r.text, Not(HasSubstr("unexpected")));
    }
}

TEST_F(OddSurroundings, ControlCharactersInAConfiguration) {
  const auto r =
      run({"train", "--config",
           put("a.toml", "task = \"delayed_xor\"\n[set]\nlag = 40\n[\x1dule-option]\nx = ,x = 1\n")});
  EXPECT_EQ(r.code, 2) << r.text;
  EXPECT_THAT(r.text, HasSubstr("line 4: it holds a control character: [\\x1dule-option]"));
  EXPECT_THAT(run({"train", "--config", put("b.toml", "task = \"\xe4\"\n")}).text,
              HasSubstr("line 1: it holds bytes"));
}

TEST_F(OddSurroundings, CellsThatASpreadsheetWouldRun) {
  std::string table = "id,x,kind\n";
  for (int i = 0; i < 40; ++i)
    for (int t = 0; t < 2; ++t)
      table += (i == 0 ? "=cmd()" : std::to_string(-i)) + "," + std::to_string(i % 2) + "," +
               (i % 2 == 0 ? "@SUM(1)" : "-1") + "\n";
  put("t.csv", table);
  ASSERT_EQ(
      run(Words{"train", file("t.csv"), "--set", "read=series=id", "--hidden", "4", "--name", "r"} + small())
          .code,
      0);
  const auto r = run({"predict", file("runs/r"), file("t.csv")});
  EXPECT_EQ(r.code, 0);
  EXPECT_THAT(r.text, AllOf(HasSubstr("\n'=cmd(),"), HasSubstr(",'@SUM(1)\n"), HasSubstr(",-1\n"),
                            Not(HasSubstr(",@"))));
}

// Such a run ended without a word.
TEST_F(OddSurroundings, AFileAtItsLimitIsSaid) {
  const std::string command = "bash -c 'ulimit -f 8; exec \"$0\" \"$@\"' " ETRACE_CLI
                              " train copying --hidden 64 --updates 2 --backend interpreter --quiet --runs " +
                              file("runs") + " > " + file("out") + " 2>&1";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_LT(WEXITSTATUS(status), 3) << contents(file("out"));
  EXPECT_THAT(contents(file("out")), HasSubstr("File too large"));
}

// What waits for the lock of a run waits for the end of its process.
void wait_for_end_of(const std::string& lock) {
  const int f = ::open(lock.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(f, 0);
  EXPECT_EQ(::flock(f, LOCK_EX), 0);
  ::close(f);
}

TEST_F(OddSurroundings, RunsOfAComparisonEndWithItAndItGoesOn) {
  const Words words = tiny({"--backend", "interpreter", "--check-every", "50", "--every", "5",
                            "--no-fidelity", "--updates", "100000000", "--name", "c"});
  for (const int signal : {SIGKILL, SIGHUP}) {
    Process compare(words + Words{"--compare", "bptt,d_rtrl"},
                    {.environment = {"ETRACE_RUNS=" + file("runs")}});
    for (const char* name : {"BPTT-0", "D_RTRL-0"})
      while (!fs::exists(file(std::string("runs/c/") + name + "/checkpoints/last.safetensors")))
        ::sched_yield();
    compare.kill(signal);
    EXPECT_EQ(compare.wait().code, 128 + signal);
    for (const char* name : {"BPTT-0", "D_RTRL-0"})
      wait_for_end_of(file(std::string("runs/c/") + name + "/lock"));
  }
  // A run that cannot be read is not removed.
  put("runs/c/BPTT-0/run.json", "[");
  const auto odd = run(words + Words{"--compare", "bptt"});
  EXPECT_EQ(odd.code, 1);
  EXPECT_THAT(odd.text, HasSubstr("run.json' cannot be read"));
  EXPECT_TRUE(fs::exists(file("runs/c/BPTT-0/checkpoints/last.safetensors")));
}

}  // namespace
}  // namespace etrace
