// What a program looks at before it goes on, and where it writes meanwhile.
#include "learn/plan/finite_guard.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/make_program.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "etrace/transform.h"
#include "support/native.h"

namespace etrace {
namespace {

constexpr float kInfinite = std::numeric_limits<float>::infinity();

const Eqn& the_look(const ClosedJaxpr& p) {
  const Eqn* found = nullptr;
  for (const Eqn& eqn : p.jaxpr.eqns)
    if (eqn.prim == &all_finite_p) {
      EXPECT_EQ(found, nullptr) << "one look";
      found = &eqn;
    }
  return *found;
}

// Sums, products and quotients say whether their operands are finite; exp, a divisor and a choice do not.
TEST(FiniteGuard, WhatAFiniteValueIsMadeOfNeedsNoLook) {
  const Function f = [](ArraySpan x) {
    const Array a = x[0] * x[1], b = reshape(a, {1, 2}) - 3.0, total = sum(b), e = exp(x[2]), q = a / x[3];
    return Arrays{all_finite_early(all_finite(Arrays{x[0], a, total}), Arrays{b, x[1], x[2], e, x[3], q})};
  };
  const ClosedJaxpr given = make_jaxpr(f, Avals(4, Aval{Dtype::F32, {2}}));
  const ClosedJaxpr lean = simplify(look_early(given, {false, false, false, false})).to_run();
  const Eqn& look = the_look(lean);
  EXPECT_LE(look.in.size(), 5U);
  for (const Atom& a : look.in) {
    EXPECT_NE(a, Atom(lean.jaxpr.invars[0]));
    EXPECT_NE(a, Atom(lean.jaxpr.invars[1]));
  }
  // Whatever the values are, the answer is that of all looks.
  const std::vector<float> values{1.0F, -2.0F, 0.0F, 3e38F, -3e38F, kInfinite, -kInfinite, std::nanf("")};
  std::size_t finite = 0, not_finite = 0;
  for (std::size_t code = 0; code < 8 * 8 * 8 * 8; ++code) {
    Arrays in;
    for (std::size_t k = 0, rest = code; k < 4; ++k, rest /= 8)
      in.emplace_back(Tensor::of(std::vector<float>{values[rest % 8], values[(rest + k) % 8]}, {2}));
    const bool before = eval_jaxpr(given, in)[0].tensor().to_doubles()[0] != 0.0;
    EXPECT_EQ(eval_jaxpr(lean, in)[0].tensor().to_doubles()[0] != 0.0, before) << code;
    ++(before ? finite : not_finite);
  }
  EXPECT_GT(finite, 5U);
  EXPECT_GT(not_finite, 1000U);
}

// A product of matrices leaves zeros out: it may be finite where an operand is not.
TEST(FiniteGuard, ProductsOfMatricesSayNothingOfTheirOperands) {
  const Aval square{Dtype::F32, {2, 2}};
  const ClosedJaxpr p =
      look_early(make_jaxpr(
                     [](ArraySpan x) {
                       return Arrays{all_finite(Arrays{matmul_plain(x[0], x[1]), x[0], x[1]})};
                     },
                     Avals{square, square}),
                 {false, false});
  EXPECT_EQ(the_look(p).in.size(), 3U);
}

// trace ← 0.9·trace + x, the gradient trace·f after the answer: the trace is chosen first and read where it
// stays, unless somebody is shown a value that was made of it.
Program traced(std::int64_t states, PortRole second) {
  const Aval state{Dtype::F32, {states}}, trace{Dtype::F32, {8}};
  Program p = testing::as_program(
      make_jaxpr(
          [](ArraySpan in) {
            const Array finite = all_finite(Arrays{in[1]});
            const Array next = 0.9 * in[0] + in[1];
            return Arrays{select_n(finite, Arrays{in[0], next}), next * in[1], finite, 2.0 * in[2]};
          },
          Avals{trace, trace, state}),
      {{0, 0}});
  p.arguments[0].role = p.results[0].role = PortRole::Trace;
  p.results[1].role = second;
  p.results[2].role = PortRole::Finite;
  p.results[2].name = kFinitePort;
  p.results[3].role = PortRole::State;
  return p;
}

TEST(FiniteGuard, WhatIsKeptIsReadInPlace) {
  const auto reads_kept = [](const Program& p) {
    const Atom kept = p.jaxpr.jaxpr.outs[0];
    for (const Eqn& eqn : p.jaxpr.jaxpr.eqns)
      if (std::find(eqn.in.begin(), eqn.in.end(), kept) != eqn.in.end()) return true;
    return false;
  };
  const Program gradient = exchange_buffers(traced(1, PortRole::Gradient));
  EXPECT_TRUE(gradient.exchanges.empty());
  EXPECT_TRUE(reads_kept(gradient));
  check(gradient);
  EXPECT_FALSE(reads_kept(exchange_buffers(traced(1, PortRole::Loss))));
  // No larger than the states: two buffers that change places, and nothing waits for the answer.
  const Program small = exchange_buffers(traced(8, PortRole::Gradient));
  EXPECT_EQ(small.exchanges.size(), 1U);
  EXPECT_TRUE(small.aliases.empty());
  // Same numbers where all is finite; where not, what is carried on stays.
  const Arrays good{full({8}, 2.0, Dtype::F32), full({8}, 3.0, Dtype::F32), full({1}, 1.0, Dtype::F32)};
  Arrays bad = good;
  bad[1] = full({8}, kInfinite, Dtype::F32);
  const Program before = traced(1, PortRole::Gradient);
  for (std::size_t i = 0; i < 4; ++i)
    EXPECT_EQ(eval_jaxpr(gradient.jaxpr, good)[i].tensor(), eval_jaxpr(before.jaxpr, good)[i].tensor());
  EXPECT_EQ(eval_jaxpr(gradient.jaxpr, bad)[0].tensor(), good[0].tensor());
}

}  // namespace
}  // namespace etrace
