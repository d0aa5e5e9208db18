// Elementary functions: error in ulps against long double, special values as libm, array bits == scalar bits,
// and the 16-bit formats against their definitions. An ulp is that of the result's own binade.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/etp_math.h"

namespace {

using F32 = float (*)(float);
using F64 = double (*)(double);
using Ref = long double (*)(long double);

template <class T>
double ulps(T got, long double want) {
  using Lim = std::numeric_limits<T>;
  const double wrong = 1e9;
  if (std::isnan(want)) return std::isnan(got) ? 0 : wrong;
  if (std::isnan(got)) return wrong;
  const T rounded = static_cast<T>(want);
  if (std::isinf(rounded) || std::isinf(got)) {
    if (got == rounded) return 0;
    return std::max(std::fabs(static_cast<long double>(got)), std::fabs(want)) > 0 &&
                   std::fabs(static_cast<long double>(std::isinf(got) ? rounded : got)) == Lim::max()
               ? 1
               : wrong;
  }
  if (want == 0) return got == 0 && std::signbit(got) == std::signbit(want) ? 0 : wrong;
  int e = 0;
  std::frexp(want, &e);
  const long double ulp = std::ldexp(1.0L, std::max(e, Lim::min_exponent) - Lim::digits);
  return static_cast<double>(std::fabs(got - want) / ulp);
}

template <class T, class Bits>
T from_bits(Bits u) {
  T x;
  std::memcpy(&x, &u, sizeof x);
  return x;
}

// All exponents and signs with pseudo-random mantissas, dense samples of the interesting ranges, and
// specials.
std::vector<float> samples_f32() {
  std::vector<float> xs;
  for (std::uint64_t u = 0; u < 0x100000000ull; u += 21013)
    xs.push_back(from_bits<float>(static_cast<std::uint32_t>(u)));
  for (int i = -30000; i <= 30000; i++) {
    const double t = i / 30000.0;
    for (double range : {1.0, 10.0, 105.0}) xs.push_back(static_cast<float>(t * range));
    xs.push_back(static_cast<float>(1.0 + t / 2));
  }
  const float inf = std::numeric_limits<float>::infinity();
  for (float x : {0.0f,    1.0f,      inf,       1e-45f,   3e-45f,  1.17549435e-38f, 1.17549421e-38f,
                  3.4e38f, 88.72284f, 88.72283f, 87.3366f, 103.97f, 103.98f,         104.5f,
                  128.0f,  149.0f,    150.0f,    5e-8f,    9.0f,    9.01f,           9.02f})
    xs.insert(xs.end(), {x, -x});
  xs.insert(xs.end(), {std::nanf(""), -std::nanf("")});
  return xs;
}

std::vector<double> samples_f64() {
  std::vector<double> xs;
  std::uint64_t u = 0;
  for (int i = 0; i < 100000; i++) xs.push_back(from_bits<double>(u += 0x9e3779b97f4a7c15ull));
  for (int i = -20000; i <= 20000; i++) {
    const double t = i / 20000.0 + i * 1e-13;
    for (double range : {1.0, 4.0, 40.0, 750.0}) xs.push_back(t * range);
    xs.push_back(1.0 + t / 2);
  }
  const double inf = std::numeric_limits<double>::infinity();
  for (double x :
       {0.0, 1.0, inf, 5e-324, 1e-323, 2.2250738585072014e-308, 1.7e308, 709.782712893384, 709.782712893385,
        745.1332191019411, 745.14, 746.5, 1024.0, 1074.0, 1075.0, 1e-17, 19.0, 22.0})
    xs.insert(xs.end(), {x, -x});
  xs.insert(xs.end(), {std::nan(""), -std::nan("")});
  return xs;
}

long double logistic_ref(long double x) {
  return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
}

struct Function {
  const char* name;
  F32 f32;
  F64 f64;
  void (*v32)(std::ptrdiff_t, const float*, float*);
  void (*v64)(std::ptrdiff_t, const double*, double*);
  Ref ref;
  double bound32, bound64;
};

#define OWN(name, reference, bound32, bound64)                                                           \
  Function {                                                                                             \
#name, [](float x) { return etp_##name##_f32(x); }, [](double x) { return etp_##name##_f64(x); },      \
        etp_v##name##_f32, etp_v##name##_f64, [](long double x) -> long double { return reference(x); },   \
        bound32, bound64 \
  }

const Function own[] = {
    OWN(exp, std::exp, 1.0, 1.0),          OWN(exp2, std::exp2, 1.0, 1.0),   OWN(expm1, std::expm1, 1.5, 2.0),
    OWN(log, std::log, 1.0, 1.0),          OWN(log1p, std::log1p, 1.5, 1.5), OWN(tanh, std::tanh, 2.0, 2.25),
    OWN(logistic, logistic_ref, 1.5, 1.6),
};

class OwnFunction : public testing::TestWithParam<Function> {};

TEST_P(OwnFunction, WithinUlps) {
  const Function& f = GetParam();
  double worst = 0;
  for (float x : samples_f32()) {
    const double e = ulps(f.f32(x), f.ref(static_cast<long double>(x)));
    EXPECT_LE(e, f.bound32) << f.name << "_f32(" << x << ") = " << f.f32(x);
    worst = std::max(worst, e);
  }
  RecordProperty("worst_f32", std::to_string(worst));
  worst = 0;
  for (double x : samples_f64()) {
    const double e = ulps(f.f64(x), f.ref(static_cast<long double>(x)));
    EXPECT_LE(e, f.bound64) << f.name << "_f64(" << x << ") = " << f.f64(x);
    worst = std::max(worst, e);
  }
  RecordProperty("worst_f64", std::to_string(worst));
}

template <class T>
void expect_same_bits(const char* name, const std::vector<T>& xs, T (*scalar)(T),
                      void (*array)(std::ptrdiff_t, const T*, T*)) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  auto same = [](T a, T b) {
    return std::bit_cast<Bits>(a) == std::bit_cast<Bits>(b) || (std::isnan(a) && std::isnan(b));
  };
  std::vector<T> ys(xs.size());
  array(static_cast<std::ptrdiff_t>(xs.size()), xs.data(), ys.data());
  std::size_t different = 0;
  for (std::size_t i = 0; i < xs.size(); i++) different += !same(ys[i], scalar(xs[i]));
  EXPECT_EQ(different, 0u) << name;
  for (std::size_t n = 0; n < 40; n++) {  // every tail, in place, and nothing written behind the end
    std::vector<T> a(xs.end() - static_cast<std::ptrdiff_t>(n), xs.end());
    a.push_back(T{-77});
    array(static_cast<std::ptrdiff_t>(n), a.data(), a.data());
    for (std::size_t i = 0; i < n; i++)
      EXPECT_TRUE(same(a[i], scalar(xs[xs.size() - n + i]))) << name << " " << n;
    EXPECT_EQ(a[n], T{-77});
  }
}

