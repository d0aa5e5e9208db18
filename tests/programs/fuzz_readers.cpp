// Odd files, one per seed, read one after the other (tests/support/odd_files.h): 0 crashes, 0 hangs over 10
// s, 0 exceptions that are not ours, 0 infinities that nobody was told of.
//   etrace_fuzz_readers [--seed N] [--runs N] [--seconds S] [--folder DIR] [--source DIR]
// A process of its own reads, and begins anew behind a file on which it ended; what was wrong lies in
// DIR/found.
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <string>

#include "support/odd_files.h"

namespace {

namespace fs = std::filesystem;
using namespace etrace::testing;  // NOLINT: all of it
using Clock = std::chrono::steady_clock;

constexpr int kLongest = 10;  // seconds for a file

// Shared with the process that reads.
struct Progress {
  std::uint64_t seed = 0, read = 0, refused = 0, wrong = 0;
};

struct Arguments {
  std::uint64_t seed = 1, runs = 20000;
  double seconds = 0.0;
  std::string folder, source = ETRACE_TEST_DIR "/..";
};

Arguments arguments(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    if (name == "--seed") a.seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--runs") a.runs = std::strtoull(argv[i + 1], nullptr, 10);
    if (name == "--seconds") a.seconds = std::strtod(argv[i + 1], nullptr);
    if (name == "--folder") a.folder = argv[i + 1];
    if (name == "--source") a.source = argv[i + 1];
  }
  if (a.folder.empty())
    a.folder = (fs::temp_directory_path() / ("etrace_fuzz_readers_" + std::to_string(getpid()))).string();
  return a;
}

void watch(int seconds) {
  const itimerval timer{{0, 0}, {seconds, 0}};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

[[noreturn]] void read_from(const Arguments& a, const OddSeeds& seeds, Clock::time_point end, Progress& p) {
  const rlimit no_core{0, 0};
  setrlimit(RLIMIT_CORE, &no_core);
  setenv("ETRACE_DATA", (a.folder + "/imported").c_str(), 1);  // wheels that are whole after all
  for (; p.seed < a.seed + a.runs && Clock::now() < end; ++p.seed) {
    const OddFile odd = odd_file(p.seed, seeds);
    bool refused = false;
    watch(kLongest);
    const std::string wrong = read_odd(a.folder + "/file", odd, refused);
    watch(0);
    ++p.read;
    p.refused += refused;
    if (wrong.empty()) continue;
    ++p.wrong;
    std::printf("seed %llu, %s: %s\n", static_cast<unsigned long long>(p.seed), odd.kind.c_str(),
                wrong.c_str());
    std::fflush(stdout);
    std::error_code error;
    fs::copy(a.folder + "/file", a.folder + "/found/" + std::to_string(p.seed), fs::copy_options::recursive,
             error);
  }
  _exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  const Arguments a = arguments(argc, argv);
  const OddSeeds seeds = OddSeeds::from(a.source);
  fs::create_directories(a.folder + "/found");
  void* memory = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 2;
  auto& p = *new (memory) Progress{a.seed};
  const auto began = Clock::now(),
             end = a.seconds > 0
                       ? began + std::chrono::milliseconds(static_cast<std::int64_t>(1000 * a.seconds))
                       : Clock::time_point::max();
  while (p.seed < a.seed + a.runs && Clock::now() < end) {
    const pid_t child = fork();
    if (child == 0) read_from(a, seeds, end, p);
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFSIGNALED(status)) break;
    const std::string kind = odd_file(p.seed, seeds).kind;
    std::printf("seed %llu, %s: %s (signal %d)\n", static_cast<unsigned long long>(p.seed), kind.c_str(),
                WTERMSIG(status) == SIGALRM ? "it takes more than 10 s" : "the process ends",
                WTERMSIG(status));
    std::fflush(stdout);
    std::error_code error;
    fs::copy(a.folder + "/file", a.folder + "/found/" + std::to_string(p.seed), fs::copy_options::recursive,
             error);
    ++p.wrong;
    ++p.seed;
  }
  std::printf("%llu files read, %llu refused, %llu wrong; seeds %llu to %llu, %.0f s\n",
              static_cast<unsigned long long>(p.read), static_cast<unsigned long long>(p.refused),
              static_cast<unsigned long long>(p.wrong), static_cast<unsigned long long>(a.seed),
              static_cast<unsigned long long>(p.seed),
              std::chrono::duration<double>(Clock::now() - began).count());
  fs::remove_all(a.folder + "/file");
  if (p.wrong == 0) fs::remove_all(a.folder);
  return p.wrong == 0 ? 0 : 1;
}
