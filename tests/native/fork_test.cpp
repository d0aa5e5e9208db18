// A forked process has one thread. Pools, learners and background compilation go on there.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <system_error>

#include "etrace/etrace.h"
#include "native/background.h"
#include "runtime/thread_pool.h"
#include "support/native.h"

namespace etrace::testing::fork_test {
namespace {

// The allocator of GCC 12's sanitizers has locks that fork() does not take: who forks while another thread
// has one waits for it for ever.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kForksBesideThreads = false;
#else
constexpr bool kForksBesideThreads = true;
#endif

// What f gives in a forked process; it is ended if it hangs.
int in_fork(const std::function<int()>& f) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(120);
    int result = 99;
    try {
      result = f();
    } catch (...) {
    }
    ::_exit(result);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

Arrays learned(const char* backend) {
  const ReadyModel ready = make_model("rnn", {.sizes = {3, 6, 2}, .batch = 2, .seed = 5});
  Learner learner = compile(*ready.module, D_RTRL{}, ready.example, {.batch_size = 2, .backend = backend});
  const Array xs = random::normal(random::key(1), {4, 2, 3}), ys = random::normal(random::key(2), {4, 2, 2});
  Arrays out = learner.etrace_grad(xs, ys, loss::mse).grads.values;
  native::wait_for_compilations();
  for (const Array& g : learner.etrace_grad(xs, ys, loss::mse).grads.values) out.push_back(g);
  return out;
}
bool equal(const Arrays& a, const Arrays& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Array& x, const Array& y) { return x.tensor() == y.tensor(); });
}

TEST(Fork, PoolsStartNewWorkers) {
  ThreadPool pool(3);
  const auto sum_in = [&] {
    std::vector<int> parts(100);
    pool.parallel(100, [&](int i) { parts[static_cast<std::size_t>(i)] = i; });
    int sum = 0;
    for (const int p : parts) sum += p;
    return sum;
  };
  ASSERT_EQ(sum_in(), 4950);
  EXPECT_EQ(in_fork([&] { return sum_in() == 4950 && sum_in() == 4950 ? 0 : 1; }), 0);
  EXPECT_EQ(in_fork([&] {
              auto own = std::make_unique<ThreadPool>(2);
              return in_fork([&] {
                own.reset();  // the workers of the process before are not waited for
                return sum_in() == 4950 ? 0 : 1;
              });
            }),
            0);
  EXPECT_EQ(sum_in(), 4950);
}

// A process that may start one more thread, and not two: an error, and nothing is left half started.
TEST(Fork, PoolsThatGetTooFewThreads) {
  if (!kForksBesideThreads) GTEST_SKIP() << "the allocator of the sanitizer is not ready for fork()";
  auto pool = std::make_unique<ThreadPool>(4);
  const auto run = [&] {
    std::atomic<int> parts{0};
    pool->parallel(8, [&](int) { ++parts; });
    return parts.load();
  };
  ASSERT_EQ(run(), 8);
  EXPECT_EQ(in_fork([&] {
              const rlimit two{2, 2};
              if (::setrlimit(RLIMIT_NPROC, &two) != 0) return 2;
              if (::geteuid() == 0 && ::setuid(54321) != 0) return 3;  // the limit does not hold for root
              for (int again = 0; again < 2; ++again) {
                try {
                  run();
                  return 1;
                } catch (const std::system_error&) {
                }
              }
              pool.reset();
              return 0;
            }),
            0);
  EXPECT_EQ(run(), 8);
}

TEST(Fork, LearnersLearnTheSame) {
  use_test_cache();
  set_num_threads(3);
  const Arrays expected = learned("interpreter");
  EXPECT_EQ(in_fork([&] { return equal(learned("interpreter"), expected) ? 0 : 1; }), 0);
  EXPECT_EQ(in_fork([&] { return equal(learned("native"), expected) ? 0 : 1; }), 0);
  EXPECT_EQ(in_fork([&] { return equal(learned("auto"), expected) ? 0 : 1; }), 0);
  EXPECT_TRUE(equal(learned("auto"), expected));
}

// While the compiler is at work: what it was compiling stays interpreted in the new process, and nobody waits
// for a thread that is not there.
TEST(Fork, InTheMiddleOfACompilation) {
  if (!kForksBesideThreads) GTEST_SKIP() << "the allocator of the sanitizer is not ready for fork()";
  use_test_cache();
  const Arrays expected = learned("interpreter");
  for (int round = 0; round < 3; ++round) {
    const ReadyModel ready = make_model("rnn", {.sizes = {3, 7 + round, 2}, .batch = 2, .seed = 5});
    Learner busy = compile(*ready.module, D_RTRL{}, ready.example, {.batch_size = 2, .backend = "auto"});
    busy.etrace_evolve(Arrays{random::normal(random::key(1), {40, 2, 3})});
    EXPECT_EQ(in_fork([&] {
                busy.etrace_evolve(Arrays{random::normal(random::key(1), {4, 2, 3})});
                native::wait_for_compilations();
                return equal(learned("auto"), expected) ? 0 : 1;
              }),
              0);
    native::wait_for_compilations();
  }
}

// Nobody waits in the thread that compiles who could be told: the process goes on, and so does the thread.
TEST(Background, AJobThatThrowsIsGivenUp) {
  std::atomic<int> after{0};
  native::run_in_background([] { throw std::bad_alloc(); });
  native::run_in_background([] { throw InternalError("test", "a fault"); });
  native::run_in_background([&] { after = 1; });
  native::wait_for_compilations();
  EXPECT_EQ(after, 1);
}

}  // namespace
}  // namespace etrace::testing::fork_test
