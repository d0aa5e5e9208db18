// Every primitive in the table through the universal checker, with fresh samples for every seed.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace etrace::testing
