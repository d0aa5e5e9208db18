// jit, and the inlining of calls.
#include "control/agreement.h"
#include "etrace/simplify.h"

namespace etrace {
namespace {

using testing::expect_equivalent;
using testing::expect_same;
using testing::Random;

TEST(Jit, IsOneEquationAndItsBody) {
  const Function body = [](ArraySpan a) { return Arrays{sum(sin(a[0]) * a[1]), a[0] * 2.0}; };
  const Function f = jit(body);
  Random random(1);
  const Arrays x{random.f64({3}), random.f64({3})};
  expect_equivalent(f, body, x);
  const ClosedJaxpr traced = make_jaxpr(f, avals_of(x));
  ASSERT_EQ(traced.jaxpr.eqns.size(), 1U);
  EXPECT_EQ(traced.jaxpr.eqns[0].prim, &jit_p);
}

TEST(Jit, UsesArraysFromOutside) {
  const Array w = Random(2).f64({3});
  const Function f = [&](ArraySpan a) {
    const Array scale = exp(a[0]);
    return jit([&](ArraySpan b) { return Arrays{sum(b[0] * scale * w)}; })(Arrays{a[1]});
  };
  const Function g = [&](ArraySpan a) { return Arrays{sum(a[1] * exp(a[0]) * w)}; };
  expect_equivalent(f, g, {Random(3).f64({3}), Random(4).f64({3})});
}

std::size_t calls(const Jaxpr& jaxpr) {
  std::size_t n = 0;
  for (const Eqn& e : jaxpr.eqns) {
    n += e.prim == &jit_p ? 1U : 0U;
    for (const JaxprPtr& p : nested_jaxprs(e)) n += calls(p->jaxpr);
  }
  return n;
}

TEST(InlineCalls, LeavesNoCallAtAnyDepth) {
  const Array w = Random(2).f64({3});
  const Function inner = jit([&](ArraySpan a) { return Arrays{tanh(a[0] * w), a[0]}; });
  const Function outer = jit([&](ArraySpan a) {
    const Arrays once = inner(a), twice = inner(Arrays{once[0]});
    return Arrays{twice[0] + once[1], full({}, 1.0, Dtype::F64)};
  });
  const Function f = [&](ArraySpan a) {
    const Arrays first = outer(a), second = outer(Arrays{first[0]});
    const ScanBody body = [&](ArraySpan c, ArraySpan) { return ScanResult{{inner(c)[0]}, {}}; };
    const Array h = scan(body, {second[0]}, {}, {.length = 3}).carry[0];
    const Arrays b = cond(sum(a[0]) > 0.0, inner, [](ArraySpan x) { return Arrays{x[0], x[0]}; }, {h});
    return Arrays{b[0], second[1], first[0]};
  };
  const Array x = Random(3).f64({3});
  const ClosedJaxpr traced = make_jaxpr(f, Avals{x.aval()});
  EXPECT_GE(calls(traced.jaxpr), 8U);
  const ClosedJaxpr flat = inline_calls(traced);
  EXPECT_EQ(calls(flat.jaxpr), 0U) << to_string(flat);
  EXPECT_NO_THROW(check(flat));
  expect_same(to_arrays(evaluate(flat, to_tensors(Arrays{x}))), f(Arrays{x}));
  const ClosedJaxpr simple = simplify(traced).to_run();
  EXPECT_LE(simple.jaxpr.eqns.size(), flat.jaxpr.eqns.size());
  expect_same(to_arrays(evaluate(simple, to_tensors(Arrays{x}))), f(Arrays{x}));
}

TEST(InlineCalls, OutputsThatAreArgumentsLiteralsOrConstants) {
  const Array w = Random(2).f64({3});
  const Function f = [&](ArraySpan a) {
    const Function body = [](ArraySpan b) { return Arrays{b[0], full({}, 2.0, Dtype::F64), b[1], b[0]}; };
    return jit(body)(Arrays{a[0], w});
  };
  const ClosedJaxpr flat = inline_calls(make_jaxpr(f, Avals{{Dtype::F64, {3}}}));
  EXPECT_TRUE(flat.jaxpr.eqns.empty());
  const Array x = Random(4).f64({3});
  expect_same(eval_jaxpr(flat, Arrays{x}), Arrays{x, full({}, 2.0, Dtype::F64), w, x}, 0.0);
}

TEST(InlineCalls, ReturnsAProgramWithoutCallsUnchanged) {
  const ClosedJaxpr f = make_jaxpr([](ArraySpan a) { return Arrays{sin(a[0])}; }, Avals{{Dtype::F64, {3}}});
  const ClosedJaxpr g = inline_calls(f);
  EXPECT_EQ(g.jaxpr.eqns[0].id, f.jaxpr.eqns[0].id);
  EXPECT_EQ(g.jaxpr.invars, f.jaxpr.invars);
}

}  // namespace
}  // namespace etrace
