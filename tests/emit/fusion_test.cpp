// What the passes make of small programs: how many steps are left, and what has no memory.
#include <gtest/gtest.h>

#include "emit/c_printer.h"
#include "emit/emit.h"
#include "etrace/control.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "etrace/ops/trace_window.h"
#include "etrace/simplify.h"
#include "ops/partial_dot.h"
#include "support/native.h"

namespace etrace::emit {
namespace {

struct Count {
  std::size_t nests = 0, products = 0, calls = 0, regions = 0;
};
void count(const Block& b, Count& c) {
  for (const Item& item : b) {
    if (std::holds_alternative<Nest>(item.step)) ++c.nests;
    if (std::holds_alternative<Product>(item.step)) ++c.products;
    if (std::holds_alternative<Call>(item.step)) ++c.calls;
    if (const auto* region = std::get_if<Region>(&item.step)) {
      ++c.regions;
      for (const Block& inner : region->blocks) count(inner, c);
    }
  }
}
EmitProgram built(const Function& f, const Avals& in, const std::vector<Alias>& aliases = {}) {
  return build(testing::as_program(make_jaxpr(f, in), aliases));
}
Count steps(const EmitProgram& p) {
  Count c;
  count(p.entry, c);
  return c;
}
const Aval kMatrix{Dtype::F32, {32, 48}}, kRow{Dtype::F32, {48}};

TEST(EmitFusion, AChainIsOneLoopWithoutMemory) {
  const EmitProgram p = built(
      [](ArraySpan x) {
        const Array a = tanh(x[0] * 2.0 + broadcast_to(x[1], {32, 48}));
        return Arrays{a * a - 1.0, reshape(a, {48 * 32}) + 3.0};
      },
      {kMatrix, kRow});
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(p.arena_bytes, 0U);
}

// Whether all of it is finite is known from the loop that makes it: one truth value is stored, no array.
TEST(EmitFusion, LooksJoinTheLoopThatMakesWhatTheyLookAt) {
  const auto finite = [](const Array& a) { return all(is_finite(a)); };
  const EmitProgram p = built(
      [&](ArraySpan x) {
        const Array a = tanh(x[0]) * 2.0;
        return Arrays{a, finite(a * x[0])};
      },
      {kMatrix});
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(p.arena_bytes, 0U);
  // A recurrence that becomes a loop over time takes the look in as well.
  const EmitProgram timed = built(
      [&](ArraySpan x) {
        const ScanResult r = scan(
            [](ArraySpan carry, ArraySpan now) -> ScanResult {
              const Array next = 0.5 * carry[0] + now[0];
              return {{next}, {exp(next)}};
            },
            {x[1]}, {x[0]});
        return Arrays{r.carry[0], finite(r.ys[0] * x[0])};
      },
      {kMatrix, kRow});
  EXPECT_EQ(steps(timed).regions, 0U);
  EXPECT_EQ(timed.arena_bytes, 0U);
  // What chooses between old and new by one truth value does nothing where the old stays.
  const EmitProgram chosen = built(
      [&](ArraySpan x) {
        return Arrays{select_n(finite(x[1]), Arrays{x[0], x[0] + 1.0})};
      },
      {kMatrix, kRow}, {{0, 0}});
  EXPECT_NE(print_c(chosen).find(") return;"), std::string::npos);
}

// What a loop puts into an argument that is replaced, or into a result, later steps read there: it is not
// written a second time for them.
TEST(EmitFusion, WhatStaysIsReadWhereItStays) {
  const Function next = [](ArraySpan x) {
    const Array state = x[0] * 0.9 + x[1];
    return Arrays{state, matmul_plain(state, transpose(x[1], {1, 0}))};
  };
  for (const std::vector<Alias>& aliases : {std::vector<Alias>{}, std::vector<Alias>{{0, 0}}}) {
    const EmitProgram p = built(next, {kMatrix, kMatrix}, aliases);
    EXPECT_EQ(steps(p).nests, 1U);
    EXPECT_EQ(p.arena_bytes, 0U);
  }
  // Not where what was there before is needed afterwards: the place is written at the end.
  const EmitProgram later = built(
      [](ArraySpan x) {
        const Array state = x[0] * 0.9 + x[1], first = matmul_plain(state, transpose(x[1], {1, 0}));
        return Arrays{state, first, matmul_plain(first, x[0])};
      },
      {kMatrix, kMatrix}, {{0, 0}});
  EXPECT_GT(later.arena_bytes, 0U);
}

TEST(EmitFusion, TranspositionsAndFoldsJoinTheirProducers) {
  const EmitProgram p = built(
      [](ArraySpan x) {
        const Array a = exp(x[0]);
        return Arrays{transpose(a, {1, 0}) * 2.0, sum(a * a, {0})};
      },
      {kMatrix});
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(p.arena_bytes, 0U);
}

TEST(EmitFusion, AProductOfOneTermJoinsWhatFollows) {
  const auto updated = [](std::int64_t terms) {
    const Aval x{Dtype::F32, {terms, 32}}, f{Dtype::F32, {terms, 48}};
    return built(
        [](ArraySpan in) {
          return Arrays{in[2] - 0.1 * matmul_plain(transpose(in[0], {1, 0}), in[1])};
        },
        {x, f, kMatrix}, {{0, 2}});
  };
  EXPECT_EQ(steps(updated(1)).products, 0U);
  EXPECT_EQ(steps(updated(1)).nests, 1U);
  EXPECT_EQ(updated(1).arena_bytes, 0U);  // the gradient is nowhere
  EXPECT_EQ(steps(updated(2)).products, 1U);
}

TEST(EmitFusion, ConcatenationIsWrittenByItsProducers) {
  const EmitProgram p = built(
      [](ArraySpan x) {
        return Arrays{concatenate(Arrays{x[0] * 2.0, tanh(x[0])}, 1)};
      },
      {kMatrix});
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(p.arena_bytes, 0U);
}

TEST(EmitFusion, StackedStatesStayInRegisters) {
  const EmitProgram p = built(
      [](ArraySpan x) {
        const Array both = stack(Arrays{x[0] * 2.0, x[0] + 1.0}, 2);  // [32, 48, 2]
        return Arrays{sum(both * both, {2})};
      },
      {kMatrix});
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(p.arena_bytes, 0U);
}

// A sum keeps its order, and still joins what gives its elements: what is a line of one axis in the operand
// may be several once views are followed.
TEST(EmitFusion, ALineOfSeveralAxesJoinsItsProducer) {
  const EmitProgram p = built(
      [](ArraySpan x) {
        return Arrays{sum(tanh(x[0]) + broadcast_to(x[1], {32, 48}))};
      },
      {kMatrix, kRow});
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(p.arena_bytes, 0U);
  const auto& nest = std::get<Nest>(p.entry[0].step);
  ASSERT_EQ(nest.axes.size(), 2U);
  for (const Axis& a : nest.axes) EXPECT_EQ(a.kind, Axis::Line);
  EXPECT_NE(print_c(p).find("etp_fold_sum_f32_add("), std::string::npos);
}

TEST(EmitFusion, ChainsAndLinesAreNotOneAxis) {
  const Aval x{Dtype::F64, {3, 4, 5}};  // read as [4, 3, 5]: the two reduced axes are neighbours in memory
  const EmitProgram p = built(
      [](ArraySpan in) {
        return Arrays{sum(transpose(in[0], {1, 0, 2}), {0, 2})};
      },
      {x});
  const auto& nest = std::get<Nest>(p.entry[0].step);
  ASSERT_EQ(nest.axes.size(), 3U);
  EXPECT_EQ(nest.axes[1], (Axis{4, Axis::Chain}));
  EXPECT_EQ(nest.axes[2], (Axis{5, Axis::Line}));
}

TEST(EmitFusion, SumsInDifferentOrdersStayApart) {
  const auto sums = [](bool turned) {
    return steps(built(
                     [&](ArraySpan x) {
                       return Arrays{sum(x[0]), sum(turned ? transpose(x[0], {1, 0}) : x[0] * x[0])};
                     },
                     {kMatrix}))
        .nests;
  };
  EXPECT_EQ(sums(false), 1U);
  EXPECT_EQ(sums(true), 2U);
}

TEST(EmitFusion, ARecurrencePerPositionIsATimeAxis) {
  const Aval xs{Dtype::F32, {16, 32, 48}};
  const EmitProgram p = built(
      [](ArraySpan x) {
        const ScanResult r = scan(
            [](ArraySpan c, ArraySpan in) -> ScanResult {
              const Array h = c[0] * 0.9 + in[0];
              return {{h}, {h * 2.0}};
            },
            {x[0]}, {tanh(x[1])});
        return Arrays{r.carry[0], r.ys[0] + 1.0};
      },
      {kMatrix, xs}, {{0, 0}});
  EXPECT_EQ(steps(p).regions, 0U);
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(p.arena_bytes, 0U);
}

TEST(EmitFusion, WhatFollowsARecurrenceWalksWithItBeforeItIsFolded) {
  const Aval xs{Dtype::F32, {16, 32, 48}};
  const EmitProgram p = built(
      [](ArraySpan x) {
        const ScanResult r = scan(
            [](ArraySpan c, ArraySpan in) -> ScanResult {
              const Array h = c[0] * 0.9 + in[0];
              return {{h}, {h, h * h}};
            },
            {x[0]}, {x[1]});
        const Array both = r.ys[0] * 2.0 + r.ys[1];
        return Arrays{r.carry[0], both, sum(both, {0, 1})};
      },
      {kMatrix, xs}, {{0, 0}});
  // One loop through time, which stores the sum of the two alone; one that folds it.
  EXPECT_EQ(steps(p).regions, 0U);
  EXPECT_EQ(steps(p).nests, 2U);
  EXPECT_EQ(p.arena_bytes, xs.bytes());
}

TEST(EmitFusion, CoupledStatesAreCarriedTogether) {
  const Aval states{Dtype::F32, {2, 32 * 48}}, jacobians{Dtype::F32, {16, 2, 2, 32 * 48}};
  const EmitProgram p = built(
      [](ArraySpan x) {
        const ScanResult r = scan(
            [](ArraySpan c, ArraySpan in) -> ScanResult {
              const Array next = sum(in[0] * expand_dims(c[0], {0}), {1});
              return {{next * 0.99}, {c[0]}};
            },
            {x[0]}, {x[1] * 2.0});
        return Arrays{r.carry[0], r.ys[0]};
      },
      {states, jacobians}, {{0, 0}});
  EXPECT_EQ(steps(p).regions, 0U);
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(p.arena_bytes, 0U);
}

TEST(EmitFusion, CarriesAndReplacedArgumentsAreInPlace) {
  const Aval xs{Dtype::F32, {16, 32, 48}}, weight{Dtype::F32, {48, 48}};
  const EmitProgram p = built(
      [](ArraySpan x) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan in) -> ScanResult {
              return {{tanh(matmul_plain(c[0], x[2]) + in[0])}, {}};
            },
            {x[0]}, {x[1]});
        return Arrays{r.carry[0]};
      },
      {kMatrix, xs, weight}, {{0, 0}});
  // Per step one product and one loop; the state never moves, only the product has a place.
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(steps(p).products, 1U);
  EXPECT_EQ(p.arena_bytes, kMatrix.bytes());
}

