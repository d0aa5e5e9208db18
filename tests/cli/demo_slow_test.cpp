// etrace demo ends well and fits a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/process.h"

namespace etrace {
namespace {

using ::testing::HasSubstr;

TEST(Demo, VerifiesTheGradientAndSolvesTheTask) {
  const auto r = testing::run_etrace({"demo"});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("learned online, through time:\n    rnn/Wz/weight.weight, "));
  EXPECT_THAT(r.text, HasSubstr("What must be exact is exact."));
  EXPECT_THAT(r.text, HasSubstr("Solved after "));
  std::istringstream lines(r.text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

}  // namespace
}  // namespace etrace
