// The pass over a trace: its kernels against the elementary equations that it stands for.
#include "etrace/ops/trace_window.h"

#include <cmath>

#include "etrace/array.h"
#include "etrace/random.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

struct WindowCase {
  std::int64_t rows, columns, batch, states, steps;
  bool gradient = true, weighted = true;
};

// x is dense, or 0 and 1 with few ones.
Arrays draw_window(const WindowCase& c, Dtype dtype, bool spikes) {
  std::uint64_t seed = 1;
  const auto draw = [&](const Shape& s) { return convert(random::normal(random::key(seed++), s), dtype); };
  const Array x = draw({c.steps, c.batch, c.rows});
  Arrays in{draw({c.batch, c.states, c.rows, c.columns}), draw({c.states, c.states, c.batch, c.columns}),
            spikes ? convert(x > 1.3, dtype) : x, draw({c.steps, c.states, c.batch, c.columns})};
  if (c.gradient) in.push_back(draw({c.states, c.batch, c.columns}));
  if (c.gradient && c.weighted) in.push_back(draw({c.steps, c.batch, c.columns}));
  return in;
}

Arrays run_window(const WindowCase& c, const Arrays& in) {
  const TracePattern dense{{c.rows, c.columns}, {}, {0, 1}, {}, {1, 0}, {}};
  TraceWindow w;
  w.trace = in[0], w.transition = in[1], w.source = in[2], w.injection = in[3];
  if (c.gradient) w.entry = in[4];
  if (c.gradient && c.weighted) w.weighted = in[5];
  const TraceWindowResult r = trace_window(dense, w);
  return c.gradient ? Arrays{r.trace, r.gradient} : Arrays{r.trace};
}

// The same, by the sums of trace_window.h.
Arrays plain_window(const WindowCase& c, const Arrays& in) {
  const auto sum_of = [](const Array& a, const Dims& axes) { return reduce_sum(a, axes); };
  const Array e = in[0];
  // P [a, c, B, p] -> [B, a, c, 1, p]; e [B, c, r, p] -> [B, 1, c, r, p]
  const Array moved = sum_of(expand_dims(transpose(in[1], {2, 0, 1, 3}), {3}) * expand_dims(e, {1}), {2});
  // x [K, B, r] -> [K, B, 1, r, 1]; q [K, a, B, p] -> [K, B, a, 1, p]
  const Array x = expand_dims(in[2], {2, 4});
  const Array added = sum_of(x * expand_dims(transpose(in[3], {0, 2, 1, 3}), {3}), {0});
  Arrays out{moved + added};
  if (!c.gradient) return out;
  Array g = sum_of(expand_dims(transpose(in[4], {1, 0, 2}), {2}) * e, {0, 1});
  if (c.weighted) g = g + sum_of(expand_dims(in[2], {3}) * expand_dims(in[5], {2}), {0, 1});
  out.push_back(g);
  return out;
}

Arrays joined(Arrays list, const Array& last) {
  list.push_back(last);
  return list;
}

// Sizes that fill tiles and sizes that do not; few and many steps; one, two and more states.
TEST(TraceWindowKernel, IsTheSumsThatItStandsFor) {
  const WindowCase cases[] = {
      {12, 32, 2, 1, 5},
      {13, 37, 3, 1, 4},
      {13, 37, 3, 2, 9},
      {1, 50, 2, 2, 4},
      {150, 16, 1, 2, 6},
      {131, 5, 2, 1, 33},
      {7, 19, 2, 3, 5},
      {12, 32, 2, 2, 3},
      {12, 32, 2, 2, 1},
      {9, 40, 2, 1, 8, false},
      {801, 21, 3, 1, 1},
      {801, 21, 3, 2, 1},
      {5, 9000, 2, 1, 1},
      {7, 12, 2, 1, 1},
      {30, 13, 1, 2, 1, false},
      {9, 40, 2, 2, 8, false},
      {9, 41, 2, 2, 8, true, false},
      {70, 21, 2, 9, 1},
      {13, 5, 1, 16, 6},
      {9, 11, 2, 8, 2, false},
  };
  for (const WindowCase& c : cases)
    for (const Dtype dtype : {Dtype::F32, Dtype::F64})
      for (const bool spikes : {false, true}) {
        SCOPED_TRACE(to_string(Shape({c.rows, c.columns, c.batch, c.states, c.steps})) +
                     (spikes ? " spikes" : ""));
        const Arrays in = draw_window(c, dtype, spikes);
        const Arrays expected = plain_window(c, in);
        EXPECT_EQ(difference(run_window(c, in), expected, dtype == Dtype::F32 ? 2e-5 : 1e-12), std::nullopt);
      }
}

