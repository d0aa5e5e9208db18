// Elementwise operations. Functions broadcast like NumPy and promote element types; the primitives beneath
// take equal shapes, scalars, and size-1 axes of equal rank.
#pragma once

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

extern const Primitive add_p, sub_p, mul_p, div_p, rem_p, pow_p, atan2_p, nextafter_p, max_p, min_p,
    add_any_p;
extern const Primitive neg_p, sign_p, abs_p, floor_p, ceil_p, round_p, exp_p, exp2_p, log_p, log1p_p, expm1_p,
    sin_p, cos_p, tan_p, asin_p, acos_p, atan_p, sinh_p, cosh_p, tanh_p, asinh_p, acosh_p, atanh_p,
    logistic_p, erf_p, erfc_p, erf_inv_p, lgamma_p, digamma_p, sqrt_p, rsqrt_p, cbrt_p, square_p, is_finite_p;
extern const Primitive polygamma_p;                         // operands: m (whole numbers), x
extern const Primitive integer_pow_p;                       // params: y
extern const Primitive eq_p, ne_p, lt_p, le_p, gt_p, ge_p;  // -> bool
extern const Primitive and_p, or_p, xor_p, not_p;           // bool or integers, bitwise
extern const Primitive shift_left_p, shift_right_logical_p, shift_right_arithmetic_p;
extern const Primitive select_n_p;              // operands: which (bool or i32), case0, case1, …
extern const Primitive clamp_p;                 // operands: min, x, max
extern const Primitive convert_element_type_p;  // params: new_dtype, weak_type (ignored)
extern const Primitive bitcast_convert_type_p;  // params: new_dtype, same width
extern const Primitive stop_gradient_p, copy_p;
extern const Primitive heaviside_surrogate_gradient_p;  // operands: x, dx

// Operands brought to one element type and shape, as every binary function does it.
struct Promoted {
  Array a, b;
};
Promoted promote_operands(const Array& a, const Array& b);

Array add(const Array& a, const Array& b);
Array sub(const Array& a, const Array& b);
Array mul(const Array& a, const Array& b);
Array div(const Array& a, const Array& b);  // integers divide towards zero
Array rem(const Array& a, const Array& b);  // sign of the dividend
Array pow(const Array& a, const Array& b);
Array atan2(const Array& y, const Array& x);
Array nextafter(const Array& a, const Array& b);
Array maximum(const Array& a, const Array& b);
Array minimum(const Array& a, const Array& b);
inline Array operator+(const Array& a, const Array& b) { return add(a, b); }
inline Array operator-(const Array& a, const Array& b) { return sub(a, b); }
inline Array operator*(const Array& a, const Array& b) { return mul(a, b); }
inline Array operator/(const Array& a, const Array& b) { return div(a, b); }
inline Array operator%(const Array& a, const Array& b) { return rem(a, b); }

Array neg(const Array&);
inline Array operator-(const Array& a) { return neg(a); }
Array sign(const Array&);
Array abs(const Array&);
Array floor(const Array&);
Array ceil(const Array&);
Array round(const Array&);  // halves to even
Array exp(const Array&);
Array exp2(const Array&);
Array log(const Array&);
Array log1p(const Array&);
Array expm1(const Array&);
Array sin(const Array&);
Array cos(const Array&);
Array tan(const Array&);
Array asin(const Array&);
Array acos(const Array&);
Array atan(const Array&);
Array sinh(const Array&);
Array cosh(const Array&);
Array tanh(const Array&);
Array asinh(const Array&);
Array acosh(const Array&);
Array atanh(const Array&);
Array logistic(const Array&);
inline Array sigmoid(const Array& a) { return logistic(a); }
Array erf(const Array&);
Array erfc(const Array&);
Array erf_inv(const Array&);
Array lgamma(const Array&);
Array digamma(const Array&);
Array sqrt(const Array&);
Array rsqrt(const Array&);
Array cbrt(const Array&);
Array square(const Array&);
Array integer_pow(const Array&, std::int64_t exponent);
Array is_finite(const Array&);

Array equal_to(const Array& a, const Array& b);
Array not_equal_to(const Array& a, const Array& b);
Array less(const Array& a, const Array& b);
Array less_equal(const Array& a, const Array& b);
Array greater(const Array& a, const Array& b);
Array greater_equal(const Array& a, const Array& b);
inline Array operator<(const Array& a, const Array& b) { return less(a, b); }
inline Array operator<=(const Array& a, const Array& b) { return less_equal(a, b); }
inline Array operator>(const Array& a, const Array& b) { return greater(a, b); }
inline Array operator>=(const Array& a, const Array& b) { return greater_equal(a, b); }

Array logical_and(const Array& a, const Array& b);  // bitwise on integers
Array logical_or(const Array& a, const Array& b);
Array logical_xor(const Array& a, const Array& b);
Array logical_not(const Array&);
Array shift_left(const Array& a, const Array& n);
Array shift_right_logical(const Array& a, const Array& n);
Array shift_right_arithmetic(const Array& a, const Array& n);

Array where(const Array& condition, const Array& if_true, const Array& if_false);
Array select_n(const Array& which, ArraySpan cases);
Array clamp(const Array& low, const Array& x, const Array& high);
inline Array clip(const Array& x, const Array& low, const Array& high) { return clamp(low, x, high); }
Array convert(const Array&, Dtype);  // nothing if it has that type
Array bitcast(const Array&, Dtype);
Array stop_gradient(const Array&);
Array copy(const Array&);
// 1 where x ≥ 0, else 0; its derivative is taken to be dx. See also etrace/ops/numpy.h for spikes.
Array heaviside_surrogate(const Array& x, const Array& dx);

// Sum of cotangents, either of which may be undefined.
Array add_cotangents(const Array& a, const Array& b);
// Sums a cotangent over the axes along which an operand of type `to` was broadcast.
Array unbroadcast(const Array& ct, const Shape& to);

}  // namespace etrace
#pragma GCC visibility pop
