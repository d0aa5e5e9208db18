/* Arithmetic on single elements that plain C leaves undefined or decides otherwise, by element type: f32,
 * f64, i32, i64, u32, bool. Integers never trap: sums and products wrap around, dividing by zero and the
 * quotient of the smallest number and -1 are defined, shifts by the width or more move every bit out. Maxima
 * pass NaN on. This is their one definition: emitted code calls these, and so do the interpreter's kernels,
 * under the names of ops/scalar_math.h. */
#ifndef ETP_SCALAR_H
#define ETP_SCALAR_H

#include <math.h>
#include <stdint.h>

#ifndef ETP_FN
#define ETP_FN static inline __attribute__((always_inline, unused))
#endif

/* ---- integers: T, its suffix S, the unsigned type U of its width, bits, the least and the largest ---- */
#define ETP_INTEGER(T, S, U, BITS, MIN)                                                 \
  ETP_FN T etp_add_##S(T a, T b) { return (T)((U)a + (U)b); }                           \
  ETP_FN T etp_sub_##S(T a, T b) { return (T)((U)a - (U)b); }                           \
  ETP_FN T etp_mul_##S(T a, T b) { return (T)((U)a * (U)b); }                           \
  ETP_FN T etp_neg_##S(T a) { return (T)((U)0 - (U)a); }                                \
  ETP_FN T etp_div_##S(T a, T b) {                                                      \
    return b == 0 ? (T)-1 : (MIN && a == MIN && b == (T)-1) ? a : (T)(a / b);           \
  }                                                                                     \
  ETP_FN T etp_rem_##S(T a, T b) {                                                      \
    return b == 0 ? a : (MIN && a == MIN && b == (T)-1) ? (T)0 : (T)(a % b);            \
  }                                                                                     \
  ETP_FN T etp_shift_left_##S(T a, T n) { return (U)n < BITS ? (T)((U)a << n) : (T)0; } \
  ETP_FN T etp_shift_right_logical_##S(T a, T n) { return (U)n < BITS ? (T)((U)a >> n) : (T)0; }
ETP_INTEGER(int32_t, i32, uint32_t, 32u, INT32_MIN)
ETP_INTEGER(int64_t, i64, uint64_t, 64u, INT64_MIN)
ETP_INTEGER(uint32_t, u32, uint32_t, 32u, 0)
#undef ETP_INTEGER

#define ETP_SIGNED(T, S)                                           \
  ETP_FN T etp_abs_##S(T a) { return a < 0 ? etp_neg_##S(a) : a; } \
  ETP_FN T etp_sign_##S(T a) { return 0 < a ? (T)1 : a < 0 ? (T)-1 : a; }
ETP_SIGNED(int32_t, i32)
ETP_SIGNED(int64_t, i64)
#undef ETP_SIGNED
ETP_FN uint32_t etp_abs_u32(uint32_t a) { return a; }
ETP_FN uint32_t etp_sign_u32(uint32_t a) { return a != 0; }

ETP_FN int32_t etp_shift_right_arithmetic_i32(int32_t a, int32_t n) {
  return a >> ((uint32_t)n < 32u ? n : 31);
}
ETP_FN int64_t etp_shift_right_arithmetic_i64(int64_t a, int64_t n) {
  return a >> ((uint64_t)n < 64u ? n : 63);
}
ETP_FN uint32_t etp_shift_right_arithmetic_u32(uint32_t a, uint32_t n) {
  return (uint32_t)((int32_t)a >> (n < 32u ? n : 31u));
}

/* ---- order: a NaN in either operand is the result ---- */
#define ETP_ORDER(T, S)            \
  ETP_FN T etp_max_##S(T a, T b) { \
    T winner = b < a ? a : b;      \
    return a != a ? a : winner;    \
  }                                \
  ETP_FN T etp_min_##S(T a, T b) { \
    T winner = a < b ? a : b;      \
    return a != a ? a : winner;    \
  }                                \
  ETP_FN T etp_clamp_##S(T low, T x, T high) { return etp_min_##S(etp_max_##S(x, low), high); }
ETP_ORDER(float, f32)
ETP_ORDER(double, f64)
ETP_ORDER(int32_t, i32)
ETP_ORDER(int64_t, i64)
ETP_ORDER(uint32_t, u32)
ETP_ORDER(uint8_t, bool)
#undef ETP_ORDER