// Copies along a short axis are written out piece by piece; all pieces together are still the whole carry.
TEST(EmitFusion, CarriesWithAShortAxisAreInPlace) {
  const TracePattern dense{{24, 40}, {}, {0, 1}, {}, {1, 0}, {}};
  const Aval trace{Dtype::F32, {8, 2, 24, 40}}, transition{Dtype::F32, {2, 2, 8, 40}},
      injection{Dtype::F32, {16, 1, 2, 8, 40}}, source{Dtype::F32, {16, 1, 8, 24}};
  const auto bytes = [&](bool old_one_needed) {
    const Function f = [&](ArraySpan x) {
      const ScanResult r = scan(
          [&](ArraySpan c, ArraySpan in) -> ScanResult {
            TraceWindow w;
            w.trace = c[0], w.transition = x[1], w.injection = in[0], w.source = in[1];
            return {{trace_window(dense, w).trace}, {}};
          },
          {x[0]}, {x[2], x[3]});
      return old_one_needed ? Arrays{r.carry[0], r.carry[0] + x[0]} : r.carry;
    };
    return built(f, {trace, transition, injection, source}, {{0, 0}}).arena_bytes;
  };
  EXPECT_EQ(bytes(false), 0U);
  EXPECT_GE(bytes(true), trace.bytes());
}

