// Transformations of composed functions: against finite differences, against loops, and against each other.
#include "etrace/transform.h"

#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "support/functions.h"

namespace etrace {
namespace {

using testing::directional_difference;
using testing::expect_same;
using testing::item;
using testing::looped;
using testing::Random;

constexpr double kExact = 1e-12, kDifferences = 1e-7;

// A function with most kinds of operation: product, reduction, broadcasting, selection, indexing.
// (x[4], w[4,3]) -> (y[3], s[])
Arrays model(ArraySpan a) {
  const Array h = tanh(matmul_plain(a[0], a[1]));
  const Array gated = where(h > 0.1, h * h, 0.3 * h);
  const Array z = softmax(gated * 2.0) + slice_axis(a[0], 0, 1, 4) / (2.0 + cos(h));
  return {z, logsumexp(a[0]) * mean(z)};
}
Array loss(ArraySpan a) {
  const Arrays y = model(a);
  return sum(y[0] * y[0]) + y[1];
}

struct Point {
  Array x, w, dx, dw;
  explicit Point(std::uint64_t seed = 1) {
    Random random(seed);
    x = random.f64({4});
    w = random.f64({4, 3});
    dx = random.f64({4});
    dw = random.f64({4, 3});
  }
  Arrays args() const { return {x, w}; }
};

Tensors at(const Function& f, std::span<const Tensor> x) { return to_tensors(f(to_arrays(x))); }

// f's derivative along v by differences.
Arrays differences(const Function& f, const Arrays& x, const Arrays& v) {
  Tensors direction(x.size());
  for (std::size_t i = 0; i < x.size(); ++i)
    if (v[i].defined()) direction[i] = v[i].tensor();
  const Tensors args = to_tensors(x);
  return to_arrays(
      directional_difference([&](std::span<const Tensor> a) { return at(f, a); }, args, direction, 1e-4));
}

// Forward mode ----------------------------------------------------------------------------------------------
TEST(Jvp, IsTheDirectionalDerivative) {
  const Point p;
  const Arrays out = jvp(model)(Arrays{p.x, p.w, p.dx, p.dw});
  ASSERT_EQ(out.size(), 4U);
  expect_same(ArraySpan(out).first(2), model(p.args()), kExact);
  expect_same(ArraySpan(out).subspan(2), differences(model, p.args(), {p.dx, p.dw}), kDifferences);
}

TEST(Jvp, ProgramHasTangentsOfActiveInputsOnly) {
  const Point p;
  const ClosedJaxpr f = make_jaxpr(model, avals_of(p.args()));
  const Jvp j = jvp(f, {true, false});
  EXPECT_NO_THROW(check(j.jaxpr));
  EXPECT_EQ(j.active_out, (Mask{true, true}));
  EXPECT_EQ(j.jaxpr.jaxpr.invars.size(), 3U);
  const Tensors out = evaluate(j.jaxpr, to_tensors(Arrays{p.x, p.w, p.dx}));
  const Arrays expected = differences(model, p.args(), {p.dx, Array()});
  expect_same(to_arrays(std::span(out).subspan(2)), expected, kDifferences);
}

TEST(Jvp, SymbolicZerosStayAwayUnlessForced) {
  const ClosedJaxpr f = make_jaxpr(
      [](ArraySpan a) {
        return Arrays{a[0] * 2.0, floor(a[0]), a[1], a[0] > 0.0};
      },
      Avals{{Dtype::F64, {2}}, {Dtype::F64, {}}});
  EXPECT_EQ(jvp(f, {true, false}).active_out, (Mask{true, false, false, false}));
  EXPECT_EQ(jvp(f, {false, false}).active_out, Mask(4, false));
  const Jvp forced = jvp(f, {true, false}, {true, true, true, false});
  EXPECT_EQ(forced.active_out, (Mask{true, true, true, false}));
  EXPECT_EQ(forced.jaxpr.out_avals()[5], (Aval{Dtype::F64, {2}}));
  EXPECT_EQ(forced.jaxpr.out_avals()[6], (Aval{Dtype::F64, {}}));
  EXPECT_THROW(jvp(f, {true}), ValueError);
}

TEST(Jvp, CountsArguments) {
  const Point p;
  EXPECT_THROW(jvp(model)(Arrays{p.x, p.w, p.dx}), ValueError);
}

TEST(Jvp, CapturedTracersOfAnOuterTraceAreConstants) {
  const Point p;
  // d/dx (x · w) with w of the outer function
  const Function f = [&](ArraySpan a) {
    const Function g = [&](ArraySpan b) { return Arrays{sin(b[0]) * a[0]}; };
    return Arrays{jvp(g)(Arrays{a[0], p.dx})[1]};
  };
  expect_same(f(Arrays{p.x}), Arrays{cos(p.x) * p.dx * p.x}, kExact);
  const ClosedJaxpr traced = make_jaxpr(f, Avals{p.x.aval()});
  expect_same(eval_jaxpr(traced, Arrays{p.x}), f(Arrays{p.x}), kExact);
}

// Reverse mode ----------------------------------------------------------------------------------------------
TEST(Vjp, IsTheTransposeOfJvp) {
  const Point p;
  Random random(7);
  const Array u = random.f64({3}), s = random.f64({});
  const Arrays forward = jvp(model)(Arrays{p.x, p.w, p.dx, p.dw});
  const Arrays backward = vjp(model, 2)(Arrays{p.x, p.w, u, s});
  ASSERT_EQ(backward.size(), 4U);
  const double left = (sum(u * forward[2]) + s * forward[3]).item<double>();
  const double right = (sum(backward[2] * p.dx) + sum(backward[3] * p.dw)).item<double>();
  EXPECT_NEAR(left, right, 1e-12);
}

TEST(Vjp, ChecksCotangents) {
  const Point p;
  EXPECT_THROW(vjp(model, 2)(Arrays{p.x, p.w, p.x, p.x}), ValueError);
  EXPECT_THROW(vjp(model)(Arrays{p.x, p.w, p.x}), ValueError) << "it has two outputs";
  EXPECT_THROW(vjp(model, 2)(Arrays{}), ValueError);
}

TEST(Grad, IsTheGradient) {
  const Point p;
  const Arrays g = grad(loss, {0, 1})(p.args());
  const double slope = (sum(g[0] * p.dx) + sum(g[1] * p.dw)).item<double>();
  const Function f = [](ArraySpan a) { return Arrays{loss(a)}; };
  EXPECT_NEAR(slope, differences(f, p.args(), {p.dx, p.dw})[0].item<double>(), 1e-8);
  const Arrays vg = value_and_grad(loss, {1})(p.args());
  EXPECT_NEAR(vg[0].item<double>(), loss(p.args()).item<double>(), 1e-14);
  expect_same(ArraySpan(vg).subspan(1), ArraySpan(g).subspan(1), kExact);
}

TEST(Grad, OfAnUnusedArgumentIsZero) {
  const Point p;
  const Arrays g = grad([](ArraySpan a) { return sum(a[0]); }, {0, 1})(p.args());
  expect_same(g, Arrays{ones_like(p.x), zeros_like(p.w)}, 0.0);
}

TEST(Grad, RefusesWhatHasNone) {
  const Point p;
  EXPECT_THROW(grad([](ArraySpan a) { return a[0]; })(p.args()), ValueError);
  EXPECT_THROW(grad([](ArraySpan a) { return convert(sum(a[0]), Dtype::I32); })(p.args()), ValueError);
  EXPECT_THROW(grad(loss, {2})(p.args()), ValueError);
  EXPECT_THROW(grad(loss, {-1})(p.args()), ValueError);
  EXPECT_THROW(value_and_grad(make_jaxpr([](ArraySpan) { return Arrays{}; }, Avals{})), ValueError);
}

TEST(Grad, ProgramFormGivesFurtherOutputsWithoutTheirCotangents) {
  const Point p;
  const ClosedJaxpr f = make_jaxpr(
      [](ArraySpan a) {
        return Arrays{loss(a), a[0] * 100.0};
      },
      avals_of(p.args()));
  const Tensors out = evaluate(value_and_grad(f, {true, false}), to_tensors(p.args()));
  ASSERT_EQ(out.size(), 3U);
  expect_same(to_arrays(std::span(out).subspan(1)), Arrays{p.x * 100.0, grad(loss)(p.args())[0]}, kExact);
}

TEST(Grad, IntegerArgumentsAreLeftAlone) {
  const Array table = Random(3).f64({5, 2}), index = Tensor::of(std::vector<std::int32_t>{4, 0, 4}, {3});
  const Arrays g = grad([](ArraySpan a) { return sum(square(take(a[0], a[1]))); })(Arrays{table, index});
  Array expected = zeros({5, 2}, Dtype::F64);
  expected = scatter_add(expected, index, take(2.0 * table, index));
  expect_same(g, Arrays{expected}, kExact);
}

TEST(Linearize, SplitsIntoValuesAndALinearProgram) {
  const Point p;
  const ClosedJaxpr f = make_jaxpr(model, avals_of(p.args()));
  const Linearization lin = linearize(f, {true, true});
  EXPECT_NO_THROW(check(lin.primal));
  EXPECT_NO_THROW(check(lin.linear));
  EXPECT_EQ(lin.primal.jaxpr.outs.size(), 2 + lin.num_residuals);
  const Tensors all = evaluate(lin.primal, to_tensors(p.args()));
  auto push = [&](const Array& dx, const Array& dw) {
    Tensors args(all.begin() + 2, all.end());
    args.push_back(dx.tensor());
    args.push_back(dw.tensor());
    return to_arrays(evaluate(lin.linear, args));
  };
  const Arrays once = push(p.dx, p.dw), twice = push(2.0 * p.dx, 2.0 * p.dw);
  const Arrays forward = jvp(model)(Arrays{p.x, p.w, p.dx, p.dw});
  expect_same(once, ArraySpan(forward).subspan(2), kExact);
  expect_same(twice, Arrays{2.0 * once[0], 2.0 * once[1]}, kExact);
}

TEST(Transpose, TurnsALinearProgramAround) {
  const Array w = Random(5).f64({3, 4});
  const ClosedJaxpr f = make_jaxpr(
      [](ArraySpan a) {
        return Arrays{matmul_plain(a[0], a[1]), 2.0 * a[1]};
      },
      Avals{w.aval(), {Dtype::F64, {4}}});
  const ClosedJaxpr t = transpose(f, {false, true});
  EXPECT_NO_THROW(check(t));
  const Array u = Random(6).f64({3}), v = Random(7).f64({4});
  expect_same(eval_jaxpr(t, Arrays{w, u, v}), Arrays{matmul_plain(u, w) + 2.0 * v}, kExact);
  const ClosedJaxpr first = transpose(f, {false, true}, {true, false});
  expect_same(eval_jaxpr(first, Arrays{w, u}), Arrays{matmul_plain(u, w)}, kExact);
  EXPECT_THROW(transpose(f, {true}), ValueError);
}

TEST(Transpose, RefusesWhatIsNotLinear) {
  const ClosedJaxpr f = make_jaxpr([](ArraySpan a) { return Arrays{exp(a[0])}; }, Avals{{Dtype::F64, {2}}});
  EXPECT_THROW(transpose(f, {true}), NotSupportedError);
}

// Jacobians and second derivatives --------------------------------------------------------------------------
TEST(Jacobian, ForwardAndReverseAgreeWithDifferences) {
  const Point p;
  for (const int argnum : {0, 1}) {
    const Arrays forward = jacfwd(model, argnum)(p.args()), reverse = jacrev(model, argnum)(p.args());
    expect_same(forward, reverse, kExact);
    const Array& v = argnum == 0 ? p.dx : p.dw;
    EXPECT_EQ(forward[0].rank(), 1 + v.rank());
    EXPECT_EQ(forward[1].shape(), v.shape());
    Arrays direction(2);
    direction[static_cast<std::size_t>(argnum)] = v;
    const Arrays d = differences(model, p.args(), direction);
    const Array flat = reshape(v, {-1});
    expect_same(
        Arrays{matmul_plain(reshape(forward[0], {3, -1}), flat), sum(reshape(forward[1], {-1}) * flat)}, d,
        kDifferences);
  }
  EXPECT_THROW(jacfwd(model, 2)(p.args()), ValueError);
  EXPECT_THROW(jacrev(model, -1)(p.args()), ValueError);
}

TEST(Jacobian, OfOutputsThatDoNotDepend) {
  const Point p;
  const Function f = [](ArraySpan a) { return Arrays{a[1] * 2.0, sum(a[0])}; };
  const Arrays forward = jacfwd(f)(p.args()), reverse = jacrev(f)(p.args());
  expect_same(forward, reverse, 0.0);
  expect_same(forward, Arrays{zeros({4, 3, 4}, Dtype::F64), ones({4}, Dtype::F64)}, 0.0);
}

TEST(Hessian, ForwardAndReverseOverReverse) {
  const Point p;
  const Function g = grad(loss);
  const Array forward = jacfwd(g)(p.args())[0], reverse = jacrev(g)(p.args())[0];
  expect_same(Arrays{forward}, Arrays{reverse}, 1e-11);
  expect_same(Arrays{forward}, Arrays{transpose(forward)}, 1e-11);
  const Arrays d = differences(g, p.args(), {p.dx, Array()});
  expect_same(Arrays{matmul_plain(forward, p.dx)}, d, 1e-6);
  // Reverse over forward: the gradient of a directional derivative.
  const ScalarFunction slope = [&](ArraySpan a) {
    return jvp([](ArraySpan b) { return Arrays{loss(b)}; })(Arrays{a[0], a[1], p.dx, zeros_like(p.w)})[1];
  };
  expect_same(grad(slope)(p.args()), Arrays{matmul_plain(forward, p.dx)}, 1e-11);
}

TEST(Grad, OfGradOfGrad) {
  const Array x = Tensor::full({Dtype::F64, {}}, 0.7);
  auto d = [](ScalarFunction f) {
    return ScalarFunction([g = grad(std::move(f))](ArraySpan a) { return g(a)[0]; });
  };
  const ScalarFunction f = [](ArraySpan a) { return sin(a[0]) * exp(a[0]); };
  EXPECT_NEAR(d(d(d(f)))(Arrays{x}).item<double>(), 2.0 * std::exp(0.7) * (std::cos(0.7) - std::sin(0.7)),
              1e-12);
}

// Batching --------------------------------------------------------------------------------------------------
TEST(Vmap, IsALoop) {
  Random random(11);
  const Array xs = random.f64({5, 4}), ws = random.f64({5, 4, 3}), w = random.f64({4, 3});
  expect_same(vmap(model)(Arrays{xs, ws}), looped(model, {xs, ws}, {true, true}, 5), kExact);
  expect_same(vmap(model, {0, -1})(Arrays{xs, w}), looped(model, {xs, w}, {true, false}, 5), kExact);
  expect_same(vmap(model, {-1, 0})(Arrays{item(xs, 0), ws}),
              looped(model, {item(xs, 0), ws}, {false, true}, 5), kExact);
}

TEST(Vmap, MovesAxes) {
  Random random(12);
  const Array xs = random.f64({4, 5}), ws = random.f64({4, 3, 5});
  const Arrays front = looped(model, {moveaxis(xs, 1, 0), moveaxis(ws, 2, 0)}, {true, true}, 5);
  const Function first = [](ArraySpan a) { return Arrays{model(a)[0]}; };
  expect_same(vmap(first, {1, 2}, 1)(Arrays{xs, ws}), Arrays{moveaxis(front[0], 0, 1)}, kExact);
}

TEST(Vmap, ResultsThatDoNotDependAreRepeated) {
  const Array xs = Random(13).f64({5, 4}), w = Random(14).f64({2});
  const Arrays out = vmap([&](ArraySpan) { return Arrays{w, full({}, 3.0, Dtype::F64)}; })(Arrays{xs});
  expect_same(out, Arrays{broadcast_to(w, {5, 2}), full({5}, 3.0, Dtype::F64)}, 0.0);
}

TEST(Vmap, EmptyBatch) {
  const Arrays out = vmap(model)(Arrays{zeros({0, 4}, Dtype::F64), zeros({0, 4, 3}, Dtype::F64)});
  EXPECT_EQ(avals_of(out), (Avals{{Dtype::F64, {0, 3}}, {Dtype::F64, {0}}}));
}

TEST(Vmap, SaysWhatIsWrong) {
  const Point p;
  const Array xs = zeros({5, 4}, Dtype::F64), ws = zeros({6, 4, 3}, Dtype::F64);
  EXPECT_THROW(vmap(model)(Arrays{xs, ws}), ValueError);
  EXPECT_THROW(vmap(model, {0})(Arrays{xs, p.w}), ValueError);
  EXPECT_THROW(vmap(model, {-1, -1})(p.args()), ValueError);
  EXPECT_THROW(vmap(model, {3, -1})(Arrays{xs, p.w}), ValueError);
  EXPECT_THROW(vmap(make_jaxpr(model, avals_of(p.args())), {true}, 3), ValueError);
}

TEST(Vmap, Nests) {
  Random random(15);
  const Array xs = random.f64({5, 4}), ws = random.f64({2, 4, 3});
  const Function inner = vmap(model, {0, -1});
  const Function both = vmap(inner, {-1, 0});
  expect_same(both(Arrays{xs, ws}),
              looped(
                  [&](ArraySpan a) {
                    return looped(model, {a[0], a[1]}, {true, false}, 5);
                  },
                  {xs, ws}, {false, true}, 2),
              kExact);
}

TEST(Vmap, OfDerivativesAndDerivativesOfVmap) {
  Random random(16);
  const Array xs = random.f64({5, 4}), ws = random.f64({5, 4, 3}), dxs = random.f64({5, 4}),
              dws = random.f64({5, 4, 3});
  const Arrays all{xs, ws, dxs, dws};
  const Arrays expected = looped(jvp(model), all, Mask(4, true), 5);
  expect_same(vmap(jvp(model))(all), expected, kExact);
  expect_same(jvp(vmap(model))(all), expected, kExact);
  const Function g = grad(loss, {0, 1});
  const Arrays grads = looped(g, {xs, ws}, {true, true}, 5);
  expect_same(vmap(g)(Arrays{xs, ws}), grads, kExact);
  const ScalarFunction total = [](ArraySpan a) {
    return sum(vmap([](ArraySpan b) { return Arrays{loss(b)}; })(a)[0]);
  };
  expect_same(grad(total, {0, 1})(Arrays{xs, ws}), grads, kExact);
  // One weight for all samples: gradients add up.
  const Array w = random.f64({4, 3});
  const ScalarFunction shared = [](ArraySpan a) {
    return sum(vmap([](ArraySpan b) { return Arrays{loss(b)}; }, {0, -1})(a)[0]);
  };
  const Arrays each = looped(g, {xs, w}, {true, false}, 5);
  expect_same(grad(shared, {1})(Arrays{xs, w}), Arrays{sum(each[1], {0})}, kExact);
}

TEST(Vmap, OfHessians) {
  Random random(17);
  const Array xs = random.f64({3, 4}), w = random.f64({4, 3});
  const Function hessian = jacfwd(grad(loss));
  expect_same(vmap(hessian, {0, -1})(Arrays{xs, w}), looped(hessian, {xs, w}, {true, false}, 3), 1e-11);
}

TEST(Transforms, WorkInsideARecording) {
  const Point p;
  const Function f = [](ArraySpan a) { return grad(loss, {0, 1})(a); };
  const ClosedJaxpr traced = make_jaxpr(f, avals_of(p.args()));
  EXPECT_NO_THROW(check(traced));
  expect_same(to_arrays(evaluate(traced, to_tensors(p.args()))), f(p.args()), kExact);
  const ClosedJaxpr mapped = make_jaxpr(vmap(f, {0, -1}), Avals{{Dtype::F64, {2, 4}}, p.w.aval()});
  EXPECT_NO_THROW(check(mapped));
}

// Cleaning up -----------------------------------------------------------------------------------------------
std::size_t equations(const ClosedJaxpr& j) { return j.jaxpr.eqns.size(); }

void expect_same_meaning(const ClosedJaxpr& a, const ClosedJaxpr& b, std::uint64_t seed = 1) {
  EXPECT_NO_THROW(check(b));
  Random random(seed);
  Tensors args;
  for (const Aval& aval : a.in_avals()) args.push_back(random.tensor(aval));
  expect_same(to_arrays(evaluate(b, args)), to_arrays(evaluate(a, args)), kExact);
}

TEST(DeadCode, IsRemovedWithItsConstants) {
  const Array w = Random(1).f64({4}), unused = Random(2).f64({4});
  const ClosedJaxpr f = make_jaxpr(
      [&](ArraySpan a) {
        const Array dead = exp(a[0] * unused);
        (void)sin(dead);
        return Arrays{a[0] * w, cos(a[1])};
      },
      Avals{{Dtype::F64, {4}}, {Dtype::F64, {2}}});
  const ClosedJaxpr g = eliminate_dead_code(f);
  EXPECT_EQ(equations(f), 5U);
  EXPECT_EQ(equations(g), 2U);
  EXPECT_EQ(g.consts.size(), 1U);
  EXPECT_EQ(g.in_avals(), f.in_avals());
  expect_same_meaning(f, g);
  const ClosedJaxpr second = eliminate_dead_code(f, {false, true});
  EXPECT_EQ(equations(second), 1U);
  EXPECT_TRUE(second.consts.empty());
  EXPECT_EQ(second.jaxpr.invars.size(), 2U);
  EXPECT_EQ(g.jaxpr.eqns[0].id, f.jaxpr.eqns[3].id);  // kept equations keep their identity
}

TEST(DeadCode, PrunesBodies) {
  const ClosedJaxpr f = make_jaxpr(
      [](ArraySpan a) {
        // Two independent carries and two outputs; only the first of each is used.
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan x) {
              return ScanResult{{c[0] * x[0], sin(c[1]) + x[1]}, {c[0] + 1.0, exp(c[1])}};
            },
            {a[0], a[1]}, {a[2], a[3]});
        return Arrays{r.ys[0]};
      },
      Avals{{Dtype::F64, {2}}, {Dtype::F64, {3}}, {Dtype::F64, {5, 2}}, {Dtype::F64, {5, 3}}});
  const ClosedJaxpr g = eliminate_dead_code(f);
  ASSERT_EQ(equations(g), 1U);
  EXPECT_EQ(g.jaxpr.eqns[0].in.size(), 2U);
  EXPECT_EQ(g.jaxpr.eqns[0].out.size(), 2U);
  expect_same_meaning(f, g);
}

