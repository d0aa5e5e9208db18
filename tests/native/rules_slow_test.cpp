// Every rule of the table on every backend: the numbers are the interpreter's.
#include <gtest/gtest.h>

#include "etrace/etrace.h"
#include "support/native.h"

namespace etrace::testing {
namespace {

Arrays gradients_on(const char* backend, const LearningRule& rule, VjpMethod method, Dtype dtype) {
  const ReadyModel ready = make_model("gru", {.sizes = {2, 4, 1}, .batch = 2, .dtype = dtype});
  LearnerOptions options;
  options.batch_size = 2;
  options.vjp_method = method;
  options.backend = backend;
  Learner learner = compile(*ready.module, rule, ready.example, options);
  const Array xs = random::normal(random::key(1), {6, 2, 2}, dtype),
              ys = random::normal(random::key(2), {6, 2, 1}, dtype);
  SequenceOptions how;
  if (method == VjpMethod::MultiStep) how.chunk_size = 3;
  Arrays out = learner.etrace_grad(xs, ys, loss::mse, how).grads.values;
  for (const EligibilityTrace& t : learner.etraces()) out.push_back(t.value);
  return out;
}

TEST(NativeLearners, EveryRuleGivesTheSameBits) {
  use_test_cache();
  std::size_t ran = 0;
  for (const auto& rule : rules_to_compare())
    for (const VjpMethod method : {VjpMethod::SingleStep, VjpMethod::MultiStep}) {
      SCOPED_TRACE(rule->describe() + ", " + std::string(name(method)));
      try {
        rule->require(method);
      } catch (const NotSupportedError&) {
        continue;
      }
      // same_learners_slow_test.cpp has the programs of the others in float64.
      const Dtype dtype = rule->takes_modulator() ? Dtype::F64 : Dtype::F32;
      const Arrays expected = gradients_on("interpreter", *rule, method, dtype),
                   found = gradients_on("native", *rule, method, dtype);
      ASSERT_EQ(found.size(), expected.size());
      for (std::size_t i = 0; i < found.size(); ++i)
        EXPECT_TRUE(found[i].tensor() == expected[i].tensor()) << "number " << i;
      ++ran;
    }
  EXPECT_GE(ran, 18U);
}

}  // namespace
}  // namespace etrace::testing
