// Quantities: dimensions are checked and scales converted here; the rest is arithmetic on mantissas.
#include "etrace/units/quantity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "units/describe.h"

namespace etrace {

namespace {

double number(const Array& bare) { return to_double(*bare.splat()); }

// f on mantissas. Bare numbers are computed as doubles, so that constants of a model keep their precision
// until they meet an array of the model's element type. f is generic: the same formula for double and for
// Array.
template <class F>
Array fold(const Array& a, F f) {
  return a.is_weak() ? Array(f(number(a))) : f(a);
}
template <class F>
Array fold(const Array& a, const Array& b, F f) {
  return a.is_weak() && b.is_weak() ? Array(f(number(a), number(b))) : f(a, b);
}

// The functions that the standard library lacks under our names.
double maximum(double a, double b) { return std::max(a, b); }
double minimum(double a, double b) { return std::min(a, b); }
double rem(double a, double b) { return std::fmod(a, b); }
bool equal_to(double a, double b) { return a == b; }
bool not_equal_to(double a, double b) { return a != b; }
double relu(double a) { return std::max(a, 0.0); }
double sign(double a) { return a > 0.0 ? 1.0 : a < 0.0 ? -1.0 : a; }
double square(double a) { return a * a; }
double rsqrt(double a) { return 1.0 / std::sqrt(a); }
double logistic(double a) { return 1.0 / (1.0 + std::exp(-a)); }

double power_of_ten(int n) {  // n ≥ 0; exact up to 10²²
  if (n > 22) return std::pow(10.0, n);
  double result = 1.0;
  for (int i = 0; i < n; ++i) result *= 10.0;
  return result;
}

Array rescaled(const Array& mantissa, const Unit& from, const Unit& to) {
  const double factor = from.factor() / to.factor();
  const Rational ten = from.power_of_ten() - to.power_of_ten();
  if (factor == 1.0 && ten == 0) return mantissa;
  if (!ten.is_integer())
    return fold(mantissa, [&](const auto& v) { return v * (factor * std::pow(10.0, ten.to_double())); });
  const double scale = power_of_ten(std::abs(ten.num()));
  // Dividing by a power of ten rounds once; multiplying by its inverse is what a program should do.
  if (mantissa.is_weak())
    return ten.num() < 0 ? number(mantissa) * factor / scale : number(mantissa) * factor * scale;
  return mantissa * (ten.num() < 0 ? factor / scale : factor * scale);
}

// b's mantissa in the scale of a.
Array aligned(std::string_view op, const Quantity& a, const Quantity& b) {
  if (!a.unit().same_dimension(b.unit()))
    throw UnitError(
        std::string(op),
        fmt::format("the left operand is {}, the right one {}; both must have the same dimension: "
                    "multiply or divide one by a unit or by another quantity",
                    described(a.unit()), described(b.unit())),
        OriginScope::current());
  return rescaled(b.mantissa(), b.unit(), a.unit());
}

const Array& plain(std::string_view op, const Quantity& q) {
  if (!q.unit().dimensionless())
    throw UnitError(
        std::string(op),
        fmt::format("needs a plain number, but its argument is in {unit}; divide it by a quantity of that "
                    "dimension, for example by 1 {unit}",
                    fmt::arg("unit", to_string(q.unit()))),
        OriginScope::current());
  return q.mantissa();
}

template <class F>
Quantity joined(std::string_view op, const Quantity& a, const Quantity& b, F f) {
  return {fold(a.mantissa(), aligned(op, a, b), f), a.unit()};
}
template <class F>
Array compared(std::string_view op, const Quantity& a, const Quantity& b, F f) {
  return fold(a.mantissa(), aligned(op, a, b), f);
}

Arrays in_one_scale(std::string_view op, QuantitySpan x) {
  if (x.empty()) throw ValueError(std::string(op), "there is nothing to join; give at least one quantity");
  Arrays mantissas;
  for (const Quantity& q : x) mantissas.push_back(aligned(op, x[0], q));
  return mantissas;
}

}  // namespace

Quantity::Quantity(const Array& mantissa, const Unit& unit) : mantissa_(mantissa), unit_(unit) {
  if (!mantissa_.defined()) return;
  if (unit_.dimensionless()) {
    mantissa_ = rescaled(mantissa_, unit_, {});
    unit_ = {};
  } else if (!is_floating(mantissa_.dtype())) {
    mantissa_ = mantissa_.is_weak() ? Array(number(mantissa_))
                                    : convert(mantissa_, promote(mantissa_.dtype(), Dtype::F32));
  }
}

Array Quantity::to(const Unit& unit) const {
  if (!unit_.same_dimension(unit))
    throw UnitError(
        "to",
        fmt::format("a quantity that is {} was asked for {}; ask for a unit of its own dimension",
                    described(unit_), unit.dimensionless() ? "as a plain number" : described(unit)),
        OriginScope::current());
  return rescaled(mantissa_, unit_, unit);
}

std::string to_string(const Quantity& q) {
  if (!q.defined()) return "undefined";
  const std::string unit = q.unit().dimensionless() ? "" : to_string(q.unit());
  if (!q.shape().is_scalar() || q.mantissa().is_tracer())
    return to_string(q.aval()) + (unit.empty() ? "" : " in " + unit);
  const double value = number(q.mantissa());
  const bool single = q.dtype() == Dtype::F32 && !q.mantissa().is_weak();
  const std::string text = single ? fmt::format("{}", static_cast<float>(value)) : fmt::format("{}", value);
  return text + (unit.empty() ? "" : " " + unit);
}

// Arithmetic -----------------------------------------------------------------------------------------------
Quantity add(const Quantity& a, const Quantity& b) {
  return joined("add", a, b, [](const auto& x, const auto& y) { return x + y; });
}
Quantity sub(const Quantity& a, const Quantity& b) {
  return joined("sub", a, b, [](const auto& x, const auto& y) { return x - y; });
}
Quantity mul(const Quantity& a, const Quantity& b) {
  return {fold(a.mantissa(), b.mantissa(), [](const auto& x, const auto& y) { return x * y; }),
          a.unit() * b.unit()};
}
Quantity div(const Quantity& a, const Quantity& b) {
  return {fold(a.mantissa(), b.mantissa(), [](const auto& x, const auto& y) { return x / y; }),
          a.unit() / b.unit()};
}
Quantity rem(const Quantity& a, const Quantity& b) {
  return joined("rem", a, b, [](const auto& x, const auto& y) { return rem(x, y); });
}
Quantity maximum(const Quantity& a, const Quantity& b) {
  return joined("maximum", a, b, [](const auto& x, const auto& y) { return maximum(x, y); });
}
Quantity minimum(const Quantity& a, const Quantity& b) {
  return joined("minimum", a, b, [](const auto& x, const auto& y) { return minimum(x, y); });
}
Quantity clip(const Quantity& x, const Quantity& low, const Quantity& high) {
  return {clip(x.mantissa(), aligned("clip", x, low), aligned("clip", x, high)), x.unit()};
}
Quantity where(const Array& condition, const Quantity& if_true, const Quantity& if_false) {
  return {where(condition, if_true.mantissa(), aligned("where", if_true, if_false)), if_true.unit()};
}
Quantity neg(const Quantity& q) {
  return {fold(q.mantissa(), [](const auto& v) { return -v; }), q.unit()};
}
Quantity abs(const Quantity& q) {
  return {fold(q.mantissa(),
               [](const auto& v) {
                 using std::abs;
                 return abs(v);
               }),
          q.unit()};
}
Quantity relu(const Quantity& q) {
  return {fold(q.mantissa(), [](const auto& v) { return relu(v); }), q.unit()};
}
Quantity sign(const Quantity& q) {
  return fold(q.mantissa(), [](const auto& v) { return sign(v); });
}

Quantity pow(const Quantity& q, const Rational& exponent) {
  if (exponent == 1) return q;
  if (exponent == 2) return square(q);
  if (exponent == Rational(1, 2)) return sqrt(q);
  if (exponent == Rational(1, 3)) return cbrt(q);
  const Unit unit = pow(q.unit(), exponent);
  const Array& x = q.mantissa();
  if (x.is_weak()) return {std::pow(number(x), exponent.to_double()), unit};
  return {exponent.is_integer() ? integer_pow(x, exponent.num()) : pow(x, exponent.to_double()), unit};
}
Quantity square(const Quantity& q) {
  return {fold(q.mantissa(), [](const auto& v) { return square(v); }), pow(q.unit(), 2)};
}
Quantity sqrt(const Quantity& q) {
  return {fold(q.mantissa(),
               [](const auto& v) {
                 using std::sqrt;
                 return sqrt(v);
               }),
          pow(q.unit(), {1, 2})};
}
Quantity cbrt(const Quantity& q) {
  return {fold(q.mantissa(),
               [](const auto& v) {
                 using std::cbrt;
                 return cbrt(v);
               }),
          pow(q.unit(), {1, 3})};
}
Quantity rsqrt(const Quantity& q) {
  return {fold(q.mantissa(), [](const auto& v) { return rsqrt(v); }), pow(q.unit(), {-1, 2})};
}

Array equal_to(const Quantity& a, const Quantity& b) {
  return compared("equal_to", a, b, [](const auto& x, const auto& y) { return equal_to(x, y); });
}
Array not_equal_to(const Quantity& a, const Quantity& b) {
  return compared("not_equal_to", a, b, [](const auto& x, const auto& y) { return not_equal_to(x, y); });
}
Array less(const Quantity& a, const Quantity& b) {
  return compared("less", a, b, [](const auto& x, const auto& y) { return x < y; });
}
Array less_equal(const Quantity& a, const Quantity& b) {
  return compared("less_equal", a, b, [](const auto& x, const auto& y) { return x <= y; });
}
Array greater(const Quantity& a, const Quantity& b) {
  return compared("greater", a, b, [](const auto& x, const auto& y) { return x > y; });
}
Array greater_equal(const Quantity& a, const Quantity& b) {
  return compared("greater_equal", a, b, [](const auto& x, const auto& y) { return x >= y; });
}

// Functions of plain numbers -------------------------------------------------------------------------------
#define ETRACE_PLAIN_FUNCTION(f)                  \
  Quantity f(const Quantity& q) {                 \
    return fold(plain(#f, q), [](const auto& v) { \
      using std::f;                               \
      return f(v);                                \
    });                                           \
  }
ETRACE_PLAIN_FUNCTION(exp)
ETRACE_PLAIN_FUNCTION(exp2)
ETRACE_PLAIN_FUNCTION(expm1)
ETRACE_PLAIN_FUNCTION(log)
ETRACE_PLAIN_FUNCTION(log1p)
ETRACE_PLAIN_FUNCTION(sin)
ETRACE_PLAIN_FUNCTION(cos)
ETRACE_PLAIN_FUNCTION(tan)
ETRACE_PLAIN_FUNCTION(asin)
ETRACE_PLAIN_FUNCTION(acos)
ETRACE_PLAIN_FUNCTION(atan)
ETRACE_PLAIN_FUNCTION(sinh)
ETRACE_PLAIN_FUNCTION(cosh)
ETRACE_PLAIN_FUNCTION(tanh)
ETRACE_PLAIN_FUNCTION(asinh)
ETRACE_PLAIN_FUNCTION(acosh)
ETRACE_PLAIN_FUNCTION(atanh)
ETRACE_PLAIN_FUNCTION(erf)
ETRACE_PLAIN_FUNCTION(erfc)
#undef ETRACE_PLAIN_FUNCTION

Quantity logistic(const Quantity& q) {
  return fold(plain("logistic", q), [](const auto& v) { return logistic(v); });
}
Array heaviside_surrogate(const Quantity& x, const Quantity& dx) {
  return heaviside_surrogate(plain("heaviside_surrogate", x), plain("heaviside_surrogate", dx));
}

// Reductions and data movement -----------------------------------------------------------------------------
Quantity sum(const Quantity& q, const Dims& axes, bool keepdims) {
  return {sum(q.mantissa(), axes, keepdims), q.unit()};
}
Quantity mean(const Quantity& q, const Dims& axes, bool keepdims) {
  return {mean(q.mantissa(), axes, keepdims), q.unit()};
}
Quantity max(const Quantity& q, const Dims& axes, bool keepdims) {
  return {max(q.mantissa(), axes, keepdims), q.unit()};
}
Quantity min(const Quantity& q, const Dims& axes, bool keepdims) {
  return {min(q.mantissa(), axes, keepdims), q.unit()};
}
Quantity variance(const Quantity& q, const Dims& axes, bool keepdims) {
  return {variance(q.mantissa(), axes, keepdims), pow(q.unit(), 2)};
}
Quantity cumsum(const Quantity& q, int axis, bool reverse) {
  return {cumsum(q.mantissa(), axis, reverse), q.unit()};
}
Quantity concatenate(QuantitySpan x, int axis) {
  const Arrays mantissas = in_one_scale("concatenate", x);
  return {concatenate(mantissas, axis), x[0].unit()};
}
Quantity stack(QuantitySpan x, int axis) {
  const Arrays mantissas = in_one_scale("stack", x);
  return {stack(mantissas, axis), x[0].unit()};
}
Quantity reshape(const Quantity& q, const Dims& sizes) { return {reshape(q.mantissa(), sizes), q.unit()}; }
Quantity squeeze(const Quantity& q, const Dims& axes) { return {squeeze(q.mantissa(), axes), q.unit()}; }
Quantity expand_dims(const Quantity& q, const Dims& axes) {
  return {expand_dims(q.mantissa(), axes), q.unit()};
}
Quantity transpose(const Quantity& q, const Dims& permutation) {
  return {transpose(q.mantissa(), permutation), q.unit()};
}
Quantity broadcast_to(const Quantity& q, const Shape& shape) {
  return {broadcast_to(q.mantissa(), shape), q.unit()};
}
Quantity slice(const Quantity& q, const Dims& start, const Dims& limit, const Dims& strides) {
  return {slice(q.mantissa(), start, limit, strides), q.unit()};
}
Quantity slice_axis(const Quantity& q, int axis, std::int64_t start, std::int64_t limit,
                    std::int64_t stride) {
  return {slice_axis(q.mantissa(), axis, start, limit, stride), q.unit()};
}
Quantity take(const Quantity& q, const Array& indices, int axis) {
  return {take(q.mantissa(), indices, axis), q.unit()};
}
Quantity zeros_like(const Quantity& q) { return {zeros_like(q.mantissa()), q.unit()}; }
Quantity convert(const Quantity& q, Dtype dtype) { return {convert(q.mantissa(), dtype), q.unit()}; }
Quantity stop_gradient(const Quantity& q) { return {stop_gradient(q.mantissa()), q.unit()}; }

// Products -------------------------------------------------------------------------------------------------
Quantity matmul_plain(const Quantity& a, const Quantity& b) {
  return {matmul_plain(a.mantissa(), b.mantissa()), a.unit() * b.unit()};
}
Quantity dot(const Quantity& a, const Quantity& b) {
  return {dot(a.mantissa(), b.mantissa()), a.unit() * b.unit()};
}
Quantity outer(const Quantity& a, const Quantity& b) {
  return {outer(a.mantissa(), b.mantissa()), a.unit() * b.unit()};
}

}  // namespace etrace
