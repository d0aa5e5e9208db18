// Reductions and running reductions: values against plain loops, empty axes, ties, accuracy, errors.
#include <cmath>

#include "etrace/transform.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;

const Array kNumbers = array({{1, 2, 3}, {4, 5, 6}});

TEST(Reduce, OverAnyAxes) {
  EXPECT_THAT(values(sum(kNumbers)), ElementsAre(21));
  EXPECT_THAT(values(sum(kNumbers, {0})), ElementsAre(5, 7, 9));
  EXPECT_THAT(values(sum(kNumbers, {-1})), ElementsAre(6, 15));
  EXPECT_EQ(sum(kNumbers, {1}, true).shape(), (Shape{2, 1}));
  EXPECT_THAT(values(prod(kNumbers, {1})), ElementsAre(6, 120));
  EXPECT_THAT(values(max(kNumbers, {0})), ElementsAre(4, 5, 6));
  EXPECT_THAT(values(min(kNumbers, {1})), ElementsAre(1, 4));
  EXPECT_THAT(values(mean(kNumbers, {1})), ElementsAre(2, 5));
  EXPECT_THAT(values(variance(kNumbers, {0})), ElementsAre(2.25, 2.25, 2.25));
  EXPECT_THAT(values(all(kNumbers > Array(1.0), {1})), ElementsAre(0, 1));
  EXPECT_THAT(values(any(kNumbers > Array(3.0), {1})), ElementsAre(0, 1));
  EXPECT_THAT(values(sum(kNumbers > Array(3.0))), ElementsAre(3));
}

TEST(Reduce, AgreesWithLoopsOnManyShapes) {
  Random random(5);
  for (const Shape& shape :
       {Shape{2, 3, 4, 5}, Shape{1, 40, 1, 3}, Shape{7, 1, 1, 130}, Shape{3, 5, 2, 17}}) {
    const Array x = random.f64(shape);
    const std::vector<double> v = values(x);
    const Dims strides = strides_of(shape);
    for (unsigned bits = 1; bits < 16; ++bits) {
      Dims axes, kept;
      for (std::int64_t a = 0; a < 4; ++a) (((bits >> a) & 1U) != 0 ? axes : kept).push_back(a);
      const Tensor y = reduce_sum(x, axes).tensor(), top = max(x, axes).tensor();
      const Dims out_strides = strides_of(y.shape());
      std::vector<double> expected(static_cast<std::size_t>(y.size()), 0.0), most(expected.size(), -kInf);
      for (std::size_t i = 0; i < v.size(); ++i) {
        std::int64_t at = 0;
        for (std::size_t k = 0; k < kept.size(); ++k) {
          const auto a = static_cast<std::size_t>(kept[k]);
          at += static_cast<std::int64_t>(i) / strides[a] % shape[a] * out_strides[k];
        }
        expected[static_cast<std::size_t>(at)] += v[i];
        most[static_cast<std::size_t>(at)] = std::max(most[static_cast<std::size_t>(at)], v[i]);
      }
      for (std::size_t i = 0; i < expected.size(); ++i) {
        ASSERT_NEAR(y.data<double>()[i], expected[i], 1e-12) << to_string(shape) << " " << bits;
        ASSERT_EQ(top.data<double>()[i], most[i]) << to_string(shape) << " " << bits;
      }
    }
  }
}

TEST(Reduce, EmptyAxesGiveTheNeutralElement) {
  const Array nothing = zeros({0, 2}, Dtype::F64);
  EXPECT_THAT(values(sum(nothing, {0})), ElementsAre(0, 0));
  EXPECT_THAT(values(prod(nothing, {0})), ElementsAre(1, 1));
  EXPECT_THAT(values(max(nothing, {0})), ElementsAre(-kInf, -kInf));
  EXPECT_THAT(values(min(nothing, {0})), ElementsAre(kInf, kInf));
  EXPECT_THAT(values(all(nothing > Array(0.0), {0})), ElementsAre(1, 1));
  EXPECT_THAT(values(any(nothing > Array(0.0), {0})), ElementsAre(0, 0));
  EXPECT_EQ(sum(nothing, {1}).shape(), (Shape{0}));
  EXPECT_EQ(max(zeros({0}, Dtype::I32)).item<double>(), std::numeric_limits<std::int32_t>::min());
}

