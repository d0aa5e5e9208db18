// Python's arithmetic.
#include "numbers.h"

#include <limits>

#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/numpy.h"

namespace etrace::python {

namespace {

bool fits(std::int64_t v, Dtype d) {
  if (d == Dtype::I32)
    return v >= std::numeric_limits<std::int32_t>::min() && v <= std::numeric_limits<std::int32_t>::max();
  if (d == Dtype::U32) return v >= 0 && v <= std::numeric_limits<std::uint32_t>::max();
  return true;
}

void require_fit_one(const Array& number, const Array& other) {
  if (!number.is_weak() || other.is_weak() || number.dtype() != Dtype::I32 || !is_integer(other.dtype()))
    return;
  const std::int64_t v = to_int(*number.splat());
  if (!fits(v, other.dtype()))
    throw ValueError("array", "the number " + std::to_string(v) + " does not fit into " +
                                  std::string(name(other.dtype())) +
                                  "; convert the array with .astype(et.int64) first");
}

Array floating(const Array& a) {
  if (is_floating(a.dtype()) || a.is_weak()) return a;
  return convert(a, a.dtype() == Dtype::I64 ? Dtype::F64 : Dtype::F32);
}

// True where the remainder r is not 0 and has the other sign than b.
Array wrong_side(const Array& r, const Array& b) {
  return logical_and(not_equal_to(r, 0), not_equal_to(less(r, 0), less(b, 0)));
}

Promoted both(const Array& a, const Array& b) {
  require_fit(a, b);
  Promoted p = promote_operands(a, b);
  if (p.a.dtype() == Dtype::Bool) return {convert(p.a, Dtype::I32), convert(p.b, Dtype::I32)};
  return p;
}

}  // namespace

void require_fit(const Array& a, const Array& b) {
  require_fit_one(a, b);
  require_fit_one(b, a);
}

Array true_divide(const Array& a, const Array& b) {
  require_fit(a, b);
  if (is_floating(a.dtype()) || is_floating(b.dtype())) return div(a, b);
  if (a.is_weak() && b.is_weak()) return div(full({}, to_double(*a.splat()), Dtype::F32), b);
  const Promoted p = promote_operands(a, b);  // beside 64 bits, 32 bits are as exact
  return div(floating(p.a), floating(p.b));
}

Array mod(const Array& a, const Array& b) {
  const Promoted p = both(a, b);
  const Array r = rem(p.a, p.b);
  if (p.a.dtype() == Dtype::U32) return r;
  const Array moved = where(wrong_side(r, p.b), r + p.b, r);
  if (!is_floating(r.dtype())) return moved;
  // A zero has the sign of b, and the derivative of r.
  const Array zero = r - stop_gradient(r), zero_below = -(stop_gradient(r) - r);
  return where(equal_to(r, 0), where(less(p.b, 0), zero_below, zero), moved);
}

Array floor_divide(const Array& a, const Array& b) {
  const Promoted p = both(a, b);
  if (p.a.dtype() == Dtype::U32) return div(p.a, p.b);
  const Array r = rem(p.a, p.b), wrong = wrong_side(r, p.b);
  const Array q = div(is_floating(r.dtype()) ? p.a - r : p.a, p.b);
  if (!is_floating(r.dtype())) return where(logical_and(wrong, not_equal_to(p.b, 0)), q - 1, q);
  const Array whole = where(wrong, q - 1, q);
  // As NumPy: an infinite b divides nothing, a zero has the sign of a/b, and a/0 is infinite.
  const Array ratio = div(stop_gradient(p.a), stop_gradient(p.b));
  const Array rounded = where(equal_to(whole, 0), 0 * ratio, round(whole));
  return where(equal_to(p.b, 0), ratio, rounded);
}

Array shift_right(const Array& a, const Array& n) {
  const Promoted p = promote_operands(a, n);
  return p.a.dtype() == Dtype::U32 ? shift_right_logical(p.a, p.b) : shift_right_arithmetic(p.a, p.b);
}

Array power(const Array& a, const Array& b) {
  require_fit(a, b);
  if (b.is_weak() && b.dtype() == Dtype::I32) {
    const std::int64_t n = to_int(*b.splat());
    if (!is_floating(a.dtype()) && n < 0)
      throw ValueError("pow", "integers have no negative powers; convert with .astype(et.float32) first");
    if (is_floating(a.dtype()) || n >= 0) return n == 2 ? square(a) : integer_pow(a, n);
  }
  if (!is_floating(a.dtype()) && !is_floating(b.dtype()) && !b.is_weak())
    throw NotSupportedError(
        "pow",
        "an array of integers to the power of an array of integers; convert the base with "
        ".astype(et.float32) first");
  return pow(a, b);
}

Array matmul_operator(const Array& a, const Array& b) { return matmul_plain(a, b); }

}  // namespace etrace::python
