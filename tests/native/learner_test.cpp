// Learners on the native backends: whatever they do, the numbers are the interpreter's.
#include <gtest/gtest.h>

#include "etrace/etrace.h"
#include "native/background.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

// Two gradients and a training run over a sequence that is no multiple of the window.
Arrays numbers_of(const char* backend, const std::string& model, const LearningRule& rule) {
  use_test_cache();
  const ReadyModel ready = make_model(model, {.sizes = {5, 18, 2}, .batch = 3});
  LearnerOptions options;
  options.batch_size = 3;
  options.execution_window = 4;
  options.backend = backend;
  Learner learner = compile(*ready.module, rule, ready.example, options);
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

void expect_the_same_bits(const std::string& model, const LearningRule& rule,
                          const std::vector<const char*>& backends) {
  const Arrays expected = numbers_of("interpreter", model, rule);
  for (const char* backend : backends) {
    const Arrays found = numbers_of(backend, model, rule);
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i)
      EXPECT_TRUE(found[i].tensor() == expected[i].tensor()) << backend << ", number " << i;
  }
}

TEST(NativeLearners, LearnWithTheSameBits) {
  expect_the_same_bits("lif_expon", D_RTRL{}, {"native", "auto"});
}

// The reset gate has a trace of every state.
TEST(NativeLearners, CompositeTracesHaveTheSameBits) {
  expect_the_same_bits("gru", D_RTRL({.composite = true}), {"native"});
}

}  // namespace
}  // namespace etrace::testing
