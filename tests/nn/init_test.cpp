// Distributions of initial values.
#include "etrace/nn/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "etrace/error.h"
#include "etrace/nn/lru_cell.h"
#include "etrace/nn/urlstm_cell.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "support/fingerprint.h"
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

// Several blocks of reflections, either way round and along another axis.
TEST(Init, LargeOrthogonalFrames) {
  const auto off_by = [](const Array& tall) {
    const Array q = convert(tall, Dtype::F64);
    return max(abs(matmul_plain(transpose(q), q) - eye(q.dim(1), Dtype::F64))).item<double>();
  };
  for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
    const double tolerance = dtype == Dtype::F64 ? 2e-14 : 2e-7;
    EXPECT_LT(off_by(init::orthogonal()(random::key(5), {200, 150}, dtype)), tolerance);
    EXPECT_LT(off_by(transpose(init::orthogonal()(random::key(5), {65, 129}, dtype))), tolerance);
    const Array middle = init::orthogonal(1.0, 1)(random::key(5), {2, 70, 3}, dtype);
    EXPECT_LT(off_by(reshape(moveaxis(middle, 1, 0), {70, 6})), tolerance);
  }
}

// Whatever machine and however many threads: these bits.
struct PinnedBits {
  const char* name;
  std::uint64_t f32, f64;
};
const PinnedBits kPinnedBits[] = {
    {"delta_orthogonal", 2812189623943771397U, 10653726465159352208U},
    {"exponential", 7811743697807422725U, 16590759291038049610U},
    {"family_b.kaiming_normal", 12797699716770247941U, 8551853132652778686U},
    {"family_b.kaiming_uniform", 2618902139664413957U, 4855748845388419249U},
    {"family_b.lecun_normal", 14514196187029255429U, 2063021484772252117U},
    {"family_b.lecun_uniform", 5565322635412583685U, 10108026240879753020U},
    {"family_b.xavier_normal", 9931667594546590981U, 17758789739715149214U},
    {"family_b.xavier_uniform", 17043727541912024325U, 2081420796456853989U},
    {"identity", 1181949848399983877U, 1181949848399983877U},
    {"kaiming_normal", 16817120339689813253U, 2230896125314634625U},
    {"kaiming_uniform", 3978591333843809541U, 14877325251252527667U},
    {"lecun_normal", 12842016139055019269U, 7685465827349950223U},
    {"lecun_uniform", 5158633190934787333U, 14141522532424938089U},
    {"log_normal", 7913594102366942469U, 9849324836143228885U},
    {"normal", 11734456132871468293U, 2857765416530137702U},
    {"orthogonal", 10379770853691045125U, 5837910096067780706U},
    {"truncated_normal", 10415125829397067013U, 6633297332923322107U},
    {"xavier_normal", 9915424023938151685U, 7345235382979220650U},
    {"xavier_uniform", 14996593371684091141U, 6416336391287410139U},
    {"zeros", 10270213896433644805U, 10270213896433644805U},
};

TEST(Init, BitsAreFixed) {
  std::vector<std::string> pinned;
  for (const PinnedBits& row : kPinnedBits) {
    SCOPED_TRACE(row.name);
    pinned.emplace_back(row.name);
    const Initializer f = init::by_name(row.name);
    EXPECT_EQ(testing::fingerprint(f(random::key(1), {15, 10, 100}, Dtype::F32)), row.f32);
    EXPECT_EQ(testing::fingerprint(f(random::key(1), {15, 10, 100}, Dtype::F64)), row.f64);
  }
  EXPECT_EQ(pinned, init::names());
}

// What has no name of its own, and cells that compute initial values.
TEST(Init, OtherBitsAreFixed) {
  const auto bits = [](const Initializer& f) {
    return testing::fingerprint(f(random::key(1), {1000}, Dtype::F64));
  };
  EXPECT_EQ(bits(init::uniform(-0.3, 0.7)), 11558675924707213443U);
  EXPECT_EQ(bits(init::truncated_normal(1.5, 0.5, 0.7)), 14110331283971147238U);
  EXPECT_EQ(bits(init::truncated_normal(1.0, 0.0, 40.0)), 1104544959906110916U);
  EXPECT_EQ(bits(init::log_normal(0.5, 2.0)), 2482857191242703742U);
  const LRUCell lru(3, 50, {.dtype = Dtype::F64});
  EXPECT_EQ(testing::fingerprint(lru.theta_log.value()), 14608287019355341720U);
  EXPECT_EQ(testing::fingerprint(lru.nu_log.value()), 5469043544158973579U);
  EXPECT_EQ(testing::fingerprint(lru.gamma_log.value()), 17331099702070437161U);
  EXPECT_EQ(testing::fingerprint(URLSTMCell(3, 50, {.dtype = Dtype::F64}).bias.value()),
            6520920366252083565U);
}