TEST_P(OwnFunction, ArrayEqualsScalar) {
  const Function& f = GetParam();
  expect_same_bits<float>(f.name, samples_f32(), f.f32, f.v32);
  expect_same_bits<double>(f.name, samples_f64(), f.f64, f.v64);
}

INSTANTIATE_TEST_SUITE_P(Math, OwnFunction, testing::ValuesIn(own),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Math, ErfInv) {
  EXPECT_EQ(etp_erf_inv_f64(1.0), std::numeric_limits<double>::infinity());
  EXPECT_EQ(etp_erf_inv_f64(-1.0), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(etp_erf_inv_f64(1.5)));
  EXPECT_TRUE(std::isnan(etp_erf_inv_f64(std::nan(""))));
  EXPECT_TRUE(std::signbit(etp_erf_inv_f64(-0.0)));
  // Published values, then round trips, with the error that the condition of the problem allows.
  EXPECT_NEAR(etp_erf_inv_f64(0.5), 0.47693627620446987338, 1e-16);
  EXPECT_NEAR(etp_erf_inv_f64(0.9), 1.1630871536766741, 3e-16);
  EXPECT_NEAR(etp_erf_inv_f64(1.0 - 0x1p-53), 5.8635847487551677, 3e-15);
  auto check = [](double x) {
    const double w = etp_erf_inv_f64(x);
    const long double slope = 2 / std::sqrt(std::acos(-1.0L)) * std::exp(-static_cast<long double>(w) * w);
    const long double miss = x < 0.5
                                 ? std::erf(static_cast<long double>(w)) - x
                                 : (1 - static_cast<long double>(x)) - std::erfc(static_cast<long double>(w));
    EXPECT_LE(std::fabs(miss / slope), 3 * std::numeric_limits<double>::epsilon() * w) << x;
    EXPECT_EQ(etp_erf_inv_f64(-x), -w);
    EXPECT_FLOAT_EQ(etp_erf_inv_f32(static_cast<float>(0.99 * x)),
                    static_cast<float>(etp_erf_inv_f64(static_cast<float>(0.99 * x))));
  };
  for (int i = 1; i < 4000; i++) check(i / 4000.0);
  for (int i = -20; i < 20; i++) check(0.99 + std::ldexp(i, -50));  // where the polynomials meet
  for (int e = -300; e < -1; e++) check(std::ldexp(1.3, e));
  for (int e = -53; e < -1; e++) check(1.0 - std::ldexp(1.0, e));
}

TEST(Math, Digamma) {
  const double gamma = 0.57721566490153286061;
  EXPECT_NEAR(etp_digamma_f64(1.0), -gamma, 1e-15);
  EXPECT_NEAR(etp_digamma_f64(0.5), -gamma - 2 * std::log(2.0), 3e-15);
  EXPECT_NEAR(etp_digamma_f64(-0.5), -gamma - 2 * std::log(2.0) + 2, 3e-15);
  EXPECT_NEAR(etp_digamma_f64(10.0), 2.2517525890667211077, 1e-15);
  EXPECT_NEAR(etp_digamma_f64(1e10), std::log(1e10), 1e-9);
  EXPECT_TRUE(std::isnan(etp_digamma_f64(-3.0)));
  for (double x = 0.1; x < 30; x += 0.37)
    EXPECT_NEAR(etp_digamma_f64(x + 1), etp_digamma_f64(x) + 1 / x, 4e-15 * (1 + 1 / x)) << x;
}

