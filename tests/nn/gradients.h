// Gradients of modules for the tables of layers: reverse mode against finite differences, and D-RTRL, step by
// step and in windows, against reverse mode.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/verify.h"
#include "support/learning.h"

namespace etrace::testing {

using Batch = std::optional<std::int64_t>;

inline Shape with_batch(const Shape& sample, Batch batch) {
  return batch ? sample.with_front(*batch) : sample;
}

struct GradientCheck {
  Shape in;  // of a sample
  Batch batch = {};
  bool must_be_known = true;  // theory must say that the gradient is exact, not only the numbers
  bool indices = false;       // inputs are whole numbers
  bool spiking = false;       // finite differences do not see surrogate derivatives
  double low = -1.0, high = 1.0;
  std::vector<std::string> silent = {};  // leaves that have no gradient
  bool memory = true;                    // the state carries something from step to step
  bool coupled = false;                  // D-RTRL in scope coupled: recurrent products count
};

inline Array draw_inputs(const GradientCheck& c, std::int64_t steps, std::uint64_t seed = 3) {
  const Shape shape = with_batch(c.in, c.batch).with_front(steps);
  if (c.indices) return random::randint(random::key(seed), shape, 0, 3);
  return random::uniform(random::key(seed), shape, Dtype::F64, c.low, c.high);
}

// Negative control: a rule without memory between steps must not pass.
inline void expect_memory_matters(Module& module, const Array& xs, const Array& ys) {
  const VerifyReport forgetful =
      verify(module, ForgetfulRule(ForgetfulRule::Jacobian), xs, ys, loss::mse, {.windows = {1}, .lags = 0});
  double worst = 0.0;
  for (const VerifyReport::Leaf& leaf : forgetful.leaves)
    if (leaf.alive) worst = std::max(worst, leaf.measures.at(0).deviation);
  EXPECT_GT(worst, 1e-3) << "a rule that forgets passes too: nothing is tested";
}

inline void expect_exact_gradients(Module& module, const GradientCheck& c) {
  constexpr std::int64_t kSteps = 5;
  init_all_states(module, c.batch);
  const Array xs = draw_inputs(c, kSteps);
  const Shape out = trace_step(module, dynamic_index(xs, 0)).model.program.jaxpr.out_avals()[0].shape;
  const Array ys = random::normal(random::key(4), out.with_front(kSteps), Dtype::F64);
  const auto rule = c.coupled ? OSTLRecurrent().clone() : D_RTRL().clone();
  const VerifyReport report =
      verify(module, *rule, xs, ys, loss::mse,
             {.windows = {1, 2}, .lags = 0, .finite_differences = c.batch && !c.spiking});
  for (const VerifyReport::Leaf& leaf : report.leaves) {
    SCOPED_TRACE(to_string(leaf.id));
    const bool silent = std::find(c.silent.begin(), c.silent.end(), to_string(leaf.id)) != c.silent.end();
    EXPECT_EQ(leaf.alive, !silent) << "norm " << leaf.norm;
    if (silent) continue;
    if (c.must_be_known) {
      EXPECT_EQ(leaf.expected.single_step.expectation, Expectation::Exact)
          << leaf.expected.single_step.reason;
      EXPECT_EQ(leaf.expected.windows.expectation, Expectation::Exact) << leaf.expected.windows.reason;
    }
    for (const VerifyReport::Measure& m : leaf.measures)
      EXPECT_LT(m.deviation, 1e-10) << "window " << m.window;
    if (leaf.finite_differences) {
      EXPECT_LT(*leaf.finite_differences, 1e-6);
    }
  }
  if (c.batch && c.memory) expect_memory_matters(module, xs, ys);
}

}  // namespace etrace::testing