// h ← tanh([x, h]·W), on the lean program.
EmitProgram recurrent(bool handed_out) {
  const Aval xs{Dtype::F32, {16, 32, 10}}, weight{Dtype::F32, {58, 48}};
  const ClosedJaxpr program = make_jaxpr(
      [&](ArraySpan x) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan in) -> ScanResult {
              const Array joined = concatenate(Arrays{in[0], c[0]}, 1);
              return {{tanh(matmul_plain(joined, x[2]))}, handed_out ? Arrays{joined} : Arrays{}};
            },
            {x[0]}, {x[1]});
        Arrays out = r.carry;
        out.insert(out.end(), r.ys.begin(), r.ys.end());
        return out;
      },
      Avals{kMatrix, xs, weight});
  return build(testing::as_program(simplify(program).to_run(), {{0, 0}}));
}

TEST(EmitFusion, ProductsGoOnWhereOthersLeftOff) {
  // One product for the data of all steps; per step one that goes on from there, in place, and one loop.
  const EmitProgram p = recurrent(false);
  EXPECT_EQ(steps(p).products, 2U);
  EXPECT_EQ(steps(p).nests, 1U);
  EXPECT_EQ(p.arena_bytes, 16 * kMatrix.bytes());
  // What is handed out is written by loops of its own, one per part.
  const EmitProgram handed_out = recurrent(true);
  EXPECT_EQ(steps(handed_out).products, 2U);
  EXPECT_EQ(steps(handed_out).nests, 3U);
  EXPECT_EQ(handed_out.arena_bytes, 16 * kMatrix.bytes());
}

