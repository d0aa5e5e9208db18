// The functions of etrace/ops/elementwise.h: operands are brought to one element type and to shapes that the
// primitives accept, then bound. Scalars stay scalars and axes of size 1 stay as they are, so that programs
// stay small.
#include "etrace/ops/elementwise.h"

#include <algorithm>
#include <string>

#include "etrace/error.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"

namespace etrace {

namespace {

// Kinds in the order in which they win over a C++ number of a lower kind.
int kind_rank(Dtype t) { return t == Dtype::Bool ? 0 : is_integer(t) ? 1 : 2; }

// A C++ number has a say in the kind of the result (1.5 + an integer array is a float), not in its width.
Dtype common_dtype(ArraySpan x) {
  std::optional<Dtype> strong, weak;
  for (const Array& a : x) {
    std::optional<Dtype>& slot = a.is_weak() ? weak : strong;
    slot = slot ? promote(*slot, a.dtype()) : a.dtype();
  }
  if (!strong) return *weak;
  return weak && kind_rank(*weak) > kind_rank(*strong) ? promote(*strong, *weak) : *strong;
}

// Equal ranks by leading axes of size 1; scalars stay. ValueError if NumPy's rule does not join the shapes.
void align_ranks(std::string_view op, std::span<Array> x) {
  Shape shape;
  for (const Array& a : x) {
    const auto joined = numpy_broadcast_shapes(shape, a.shape());
    if (!joined)
      throw ValueError(std::string(op),
                       "shapes " + to_string(shape) + " and " + to_string(a.shape()) +
                           " do not broadcast: aligned at their last axes, sizes must be equal or 1");
    shape = *joined;
  }
  for (Array& a : x) {
    if (a.shape().is_scalar() || a.rank() == shape.rank()) continue;
    const std::size_t missing = shape.rank() - a.rank();
    Dims dims(missing, 1), axes;
    dims.insert(dims.end(), a.shape().begin(), a.shape().end());
    for (std::size_t i = missing; i < shape.rank(); ++i) axes.push_back(static_cast<std::int64_t>(i));
    a = broadcast_in_dim(a, dims, axes);
  }
}

void require_defined(std::string_view op, ArraySpan x) {
  for (const Array& a : x)
    if (!a.defined()) throw TypeError(std::string(op), "an operand is undefined");
}

Arrays promoted(std::string_view op, Arrays x) {
  require_defined(op, x);
  const Dtype dtype = common_dtype(x);
  for (Array& a : x) a = convert(a, dtype);
  align_ranks(op, x);
  return x;
}

Array bind_promoted(const Primitive& p, Arrays x) {
  return bind_primitive(p, promoted(p.name(), std::move(x)))[0];
}

// Functions that only make sense for floats take integers as floats of the same width.
Array as_float(const Primitive& p, const Array& x) {
  require_defined(p.name(), {&x, 1});
  if (is_floating(x.dtype())) return convert(x, x.dtype());
  return convert(x, x.dtype() == Dtype::I64 && !x.is_weak() ? Dtype::F64 : Dtype::F32);
}
Array bind_float(const Primitive& p, const Array& x) { return bind1(p, {as_float(p, x)}); }

Array bind_floats(const Primitive& p, const Array& a, const Array& b) {
  Arrays x = promoted(p.name(), {a, b});
  return bind1(p, {as_float(p, x[0]), as_float(p, x[1])});
}

// Zero and false are false, everything else is true.
Array as_condition(const Array& x) { return x.dtype() == Dtype::Bool ? x : not_equal_to(x, 0); }

}  // namespace

Promoted promote_operands(const Array& a, const Array& b) {
  Arrays x = promoted("promote", {a, b});
  return {x[0], x[1]};
}

Array add(const Array& a, const Array& b) { return bind_promoted(add_p, {a, b}); }
Array sub(const Array& a, const Array& b) { return bind_promoted(sub_p, {a, b}); }
Array mul(const Array& a, const Array& b) { return bind_promoted(mul_p, {a, b}); }
Array div(const Array& a, const Array& b) { return bind_promoted(div_p, {a, b}); }
Array rem(const Array& a, const Array& b) { return bind_promoted(rem_p, {a, b}); }
Array atan2(const Array& y, const Array& x) { return bind_floats(atan2_p, y, x); }
Array nextafter(const Array& a, const Array& b) { return bind_floats(nextafter_p, a, b); }
Array maximum(const Array& a, const Array& b) { return bind_promoted(max_p, {a, b}); }
Array minimum(const Array& a, const Array& b) { return bind_promoted(min_p, {a, b}); }

Array pow(const Array& a, const Array& b) {
  require_defined("pow", std::array{a, b});
  // An array of integer exponents stays one: x^n is defined for negative x.
  if (!is_floating(a.dtype()) || !is_integer(b.dtype()) || b.is_weak()) return bind_floats(pow_p, a, b);
  Arrays x{as_float(pow_p, a), b};
  align_ranks("pow", x);
  return bind_primitive(pow_p, x)[0];
}

Array neg(const Array& x) { return bind1(neg_p, {x}); }
Array sign(const Array& x) { return bind1(sign_p, {x}); }
Array abs(const Array& x) { return bind1(abs_p, {x}); }
Array floor(const Array& x) { return bind_float(floor_p, x); }
Array ceil(const Array& x) { return bind_float(ceil_p, x); }
Array round(const Array& x) { return bind1(round_p, {as_float(round_p, x)}, {{"rounding_method", 1}}); }
Array exp(const Array& x) { return bind_float(exp_p, x); }
Array exp2(const Array& x) { return bind_float(exp2_p, x); }
Array log(const Array& x) { return bind_float(log_p, x); }
Array log1p(const Array& x) { return bind_float(log1p_p, x); }
Array expm1(const Array& x) { return bind_float(expm1_p, x); }
Array sin(const Array& x) { return bind_float(sin_p, x); }
Array cos(const Array& x) { return bind_float(cos_p, x); }
Array tan(const Array& x) { return bind_float(tan_p, x); }
Array asin(const Array& x) { return bind_float(asin_p, x); }
Array acos(const Array& x) { return bind_float(acos_p, x); }
Array atan(const Array& x) { return bind_float(atan_p, x); }
Array sinh(const Array& x) { return bind_float(sinh_p, x); }
Array cosh(const Array& x) { return bind_float(cosh_p, x); }
Array tanh(const Array& x) { return bind_float(tanh_p, x); }
Array asinh(const Array& x) { return bind_float(asinh_p, x); }
Array acosh(const Array& x) { return bind_float(acosh_p, x); }
Array atanh(const Array& x) { return bind_float(atanh_p, x); }
Array logistic(const Array& x) { return bind_float(logistic_p, x); }
Array erf(const Array& x) { return bind_float(erf_p, x); }
Array erfc(const Array& x) { return bind_float(erfc_p, x); }
Array erf_inv(const Array& x) { return bind_float(erf_inv_p, x); }
Array lgamma(const Array& x) { return bind_float(lgamma_p, x); }
Array digamma(const Array& x) { return bind_float(digamma_p, x); }
Array sqrt(const Array& x) { return bind_float(sqrt_p, x); }
Array rsqrt(const Array& x) { return bind_float(rsqrt_p, x); }
Array cbrt(const Array& x) { return bind_float(cbrt_p, x); }
Array square(const Array& x) { return bind1(square_p, {x}); }
Array integer_pow(const Array& x, std::int64_t exponent) {
  return bind1(integer_pow_p, {x}, {{"y", exponent}});
}
Array is_finite(const Array& x) { return bind_float(is_finite_p, x); }

Array equal_to(const Array& a, const Array& b) { return bind_promoted(eq_p, {a, b}); }
Array not_equal_to(const Array& a, const Array& b) { return bind_promoted(ne_p, {a, b}); }
Array less(const Array& a, const Array& b) { return bind_promoted(lt_p, {a, b}); }
Array less_equal(const Array& a, const Array& b) { return bind_promoted(le_p, {a, b}); }
Array greater(const Array& a, const Array& b) { return bind_promoted(gt_p, {a, b}); }
Array greater_equal(const Array& a, const Array& b) { return bind_promoted(ge_p, {a, b}); }

Array logical_and(const Array& a, const Array& b) { return bind_promoted(and_p, {a, b}); }
Array logical_or(const Array& a, const Array& b) { return bind_promoted(or_p, {a, b}); }
Array logical_xor(const Array& a, const Array& b) { return bind_promoted(xor_p, {a, b}); }
Array logical_not(const Array& x) { return bind1(not_p, {x}); }
Array shift_left(const Array& a, const Array& n) { return bind_promoted(shift_left_p, {a, n}); }
Array shift_right_logical(const Array& a, const Array& n) {
  return bind_promoted(shift_right_logical_p, {a, n});
}
Array shift_right_arithmetic(const Array& a, const Array& n) {
  return bind_promoted(shift_right_arithmetic_p, {a, n});
}

Array select_n(const Array& which, ArraySpan cases) {
  require_defined("select_n", {&which, 1});
  if (cases.empty()) throw ValueError("select_n", "there is no case to choose; give at least one");
  Arrays x = promoted("select_n", {cases.begin(), cases.end()});
  x.insert(x.begin(), which);
  align_ranks("select_n", x);
  return bind_primitive(select_n_p, x)[0];
}

Array where(const Array& condition, const Array& if_true, const Array& if_false) {
  require_defined("where", {&condition, 1});
  return select_n(as_condition(condition), std::array{if_false, if_true});
}

Array clamp(const Array& low, const Array& x, const Array& high) {
  return bind_promoted(clamp_p, {low, x, high});
}

Array convert(const Array& x, Dtype dtype) {
  if (x.dtype() == dtype && !x.is_weak()) return x;
  // A constant of known value changes its type without an equation, unless integers would overflow.
  const bool exact = is_floating(dtype) || (x.is_weak() && !is_floating(x.dtype()));
  if (const auto value = x.splat(); value && exact) return full(x.shape(), *value, dtype);
  return bind1(convert_element_type_p, {x}, {{"new_dtype", dtype}, {"weak_type", false}});
}

Array bitcast(const Array& x, Dtype dtype) {
  return x.dtype() == dtype ? x : bind1(bitcast_convert_type_p, {x}, {{"new_dtype", dtype}});
}
Array stop_gradient(const Array& x) { return bind1(stop_gradient_p, {x}); }
Array copy(const Array& x) { return bind1(copy_p, {x}); }
Array heaviside_surrogate(const Array& x, const Array& dx) {
  return bind_floats(heaviside_surrogate_gradient_p, x, dx);
}

Array add_cotangents(const Array& a, const Array& b) {
  if (!a.defined()) return b;
  return b.defined() ? bind1(add_any_p, {a, b}) : a;
}

Array unbroadcast(const Array& ct, const Shape& to) {
  if (!ct.defined() || ct.shape() == to) return ct;
  Dims axes;
  for (std::size_t i = 0; i < ct.rank(); ++i)
    if (to.is_scalar() || (to[i] == 1 && ct.shape()[i] != 1)) axes.push_back(static_cast<std::int64_t>(i));
  const Array sum = reduce_sum(ct, axes);
  return sum.shape() == to ? sum : reshape(sum, to.to_dims());
}

}  // namespace etrace
