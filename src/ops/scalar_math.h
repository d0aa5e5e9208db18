// Arithmetic on single elements, by type: the functions of runtime/etp_scalar.h, which emitted code calls,
// under one name for all element types. What is plain in C (a + b of floats) is written out.
#pragma once

#include <cstdint>

#include "runtime/etp_scalar.h"

namespace etrace::elementwise {

// clang-format off
#define ETRACE_UNARY(NAME, T, S) \
  inline T NAME(T x) { return etp_##NAME##_##S(x); }
#define ETRACE_BINARY(NAME, T, S) \
  inline T NAME(T a, T b) { return etp_##NAME##_##S(a, b); }
#define ETRACE_INTEGERS(FORM, NAME) \
  FORM(NAME, std::int32_t, i32) FORM(NAME, std::int64_t, i64) FORM(NAME, std::uint32_t, u32)
#define ETRACE_FLOATS(FORM, NAME) FORM(NAME, float, f32) FORM(NAME, double, f64)
#define ETRACE_NUMBERS(FORM, NAME) ETRACE_INTEGERS(FORM, NAME) ETRACE_FLOATS(FORM, NAME)

// One scope deeper: the names are those of functions of arrays, too.
namespace scalar {
ETRACE_INTEGERS(ETRACE_BINARY, add)
ETRACE_INTEGERS(ETRACE_BINARY, sub)
ETRACE_INTEGERS(ETRACE_BINARY, mul)
ETRACE_INTEGERS(ETRACE_BINARY, div)
ETRACE_INTEGERS(ETRACE_UNARY, neg)
ETRACE_INTEGERS(ETRACE_BINARY, shift_left)
ETRACE_INTEGERS(ETRACE_BINARY, shift_right_logical)
ETRACE_INTEGERS(ETRACE_BINARY, shift_right_arithmetic)
ETRACE_NUMBERS(ETRACE_BINARY, rem)
ETRACE_NUMBERS(ETRACE_UNARY, abs)
ETRACE_NUMBERS(ETRACE_UNARY, sign)
ETRACE_NUMBERS(ETRACE_UNARY, square)
ETRACE_NUMBERS(ETRACE_BINARY, max)
ETRACE_NUMBERS(ETRACE_BINARY, min)
ETRACE_FLOATS(ETRACE_UNARY, floor)
ETRACE_FLOATS(ETRACE_UNARY, ceil)
ETRACE_FLOATS(ETRACE_UNARY, rint)
ETRACE_FLOATS(ETRACE_UNARY, round)
ETRACE_FLOATS(ETRACE_UNARY, step)
ETRACE_FLOATS(ETRACE_BINARY, nextafter)
// clang-format on

#define ETRACE_PLAIN(T)                    \
  inline T add(T a, T b) { return a + b; } \
  inline T sub(T a, T b) { return a - b; } \
  inline T mul(T a, T b) { return a * b; } \
  inline T div(T a, T b) { return a / b; } \
  inline T neg(T x) { return -x; }
ETRACE_PLAIN(float)
ETRACE_PLAIN(double)
#undef ETRACE_PLAIN

inline bool max(bool a, bool b) { return etp_max_bool(a, b) != 0; }
inline bool min(bool a, bool b) { return etp_min_bool(a, b) != 0; }
inline bool is_finite(float x) { return etp_is_finite_f32(x) != 0; }
inline bool is_finite(double x) { return etp_is_finite_f64(x) != 0; }

template <class T>
T clamp(T low, T x, T high) {
  return min(max(x, low), high);
}

// Floats to integers: towards zero, saturating, NaN to 0.
template <class To>
struct Truncated;
#define ETRACE_TRUNCATED(T, S)                          \
  template <>                                           \
  struct Truncated<T> {                                 \
    static T of(float x) { return etp_f32_to_##S(x); }  \
    static T of(double x) { return etp_f64_to_##S(x); } \
  };
ETRACE_TRUNCATED(std::int32_t, i32)
ETRACE_TRUNCATED(std::int64_t, i64)
ETRACE_TRUNCATED(std::uint32_t, u32)
#undef ETRACE_TRUNCATED
#undef ETRACE_UNARY
#undef ETRACE_BINARY
#undef ETRACE_INTEGERS
#undef ETRACE_FLOATS
#undef ETRACE_NUMBERS
}  // namespace scalar

}  // namespace etrace::elementwise
