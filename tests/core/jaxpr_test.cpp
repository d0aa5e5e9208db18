// Structure of programs: equality up to names, hashes, nested programs, literals.
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <thread>

#include "core/programs.h"

namespace etrace {
namespace {

using test::call;
using test::kF32x3;
using test::kF64;
using test::literal;
using test::square_plus;

TEST(Jaxpr, FreshVarsAreUniqueAcrossThreads) {
  std::vector<std::vector<std::uint64_t>> ids(4);
  std::vector<std::thread> threads;
  for (auto& mine : ids)
    threads.emplace_back([&mine] {
      for (int i = 0; i < 1000; ++i) mine.push_back(fresh_var(kF64).id);
    });
  for (auto& t : threads) t.join();
  std::set<std::uint64_t> all;
  for (const auto& mine : ids) all.insert(mine.begin(), mine.end());
  EXPECT_EQ(all.size(), 4000U);
}

TEST(Jaxpr, EquationsHaveTheirOwnIds) {
  const Var x = fresh_var(kF64), y = fresh_var(kF64);
  EXPECT_NE(make_eqn(sin_p, {x}, {y}).id, make_eqn(sin_p, {x}, {y}).id);
}

TEST(Jaxpr, EqualUpToNames) {
  EXPECT_TRUE(equal(square_plus(1.0), square_plus(1.0)));
  EXPECT_EQ(hash(square_plus(1.0)), hash(square_plus(1.0)));
  EXPECT_FALSE(equal(square_plus(1.0), square_plus(2.0)));
  EXPECT_TRUE(equal(square_plus(1.0).jaxpr, square_plus(2.0).jaxpr));
  EXPECT_NE(hash(square_plus(1.0)), hash(square_plus(2.0)));
}

TEST(Jaxpr, WiringCounts) {
  const Var a = fresh_var(kF64), b = fresh_var(kF64), c = fresh_var(kF64);
  auto program = [&](const Var& left, const Var& right, const Var& out) {
    return ClosedJaxpr{{{}, {a, b}, {make_eqn(sub_p, {left, right}, {c})}, {out}}, {}};
  };
  EXPECT_FALSE(equal(program(a, b, c), program(b, a, c)));
  EXPECT_FALSE(equal(program(a, b, c), program(a, a, c)));
  EXPECT_FALSE(equal(program(a, b, c), program(a, b, a)));
  EXPECT_NE(hash(program(a, b, c)), hash(program(b, a, c)));
}

TEST(Jaxpr, OriginsDoNotCount) {
  ClosedJaxpr a = square_plus(1.0);
  a.jaxpr.eqns[0].origin = {{"rnn"}, "model.cpp", 3};
  EXPECT_TRUE(equal(a, square_plus(1.0)));
  EXPECT_EQ(hash(a), hash(square_plus(1.0)));
}

TEST(Jaxpr, ParametersAndNestedProgramsCount) {
  EXPECT_TRUE(equal(call(square_plus(1.0)), call(square_plus(1.0))));
  EXPECT_FALSE(equal(call(square_plus(1.0)), call(square_plus(2.0))));
  EXPECT_NE(hash(call(square_plus(1.0))), hash(call(square_plus(2.0))));
}

TEST(Jaxpr, TypesOfInputsAndOutputs) {
  const ClosedJaxpr p{{{}, {fresh_var(kF32x3)}, {}, {literal(1.0, Dtype::I32)}}, {}};
  EXPECT_EQ(p.in_avals(), (Avals{kF32x3}));
  EXPECT_EQ(p.out_avals(), (Avals{{Dtype::I32, {}}}));
}

TEST(Jaxpr, NestedProgramsInOrderOfParameterName) {
  const JaxprPtr f = share(square_plus(1.0)), g = share(square_plus(2.0)), h = share(square_plus(3.0));
  const Eqn eqn =
      make_eqn(jit_p, {}, {},
               {{"z", f}, {"a", Attr::list({g, nullptr})}, {"m", Attr::dict({{"k", h}})}, {"n", nullptr}});
  EXPECT_EQ(nested_jaxprs(eqn), (std::vector<JaxprPtr>{g, h, f}));
}

TEST(Literal, ComparesAsItsElementType) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(literal(nan), literal(-nan));
  EXPECT_FALSE(literal(0.0) == literal(-0.0));
  EXPECT_FALSE(literal(1.0) == literal(1.0, Dtype::F32));
  EXPECT_EQ((Literal{Dtype::F32, 0.1}), (Literal{Dtype::F32, static_cast<double>(0.1F)}));
  EXPECT_EQ((Literal{Dtype::F32, std::int64_t{1}}), (Literal{Dtype::F32, 1.0}));
  EXPECT_EQ((Literal{Dtype::BF16, 1.001}), (Literal{Dtype::BF16, 1.0}));
}

}  // namespace
}  // namespace etrace
