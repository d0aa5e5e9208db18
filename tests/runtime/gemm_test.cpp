// The matrix product equals, bit for bit, the naive chain of FMAs that etp_gemm.h promises: for odd sizes,
// strides, transposes, accumulation and any cut of C; and it is close to the product in double precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "runtime/etp_gemm.h"

namespace {

template <class T>
struct Gemm;
template <>
struct Gemm<float> {
  static constexpr auto run = etp_gemm_f32;
  static constexpr auto part = etp_gemm_part_f32;
  static constexpr auto scratch = etp_gemm_scratch_f32;
};
template <>
struct Gemm<double> {
  static constexpr auto run = etp_gemm_f64;
  static constexpr auto part = etp_gemm_part_f64;
  static constexpr auto scratch = etp_gemm_scratch_f64;
};

// The header's definition; without hardware FMA its kernel rounds twice.
template <class T>
T multiply_add(T a, T b, T c) {
#if defined(__FMA__) || defined(__AVX512F__) || defined(__aarch64__)
  return std::fma(a, b, c);
#else
  return a * b + c;
#endif
}

template <class T>
class GemmTest : public testing::Test {
 protected:
  // One product with guards around and, by the strides, between the rows of C.
  struct Problem {
    std::ptrdiff_t M, N, K, ars, acs, brs, bcs, ldc;
    std::vector<T> A, B, C;
  };

  // layout: bit 0 transposes A, bit 1 transposes B, bit 2 pads the strides, bit 3 gives neither a unit stride
  Problem make(std::ptrdiff_t M, std::ptrdiff_t N, std::ptrdiff_t K, int layout) {
    const std::ptrdiff_t pad = layout & 4 ? 5 : 0, gap = layout & 8 ? 2 : 1;
    Problem p{M, N, K, 0, 0, 0, 0, N + pad, {}, {}, {}};
    p.ars = layout & 1 ? gap : K * gap + pad;
    p.acs = layout & 1 ? M * gap + pad : gap;
    p.brs = layout & 2 ? gap : N * gap + pad;
    p.bcs = layout & 2 ? K * gap + pad : gap;
    auto fill = [&](std::vector<T>& v, std::ptrdiff_t rows, std::ptrdiff_t rs, std::ptrdiff_t cols,
                    std::ptrdiff_t cs) {
      const std::ptrdiff_t n =
          rows && cols ? (rows - 1) * rs + (cols - 1) * cs + 1 : 0;  // no slack: ASan sees overruns
      std::uniform_real_distribution<double> uniform(-1, 1);
      v.resize(static_cast<std::size_t>(n));
      for (T& x : v) x = static_cast<T>(uniform(random_));
    };
    fill(p.A, M, p.ars, K, p.acs);
    fill(p.B, K, p.brs, N, p.bcs);
    fill(p.C, M, p.ldc, N, 1);
    return p;
  }

  static std::vector<T> naive(const Problem& p, bool accumulate) {
    std::vector<T> c = p.C;
    for (std::ptrdiff_t m = 0; m < p.M; m++)
      for (std::ptrdiff_t n = 0; n < p.N; n++) {
        T& out = c[static_cast<std::size_t>(m * p.ldc + n)];
        T sum = accumulate ? out : T{0};
        for (std::ptrdiff_t k = 0; k < p.K; k++)
          sum = multiply_add(p.A[static_cast<std::size_t>(m * p.ars + k * p.acs)],
                             p.B[static_cast<std::size_t>(k * p.brs + n * p.bcs)], sum);
        out = sum;
      }
    return c;
  }

  static std::vector<char> scratch(const Problem& p) {
    const int flags = (p.acs != 1 ? ETP_GEMM_TA : 0) | (p.bcs != 1 ? ETP_GEMM_TB : 0);
    return std::vector<char>(Gemm<T>::scratch(p.M, p.N, p.K, flags));
  }

  static bool same(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
  }

  void check(std::ptrdiff_t M, std::ptrdiff_t N, std::ptrdiff_t K, int layout) {
    const Problem p = make(M, N, K, layout);
    for (bool accumulate : {false, true}) {
      std::vector<T> c = p.C;
      auto work = scratch(p);
      Gemm<T>::run(M, N, K, p.A.data(), p.ars, p.acs, p.B.data(), p.brs, p.bcs, c.data(), p.ldc, accumulate,
                   work.data());
      EXPECT_TRUE(same(c, naive(p, accumulate)))
          << M << "x" << N << "x" << K << " layout " << layout << (accumulate ? " +=" : " =");
    }
  }

