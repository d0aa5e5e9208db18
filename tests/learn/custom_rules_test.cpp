// Functions with derivatives of their own on the way of a state: forward mode follows them as reverse mode
// does.
#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/etp.h"
#include "etrace/nn.h"
#include "etrace/random.h"
#include "etrace/verify.h"

namespace etrace {
namespace {

// tanh with twice its slope, by a backward rule alone.
Array steep_tanh(const Array& x) {
  static const Function f = custom_vjp([](ArraySpan a) { return Arrays{tanh(a[0])}; },
                                       [](ArraySpan a) {
                                         const Array y = tanh(a[0]);
                                         return Arrays{y, y};
                                       },
                                       [](ArraySpan a) { return Arrays{2.0 * a[1] * (1.0 - square(a[0]))}; });
  return f(Arrays{x})[0];
}

// By a rule whose derivative couples positions that the function itself keeps apart.
Array coupled_tanh(const Array& x) {
  static const Function f = custom_jvp([](ArraySpan a) { return Arrays{tanh(a[0])}; },
                                       [](ArraySpan a) {
                                         return Arrays{tanh(a[0]), a[1] + 0.3 * sum(a[1], {-1}, true)};
                                       });
  return f(Arrays{x})[0];
}

// The same by a backward rule.
Array coupled_back(const Array& x) {
  static const Function f = custom_vjp(
      [](ArraySpan a) { return Arrays{tanh(a[0])}; }, [](ArraySpan a) { return Arrays{tanh(a[0])}; },
      [](ArraySpan a) { return Arrays{a[0] + 0.3 * sum(a[0], {-1}, true)}; });
  return f(Arrays{x})[0];
}

struct CustomCell : Module {
  explicit CustomCell(Array (*function)(const Array&)) : f(function) {}
  Array (*f)(const Array&);
  ParamState& w = param("w", random::normal(random::key(1), {3, 4}, Dtype::F64));
  HiddenState& h = hidden("h", {4}, Dtype::F64);
  Array update(const Array& x) override {
    const Array kept = 0.4 * h.value();
    h.set(f(kept + matmul(x, w.value())));
    return h.value();
  }
};

VerifyReport verified(Array (*f)(const Array&)) {
  CustomCell cell(f);
  init_all_states(cell, 2);
  const Array xs = random::normal(random::key(2), {6, 2, 3}, Dtype::F64),
              ys = random::normal(random::key(3), {6, 2, 4}, Dtype::F64);
  return verify(cell, D_RTRL(), xs, ys, loss::mse, {.windows = {2}, .lags = 0});
}

TEST(CustomRules, ABackwardRuleInsideARecurrenceIsExact) {
  const VerifyReport report = verified(steep_tanh);
  EXPECT_TRUE(report.met()) << report.to_string();
  for (const VerifyReport::Measure& m : report.leaves.at(0).measures) {
    EXPECT_EQ(m.expected, Expectation::Exact) << report.to_string();
    EXPECT_LT(m.deviation, 1e-12);
  }
}

// Influence follows the rules, so theory looks at them and not at the function's values.
TEST(CustomRules, ARuleThatCouplesPositionsIsNotCalledExact) {
  for (const auto f : {coupled_tanh, coupled_back}) {
    const VerifyReport report = verified(f);
    EXPECT_TRUE(report.met()) << report.to_string();
    EXPECT_NE(report.leaves.at(0).measures.at(0).expected, Expectation::Exact) << report.to_string();
  }
}

}  // namespace
}  // namespace etrace
