// Every primitive in the table through the universal checker, with fresh samples for every seed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "compiler/position_graph.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "support/check_primitive.h"

namespace etrace::testing {
namespace {

// Rows of checker_self_test.cpp, which are wrong on purpose, share the table.
std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const Primitive* p : primitives())
    if (!p->name().starts_with("test_")) out.emplace_back(p->name());
  return out;
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name;
}

class Primitives : public ::testing::TestWithParam<std::string> {};

TEST_P(Primitives, RulesAgree) {
  const Primitive* prim = find_primitive(GetParam());
  ASSERT_NE(prim, nullptr);
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    const std::vector<Failure> failures = check_primitive(*prim, seed);
    EXPECT_TRUE(failures.empty()) << "seed " << seed << "\n" << to_string(failures);
  }
}

INSTANTIATE_TEST_SUITE_P(Table, Primitives, ::testing::ValuesIn(names()), test_name);

TEST(PrimitiveTable, NamesAreUniqueAndSorted) {
  const std::vector<const Primitive*> rows = primitives();
  ASSERT_FALSE(rows.empty());
  for (std::size_t i = 1; i < rows.size(); ++i) EXPECT_LT(rows[i - 1]->name(), rows[i]->name());
  for (const Primitive* p : rows) EXPECT_EQ(find_primitive(p->name()), p);
  EXPECT_EQ(find_primitive("no such primitive"), nullptr);
}

// A result of an elementwise row changes at most where an operand has changed.
TEST(PrimitiveTable, ElementwiseRowsKeepPlacesApart) {
  std::size_t compared = 0;
  for (const Primitive* p : primitives()) {
    if (!p->spec.elementwise || p->name().starts_with("test_")) continue;
    for (const PrimitiveSpec::Sample& s : p->spec.samples(4)) {
      const Tensor y = bind_primitive(*p, s.operands, s.params)[0].tensor();
      for (std::size_t i = 0; i < s.operands.size(); ++i) {
        const Tensor x = s.operands[i].tensor();
        if (x.shape() != y.shape() || x.size() < 2) continue;
        const std::size_t width = size_of(x.dtype()), last = static_cast<std::size_t>(x.size()) - 1;
        Tensor other = Tensor::copy_of(x.aval(), x.bytes());
        std::copy_n(x.bytes(), width, other.writable() + last * width);
        Arrays operands = s.operands;
        operands[i] = other;
        const Tensor moved = bind_primitive(*p, operands, s.params)[0].tensor();
        EXPECT_TRUE(std::equal(y.bytes(), y.bytes() + last * size_of(y.dtype()), moved.bytes())) << p->name();
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 100U);
}

// With its last sample in the place of the first.
Tensor with_another_sample(const Tensor& x) {
  const std::size_t samples = static_cast<std::size_t>(x.shape()[0]), bytes = x.aval().bytes() / samples;
  Tensor out = Tensor::copy_of(x.aval(), x.bytes());
  std::copy_n(x.bytes() + (samples - 1) * bytes, bytes, out.writable());
  return out;
}

// Whether the program is said to keep samples apart; if so, it must: what the first one holds reaches no
// other.
bool keeps_apart(const ClosedJaxpr& program, const Tensors& args, const std::vector<bool>& mapped) {
  std::vector<Var> sources;
  Tensors moved;
  for (std::size_t i = 0; i < args.size(); ++i) {
    if (mapped[i]) sources.push_back(program.jaxpr.invars[i]);
    moved.push_back(mapped[i] ? with_another_sample(args[i]) : args[i]);
  }
  const std::int64_t samples = sources[0].aval.shape[0];
  if (!why_sample_values_mix(program.jaxpr, sources, samples).empty()) return false;
  const Executable run(program);
  const Tensors y = run(args), z = run(moved);
  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i].shape().is_scalar() || y[i].shape()[0] != samples) {
      EXPECT_EQ(y[i], z[i]) << "has no samples in front, but depends on them";
      continue;
    }
    const std::size_t own = y[i].aval().bytes() / static_cast<std::size_t>(samples);
    EXPECT_TRUE(std::equal(y[i].bytes() + own, y[i].bytes() + y[i].aval().bytes(), z[i].bytes() + own))
        << "result " << i;
  }
  return true;
}

// Each operand alone, as it is: its leading axis may be anything. What is said to keep samples apart does.
TEST(PrimitiveTable, WhatIsSaidToKeepSamplesApartDoes) {
  std::size_t apart = 0, mixing = 0;
  for (const Primitive* p : primitives()) {
    if (p->name().starts_with("test_") || p->name() == "custom_vjp_linear") continue;
    SCOPED_TRACE(p->name());
    for (const PrimitiveSpec::Sample& s : p->spec.samples(4)) {
      Tensors args;
      for (const Array& a : s.operands) args.push_back(a.tensor());
      const Function one = [&](ArraySpan x) {
        return bind_primitive(*p, Arrays(x.begin(), x.end()), s.params);
      };
      const ClosedJaxpr program = make_jaxpr(one, avals_of(to_arrays(args)));
      for (std::size_t i = 0; i < args.size(); ++i) {
        if (args[i].shape().is_scalar() || args[i].shape()[0] < 2) continue;
        std::vector<bool> mapped(args.size(), false);
        mapped[i] = true;
        ++(keeps_apart(program, args, mapped) ? apart : mixing);
      }
    }
  }
  EXPECT_GT(apart, 100U);
  EXPECT_GT(mixing, 100U);
}

// As valid as x, and different where that is easy: whole numbers in another order.
Array another(const Array& x) {
  if (x.dtype() == Dtype::Bool) return logical_not(x);
  if (is_floating(x.dtype())) return convert(0.75 * convert(x, Dtype::F64), x.dtype());
  return x.rank() > 1 ? flip(x, 0) : x;
}

// What vmap makes of a primitive keeps samples apart, and of these that is known.
TEST(PrimitiveTable, SamplesOfVmapAreKnownToStayApart) {
  std::set<std::string> unknown;
  for (const Primitive* p : primitives()) {
    if (p->name().starts_with("test_") || p->name() == "custom_vjp_linear") continue;
    SCOPED_TRACE(p->name());
    for (const PrimitiveSpec::Sample& s : p->spec.samples(4)) {
      if (s.operands.empty()) continue;
      Tensors args;
      for (const Array& a : s.operands) args.push_back(stack(Arrays{a, a, another(a)}).tensor());
      const Function one = [&](ArraySpan x) {
        return bind_primitive(*p, Arrays(x.begin(), x.end()), s.params);
      };
      const ClosedJaxpr program = make_jaxpr(vmap(one), avals_of(to_arrays(args)));
      if (!keeps_apart(program, args, std::vector<bool>(args.size(), true))) unknown.emplace(p->name());
    }
  }
  // Samples that lie inside another axis, and loops whose rounds they decide.
  EXPECT_THAT(unknown, ::testing::UnorderedElementsAre("conv_general_dilated", "etp_conv", "stranger",
                                                       "tape_while", "while"));
}

}  // namespace
}  // namespace etrace::testing
