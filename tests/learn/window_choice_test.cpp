// How many steps run at once: chosen from sizes, forced, limited.
#include <gmock/gmock.h>

#include "etrace/models.h"
#include "learn/scenario.h"

namespace etrace {
namespace {

using namespace testing;

Learner sized(const char* model, std::int64_t hidden, std::int64_t batch, LearnerOptions o = {},
              const char* rule = "D_RTRL") {
  const ReadyModel ready = make_model(model, {.sizes = {4, hidden, 2}, .batch = batch});
  o.batch_size = batch;
  o.backend = "interpreter";
  return compile(*ready.module, rule, Arrays{ready.example}, o);
}

TEST(WindowChoice, FollowsFromSizes) {
  const Learner small = sized("gru", 8, 2);
  EXPECT_EQ(small.execution().window, 32);
  EXPECT_EQ(small.execution().trace_bytes, small.trace_bytes());
  // x [2, 12], y and f of two relations, the signal of one state, D: 2 x 8 each
  EXPECT_EQ(small.execution().kept_bytes, (2 * 2 * 12 + 2 * 2 * 8 + 2 * 2 * 8 + 2 * 8 + 2 * 8) * 4);
  EXPECT_THAT(small.execution().to_string(), ::testing::HasSubstr("32 steps at once: the usual length"));
  const Learner wide = sized("gru", 256, 1);
  EXPECT_EQ(wide.execution().window, 64);
  EXPECT_THAT(wide.execution().reason, ::testing::HasSubstr("times what a step keeps"));
  // No trace is that large, but the gradient is passed as well; and a window that leaves the caches is none.
  EXPECT_EQ(sized("gru", 256, 1, {}, "pp_prop").execution().window, 64);
  EXPECT_EQ(sized("gru", 256, 64).execution().window, 32);
  const Learner factors = sized("gru", 64, 8192, {}, "pp_prop");
  EXPECT_LT(factors.execution().window, 32);
  EXPECT_GE(factors.execution().window, 8);
  EXPECT_THAT(factors.execution().reason, ::testing::HasSubstr("would keep more than"));
}

TEST(WindowChoice, CanBeForcedAndLimited) {
  EXPECT_EQ(sized("gru", 8, 2, {.execution_window = 5}).execution().window, 5);
  const ExecutionChoice free = sized("gru", 8, 2).execution();
  const std::int64_t limit = free.trace_bytes + 3 * free.kept_bytes;
  const ExecutionChoice tight = sized("gru", 8, 2, {.memory_limit = limit}).execution();
  EXPECT_EQ(tight.window, 2);
  EXPECT_THAT(tight.reason, ::testing::HasSubstr("would pass memory_limit"));
  expect_error<ValueError>("the traces take",
                           [&] { sized("gru", 8, 2, {.memory_limit = free.trace_bytes}); });
  expect_error<ValueError>("windows of 32 steps take",
                           [&] { sized("gru", 8, 2, {.execution_window = 32, .memory_limit = limit}); });
}

// Another window is another order of the same sum.
TEST(WindowChoice, DoesNotChangeTheGradient) {
  const Array xs = Random(1).f64({9, 2, 4}), ys = Random(2).f64({9, 2, 2});
  const auto gradient = [&](LearnerOptions o) {
    Learner l = sized("gru", 8, 2, o);
    return l.etrace_grad(convert(xs, Dtype::F32), convert(ys, Dtype::F32), loss::mse).grads.values[0];
  };
  const Array whole = gradient({}), parts = gradient({.execution_window = 2});
  EXPECT_GT(norm(whole), 1e-6);
  EXPECT_LT(norm(whole - parts), 1e-5 * norm(whole));
}

}  // namespace
}  // namespace etrace
