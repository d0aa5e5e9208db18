// Targets: what they are asked, what they refuse, and what their text looks like.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "emit/c_printer.h"
#include "emit/emit.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "support/native.h"

namespace etrace::emit {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string text_for(const Target& t, const Function& f, const Avals& in) {
  return print_c(build(testing::as_program(make_jaxpr(f, in)), t));
}
const Aval kTable{Dtype::F32, {48, 64}}, kWeights{Dtype::F32, {64, 64}};
Arrays cell(ArraySpan x) { return {tanh(matmul_plain(x[0], x[1])), sum(x[0], {0})}; }

TEST(EmitTargets, AreFoundByName) {
  for (const Target& t : targets()) {
    EXPECT_EQ(&find_target(t.name), &t);
    EXPECT_FALSE(t.doc.empty());
  }
  EXPECT_EQ(native_target().name, "native");
  try {
    static_cast<void>(find_target("pdp11"));
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_THAT(e.message(), HasSubstr("there is no target 'pdp11'; targets: native, c99"));
  }
}

TEST(EmitTargets, NativeCallsTheLibraryInVectorLoops) {
  const std::string text = text_for(native_target(), cell, {kTable, kWeights});
  EXPECT_THAT(text, HasSubstr("#pragma omp simd"));
  EXPECT_THAT(text, HasSubstr("f[call0_matrix_product].run("));
  EXPECT_THAT(text, HasSubstr("for (int64_t i0 = lo; i0 < hi; ++i0) {"));
}

TEST(EmitTargets, C99StandsAlone) {
  const std::string text = text_for(find_target("c99"), cell, {kTable, kWeights});
  for (const char* foreign : {"#pragma", "etp_context", "etp_run", "call0_", "int64_t i0", "lo; "})
    EXPECT_THAT(text, Not(HasSubstr(foreign)));
  EXPECT_THAT(text, HasSubstr("void etrace_test(const void* const* a, void* const* results) {"));
  EXPECT_THAT(text, HasSubstr("s = __builtin_fmaf(x0[i0 * 64 + i2], x1[i1 + i2 * 64], s);"));
}

TEST(EmitTargets, StaticMemoryHasAnArrayForEveryType) {
  const std::string text = text_for(find_target("c99"),
                                    [](ArraySpan x) {
                                      const Array a = matmul_plain(x[0], x[1]);
                                      const Array wide =
                                          matmul_plain(convert(a, Dtype::F64), convert(x[1], Dtype::F64));
                                      return Arrays{matmul_plain(convert(wide, Dtype::F32), x[1])};
                                    },
                                    {kTable, kWeights});
  EXPECT_THAT(text, HasSubstr("static float etrace_test_f32["));
  EXPECT_THAT(text, HasSubstr("static double etrace_test_f64["));
}

TEST(EmitTargets, LimitsAreTheTargets) {
  const auto chain = [](ArraySpan x) {
    Array y = x[0];
    for (int k = 0; k < 6; ++k) y = tanh(y);
    return Arrays{y};
  };
  Target small = native_target();
  small.most_stmts = 4;
  const Program p = testing::as_program(make_jaxpr(chain, Avals{kTable}));
  EXPECT_EQ(build(p).entry.size(), 1U);
  EXPECT_GT(build(p, small).entry.size(), 1U);
  Target single = native_target();
  single.f32_sums = Dtype::F32;
  const auto columns = [](ArraySpan x) { return Arrays{sum(x[0], {0})}; };
  EXPECT_THAT(text_for(native_target(), columns, {kTable}), HasSubstr("double s1[512];"));
  EXPECT_THAT(text_for(single, columns, {kTable}), HasSubstr("float s1[512];"));
}

TEST(EmitTargets, RefusalsNameTheOperation) {
  const auto refused = [](const Function& f, const Avals& in) -> std::string {
    try {
      static_cast<void>(build(testing::as_program(make_jaxpr(f, in)), find_target("c99")));
    } catch (const NotSupportedError& e) {
      return e.message();
    }
    return "";
  };
  EXPECT_EQ(refused([](ArraySpan x) { return Arrays{sort(x[0])}; }, {kTable}),
            "'sort' runs as a kernel of the library, which code for the target 'c99' cannot call");
  EXPECT_EQ(refused(
                [](ArraySpan x) {
                  return Arrays{broadcast_to(x[0], {50'000, 50'000})};
                },
                {{Dtype::F32, {}}}),
            "an array f32[50000,50000] of result0 has more elements than the 32-bit indices of the target "
            "'c99' can count");
}

}  // namespace
}  // namespace etrace::emit
