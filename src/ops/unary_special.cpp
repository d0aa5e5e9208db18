// Special functions: the error function and its inverse, the logarithm of the gamma function and its
// derivatives.
#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "ops/elementwise_common.h"
#include "runtime/etp_math.h"

namespace etrace {

using namespace elementwise;

namespace {
constexpr double kTwoOverRootPi = 1.12837916709551257390;
constexpr double kHalfRootPi = 0.88622692545275801365;
}  // namespace

const Primitive erf_p{float_unary<erf_p, etp_erf_f32, etp_erf_f64>({
    .name = "erf",
    .doc = "y = 2/√π ∫₀ˣ exp(-t²) dt",
    .emit = code<"etp_erf_$t($0)", 40>,
    .jvp = jvp_by<[](const Array& x, const Array&) { return kTwoOverRootPi * exp(-(x * x)); }>,
    .samples = samples<kFloating, Range{-2, 2}>,
})};

const Primitive erfc_p{float_unary<erfc_p, etp_erfc_f32, etp_erfc_f64>({
    .name = "erfc",
    .doc = "y = 1 - erf x, exact for large x",
    .emit = code<"etp_erfc_$t($0)", 40>,
    .jvp = jvp_by<[](const Array& x, const Array&) { return -kTwoOverRootPi * exp(-(x * x)); }>,
    .samples = samples<kFloating, Range{-2, 2}>,
})};

const Primitive erf_inv_p{float_unary<erf_inv_p, etp_erf_inv_f32, etp_erf_inv_f64>({
    .name = "erf_inv",
    .doc = "erf y = x",
    .emit = code<"etp_erf_inv_$t($0)", 200>,
    .jvp = jvp_by<[](const Array&, const Array& y) { return kHalfRootPi * exp(y * y); }>,
    .samples = samples<kFloating, Range{-0.9, 0.9}>,
})};

const Primitive lgamma_p{float_unary<lgamma_p, etp_lgamma_f32, etp_lgamma_f64>({
    .name = "lgamma",
    .doc = "y = ln |Γ(x)|",
    .emit = code<"etp_lgamma_$t($0)", 60>,
    .jvp = jvp_by<[](const Array& x, const Array&) { return digamma(x); }>,
    .samples = samples<kFloating, Range{0.3, 5}>,
})};

const Primitive digamma_p{float_unary<digamma_p, etp_digamma_f32, etp_digamma_f64>({
    .name = "digamma",
    .doc = "y = d/dx ln |Γ(x)|",
    .emit = code<"etp_digamma_$t($0)", 60>,
    .jvp = jvp_by<[](const Array& x, const Array&) {
      return bind1(polygamma_p, {full({}, 1.0, x.dtype()), x});
    }>,
    .samples = samples<kFloating, Range{0.3, 5}>,
})};

namespace {

// Hurwitz's ζ(s, x) = Σ (x + k)^-s for s > 1, x > 0: a few terms, then the Euler-Maclaurin formula for the
// rest.
double hurwitz_zeta(double s, double x) {
  // B_2j/(2j)! for j = 1, 2, …
  constexpr std::array kCoefficients{1.0 / 12,          -1.0 / 720,
                                     1.0 / 30240,       -1.0 / 1209600,
                                     1.0 / 47900160,    -691.0 / 1307674368000,
                                     1.0 / 74724249600, -3617.0 / 10670622842880000};
  double sum = 0.0;
  for (; x < 12.0; x += 1.0) sum += std::pow(x, -s);
  double term = std::pow(x, -s);
  sum += term * (x / (s - 1.0) + 0.5);
  for (std::size_t j = 0; j < kCoefficients.size(); ++j) {
    const double order = s + 2.0 * static_cast<double>(j);
    term *= order / x;  // s (s+1) … (s+2j) x^-(s+2j+1)
    sum += kCoefficients[j] * term;
    term *= (order + 1.0) / x;
  }
  return sum;
}

// dᵐ/dxᵐ π cot πx = πᵐ⁺¹ P_m(cot πx) with P_0 = c and P_{m+1} = -(1 + c²) P_m'.
double cotangent_derivative(int m, double x) {
  constexpr double kPi = 3.14159265358979323846;
  std::vector<double> p{0.0, 1.0};  // coefficients of 1, c, c² …
  for (int k = 0; k < m; ++k) {
    std::vector<double> next(p.size() + 1, 0.0);
    for (std::size_t j = 1; j < p.size(); ++j) {
      const double slope = static_cast<double>(j) * p[j];  // of c^(j-1)
      next[j - 1] -= slope;
      next[j + 1] -= slope;
    }
    p = std::move(next);
  }
  const double part = x - std::rint(x), c = std::abs(part) == 0.5 ? 0.0 : 1.0 / std::tan(kPi * part);
  double value = p.back();
  for (std::size_t j = p.size() - 1; j-- > 0;) value = value * c + p[j];
  return std::pow(kPi, m + 1) * value;
}

// The m-th derivative of digamma: (-1)^(m+1) m! ζ(m+1, x) for whole m ≥ 0 and x > 0; for x < 0 by reflection,
//   ψ_m(x) = (-1)^m ψ_m(1 - x) - dᵐ/dxᵐ π cot πx.
// At the poles 0, -1, … it is ∞ for odd m (both sides agree) and NaN for even ones. NaN for other m.
double polygamma(double m, double x) {
  constexpr double kLargest = 170.0;  // beyond, m! is not finite
  if (m == 0.0) return etp_digamma_f64(x);
  if (!(m > 0.0) || m != std::floor(m) || x != x) return std::numeric_limits<double>::quiet_NaN();
  if (x <= 0.0) {
    const bool odd = std::fmod(m, 2.0) == 1.0;
    if (x == std::floor(x) || m > kLargest)
      return odd && m <= kLargest ? std::numeric_limits<double>::infinity()
                                  : std::numeric_limits<double>::quiet_NaN();
    const double mirrored = polygamma(m, 1.0 - x);
    return (odd ? -mirrored : mirrored) - cotangent_derivative(static_cast<int>(m), x);
  }
  const double magnitude = std::exp(etp_lgamma_f64(m + 1.0)) * hurwitz_zeta(m + 1.0, x);
  return std::fmod(m, 2.0) == 1.0 ? magnitude : -magnitude;
}

}  // namespace

const Primitive polygamma_p{
    binary<polygamma_p, kFloating, [](auto m, auto x) { return static_cast<decltype(x)>(polygamma(m, x)); }>({
        .name = "polygamma",
        .doc = "y = the m-th derivative of digamma at x, m = 0, 1, …",
        .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
          return tangent(y[0], {partial(dx[1], [&](const Array& d) {
                           return d * bind1(polygamma_p, {x[0] + 1.0, x[1]});
                         })});
        },
        .samples =
            [](std::uint64_t seed) {
              std::vector<Sample> all = make_samples(seed, kFloating, std::array{Range{0.3, 4}});
              for (Sample& s : all) {
                const double order = static_cast<double>(seed % 3);
                s.operands.insert(s.operands.begin(), full({}, order, s.operands[0].dtype()));
                s.differentiable = false;  // not in m, which is a whole number
              }
              return all;
            },
    })};

}  // namespace etrace
