// Every primitive in the table through the universal checker, with fresh samples for every seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

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

}  // namespace
}  // namespace etrace::testing
