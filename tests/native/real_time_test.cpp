// learner.step() on all engines: no allocation and no system call after the first steps, or after prepare().
// The kernel itself watches: a process of its own is killed at the first call that it makes.
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "etrace/etrace.h"
#include "native/background.h"
#include "runtime/thread_pool.h"
#include "support/allocations.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

enum class Before { Steps, Prepare };
constexpr int kAllocated = 3, kNoFilter = 77;

// From here on every system call but the end of the process kills it.
bool forbid_system_calls() {
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog filter{sizeof rules / sizeof *rules, rules};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

// Many steps with loss, gradient and update, watched; does not return.
[[noreturn]] void run_watched(const char* backend, bool with_optimizer, Before warm_up,
                              bool forbidden_on_purpose = false) {
  use_test_cache();
  set_num_threads(1);  // waking another thread is a call
  const ReadyModel ready = make_model("lif_expon", {.sizes = {5, 18, 2}, .batch = 1});
  Learner learner = compile(*ready.module, D_RTRL{}, ready.example, {.batch_size = 1, .backend = backend});
  optim::Adam adam(*ready.module, 1e-3);
  learner.bind_step(loss::mse, with_optimizer ? &adam : nullptr);
  const Array x = random::normal(random::key(1), {1, 5}).tensor(),
              y = random::normal(random::key(2), {1, 2}).tensor();
  for (int i = 0; i < 3 && warm_up == Before::Steps; ++i) {
    learner.step(x, y);
    learner.step(x);
  }
  if (warm_up == Before::Prepare) learner.prepare(y.aval());
  native::wait_for_compilations();  // what takes over is ready as well
  const std::size_t before = allocations();
  if (!forbid_system_calls()) ::_exit(kNoFilter);
  for (int i = 0; i < 200; ++i) {
    learner.step(x, y);
    learner.step(x);
  }
  if (forbidden_on_purpose) ::syscall(SYS_getpid);
  ::_exit(allocations() == before ? 0 : kAllocated);
}

bool ended_well(int status) {
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) ADD_FAILURE() << "a step made a system call";
  if (WIFEXITED(status) && WEXITSTATUS(status) == kAllocated) ADD_FAILURE() << "a step allocated";
  return WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == kNoFilter);
}

class RealTime : public ::testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "sanitizers make calls of their own";
#endif
    ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // a fresh process, without our threads
  }
};

TEST_P(RealTime, StepsMakeNoSystemCallAndAllocateNothing) {
  EXPECT_EXIT(run_watched(GetParam(), false, Before::Steps), ended_well, "");
  EXPECT_EXIT(run_watched(GetParam(), true, Before::Steps), ended_well, "");
}

TEST_P(RealTime, NorDoesTheFirstAfterPrepare) {
  EXPECT_EXIT(run_watched(GetParam(), false, Before::Prepare), ended_well, "");
  EXPECT_EXIT(run_watched(GetParam(), true, Before::Prepare), ended_well, "");
}

TEST_P(RealTime, ACallWouldBeSeen) {
  EXPECT_EXIT(
      run_watched(GetParam(), false, Before::Steps, true),
      [](int status) {
        return (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) ||
               (WIFEXITED(status) && WEXITSTATUS(status) == kNoFilter);
      },
      "");
}

INSTANTIATE_TEST_SUITE_P(Engines, RealTime, ::testing::Values("interpreter", "native", "auto"),
                         [](const auto& about) { return std::string(about.param); });

}  // namespace
}  // namespace etrace::testing