// Whoever else reads the first sum must find it as it was.
TEST(EmitFusion, SumsThatOthersReadAreNotReplaced) {
  const Aval a{Dtype::F32, {32, 10}}, weight{Dtype::F32, {58, 48}};
  const auto products = [&](bool read) {
    return built(
        [&](ArraySpan x) {
          const Array first =
              bind1(partial_dot_p, {x[0], x[2]}, partial_dot_params({{1}, {0}, {}, {}}, {0, 0, 10}));
          const Array all =
              bind1(partial_dot_p, {x[1], x[2], first}, partial_dot_params({{1}, {0}, {}, {}}, {0, 10, 48}));
          return Arrays{tanh(all), read ? first * all : x[1] * all};
        },
        {a, kMatrix, weight});
  };
  EXPECT_EQ(products(false).arena_bytes, kMatrix.bytes());
  EXPECT_EQ(products(true).arena_bytes, 2 * kMatrix.bytes());
}

TEST(EmitFusion, WhatMustWaitIsNotJoined) {
  // The sum of all must be known before any element can be divided by it.
  const EmitProgram p = built([](ArraySpan x) { return Arrays{x[0] / sum(x[0])}; }, {kMatrix});
  EXPECT_EQ(steps(p).nests, 2U);
}

TEST(EmitText, EqualProgramsHaveEqualTextsWithEquationsAndModules) {
  const auto text = [] {
    return print_c(built(
        [](ArraySpan x) {
          const OriginScope scope({{"rnn", "W"}, {}, 0});
          return Arrays{tanh(x[0]) * 2.0};
        },
        {kMatrix}));
  };
  EXPECT_EQ(text(), text());
  EXPECT_NE(text().find("= tanh a    rnn.W"), std::string::npos);
  EXPECT_NE(text().find("static void loop0_rnn_W(char* const* p"), std::string::npos);
  EXPECT_NE(text().find("char* const in0_argument0 = (char*)a[0]; /* f32[32,48] argument0 */"),
            std::string::npos)
      << text();
}

}  // namespace
}  // namespace etrace::emit