TEST(CommonSubexpressions, AreComputedOnce) {
  const ClosedJaxpr f = make_jaxpr(
      [](ArraySpan a) {
        return Arrays{sin(a[0]) * cos(a[0]), sin(a[0]) + cos(a[0]), a[0] * 2.0, a[0] * 2.0, a[0] * 3.0};
      },
      Avals{{Dtype::F64, {4}}});
  const ClosedJaxpr g = eliminate_common_subexpressions(f);
  EXPECT_EQ(equations(f), 9U);
  EXPECT_EQ(equations(g), 6U);
  expect_same_meaning(f, g);
}

TEST(CommonSubexpressions, DistinguishParametersAndSignedZeros) {
  const ClosedJaxpr f = make_jaxpr(
      [](ArraySpan a) {
        return Arrays{sum(a[0], {0}), sum(a[0], {1}), a[0] * 0.0, a[0] * -0.0};
      },
      Avals{{Dtype::F64, {3, 3}}});
  const ClosedJaxpr g = eliminate_common_subexpressions(f);
  EXPECT_EQ(equations(g), equations(f));
  expect_same_meaning(f, g);
}

TEST(FoldConstants, EvaluatesWhatIsKnown) {
  const Array w = Random(1).f64({3});
  const ClosedJaxpr inner = make_jaxpr([](ArraySpan a) { return Arrays{a[0] * exp(a[1]) + sum(a[1])}; },
                                       Avals{{Dtype::F64, {3}}, {Dtype::F64, {3}}});
  // Bind the second input to a constant by hand: recording would evaluate it at once.
  ClosedJaxpr f = inner;
  f.jaxpr.constvars = {inner.jaxpr.invars[1]};
  f.jaxpr.invars = {inner.jaxpr.invars[0]};
  f.consts = {w.tensor()};
  const ClosedJaxpr g = fold_constants(f);
  EXPECT_EQ(equations(f), 4U);
  EXPECT_EQ(equations(g), 2U);
  EXPECT_EQ(g.consts.size(), 1U);  // exp(w); the sum became a literal
  expect_same_meaning(f, g);
  const ClosedJaxpr small = fold_constants(f, 1);
  EXPECT_EQ(equations(small), 3U);
  expect_same_meaning(f, small);
}

TEST(FoldConstants, FoldsOutputs) {
  const ClosedJaxpr f = parse(
      "{ lambda a:f64[2]=[0.1,0.2] ; b:f64[2]. let c:f64[2] = sin a\n d:f64[] = mul 2.0:f64[] 3.0:f64[] in "
      "(c, d, b) }");
  const ClosedJaxpr g = fold_constants(f);
  EXPECT_EQ(equations(g), 0U);
  expect_same_meaning(f, g);
}

TEST(Simplify, ShrinksDerivativesAndKeepsTheirMeaning) {
  const Point p;
  const ClosedJaxpr f = make_jaxpr([](ArraySpan a) { return Arrays{loss(a)}; }, avals_of(p.args()));
  const ClosedJaxpr g = value_and_grad(f);
  const ClosedJaxpr s = simplify(g).to_run();
  EXPECT_LT(equations(s), equations(g));
  expect_same_meaning(g, s);
  EXPECT_TRUE(equal(s, simplify(s).to_run()));
}

}  // namespace
}  // namespace etrace
