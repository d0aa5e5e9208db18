// cond and switch_case: one branch is taken, under vmap one per sample.
#include <algorithm>

#include "control/agreement.h"

namespace etrace {
namespace {

using testing::expect_equivalent;
using testing::expect_error;
using testing::expect_same;
using testing::f64_scalar;
using testing::item;
using testing::looped;
using testing::Random;
using testing::scalar;

// Both branches use arrays from outside.
Function branch(bool yes) {
  return [yes](ArraySpan a) {
    const Array outside = sin(a[1]);
    const Arrays out = cond(
        full({}, yes, Dtype::Bool),
        [&](ArraySpan x) {
          return Arrays{sum(exp(x[0]) * outside), x[0]};
        },
        [&](ArraySpan x) {
          return Arrays{sum(x[0] * x[0]), a[1] * x[0]};
        },
        {a[0]});
    return Arrays{out[0] + sum(out[1]), out[1]};
  };
}

TEST(Cond, IsTheBranchTaken) {
  Random random(3);
  const Arrays x{random.f64({3}), random.f64({3})};
  const Function yes = [](ArraySpan a) { return Arrays{sum(exp(a[0]) * sin(a[1])) + sum(a[0]), a[0]}; };
  const Function no = [](ArraySpan a) { return Arrays{sum(a[0] * a[0]) + sum(a[1] * a[0]), a[1] * a[0]}; };
  expect_equivalent(branch(true), yes, x);
  expect_equivalent(branch(false), no, x);
}

TEST(Cond, PredicateMayBeTraced) {
  const Function yes = [](ArraySpan x) { return Arrays{sum(exp(x[0]))}; };
  const Function no = [](ArraySpan x) { return Arrays{sum(x[0] * x[0])}; };
  const Function f = [&](ArraySpan a) { return cond(sum(a[0]) > 0.0, yes, no, {a[0]}); };
  const Array up = Random(1).f64({3}, 0.1, 1.0), down = -up;
  expect_equivalent(f, yes, {up});
  expect_equivalent(f, no, {down});
  // One branch per sample, and its gradient.
  const Array both = stack(Arrays{up, down, up * 0.5}, 0);
  const Function g = grad(scalar(f));
  const Arrays gradients = looped(g, {both}, {true}, 3);
  expect_same(vmap(f)(Arrays{both}), looped(f, {both}, {true}, 3));
  expect_same(vmap(g)(Arrays{both}), gradients);
  const ScalarFunction total = [&](ArraySpan a) { return sum(vmap(f)(a)[0]); };
  expect_same(grad(total)(Arrays{both}), gradients);
}

TEST(Cond, BranchesMayDifferInWhatHasATangent) {
  const Function yes = [](ArraySpan x) { return Arrays{x[0] * x[1], x[0]}; };
  const Function no = [](ArraySpan x) { return Arrays{floor(x[0]) + x[1], f64_scalar(1.0)}; };
  const Function f = [&](ArraySpan a) { return cond(a[0] > 0.0, yes, no, {a[0], a[1]}); };
  expect_equivalent(f, yes, {f64_scalar(0.4), f64_scalar(1.5)});
  expect_equivalent(f, no, {f64_scalar(-0.4), f64_scalar(1.5)});
}

TEST(Cond, InsideScan) {
  const Function f = [](ArraySpan a) {
    const ScanBody body = [&](ArraySpan c, ArraySpan x) {
      const Array h = cond(
          x[0] > 0.0, [&](ArraySpan b) { return Arrays{tanh(b[0] * a[0] + b[1])}; },
          [&](ArraySpan b) { return Arrays{b[0] * b[1] - a[0]}; }, {c[0], x[0]})[0];
      return ScanResult{{h}, {h * h}};
    };
    const ScanResult r = scan(body, {a[1]}, {a[2]});
    return Arrays{sum(r.ys[0]) + r.carry[0]};
  };
  const Arrays x{Random(1).f64({}), Random(2).f64({}), Random(3).f64({6})};
  const std::vector<double> xs = x[2].tensor().to_doubles();
  const Function g = [&](ArraySpan a) {
    Array h = a[1], total = f64_scalar(0.0);
    for (int t = 0; t < 6; ++t) {
      const Array v = item(a[2], t);
      h = xs[static_cast<std::size_t>(t)] > 0.0 ? tanh(h * a[0] + v) : h * v - a[0];
      total = total + h * h;
    }
    return Arrays{total + h};
  };
  expect_equivalent(f, g, x);
}

TEST(Switch, ClampsItsIndex) {
  const std::vector<Function> branches{[](ArraySpan a) { return Arrays{sum(sin(a[0]))}; },
                                       [](ArraySpan a) { return Arrays{sum(a[0] * a[0])}; },
                                       [](ArraySpan a) { return Arrays{sum(exp(a[0]))}; }};
  const Array x = Random(1).f64({3});
  for (const std::int64_t i : {-5, 0, 1, 2, 100}) {
    const Function f = [&](ArraySpan a) { return switch_case(full({}, i, Dtype::I32), branches, {a[0]}); };
    expect_equivalent(f, branches[static_cast<std::size_t>(std::clamp<std::int64_t>(i, 0, 2))], {x});
  }
  const Array indices = Tensor::of(std::vector<std::int32_t>{2, -1, 7, 1}, {4}), xs = Random(2).f64({4, 3});
  const Array index = item(indices, 0);
  const Function f = [&](ArraySpan a) { return switch_case(a[0], branches, {a[1]}); };
  expect_same(vmap(f)(Arrays{indices, xs}), looped(f, {indices, xs}, {true, true}, 4));
  expect_same(vmap(f, {0, -1})(Arrays{indices, x}), looped(f, {indices, x}, {true, false}, 4));
  expect_same(vmap(f, {-1, 0})(Arrays{index, xs}), looped(f, {index, xs}, {false, true}, 4));
}

TEST(Cond, SaysWhatIsWrong) {
  const Array x = Random(1).f64({3});
  const Function same = [](ArraySpan a) { return Arrays{a[0]}; };
  const Function total = [](ArraySpan a) { return Arrays{sum(a[0])}; };
  const Function twice = [](ArraySpan a) { return Arrays{a[0], a[0]}; };
  expect_error<ValueError>("use where()", [&] { cond(x > 0.0, same, same, {x}); });
  expect_error<ValueError>("no branches", [&] { switch_case(0, {}, {x}); });
  expect_error<CompilationError>("[cond] branch 1, result 0: found f64[3], expected f64[]",
                                 [&] { cond(sum(x) > 0.0, same, total, {x}); });
  expect_error<CompilationError>("branch 1, result", [&] { cond(sum(x) > 0.0, same, twice, {x}); });
}

}  // namespace
}  // namespace etrace
