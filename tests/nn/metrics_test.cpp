// Metrics by hand, over several batches, with weights, and inside a program.
#include "etrace/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "etrace/control.h"
#include "etrace/random.h"
#include "support/errors.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using ::testing::ElementsAre;
using testing::values;

Array labels(const std::vector<double>& v) { return array(v, Dtype::I32); }
double number(const Array& a) { return a.item<double>(); }

// Predictions 0, 2, 2, 1 for the targets 0, 2, 1, 0.
const Array kScores = array({{3.0, 1.0, 0.0}, {0.0, 1.0, 2.0}, {0.0, 1.0, 4.0}, {1.0, 2.0, 0.0}});
const Array kTargets = array({0, 2, 1, 0}, Dtype::I32);

TEST(Metrics, OfClasses) {
  EXPECT_EQ(number(metrics::accuracy().of(kScores, kTargets)), 0.5);
  EXPECT_EQ(number(metrics::top_k(1).of(kScores, kTargets)), 0.5);
  EXPECT_EQ(number(metrics::top_k(2).of(kScores, kTargets)), 1.0);
  EXPECT_THAT(values(metrics::confusion(3).of(kScores, kTargets)), ElementsAre(1, 1, 0, 0, 0, 1, 0, 0, 1));
  // Per class: precision 1, 0, 1/2; recall 1/2, 0, 1; F1 2/3, 0, 2/3.
  using metrics::Averaged;
  EXPECT_THAT(values(metrics::precision(3, Averaged::PerClass).of(kScores, kTargets)),
              ElementsAre(1, 0, 0.5));
  EXPECT_THAT(values(metrics::recall(3, Averaged::PerClass).of(kScores, kTargets)), ElementsAre(0.5, 0, 1));
  EXPECT_NEAR(number(metrics::f1(3).of(kScores, kTargets)), 4.0 / 9, 1e-15);
  EXPECT_NEAR(number(metrics::f1(3, Averaged::Weighted).of(kScores, kTargets)), (2 * 2.0 / 3 + 2.0 / 3) / 4,
              1e-15);
  EXPECT_NEAR(number(metrics::f1(3, Averaged::Micro).of(kScores, kTargets)), 0.5, 1e-15);
  // A class that never occurs does not count.
  EXPECT_NEAR(number(metrics::f1(3).of(slice_axis(kScores, 0, 0, 1), labels({0}))), 1.0, 1e-15);
}

TEST(Metrics, Perplexity) {
  EXPECT_NEAR(number(metrics::perplexity().of(zeros({5, 7}), zeros({5}, Dtype::I32))), 7.0, 1e-12);
  const double nll = -std::log(std::exp(3.0) / (std::exp(3.0) + std::exp(1.0) + 1.0));
  EXPECT_NEAR(number(metrics::perplexity().of(slice_axis(kScores, 0, 0, 1), labels({0}))), std::exp(nll),
              1e-6);
}

TEST(Metrics, OfNumbers) {
  const Array p = array({1, 2, 3}), t = array({1, 4, 1});
  EXPECT_NEAR(number(metrics::mean_squared_error().of(p, t)), 8.0 / 3, 1e-12);
  EXPECT_NEAR(number(metrics::r2().of(p, t)), 1 - 8.0 / 6, 1e-12);
  EXPECT_EQ(number(metrics::r2().of(t, t)), 1.0);
  EXPECT_EQ(number(metrics::average().of(p)), 2.0);
  EXPECT_EQ(number(metrics::sparsity().of(array({0, 1, 0, 0}))), 0.75);
  EXPECT_EQ(number(metrics::firing_rate(0.5).of(array({0, 1, 0, 0}))), 500.0);
}