TEST(Reduce, SumsOfFloatsAreRoundedOnce) {
  const std::int64_t n = 1 << 20;
  const Array x = full({n}, 0.1, Dtype::F32);
  const double exact = static_cast<double>(n) * static_cast<double>(0.1F);
  EXPECT_EQ(sum(x).item<float>(), static_cast<float>(exact));
  EXPECT_EQ(sum(reshape(x, {n, 1})).item<float>(), static_cast<float>(exact));
  EXPECT_EQ(values(sum(reshape(x, {n / 2, 2}), {0}))[1], static_cast<float>(exact / 2));
  EXPECT_EQ(values(cumsum(x, 0)).back(), static_cast<float>(exact));
}

TEST(Reduce, NaNWinsAndIntegersWrap) {
  EXPECT_TRUE(std::isnan(max(vec({1, kNaN, 3})).item<double>()));
  EXPECT_TRUE(std::isnan(min(vec({kNaN, 1})).item<double>()));
  const Array big = vec({2147483647, 1}, Dtype::I32);
  EXPECT_EQ(sum(big).item<double>(), -2147483648.0);
}

TEST(Reduce, TiesShareTheDerivative) {
  const Arrays g = grad([](ArraySpan x) { return max(x[0]); })(Arrays{vec({1, 3, 3})});
  EXPECT_THAT(values(g[0]), ElementsAre(0, 0.5, 0.5));
}

TEST(Reduce, ProductHasADerivativeAtZeros) {
  auto gradient = [](const Array& x) {
    return values(grad([](ArraySpan a) { return prod(a[0]); })(Arrays{x})[0]);
  };
  EXPECT_THAT(gradient(vec({2, 0, 3})), ElementsAre(0, 6, 0));
  EXPECT_THAT(gradient(vec({0, 0, 3})), ElementsAre(0, 0, 0));
  EXPECT_THAT(gradient(vec({2, 3, 4, 5, 6})), ElementsAre(360, 240, 180, 144, 120));
}

TEST(Reduce, ExplainsMisfits) {
  expect_error<ValueError>("axis 2 is out of range for rank 2", [] { sum(kNumbers, {2}); });
  expect_error<ValueError>("named twice", [] { sum(kNumbers, {0, -2}); });
  expect_error<ValueError>("but there are 2 axes", [] {
    bind1(reduce_sum_p, {kNumbers}, {{"axes", Dims{-1}}});
  });
  expect_error<TypeError>("does not compute on bool", [] {
    bind1(reduce_sum_p, {kNumbers > Array(1.0)}, {{"axes", Dims{0}}});
  });
  expect_error<TypeError>("works on bool and integers", [] {
    bind1(reduce_and_p, {kNumbers}, {{"axes", Dims{0}}});
  });
  expect_error<TypeError>("which is for storage", [] { sum(convert(kNumbers, Dtype::F16)); });
}

TEST(Cumulative, RunsBothWays) {
  EXPECT_THAT(values(cumsum(kNumbers, 0)), ElementsAre(1, 2, 3, 5, 7, 9));
  EXPECT_THAT(values(cumsum(kNumbers, 1)), ElementsAre(1, 3, 6, 4, 9, 15));
  EXPECT_THAT(values(cumsum(kNumbers, -1, true)), ElementsAre(6, 5, 3, 15, 11, 6));
  EXPECT_THAT(values(cumprod(kNumbers, 1)), ElementsAre(1, 2, 6, 4, 20, 120));
  EXPECT_THAT(values(cummax(vec({1, 3, 2, 4}), 0)), ElementsAre(1, 3, 3, 4));
  EXPECT_THAT(values(cummin(vec({1, 3, 0, 4}), 0, true)), ElementsAre(0, 0, 0, 4));
  expect_error<ValueError>("out of range", [] { cumsum(kNumbers, 2); });
  expect_error<TypeError>("works on floats", [] { cumlogsumexp(arange(3), 0); });
}

