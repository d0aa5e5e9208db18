// --backend on every verb that runs programs: the same numbers on each, what a run says of its engine, and
// what happens where native code cannot be made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "cli/train_fixture.h"

namespace etrace {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::operator+;  // NOLINT(misc-unused-using-decls): operators are not seen
using testing::run_etrace;
using testing::Words;

class Backends : public testing::TrainFixture {
 protected:
  // One that is empty, of its own.
  testing::Surroundings empty_cache(const std::string& more = "LANG=C") const {
    return {.environment = {"ETRACE_CACHE_DIR=" + file("cache"), more}};
  }
  static std::string last_line(const std::string& text) {
    const std::size_t end = text.find_last_not_of('\n'), begin = text.rfind('\n', end);
    return text.substr(begin + 1, end - begin);
  }
};

constexpr const char* kWhyNot = "etrace: programs run in the interpreter: ";

TEST_F(Backends, TrainingGivesTheSameNumbersAndSaysWhatRuns) {
  const Words run = tiny({"--updates", "20"});
  const auto interpreted = run_etrace(run + Words{"--backend", "interpreter"});
  EXPECT_THAT(interpreted.text, HasSubstr("\nengine interpreter: "));
  for (const char* backend : {"native", "auto"}) {
    const auto r = run_etrace(run + Words{"--backend", backend}, empty_cache());
    EXPECT_EQ(r.code, 0) << r.text;
    EXPECT_THAT(r.text, AllOf(HasSubstr("\nengine " + std::string(backend) + ": "), Not(HasSubstr(kWhyNot))));
    EXPECT_EQ(last_line(r.text), last_line(interpreted.text));
  }
  EXPECT_FALSE(fs::is_empty(file("cache")));
  // Without the variable that pins the tests, native code takes over.
  EXPECT_THAT(run_etrace(run, empty_cache("ETRACE_BACKEND=")).text, HasSubstr("\nengine auto: "));
}

TEST_F(Backends, CheckAndVerifyRunNatively) {
  const std::string cell = std::string(ETRACE_REFERENCE_DIR) + "/cell_MGUCell.json";
  const auto checked =
      run_etrace({"check", "--backend", "native", "--stage", "forward,bptt", cell}, empty_cache());
  EXPECT_EQ(checked.code, 0) << checked.text;
  EXPECT_THAT(checked.text, AllOf(HasSubstr("1 passed, 0 failed"), Not(HasSubstr(kWhyNot))));
  EXPECT_GE(std::distance(fs::directory_iterator(file("cache")), {}), 2);

  const Words verify{"verify", "rnn", "--sizes", "2,3,1", "--steps", "4", "--window", "2", "--lags", "0"};
  const auto native = run_etrace(verify + Words{"--backend", "native"}, empty_cache());
  EXPECT_EQ(native.code, 0) << native.text;
  EXPECT_EQ(native.text, run_etrace(verify).text);
}

TEST_F(Backends, MistakesAreNamed) {
  const auto wrong = run_etrace(tiny({"--backend", "natve"}));
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.text, AllOf(HasSubstr("expected one of auto, cuda, interpreter, native"),
                                HasSubstr(", got 'natve' (did you mean native?)")));
  const auto variable = run_etrace(tiny(), {.environment = {"ETRACE_BACKEND=gpu"}});
  EXPECT_EQ(variable.code, 2);
  EXPECT_THAT(variable.text, HasSubstr("ETRACE_BACKEND: there is no backend 'gpu'; expected one of auto"));
}

// One message, and the run ends as it would have.
class WithoutNativeCode : public Backends {
 protected:
  void expect_interpreted(const std::string& shell_prefix, const std::vector<std::string>& environment) {
    for (const char* backend : {"native", "auto"}) {
      std::string text;
      // A run in `auto` may end before the compiler had its turn; a longer one then.
      for (const char* updates : {"20", "200", "2000", "20000"}) {
        text = output_of(shell_prefix, environment, tiny({"--updates", updates, "--backend", backend}));
        if (text.find(kWhyNot) != std::string::npos || backend == std::string("native")) break;
      }
      const std::size_t at = text.find(kWhyNot);
      ASSERT_NE(at, std::string::npos) << text;
      EXPECT_EQ(text.find(kWhyNot, at + 1), std::string::npos) << "said twice:\n" << text;
      EXPECT_THAT(text, HasSubstr("on 16 batches never trained on: loss "));
    }
  }
  std::string output_of(const std::string& shell_prefix, const std::vector<std::string>& environment,
                        const std::vector<std::string>& words) {
    std::string command = "( " + shell_prefix + " exec env";
    for (const std::string& e : environment) command += " '" + e + "'";
    command += " '" ETRACE_CLI "'";
    for (const std::string& word : words) command += " '" + word + "'";
    const std::string out = file("out");
    EXPECT_EQ(std::system((command + " 2>&1 ) | cat > '" + out + "'").c_str()), 0);
    return testing::contents(out);
  }
};

TEST_F(WithoutNativeCode, NoCompilerAndAFailingOne) {
  expect_interpreted("", {"CC=/nonexistent/cc", "ETRACE_CACHE_DIR=" + file("cache")});
  expect_interpreted("", {"CC=false", "ETRACE_CACHE_DIR=" + file("cache")});
}

TEST_F(WithoutNativeCode, ADiskThatIsFull) {
  // No file may grow, as if there were no room; a write then fails.
  expect_interpreted("trap '' XFSZ; ulimit -f 0;", {"ETRACE_CACHE_DIR=" + file("cache")});
}

// Native code runs all the same; it is only not kept, which is said once.
class WithoutCache : public WithoutNativeCode {
 protected:
  void expect_not_kept(const std::string& shell_prefix, const std::string& cache) {
    const std::string said = "compiled code is not kept",
                      text = output_of(shell_prefix, {"ETRACE_CACHE_DIR=" + cache},
                                       tiny({"--updates", "20", "--backend", "native"}));
    const std::size_t at = text.find(said);
    ASSERT_NE(at, std::string::npos) << text;
    EXPECT_EQ(text.find(said, at + 1), std::string::npos) << "said twice:\n" << text;
    EXPECT_EQ(text.find(kWhyNot), std::string::npos) << text;
    EXPECT_THAT(text, HasSubstr("on 16 batches never trained on: loss "));
  }
};

TEST_F(WithoutCache, AFolderThatCannotBeWritten) {
  expect_not_kept("", "/proc/etrace");  // also for root
}

TEST_F(WithoutCache, ADiskWhoseFilesMayNotRun) {
  const std::string disk = file("disk");
  fs::create_directories(disk);
  const std::string mounted = std::string("unshare ") + (::geteuid() == 0 ? "-m" : "-rm") +
                              " sh -c 'mount -t tmpfs -o noexec,mode=0700 none \"" + disk +
                              "\" && \"$@\"' sh ";
  if (std::system((mounted + "true 2>/dev/null").c_str()) != 0)
    GTEST_SKIP() << "this system lets nobody have mounts of their own";
  expect_not_kept(mounted, disk);
}

}  // namespace
}  // namespace etrace
