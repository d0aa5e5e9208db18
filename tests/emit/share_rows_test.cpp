// Which loops over time threads take by rows: those whose rows need nothing of each other. The proof by names
// follows such loops row by row as well.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emit/c_printer.h"
#include "emit/emit.h"
#include "etrace/etrace.h"
#include "etrace/ops/index.h"
#include "etrace/ops/numpy.h"
#include "etrace/ops/reduce.h"
#include "support/native.h"

namespace etrace::emit::share_rows_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Loops of any size are worth sharing.
Target eager() {
  Target t = native_target();
  t.part_work = 1;
  return t;
}
const Target kEager = eager();

struct Built {
  EmitProgram program;
  std::string why;
  const Region* loop = nullptr;
};
Built built(const Program& p, const Target& t = kEager) {
  std::vector<Refusal> all;
  Built out{build(p, t, &all), {}};
  out.why = text_of(all, out.program);
  for (const Item& item : out.program.entry)
    if (const auto* region = std::get_if<Region>(&item.step); region != nullptr && out.loop == nullptr)
      out.loop = region;
  return out;
}

using Body = std::function<Array(const Array& h, const Array& x, const Array& w)>;
constexpr std::int64_t kSteps = 5, kSamples = 6, kUnits = 7;
// h' = body(h, x[t], w), all of them kept.
Program loop_of(const Body& body, bool reverse = false) {
  return testing::as_program(make_jaxpr(
      [&](ArraySpan in) {
        const ScanResult r = scan(
            [&](ArraySpan carry, ArraySpan x) -> ScanResult {
              const Array h = body(carry[0], x[0], in[2]);
              return {{h}, {h}};
            },
            {in[0]}, {in[1]}, {.reverse = reverse});
        return Arrays{r.carry[0], r.ys[0]};
      },
      Avals{{Dtype::F32, {kSamples, kUnits}},
            {Dtype::F32, {kSteps, kSamples, kUnits}},
            {Dtype::F32, {kUnits, kUnits}}}));
}
Array recurrent_step(const Array& h, const Array& x, const Array& w) { return tanh(matmul_plain(h, w) + x); }

TEST(EmitShareRows, SamplesOfARecurrentLayer) {
  for (const bool reverse : {false, true}) {
    const Program p = loop_of(recurrent_step, reverse);
    const Built b = built(p);
    ASSERT_NE(b.loop, nullptr);
    EXPECT_EQ(b.loop->rows, kSamples);
    EXPECT_GT(b.loop->most_parts, 1);
    EXPECT_THAT(b.why, Not(HasSubstr("threads meet")));
    EXPECT_THAT(print_c(b.program), HasSubstr("etp_share_rows(r, rows0, 6"));
    EXPECT_NO_THROW(build_proved(p, kEager));
  }
}

// Flat loops and those of rows have samples in common; a product's result is an operand of the next one.
TEST(EmitShareRows, SeveralProductsAndFlatLoops) {
  const Program p = loop_of([](const Array& h, const Array& x, const Array& w) {
    const Array a = tanh(matmul_plain(h, w) * x), m = max(a, {1}, true);
    return matmul_plain(a - m, w) + 0.5 * h;
  });
  EXPECT_EQ(built(p).loop->rows, kSamples);
  EXPECT_NO_THROW(build_proved(p, kEager));
}

void expect_refused(const Body& body, const char* reason) {
  const Program p = loop_of(body);
  const Built b = built(p);
  ASSERT_NE(b.loop, nullptr);
  EXPECT_EQ(b.loop->rows, 0);
  EXPECT_THAT(b.why, HasSubstr(std::string("threads meet at every step: ") + reason));
  EXPECT_THAT(print_c(b.program), Not(HasSubstr("etp_share_rows(r")));
  EXPECT_NO_THROW(build_proved(p, kEager));
}

TEST(EmitShareRows, SamplesThatSeeEachOther) {
  expect_refused([](const Array& h, const Array& x,
                    const Array& w) { return recurrent_step(h, x, w) - mean(h, {0}, true); },
                 "its steps have no rows in common");
  expect_refused(
      [](const Array& h, const Array& x, const Array& w) { return recurrent_step(flip(h, 0), x, w); },
      "a row reads or writes another one's");
}

TEST(EmitShareRows, AMatrixThatTheLoopMakes) {
  expect_refused(
      [](const Array& h, const Array& x, const Array& w) {
        return recurrent_step(h, x, matmul_plain(transpose(h, {1, 0}), h) + w);
      },
      "");
}

