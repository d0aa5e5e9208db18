// Too large for the machine: an error with sizes, the operation and its place, and nothing else happens.
#include "base/memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

TEST(BytesText, HasUnits) {
  EXPECT_EQ(bytes_text(0), "0 B");
  EXPECT_EQ(bytes_text(1023), "1023 B");
  EXPECT_EQ(bytes_text(1536), "1.5 KiB");
  EXPECT_EQ(bytes_text(1020 * 1024), "1020 KiB");
  EXPECT_EQ(bytes_text((std::int64_t{1} << 20) - 1), "1 MiB");
  EXPECT_EQ(bytes_text(std::int64_t{64} << 30), "64 GiB");
  EXPECT_EQ(bytes_text(std::int64_t{32} << 50), "32 PiB");
}

// Large zeros come from the system page by page, small ones are written; both are there, aligned, and may be
// written to.
TEST(Zeros, OfEverySizeAreZero) {
  for (const std::int64_t n : {0, 1, 1000, (1 << 20) - 1, 1 << 20, (1 << 20) + 3}) {
    Tensor t = Tensor::zeros({Dtype::F32, {n}});
    const std::span<const float> values = t.data<float>();
    EXPECT_TRUE(std::all_of(values.begin(), values.end(), [](float v) { return v == 0.0F; })) << n;
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(t.bytes()) % kBlockAlignment, 0U);
    if (n == 0) continue;
    static_cast<float*>(static_cast<void*>(t.writable()))[n - 1] = 2.0F;
    EXPECT_EQ(to_double(t.at(n - 1)), 2.0);
  }
}

TEST(Zeros, OfNegativeSignKeepIt) {
  const Tensor t = Tensor::full({Dtype::F64, {3}}, -0.0);
  EXPECT_TRUE(std::signbit(t.data<double>()[2]));
  EXPECT_FALSE(std::signbit(Tensor::full({Dtype::F64, {3}}, 0.0).data<double>()[2]));
}

TEST(OutOfMemory, AnArrayNamesItsTypeAndSize) {
  const std::string text = message_of<ValueError>([] { Tensor::zeros({Dtype::F64, {1 << 30, 1 << 20}}); });
  EXPECT_THAT(text, AllOf(HasSubstr("[memory] out of memory: an array f64[1073741824,1048576] takes 8 PiB"),
                          HasSubstr(" are free")));
}

TEST(OutOfMemory, AnOperationIsNamedWithItsPlace) {
  const std::string text = message_of<ValueError>([] {
    const OriginScope scope(Origin{{"rnn", "W"}, "", 0});
    iota(Dtype::I32, {std::int64_t{1} << 50}, 0);
  });
  EXPECT_THAT(text, AllOf(HasSubstr("the result i32[1125899906842624] of iota takes 4 PiB"),
                          HasSubstr("(at rnn.W)")));
}

TEST(OutOfMemory, AProgramNamesItsLargestValue) {
  const ClosedJaxpr program = make_jaxpr(
      [](ArraySpan in) {
        const OriginScope scope(Origin{{"wide"}, "", 0});
        return Arrays{sum(broadcast_to(tanh(in[0]), {1 << 30, 1 << 20}) * in[0])};
      },
      Avals{{Dtype::F64, {}}});
  const std::string text = message_of<ValueError>([&] { Executable e(program); });
  EXPECT_THAT(text,
              AllOf(HasSubstr("out of memory: a program, its largest value f64[1073741824,1048576] from"),
                    HasSubstr("PiB"), HasSubstr("(at wide)")));
}

TEST(OutOfMemory, MoreThanCanBeCountedIsRefused) {
  // Values whose sizes add up to more than 2^64 bytes, all alive at once.
  const ClosedJaxpr program = make_jaxpr(
      [](ArraySpan in) {
        Arrays wide;
        for (int i = 0; i < 8; ++i) wide.push_back(broadcast_to(in[0] + i, {std::int64_t{1} << 58}));
        Array total = wide[0];
        for (const Array& w : wide) total = total * w;
        for (const Array& w : wide) total = total + w;
        return Arrays{sum(total)};
      },
      Avals{{Dtype::F64, {}}});
  EXPECT_THAT(message_of<ValueError>([&] { Executable e(program); }), HasSubstr("out of memory"));
}

}  // namespace
}  // namespace etrace
