// Products of few rows with few entries: the bits of the dense product.
#include "kernels/few_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace etrace::testing {
namespace {

etp_matrix_product row_major(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  etp_matrix_product p{};
  p.dtype = ETP_F32;
  p.rows = rows, p.columns = columns, p.depth = depth;
  p.a_row = depth, p.a_depth = 1, p.b_depth = columns, p.b_column = 1, p.c_row = columns;
  return p;
}

template <class T>
void expect_dense_bits(std::int64_t rows, std::int64_t columns, std::int64_t depth, double rate,
                       bool accumulate) {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> uniform(-1.0, 1.0);
  std::vector<T> a(static_cast<std::size_t>(rows * depth)), b(static_cast<std::size_t>(depth * columns));
  for (T& x : a) x = std::abs(uniform(random)) < rate ? static_cast<T>(uniform(random)) : T(0);
  for (T& x : b) x = static_cast<T>(uniform(random));
  etp_matrix_product p = row_major(rows, columns, depth);
  p.dtype = sizeof(T) == 4 ? ETP_F32 : ETP_F64;
  p.onto = accumulate ? 1 : 0;
  ASSERT_TRUE(FewRows::fits(p));
  const FewRows product(p);
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
  EXPECT_TRUE(product.is_finite(b.data()));
  EXPECT_EQ(product.is_sparse(a.data(), scratch.data()), sparse);
  EXPECT_EQ(product(a.data(), b.data(), found.data(), scratch.data()), sparse);
  EXPECT_EQ(found, sparse ? expected : std::vector<T>(found.size(), T(3)));
  for (const std::size_t at : {std::size_t{0}, b.size() / 2, b.size() - 1})
    for (const T bad : {std::numeric_limits<T>::infinity(), std::numeric_limits<T>::quiet_NaN()}) {
      std::vector<T> other = b;
      other[at] = bad;
      EXPECT_FALSE(product.is_finite(other.data()));
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

TEST(FewRows, AreForLongRowsOfFloats) {
  etp_matrix_product turned = row_major(1, 100, 100), integers = turned;
  turned.b_depth = 1, turned.b_column = 100;
  integers.dtype = ETP_I32;
  EXPECT_TRUE(FewRows::fits(row_major(1, 100, 100)));
  EXPECT_FALSE(FewRows::fits(turned));
  EXPECT_FALSE(FewRows::fits(row_major(16, 100, 100)));
  EXPECT_FALSE(FewRows::fits(integers));
  EXPECT_FALSE(FewRows::fits(row_major(1, 10, 100)));
}

}  // namespace
}  // namespace etrace::testing