TEST(Cumulative, LogSumExpIsStable) {
  const Array x = vec({1000, 1000, -kInf}, Dtype::F64);
  EXPECT_THAT(values(cumlogsumexp(x, 0)),
              ElementsAre(1000, DoubleEq(1000 + std::log(2.0)), DoubleEq(1000 + std::log(2.0))));
  EXPECT_THAT(values(cumlogsumexp(x, 0, true)), ElementsAre(DoubleEq(1000 + std::log(2.0)), 1000, -kInf));
  const Arrays g =
      grad([](ArraySpan a) { return sum(slice_axis(cumlogsumexp(a[0], 0), 0, 2, 3)); })(Arrays{x});
  EXPECT_THAT(values(g[0]), ElementsAre(0.5, 0.5, 0));
}

TEST(Cumulative, ProductHasADerivativeAtZeros) {
  const Arrays g = grad([](ArraySpan a) { return sum(cumprod(a[0], 0)); })(Arrays{vec({2, 0, 3})});
  EXPECT_THAT(values(g[0]), ElementsAre(1, 8, 0));  // y = x0 + x0·x1 + x0·x1·x2
}

// Equal entries share the derivative by halves, join by join, in the order in which JAX joins them.
TEST(Cumulative, EqualEntriesOfAnExtremeShareTheDerivative) {
  const auto of_last = [](const Array& x, bool reverse, auto f) {
    const std::int64_t last = reverse ? 0 : x.shape()[0] - 1;
    return values(grad([&](ArraySpan a) { return sum(slice_axis(f(a[0], 0, reverse), 0, last, last + 1)); })(
        Arrays{x})[0]);
  };
  for (const auto f : {cummax, cummin}) {
    EXPECT_THAT(of_last(vec({2, 2}), false, f), ElementsAre(0.5, 0.5));
    EXPECT_THAT(of_last(vec({2, 2, 2}), false, f), ElementsAre(0.25, 0.25, 0.5));
    EXPECT_THAT(of_last(vec({2, 2, 2, 2}), false, f), ElementsAre(0.25, 0.25, 0.25, 0.25));
    EXPECT_THAT(of_last(vec({2, 2, 2}), true, f), ElementsAre(0.5, 0.25, 0.25));
  }
  EXPECT_THAT(of_last(vec({1, 5, 2, 3, 4}), false, cummax), ElementsAre(0, 1, 0, 0, 0));
  EXPECT_THAT(of_last(vec({1, 5, 2, 3, 4}), true, cummin), ElementsAre(1, 0, 0, 0, 0));
}

TEST(Functions, SoftmaxFamilyStaysFinite) {
  EXPECT_THAT(values(softmax(vec({1000, 1000}, Dtype::F64))), ElementsAre(0.5, 0.5));
  EXPECT_THAT(values(log_softmax(vec({0, 1000}, Dtype::F64))), ElementsAre(-1000, 0));
  EXPECT_THAT(values(logsumexp(vec({-kInf, 3}, Dtype::F64))), ElementsAre(3));
  EXPECT_THAT(values(logsumexp(vec({-kInf, -kInf}, Dtype::F64))), ElementsAre(-kInf));
  const Arrays g = grad([](ArraySpan a) { return logsumexp(a[0]); })(Arrays{vec({1, 1, 1, 1}, Dtype::F64)});
  EXPECT_THAT(values(g[0]), ElementsAre(DoubleNear(0.25, 1e-15), DoubleNear(0.25, 1e-15),
                                        DoubleNear(0.25, 1e-15), DoubleNear(0.25, 1e-15)));
}

}  // namespace
}  // namespace etrace::testing