// The gradient so far is added to that of the window, not the window's samples to it: the same bits as a sum
// afterwards, in every form, on any number of threads, also where it replaces what it adds to.
TEST(TraceWindowKernel, AddsToTheGradientSoFar) {
  const WindowCase cases[] = {{40, 24, 3, 1, 1}, {40, 24, 3, 2, 1}, {7, 30, 2, 1, 1}, {40, 24, 3, 1, 6},
                              {40, 24, 2, 3, 1}, {40, 24, 2, 3, 6}, {40, 24, 2, 9, 1}};
  for (const WindowCase& c : cases)
    for (const std::int64_t threads : {1, 2, 3}) {
      SCOPED_TRACE(to_string(Shape({c.rows, c.columns, c.batch, c.states, c.steps})) + " by " +
                   std::to_string(threads));
      const Arrays in = draw_window(c, Dtype::F32, false);
      const Array so_far = random::normal(random::key(99), {c.rows, c.columns});
      const TracePattern dense{{c.rows, c.columns}, {}, {0, 1}, {}, {1, 0}, {}};
      const auto program = [&](bool in_the_pass) {
        ClosedJaxpr p = make_jaxpr(
            [&](ArraySpan x) {
              TraceWindow w;
              w.trace = x[0], w.transition = x[1], w.source = x[2], w.injection = x[3], w.entry = x[4],
              w.weighted = x[5];
              if (in_the_pass) w.total = x[6];
              const TraceWindowResult r = trace_window(dense, w);
              return Arrays{r.trace, in_the_pass ? r.gradient : x[6] + r.gradient};
            },
            avals_of(joined(in, so_far)));
        for (Eqn& eqn : p.jaxpr.eqns)
          if (eqn.prim == &trace_window_p) eqn.params = eqn.params.with("threads", threads);
        return p;
      };
      const Arrays found = eval_jaxpr(program(true), joined(in, so_far)),
                   expected = eval_jaxpr(program(false), joined(in, so_far));
      for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(found[i].tensor(), expected[i].tensor());
      const Arrays by_one = run_window(c, in);
      EXPECT_EQ(found[0].tensor(), by_one[0].tensor());
      EXPECT_EQ(found[1].tensor(), (so_far + by_one[1]).tensor());
      EXPECT_NE(found[1].tensor(), by_one[1].tensor());
    }
}

// Sources that stay as they are for some steps, at one of three values: sums go by blocks of steps. All
// numbers are small integers, so that the order of a sum cannot be seen and a block that is missing or
// counted twice can.
TEST(TraceWindowKernel, AddsBlocksOfEqualStepsOnce) {
  for (const std::int64_t steps : {4, 5, 31, 32, 33, 64, 71})
    for (const std::int64_t states : {1, 2})
      for (const double change : {0.02, 0.2, 0.6}) {  // the share of steps at which a source changes
        SCOPED_TRACE(std::to_string(steps) + " steps, " + std::to_string(states) + " states");
        const WindowCase c{70, 75, 2, states, steps};
        Arrays in = draw_window(c, Dtype::F32, false);
        for (Array& a : in) a = round(a * 2.0);
        Random random(7);
        std::vector<double> x(static_cast<std::size_t>(steps * c.batch * c.rows));
        const auto step = static_cast<std::size_t>(c.batch * c.rows);
        for (std::size_t i = 0; i < x.size(); ++i) {
          const bool keeps = i >= step && random.uniform(0, 1) >= change;
          x[i] = keeps ? x[i - step] : std::floor(random.uniform(0, 3));
        }
        in[2] = array(x, in[2].shape(), Dtype::F32);
        const Arrays found = run_window(c, in), expected = plain_window(c, in);
        EXPECT_EQ(difference(found, expected, 0.0), std::nullopt);
        x[step + 3] += 1.0;  // one step of one source more is another result
        in[2] = array(x, in[2].shape(), Dtype::F32);
        EXPECT_NE(run_window(c, in)[0].tensor(), expected[0].tensor());
      }
}

// How a row is summed is decided by its own sources, so its bits do not depend on the others.
TEST(TraceWindowKernel, ARowDependsOnNoOther) {
  const WindowCase c{12, 48, 1, 2, 16};
  for (const bool spikes : {true, false}) {
    Arrays in = draw_window(c, Dtype::F32, spikes);
    const Arrays before = run_window(c, in);
    const Array others = arange(c.rows, Dtype::F32) >= 1.0;
    const Array another = draw_window(c, Dtype::F32, !spikes)[2] + 1.0;
    in[2] = where(broadcast_to(others, in[2].shape()), another, in[2]);
    const Arrays after = run_window(c, in);
    const auto first_row = [](const Arrays& r) { return slice_axis(r[0], 2, 0, 1).tensor(); };
    EXPECT_EQ(first_row(before), first_row(after));
    EXPECT_NE(before[0].tensor(), after[0].tensor());
  }
}

// What is not finite reaches the trace also where x is zero: 0·∞ is NaN.
TEST(TraceWindowKernel, LosesNoInfinity) {
  const WindowCase c{12, 48, 2, 2, 16};
  Arrays in = draw_window(c, Dtype::F32, true);
  std::vector<double> q = values(in[3]), w = values(in[5]);
  const auto last = static_cast<std::size_t>(c.batch * c.columns - 1);  // of the first step
  q[last] = kInf;
  w[last] = kNaN;
  in[3] = array(q, in[3].shape(), Dtype::F32);
  in[5] = array(w, in[5].shape(), Dtype::F32);
  const Arrays found = run_window(c, in), expected = plain_window(c, in);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::vector<double> f = values(found[i]), e = values(expected[i]);
    std::size_t odd = 0;
    for (std::size_t k = 0; k < e.size(); ++k) {
      EXPECT_EQ(std::isnan(f[k]), std::isnan(e[k])) << i << " at " << k;
      odd += std::isnan(e[k]) ? 1 : 0;
    }
    EXPECT_GT(odd, 0U);
  }
}

}  // namespace
}  // namespace etrace::testing