  std::mt19937 random_{12345};
};

using Types = testing::Types<float, double>;
TYPED_TEST_SUITE(GemmTest, Types);

TYPED_TEST(GemmTest, SmallSizes) {
  for (std::ptrdiff_t M : {0, 1, 2, 3, 4, 5, 6, 7, 13})
    for (std::ptrdiff_t N : {0, 1, 3, 8, 16, 17, 33, 64, 70})
      for (std::ptrdiff_t K : {0, 1, 2, 17}) this->check(M, N, K, static_cast<int>((M + N + K) % 16));
}

TYPED_TEST(GemmTest, EveryLayout) {
  for (int layout = 0; layout < 16; layout++) {
    this->check(29, 83, 70, layout);
    this->check(1, 150, 131, layout);
    this->check(3, 20, 67, layout);
  }
}

TYPED_TEST(GemmTest, BeyondOneBlock) {
  for (int layout : {0, 1, 2, 3, 5, 6}) this->check(203, 67, ETP_K_BLOCK + 37, layout);
  this->check(50, 520, 90, 0);
  this->check(50, 520, 90, 1);
}

TYPED_TEST(GemmTest, ManyColumnsOfAShortB) {
  for (int layout : {0, 1, 2, 3, 5}) this->check(50, 777, 20, layout);
  this->check(7, 1300, 1, 1);
}

TYPED_TEST(GemmTest, FewStepsAndSingleRows) {
  for (int layout = 0; layout < 16; layout++) {
    for (std::ptrdiff_t K : {1, 2, 3, 4}) this->check(5, 75, K, layout);
    for (std::ptrdiff_t K : {7, 16, 45}) this->check(1, 43, K, layout);
    for (std::ptrdiff_t N : {1, 2, 9, 10, 23, 31, 38, 47, 55, 63, 64}) this->check(1, N, 70, layout);
  }
}

TYPED_TEST(GemmTest, ABThatComesFromAfar) {
  const std::ptrdiff_t N = 733, K = ETP_FAR_BYTES / 4 / N + 1;  // several blocks of K, the last panel narrow
  for (int layout : {0, 1}) this->check(31, N, K, layout);
}

TYPED_TEST(GemmTest, RandomSizes) {
  std::uniform_int_distribution<int> size(1, 90), any(0, 15);
  for (int i = 0; i < 60; i++)
    this->check(size(this->random_), size(this->random_), size(this->random_), any(this->random_));
}

TYPED_TEST(GemmTest, AnyCutGivesTheSameBits) {
  using T = TypeParam;
  for (int layout : {0, 1, 2, 3}) {
    const auto p = this->make(61, 150, 200, layout);
    const auto want = this->naive(p, true);
    std::uniform_int_distribution<int> step(1, 40);
    for (int round = 0; round < 4; round++) {
      std::vector<T> c = p.C;
      auto work = this->scratch(p);
      for (std::ptrdiff_t m0 = 0, m1; m0 < p.M; m0 = m1) {
        m1 = std::min<std::ptrdiff_t>(p.M, m0 + step(this->random_));
        for (std::ptrdiff_t n0 = 0, n1; n0 < p.N; n0 = n1) {
          n1 = std::min<std::ptrdiff_t>(p.N, n0 + step(this->random_));
          Gemm<T>::part(m0, m1, n0, n1, p.K, p.A.data(), p.ars, p.acs, p.B.data(), p.brs, p.bcs, c.data(),
                        p.ldc, 1, work.data());
        }
      }
      EXPECT_TRUE(this->same(c, want)) << "layout " << layout;
    }
  }
}

TYPED_TEST(GemmTest, CloseToDouble) {
  using T = TypeParam;
  const auto p = this->make(40, 50, 300, 0);
  const auto c = this->naive(p, false);
  for (std::size_t m = 0; m < 40; m++)
    for (std::size_t n = 0; n < 50; n++) {
      long double sum = 0;
      for (std::size_t k = 0; k < 300; k++)
        sum += static_cast<long double>(p.A[m * 300 + k]) * p.B[k * 50 + n];
      EXPECT_NEAR(static_cast<double>(c[m * 50 + n]), static_cast<double>(sum),
                  300 * std::numeric_limits<T>::epsilon());
    }
}

TYPED_TEST(GemmTest, NanAndInfinityPassThrough) {
  using T = TypeParam;
  const T inf = std::numeric_limits<T>::infinity();
  auto p = this->make(7, 20, 9, 0);
  p.A[3 * 9 + 2] = inf;                                    // row 3
  p.B[4 * 20 + 11] = std::numeric_limits<T>::quiet_NaN();  // column 11
  std::vector<T> c = p.C;
  auto work = this->scratch(p);
  Gemm<T>::run(7, 20, 9, p.A.data(), 9, 1, p.B.data(), 20, 1, c.data(), 20, 0, work.data());
  for (std::size_t m = 0; m < 7; m++)
    for (std::size_t n = 0; n < 20; n++) {
      if (n == 11)
        EXPECT_TRUE(std::isnan(c[m * 20 + n]));
      else
        EXPECT_EQ(std::isinf(c[m * 20 + n]), m == 3);
    }
}

// A cut made by etp_gemm_split covers C exactly once.
TEST(GemmSplit, CoversEveryElementOnce) {
  for (std::ptrdiff_t M : {0, 1, 5, 32, 100, 1124})
    for (std::ptrdiff_t N : {1, 10, 256, 300})
      for (int parts : {1, 2, 3, 4, 7, 16}) {
        std::vector<int> hits(static_cast<std::size_t>(M * N), 0);
        for (int part = 0; part < parts; part++) {
          std::ptrdiff_t m0, m1, n0, n1;
          etp_gemm_split(M, N, parts, part, &m0, &m1, &n0, &n1);
          for (std::ptrdiff_t m = m0; m < m1; m++)
            for (std::ptrdiff_t n = n0; n < n1; n++) hits[static_cast<std::size_t>(m * N + n)]++;
        }
        EXPECT_TRUE(std::all_of(hits.begin(), hits.end(), [](int h) { return h == 1; }))
            << M << " " << N << " " << parts;
      }
}

}  // namespace
