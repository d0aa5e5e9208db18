// Unit: seven SI dimensions with rational exponents, and a scale. A value, comparable, usable in constants.
//
//   1 mV = 10⁻³ · kg·m²/(s³·A)       sqrt(mV) = 10^(-3/2) · …: powers of ten are rational too, so nothing is
//   rounded
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <string>

#include "etrace/error.h"

#pragma GCC visibility push(default)
namespace etrace {

// Dimensions that do not fit. The text names the operation and both units.
struct UnitError : ValueError {
  using ValueError::ValueError;
};

// A fraction in lowest terms; small, as exponents are. ValueError: denominator 0, or out of range.
class Rational {
 public:
  constexpr Rational(int num = 0, int den = 1) : Rational(reduced(num, den)) {}  // NOLINT: 2 is an exponent
  Rational(double) = delete;  // 0.5 would become 0; write {1, 2}

  constexpr int num() const { return num_; }
  constexpr int den() const { return den_; }
  constexpr bool is_integer() const { return den_ == 1; }
  constexpr double to_double() const { return static_cast<double>(num_) / den_; }

  friend constexpr bool operator==(const Rational&, const Rational&) = default;
  friend constexpr Rational operator-(const Rational& a) { return reduced(-std::int64_t{a.num_}, a.den_); }
  friend constexpr Rational operator+(const Rational& a, const Rational& b) {
    return reduced(std::int64_t{a.num_} * b.den_ + std::int64_t{b.num_} * a.den_,
                   std::int64_t{a.den_} * b.den_);
  }
  friend constexpr Rational operator-(const Rational& a, const Rational& b) { return a + -b; }
  friend constexpr Rational operator*(const Rational& a, const Rational& b) {
    return reduced(std::int64_t{a.num_} * b.num_, std::int64_t{a.den_} * b.den_);
  }
  friend constexpr Rational operator/(const Rational& a, const Rational& b) {
    return reduced(std::int64_t{a.num_} * b.den_, std::int64_t{a.den_} * b.num_);
  }

 private:
  struct Exact {
    int num, den;
  };
  constexpr explicit Rational(Exact e) : num_(e.num), den_(e.den) {}
  static constexpr Rational reduced(std::int64_t num, std::int64_t den) {
    const std::int64_t common = common_divisor(num, den) * (den < 0 ? -1 : 1);
    const std::int64_t limit = std::numeric_limits<int>::max();
    if (den == 0 || num / common < -limit || num / common > limit || den / common > limit)
      out_of_range(num, den);
    return Rational(Exact{static_cast<int>(num / common), static_cast<int>(den / common)});
  }
  static constexpr std::int64_t common_divisor(std::int64_t a, std::int64_t b) {  // not negative
    while (b != 0) {
      const std::int64_t rest = a % b;
      a = b;
      b = rest;
    }
    return a < 0 ? -a : a;
  }
  [[noreturn]] static void out_of_range(std::int64_t num, std::int64_t den);

  int num_ = 0, den_ = 1;
};

enum class Dimension : std::uint8_t { Length, Mass, Time, Current, Temperature, Amount, Luminosity };

class Unit {
 public:
  using Exponents = std::array<Rational, 7>;  // by Dimension

  constexpr Unit() = default;  // 1: the unit of a plain number
  static constexpr Unit of(Dimension d) {
    Unit u;
    u.exponents_[static_cast<std::size_t>(d)] = 1;
    return u;
  }
  // This unit times factor·10^power_of_ten; powers of ten belong to the latter, which is exact.
  constexpr Unit scaled(int power_of_ten, double factor = 1.0) const {
    Unit u = *this;
    u.power_of_ten_ = u.power_of_ten_ + power_of_ten;
    u.factor_ *= factor;
    return u;
  }

  constexpr const Exponents& exponents() const { return exponents_; }
  constexpr const Rational& power_of_ten() const { return power_of_ten_; }
  constexpr double factor() const { return factor_; }

  constexpr bool same_dimension(const Unit& other) const { return exponents_ == other.exponents_; }
  constexpr bool dimensionless() const { return same_dimension(Unit()); }

