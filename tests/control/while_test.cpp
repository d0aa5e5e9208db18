// while: trip counts that are known only when it runs, under vmap one per sample; reverse mode by a tape.
#include <stdexcept>

#include "control/agreement.h"
#include "etrace/host.h"

namespace etrace {
namespace {

using testing::Agreement;
using testing::expect_equivalent;
using testing::expect_same;
using testing::f64_scalar;
using testing::item;
using testing::looped;
using testing::Random;
using testing::scalar;

// h <- sin(h)·w until |h|² ≤ limit, counting. (w[2], h0[2]) -> (Σ h, h, count)
Function settle(double limit) {
  return [limit](ArraySpan a) {
    const auto condition = [&](ArraySpan c) { return sum(c[0] * c[0]) > limit; };
    const Function body = [&](ArraySpan c) { return Arrays{sin(c[0]) * a[0], c[1] + 1}; };
    const Arrays out = while_loop(condition, body, {a[1], full({}, std::int64_t{0}, Dtype::I32)});
    return Arrays{sum(out[0]), out[0], out[1]};
  };
}
Function settled_after(int steps) {
  return [steps](ArraySpan a) {
    Array h = a[1];
    for (int i = 0; i < steps; ++i) h = sin(h) * a[0];
    return Arrays{sum(h), h, full({}, std::int64_t{steps}, Dtype::I32)};
  };
}
const Agreement kNoSecondReverse{.reverse_over_reverse = false};
const Array kW = Tensor::of(std::vector<double>{0.6, 0.7}, {2}),
            kH = Tensor::of(std::vector<double>{1.3, -0.9}, {2});

TEST(While, IsTheUnrolledLoop) {
  const int steps = settle(0.05)(Arrays{kW, kH})[2].item<int>();
  EXPECT_GT(steps, 2);
  expect_equivalent(settle(0.05), settled_after(steps), {kW, kH}, kNoSecondReverse);
}

TEST(While, OfNoIterations) {
  expect_equivalent(settle(100.0), settled_after(0), {kW, kH}, kNoSecondReverse);
}

// What the condition reads decides when to stop and has no derivative there.
TEST(While, ConstantsOfTheConditionMayBeTraced) {
  const Function f = [](ArraySpan a) {
    return while_loop([&](ArraySpan c) { return c[0] > a[1]; },
                      [&](ArraySpan c) { return Arrays{c[0] * a[0]}; }, {a[2]});
  };
  const Function g = [](ArraySpan a) { return Arrays{a[2] * a[0] * a[0] * a[0]}; };
  expect_equivalent(f, g, {f64_scalar(0.5), f64_scalar(0.3), f64_scalar(2.0)}, kNoSecondReverse);
}

TEST(While, SecondReverseIsRefused) {
  const Function g = grad(scalar(settle(0.05)), {0, 1});
  const ScalarFunction slope = [&](ArraySpan a) { return sum(g(a)[0]); };
  EXPECT_THROW(grad(slope)(Arrays{kW, kH}), NotSupportedError);
}

TEST(While, VmapWithATripCountPerSample) {
  Random random(7);
  const Array ws = random.f64({4, 2}, 0.3, 0.9), hs = random.f64({4, 2}, -2.0, 2.0);
  const Function f = settle(0.05), g = grad(scalar(f), {0, 1});
  const Function forward = jvp([](ArraySpan a) { return Arrays{settle(0.05)(a)[1]}; });
  const Arrays expected = looped(f, {ws, hs}, {true, true}, 4);
  EXPECT_LT(min(expected[2]).item<int>(), max(expected[2]).item<int>()) << "the samples are too much alike";
  expect_same(vmap(f)(Arrays{ws, hs}), expected);
  expect_same(vmap(f, {-1, 0})(Arrays{kW, hs}), looped(f, {kW, hs}, {false, true}, 4));
  expect_same(vmap(f, {0, -1})(Arrays{ws, kH}), looped(f, {ws, kH}, {true, false}, 4));
  expect_same(vmap(g)(Arrays{ws, hs}), looped(g, {ws, hs}, {true, true}, 4));
  expect_same(vmap(g, {-1, 0})(Arrays{kW, hs}), looped(g, {kW, hs}, {false, true}, 4));
  const Arrays args{ws, hs, random.f64({4, 2}), random.f64({4, 2})};
  expect_same(vmap(forward)(args), looped(forward, args, Mask(4, true), 4));
}

TEST(While, GradOfVmap) {
  const Array hs = Random(8).f64({4, 2}, -2.0, 2.0);
  const ScalarFunction total = [](ArraySpan a) { return sum(vmap(settle(0.05), {-1, 0})(a)[0]); };
  const Arrays each = looped(grad(scalar(settle(0.05)), {0, 1}), {kW, hs}, {false, true}, 4);
  expect_same(grad(total, {0, 1})(Arrays{kW, hs}), Arrays{sum(each[0], {0}), each[1]});
}

// Backwards the loop does not read its values, but each sample still has its own number of iterations.
TEST(While, VmapOfGradOfALinearBody) {
  const Function g = grad([](ArraySpan a) {
    return while_loop([](ArraySpan c) { return c[0] > 0.3; }, [](ArraySpan c) { return Arrays{c[0] * 0.5}; },
                      {a[0]})[0];
  });
  const Array xs = Tensor::of(std::vector<double>{0.2, 2.0, 0.4}, {3});
  expect_same(vmap(g)(Arrays{xs}), Arrays{Tensor::of(std::vector<double>{1.0, 0.125, 0.5}, {3})});
}

// The condition reads an unmapped counter only, so that it stays a scalar.
TEST(While, VmapWithACommonTripCount) {
  const Function f = [](ArraySpan a) {
    return while_loop([](ArraySpan c) { return c[1] < 3; },
                      [&](ArraySpan c) {
                        return Arrays{c[0] * a[0], c[1] + 1};
                      },
                      {a[0], full({}, std::int64_t{0}, Dtype::I32)});
  };
  const Array x = Random(9).f64({5});
  const ClosedJaxpr mapped = make_jaxpr(vmap(f), Avals{x.aval()});
  for (const Eqn& e : mapped.jaxpr.eqns) {
    if (e.prim != &while_p) continue;
    EXPECT_EQ(e.params.jaxpr("cond_jaxpr")->jaxpr.eqns.size(), 1U);
  }
  expect_same(vmap(f)(Arrays{x}), Arrays{x * x * x * x, full({5}, std::int64_t{3}, Dtype::I32)});
}

TEST(While, InsideScan) {
  const Function f = [](ArraySpan a) {
    const ScanBody body = [&](ArraySpan c, ArraySpan x) {
      const Arrays h = settle(0.3)(Arrays{a[0], c[0] + x[0]});
      return ScanResult{{h[1]}, {h[0], h[2]}};
    };
    const ScanResult r = scan(body, {a[1]}, {a[2]});
    return Arrays{sum(r.ys[0]), r.carry[0], r.ys[1]};
  };
  const Arrays x{kW, kH, Random(10).f64({3, 2}, -2.0, 2.0)};
  const Array counts = f(x)[2];
  const Function g = [&](ArraySpan a) {
    Array h = a[1], total = f64_scalar(0.0);
    for (int t = 0; t < 3; ++t) {
      h = settled_after(item(counts, t).item<int>())(Arrays{a[0], h + item(a[2], t)})[1];
      total = total + sum(h);
    }
    return Arrays{total, h, counts};
  };
  expect_equivalent(f, g, x, kNoSecondReverse);
}

// A loop inside ties its tangents to its values in forward mode; what is run backwards has them apart.
TEST(While, ReverseModeThroughLoopsAndBranchesInside) {
  const auto twice = [](const Function& body) -> Function {
    return [body](ArraySpan a) {
      return Arrays{while_loop([](ArraySpan v) { return v[0] < 2; },
                               [&](ArraySpan v) {
                                 return Arrays{v[0] + Array(1), body(v.subspan(1))[0]};
                               },
                               {Array(0), a[0]})[1]};
    };
  };
  const Function leaf = [](ArraySpan a) { return Arrays{sin(a[0]) * kH}; };
  const Function in_scan = [&](ArraySpan a) {
    return scan(
               [&](ArraySpan c, ArraySpan) {
                 return ScanResult{leaf(c), {}};
               },
               {a[0]}, {}, {.length = 2})
        .carry;
  };
  const Function in_cond = [&](ArraySpan a) {
    return cond(sum(a[0]) > 0.0, leaf, [](ArraySpan b) { return Arrays{b[0] * b[0]}; }, {a[0]});
  };
  const Array x = Random(5).f64(kH.shape());
  for (const Function& f : {twice(twice(leaf)), twice(in_scan), twice(in_cond)}) {
    const ScalarFunction total = [&](ArraySpan a) { return sum(f(a)[0]); };
    const Array forward = jacfwd([&](ArraySpan a) { return Arrays{total(a)}; })(Arrays{x})[0];
    EXPECT_GT(Array(max(abs(forward))).tensor().to_doubles()[0], 1e-3);
    expect_same(grad(total)(Arrays{x}), Arrays{forward}, 1e-12);
  }
}

// Loops that run at once may be ended from outside, at any depth; a program that was compiled is not asked.
TEST(While, EndsWhenTheHookThrows) {
  int asked = 0;
  set_interrupt_hook([&] {
    if (++asked == 2) throw std::runtime_error("stop");
  });
  const auto forever = [](ArraySpan c) { return c[0] >= 0.0; };
  const Function step = [](ArraySpan c) {
    const ScanBody body = [](ArraySpan h, ArraySpan) { return ScanResult{{h[0] + 1.0}, {}}; };
    return scan(body, {c[0]}, {}, {.length = 1000}).carry;
  };
  EXPECT_THROW(while_loop(forever, step, {f64_scalar(0.0)}), std::runtime_error);
  set_interrupt_hook({});
  EXPECT_EQ(asked, 2);
}

TEST(While, SaysWhatIsWrong) {
  const Function halve = [](ArraySpan c) { return Arrays{c[0] * 0.5}; };
  const auto condition = [](ArraySpan c) { return sum(c[0]) > 0.0; };
  EXPECT_THROW(while_loop([](ArraySpan c) { return c[0] > 0.0; }, halve, {kH}),
               CompilationError);  // no scalar
  EXPECT_THROW(while_loop([](ArraySpan c) { return sum(c[0]); }, halve, {kH}), CompilationError);  // no bool
  EXPECT_THROW(while_loop(condition, [](ArraySpan c) { return Arrays{sum(c[0])}; }, {kH}), CompilationError);
  EXPECT_THROW(while_loop(condition, [](ArraySpan c) { return Arrays{c[0], c[0]}; }, {kH}), CompilationError);
  EXPECT_THROW(while_loop(condition, [](ArraySpan) { return Arrays{}; }, {kH}), CompilationError);
}

}  // namespace
}  // namespace etrace
