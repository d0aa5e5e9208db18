// Learning-rate schedules: values, recording, and what they refuse.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "support/errors.h"

namespace etrace::optim {
namespace {

using etrace::testing::message_of;
using ::testing::HasSubstr;

constexpr double kExact = 1e-14;

TEST(Schedule, ConstantAndDecays) {
  const Schedule number = 0.1;
  EXPECT_EQ(number.at(0), 0.1);
  EXPECT_EQ(schedule::constant(0.1).at(1000), 0.1);

  const Schedule steps = schedule::step_decay(0.8, 0.5, 3);
  for (int s = 0; s < 30; ++s) EXPECT_NEAR(steps.at(s), 0.8 * std::pow(0.5, s / 3), kExact) << s;
  const Schedule smooth = schedule::exponential(0.8, 0.9, 4);
  for (int s = 0; s < 30; ++s) EXPECT_NEAR(smooth.at(s), 0.8 * std::pow(0.9, s / 4.0), kExact) << s;
}

TEST(Schedule, StepDecayDropsAtTheRightStepInSinglePrecision) {
  const Schedule steps = schedule::step_decay(1.0, 0.5, 3);
  const auto drops = [&](std::int64_t s) {
    return std::lround(-std::log2(steps(full({}, s, Dtype::I32)).item<double>()));
  };
  for (std::int64_t s = 0; s < 300; ++s) EXPECT_EQ(drops(s), s / 3) << s;
}

TEST(Schedule, Warmup) {
  const Schedule warm = schedule::linear_warmup(0.4, 4);
  const std::vector<double> expected{0.1, 0.2, 0.3, 0.4, 0.4, 0.4};
  for (std::size_t s = 0; s < expected.size(); ++s)
    EXPECT_NEAR(warm.at(static_cast<std::int64_t>(s)), expected[s], kExact);
}

TEST(Schedule, Cosine) {
  const Schedule plain = schedule::cosine(1.0, 10);
  for (int s = 0; s <= 10; ++s)
    EXPECT_NEAR(plain.at(s), 0.5 * (1 + std::cos(std::numbers::pi * s / 10)), kExact) << s;
  EXPECT_NEAR(plain.at(50), 0.0, kExact);

  const Schedule warm = schedule::cosine(1.0, 12, 4, 0.2);
  EXPECT_NEAR(warm.at(0), 0.25, kExact);
  EXPECT_NEAR(warm.at(3), 1.0, kExact);
  EXPECT_NEAR(warm.at(4), 1.0, kExact);
  EXPECT_NEAR(warm.at(8), 0.6, kExact);
  EXPECT_NEAR(warm.at(12), 0.2, kExact);
  EXPECT_NEAR(warm.at(100), 0.2, kExact);
}

TEST(Schedule, Piecewise) {
  const Schedule s = schedule::piecewise({1.0, 0.5, 0.25}, {10, 20});
  EXPECT_EQ(s.at(0), 1.0);
  EXPECT_EQ(s.at(9), 1.0);
  EXPECT_EQ(s.at(10), 0.5);
  EXPECT_EQ(s.at(19), 0.5);
  EXPECT_EQ(s.at(20), 0.25);
  EXPECT_EQ(schedule::piecewise({0.3}, {}).at(7), 0.3);
}

TEST(Schedule, RecordsAsItRuns) {
  const std::vector<Schedule> all{0.1,
                                  schedule::step_decay(0.8, 0.5, 3),
                                  schedule::exponential(0.8, 0.9),
                                  schedule::linear_warmup(0.4, 4),
                                  schedule::cosine(1.0, 12, 4, 0.2),
                                  schedule::piecewise({1.0, 0.5}, {5}),
                                  Schedule([](const Array& step) { return 1.0 / (1.0 + step); })};
  for (const Schedule& s : all)
    for (const Dtype dtype : {Dtype::I32, Dtype::F32, Dtype::F64}) {
      const ClosedJaxpr program =
          make_jaxpr([&](ArraySpan a) -> Arrays { return {s(a[0])}; }, Avals{{dtype, {}}});
      for (const double step : {0.0, 3.0, 4.0, 7.0, 40.0}) {
        const Tensor at = convert(Array(step), dtype).tensor();
        const Tensor found = evaluate(program, Tensors{at})[0];
        EXPECT_EQ(found, s(at).tensor());
        EXPECT_EQ(found.dtype(), dtype == Dtype::F64 ? Dtype::F64 : Dtype::F32);
        EXPECT_NEAR(found.to_doubles()[0], s.at(static_cast<std::int64_t>(step)), 1e-6);
      }
    }
}

TEST(Schedule, Refusals) {
  EXPECT_THAT(message_of<ValueError>([] { Schedule(-0.1); }), HasSubstr("the learning rate is -0.1"));
  EXPECT_THAT(message_of<ValueError>([] { Schedule(std::nan("")); }), HasSubstr("finite"));
  EXPECT_THAT(message_of<ValueError>([] { Schedule{Schedule::Formula{}}; }), HasSubstr("empty"));
  EXPECT_THAT(message_of<ValueError>([] { schedule::step_decay(0.1, 0.5, 0); }), HasSubstr("0 steps"));
  EXPECT_THAT(message_of<ValueError>([] { schedule::exponential(0.1, 0.0); }), HasSubstr("the factor is 0"));
  EXPECT_THAT(message_of<ValueError>([] { schedule::linear_warmup(0.1, -2); }), HasSubstr("-2 steps"));
  EXPECT_THAT(message_of<ValueError>([] { schedule::cosine(0.1, 10, 10); }),
              HasSubstr("a warm-up of 10 steps in a total of 10"));
  EXPECT_THAT(message_of<ValueError>([] { schedule::piecewise({0.1}, {10}); }),
              HasSubstr("1 values for 1 boundaries"));
  EXPECT_THAT(message_of<ValueError>([] {
                schedule::piecewise({0.1, 0.2, 0.3}, {10, 10});
              }),
              HasSubstr("must ascend"));
  const Schedule vector([](const Array&) { return zeros({2}); });
  EXPECT_THAT(message_of<ValueError>([&] { vector.at(0); }), HasSubstr("f32[2]"));
  EXPECT_THAT(message_of<ValueError>([] { Schedule(0.1)(zeros({2})); }), HasSubstr("the step is f32[2]"));
}

}  // namespace
}  // namespace etrace::optim