  friend constexpr bool operator==(const Unit&, const Unit&) = default;  // dimension and scale
  friend constexpr Unit operator*(const Unit& a, const Unit& b) {
    Unit u;
    for (std::size_t i = 0; i < u.exponents_.size(); ++i) u.exponents_[i] = a.exponents_[i] + b.exponents_[i];
    u.power_of_ten_ = a.power_of_ten_ + b.power_of_ten_;
    u.factor_ = a.factor_ * b.factor_;
    return u;
  }
  friend constexpr Unit pow(const Unit& a, const Rational& exponent) {
    Unit u;
    for (std::size_t i = 0; i < u.exponents_.size(); ++i) u.exponents_[i] = a.exponents_[i] * exponent;
    u.power_of_ten_ = a.power_of_ten_ * exponent;
    if (a.factor_ != 1.0)
      u.factor_ = exponent.is_integer() ? whole_power(a.factor_, exponent.num())
                                        : power(a.factor_, exponent.to_double());
    return u;
  }
  friend constexpr Unit operator/(const Unit& a, const Unit& b) {
    Unit u = a * pow(b, -1);
    u.factor_ = a.factor_ / b.factor_;
    return u;
  }

 private:
  static constexpr double whole_power(double base, int exponent) {
    double out = 1.0;
    for (int i = exponent < 0 ? -exponent : exponent; i > 0; --i) out *= base;
    return exponent < 0 ? 1.0 / out : out;
  }
  static double power(double base, double exponent);

  Exponents exponents_{0, 0, 0, 0, 0, 0, 0};  // spelled out: GCC 12 cannot use constants made with {}
  Rational power_of_ten_ = 0;
  double factor_ = 1.0;
};

// The same text for equal units, in the symbols of neuroscience where they fit: "mV", "nS/cm²", "V/s",
// "kg·m²/s".
std::string to_string(const Unit&);

namespace units {

inline constexpr Unit one;
inline constexpr Unit m = Unit::of(Dimension::Length), kg = Unit::of(Dimension::Mass),
                      s = Unit::of(Dimension::Time), A = Unit::of(Dimension::Current),
                      kelvin = Unit::of(Dimension::Temperature), mol = Unit::of(Dimension::Amount),
                      cd = Unit::of(Dimension::Luminosity);

inline constexpr Unit Hz = one / s, N = kg * m / (s * s), Pa = N / (m * m), J = N * m, W = J / s, C = A * s,
                      V = W / A, S = A / V, ohm = V / A, F = C / V, M = mol / pow(m, 3).scaled(-3);

inline constexpr Unit km = m.scaled(3), cm = m.scaled(-2), mm = m.scaled(-3), um = m.scaled(-6),
                      nm = m.scaled(-9);
inline constexpr Unit gram = kg.scaled(-3), mg = kg.scaled(-6), ug = kg.scaled(-9);
inline constexpr Unit ms = s.scaled(-3), us = s.scaled(-6), ns = s.scaled(-9), minute = s.scaled(1, 6.0),
                      hour = s.scaled(2, 36.0);
inline constexpr Unit kHz = Hz.scaled(3), MHz = Hz.scaled(6);
inline constexpr Unit mA = A.scaled(-3), uA = A.scaled(-6), nA = A.scaled(-9), pA = A.scaled(-12),
                      fA = A.scaled(-15);
inline constexpr Unit kV = V.scaled(3), mV = V.scaled(-3), uV = V.scaled(-6);
inline constexpr Unit mS = S.scaled(-3), uS = S.scaled(-6), nS = S.scaled(-9), pS = S.scaled(-12);
inline constexpr Unit kOhm = ohm.scaled(3), MOhm = ohm.scaled(6), GOhm = ohm.scaled(9);
inline constexpr Unit mF = F.scaled(-3), uF = F.scaled(-6), nF = F.scaled(-9), pF = F.scaled(-12);
inline constexpr Unit nC = C.scaled(-9), pC = C.scaled(-12);
inline constexpr Unit mmol = mol.scaled(-3), mM = M.scaled(-3), uM = M.scaled(-6), nM = M.scaled(-9);

}  // namespace units
}  // namespace etrace
#pragma GCC visibility pop
