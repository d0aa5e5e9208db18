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

struct SteepCell : Module {
  ParamState& w = param("w", random::normal(random::key(1), {3, 4}, Dtype::F64));
  HiddenState& h = hidden("h", {4}, Dtype::F64);
  Array update(const Array& x) override {
    const Array kept = 0.4 * h.value();
    h.set(steep_tanh(kept + matmul(x, w.value())));
    return h.value();
  }
};

TEST(CustomRules, ABackwardRuleInsideARecurrenceIsExact) {
  SteepCell cell;
  init_all_states(cell, 2);
  const Array xs = random::normal(random::key(2), {6, 2, 3}, Dtype::F64),
              ys = random::normal(random::key(3), {6, 2, 4}, Dtype::F64);
  const VerifyReport report = verify(cell, D_RTRL(), xs, ys, loss::mse, {.windows = {2}, .lags = 0});
  EXPECT_TRUE(report.met()) << report.to_string();
  // Theory does not look into such a rule and promises nothing; it is exact all the same.
  for (const VerifyReport::Measure& m : report.leaves.at(0).measures) EXPECT_LT(m.deviation, 1e-12);
}

}  // namespace
}  // namespace etrace