// Near multiples of a quarter turn too, and beyond where these are subtracted.
TEST(Math, SinAndCos) {
  std::vector<float> xs = samples_f32();
  std::vector<double> ys = samples_f64();
  for (int k = 1; k < 100000; k += 37) {
    const double x = k * std::acos(0.0);
    xs.push_back(static_cast<float>(x));
    ys.insert(ys.end(), {x, std::nextafter(x, 1e9), -1e6 * x, 0x1p20 + k, std::ldexp(x, k % 900)});
  }
  for (const float x : xs) {
    EXPECT_LE(ulps(etp_sin_f32(x), std::sin(static_cast<long double>(x))), 1) << x;
    EXPECT_LE(ulps(etp_cos_f32(x), std::cos(static_cast<long double>(x))), 1) << x;
  }
  for (const double x : ys) {
    EXPECT_LE(ulps(etp_sin_f64(x), std::sin(static_cast<long double>(x))), 1) << x;
    EXPECT_LE(ulps(etp_cos_f64(x), std::cos(static_cast<long double>(x))), 1) << x;
  }
}

TEST(Math, LibmFunctions) {
  EXPECT_DOUBLE_EQ(etp_erfc_f64(1.5), std::erfc(1.5));
  EXPECT_DOUBLE_EQ(etp_lgamma_f64(-2.5), std::lgamma(-2.5));
  EXPECT_DOUBLE_EQ(etp_atan2_f64(1.0, -2.0), std::atan2(1.0, -2.0));
  EXPECT_DOUBLE_EQ(etp_pow_f64(2.0, 0.5), std::sqrt(2.0));
  EXPECT_FLOAT_EQ(etp_rsqrt_f32(4.0f), 0.5f);
}

TEST(HalfPrecision, EveryF16RoundTrips) {
  for (std::uint32_t h = 0; h < 0x10000u; h++) {
    const auto half = static_cast<std::uint16_t>(h);
    const float x = etp_f16_to_f32(half);
    const int e = static_cast<int>(h >> 10 & 31), m = static_cast<int>(h & 1023);
    const double sign = h & 0x8000u ? -1 : 1;
    if (e == 31 && m != 0) {
      EXPECT_TRUE(std::isnan(x));
      EXPECT_TRUE(std::isnan(etp_f16_to_f32(etp_f32_to_f16(x))));
      continue;
    }
    const double want = e == 31  ? std::numeric_limits<double>::infinity()
                        : e == 0 ? std::ldexp(m, -24)
                                 : std::ldexp(1024 + m, e - 25);
    EXPECT_EQ(static_cast<double>(x), sign * want);
    EXPECT_EQ(etp_f32_to_f16(x), half);
  }
}

// Between neighbours a < b of the small format: nearest, and the even one at the middle.
template <class Narrow, class Widen>
void check_rounding(std::uint32_t last, Narrow narrow, Widen widen) {
  for (std::uint32_t h = 0; h < last; h += 3) {
    const auto a = static_cast<std::uint16_t>(h), b = static_cast<std::uint16_t>(h + 1);
    const float mid = static_cast<float>((static_cast<double>(widen(a)) + static_cast<double>(widen(b))) / 2);
    EXPECT_EQ(narrow(mid), h % 2 ? b : a);
    EXPECT_EQ(narrow(-mid), (h % 2 ? b : a) | 0x8000u);
    EXPECT_EQ(narrow(std::nextafter(mid, 0.0f)), a);
    EXPECT_EQ(narrow(std::nextafter(mid, std::numeric_limits<float>::infinity())), b);
  }
}

TEST(HalfPrecision, RoundsToNearestEven) {
  check_rounding(
      0x7bffu, [](float x) { return etp_f32_to_f16(x); }, [](std::uint16_t h) { return etp_f16_to_f32(h); });
  EXPECT_EQ(etp_f32_to_f16(65519.99f), 0x7bffu);
  EXPECT_EQ(etp_f32_to_f16(65520.0f), 0x7c00u);
  EXPECT_EQ(etp_f32_to_f16(-std::numeric_limits<float>::infinity()), 0xfc00u);
  EXPECT_EQ(etp_f32_to_f16(1e-45f), 0u);
}

TEST(HalfPrecision, Bf16) {
  check_rounding(
      0x7f7eu, [](float x) { return etp_f32_to_bf16(x); },
      [](std::uint16_t h) { return etp_bf16_to_f32(h); });
  EXPECT_EQ(etp_f32_to_bf16(std::numeric_limits<float>::max()), 0x7f80u);
  EXPECT_TRUE(std::isnan(etp_bf16_to_f32(etp_f32_to_bf16(from_bits<float>(0x7f800001u)))));
  EXPECT_TRUE(std::isnan(etp_bf16_to_f32(etp_f32_to_bf16(from_bits<float>(0xffffffffu)))));
}

}  // namespace
