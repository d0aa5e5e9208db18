// What was not done, and why: both equations and the reason, in the order of the program.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emit/emit.h"
#include "etrace/control.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "support/native.h"

namespace etrace::emit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string why(const Function& f, const Avals& in, const std::vector<Alias>& aliases = {},
                const Target& target = native_target()) {
  std::vector<Refusal> all;
  const EmitProgram p = build(testing::as_program(make_jaxpr(f, in), aliases), target, &all);
  return text_of(all, p);
}
const Aval kForties{Dtype::F32, {40, 40}};

TEST(EmitWhy, NothingToSayOfOneLoop) {
  EXPECT_EQ(why([](ArraySpan x) { return Arrays{tanh(x[0]) + 1.0}; }, {kForties}), "");
}

TEST(EmitWhy, AProductStandsBetween) {
  const std::string text = why(
      [](ArraySpan x) {
        const Array a = tanh(x[0]);
        return Arrays{matmul_plain(a, x[1]) * a};
      },
      {kForties, kForties});
  EXPECT_THAT(text,
              HasSubstr("not fused: another step has to run in between: d:f32[40,40] = dot_general c b\n"
                        "    c:f32[40,40] = tanh a\n"
                        "    e:f32[40,40] = mul d c\n"));
}

TEST(EmitWhy, OtherPositions) {
  const std::string text = why(
      [](ArraySpan x) {
        const Array a = tanh(x[0]);
        return Arrays{a + transpose(a, {1, 0})};
      },
      {kForties});
  EXPECT_THAT(text, HasSubstr("not fused: an element is needed at another position\n"));
}

TEST(EmitWhy, ACopyStays) {
  // What replaces the argument is ready before the argument was read for the last time.
  const std::string text = why(
      [](ArraySpan x) {
        const Array a = matmul_plain(x[0], x[1]);
        return Arrays{a, matmul_plain(a, x[0])};
      },
      {kForties, kForties}, {{0, 0}});
  EXPECT_THAT(text, HasSubstr("copied: what lies there is still read\n"));
}

TEST(EmitWhy, ALoopStays) {
  const std::string text = why(
      [](ArraySpan x) {
        return scan(
                   [&](ArraySpan carry, ArraySpan) -> ScanResult {
                     return {{tanh(matmul_plain(carry[0], x[1]))}, {}};
                   },
                   {x[0]}, {}, {.length = 5})
            .carry;
      },
      {kForties, kForties});
  EXPECT_THAT(text, HasSubstr("stays in its loop: it is no loop over positions\n"));
}

TEST(EmitWhy, VectorsAreAskedOfTargetsThatHaveThem) {
  const auto total = [](ArraySpan x) { return Arrays{x[0] + 1.0}; };
  const Avals number{{Dtype::F32, {}}};
  EXPECT_THAT(why(total, number), HasSubstr("no vectors: it has one position\n"));
  EXPECT_THAT(why(total, number, {}, find_target("c99")), Not(HasSubstr("no vectors")));
}

}  // namespace
}  // namespace etrace::emit