/* Folds prefer what they have: of equal ones, and of a NaN. */
#define ETP_FOLD_ORDER(T, S)                                                   \
  ETP_FN T etp_fold_max_##S(T a, T b) { return ((a > b) | (a != a)) ? a : b; } \
  ETP_FN T etp_fold_min_##S(T a, T b) { return ((a < b) | (a != a)) ? a : b; }
ETP_FOLD_ORDER(float, f32)
ETP_FOLD_ORDER(double, f64)
ETP_FOLD_ORDER(int32_t, i32)
ETP_FOLD_ORDER(int64_t, i64)
ETP_FOLD_ORDER(uint32_t, u32)
ETP_FOLD_ORDER(uint8_t, bool)
#undef ETP_FOLD_ORDER

/* ---- floats ---- */
#define ETP_FLOAT(T, S, F, MAX)                                                            \
  ETP_FN T etp_sign_##S(T x) { return (T)0 < x ? (T)1 : x < (T)0 ? (T)-1 : x; }            \
  ETP_FN T etp_square_##S(T x) { return x * x; }                                           \
  ETP_FN T etp_abs_##S(T x) { return __builtin_fabs##F(x); }                               \
  ETP_FN T etp_floor_##S(T x) { return __builtin_floor##F(x); }                            \
  ETP_FN T etp_ceil_##S(T x) { return __builtin_ceil##F(x); }                              \
  ETP_FN T etp_rint_##S(T x) { return __builtin_rint##F(x); }                              \
  ETP_FN T etp_round_##S(T x) { return __builtin_round##F(x); }                            \
  ETP_FN T etp_rem_##S(T a, T b) { return __builtin_fmod##F(a, b); }                       \
  ETP_FN T etp_nextafter_##S(T a, T b) { return __builtin_nextafter##F(a, b); }            \
  ETP_FN T etp_step_##S(T x) { return (x < (T)0) | (x != x) ? (T)0 : (T)1; } /* a spike */ \
  ETP_FN uint8_t etp_is_finite_##S(T x) { return __builtin_fabs##F(x) <= MAX; }
ETP_FLOAT(float, f32, f, 0x1.fffffep+127f)
ETP_FLOAT(double, f64, , 0x1.fffffffffffffp+1023)
#undef ETP_FLOAT
ETP_FN int32_t etp_square_i32(int32_t x) { return etp_mul_i32(x, x); }
ETP_FN int64_t etp_square_i64(int64_t x) { return etp_mul_i64(x, x); }
ETP_FN uint32_t etp_square_u32(uint32_t x) { return etp_mul_u32(x, x); }

/* ---- floats to integers: towards zero, saturating, NaN to 0 ---- */
#define ETP_TO_INTEGER(F, FS, T, TS, LOW, BEYOND, LAST) \
  ETP_FN T etp_##FS##_to_##TS(F x) { return x != x ? 0 : x < LOW ? (T)LOW : x < BEYOND ? (T)x : LAST; }
ETP_TO_INTEGER(float, f32, int32_t, i32, -0x1p31f, 0x1p31f, INT32_MAX)
ETP_TO_INTEGER(float, f32, int64_t, i64, -0x1p63f, 0x1p63f, INT64_MAX)
ETP_TO_INTEGER(float, f32, uint32_t, u32, 0.0f, 0x1p32f, UINT32_MAX)
ETP_TO_INTEGER(double, f64, int32_t, i32, -0x1p31, 0x1p31, INT32_MAX)
ETP_TO_INTEGER(double, f64, int64_t, i64, -0x1p63, 0x1p63, INT64_MAX)
ETP_TO_INTEGER(double, f64, uint32_t, u32, 0.0, 0x1p32, UINT32_MAX)
#undef ETP_TO_INTEGER

/* An index, made to lie in 0 … limit. */
ETP_FN int64_t etp_clip(int64_t i, int64_t limit) { return i < 0 ? 0 : i > limit ? limit : i; }

/* ---- the bits as another type ---- */
#define ETP_BITS(FROM, FS, TO, TS)       \
  ETP_FN TO etp_##FS##_as_##TS(FROM x) { \
    TO y;                                \
    __builtin_memcpy(&y, &x, sizeof y);  \
    return y;                            \
  }
ETP_BITS(float, f32, uint32_t, u32)
ETP_BITS(float, f32, int32_t, i32)
ETP_BITS(uint32_t, u32, float, f32)
ETP_BITS(int32_t, i32, float, f32)
ETP_BITS(double, f64, int64_t, i64)
ETP_BITS(int64_t, i64, double, f64)
#undef ETP_BITS

#endif /* ETP_SCALAR_H */
