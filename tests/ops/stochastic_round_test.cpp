// Stochastic rounding to 16 bits: one of the two neighbours, right on average, exact where nothing is cut
// off.
#include "ops/stochastic_round.h"

#include <cmath>

#include "runtime/etp_math.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

class StochasticRound : public ::testing::TestWithParam<Dtype> {
 protected:
  double wide(std::uint16_t bits) const {
    return GetParam() == Dtype::BF16 ? etp_bf16_to_f32(bits) : etp_f16_to_f32(bits);
  }
  std::uint16_t rounded(float x, std::uint32_t key, std::uint32_t place = 0) const {
    return GetParam() == Dtype::BF16 ? etp_f32_to_bf16_at(x, key, place) : etp_f32_to_f16_at(x, key, place);
  }
  std::uint16_t nearest(float x) const {
    return GetParam() == Dtype::BF16 ? etp_f32_to_bf16(x) : etp_f32_to_f16(x);
  }
};

TEST_P(StochasticRound, IsRightOnAverage) {
  constexpr int kDraws = 40000;
  for (const double size : {1.0, 1.0009765, 1.0039, 3.1e-5, 6.3e-5, 2.5e-7, 1234.56, 0.3})
    for (const double sign : {1.0, -1.0}) {
      const auto x = static_cast<float>(sign * size);
      // The same place with other keys (a trace over time), and one key at many places.
      for (const bool over_time : {true, false}) {
        double sum = 0, low = kInf, high = -kInf;
        for (std::uint32_t i = 0; i < kDraws; ++i) {
          const double y = wide(over_time ? rounded(x, i * 0x9e3779b9U) : rounded(x, 77, i));
          sum += y, low = std::min(low, y), high = std::max(high, y);
        }
        ASSERT_LE(low, x);
        ASSERT_GE(high, x);
        // Neighbours: between them lies no other number of 16 bits.
        if (low != high) {
          EXPECT_EQ(wide(nearest(static_cast<float>(0.75 * low + 0.25 * high))), low) << x;
          EXPECT_EQ(wide(nearest(static_cast<float>(0.25 * low + 0.75 * high))), high) << x;
        }
        const double deviation = 0.5 * (high - low) / std::sqrt(kDraws);
        EXPECT_NEAR(sum / kDraws, x, 5 * deviation + 1e-9 * size) << (over_time ? "keys" : "places");
      }
    }
}

TEST_P(StochasticRound, KeepsWhatItCanHold) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto h = static_cast<std::uint16_t>(bits);
    const auto x = static_cast<float>(wide(h));
    for (const std::uint32_t key : {0U, 1U, 0xdeadbeefU}) {
      if (std::isnan(x))
        ASSERT_TRUE(std::isnan(wide(rounded(x, key)))) << bits;
      else
        ASSERT_EQ(rounded(x, key), h) << bits;
    }
  }
}

// As to the nearest: infinite from half a unit beyond the largest number on, whatever is drawn.
TEST_P(StochasticRound, OverflowsAsToTheNearest) {
  const double largest = GetParam() == Dtype::BF16 ? 0x1.fep127 : 65504.0;
  const double unit = GetParam() == Dtype::BF16 ? 0x1p120 : 32.0;
  for (std::uint32_t key = 0; key < 200; ++key)
    for (const double sign : {1.0, -1.0}) {
      EXPECT_EQ(wide(rounded(static_cast<float>(sign * (largest + 0.49 * unit)), key)), sign * largest);
      EXPECT_EQ(wide(rounded(static_cast<float>(sign * (largest + 0.5 * unit)), key)), sign * kInf);
    }
}

// A number that loses less than half a unit per step: to the nearest it never moves.
TEST_P(StochasticRound, SlowDecayDoesNotStop) {
  const Dtype dtype = GetParam();
  constexpr std::int64_t kPlaces = 4000;
  constexpr int kSteps = 2000;
  const double decay = dtype == Dtype::BF16 ? 0.999 : 0.9998;
  Array trace = full({kPlaces}, 1.0, dtype), stuck = trace;
  for (int t = 0; t < kSteps; ++t) {
    const Array key = full({}, static_cast<double>(static_cast<std::uint32_t>(t * 0x9e3779b9U)), Dtype::U32);
    trace = stochastic_round(decay * convert(trace, Dtype::F32), dtype, key);
    stuck = convert(decay * convert(stuck, Dtype::F32), dtype);
  }
  const double expected = std::pow(decay, kSteps);
  EXPECT_NEAR(values(mean(convert(trace, Dtype::F32)))[0] / expected, 1.0, 0.01);
  EXPECT_GT(values(stuck)[0], 1.2 * expected);
}

INSTANTIATE_TEST_SUITE_P(Types, StochasticRound, ::testing::Values(Dtype::F16, Dtype::BF16),
                         [](const auto& info) { return std::string(name(info.param)); });

TEST(StochasticRounding, IsForSixteenBits) {
  const Array x = f64({1.5}), key = full({}, 1.0, Dtype::U32);
  EXPECT_EQ(stochastic_round(x, Dtype::BF16, {}).dtype(), Dtype::BF16);
  expect_error<TypeError>("cannot round to float32", [&] { stochastic_round(x, Dtype::F32, key); });
  expect_error<TypeError>("expected uint32", [&] { stochastic_round(x, Dtype::F16, f64({1})); });
}

}  // namespace
}  // namespace etrace::testing