TEST(EmitShareRows, ALookupAtRunTime) {
  expect_refused(
      [](const Array& h, const Array& x, const Array& w) {
        const Array at = convert(abs(x) * 3.0, Dtype::I32);
        return recurrent_step(h, take_along_axis(h, at, 1), w);
      },
      "");
}

TEST(EmitShareRows, AnOrderOfAllRows) {
  expect_refused(
      [](const Array& h, const Array& x, const Array& w) { return recurrent_step(sort(h, 1), x, w); },
      "a kernel shares its work by itself");
}

TEST(EmitShareRows, OneSampleHasOneRow) {
  const Program p = testing::as_program(make_jaxpr(
      [](ArraySpan in) {
        return scan(
                   [&](ArraySpan c, ArraySpan) -> ScanResult {
                     return {{tanh(matmul_plain(c[0], in[1]))}, {}};
                   },
                   {in[0]}, {}, {.length = 4})
            .carry;
      },
      Avals{{Dtype::F32, {1, 8}}, {Dtype::F32, {8, 8}}}));
  EXPECT_EQ(built(p).loop->rows, 0);
}

TEST(EmitShareRows, WhatTheTargetSays) {
  const Program p = loop_of(recurrent_step);
  EXPECT_THAT(built(p, native_target()).why, HasSubstr("threads meet at every step: it has little to do\n"));
  Target small = kEager;
  small.near_bytes = 4 * kUnits * kUnits - 1;
  EXPECT_THAT(built(p, small).why, HasSubstr("every thread would read all of its matrices"));
  for (const char* alone : {"c99", "cuda"}) {
    const Built b = built(p, find_target(alone));
    EXPECT_THAT(b.why, Not(HasSubstr("threads meet"))) << alone;
  }
}

TEST(EmitShareRows, ForwardPassesOfLearners) {
  for (const char* model : {"gru", "lif_expon", "alif", "lstm"})
    for (const char* rule : {"D_RTRL", "pp_prop"}) {
      SCOPED_TRACE(std::string(model) + " " + rule);
      const ReadyModel ready = make_model(model, {.sizes = {3, 5, 2}, .batch = 4});
      LearnerOptions how;
      how.batch_size = 4;
      how.execution_window = 3;
      const Learner learner = compile(*ready.module, rule, ready.example, how);
      const StepFunction f = [](StepCall& m, ArraySpan s) -> LossAndAux {
        return {loss::mse(m(s[0]), s[1])};
      };
      const Avals slices{ready.example[0].aval(), (*ready.module)(ready.example[0]).aval()};
      const Program p = learner.plan(f, slices).at("window");
      const Built b = built(p);
      ASSERT_NE(b.loop, nullptr);
      EXPECT_EQ(b.loop->rows, 4) << b.why;
      EXPECT_NO_THROW(build_proved(p, kEager));
    }
}

// Rows that are not their own: right time by time, wrong row by row.
TEST(EmitShareRows, TheProofFindsRowsThatMeet) {
  EmitProgram p = build_proved(loop_of([](const Array& h, const Array& x, const Array& w) {
                                 return recurrent_step(flip(h, 0), x, w);
                               }),
                               kEager);
  const auto right = follow(p);
  EXPECT_EQ(follow(p, {.backwards = true}), right);
  for (Item& item : p.entry)
    if (auto* region = std::get_if<Region>(&item.step)) region->rows = kSamples;
  try {
    EXPECT_NE(follow(p, {.backwards = true}), right);
  } catch (const InternalError&) {
  }
}

// What is needed at different steps may share memory where all threads are at one step, and not here.
TEST(EmitShareRows, TheProofFindsMemoryThatThreadsShare) {
  EmitProgram p = build_proved(loop_of([](const Array& h, const Array& x, const Array& w) {
                                 const Array a = matmul_plain(tanh(matmul_plain(h, w)), w);
                                 return matmul_plain(max(a, {1}, true) * x, w);
                               }),
                               kEager);
  const auto right = follow(p);
  std::vector<Value*> inside;
  for (Value& v : p.values)
    if (v.home == Value::Arena && v.depth > 1) inside.push_back(&v);
  ASSERT_GE(inside.size(), 3U);
  for (Value* v : inside) v->index = inside[0]->index;
  try {
    EXPECT_NE(follow(p, {.backwards = true}), right);
  } catch (const InternalError&) {
  }
}

}  // namespace
}  // namespace etrace::emit::share_rows_test
