// Sums that go into passes over traces: which do, and that nothing else changes.
#include "learn/plan/trace_sums.h"

#include <gtest/gtest.h>

#include "etrace/control.h"
#include "etrace/ops/numpy.h"
#include "etrace/ops/trace_window.h"
#include "etrace/random.h"
#include "support/numeric.h"

namespace etrace::testing {
namespace {

const TracePattern kDense{{9, 5}, {}, {0, 1}, {}, {1, 0}, {}};

// A step: trace, transition, injection, source, entry, weighted.
Arrays step_data() {
  const Shape shapes[] = {{2, 1, 9, 5}, {1, 1, 2, 5}, {1, 1, 2, 5}, {1, 2, 9}, {1, 2, 5}, {1, 2, 5}};
  Arrays out;
  for (const Shape& s : shapes) out.push_back(random::normal(random::key(out.size()), s));
  return out;
}
TraceWindowResult pass(ArraySpan x) {
  TraceWindow w;
  w.trace = x[0], w.transition = x[1], w.injection = x[2], w.source = x[3], w.entry = x[4], w.weighted = x[5];
  return trace_window(kDense, w);
}

struct Found {
  std::size_t sums = 0, passes = 0;  // passes: that add
};
void count(const ClosedJaxpr& p, Found& found) {
  for (const Eqn& eqn : p.jaxpr.eqns) {
    found.sums += eqn.prim == &add_p || eqn.prim == &add_any_p ? 1 : 0;
    found.passes += eqn.prim == &trace_window_p && eqn.params.boolean_or("has_total", false) ? 1 : 0;
    for (const JaxprPtr& body : nested_jaxprs(eqn)) count(*body, found);
  }
}

// What is left of a program that adds, with the same results to the last bit.
Found summed(const Function& f) {
  Arrays in = step_data();
  in.push_back(random::normal(random::key(50), {9, 5}));
  const ClosedJaxpr before = make_jaxpr(f, avals_of(in)), after = sum_in_passes(before);
  check(after);
  const Arrays expected = eval_jaxpr(before, in), found = eval_jaxpr(after, in);
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_EQ(found[i].tensor(), expected[i].tensor()) << i;
  Found out;
  count(after, out);
  return out;
}

TEST(TraceSums, GoIntoThePass) {
  for (const bool first : {true, false}) {
    const Found f = summed([&](ArraySpan x) {
      const TraceWindowResult r = pass(x);
      return Arrays{r.trace, first ? r.gradient + x[6] : x[6] + r.gradient};
    });
    EXPECT_EQ(f.sums, 0U);
    EXPECT_EQ(f.passes, 1U);
  }
}

TEST(TraceSums, GoIntoPassesOfLoops) {
  const Found f = summed([](ArraySpan x) {
    const Arrays rest(x.begin() + 1, x.begin() + 6);
    const ScanResult r = scan(
        [&](ArraySpan carry, ArraySpan) -> ScanResult {
          Arrays now{carry[0]};
          now.insert(now.end(), rest.begin(), rest.end());
          const TraceWindowResult moved = pass(now);
          return {{moved.trace, carry[1] + moved.gradient}, {}};
        },
        {x[0], x[6]}, {}, {.length = 3});
    return r.carry;
  });
  EXPECT_EQ(f.sums, 0U);
  EXPECT_EQ(f.passes, 1U);
}

// Two passes for one weight: the second adds to the first, and the first to what was there.
TEST(TraceSums, OfSeveralPassesAreAChain) {
  const Found f = summed([](ArraySpan x) {
    const TraceWindowResult a = pass(x);
    Arrays again(x.begin(), x.end());
    again[0] = x[0] * 2.0;
    const TraceWindowResult b = pass(again);
    return Arrays{a.trace, b.trace, (x[6] + a.gradient) + b.gradient};
  });
  EXPECT_EQ(f.sums, 0U);
  EXPECT_EQ(f.passes, 2U);
}

TEST(TraceSums, StayWhereAPassCannotAdd) {
  // Somebody wants the gradient alone.
  EXPECT_EQ(summed([](ArraySpan x) {
              const TraceWindowResult r = pass(x);
              return Arrays{r.trace, x[6] + r.gradient, r.gradient};
            }).passes,
            0U);
  // What it adds to follows from the pass.
  EXPECT_EQ(summed([](ArraySpan x) {
              const TraceWindowResult r = pass(x);
              return Arrays{r.trace, r.gradient + reduce_sum(r.trace, {0, 1})};
            }).passes,
            0U);
  // A number for all elements.
  EXPECT_EQ(summed([](ArraySpan x) {
              const TraceWindowResult r = pass(x);
              return Arrays{r.trace, r.gradient + 1.0};
            }).passes,
            0U);
  // Twice itself.
  EXPECT_EQ(summed([](ArraySpan x) {
              const TraceWindowResult r = pass(x);
              return Arrays{r.trace, r.gradient + r.gradient};
            }).passes,
            0U);
}

}  // namespace
}  // namespace etrace::testing
