// The proof by names: it accepts what the passes make, and finds programs that were spoilt on purpose.
#include <gtest/gtest.h>

#include "emit/emit.h"
#include "emit/passes.h"
#include "etrace/etrace.h"
#include "etrace/ops/reduce.h"
#include "support/native.h"
#include "support/random_programs.h"

namespace etrace::emit {
namespace {

const Aval kRows{Dtype::F64, {6, 7}}, kSevens{Dtype::F64, {7, 7}};

Program program_of(const Function& f, const Avals& in, const std::vector<Alias>& aliases = {}) {
  return testing::as_program(make_jaxpr(f, in), aliases);
}
// Two products, with a step in between that keeps a value alive over the second one.
Program two_products() {
  return program_of(
      [](ArraySpan x) {
        const Array a = tanh(matmul_plain(x[0], x[1])), b = matmul_plain(a, x[1]);
        return Arrays{a * b, sum(b, {0})};
      },
      {kRows, kSevens});
}

template <class F>
void for_each_item(Block& b, const F& f) {
  for (Item& item : b) {
    f(item);
    if (auto* region = std::get_if<Region>(&item.step))
      for (Block& inner : region->blocks) for_each_item(inner, f);
  }
}

TEST(EmitProof, LearnersKeepTheirMeaning) {
  for (const char* model : {"gru", "lif_expon", "conv_rnn"})
    for (const char* name : {"step", "window"}) {
      SCOPED_TRACE(std::string(model) + " " + name);
      const ReadyModel ready = make_model(model, {.batch = 2});
      LearnerOptions how;
      how.batch_size = 2;
      how.execution_window = 3;
      const Learner learner = compile(*ready.module, D_RTRL{}, ready.example, how);
      const StepFunction f = [](StepCall& m, ArraySpan s) -> LossAndAux {
        return {loss::mse(m(s[0]), s[1])};
      };
      const Avals slices{ready.example[0].aval(), (*ready.module)(ready.example[0]).aval()};
      const Program p = learner.plan(f, slices).at(name);
      for (const Target& t : targets()) EXPECT_NO_THROW(build_proved(p, t)) << t.name;
    }
}

TEST(EmitProof, RandomProgramsKeepTheirMeaning) {
  for (const std::int64_t batch : {1, 5})
    EXPECT_NO_THROW(build_proved(testing::random_programs(3, 20, Dtype::F64, batch).program));
}

TEST(EmitProof, LoopsAndBranchesAreFollowed) {
  const Program p = program_of(
      [](ArraySpan x) {
        const Arrays settled = while_loop([](ArraySpan s) { return less(sum(s[0]), Array(100.0)); },
                                          [](ArraySpan s) {
                                            return Arrays{s[0] * 2.0 + transpose(s[0], {1, 0})};
                                          },
                                          {x[0]});
        const Arrays branch = cond(
            greater(sum(x[0]), Array(0.0)), [](ArraySpan s) { return Arrays{s[0] + 1.0}; },
            [](ArraySpan s) { return Arrays{tanh(s[0])}; }, {settled[0]});
        return Arrays{branch[0], settled[0]};
      },
      {kSevens}, {{0, 0}});
  EXPECT_NO_THROW(build_proved(p));
}

TEST(EmitProof, PlacesThatOverlapAreFound) {
  EmitProgram p = build_proved(two_products());
  const auto right = follow(p);
  std::vector<Value*> placed;
  for (Value& v : p.values)
    if (v.home == Value::Arena) placed.push_back(&v);
  ASSERT_GE(placed.size(), 2U);
  for (std::size_t shift : {0, 8}) {  // all at one place, or nearly
    for (std::size_t k = 0; k < placed.size(); ++k) placed[k]->index = k * shift;
    try {
      EXPECT_NE(follow(p), right);
    } catch (const InternalError&) {
    }
  }
}

TEST(EmitProof, AProductOverItsFactorIsFound) {
  EmitProgram p = build_proved(
      program_of([](ArraySpan x) { return Arrays{matmul_plain(x[0], x[1])}; }, {kSevens, kSevens}));
  for_each_item(p.entry, [&](Item& item) {
    if (auto* q = std::get_if<Product>(&item.step)) q->c.value = q->a.value;
  });
  EXPECT_THROW(static_cast<void>(follow(p)), InternalError);
}

// y[i] = x[i] and then y read at another position than it is written: right forwards alone.
TEST(EmitProof, PositionsThatNeedEachOtherAreFound) {
  EmitProgram p =
      build_proved(program_of([](ArraySpan x) { return Arrays{tanh(x[0])}; }, {{Dtype::F64, {8}}}, {{0, 0}}));
  Nest* nest = nullptr;
  for_each_item(p.entry, [&](Item& item) { nest = std::get_if<Nest>(&item.step); });
  ASSERT_NE(nest, nullptr);
  const auto right = follow(p);
  EXPECT_EQ(follow(p, {.backwards = true}), right);
  nest->axes[0].size = 7;
  for (Stmt& s : nest->body)
    if (s.kind == Stmt::Store) s.at.first = 1;
  EXPECT_NE(follow(p), follow(p, {.backwards = true}));
}

TEST(EmitProof, AnotherFormulaIsFound) {
  EmitProgram p = build_proved(two_products());
  const auto right = follow(p);
  bool changed = false;
  for_each_nest(p.entry, [&](Nest& n) {
    for (Stmt& s : n.body)
      if (s.kind == Stmt::Apply && !changed) {
        s.text += " + 1";
        changed = true;
      }
  });
  ASSERT_TRUE(changed);
  EXPECT_NE(follow(p), right);
}

}  // namespace
}  // namespace etrace::emit
