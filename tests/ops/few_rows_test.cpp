// Products of few rows with few entries, the bits of the dense product, and of rows in which a value repeats.
#include "ops/few_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "etrace/ops/linalg.h"
#include "runtime/thread_pool.h"

namespace etrace::testing {
namespace {

std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

template <class T>
void expect_dense_bits(std::int64_t rows, std::int64_t columns, std::int64_t depth, double rate,
                       bool accumulate) {
  const Dtype dtype = sizeof(T) == 4 ? Dtype::F32 : Dtype::F64;
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::vector<T> a(static_cast<std::size_t>(rows * depth)), b(static_cast<std::size_t>(depth * columns));
  for (T& x : a) x = std::abs(uniform(random)) < rate ? static_cast<T>(uniform(random)) : T(0);
  for (T& x : b) x = static_cast<T>(uniform(random));
  const MatrixProduct::Sizes sizes{rows, columns, depth};
  const MatrixProduct::Strides strides{depth, 1, columns, 1, columns};
  ASSERT_TRUE(FewRows::fits(dtype, sizes, strides));
  const FewRows product(dtype, sizes, strides, accumulate);
  std::vector<T> found(static_cast<std::size_t>(rows * columns), T(3)), expected = found;
  std::vector<std::max_align_t> scratch(product.scratch_bytes() / sizeof(std::max_align_t) + 1);
  // The chain of fused multiply-adds that etp_gemm.h promises.
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      T sum = accumulate ? T(3) : T(0);
      for (std::int64_t k = 0; k < depth; ++k)
        sum = std::fma(a[static_cast<std::size_t>(i * depth + k)],
                       b[static_cast<std::size_t>(k * columns + j)], sum);
      expected[static_cast<std::size_t>(i * columns + j)] = sum;
    }
  const bool sparse = rate < 0.5;
  std::vector<T> sums(static_cast<std::size_t>(columns));
  EXPECT_TRUE(product.sum_columns(b.data(), sums.data()));
  EXPECT_EQ(product.is_sparse(a.data(), scratch.data()), sparse);
  EXPECT_EQ(product(a.data(), b.data(), sums.data(), found.data(), scratch.data()), sparse);
  EXPECT_EQ(found, sparse ? expected : std::vector<T>(found.size(), T(3)));
  for (const std::size_t at : {std::size_t{0}, b.size() / 2, b.size() - 1})
    for (const T bad : {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) {
      std::vector<T> other = b;
      other[at] = bad;
      EXPECT_FALSE(product.sum_columns(other.data(), sums.data()));
    }
}

TEST(FewRows, HaveTheBitsOfTheDenseProduct) {
  for (const std::int64_t rows : {1, 2, 15})
    for (const std::int64_t columns : {64, 97, 256})
      for (const double rate : {0.0, 0.02, 0.1, 0.6})
        for (const bool accumulate : {false, true}) {
          expect_dense_bits<float>(rows, columns, 120, rate, accumulate);
          expect_dense_bits<double>(rows, columns, 64, rate, accumulate);
        }
}

// A row in which one value is common, and what deviates: the dense product within rounding, whoever knows the
// sums of B's columns beforehand, and for any parts of the columns.
template <class T>
void expect_base(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool accumulate) {
  const MatrixProduct::Sizes sizes{rows, columns, depth};
  const MatrixProduct::Strides strides{depth, 1, columns, 1, columns};
  const FewRows product(sizeof(T) == 4 ? Dtype::F32 : Dtype::F64, sizes, strides, accumulate);
  std::mt19937 random(3);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::vector<T> a(static_cast<std::size_t>(rows * depth)), b(static_cast<std::size_t>(depth * columns)),
      sums(static_cast<std::size_t>(columns)), whole(static_cast<std::size_t>(rows * columns), T(3)),
      parts = whole;
  for (std::size_t i = 0; i < a.size(); ++i)  // the last row is mostly zero
    a[i] = static_cast<T>(
        (std::abs(uniform(random)) < 0.2) != (rows == 1 || i / at(depth) + 1 < at(rows)) ? 0.5 : 0.0);
  for (T& x : b) x = static_cast<T>(uniform(random));
  std::vector<std::max_align_t> scratch(product.scratch_bytes() / sizeof(std::max_align_t) + 1);
  EXPECT_TRUE(product.sum_columns(b.data(), sums.data()));
  EXPECT_TRUE(product(a.data(), b.data(), sums.data(), whole.data(), scratch.data()));
  const auto never = [](std::int64_t, std::int64_t) { FAIL() << "B is finite"; };
  EXPECT_TRUE(product.with_base(a.data(), b.data(), parts.data(), 0, 64, scratch.data(), never));
  EXPECT_TRUE(product.with_base(a.data(), b.data(), parts.data(), 64, columns, scratch.data(), never));
  EXPECT_EQ(whole, parts);
  std::size_t differing = 0;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      long double sum = accumulate ? 3 : 0, size = sum;
      T chain = accumulate ? T(3) : T(0);
      for (std::int64_t k = 0; k < depth; ++k) {
        const T x = a[at(i * depth + k)], y = b[at(k * columns + j)];
        chain = std::fma(x, y, chain);
        sum += static_cast<long double>(x) * y;
        size += std::abs(y);  // |base| + |deviation| ≤ 2·0.5
      }
      const T found = whole[at(i * columns + j)];
      EXPECT_LE(std::abs(found - sum), size * static_cast<double>(depth) * std::numeric_limits<T>::epsilon());
      differing += found != chain ? 1 : 0;
      if (rows > 1 && i + 1 == rows) {
        EXPECT_EQ(found, chain) << "a row counted from zero";
      }
    }
  EXPECT_GT(differing, 0U) << "there was no base";
}

TEST(FewRows, TakeACommonValueAsBase) {
  for (const std::int64_t rows : {1, 2, 15})
    for (const std::int64_t columns : {64, 97, 256})
      for (const bool accumulate : {false, true}) {
        expect_base<float>(rows, columns, 120, accumulate);
        expect_base<double>(rows, columns, 64, accumulate);
      }
}

// Columns with what is not finite, or so large that their sum might not be, go to the dense product.
TEST(FewRows, LeaveWhatIsNotFiniteToTheDenseProduct) {
  const FewRows product(Dtype::F32, {1, 200, 100}, {100, 1, 200, 1, 200});
  const std::vector<float> a(100, 1.0F);
  std::vector<std::max_align_t> scratch(product.scratch_bytes() / sizeof(std::max_align_t) + 1);
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                          std::numeric_limits<float>::max()}) {
    std::vector<float> b(200 * 100, 0.25F), c(200, 7.0F), sums(200);
    b[50 * 200 + 70] = b[99 * 200 + 199] = odd;
    EXPECT_FALSE(product.sum_columns(b.data(), sums.data()));
    std::vector<std::int64_t> dense;
    EXPECT_TRUE(product.with_base(a.data(), b.data(), c.data(), 0, 200, scratch.data(),
                                  [&](std::int64_t first, std::int64_t last) {
                                    dense.insert(dense.end(), {first, last});
                                  }));
    EXPECT_EQ(dense, (std::vector<std::int64_t>{64, 128, 192, 200}));
    for (const int j : {0, 63, 128, 191}) EXPECT_EQ(c[at(j)], 25.0F);
    for (const int j : {64, 127, 192, 199}) EXPECT_EQ(c[at(j)], 7.0F);
  }
}

