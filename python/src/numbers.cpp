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
  if (!is_floating(a.dtype()) && !is_floating(b.dtype())) {
    if (a.is_weak() && b.is_weak()) return div(full({}, to_double(*a.splat()), Dtype::F32), b);
    return div(a.is_weak() ? Array(to_double(*a.splat())) : floating(a),
               b.is_weak() ? Array(to_double(*b.splat())) : floating(b));
  }
  return div(a, b);
}

Array mod(const Array& a, const Array& b) {
  const Promoted p = both(a, b);
  const Array r = rem(p.a, p.b);
  if (p.a.dtype() == Dtype::U32) return r;
  return where(wrong_side(r, p.b), r + p.b, r);
}

Array floor_divide(const Array& a, const Array& b) {
  const Promoted p = both(a, b);
  if (p.a.dtype() == Dtype::U32) return div(p.a, p.b);
  const Array r = rem(p.a, p.b);
  if (is_floating(p.a.dtype())) return round(div(p.a - where(wrong_side(r, p.b), r + p.b, r), p.b));
  const Array q = div(p.a, p.b);
  return where(wrong_side(r, p.b), q - 1, q);
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
