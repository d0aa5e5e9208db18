// The table of kernels, and contexts.
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "kernels/context.h"
#include "kernels/kernels.h"

namespace etrace::testing {
namespace {

TEST(Kernels, HaveNamesAndFieldsOfTheirOwn) {
  std::set<std::string_view> names;
  for (const KernelRow& row : kernel_rows()) {
    EXPECT_TRUE(names.insert(row.name).second) << row.name;
    EXPECT_EQ(find_kernel(row.name), &row);
    const std::set<std::string_view> fields(row.fields.begin(), row.fields.end());
    EXPECT_EQ(fields.size(), row.fields.size()) << row.name;
    EXPECT_TRUE(fields.contains("dtype")) << row.name;
    EXPECT_NE(row.targets, 0) << row.name;
  }
  EXPECT_EQ(find_kernel("no_such_kernel"), nullptr);
}

TEST(Contexts, RunEveryPartOnce) {
  ThreadPool pool(3);
  for (const etp_context& context : {serial_context(), context_of(pool), default_context()})
    for (const int parts : {0, 1, 2, 17}) {
      std::atomic<int> sum{0};
      in_parts(context, parts, [&](int part) { sum += part + 1; });
      EXPECT_EQ(sum, parts * (parts + 1) / 2);
    }
  EXPECT_EQ(serial_context().threads, 1);
  EXPECT_EQ(context_of(pool).threads, 3);
}

}  // namespace
}  // namespace etrace::testing
