// ThreadPool: every part once, nested and concurrent use, exceptions, start and stop.
#include "runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <stdexcept>
#include <string>

#include "etrace/error.h"

namespace etrace {
namespace {

TEST(ThreadPool, EveryPartRunsOnce) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), threads);
    for (int parts : {0, 1, 2, 3, 7, 100}) {
      std::vector<std::atomic<int>> runs(static_cast<std::size_t>(parts));
      pool.parallel(parts, [&](int part) { runs[static_cast<std::size_t>(part)]++; });
      for (auto& r : runs) EXPECT_EQ(r.load(), 1) << threads << " threads, " << parts << " parts";
    }
  }
}

TEST(ThreadPool, ManyShortJobs) {
  ThreadPool pool(3);
  std::vector<long> sums(3, 0);
  for (int job = 0; job < 20000; job++)
    pool.parallel(3, [&](int p) { sums[static_cast<std::size_t>(p)] += job; });
  for (long s : sums) EXPECT_EQ(s, 20000L * 19999 / 2);
}

TEST(ThreadPool, WritesAreVisibleAfterTheJoin) {
  ThreadPool pool(4);
  std::vector<int> data(4096);
  for (int job = 0; job < 200; job++) {
    pool.parallel(16, [&](int p) {
      for (int i = 0; i < 256; i++) data[static_cast<std::size_t>(p * 256 + i)] = job + i;
    });
    EXPECT_EQ(std::accumulate(data.begin(), data.end(), 0L), 16L * (256L * job + 255 * 128));
  }
}

TEST(ThreadPool, NestedRunsInline) {
  ThreadPool pool(3);
  std::atomic<int> inner{0};
  pool.parallel(6, [&](int) {
    const auto id = std::this_thread::get_id();
    pool.parallel(5, [&](int) {
      EXPECT_EQ(std::this_thread::get_id(), id);
      inner++;
    });
  });
  EXPECT_EQ(inner.load(), 30);
}

TEST(ThreadPool, SeveralCallersAtOnce) {
  ThreadPool pool(2);
  std::atomic<int> runs{0};
  std::vector<std::thread> callers;
  for (int c = 0; c < 4; c++)
    callers.emplace_back([&] {
      for (int job = 0; job < 500; job++) pool.parallel(4, [&](int) { runs++; });
    });
  for (auto& c : callers) c.join();
  EXPECT_EQ(runs.load(), 4 * 500 * 4);
}

TEST(ThreadPool, LowestExceptionIsRethrownAfterAllPartsRan) {
  for (int threads : {1, 3}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 50; round++) {
      std::atomic<int> runs{0};
      try {
        pool.parallel(9, [&](int part) {
          runs++;
          if (part == 4 || part == 7) throw std::runtime_error(std::to_string(part));
        });
        FAIL() << "no exception";
      } catch (const std::runtime_error& e) {
        EXPECT_STREQ(e.what(), "4");
      }
      EXPECT_EQ(runs.load(), 9);
    }
    int after = 0;
    pool.parallel(1, [&](int) { after++; });  // still usable
    EXPECT_EQ(after, 1);
  }
}

TEST(ThreadPool, FunctionMayBeConstOrTemporary) {
  ThreadPool pool(2);
  std::atomic<int> runs{0};
  const auto f = [&](int) { runs++; };
  pool.parallel(3, f);
  EXPECT_EQ(runs.load(), 3);
}

// The states of the other threads of this process, as the system has them: R runs, S sleeps until it is
// woken.
std::string states_of_others() {
  std::string states;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(::gettid())) continue;
    std::ifstream file(task.path() / "stat");
    std::string line;
    std::getline(file, line);
    const std::size_t name = line.rfind(')');
    if (name != std::string::npos) states += line.at(name + 2);
  }
  return states;
}

TEST(ThreadPool, IdleWorkersSleep) {
  ThreadPool pool(3);
  pool.parallel(3, [](int) {});
  // For ever, were one to wait awake. A sanitizer may have threads of its own.
  const auto all_sleep = [](const std::string& s) {
    return s.size() >= 2 && s.find_first_not_of('S') == s.npos;
  };
  while (!all_sleep(states_of_others())) std::this_thread::yield();
  std::atomic<bool> awake{true};
  std::thread other([&] {
    while (awake) {
    }
  });
  while (states_of_others().find('R') == std::string::npos) std::this_thread::yield();  // which would be seen
  awake = false;
  other.join();
}

TEST(ThreadPool, StartAndStop) {
  for (int i = 0; i < 50; i++) {
    ThreadPool pool(4);
    if (i % 2) pool.parallel(4, [](int) {});
  }
  EXPECT_THROW(ThreadPool(0), std::invalid_argument);
}

TEST(DefaultPool, SizeFromEnvironmentAndSetter) {
  ::setenv("ETRACE_NUM_THREADS", "three", 1);
  EXPECT_THROW(default_pool(), ValueError);
  ::setenv("ETRACE_NUM_THREADS", "3", 1);
  EXPECT_EQ(default_pool().size(), 3);
  set_num_threads(2);
  EXPECT_EQ(default_pool().size(), 2);
  EXPECT_THROW(set_num_threads(0), std::invalid_argument);
  EXPECT_EQ(default_pool().size(), 2);
}

}  // namespace
}  // namespace etrace
