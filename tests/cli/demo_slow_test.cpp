// etrace demo ends well and fits a terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/process.h"

namespace etrace {
namespace {

using ::testing::HasSubstr;

// The smallest cosine of the rows of the table that theory does not call exact, as it stands there.
std::string smallest_inexact_cosine(const std::string& text) {
  std::string smallest = "1.0000";
  std::istringstream lines(text.substr(text.find("deviation   expected")));
  std::string line;
  for (std::getline(lines, line); std::getline(lines, line) && !line.empty();) {
    std::istringstream words(line);
    std::string parameter, cosine, deviation, expected;
    words >> parameter >> cosine >> deviation >> expected;
    if (expected != "exact" && std::stod(cosine) < std::stod(smallest)) smallest = cosine;
  }
  return smallest;
}

TEST(Demo, VerifiesTheGradientAndSolvesTheTask) {
  const auto r = testing::run_etrace({"demo"});
  EXPECT_EQ(r.code, 0) << r.text;
  EXPECT_THAT(r.text, HasSubstr("learned online, through time:\n    rnn/Wz/weight.weight, "));
  EXPECT_THAT(r.text, HasSubstr("What must be exact is exact."));
  EXPECT_THAT(r.text, HasSubstr("with cosines of at least " + smallest_inexact_cosine(r.text) + ":"));
  EXPECT_THAT(r.text, HasSubstr("Solved after "));
  EXPECT_THAT(r.text, HasSubstr("% of images that it never saw are named right; guessing gives "));
  std::istringstream lines(r.text);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
}

}  // namespace
}  // namespace etrace
