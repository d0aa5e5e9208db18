// Learners on the native backends: whatever they do, the numbers are the interpreter's.
#include <gtest/gtest.h>

#include "etrace/etrace.h"
#include "native/background.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

// Two gradients and a training run over a sequence that is no multiple of the window.
Arrays numbers_of(const char* backend) {
  use_test_cache();
  const ReadyModel ready = make_model("lif_expon", {.sizes = {5, 18, 2}, .batch = 3});
  LearnerOptions options;
  options.batch_size = 3;
  options.execution_window = 4;
  options.backend = backend;
  Learner learner = compile(*ready.module, D_RTRL{}, ready.example, options);
  const Array xs = random::normal(random::key(1), {10, 3, 5}),
              ys = random::normal(random::key(2), {10, 3, 2});
  Arrays out;
  for (int round = 0; round < 2; ++round) {
    const SequenceGradient g = learner.etrace_grad(xs, ys, loss::mse);
    out.push_back(g.losses);
    out.insert(out.end(), g.grads.values.begin(), g.grads.values.end());
    native::wait_for_compilations();
  }
  optim::Adam adam(*ready.module, 1e-2);
  out.push_back(learner.etrace_train(xs, ys, loss::mse, adam, {}).losses);
  for (const EligibilityTrace& t : learner.etraces()) out.push_back(t.value);
  return out;
}

TEST(NativeLearners, LearnWithTheSameBits) {
  const Arrays expected = numbers_of("interpreter");
  for (const char* backend : {"native", "auto"}) {
    const Arrays found = numbers_of(backend);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i].tensor() == expected[i].tensor()) << backend << ", number " << i;
  }
}

}  // namespace
}  // namespace etrace::testing
