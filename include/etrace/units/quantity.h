// Quantity: an array of mantissas and a unit. `q.mantissa() · q.unit()` is what it means.
//
// Sums, comparisons and choices need operands of one dimension (UnitError) and take the scale of the left
// one: 1 mV + 1 V is 1001 mV. Products compose units. A quantity without dimension is a plain number: Hz·ms
// becomes 10⁻³ at once.
//
// Bare C++ numbers stay numbers: `-65_mV`, `exp(-1_ms / tau)` are computed in double precision where they are
// written, and later adapt to the element type of what they meet.
#pragma once

#include <concepts>
#include <span>
#include <string>
#include <vector>

#include "etrace/array.h"
#include "etrace/ops/numpy.h"
#include "etrace/units/unit.h"

#pragma GCC visibility push(default)
namespace etrace {

class Quantity {
 public:
  Quantity() = default;                                  // undefined: an operand that is not given
  Quantity(const Array& plain) : Quantity(plain, {}) {}  // NOLINT: plain arrays are quantities without a unit
  Quantity(const Array& mantissa, const Unit& unit);     // with a dimension, integers become floats

  bool defined() const { return mantissa_.defined(); }
  const Array& mantissa() const { return mantissa_; }
  const Unit& unit() const { return unit_; }  // 1 if there is no dimension
  const Aval& aval() const { return mantissa_.aval(); }
  const Shape& shape() const { return mantissa_.shape(); }
  Dtype dtype() const { return mantissa_.dtype(); }

  Array to(const Unit& unit) const;  // the mantissa in that unit; UnitError if the dimension is another
  Quantity in(const Unit& unit) const { return {to(unit), unit}; }
  Array decimal() const { return to({}); }  // the number, if there is no dimension