TEST(Metrics, BatchesAddUp) {
  const Metric all[] = {metrics::accuracy(), metrics::top_k(2), metrics::confusion(3), metrics::f1(3),
                        metrics::perplexity()};
  for (const Metric& m : all) {
    SCOPED_TRACE(m.name());
    Arrays sums = m.start();
    sums = m.update(sums, slice_axis(kScores, 0, 0, 1), slice_axis(kTargets, 0, 0, 1));
    sums = m.update(sums, slice_axis(kScores, 0, 1, 4), slice_axis(kTargets, 0, 1, 4));
    EXPECT_EQ(testing::difference(m.value(sums).tensor(), m.of(kScores, kTargets).tensor(), 1e-14),
              std::nullopt);
  }
  // Far from zero: sums of squares must not cancel.
  const Array t = random::normal(random::key(1), {64}, Dtype::F64) + 1e6;
  const Array p = t + 0.5 * random::normal(random::key(2), {64}, Dtype::F64);
  const Metric r2 = metrics::r2();
  Arrays sums = r2.start();
  for (int b = 0; b < 64; b += 16)
    sums = r2.update(sums, slice_axis(p, 0, b, b + 16), slice_axis(t, 0, b, b + 16));
  const double expected = 1.0 - number(sum(square(t - p))) / number(sum(square(t - mean(t))));
  EXPECT_NEAR(number(r2.value(sums)), expected, 1e-9);
}

TEST(Metrics, WeightsCount) {
  const Array w = array({1, 0, 1, 0});
  EXPECT_EQ(number(metrics::accuracy().of(kScores, kTargets, w)), 0.5);
  EXPECT_EQ(number(metrics::accuracy().of(kScores, kTargets, array({3, 1, 0, 0}))), 1.0);
  EXPECT_THAT(values(metrics::confusion(3).of(kScores, kTargets, array({2, 0, 0, 0}))),
              ElementsAre(2, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_TRUE(std::isnan(number(metrics::accuracy().of(kScores, kTargets, zeros({4})))));
}

// [time, batch, classes] inside a scan, as one program.
TEST(Metrics, InsideAProgram) {
  const Metric m = metrics::accuracy();
  const Array scores = random::normal(random::key(5), {6, 4, 3}),
              target = random::randint(random::key(6), {6, 4}, 0, 3);
  const Function program = jit([&](ArraySpan in) {
    const auto step = [&](ArraySpan sums, ArraySpan x) -> ScanResult {
      return {m.update(sums, x[0], x[1]), {}};
    };
    return Arrays{m.value(scan(step, m.start(), {in[0], in[1]}).carry)};
  });
  EXPECT_NEAR(number(program(Arrays{scores, target})[0]), number(m.of(scores, target)), 1e-15);
}

TEST(Metrics, LabelsThatNameNoClassAreRefused) {
  using ::testing::HasSubstr;
  const Metric all[] = {metrics::accuracy(), metrics::top_k(2), metrics::confusion(3), metrics::f1(3),
                        metrics::perplexity()};
  for (const Metric& m : all) {
    SCOPED_TRACE(m.name());
    EXPECT_THAT(testing::message_of<ValueError>([&] {
                  m.of(kScores, labels({0, 3, 1, 2}));
                }),
                ::testing::AllOf(HasSubstr("label 3 at position 1"), HasSubstr("3 classes")));
    EXPECT_THROW(m.of(kScores, labels({0, 1, -1, 2})), ValueError);
    // A weight of zero: not there.
    const Array kept = slice_axis(kScores, 0, 0, 3);
    EXPECT_EQ(testing::values(m.of(kScores, labels({0, 2, 1, -1}), array({1.0, 1.0, 1.0, 0.0}))),
              testing::values(m.of(kept, labels({0, 2, 1}))));
  }
}

TEST(Metrics, WrongShapesAreNamed) {
  using ::testing::HasSubstr;
  const Metric m = metrics::accuracy();
  EXPECT_THAT(testing::message_of<ValueError>([&] { m.of(kScores, labels({1, 2})); }), HasSubstr("i32[2]"));
  EXPECT_THROW(m.of(kScores, zeros({4})), ValueError);  // labels are whole numbers
  EXPECT_THROW(m.of(kScores, kTargets, zeros({3})), ValueError);
  EXPECT_THROW(m.update(Arrays{}, kScores, kTargets), ValueError);
  EXPECT_THROW(m.value(Arrays{}), ValueError);
  EXPECT_THROW(metrics::confusion(4).of(kScores, kTargets), ValueError);
  EXPECT_THROW(metrics::mean_squared_error().of(kScores, zeros({4})), ValueError);
  EXPECT_THROW(metrics::top_k(0), ValueError);
  EXPECT_THROW(metrics::firing_rate(0.0), ValueError);
  EXPECT_THROW(metrics::f1(0), ValueError);
}

}  // namespace
}  // namespace etrace
