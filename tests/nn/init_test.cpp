// Distributions of initial values.
#include "etrace/nn/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "support/numeric.h"

namespace etrace::nn {
namespace {

struct Moments {
  double mean = 0.0, variance = 0.0, largest = 0.0;
};
Moments moments(const Initializer& init, const Shape& shape) {
  const std::vector<double> v = init(random::key(11), shape, Dtype::F64).tensor().to_doubles();
  Moments m;
  for (const double x : v) m.mean += x / static_cast<double>(v.size());
  for (const double x : v) m.variance += (x - m.mean) * (x - m.mean) / static_cast<double>(v.size());
  for (const double x : v) m.largest = std::max(m.largest, std::abs(x));
  return m;
}

void expect_variance(const Initializer& init, const Shape& shape, double variance) {
  const Moments m = moments(init, shape);
  EXPECT_NEAR(m.variance / variance, 1.0, 0.03);
  EXPECT_NEAR(m.mean / std::sqrt(variance), 0.0, 0.03);
}

TEST(Init, VarianceFollowsTheFans) {
  const Shape shape{200, 100};
  using init::Distribution;
  for (const auto d : {Distribution::Normal, Distribution::TruncatedNormal, Distribution::Uniform}) {
    expect_variance(init::kaiming_normal(d), shape, 2.0 / 200);
    expect_variance(init::xavier_normal(d), shape, 1.0 / 150);
    expect_variance(init::lecun_normal(d), shape, 1.0 / 200);
  }
  expect_variance(init::kaiming_uniform(), shape, 2.0 / 200);
  expect_variance(init::variance_scaling({.fan = init::Fan::Out}), shape, 1.0 / 100);
  // A kernel [space, in, out]: the receptive field multiplies both fans.
  expect_variance(init::kaiming_normal(), {5, 20, 100}, 2.0 / 100);
  // The same numbers as [out, in, space], with the axes said.
  expect_variance(init::variance_scaling({.scale = 2.0, .in_axis = 1, .out_axis = 0}), {100, 20, 5},
                  2.0 / 100);
}

TEST(Init, TruncatedNormalHasNoTails) {
  EXPECT_LE(moments(init::truncated_normal(), {20000}).largest, 2.0 + 1e-9);
  EXPECT_GT(moments(init::normal(), {20000}).largest, 2.5);
}

TEST(Init, Orthogonal) {
  for (const Shape& shape : {Shape{8, 5}, Shape{5, 8}, Shape{2, 3, 4}, Shape{1, 1}, Shape{0, 3}}) {
    const Array q = init::orthogonal(2.0)(random::key(3), shape, Dtype::F64);
    EXPECT_EQ(q.shape(), shape);
    if (shape.size() == 0) continue;
    const Array m = reshape(q, {-1, shape.back()});
    const bool tall = m.dim(0) >= m.dim(1);
    const Array gram = tall ? matmul_plain(transpose(m), m) : matmul_plain(m, transpose(m));
    EXPECT_EQ(testing::difference(gram.tensor(), (eye(gram.dim(0), Dtype::F64) * 4.0).tensor(), 1e-12),
              std::nullopt);
  }
  EXPECT_THROW(init::orthogonal()(random::key(0), {4}, Dtype::F32), ValueError);
}

TEST(Init, SimpleOnes) {
  EXPECT_EQ(init::constant(3.0)(random::key(0), {2}, Dtype::F64).tensor().to_doubles(),
            (std::vector<double>{3, 3}));
  EXPECT_EQ(init::identity(2.0)(random::key(0), {2, 3}, Dtype::F64).tensor().to_doubles(),
            (std::vector<double>{2, 0, 0, 0, 2, 0}));
  EXPECT_THROW(init::identity()(random::key(0), {2}, Dtype::F32), ValueError);
  const Moments m = moments(init::uniform(-1.0, 3.0), {20000});
  EXPECT_NEAR(m.mean, 1.0, 0.05);
  EXPECT_LE(m.largest, 3.0);
  EXPECT_NEAR(moments(init::normal(0.5, 2.0), {20000}).mean, 2.0, 0.02);
}

TEST(Init, KeyAndTypeDecide) {
  const Initializer f = init::kaiming_normal();
  EXPECT_EQ(f(random::key(1), {3, 4}, Dtype::F32).aval(), (Aval{Dtype::F32, {3, 4}}));
  EXPECT_EQ(f(random::key(1), {3, 4}, Dtype::F32).tensor(), f(random::key(1), {3, 4}, Dtype::F32).tensor());
  EXPECT_FALSE(f(random::key(1), {3, 4}, Dtype::F32).tensor() ==
               f(random::key(2), {3, 4}, Dtype::F32).tensor());
  EXPECT_EQ(f(random::key(1), {0, 4}, Dtype::F32).size(), 0);
}

}  // namespace
}  // namespace etrace::nn