// Uniform over frames: the entries of a column of length n have mean 0 and variance 1/n, and so does the
// inner product of columns of two frames; the determinant has either sign.
TEST(Init, OrthogonalIsUniform) {
  double mean = 0.0, square = 0.0, fourth = 0.0, positive = 0.0;
  constexpr int kFrames = 4000;
  for (int i = 0; i < kFrames; ++i) {
    const std::vector<double> q =
        init::orthogonal()(random::key(static_cast<std::uint64_t>(i)), {2, 2}, Dtype::F64)
            .tensor()
            .to_doubles();
    mean += q[1] / kFrames;
    square += q[1] * q[1] / kFrames;
    fourth += q[1] * q[1] * q[1] * q[1] / kFrames;
    positive += (q[0] * q[3] - q[1] * q[2] > 0.0 ? 1.0 : 0.0) / kFrames;
  }
  EXPECT_NEAR(mean, 0.0, 0.04);
  EXPECT_NEAR(square, 0.5, 0.02);    // of sin² of a uniform angle
  EXPECT_NEAR(fourth, 0.375, 0.02);  // of sin⁴
  EXPECT_NEAR(positive, 0.5, 0.03);
}

TEST(Init, DeltaOrthogonal) {
  const Array kernel = init::delta_orthogonal(3.0)(random::key(2), {3, 5, 2, 4}, Dtype::F64);
  const Array centre = reshape(slice(kernel, {1, 2, 0, 0}, {2, 3, 2, 4}), {2, 4});
  EXPECT_EQ(testing::difference(matmul_plain(centre, transpose(centre)).tensor(),
                                (eye(2, Dtype::F64) * 9.0).tensor(), 1e-12),
            std::nullopt);
  EXPECT_NEAR(sum(square(kernel)).item<double>(), 18.0, 1e-12);  // nothing elsewhere
  EXPECT_THROW(init::delta_orthogonal()(random::key(0), {3, 4, 2}, Dtype::F32), ValueError);
  EXPECT_THROW(init::delta_orthogonal()(random::key(0), {2, 2}, Dtype::F32), ValueError);
}

TEST(Init, SecondFamily) {
  expect_variance(init::family_b::kaiming_normal(), {200, 100}, 2.0 / 200);
  expect_variance(init::family_b::kaiming_normal(init::leaky_relu_scale(0.5)), {200, 100}, 1.6 / 200);
  expect_variance(init::family_b::kaiming_uniform(3.0), {200, 100}, 3.0 / 200);
  expect_variance(init::family_b::xavier_uniform(), {200, 100}, 1.0 / 150);
  expect_variance(init::family_b::lecun_normal(), {20000}, 1.0 / 20000);
  expect_variance(init::family_b::xavier_normal(), {100, 20, 5}, 2.0 / (100 + 500));  // [out, in, space]
  EXPECT_GT(moments(init::family_b::kaiming_normal(), {200, 100}).largest, 2.5 * std::sqrt(2.0 / 200));
}

TEST(Init, Compositions) {
  const auto draw = [](const Initializer& f, const Shape& shape) {
    return f(random::key(4), shape, Dtype::F64).tensor().to_doubles();
  };
  EXPECT_EQ(draw(init::values(array({1, 2}, Dtype::F64)), {2, 2}), (std::vector<double>{1, 2, 1, 2}));
  EXPECT_THROW(draw(init::values(array({1, 2}, Dtype::F64)), {3}), ValueError);
  EXPECT_EQ(draw(init::scaled(init::ones(), 3.0), {2}), (std::vector<double>{3, 3}));
  EXPECT_LE(moments(init::clipped(init::normal(), -0.5, 0.5), {1000}).largest, 0.5);
  EXPECT_GT(moments(init::magnitude(init::normal()), {1000}).mean, 0.7);
  EXPECT_EQ(draw(init::stacked_rows(1, init::ones(), init::zeros()), {3, 1}), (std::vector<double>{1, 0, 0}));
  EXPECT_THROW(draw(init::stacked_rows(4, init::ones(), init::zeros()), {3, 1}), ValueError);
  EXPECT_NEAR(moments(init::exponential(2.0), {20000}).mean, 2.0, 0.05);
  EXPECT_NEAR(moments(init::log_normal(0.0, 0.5), {20000}).mean, std::exp(0.125), 0.03);
  const Moments m = moments(init::truncated_normal(1.0, 5.0, 0.5), {20000});
  EXPECT_NEAR(m.mean, 5.0, 0.02);
  EXPECT_LE(m.largest, 5.5);
}

TEST(Init, ByName) {
  for (const std::string& name : init::names())
    EXPECT_EQ(init::by_name(name)(random::key(0), {3, 2, 4}, Dtype::F32).shape(), (Shape{3, 2, 4})) << name;
  EXPECT_THROW(init::by_name("kaiming"), ValueError);
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
