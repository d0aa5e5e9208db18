// What depends on what, and what is known of values, through bodies and around loops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/flow.h"
#include "etrace/axes.h"
#include "etrace/control.h"
#include "etrace/etp.h"
#include "etrace/facts.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"

namespace etrace::testing {
namespace {

using ::testing::ElementsAre;

const Aval kVector{Dtype::F64, {3}};

ClosedJaxpr program(const Function& f, const Avals& in) { return make_jaxpr(f, in); }

// a = sin x; b = stop_gradient a; c = b + y; d = a * y
struct Small {
  ClosedJaxpr closed = program(
      [](ArraySpan x) {
        const Array a = sin(x[0]), b = stop_gradient(a);
        return Arrays{b + x[1], a * x[1]};
      },
      {kVector, kVector});
  const Jaxpr& j = closed.jaxpr;
};

TEST(Flow, ForwardByValueAndByDerivative) {
  const Small s;
  const VarIds x{s.j.invars[0].id};
  EXPECT_THAT(forward(s.j, x).eqns, ElementsAre(0, 1, 2, 3));
  const Reached slopes = forward(s.j, x, {By::Derivative});
  EXPECT_THAT(slopes.eqns, ElementsAre(0, 3));
  EXPECT_FALSE(slopes.holds(s.j.outs[0]));
  EXPECT_TRUE(slopes.holds(s.j.outs[1]));
}

TEST(Flow, WhatDoesNotPassIsReachedAndHandsNothingOn) {
  const Small s;
  const Var a = s.j.eqns[0].out[0];
  const Reached r = forward(s.j, {s.j.invars[0].id}, {By::Value, {}, [&](const Var& v) { return v != a; }});
  EXPECT_TRUE(r.holds(a));
  EXPECT_THAT(r.eqns, ElementsAre(0));
}

TEST(Flow, BackwardAndBetween) {
  const Small s;
  EXPECT_THAT(backward(s.j, ids_of(std::vector<Atom>{s.j.outs[1]})).eqns, ElementsAre(0, 3));
  EXPECT_THAT(between(s.j, {s.j.invars[1].id}, ids_of(std::vector<Atom>{s.j.outs[0]})), ElementsAre(2));
  const ProgramIndex index(s.j);
  EXPECT_EQ(index.maker(s.j.outs[1]), &s.j.eqns[3]);
  EXPECT_EQ(index.uses(s.j.eqns[0].out[0]), 2U);
}

AxisSource along(std::size_t axis) { return {AxisSource::Along, axis}; }

TEST(Axes, OfTrainableOperatorsFollowFromTheirLowering) {
  const ClosedJaxpr p = program([](ArraySpan x) { return Arrays{matmul(x[0], x[1])}; },
                                {{Dtype::F64, {2, 3}}, {Dtype::F64, {3, 4}}});
  const AxisTable t = axes_of(p.jaxpr.eqns[0]);
  EXPECT_EQ(t.at(0, 0), along(0));
  EXPECT_EQ(t.at(0, 1).kind, AxisSource::Same);
  EXPECT_EQ(t.at(1, 0).kind, AxisSource::Same);
  EXPECT_EQ(t.at(1, 1), along(1));
}

// c ← c + x_t·w, y_t = c: samples stay apart, time does not.
TEST(Axes, OfLoopsFollowFromTheirBodies) {
  const ClosedJaxpr p = program(
      [](ArraySpan x) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan xs) {
              const Array next = c[0] + dot_general(xs[0], x[2], {{1}, {0}, {}, {}});
              return ScanResult{{next}, {next}};
            },
            {x[0]}, {x[1]});
        return Arrays{r.carry[0], r.ys[0]};
      },
      {{Dtype::F64, {2, 3}}, {Dtype::F64, {5, 2, 3}}, {Dtype::F64, {3, 3}}});
  const Eqn& loop = p.jaxpr.eqns.back();
  const auto operand = [&](std::size_t invar) {
    for (std::size_t i = 0; i < loop.in.size(); ++i)
      if (loop.in[i] == Atom(p.jaxpr.invars[invar])) return i;
    return loop.in.size();
  };
  const AxisTable t = axes_of(loop);
  EXPECT_EQ(t.at(0, operand(0), 0), along(0));
  EXPECT_EQ(t.at(0, operand(1), 0), along(1));
  EXPECT_EQ(t.at(1, operand(1), 0).kind, AxisSource::Same);
  EXPECT_EQ(t.at(1, operand(1), 1), along(1));
  EXPECT_EQ(t.at(0, operand(1), 1).kind, AxisSource::Any);
}

TEST(Facts, AroundLoopsHoldOnlyIfTheyHoldInEveryRound) {
  const auto sign_of = [](const Function& next) {
    const ClosedJaxpr p = program(
        [&](ArraySpan x) {
          return scan(
                     [&](ArraySpan c, ArraySpan) {
                       return ScanResult{{next(c)[0]}, {}};
                     },
                     {abs(x[0])}, {}, {.length = 3})
              .carry;
        },
        {kVector});
    return KnownFacts(p.jaxpr).of(p.jaxpr.outs[0]).sign;
  };
  EXPECT_EQ(sign_of([](ArraySpan c) { return Arrays{c[0] + 1.0}; }), Sign::Unsigned);
  EXPECT_EQ(sign_of([](ArraySpan c) { return Arrays{c[0] * c[0]}; }), Sign::Unsigned);
  EXPECT_EQ(sign_of([](ArraySpan c) { return Arrays{c[0] - 1.0}; }), Sign::Any);
  EXPECT_EQ(sign_of([](ArraySpan c) { return Arrays{-c[0]}; }), Sign::Any);
}

}  // namespace
}  // namespace etrace::testing