 private:
  Array mantissa_;
  Unit unit_;
};
using Quantities = std::vector<Quantity>;
using QuantitySpan = std::span<const Quantity>;

std::string to_string(const Quantity&);  // "5 mV"; "f32[4] in mV" for arrays and tracers

// f changes neither unit nor scale: data movement, selection, linear maps.
template <std::invocable<const Array&> F>
Quantity map_mantissa(const Quantity& q, F&& f) {
  return {f(q.mantissa()), q.unit()};
}

// Arithmetic -----------------------------------------------------------------------------------------------
Quantity add(const Quantity& a, const Quantity& b);
Quantity sub(const Quantity& a, const Quantity& b);
Quantity mul(const Quantity& a, const Quantity& b);
Quantity div(const Quantity& a, const Quantity& b);
Quantity rem(const Quantity& a, const Quantity& b);
Quantity maximum(const Quantity& a, const Quantity& b);
Quantity minimum(const Quantity& a, const Quantity& b);
Quantity clip(const Quantity& x, const Quantity& low, const Quantity& high);
Quantity where(const Array& condition, const Quantity& if_true, const Quantity& if_false);
Quantity neg(const Quantity&);
Quantity abs(const Quantity&);
Quantity relu(const Quantity&);
Quantity sign(const Quantity&);  // a plain number

Quantity pow(const Quantity&, const Rational& exponent);
Quantity square(const Quantity&);
Quantity sqrt(const Quantity&);
Quantity cbrt(const Quantity&);
Quantity rsqrt(const Quantity&);

Array equal_to(const Quantity& a, const Quantity& b);
Array not_equal_to(const Quantity& a, const Quantity& b);
Array less(const Quantity& a, const Quantity& b);
Array less_equal(const Quantity& a, const Quantity& b);
Array greater(const Quantity& a, const Quantity& b);
Array greater_equal(const Quantity& a, const Quantity& b);

template <class T>
concept QuantityOperand = std::same_as<T, Quantity> || std::convertible_to<const T&, Array>;
// At least one is a quantity; the operators on arrays alone are those of etrace/ops/elementwise.h.
template <class A, class B>
concept QuantityOperands = QuantityOperand<A> && QuantityOperand<B> &&
    (std::same_as<A, Quantity> || std::same_as<B, Quantity>);

template <class A, class B>
requires QuantityOperands<A, B> Quantity operator+(const A& a, const B& b) {
  return add(Quantity(a), Quantity(b));
}
template <class A, class B>
requires QuantityOperands<A, B> Quantity operator-(const A& a, const B& b) {
  return sub(Quantity(a), Quantity(b));
}
template <class A, class B>
requires QuantityOperands<A, B> Quantity operator*(const A& a, const B& b) {
  return mul(Quantity(a), Quantity(b));
}
template <class A, class B>
requires QuantityOperands<A, B> Quantity operator/(const A& a, const B& b) {
  return div(Quantity(a), Quantity(b));
}
template <class A, class B>
requires QuantityOperands<A, B> Quantity operator%(const A& a, const B& b) {
  return rem(Quantity(a), Quantity(b));
}
template <class A, class B>
requires QuantityOperands<A, B> Array operator<(const A& a, const B& b) {
  return less(Quantity(a), Quantity(b));
}
template <class A, class B>
requires QuantityOperands<A, B> Array operator<=(const A& a, const B& b) {
  return less_equal(Quantity(a), Quantity(b));
}
template <class A, class B>
requires QuantityOperands<A, B> Array operator>(const A& a, const B& b) {
  return greater(Quantity(a), Quantity(b));
}
template <class A, class B>
requires QuantityOperands<A, B> Array operator>=(const A& a, const B& b) {
  return greater_equal(Quantity(a), Quantity(b));
}
inline Quantity operator-(const Quantity& q) { return neg(q); }

// Attaching a unit: -65.0 * mV, currents * pA, 1.0 / ms. No operation on the mantissa.
template <QuantityOperand A>
Quantity operator*(const A& a, const Unit& unit) {
  const Quantity q(a);
  return {q.mantissa(), q.unit() * unit};
}
template <QuantityOperand A>
Quantity operator*(const Unit& unit, const A& a) {
  return a * unit;
}
template <QuantityOperand A>
Quantity operator/(const A& a, const Unit& unit) {
  const Quantity q(a);
  return {q.mantissa(), q.unit() / unit};
}

// Functions of plain numbers: UnitError for anything with a dimension
// ----------------------------------------
Quantity exp(const Quantity&);
Quantity exp2(const Quantity&);
Quantity expm1(const Quantity&);
Quantity log(const Quantity&);
Quantity log1p(const Quantity&);
Quantity sin(const Quantity&);
Quantity cos(const Quantity&);
Quantity tan(const Quantity&);
Quantity asin(const Quantity&);
Quantity acos(const Quantity&);
Quantity atan(const Quantity&);
Quantity sinh(const Quantity&);
Quantity cosh(const Quantity&);
Quantity tanh(const Quantity&);
Quantity asinh(const Quantity&);
Quantity acosh(const Quantity&);
Quantity atanh(const Quantity&);
Quantity erf(const Quantity&);
Quantity erfc(const Quantity&);
Quantity logistic(const Quantity&);
inline Quantity sigmoid(const Quantity& q) { return logistic(q); }
Array heaviside_surrogate(const Quantity& x, const Quantity& dx);

// Reductions and data movement: the unit stays
// ---------------------------------------------------------------
Quantity sum(const Quantity&, const Dims& axes = {}, bool keepdims = false);
Quantity mean(const Quantity&, const Dims& axes = {}, bool keepdims = false);
Quantity max(const Quantity&, const Dims& axes = {}, bool keepdims = false);
Quantity min(const Quantity&, const Dims& axes = {}, bool keepdims = false);
Quantity variance(const Quantity&, const Dims& axes = {}, bool keepdims = false);  // the unit squared
Quantity cumsum(const Quantity&, int axis, bool reverse = false);
Quantity concatenate(QuantitySpan, int axis = 0);  // in the scale of the first
Quantity stack(QuantitySpan, int axis = 0);
inline Quantity concatenate(std::initializer_list<Quantity> parts, int axis = 0) {
  return concatenate(QuantitySpan(parts.begin(), parts.size()), axis);
}
inline Quantity stack(std::initializer_list<Quantity> parts, int axis = 0) {
  return stack(QuantitySpan(parts.begin(), parts.size()), axis);
}
Quantity reshape(const Quantity&, const Dims& sizes);
Quantity squeeze(const Quantity&, const Dims& axes);
Quantity expand_dims(const Quantity&, const Dims& axes);
Quantity transpose(const Quantity&, const Dims& permutation = {});
Quantity broadcast_to(const Quantity&, const Shape&);
Quantity slice(const Quantity&, const Dims& start, const Dims& limit, const Dims& strides = {});
Quantity slice_axis(const Quantity&, int axis, std::int64_t start, std::int64_t limit,
                    std::int64_t stride = 1);
Quantity take(const Quantity&, const Array& indices, int axis = 0);
Quantity zeros_like(const Quantity&);
Quantity convert(const Quantity&, Dtype);
Quantity stop_gradient(const Quantity&);

// Products: units compose
// ------------------------------------------------------------------------------------
Quantity matmul_plain(const Quantity& a, const Quantity& b);
Quantity dot(const Quantity& a, const Quantity& b);
Quantity outer(const Quantity& a, const Quantity& b);

}  // namespace etrace
#pragma GCC visibility pop