TEST(FewRows, HaveNoBaseWhereNothingRepeats) {
  const FewRows product(Dtype::F32, {1, 64, 128}, {128, 1, 64, 1, 64});
  std::vector<float> dense(128), sparse(128, 0.0F), half(128), b(64 * 128, 1.0F), c(64, 7.0F);
  for (int i = 0; i < 128; ++i) dense[at(i)] = 0.01F * static_cast<float>(i + 1);
  for (int i = 0; i < 128; ++i) half[at(i)] = i % 2 == 0 ? 1.0F : 0.0F;
  sparse[3] = 1.0F;
  const std::vector<float> infinite(128, std::numeric_limits<float>::infinity());
  std::vector<std::max_align_t> scratch(product.scratch_bytes() / sizeof(std::max_align_t) + 1);
  for (const auto& a : {dense, sparse, half, infinite})
    EXPECT_FALSE(product.with_base(a.data(), b.data(), c.data(), 0, 64, scratch.data(),
                                   [](std::int64_t, std::int64_t) { FAIL(); }));
  EXPECT_EQ(c, std::vector<float>(64, 7.0F));
}

// The product of one row is what FewRows says, on any number of threads.
TEST(FewRows, AreHowOneRowIsMultiplied) {
  const std::int64_t columns = 1000, depth = 300;
  std::mt19937 random(3);
  std::uniform_real_distribution<float> uniform(-1.0F, 1.0F);
  std::vector<float> a(at(depth)), b(at(depth * columns)), sums(at(columns)), expected(at(columns));
  for (float& x : a) x = uniform(random) < 0.7F ? 1.0F : 0.0F;
  for (float& x : b) x = uniform(random);
  const FewRows product(Dtype::F32, {1, columns, depth}, {depth, 1, columns, 1, columns});
  std::vector<std::max_align_t> scratch(product.scratch_bytes() / sizeof(std::max_align_t) + 1);
  EXPECT_TRUE(product.sum_columns(b.data(), sums.data()));
  EXPECT_TRUE(product(a.data(), b.data(), sums.data(), expected.data(), scratch.data()));
  const Array left = Tensor::of(a, {1, depth}), right = Tensor::of(b, {depth, columns});
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    const Tensor found = dot_general(left, right, {{1}, {0}, {}, {}}).tensor();
    EXPECT_EQ(std::vector<float>(found.data<float>().begin(), found.data<float>().end()), expected);
  }
  set_num_threads(1);
}

TEST(FewRows, AreForLongRowsOfFloats) {
  const MatrixProduct::Strides strides{100, 1, 100, 1, 100}, turned{100, 1, 1, 100, 100};
  EXPECT_TRUE(FewRows::fits(Dtype::F32, {1, 100, 100}, strides));
  EXPECT_FALSE(FewRows::fits(Dtype::F32, {1, 100, 100}, turned));
  EXPECT_FALSE(FewRows::fits(Dtype::F32, {16, 100, 100}, strides));
  EXPECT_FALSE(FewRows::fits(Dtype::I32, {1, 100, 100}, strides));
  EXPECT_FALSE(FewRows::fits(Dtype::F32, {1, 10, 100}, strides));
}

}  // namespace
}  // namespace etrace::testing
