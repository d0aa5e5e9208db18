// Functions with derivatives of their own.
#include "control/agreement.h"

namespace etrace {
namespace {

using testing::expect_equivalent;
using testing::expect_error;
using testing::expect_same;
using testing::f64_scalar;
using testing::item;
using testing::Random;
using testing::scalar;

// |x| with a derivative of our own: 10·x instead of its sign.
TEST(CustomJvp, RuleIsUsedInEveryMode) {
  const Function f = custom_jvp([](ArraySpan a) { return Arrays{abs(a[0])}; },
                                [](ArraySpan a) {
                                  return Arrays{abs(a[0]), 10.0 * a[0] * a[1]};
                                });
  const ScalarFunction total = [&](ArraySpan a) { return sum(f(a)[0]); };
  const Array x = Tensor::of(std::vector<double>{0.5, -2.0}, {2});
  const Array v = Tensor::of(std::vector<double>{1.0, 3.0}, {2});
  const Array tens = 10.0 * eye(2, Dtype::F64);
  expect_same(f(Arrays{x}), Arrays{abs(x)});
  expect_same(jvp(f)(Arrays{x, v}), Arrays{abs(x), 10.0 * x * v});
  expect_same(grad(total)(Arrays{x}), Arrays{10.0 * x});
  expect_same(jacfwd(grad(total))(Arrays{x}), Arrays{tens});
  expect_same(jacrev(grad(total))(Arrays{x}), Arrays{tens});
  const Array xs = stack(Arrays{x, v}, 0);
  expect_same(vmap(grad(total))(Arrays{xs}), Arrays{10.0 * xs});
  const ScalarFunction mapped = [&](ArraySpan a) { return sum(vmap(f)(a)[0]); };
  expect_same(grad(mapped)(Arrays{xs}), Arrays{10.0 * xs});
}

// By the rule's contract the derivative does not see what the function captured.
TEST(CustomJvp, CapturesAndSeveralArguments) {
  const Array w = Random(1).f64({3});
  const Function f = [&](ArraySpan a) {
    const Array outer = exp(a[1]);
    const Function value = [&](ArraySpan b) { return Arrays{sum(b[0] * b[1] * w), b[0] * outer}; };
    const Function rule = [&](ArraySpan b) {
      return Arrays{sum(b[0] * b[1] * w), b[0] * outer, sum((b[2] * b[1] + b[0] * b[3]) * w), b[2] * outer};
    };
    const Arrays y = custom_jvp(value, rule)(Arrays{a[0], sin(a[0])});
    return Arrays{y[0] + sum(y[1])};
  };
  const Arrays x{Random(2).f64({3}), Random(3).f64({3})};
  const Arrays g = grad(scalar(f), {0, 1})(x);
  expect_same(g, Arrays{(sin(x[0]) + x[0] * cos(x[0])) * w + exp(x[1]), zeros_like(x[1])});
  const Arrays forward = jvp(f)(Arrays{x[0], x[1], x[1], x[0]});
  expect_same(ArraySpan(forward).subspan(1), Arrays{sum(g[0] * x[1])});
}

TEST(CustomJvp, RuleMayCallJit) {
  const Function rule = jit([](ArraySpan a) { return Arrays{sum(a[0] * a[0]), sum(2.0 * a[0] * a[1])}; });
  const Function square = [](ArraySpan a) { return Arrays{sum(a[0] * a[0])}; };
  expect_equivalent(custom_jvp(square, rule), square, {Random(2).f64({3})});
}

// A spiking neuron with a surrogate derivative.
TEST(CustomJvp, InsideScan) {
  const Function step = [](ArraySpan a) {
    return Arrays{where(a[0] > 0.0, ones_like(a[0]), zeros_like(a[0]))};
  };
  const Function spike = custom_jvp(step, [&](ArraySpan a) {
    return Arrays{step(a)[0], a[1] / (1.0 + a[0] * a[0])};
  });
  const Function f = [&](ArraySpan a) {
    const ScanBody body = [&](ArraySpan c, ArraySpan x) {
      const Array s = spike(Arrays{c[0]})[0];
      return ScanResult{{c[0] * a[0] + x[0] - s}, {s}};
    };
    const ScanResult r = scan(body, {a[1]}, {a[2]});
    return Arrays{sum(r.ys[0] * a[2]) + sum(r.carry[0])};
  };
  const Function g = [&](ArraySpan a) {
    Array v = a[1], total = f64_scalar(0.0);
    for (int t = 0; t < 5; ++t) {
      const Array s = spike(Arrays{v})[0];
      total = total + sum(s * item(a[2], t));
      v = v * a[0] + item(a[2], t) - s;
    }
    return Arrays{total + sum(v)};
  };
  Random random(4);
  expect_equivalent(f, g, {random.f64({2}), random.f64({2}), random.f64({5, 2})}, {.differences = false});
}

TEST(CustomJvp, TangentsOfIntegersAreDropped) {
  const Function f = custom_jvp(
      [](ArraySpan a) {
        return Arrays{a[0], convert(a[0], Dtype::I32)};
      },
      [](ArraySpan a) {
        return Arrays{a[0], convert(a[0], Dtype::I32), a[1], full({}, std::int64_t{7}, Dtype::I32)};
      });
  const ScalarFunction g = [&](ArraySpan a) {
    const Arrays y = f(a);
    return y[0] + convert(y[1], Dtype::F64);
  };
  EXPECT_EQ(grad(g)(Arrays{f64_scalar(2.5)})[0].item<double>(), 1.0);
  EXPECT_EQ(jvp(make_jaxpr(f, Avals{{Dtype::F64, {}}}), {true}).active_out, (Mask{true, false}));
}

// Calls of a function trace its rules: one that calls the function would have no end. It may be called again
// afterwards, and by the rule of another function.
TEST(CustomJvp, RuleThatCallsItsFunctionIsRefused) {
  const Array x = Random(1).f64({2});
  Function f;
  f = custom_jvp([](ArraySpan a) { return Arrays{exp(a[0])}; },
                 [&](ArraySpan a) {
                   const Array y = f(a.first(1))[0];
                   return Arrays{y, y * a[1]};
                 });
  for (int again = 0; again < 2; ++again)
    expect_error<CompilationError>("calls the function itself", [&] { f(Arrays{x}); });
  Function g;
  g = custom_vjp([](ArraySpan a) { return Arrays{exp(a[0])}; },
                 [&](ArraySpan a) {
                   const Array y = g(a)[0];
                   return Arrays{y, y};
                 },
                 [](ArraySpan a) { return Arrays{a[0] * a[1]}; });
  expect_error<CompilationError>("calls the function itself", [&] { g(Arrays{x}); });
  // The function is made by a call, and so another one each time.
  const std::function<Arrays(ArraySpan)> made = [&](ArraySpan in) {
    return custom_jvp([](ArraySpan a) { return Arrays{exp(a[0])}; },
                      [&](ArraySpan a) {
                        const Array y = made(a.first(1))[0];
                        return Arrays{y, y * a[1]};
                      })(in);
  };
  for (int again = 0; again < 2; ++again)
    expect_error<CompilationError>("calls the function itself", [&] { made(Arrays{x}); });
  const Function inner = custom_jvp([](ArraySpan a) { return Arrays{exp(a[0])}; },
                                    [](ArraySpan a) {
                                      return Arrays{exp(a[0]), exp(a[0]) * a[1]};
                                    });
  const Function outer = custom_jvp([&](ArraySpan a) { return inner(inner(a)); },
                                    [&](ArraySpan a) {
                                      const Array y = inner(a.first(1))[0];
                                      return Arrays{exp(y), exp(y) * y * a[1]};
                                    });
  const Function total = [&](ArraySpan a) { return Arrays{sum(outer(a)[0])}; },
                 plain = [](ArraySpan a) { return Arrays{sum(exp(exp(a[0])))}; };
  expect_equivalent(total, plain, {x});
}

TEST(CustomJvp, RuleMustReturnValuesAndTangents) {
  const Function f =
      custom_jvp([](ArraySpan a) { return Arrays{a[0]}; }, [](ArraySpan a) { return Arrays{a[1]}; });
  const Array x = Random(1).f64({2});
  expect_error<CompilationError>("values and tangents", [&] { jvp(f)(Arrays{x, x}); });
}

// x³ whose cotangent is 100·x·ct.
Function cube() {
  return custom_vjp([](ArraySpan a) { return Arrays{a[0] * a[0] * a[0]}; },
                    [](ArraySpan a) {
                      return Arrays{a[0] * a[0] * a[0], a[0]};
                    },
                    [](ArraySpan a) { return Arrays{100.0 * a[0] * a[1]}; });
}

TEST(CustomVjp, RuleIsUsedInReverseMode) {
  const Function f = cube();
  const ScalarFunction total = [&](ArraySpan a) { return sum(f(a)[0] * a[0]); };
  const Array x = Random(1).f64({3}), xs = Random(2).f64({4, 3});
  expect_same(f(Arrays{x}), Arrays{x * x * x});
  expect_same(grad(total)(Arrays{x}), Arrays{100.0 * x * x + x * x * x});
  expect_same(vmap(grad(total))(Arrays{xs}), Arrays{100.0 * xs * xs + xs * xs * xs});
  const ScalarFunction mapped = [&](ArraySpan a) { return sum(vmap(f)(a)[0]); };
  expect_same(grad(mapped)(Arrays{xs}), Arrays{100.0 * xs});
}

TEST(CustomVjp, InsideLoopsAndConditionals) {
  const Function f = cube();
  const ScalarFunction g = [&](ArraySpan a) {
    const ScanBody body = [&](ArraySpan c, ArraySpan x) {
      return ScanResult{cond(x[0] > 0.0, f, [](ArraySpan b) { return Arrays{b[0]}; }, {c[0] * x[0]}), {}};
    };
    return scan(body, {a[0]}, {a[1]}).carry[0];
  };
  const ScalarFunction unrolled = [&](ArraySpan a) {
    const Array first = f(Arrays{a[0] * item(a[1], 0)})[0];
    return f(Arrays{first * item(a[1], 1) * item(a[1], 2)})[0];
  };
  const Arrays x{f64_scalar(0.7), Tensor::of(std::vector<double>{0.9, -1.1, 1.3}, {3})};
  expect_same(grad(g, {0, 1})(x), grad(unrolled, {0, 1})(x));
}

// A backward rule that is linear in the cotangent says what forward mode does, too.
TEST(CustomVjp, ForwardModeIsTheTransposeOfTheRule) {
  const Array x = Random(1).f64({3}), dx = Random(2).f64({3});
  expect_same(jvp(cube())(Arrays{x, dx}), Arrays{x * x * x, 100.0 * x * dx});
  expect_same(vmap(jvp(cube()))(Arrays{stack({x, dx}), stack({dx, x})}),
              Arrays{stack({x * x * x, dx * dx * dx}), stack({100.0 * x * dx, 100.0 * dx * x})});
  // Several arguments and results, a product of matrices, a detached cotangent, a function within the rule.
  const Array w = Random(3).f64({3, 2}), dw = Random(4).f64({3, 2});
  const Function twice = jit([](ArraySpan a) { return Arrays{a[0] + a[0]}; });
  const Function product = custom_vjp(
      [](ArraySpan a) {
        const Array y = dot(a[0], a[1]);
        return Arrays{y, sum(a[0])};
      },
      [](ArraySpan a) {
        const Array y = dot(a[0], a[1]);
        return Arrays{y, sum(a[0]), a[0], a[1]};
      },
      [&](ArraySpan a) {  // residuals x, w; cotangents of y and of the sum
        const Array ct = twice(Arrays{stop_gradient(a[2])})[0];
        return Arrays{dot(a[1], ct) + a[3], expand_dims(a[0], {1}) * expand_dims(ct, {0})};
      });
  expect_same(jvp(product)(Arrays{x, w, dx, dw}),
              Arrays{dot(x, w), sum(x), 2.0 * (dot(dx, w) + dot(x, dw)), sum(dx)});
  // Forward over reverse and reverse over forward agree.
  const ScalarFunction total = [&](ArraySpan a) { return sum(cube()(a)[0] * a[0]); };
  const Function forward_over_reverse = jvp(grad(total));
  const Array expected = (200.0 * x + 100.0 * x) * dx;
  expect_same(Arrays{forward_over_reverse(Arrays{x, dx})[1]}, Arrays{expected});
}

// A derivative of the derivative finds the rule again, whatever holds the call.
TEST(CustomRules, HoldAtEveryOrderAndInEveryLoop) {
  const Function ruled = custom_jvp([](ArraySpan a) { return Arrays{sin(a[0])}; },
                                    [](ArraySpan a) {
                                      return Arrays{sin(a[0]), 3.0 * cos(0.5 * a[0]) * a[1]};
                                    });
  const auto in_scan = [&](std::int64_t every) -> Function {
    return [&ruled, every](ArraySpan a) {
      return scan(
                 [&](ArraySpan c, ArraySpan) {
                   return ScanResult{ruled(c), {}};
                 },
                 {a[0]}, {}, {.length = 2, .checkpoint_every = every})
          .carry;
    };
  };
  const Function in_while = [&](ArraySpan a) {
    return Arrays{while_loop([](ArraySpan v) { return v[0] < 2; },
                             [&](ArraySpan v) {
                               return Arrays{v[0] + Array(1), ruled(v.subspan(1))[0]};
                             },
                             {Array(0), a[0]})[1]};
  };
  const Function twice = [&](ArraySpan a) { return ruled(ruled(a)); };
  const Array x = Random(1).f64({3}), dx = Random(2).f64({3});
  const auto second = [&](const Function& f) {
    return jvp(grad([&](ArraySpan a) { return sum(f(a)[0] * a[0]); }))(Arrays{x, dx})[1];
  };
  const Array expected = second(twice);
  for (const Function& f : {in_scan(0), in_scan(1), in_while, jit(twice)})
    expect_same(Arrays{second(f)}, Arrays{expected}, 1e-12);
  const Array once =
      second(ruled);  // (3x·cos(x/2) + sin x)' by the rule: 3cos(x/2) − 1.5x·sin(x/2) + 3cos(x/2)
  expect_same(Arrays{once}, Arrays{(6.0 * cos(0.5 * x) - 1.5 * x * sin(0.5 * x)) * dx}, 1e-12);
}

// What a backward rule stops stays stopped, also where forward mode takes the rule by its values.
TEST(CustomVjp, AStopInTheRuleHoldsForTheDerivativeOfTheDerivative) {
  const Function f = custom_vjp([](ArraySpan a) { return Arrays{a[0] * a[1]}; },
                                [](ArraySpan a) {
                                  return Arrays{a[0] * a[1], a[0], a[1]};
                                },
                                [](ArraySpan a) {
                                  return Arrays{sin(stop_gradient(a[1])) * a[2], a[0] * a[2]};
                                });
  const Array x = Random(1).f64({3}), y = Random(2).f64({3}), one = full({3}, 1.0, Dtype::F64);
  const Function slope = [&](ArraySpan a) {  // ∂f/∂x along ones, as a function of y
    return Arrays{jvp(f)(Arrays{x, a[0], one, zeros({3}, Dtype::F64)})[1]};
  };
  expect_same(slope(Arrays{y}), Arrays{sin(y)});
  expect_same(Arrays{jvp(slope)(Arrays{y, one})[1]}, Arrays{zeros({3}, Dtype::F64)});
  expect_same(grad([&](ArraySpan a) { return sum(slope(a)[0]); })(Arrays{y}), Arrays{zeros({3}, Dtype::F64)});
}

TEST(CustomVjp, ForwardModeNeedsALinearRule) {
  const Array x = Random(1).f64({3});
  const Function cubed = [](ArraySpan a) { return Arrays{a[0] * a[0] * a[0]}; };
  const Function kept = [](ArraySpan a) { return Arrays{a[0] * a[0] * a[0], a[0]}; };
  const std::vector<Function> rules{
      [](ArraySpan a) { return Arrays{clip(a[1], -1.0, 1.0) * a[0]}; },   // clipped
      [](ArraySpan a) { return Arrays{a[1] * a[1] * a[0]}; },             // squared
      [](ArraySpan a) { return Arrays{sign(a[1])}; },                     // its sign
      [](ArraySpan a) { return Arrays{a[0] / a[1]}; },                    // in a denominator
      [](ArraySpan a) { return Arrays{where(a[1] > 0.0, a[0], a[1])}; },  // in a condition
      [](ArraySpan a) { return Arrays{convert(convert(a[1], Dtype::I32), Dtype::F64)}; },
  };
  for (const Function& rule : rules)
    expect_error<NotSupportedError>("custom_jvp", [&] { jvp(custom_vjp(cubed, kept, rule))(Arrays{x, x}); });
}

TEST(CustomVjp, SaysWhatIsWrong) {
  const Array x = Random(1).f64({3});
  const Function f = [](ArraySpan a) { return Arrays{a[0] * 2.0}; };
  const Function nothing = [](ArraySpan) { return Arrays{}; };
  const Function total = [](ArraySpan a) { return Arrays{sum(a[0])}; };
  expect_error<ValueError>("fwd must return", [&] { custom_vjp(f, nothing, f)(Arrays{x}); });
  expect_error<CompilationError>("cotangent that bwd returns", [&] { custom_vjp(f, f, total)(Arrays{x}); });
}

}  // namespace
}  // namespace etrace
