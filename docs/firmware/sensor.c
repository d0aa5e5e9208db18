/* sensor.c: a learner, D_RTRL, single-step, sgd
 * Written by etrace 0.1.0, not to be changed by hand. No allocation, no library but memcpy and memset;
 * one instance, not to be called from two threads at once. Every fused multiply-add is spelled out: compile
 * with -ffp-contract=off (the default of -std=c99) and without -ffast-math, with -fno-math-errno to use the
 * machine's square root. The bits are then those of the native engine, on every machine. */

#if defined(__FAST_MATH__)
#error "no -ffast-math: rounding and numbers that are not finite matter here"
#endif
#if defined(__FLT_EVAL_METHOD__) && __FLT_EVAL_METHOD__ != 0
#error "numbers must be rounded to their type after every operation (FLT_EVAL_METHOD 0)"
#endif
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("fp-contract=off")
#endif

/* What stands before the other headers in code for compilers that nothing is known of but C99. */
#ifndef ETP_STANDARD_H
#define ETP_STANDARD_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ETP_FN static inline __attribute__((unused))
#else
#define ETP_FN static inline
#endif

/* Loops get their arrays by pointers, and must not know more of them: where gcc (12 at least) sees the
 * addresses of static arrays, by inlining or by a clone, its induction variables walk from one array into
 * another, and loads and stores then change places. */
#if defined(__GNUC__) && !defined(__clang__)
#define ETP_LOOP static __attribute__((noinline, noclone))
#else
#define ETP_LOOP static
#endif

/* Of POSIX, not of C99: without the global sign of lgamma(). */
double lgamma_r(double, int*);
float lgammaf_r(float, int*);

#endif /* ETP_STANDARD_H */
/* Functions that have one right result, for machines without an instruction for them: fused multiply-adds,
 * roots, and roundings to whole numbers, by integer arithmetic and plain additions. So exported code needs no
 * mathematical library, and has the same bits everywhere. What the machine has is taken from the machine. */
#ifndef ETP_SOFT_H
#define ETP_SOFT_H

#include <stdint.h>

#ifndef ETP_FN
#define ETP_FN static inline __attribute__((always_inline, unused))
#endif

ETP_FN uint64_t etp_soft_bits(double x) {
  uint64_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  return u;
}
ETP_FN double etp_soft_number(uint64_t u) {
  double x;
  __builtin_memcpy(&x, &u, sizeof x);
  return x;
}

/* ---- fused multiply-adds ---- */

/* The product of two floats is exact as a double. Their sum with c is rounded to odd: its last bit says
 * whether anything was lost, so that rounding it again to a float rounds once. */
static inline float etp_soft_fmaf(float a, float b, float c) {
  const double p = (double)a * (double)b, z = (double)c, s = p + z;
  const double back = s - p, lost = (p - (s - back)) + (z - back);
  uint64_t u = etp_soft_bits(s);
  if ((u >> 52 & 0x7ff) != 0x7ff && lost != 0.0 && (u & 1) == 0)
    u += (lost > 0.0) == (s > 0.0) ? 1 : (uint64_t)-1;
  return (float)etp_soft_number(u);
}

/* 128 bits, and a shift to the right that leaves a mark of what falls off. */
typedef struct etp_soft_wide {
  uint64_t high, low;
} etp_soft_wide;

static inline etp_soft_wide etp_soft_shifted(etp_soft_wide x, int32_t by) {
  etp_soft_wide y = x;
  if (by <= 0) return x;
  if (by >= 128) {
    y.low = (x.high | x.low) != 0;
    y.high = 0;
  } else if (by >= 64) {
    const uint64_t lost = x.low | (by > 64 ? x.high << (128 - by) : 0);
    y.low = (by == 64 ? x.high : x.high >> (by - 64)) | (lost != 0);
    y.high = 0;
  } else {
    const uint64_t lost = x.low << (64 - by);
    y.low = x.low >> by | x.high << (64 - by) | (lost != 0);
    y.high = x.high >> by;
  }
  return y;
}

/* A number that is neither 0 nor infinite nor NaN as m·2^e, 2^52 <= m < 2^53. */
static inline uint64_t etp_soft_split(double x, int32_t* e) {
  const uint64_t u = etp_soft_bits(x);
  uint64_t m = u & 0xfffffffffffffu;
  int32_t k = (int32_t)(u >> 52 & 0x7ff);
  if (k == 0) {
    for (k = 1; m >> 52 == 0; --k) m <<= 1;
  } else {
    m |= (uint64_t)1 << 52;
  }
  *e = k - 1075;
  return m;
}

/* m·2^e, m not 0, as a double; of what m stands for, bits below its last may be marked in it. */
static inline double etp_soft_rounded(uint64_t sign, uint64_t m, int32_t e) {
  int32_t s = 11;
  uint64_t q, rest, half;
  for (; m >> 63 == 0; --e) m <<= 1;
  e += 63; /* 2^e <= number < 2^(e + 1) */
  if (e > 1023) return etp_soft_number(sign | (uint64_t)0x7ff << 52);
  if (e < -1022) s += -1022 - e;
  if (s > 64) return etp_soft_number(sign);
  q = s == 64 ? 0 : m >> s;
  rest = s == 64 ? m : m & (((uint64_t)1 << s) - 1);
  half = (uint64_t)1 << (s - 1);
  if (rest > half || (rest == half && (q & 1) != 0)) ++q;
  return etp_soft_number(sign | (q + (e < -1022 ? 0 : (uint64_t)(e + 1022) << 52)));
}

static inline double etp_soft_fma(double a, double b, double c) {
  const uint64_t ua = etp_soft_bits(a), ub = etp_soft_bits(b), uc = etp_soft_bits(c);
  const uint64_t mask = (uint64_t)0x7ff << 52, sign = (uint64_t)1 << 63;
  int32_t ea, eb, ec, shift, e;
  uint64_t ma, mb, mc, s, negative;
  uint64_t a0, a1, b0, b1, middle;
  etp_soft_wide p, z;
  if (a == 0.0 || b == 0.0 || (ua & mask) == mask || (ub & mask) == mask) return a * b + c;
  if ((uc & mask) == mask) return c;
  if (c == 0.0) return a * b;
  ma = etp_soft_split(a, &ea), mb = etp_soft_split(b, &eb), mc = etp_soft_split(c, &ec);
  /* a·b, from halves of 32 bits, below 2^106; then 20 places up, and c 73: both below 2^126. */
  a0 = (uint32_t)ma, a1 = ma >> 32, b0 = (uint32_t)mb, b1 = mb >> 32;
  middle = a1 * b0 + (a0 * b0 >> 32);
  p.high = a1 * b1 + (middle >> 32);
  middle = a0 * b1 + (uint32_t)middle;
  p.high += middle >> 32;
  p.low = middle << 32 | (uint32_t)(a0 * b0);
  p.high = p.high << 20 | p.low >> 44;
  p.low <<= 20;
  z.high = mc << 9;
  z.low = 0;
  e = ea + eb - 20;
  shift = e - (ec - 73);
  if (shift >= 0) {
    z = etp_soft_shifted(z, shift);
  } else {
    p = etp_soft_shifted(p, -shift);
    e = ec - 73;
  }
  negative = (ua ^ ub) & sign;
  if (negative == (uc & sign)) {
    p.low += z.low;
    p.high += z.high + (p.low < z.low);
  } else {
    const uint64_t borrow = p.low < z.low;
    p.low -= z.low;
    p.high -= z.high + borrow;
    if (p.high >> 63 != 0) { /* c was the greater one */
      p.low = 0 - p.low;
      p.high = ~p.high + (p.low == 0);
      negative ^= sign;
    }
    if ((p.high | p.low) == 0) return 0.0;
  }
  while (p.high >> 63 == 0) {
    p.high = p.high << 1 | p.low >> 63;
    p.low <<= 1;
    --e;
  }
  s = p.high | (p.low != 0);
  return etp_soft_rounded(negative, s, e + 64);
}

/* ---- roots, bit by bit ---- */

static inline double etp_soft_sqrt(double x) {
  int32_t e, i;
  uint64_t m, root = 0, rest = 0;
  if (x == 0.0 || x != x || etp_soft_bits(x) == (uint64_t)0x7ff << 52) return x;
  if (x < 0.0) return (x - x) / (x - x);
  m = etp_soft_split(x, &e);
  if ((e & 1) != 0) m <<= 1, --e;
  m <<= 10; /* bits 63 and 62 hold the first pair */
  for (i = 0; i < 58; ++i) {
    rest = rest << 2 | m >> 62;
    m <<= 2;
    root <<= 1;
    if (rest >= (root << 1 | 1)) rest -= root << 1 | 1, root |= 1;
  }
  /* 32 pairs belong to m·2^10, the others stand behind the point. */
  return etp_soft_rounded(0, root << 1 | (rest != 0), (e - 10) / 2 - 26 - 1);
}
static inline float etp_soft_sqrtf(float x) { return (float)etp_soft_sqrt((double)x); } /* 53 >= 2·24 + 2 */

/* ---- to whole numbers ---- */

#define ETP_SOFT_WHOLE(T, F, I, BIG)                              \
  static inline T etp_soft_rint##F(T x) {                         \
    const T a = __builtin_fabs##F(x);                             \
    T y = a + BIG;                                                \
    if (!(a < BIG)) return x;                                     \
    y -= BIG;                                                     \
    return __builtin_copysign##F(y, x);                           \
  }                                                               \
  static inline T etp_soft_floor##F(T x) {                        \
    T y;                                                          \
    if (!(__builtin_fabs##F(x) < BIG)) return x;                  \
    y = (T)(I)x;                                                  \
    return __builtin_copysign##F(y > x ? y - 1 : y, x);           \
  }                                                               \
  static inline T etp_soft_ceil##F(T x) {                         \
    T y;                                                          \
    if (!(__builtin_fabs##F(x) < BIG)) return x;                  \
    y = (T)(I)x;                                                  \
    return __builtin_copysign##F(y < x ? y + 1 : y, x);           \
  }                                                               \
  static inline T etp_soft_round##F(T x) {                        \
    const T a = __builtin_fabs##F(x);                             \
    T y;                                                          \
    if (!(a < BIG)) return x;                                     \
    y = (T)(I)a;                                                  \
    return __builtin_copysign##F(a - y >= (T)0.5 ? y + 1 : y, x); \
  }
ETP_SOFT_WHOLE(float, f, int32_t, 8388608.0f)
ETP_SOFT_WHOLE(double, , int64_t, 4503599627370496.0)
#undef ETP_SOFT_WHOLE

#ifndef ETP_SOFT_TEST /* both are wanted side by side there */
#ifndef __FP_FAST_FMAF
#define __builtin_fmaf etp_soft_fmaf
#endif
#ifndef __FP_FAST_FMA
#define __builtin_fma etp_soft_fma
#endif
/* Without this promise compilers call the library beside the instruction, for errno. */
#if !defined(__NO_MATH_ERRNO__) || !(defined(__ARM_FP) || defined(__riscv_flen) || defined(__SSE2__))
#define __builtin_sqrtf etp_soft_sqrtf
#endif
#if !defined(__NO_MATH_ERRNO__) || !((defined(__ARM_FP) && __ARM_FP & 8) || \
                                     (defined(__riscv_flen) && __riscv_flen >= 64) || defined(__SSE2__))
#define __builtin_sqrt etp_soft_sqrt
#endif
#define __builtin_rintf etp_soft_rintf
#define __builtin_rint etp_soft_rint
#define __builtin_floorf etp_soft_floorf
#define __builtin_floor etp_soft_floor
#define __builtin_ceilf etp_soft_ceilf
#define __builtin_ceil etp_soft_ceil
#define __builtin_roundf etp_soft_roundf
#define __builtin_round etp_soft_round
#endif

#endif /* ETP_SOFT_H */
/* Arithmetic on single elements that plain C leaves undefined or decides otherwise, by element type: f32,
 * f64, i32, i64, u32, bool. Integers never trap: sums and products wrap around, dividing by zero and the
 * quotient of the smallest number and -1 are defined, shifts by the width or more move every bit out. Maxima
 * pass NaN on. This is their one definition: emitted code calls these, and so do the interpreter's kernels,
 * under the names of ops/scalar_math.h. */
#ifndef ETP_SCALAR_H
#define ETP_SCALAR_H

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
/* Elementary functions for the interpreter and for emitted C, scalar (etp_exp_f32) and array (etp_vexp_f32).
 * exp, exp2, expm1, log, log1p, tanh, logistic and erf_inv are our own: no branch, no table, no division
 * where a few FMAs do, so that a plain loop over them vectorises, and every FMA is spelled out, so that a
 * lane of a vector and a lone scalar give the same bits (compile with -ffp-contract=off, never with
 * -ffast-math). The idea throughout: e^x = 2^k e^r, k = round(x / ln 2), |r| <= ln2 / 2, and log x = k ln 2 +
 * log(1 + f). Start at etp_exp_f32; the f64 functions repeat the f32 ones with longer polynomials. sin and
 * cos are in etp_trig.h; the rest calls libm. */
#ifndef ETP_MATH_H
#define ETP_MATH_H

#include <stddef.h>
#include <stdint.h>


/* An emitter for another target defines ETP_FN itself (CUDA: static __device__ __forceinline__). gcc leaves
 * calls in the loop unless inlining is forced, and then does not vectorise. */
#ifndef ETP_FN
#define ETP_FN static inline __attribute__((always_inline, unused))
#endif

/* ---- bits ---- */

ETP_FN uint32_t etp_bits_f32(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  return u;
}
ETP_FN float etp_from_bits_f32(uint32_t u) {
  float x;
  __builtin_memcpy(&x, &u, sizeof x);
  return x;
}
ETP_FN uint64_t etp_bits_f64(double x) {
  uint64_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  return u;
}
ETP_FN double etp_from_bits_f64(uint64_t u) {
  double x;
  __builtin_memcpy(&x, &u, sizeof x);
  return x;
}

/* ---- f32: exp and its family ----
 * Adding 1.5 * 2^23 to a small float rounds it to an integer that then sits in the low bits of the sum, so
 * k comes out twice at the price of one FMA: as a float (subtract again) and as bits (shift left by 23 to
 * make 2^k). A bias added to the constant is a bias of that exponent for free. */
#define ETP_ROUND_F32 12582912.0f
#define ETP_LOG2E_F32 0x1.715476p+0f
#define ETP_LN2HI_F32 0x1.62e400p-1f /* 14 bits: k * hi is exact */
#define ETP_LN2LO_F32 0x1.7f7d1cp-20f

/* r = x - k ln 2 in two exact-enough steps. */
ETP_FN float etp_reduce_f32(float x, float k) {
  return __builtin_fmaf(k, -ETP_LN2LO_F32, __builtin_fmaf(k, -ETP_LN2HI_F32, x));
}

/* e^r on |r| <= ln2 / 2, relative error 2^-27. */
ETP_FN float etp_exp_poly_f32(float r) {
  float p = 0x1.6bec02p-10f;
  p = __builtin_fmaf(p, r, 0x1.1227b0p-7f);
  p = __builtin_fmaf(p, r, 0x1.555674p-5f);
  p = __builtin_fmaf(p, r, 0x1.5554b0p-3f);
  p = __builtin_fmaf(p, r, 0x1.fffffep-2f);
  p = __builtin_fmaf(p, r, 1.0f);
  return __builtin_fmaf(p, r, 1.0f);
}

/* e^r - 1 on |r| <= ln2 / 2, relative error 2^-28.7. In pairs, not by Horner: as many operations, but a
 * shorter chain of them, and tanh is bound by the length of its chain. */
ETP_FN float etp_expm1_poly_f32(float r) {
  float q = r * r;
  float p0 = __builtin_fmaf(0x1.555554p-3f, r, 0.5f);
  float p2 = __builtin_fmaf(0x1.11118ap-7f, r, 0x1.5554b0p-5f);
  float p4 = __builtin_fmaf(0x1.a032c4p-13f, r, 0x1.6d723ep-10f);
  return __builtin_fmaf(__builtin_fmaf(__builtin_fmaf(p4, q, p2), q, p0), q, r);
}

/* y * 2^k for kb = ETP_ROUND_F32 + 254 + k, k in [-252, 254]. In two halves, so that overflow goes to inf and
 * subnormal results are rounded once. */
ETP_FN float etp_scale_f32(float y, float kb, float k) {
  float half = __builtin_fmaf(k, 0.5f, ETP_ROUND_F32 + 127.0f);
  float s1 = etp_from_bits_f32(etp_bits_f32(half) << 23);
  float s2 = etp_from_bits_f32((etp_bits_f32(kb) - etp_bits_f32(half)) << 23);
  return y * s1 * s2;
}

/* The range is cut at both ends at the least cost in vector code: below by a comparison that a NaN fails and
 * passes unchanged, above on the integer in kb, since a too small k leaves r, e^r and the product too large
 * and they end in inf by themselves. */
ETP_FN float etp_cut_f32(float kb, int kmax) {
  int32_t i = (int32_t)etp_bits_f32(kb), top = 0x4b400000 + 254 + kmax;
  return etp_from_bits_f32((uint32_t)(i < top ? i : top));
}

ETP_FN float etp_exp_f32(float x) {
  float y = x < -104.0f ? -104.0f : x;
  float kb = etp_cut_f32(__builtin_fmaf(y, ETP_LOG2E_F32, ETP_ROUND_F32 + 254.0f), 150);
  float k = kb - (ETP_ROUND_F32 + 254.0f);
  return etp_scale_f32(etp_exp_poly_f32(etp_reduce_f32(y, k)), kb, k);
}

ETP_FN float etp_exp2_f32(float x) {
  float y = x < -151.0f ? -151.0f : x;
  float kb = etp_cut_f32(y + (ETP_ROUND_F32 + 254.0f), 150);
  float k = kb - (ETP_ROUND_F32 + 254.0f);
  float r = y - k;
  float p = 0x1.41fbb6p-13f;
  p = __builtin_fmaf(p, r, 0x1.5f3e52p-10f);
  p = __builtin_fmaf(p, r, 0x1.3b2d4cp-7f);
  p = __builtin_fmaf(p, r, 0x1.c6aee8p-5f);
  p = __builtin_fmaf(p, r, 0x1.ebfbdcp-3f);
  p = __builtin_fmaf(p, r, 0x1.62e430p-1f);
  return etp_scale_f32(__builtin_fmaf(p, r, 1.0f), kb, k);
}

/* 2^k (1 + p) - 1 = 2^k p + (2^k - 1): exact down to the smallest x, where k = 0 and the second term is 0. */
ETP_FN float etp_expm1_f32(float x) {
  float y = x < -18.0f ? -18.0f : x;
  float kb = etp_cut_f32(__builtin_fmaf(y, ETP_LOG2E_F32, ETP_ROUND_F32 + 254.0f), 128);
  float k = kb - (ETP_ROUND_F32 + 254.0f);
  float last = k > 127.0f ? 2.0f : 1.0f; /* 2^128 is no float: its last factor 2 is applied at the end */
  uint32_t e = etp_bits_f32(kb) - (k > 127.0f ? 128u : 127u);
  float s = etp_from_bits_f32(e << 23);
  float p = etp_expm1_poly_f32(etp_reduce_f32(y, k));
  return __builtin_copysignf(__builtin_fmaf(s, p, s - 1.0f) * last, x); /* copysign: for -0 */
}

/* a / (c + t) for c + t in [1, 2], where a - c q below is exact (true for both callers: c = 2, a = t and
 * c = 1, a = t or 1): a quadratic guess of the reciprocal (1 %), a Newton step (1e-4), then the residual of
 * the quotient against the unrounded c + t (1e-8). Cheaper than a vector division and more accurate. */
ETP_FN float etp_div12_f32(float a, float c, float t) {
  float b = c + t;
  float r = __builtin_fmaf(__builtin_fmaf(32.0f / 99.0f, b, -144.0f / 99.0f), b, 210.0f / 99.0f);
  r = __builtin_fmaf(r, __builtin_fmaf(-b, r, 1.0f), r);
  float q = a * r;
  float rest = __builtin_fmaf(-q, t, __builtin_fmaf(-c, q, a));
  return __builtin_fmaf(rest, r, q);
}

/* tanh and logistic come in two parts, an exponential and a quotient, because the array forms run them as
 * two loops: one chain of 26 operations per element is longer than the processor can overlap.
 *
 * With E = e^(-2|x|) - 1 in (-1, 0]: tanh |x| = -E / (2 + E). Good near 0, no overflow. */
ETP_FN float etp_tanh_e_f32(float x) {
  float a = __builtin_fabsf(x);
  float y = -2.0f * (a > 9.5f ? 9.5f : a);
  float kb = __builtin_fmaf(y, ETP_LOG2E_F32, ETP_ROUND_F32 + 127.0f);
  float k = kb - (ETP_ROUND_F32 + 127.0f);
  float s = etp_from_bits_f32(etp_bits_f32(kb) << 23);
  float r = __builtin_fmaf(k, -0x1.62e430p-1f, y); /* |k| is small here: one step is enough */
  return __builtin_fmaf(s, etp_expm1_poly_f32(r), s - 1.0f);
}
ETP_FN float etp_tanh_q_f32(float x, float e) { return __builtin_copysignf(etp_div12_f32(e, 2.0f, e), x); }
ETP_FN float etp_tanh_f32(float x) { return etp_tanh_q_f32(x, etp_tanh_e_f32(x)); }

/* With t = e^-|x| in [0, 1]: 1 / (1 + t), or t / (1 + t) for x < 0, which keeps small results accurate.
 * t may be subnormal: it is built 2^64 too large and scaled down. */
ETP_FN float etp_logistic_e_f32(float x) {
  float a = __builtin_fabsf(x);
  float y = -(a > 104.0f ? 104.0f : a);
  float kb = __builtin_fmaf(y, ETP_LOG2E_F32, ETP_ROUND_F32 + 127.0f + 64.0f);
  float k = kb - (ETP_ROUND_F32 + 127.0f + 64.0f);
  float s = etp_from_bits_f32(etp_bits_f32(kb) << 23);
  return etp_exp_poly_f32(etp_reduce_f32(y, k)) * s * 0x1p-64f;
}
ETP_FN float etp_logistic_q_f32(float x, float t) { return etp_div12_f32(x < 0.0f ? t : 1.0f, 1.0f, t); }
ETP_FN float etp_logistic_f32(float x) { return etp_logistic_q_f32(x, etp_logistic_e_f32(x)); }

/* ---- f32: log ---- */

/* k ln 2 + log(1 + f), 1 + f in [sqrt 1/2, sqrt 2]. */
ETP_FN float etp_log_core_f32(float f, float k) {
  float p = 0x1.1458d0p-4f;
  p = __builtin_fmaf(p, f, -0x1.de3e0ap-4f);
  p = __builtin_fmaf(p, f, 0x1.e6f0f8p-4f);
  p = __builtin_fmaf(p, f, -0x1.fc21c4p-4f);
  p = __builtin_fmaf(p, f, 0x1.23375ap-3f);
  p = __builtin_fmaf(p, f, -0x1.555c4ep-3f);
  p = __builtin_fmaf(p, f, 0x1.99a4b6p-3f);
  p = __builtin_fmaf(p, f, -0x1.000006p-2f);
  p = __builtin_fmaf(p, f, 0x1.555548p-2f);
  p = __builtin_fmaf(p, f, -0.5f);
  float y = __builtin_fmaf(p, f * f, __builtin_fmaf(k, ETP_LN2LO_F32, f));
  return __builtin_fmaf(k, ETP_LN2HI_F32, y);
}

/* The bits of x less those of sqrt 1/2: the exponent field of this is k, its low bits make the mantissa. */
#define ETP_SQRTH_F32 0x3f3504f3u

ETP_FN float etp_log_f32(float x) {
  int tiny = x < 0x1p-126f;
  uint32_t u = etp_bits_f32(tiny ? x * 0x1p23f : x) - ETP_SQRTH_F32;
  float k = (float)((int32_t)u >> 23) - (tiny ? 23.0f : 0.0f);
  float y = etp_log_core_f32(etp_from_bits_f32((u & 0x7fffffu) + ETP_SQRTH_F32) - 1.0f, k);
  y = x < __builtin_inff() ? y : x;
  return x > 0.0f ? y : (x == 0.0f ? -__builtin_inff() : __builtin_nanf(""));
}

/* 1 + x = 2^k (1 + f) gives f = 2^-k x + (2^-k - 1), free of the rounding of 1 + x. The factor 4 keeps
 * 2^-k a normal number at k = 128. */
ETP_FN float etp_log1p_f32(float x) {
  int32_t k = (int32_t)(etp_bits_f32(1.0f + x) - ETP_SQRTH_F32) >> 23;
  float s4 = etp_from_bits_f32((uint32_t)(129 - k) << 23);
  float f = k == 0 ? x : __builtin_fmaf(0.25f * x, s4, __builtin_fmaf(0.25f, s4, -1.0f));
  float y = __builtin_copysignf(etp_log_core_f32(f, (float)k), x);
  y = x < __builtin_inff() ? y : x;
  return x > -1.0f ? y : (x == -1.0f ? -__builtin_inff() : __builtin_nanf(""));
}

/* ---- f64: the same again ---- */

#define ETP_ROUND_F64 6755399441055744.0 /* 1.5 * 2^52 */
#define ETP_LOG2E_F64 0x1.71547652b82fep+0
#define ETP_LN2HI_F64 0x1.62e42fee00000p-1 /* 32 bits */
#define ETP_LN2LO_F64 0x1.a39ef35793c76p-33

ETP_FN double etp_reduce_f64(double x, double k) {
  return __builtin_fma(k, -ETP_LN2LO_F64, __builtin_fma(k, -ETP_LN2HI_F64, x));
}

/* (e^r - 1 - r) / r^2, so that e^r - 1 has relative error 2^-60. */
ETP_FN double etp_exp_tail_f64(double r) {
  double p = 0x1.1ee89a62cf51bp-29;
  p = __builtin_fma(p, r, 0x1.af5ea8be4f91fp-26);
  p = __builtin_fma(p, r, 0x1.27e5363657ea2p-22);
  p = __builtin_fma(p, r, 0x1.71ddf86374f4dp-19);
  p = __builtin_fma(p, r, 0x1.a01a017bb7777p-16);
  p = __builtin_fma(p, r, 0x1.a01a01afddac0p-13);
  p = __builtin_fma(p, r, 0x1.6c16c16c1f0c9p-10);
  p = __builtin_fma(p, r, 0x1.111111110f6c4p-7);
  p = __builtin_fma(p, r, 0x1.555555555553fp-5);
  p = __builtin_fma(p, r, 0x1.5555555555559p-3);
  return __builtin_fma(p, r, 0.5);
}
ETP_FN double etp_exp_poly_f64(double r) {
  return __builtin_fma(__builtin_fma(etp_exp_tail_f64(r), r, 1.0), r, 1.0);
}
ETP_FN double etp_expm1_poly_f64(double r) { return __builtin_fma(etp_exp_tail_f64(r), r * r, r); }

/* y * 2^k for kb = ETP_ROUND_F64 + 2046 + k. */
ETP_FN double etp_scale_f64(double y, double kb, double k) {
  double half = __builtin_fma(k, 0.5, ETP_ROUND_F64 + 1023.0);
  double s1 = etp_from_bits_f64(etp_bits_f64(half) << 52);
  double s2 = etp_from_bits_f64((etp_bits_f64(kb) - etp_bits_f64(half)) << 52);
  return y * s1 * s2;
}

ETP_FN double etp_cut_f64(double kb, int kmax) {
  int64_t i = (int64_t)etp_bits_f64(kb), top = 0x4338000000000000ll + 2046 + kmax;
  return etp_from_bits_f64((uint64_t)(i < top ? i : top));
}

ETP_FN double etp_exp_f64(double x) {
  double y = x < -746.0 ? -746.0 : x;
  double kb = etp_cut_f64(__builtin_fma(y, ETP_LOG2E_F64, ETP_ROUND_F64 + 2046.0), 1100);
  double k = kb - (ETP_ROUND_F64 + 2046.0);
  return etp_scale_f64(etp_exp_poly_f64(etp_reduce_f64(y, k)), kb, k);
}

ETP_FN double etp_exp2_f64(double x) {
  double y = x < -1076.0 ? -1076.0 : x;
  double kb = etp_cut_f64(y + (ETP_ROUND_F64 + 2046.0), 1100);
  double k = kb - (ETP_ROUND_F64 + 2046.0);
  double r = y - k;
  double p = 0x1.e79bb72d34dedp-32;
  p = __builtin_fma(p, r, 0x1.e61b4fa222362p-28);
  p = __builtin_fma(p, r, 0x1.b5267cdfc686ap-24);
  p = __builtin_fma(p, r, 0x1.62bfc79d46908p-20);
  p = __builtin_fma(p, r, 0x1.ffcbfba980fbfp-17);
  p = __builtin_fma(p, r, 0x1.4309130ed8cf5p-13);
  p = __builtin_fma(p, r, 0x1.5d87fe78cd6cfp-10);
  p = __builtin_fma(p, r, 0x1.3b2ab6fba011ap-7);
  p = __builtin_fma(p, r, 0x1.c6b08d7049fe8p-5);
  p = __builtin_fma(p, r, 0x1.ebfbdff82c5a4p-3);
  p = __builtin_fma(p, r, 0x1.62e42fefa39efp-1);
  return etp_scale_f64(__builtin_fma(p, r, 1.0), kb, k);
}

ETP_FN double etp_expm1_f64(double x) {
  double y = x < -40.0 ? -40.0 : x;
  double kb = etp_cut_f64(__builtin_fma(y, ETP_LOG2E_F64, ETP_ROUND_F64 + 2046.0), 1024);
  double k = kb - (ETP_ROUND_F64 + 2046.0);
  double last = k > 1023.0 ? 2.0 : 1.0;
  uint64_t e = etp_bits_f64(kb) - (k > 1023.0 ? 1024u : 1023u);
  double s = etp_from_bits_f64(e << 52);
  double p = etp_expm1_poly_f64(etp_reduce_f64(y, k));
  return __builtin_copysign(__builtin_fma(s, p, s - 1.0) * last, x);
}

ETP_FN double etp_div12_f64(double a, double c, double t) {
  double b = c + t;
  double r = __builtin_fma(__builtin_fma(32.0 / 99.0, b, -144.0 / 99.0), b, 210.0 / 99.0);
  double e = __builtin_fma(-b, r, 1.0);
  r = __builtin_fma(r, __builtin_fma(e, e, e), r);
  r = __builtin_fma(r, __builtin_fma(-b, r, 1.0), r);
  double q = a * r;
  double rest = __builtin_fma(-q, t, __builtin_fma(-c, q, a));
  return __builtin_fma(rest, r, q);
}

ETP_FN double etp_tanh_e_f64(double x) {
  double a = __builtin_fabs(x);
  double y = -2.0 * (a > 20.0 ? 20.0 : a);
  double kb = __builtin_fma(y, ETP_LOG2E_F64, ETP_ROUND_F64 + 1023.0);
  double k = kb - (ETP_ROUND_F64 + 1023.0);
  double s = etp_from_bits_f64(etp_bits_f64(kb) << 52);
  return __builtin_fma(s, etp_expm1_poly_f64(etp_reduce_f64(y, k)), s - 1.0);
}
ETP_FN double etp_tanh_q_f64(double x, double e) { return __builtin_copysign(etp_div12_f64(e, 2.0, e), x); }
ETP_FN double etp_tanh_f64(double x) { return etp_tanh_q_f64(x, etp_tanh_e_f64(x)); }

ETP_FN double etp_logistic_e_f64(double x) {
  double a = __builtin_fabs(x);
  double y = -(a > 746.0 ? 746.0 : a);
  double kb = __builtin_fma(y, ETP_LOG2E_F64, ETP_ROUND_F64 + 1023.0 + 64.0);
  double k = kb - (ETP_ROUND_F64 + 1023.0 + 64.0);
  double s = etp_from_bits_f64(etp_bits_f64(kb) << 52);
  return etp_exp_poly_f64(etp_reduce_f64(y, k)) * s * 0x1p-64;
}
ETP_FN double etp_logistic_q_f64(double x, double t) { return etp_div12_f64(x < 0.0 ? t : 1.0, 1.0, t); }
ETP_FN double etp_logistic_f64(double x) { return etp_logistic_q_f64(x, etp_logistic_e_f64(x)); }

/* In f64 the polynomial in f would be too long; the series of atanh in s = f / (2 + f) is short:
 * log(1 + f) = f - f^2/2 + s (f^2/2 + R(s^2)), arranged as in FreeBSD's libm. */
ETP_FN double etp_log_core_f64(double f, double k) {
  double s = f / (2.0 + f);
  double z = s * s;
  double p = 0x1.0f6a9cac14a0cp-3;
  p = __builtin_fma(p, z, 0x1.0f5bf5b667b5cp-3);
  p = __builtin_fma(p, z, 0x1.3b20b4e2e070fp-3);
  p = __builtin_fma(p, z, 0x1.745cddff4af6dp-3);
  p = __builtin_fma(p, z, 0x1.c71c7259aa99ep-3);
  p = __builtin_fma(p, z, 0x1.249249242aaf1p-2);
  p = __builtin_fma(p, z, 0x1.9999999999e06p-2);
  p = __builtin_fma(p, z, 0x1.5555555555555p-1);
  double h = 0.5 * f * f;
  double low = __builtin_fma(s, __builtin_fma(p, z, h), k * ETP_LN2LO_F64);
  return __builtin_fma(k, ETP_LN2HI_F64, f - (h - low));
}

#define ETP_SQRTH_F64 0x3fe6a09e667f3bcdull

/* There is no vector shift of signed 64-bit words before AVX-512, so k is cut out unsigned (the bias added
 * first) and turned into a double by the rounding constant. */
ETP_FN double etp_log_f64(double x) {
  int tiny = x < 0x1p-1022;
  uint64_t u = etp_bits_f64(tiny ? x * 0x1p52 : x) - ETP_SQRTH_F64;
  uint64_t kb = (u + (1024ull << 52)) >> 52;
  double k = etp_from_bits_f64(kb | 0x4330000000000000ull) - (0x1p52 + (tiny ? 1076.0 : 1024.0));
  double y = etp_log_core_f64(etp_from_bits_f64((u & 0xfffffffffffffull) + ETP_SQRTH_F64) - 1.0, k);
  y = x < __builtin_inf() ? y : x;
  return x > 0.0 ? y : (x == 0.0 ? -__builtin_inf() : __builtin_nan(""));
}

ETP_FN double etp_log1p_f64(double x) {
  uint64_t u = etp_bits_f64(1.0 + x) - ETP_SQRTH_F64;
  uint64_t kb = (u + (1024ull << 52)) >> 52;
  double k = etp_from_bits_f64(kb | 0x4330000000000000ull) - (0x1p52 + 1024.0);
  double s4 = etp_from_bits_f64((2049ull - kb) << 52); /* 2^(2-k) */
  double f = k == 0.0 ? x : __builtin_fma(0.25 * x, s4, __builtin_fma(0.25, s4, -1.0));
  double y = __builtin_copysign(etp_log_core_f64(f, k), x);
  y = x < __builtin_inf() ? y : x;
  return x > -1.0 ? y : (x == -1.0 ? -__builtin_inf() : __builtin_nan(""));
}

/* ---- the rest: libm ---- */

#define ETP_LIBM(name)                                                      \
  ETP_FN float etp_##name##_f32(float x) { return __builtin_##name##f(x); } \
  ETP_FN double etp_##name##_f64(double x) { return __builtin_##name(x); }
ETP_LIBM(tan)
ETP_LIBM(asin)
ETP_LIBM(acos)
ETP_LIBM(atan)
ETP_LIBM(sinh)
ETP_LIBM(cosh)
ETP_LIBM(asinh)
ETP_LIBM(acosh)
ETP_LIBM(atanh)
ETP_LIBM(erf)
ETP_LIBM(erfc)
ETP_LIBM(cbrt)
ETP_LIBM(sqrt)
#undef ETP_LIBM

ETP_FN float etp_atan2_f32(float y, float x) { return __builtin_atan2f(y, x); }
ETP_FN double etp_atan2_f64(double y, double x) { return __builtin_atan2(y, x); }
ETP_FN float etp_pow_f32(float x, float y) { return __builtin_powf(x, y); }
ETP_FN double etp_pow_f64(double x, double y) { return __builtin_pow(x, y); }
ETP_FN float etp_rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
ETP_FN double etp_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }

/* log |Gamma(x)|. The _r form: plain lgamma writes the global signgam, a race between threads. */
ETP_FN float etp_lgamma_f32(float x) {
  int sign;
  return lgammaf_r(x, &sign);
}
ETP_FN double etp_lgamma_f64(double x) {
  int sign;
  return lgamma_r(x, &sign);
}

/* w with erf(w) = x, to 2 units in the last place, with the same bits everywhere: a logarithm, a root and a
 * polynomial of degree 20 on [-1, 1] (interpolated at Chebyshev points, error 2^-55), no branch.
 *   |x| < 0.99   w = x P(l),      l = -log(1 - x^2) in [0, 4]; an absolute error of l is all that counts
 *   beyond       w = s P(1 / s),  s = sqrt(-log(1 - |x|)), where 1 - |x| is exact, down to 2^-53 */
ETP_FN double etp_erf_inv_f64(double x) {
  double a = __builtin_fabs(x);
  int far = a >= 0.99;
  double l = -etp_log_f64(far ? 1.0 - a : __builtin_fma(-a, a, 1.0));
  double s = __builtin_sqrt(l);
  double u =
      far ? __builtin_fma(0x1.a8f2bdeaec165p+2, 1.0 / s, -0x1.0c38c213df9c0p+1) : __builtin_fma(0.5, l, -1.0);
  double p = far ? -0x1.f95b107b305aap-37 : -0x1.72c69e701b794p-39;
  p = __builtin_fma(p, u, far ? 0x1.32f0136f286ecp-35 : -0x1.3ab0b0d7c6c67p-36);
  p = __builtin_fma(p, u, far ? -0x1.61b698be3c096p-37 : 0x1.645d320bd1414p-34);
  p = __builtin_fma(p, u, far ? 0x1.ec407ba922b6bp-36 : 0x1.60540a8bbd88ap-33);
  p = __builtin_fma(p, u, far ? -0x1.10d27c0cca351p-32 : -0x1.64715e87ee37ep-30);
  p = __builtin_fma(p, u, far ? 0x1.5cc195134bf9dp-31 : 0x1.3d2d29e8e848cp-31);
  p = __builtin_fma(p, u, far ? -0x1.89e0b870360e6p-30 : 0x1.dc140da5be87dp-27);
  p = __builtin_fma(p, u, far ? 0x1.0752f6c099ff3p-28 : -0x1.30e413fcc64adp-25);
  p = __builtin_fma(p, u, far ? -0x1.6da1a91b4246fp-27 : -0x1.7591712c3e068p-24);
  p = __builtin_fma(p, u, far ? 0x1.0017668d7959ap-25 : 0x1.432c175c2aee3p-21);
  p = __builtin_fma(p, u, far ? -0x1.71e0ac700b150p-24 : -0x1.19d6481dfc674p-22);
  p = __builtin_fma(p, u, far ? 0x1.15764f3f8cf26p-22 : -0x1.bb1adf3410c72p-18);
  p = __builtin_fma(p, u, far ? -0x1.b0c16b27d0f22p-21 : 0x1.289ea319d6509p-16);
  p = __builtin_fma(p, u, far ? 0x1.5be9be55d2d94p-19 : 0x1.545099200f279p-15);
  p = __builtin_fma(p, u, far ? -0x1.25f3858d65e45p-17 : -0x1.471ec4daeb6d0p-12);
  p = __builtin_fma(p, u, far ? 0x1.3c4726e2ce6ecp-15 : 0x1.fcca0b2b93b0cp-13);
  p = __builtin_fma(p, u, far ? -0x1.ff6c04834ac9cp-13 : 0x1.c4dab7c60c53ep-9);
  p = __builtin_fma(p, u, far ? 0x1.987924c9ee9c8p-10 : -0x1.bb9627a1f0d8fp-7);
  p = __builtin_fma(p, u, far ? -0x1.fa6e2ba60b7a1p-9 : -0x1.01f7f04aa448dp-7);
  p = __builtin_fma(p, u, far ? -0x1.f385375eff996p-5 : 0x1.ff8666bb1460ep-2);
  p = __builtin_fma(p, u, far ? 0x1.d305d4c2f241bp-1 : 0x1.60912d150286bp+0);
  double w = p * (far ? s : a);
  w = a < 1.0 ? w : (a == 1.0 ? __builtin_inf() : __builtin_nan(""));
  return __builtin_copysign(w, x);
}
ETP_FN float etp_erf_inv_f32(float x) { return (float)etp_erf_inv_f64((double)x); }

/* psi(x) = d/dx log Gamma(x): reflection for x < 1/2, the recurrence up to 10, then the asymptotic series. */
ETP_FN double etp_digamma_f64(double x) {
  double y = 0.0;
  if (x == 0.0 || (x < 0.0 && __builtin_floor(x) == x)) return __builtin_nan(""); /* a pole */
  if (x < 0.5) {
    double frac = x - __builtin_floor(x); /* tan(pi x) from the fraction: exact period */
    y = -3.14159265358979323846 / __builtin_tan(3.14159265358979323846 * frac);
    x = 1.0 - x;
  }
  for (; x < 10.0; x += 1.0) y -= 1.0 / x;
  double z = 1.0 / (x * x);
  double p = 1.0 / 12.0;
  p = __builtin_fma(p, -z, 691.0 / 32760.0);
  p = __builtin_fma(p, -z, 1.0 / 132.0);
  p = __builtin_fma(p, -z, 1.0 / 240.0);
  p = __builtin_fma(p, -z, 1.0 / 252.0);
  p = __builtin_fma(p, -z, 1.0 / 120.0);
  p = __builtin_fma(p, -z, 1.0 / 12.0);
  return y + (__builtin_log(x) - 0.5 / x - z * p);
}
ETP_FN float etp_digamma_f32(float x) { return (float)etp_digamma_f64((double)x); }

/* ---- bf16 and f16, stored as their bits ---- */

ETP_FN float etp_bf16_to_f32(uint16_t h) { return etp_from_bits_f32((uint32_t)h << 16); }

/* Round to nearest even; a NaN stays one (quiet), where rounding could carry it into inf or zero. */
ETP_FN uint16_t etp_f32_to_bf16(float x) {
  uint32_t u = etp_bits_f32(x);
  uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  uint32_t nan = (u >> 16) | 0x40u;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

ETP_FN float etp_f16_to_f32(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000u) << 16, u = h & 0x7fffu;
  uint32_t normal = (u << 13) + (112u << 23);
  uint32_t special = (u << 13) | 0x7f800000u;
  uint32_t subnormal = etp_bits_f32((float)(int32_t)u * 0x1p-24f);
  return etp_from_bits_f32(sign | (u >= 0x7c00u ? special : (u < 0x400u ? subnormal : normal)));
}

/* Round to nearest even. Results below 2^-14 are multiples of 2^-24, which is the spacing of floats from 1/2
 * to 1: adding 1/2 lets the hardware do that rounding. */
ETP_FN uint16_t etp_f32_to_f16(float x) {
  uint32_t b = etp_bits_f32(x), sign = (b >> 16) & 0x8000u, u = b & 0x7fffffffu;
  uint32_t normal = (u - (112u << 23) + 0xfffu + ((u >> 13) & 1u)) >> 13;
  uint32_t subnormal = etp_bits_f32(etp_from_bits_f32(u) + 0.5f) - 0x3f000000u;
  uint32_t nan = 0x7e00u | ((u >> 13) & 0x3ffu);
  uint32_t h = u < (113u << 23) ? subnormal : normal;
  h = u >= 0x477ff000u ? 0x7c00u : h; /* 65520, half way from the largest f16 to the next */
  return (uint16_t)(sign | (u > 0x7f800000u ? nan : h));
}

#endif /* ETP_MATH_H */
/* ETP_ROUNDED(x): x, rounded before it is used. gcc 12 fuses products with sums and differences that stand
 * side by side (vfmaddsub), whatever -ffp-contract says. It does not look through this, and vectors and speed
 * stay as they are. */
#ifndef ETP_ROUNDED_H
#define ETP_ROUNDED_H

#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define ETP_ROUNDED(x) __builtin_assoc_barrier(x)
#endif
#endif
#ifndef ETP_ROUNDED
#define ETP_ROUNDED(x) (x)
#endif

#endif /* ETP_ROUNDED_H */
#include "sensor.h"

float sensor_param_rnn_Wz_weight_bias[16];
float sensor_param_rnn_Wz_weight_weight[304];
static const float sensor_start_param_rnn_Wz_weight_weight[304] = {0.005117583f, 0.16420838f, 0.612307f, 0.013325041f, 0.08254136f, 0.031639386f, -0.017001698f, 0.012608823f,
    -0.24142358f, -0.07688814f, 0.29151067f, 0.105129875f, -0.29747376f, -0.070365444f, 0.27974677f, 0.41711938f,
    0.32101917f, 0.032595847f, -0.08520824f, -0.24571627f, -0.15542738f, 0.16136698f, 0.14323568f, 0.09466715f,
    0.04440933f, -0.070086785f, -0.6434537f, 0.23148976f, -0.21562806f, -0.24563737f, 0.18930295f, 0.14605357f,
    0.30837896f, -0.5637608f, 0.42460695f, 0.27511582f, 0.11300607f, 0.100777596f, -0.08700611f, -0.035846256f,
    -0.024524152f, 0.018164122f, -0.29236543f, -0.0055816937f, 0.07064412f, -0.1377476f, -0.13508058f, -0.014873809f,
    -0.31553724f, 0.039974537f, 0.039327074f, 0.24918006f, 0.5609474f, 0.011121746f, -0.003942712f, 0.3059571f,
    0.109687164f, -0.09656446f, -0.1269011f, 0.31290895f, 0.14165108f, -0.12750156f, 0.13775803f, -0.053860884f,
    -0.22796373f, 0.07588933f, 0.1326355f, -0.07142427f, -0.22377384f, 0.26836586f, 0.6267873f, 0.1484731f,
    -0.1403457f, 0.33015895f, -0.06450919f, -0.110019125f, 0.3780074f, -0.05014764f, 0.092357755f, 0.14822346f,
    -0.10725849f, 0.071376406f, 0.37888178f, -0.3303653f, -0.0576278f, -0.32168376f, -0.013177f, -0.3446257f,
    0.22102283f, -0.10877194f, -0.030414527f, -0.00064640323f, 0.39691013f, -0.42751905f, -0.10115667f, -0.22359946f,
    0.19030696f, -0.050576866f, 0.041317932f, -0.05991235f, 0.01166589f, 0.18173063f, 0.3335138f, -0.26080805f,
    0.5222515f, -0.24614298f, 0.33911598f, 0.19301665f, -0.101926684f, 0.062780604f, 0.052499823f, 0.15715487f,
    0.2315948f, -0.29434645f, 0.086287186f, 0.0062156958f, -0.14988019f, 0.33531713f, 0.010361836f, 0.10590134f,
    -0.11388663f, 0.053529136f, 0.32083753f, 0.19705996f, 0.18489414f, 0.13264766f, 0.23764189f, -0.51740444f,
    0.34823462f, 0.05519318f, -0.018223468f, -0.45720214f, 0.47783127f, -0.0656053f, 0.08632271f, 0.1259704f,
    0.079396985f, 0.43864265f, 0.13548835f, -0.20952006f, -0.22458583f, -0.09690792f, 0.038051993f, -0.18363683f,
    -0.0051279347f, -0.1968819f, -0.18072142f, -0.4558366f, 0.18697067f, 0.098580144f, -0.16549262f, 0.16887017f,
    -0.3268095f, -0.43264064f, 0.11106963f, -0.08143294f, 0.33106402f, -0.10989572f, 0.22612548f, 0.18451895f,
    -0.19056317f, -0.07349342f, 0.046992365f, -0.22112674f, -0.38068613f, -0.14924985f, -0.02983694f, 0.11298462f,
    -0.2829041f, -0.08450418f, 0.08445423f, 0.3022992f, -0.398279f, -0.1677958f, -0.09190645f, -0.26615f,
    0.16032678f, 0.12988994f, -0.32097292f, 0.29940018f, 0.06403107f, -0.11524161f, 0.018583013f, -0.37062475f,
    -0.24095853f, 0.25997266f, 0.13246521f, 0.34010968f, 0.10086037f, -0.4274125f, 0.31589198f, -0.013938805f,
    0.2540522f, 0.1381367f, -0.104651906f, -0.060899533f, -0.11195679f, -0.034243472f, -0.13899817f, -0.21298163f,
    0.06326196f, -0.17972247f, -0.106371015f, 0.07538844f, 0.221168f, 0.3319204f, 0.2390057f, 0.10236384f,
    0.031003583f, -0.32732293f, 0.05621527f, -0.0062138885f, 0.033898376f, -0.64703274f, 0.26699942f, -0.09806948f,
    -0.19033118f, 0.08883587f, -0.09856364f, -0.04950813f, 0.009150586f, 0.36492804f, 0.2898013f, 0.07495263f,
    -0.09899595f, -0.089887284f, -0.08564446f, 0.2273041f, -0.1159991f, -0.10910825f, 0.17549203f, 0.17045863f,
    0.2570654f, -0.29883176f, 0.015068006f, -0.45092878f, -0.2132263f, -0.27856314f, 0.48621604f, -0.23986055f,
    0.19263959f, 0.4614331f, 0.2805851f, 0.035561256f, -0.12515773f, -0.16447128f, -0.17836529f, 0.36385587f,
    0.1438664f, 0.045695554f, -0.10592669f, 0.14136097f, 0.17758144f, 0.20950903f, 0.22299843f, -0.22512564f,
    0.12489339f, -0.25913247f, -0.1532589f, 0.0051361118f, -0.23831272f, -0.3081757f, -0.07974743f, 0.4817939f,
    0.31357855f, 0.16889669f, 0.26295042f, 0.22741207f, 0.15942684f, -0.19102089f, -0.115795866f, 0.3671263f,
    -0.15771493f, -0.07530331f, -0.055145707f, -0.13249414f, 0.22578627f, -0.09612344f, 0.3801631f, 0.015677534f,
    0.04108715f, -0.19264007f, -0.07632792f, 0.44094238f, -0.07799303f, 0.2115342f, -0.12112922f, -0.18766285f,
    -0.46123254f, -0.26148283f, 0.02751458f, -0.23276009f, -0.05217525f, 0.1707217f, -0.35644728f, -0.18062742f,
    0.30759236f, 0.3790839f, -0.11647093f, 0.118466824f, -0.0928198f, 0.11949865f, 0.39312914f, 0.06384223f};
float sensor_param_rnn_Wr_weight_bias[16];
float sensor_param_rnn_Wr_weight_weight[304];
static const float sensor_start_param_rnn_Wr_weight_weight[304] = {-0.1368638f, 0.21745065f, -0.06945622f, 0.3406182f, -0.25958785f, 0.21772349f, -0.31821302f, -0.23697922f,
    0.10750131f, 0.1501529f, 0.12390312f, 0.35173482f, 0.3051766f, 0.007925534f, -0.08501768f, -0.3202165f,
    -0.11023879f, -0.024810426f, 0.37824282f, 0.1447466f, -0.23278202f, 0.007402578f, 0.28455997f, 0.03480704f,
    -0.04580691f, -0.26308113f, -0.5808623f, -0.2832089f, 0.1073757f, -0.01568152f, 0.14106688f, -0.33562064f,
    -0.036341604f, -0.58486336f, -0.16404879f, 0.15671691f, 0.23567863f, -0.06902016f, -0.24699363f, 0.13724832f,
    -0.1712269f, -0.46399218f, 0.10302521f, 0.021022283f, 0.38322204f, 0.20966111f, 0.08346037f, -0.010832133f,
    0.30184567f, -0.13546465f, -0.08349955f, 0.17357838f, -0.061675522f, -0.3454275f, -0.08381613f, -0.056839664f,
    -0.027298355f, 0.057538092f, -0.3443577f, 0.48723233f, -0.31221622f, 0.17989324f, 0.12031704f, -0.18084323f,
    -0.31099615f, 0.10029173f, -0.40836212f, -0.4245078f, 0.061507832f, -0.14383604f, -0.092377655f, -0.09607948f,
    -0.009258604f, -0.06885543f, -0.48437533f, 0.22654846f, 0.11319412f, -0.0497203f, -0.0050996984f, 0.058931634f,
    -0.090540074f, 0.058692824f, -0.07574096f, -0.28430545f, 0.14981124f, 0.043926828f, 0.2303328f, -0.43251753f,
    0.28077966f, -0.13244742f, -0.040293213f, -0.051584315f, 0.31414723f, 0.15425526f, -0.21996255f, 0.016564187f,
    0.23671007f, -0.10812595f, 0.47613f, -0.40976608f, 0.100321434f, -0.049277935f, -0.19892311f, -0.25892493f,
    -0.42405492f, 0.34822553f, -0.008902687f, 0.05887945f, 0.2886449f, 0.08264501f, 0.08436049f, -0.09844581f,
    0.13136885f, -0.29346216f, -0.1642054f, -0.08632295f, -0.37504494f, 0.18899181f, 0.26704505f, 0.17213483f,
    -0.22846663f, 0.21361594f, -0.14141478f, 0.16115935f, 0.07394688f, -0.083839566f, -0.18285456f, 0.4584168f,
    0.012150473f, -0.2145248f, 0.04466433f, -0.32524812f, 0.10266434f, 0.27302456f, -0.020797925f, -0.1496146f,
    0.29645157f, -0.12657757f, 0.09779473f, 0.173655f, -0.3705092f, -0.10597518f, 0.50803894f, -0.070200875f,
    0.19866033f, 0.06721246f, -0.13501644f, 0.074403204f, 0.5174178f, -0.12105094f, 0.1859502f, 0.29505575f,
    0.15211554f, 0.3049008f, -0.15642114f, 0.055054583f, 0.119111635f, 0.0183843f, -0.17867777f, -0.24869165f,
    -0.13814545f, -0.31165677f, 0.019531012f, -0.010066059f, -0.33225608f, -0.0888272f, -0.02483111f, -0.28149793f,
    0.022687295f, -0.06754911f, 0.019743446f, 0.068884335f, -0.17582485f, 0.03025379f, -0.37777442f, -0.1411853f,
    -0.34001958f, 0.036434f, -0.06839632f, -0.16065857f, 0.14660893f, 0.20121601f, -0.07528083f, 0.12326641f,
    -0.41178185f, 0.025132509f, 0.045789998f, -0.11186456f, -0.44569567f, 0.36119026f, -0.29885933f, -0.27800882f,
    0.19237758f, 0.30569208f, 0.014548402f, -0.38329437f, -0.37529266f, -0.43191865f, -0.15520407f, 0.33810958f,
    0.09735803f, -0.2732713f, 0.21962078f, -0.027263058f, 0.063798554f, 0.18748358f, -0.031528056f, -0.07073337f,
    -0.009157973f, 0.18356375f, 0.08778253f, 0.026427224f, 0.19392405f, -0.16200581f, 0.17798291f, -0.104294255f,
    -0.39962575f, -0.38169554f, 0.15868334f, 0.3041683f, -0.05708286f, -0.61168134f, -0.15789497f, -0.05856586f,
    0.5235565f, 0.15001565f, 0.026554992f, 0.12727112f, 0.14271897f, 0.117017046f, -0.13728997f, -0.34883717f,
    0.026619924f, -0.3052847f, -0.1623486f, -0.1377156f, -0.19590506f, 0.20799148f, -0.29639474f, 0.25853133f,
    -0.17520122f, 0.27623415f, -0.051350772f, 0.14938502f, 0.049922504f, -0.011305839f, -0.47486848f, -0.0313306f,
    -0.20573938f, 0.02448024f, -0.26820955f, -0.17593694f, -0.02287934f, -0.07401953f, 0.2344638f, 0.34200776f,
    0.32214752f, -0.16864626f, -0.2694591f, -0.18664755f, -0.09660249f, 0.21228316f, -0.3595394f, 0.09191611f,
    0.05934959f, 0.027050402f, -0.13236642f, -0.33082056f, 0.0010566968f, -0.48437816f, -0.17468032f, -0.34942752f,
    0.22993723f, 0.15903783f, -0.5240444f, 0.045771103f, -0.14435247f, 0.042278294f, 0.32567298f, -0.25953034f,
    -0.38006127f, 0.0036834893f, 0.14801544f, -0.18889728f, 0.06936517f, 0.14871578f, 0.3756811f, -0.21974514f,
    -0.16005498f, -0.22734469f, -0.09105165f, 0.10792544f, 0.022304928f, -0.5971995f, -0.02290601f, -0.31628987f,
    0.06365199f, 0.26715904f, 0.11864115f, -0.36886656f, -0.13655365f, -0.15975405f, 0.0033343106f, 0.0422775f};
float sensor_param_rnn_Wh_weight_bias[16];
float sensor_param_rnn_Wh_weight_weight[304];
static const float sensor_start_param_rnn_Wh_weight_weight[304] = {0.18995239f, 0.3863328f, -0.022749012f, -0.0021047937f, -0.125397f, 0.6073568f, 0.031619623f, -0.3237099f,
    -0.024032407f, 0.078664176f, -0.09631905f, 0.019789204f, 0.22281171f, 0.1870238f, -0.28611088f, 0.038859528f,
    -0.064302154f, 0.0037559217f, 0.27742523f, -0.51241493f, 0.16006565f, 0.037743233f, 0.08246327f, -0.07224609f,
    0.07399988f, 0.47297004f, -0.00061692315f, -0.21113588f, -0.11952775f, -0.3577063f, 0.06915034f, 0.20940188f,
    0.09256492f, -0.13849713f, -0.010759534f, 0.36687148f, 0.2442967f, 0.1271779f, 0.3278788f, 0.20317297f,
    -0.35748062f, -0.072436735f, 0.093414426f, -0.33560073f, 0.028603068f, -0.07343427f, 0.2740946f, 0.03102495f,
    0.2775731f, -0.1335887f, 0.33950317f, -0.114462234f, 0.06488315f, -0.22309017f, -0.09001499f, 0.020197745f,
    0.0797658f, -0.41919807f, 0.2958873f, -0.29367396f, 0.37055135f, -0.101219915f, -0.34854046f, -0.053076226f,
    0.16306356f, 0.2187137f, 0.117009275f, 0.35303375f, 0.17254019f, -0.14340726f, -0.14892748f, -0.015254903f,
    -0.43071595f, 0.2995304f, -0.07625515f, -0.093924224f, -0.046306007f, -0.213775f, -0.31375363f, 0.357039f,
    0.20871894f, -0.11995133f, 0.2604522f, -0.10414044f, -0.5867774f, -0.04309046f, 0.10164095f, -0.12407708f,
    -0.2765248f, -0.29275033f, -0.17907168f, 0.19581811f, -0.31405038f, -0.27971536f, -0.04768942f, 0.13741231f,
    -0.24610615f, -0.0520749f, 0.17788012f, 0.18014254f, -0.39553177f, 0.35355f, -0.3078577f, 0.41788024f,
    0.027585499f, 0.17307217f, 0.32854477f, -0.20433816f, -0.23985872f, -0.08148534f, -0.06630191f, -0.1777324f,
    -0.08073293f, -0.030220198f, -0.19361064f, 0.06941225f, -0.3621524f, -0.3067426f, -0.016774204f, -0.37112436f,
    0.25670043f, 0.20308644f, 0.13520364f, -0.4664107f, 0.071732216f, 0.05736068f, 0.080312625f, 0.2199409f,
    0.22482006f, -0.19984844f, 0.10242913f, -0.1723012f, 0.0013248681f, 0.19529785f, 0.008762925f, -0.037182674f,
    -0.09514889f, 0.010893927f, -0.50653386f, -0.523755f, -0.07127662f, 0.16788472f, 0.10624936f, -0.3363984f,
    0.18554929f, 0.19778109f, 0.13507867f, 0.33724785f, -0.2810411f, 0.01675943f, 0.027256928f, -0.13619295f,
    0.107024066f, 0.10847674f, 0.052553713f, -0.012992935f, 0.39490336f, -0.24322309f, 0.36558583f, -0.17658046f,
    0.41739222f, -0.21744168f, -0.044965137f, 0.10139139f, -0.060174566f, -0.056003373f, -0.21279293f, -0.02360479f,
    0.011074938f, 0.09616179f, 0.14075845f, -0.032957863f, -0.28997165f, 0.54600364f, 0.04948347f, 0.29520607f,
    0.21730553f, 0.29017857f, -0.60922486f, -0.17081366f, -0.0247186f, 0.13806215f, -0.053520877f, 0.21461503f,
    0.10249393f, -0.3170844f, 0.047869116f, -0.26697457f, -0.16809478f, -0.33864257f, -0.0007348422f, 0.18699028f,
    -0.075618304f, -0.020928765f, 0.14564493f, 0.28442132f, 0.24150553f, 0.10161526f, -0.30855787f, -0.3628329f,
    0.23549332f, -0.28183618f, -0.17267032f, 0.021679454f, -0.27432355f, -0.22187336f, 0.3520463f, 0.10341324f,
    0.1311043f, -0.2073041f, 0.23515925f, 0.13072906f, 0.054190073f, 0.3072385f, 0.29015723f, 0.2551375f,
    0.52817214f, -0.02143162f, -0.07832441f, 0.07350766f, 0.080050915f, -0.014027409f, -0.058516763f, 0.45418298f,
    0.12997277f, -0.15768725f, -0.17078097f, 0.079249226f, -0.121857606f, -0.18551098f, -0.35530022f, 0.36806947f,
    0.1245319f, 0.19221228f, -0.538217f, 0.10344754f, 0.2994045f, -0.13874695f, -0.04531927f, 0.024889989f,
    0.3583167f, -0.006071167f, -0.083370775f, -0.17740767f, -0.12748538f, -0.046974026f, 0.2668895f, 0.13466571f,
    -0.11004497f, 0.18596028f, 0.18376055f, 0.22267585f, 0.07341238f, -0.0064301784f, 0.39940643f, 0.016677365f,
    -0.4707687f, 0.19366823f, 0.11368646f, -0.06462994f, -0.21056761f, -0.05727849f, 0.12823087f, 0.17031303f,
    -0.19871908f, -0.24846023f, -0.230517f, -0.16932343f, 0.21685188f, 0.2745959f, 0.16828756f, 0.42249748f,
    -0.0729085f, -0.039770316f, -0.13427685f, 0.30689526f, -0.10265385f, -0.18606783f, 0.5535871f, -0.041415755f,
    0.2097141f, 0.08354794f, -0.17154522f, -0.06343711f, -0.26395887f, -0.06558888f, -0.36067355f, -0.20209923f,
    0.1881203f, 0.65567595f, 0.3331483f, -0.00045197364f, 0.051270563f, -0.28701034f, 0.017044686f, 0.2696251f,
    0.2334691f, -0.02668199f, -0.083303794f, -0.06320214f, -0.26025096f, 0.19747601f, 0.102232255f, -0.1444317f};
float sensor_param_out_weight_bias[3];
float sensor_param_out_weight_weight[48];
static const float sensor_start_param_out_weight_weight[48] = {0.6206335f, 0.36678612f, 0.3275867f, -0.5905935f, -0.29819366f, -0.60323566f, -0.029797006f, -0.3713288f,
    0.17450717f, 0.48043188f, 0.10148937f, -0.1604503f, -0.20438191f, 0.004283107f, -0.07174434f, 0.11042949f,
    0.55031824f, 0.26406664f, -0.5926973f, -0.43298885f, -0.58265257f, 0.23005162f, -0.4124237f, -0.06095328f,
    -0.00652325f, 0.23971637f, 0.110202685f, 0.60316545f, -0.22675245f, -0.1737962f, 0.57273275f, -0.22649564f,
    -0.02939754f, 0.6574823f, 0.24352705f, 0.5246797f, 0.6760164f, -0.24871819f, -0.013641798f, -0.4523473f,
    -0.34907886f, 0.5661923f, -0.07124503f, 0.1426411f, 0.05770924f, -0.5837431f, 0.014384102f, -0.33606556f};
float sensor_state_rnn_h[16];
float sensor_trace_relation0_group0_weight[304];
float sensor_trace_relation0_group0_bias[16];
float sensor_trace_relation1_group0_weight[304];
float sensor_trace_relation1_group0_bias[16];
int32_t sensor_counter_age[1];
int32_t sensor_counter_calls[1];
int32_t sensor_optimizer_slot_optimizer_step[1];
double sensor_hyperparameter_sgd_lr[1];
static const double sensor_start_hyperparameter_sgd_lr[1] = {0.02};

static uint8_t sensor_bool[10];
static float sensor_f32[191];
static float sensor_last_loss[1];

/* q:f32[19] = concatenate p i    rnn */
ETP_LOOP void sensor_evolve_loop0_rnn(const float* const x0, float* const x1) {
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v0 = x0[i0];
    x1[i0] = v0;
  }
}

/* q:f32[19] = concatenate p i    rnn */
/* y:f32[19] = concatenate p x    rnn */
ETP_LOOP void sensor_evolve_loop1_rnn(const float* const x0, float* const x1, float* const x2) {
  for (int32_t i0 = 0; i0 < 3; ++i0) {
    const float v0 = x0[i0];
    x1[i0] = v0;
    x2[i0] = v0;
  }
}

/* r:f32[16] = dot_general q b    rnn.Wz */
ETP_LOOP void sensor_evolve_loop2_rnn_Wz(const float* const x0, const float* const x1, float* const x2) {
  for (int32_t i0 = 0; i0 < 1; ++i0) {
    for (int32_t i1 = 0; i1 < 16; ++i1) {
      float s = 0;
      for (int32_t i2 = 0; i2 < 19; ++i2) {
        s = __builtin_fmaf(x0[i2], x1[i1 + i2 * 16], s);
      }
      x2[i0 * 16 + i1] = s + 0;
    }
  }
}

/* v:f32[16] = add u c    rnn.Wr */
/* w:f32[16] = logistic v    rnn */
/* x:f32[16] = mul w i    rnn */
/* y:f32[19] = concatenate p x    rnn */
/* az:bool[16] = is_finite w */
/* ba:bool[] = reduce_and az */
ETP_LOOP void sensor_evolve_loop3_rnn(const float* const x0, const float* const x1, uint8_t* const x2, const float* const x3, float* const x4) {
  uint32_t b5 = 0;
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = v0 + v1;
    const float v3 = ETP_ROUNDED(etp_logistic_f32(v2));
    const _Bool v4 = etp_is_finite_f32(v3);
    const float v6 = x3[i0];
    const float v7 = ETP_ROUNDED(v3 * v6);
    b5 = b5 | !v4;
    x4[i0] = v7;
  }
  if (b5) {
    x2[0] = 0;
  }
}

/* s:f32[16] = add r a    rnn.Wz */
/* t:f32[16] = logistic s    rnn */
/* aa:f32[16] = add z e    rnn.Wh */
/* ab:f32[16] = tanh aa    rnn */
/* ac:f32[16] = sub 1.0 t    rnn */
/* ad:f32[16] = mul ac i    rnn */
/* ae:f32[16] = mul t ab    rnn */
/* af:f32[16] = add ad ae    rnn */
/* ag:f32[16] = mul t ac    rnn */
/* ah:f32[16] = neg ag    rnn */
/* ai:f32[16] = mul ah i    rnn */
/* aj:f32[16] = mul ag ab    rnn */
/* ak:f32[16] = add ai aj    rnn */
/* al:f32[16] = mul ab ab    rnn */
/* am:f32[16] = sub 1.0 al    rnn */
/* an:f32[16] = mul t am    rnn */
/* ao:bool[16] = is_finite af */
/* ap:bool[] = reduce_and ao */
/* aq:bool[16] = is_finite t */
/* ar:bool[] = reduce_and aq */
/* at:bool[16] = is_finite ak */
/* au:bool[] = reduce_and at */
/* aw:bool[16] = is_finite an */
/* ax:bool[] = reduce_and aw */
ETP_LOOP void sensor_evolve_loop4_rnn(const float* const x0, const float* const x1, const float* const x2, const float* const x3, uint8_t* const x4, const float* const x5, uint8_t* const x6, uint8_t* const x7, uint8_t* const x8, float* const x9, float* const x10, float* const x11, float* const x12) {
  uint32_t b13 = 0;
  uint32_t b22 = 0;
  uint32_t b24 = 0;
  uint32_t b29 = 0;
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = v0 + v1;
    const float v3 = ETP_ROUNDED(etp_logistic_f32(v2));
    const float v4 = x2[i0];
    const float v5 = x3[i0];
    const float v6 = v4 + v5;
    const float v7 = ETP_ROUNDED(etp_tanh_f32(v6));
    const float v8 = ETP_ROUNDED(v7 * v7);
    const float v10 = 1.0f - v8;
    const float v11 = ETP_ROUNDED(v3 * v10);
    const _Bool v12 = etp_is_finite_f32(v11);
    const float v14 = 1.0f - v3;
    const float v15 = ETP_ROUNDED(v3 * v14);
    const float v16 = -v15;
    const float v17 = x5[i0];
    const float v18 = ETP_ROUNDED(v16 * v17);
    const float v19 = ETP_ROUNDED(v15 * v7);
    const float v20 = v18 + v19;
    const _Bool v21 = etp_is_finite_f32(v20);
    const _Bool v23 = etp_is_finite_f32(v3);
    const float v25 = ETP_ROUNDED(v14 * v17);
    const float v26 = ETP_ROUNDED(v3 * v7);
    const float v27 = v25 + v26;
    const _Bool v28 = etp_is_finite_f32(v27);
    b13 = b13 | !v12;
    b22 = b22 | !v21;
    b24 = b24 | !v23;
    b29 = b29 | !v28;
    x9[i0] = v11;
    x10[i0] = v14;
    x11[i0] = v20;
    x12[i0] = v27;
  }
  if (b13) {
    x4[0] = 0;
  }
  if (b22) {
    x6[0] = 0;
  }
  if (b24) {
    x7[0] = 0;
  }
  if (b29) {
    x8[0] = 0;
  }
}

/* bc:f32[3] = dot_general af h    out */
ETP_LOOP void sensor_evolve_loop5_out(const float* const x0, const float* const x1, float* const x2) {
  for (int32_t i0 = 0; i0 < 1; ++i0) {
    for (int32_t i1 = 0; i1 < 3; ++i1) {
      float s = 0;
      for (int32_t i2 = 0; i2 < 16; ++i2) {
        s = __builtin_fmaf(x0[i2], x1[i1 + i2 * 3], s);
      }
      x2[i0 * 3 + i1] = s + 0;
    }
  }
}

/* bd:f32[3] = add bc g    out */
ETP_LOOP void sensor_evolve_loop6_out(const float* const x0, const float* const x1, float* const x2) {
  for (int32_t i0 = 0; i0 < 3; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = v0 + v1;
    x2[i0] = v2;
  }
}

/* as:bool[] = and ap ar */
/* av:bool[] = and as au */
/* ay:bool[] = and av ax */
/* bb:bool[] = and ay ba */
/* co:i32[] = add n 1.0 */
/* cp:i32[] = sub co 536870912.0 */
/* cq:bool[] = gt co 1610612736.0 */
/* cr:i32[] = select_n cq co cp */
/* cs:i32[] = add o 1.0 */
/* ct:i32[] = sub cs 536870912.0 */
/* cu:bool[] = gt cs 1610612736.0 */
/* cv:i32[] = select_n cu cs ct */
/* cw:i32[] = select_n bb n cr */
/* cx:i32[] = select_n bb o cv */
ETP_LOOP void sensor_evolve_loop7(const uint8_t* const x0, const uint8_t* const x1, const uint8_t* const x2, const uint8_t* const x3, const uint8_t* const x4, int32_t* const x5, int32_t* const x6, uint8_t* const x7, uint8_t* const x8) {
  const _Bool v0 = x0[0];
  const _Bool v1 = x1[0];
  const _Bool v2 = v0 & v1;
  const _Bool v3 = x2[0];
  const _Bool v4 = v2 & v3;
  const _Bool v5 = x3[0];
  const _Bool v6 = v4 & v5;
  const _Bool v7 = x4[0];
  const _Bool v8 = v6 & v7;
  const int32_t v9 = x5[0];
  const int32_t v11 = etp_add_i32(v9, (int32_t)1);
  const int32_t v13 = etp_sub_i32(v11, (int32_t)536870912);
  const _Bool v15 = (int32_t)1610612736 < v11;
  const int32_t v16 = v15 ? v13 : v11;
  const int32_t v17 = v8 ? v16 : v9;
  const int32_t v18 = x6[0];
  const int32_t v19 = etp_add_i32(v18, (int32_t)1);
  const int32_t v20 = etp_sub_i32(v19, (int32_t)536870912);
  const _Bool v21 = (int32_t)1610612736 < v19;
  const int32_t v22 = v21 ? v20 : v19;
  const int32_t v23 = v8 ? v22 : v18;
  x7[0] = v8;
  x8[0] = v8;
  x5[0] = v17;
  x6[0] = v23;
}

/* cy:f32[16] = select_n bb i af */
ETP_LOOP void sensor_evolve_loop8(const uint8_t* const x0, float* const x1, const float* const x2) {
  const _Bool v0 = x0[0];
  if (!v0) return;
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v1 = x1[i0];
    const float v2 = x2[i0];
    const float v3 = v0 ? v2 : v1;
    x1[i0] = v3;
  }
}

/* bo:f32[1,19,16] = mul bk bn */
/* bs:f32[1,19,16] = fma br bi bo */
/* bu:f32[1,1,19,16] = select_n bb j bt */
ETP_LOOP void sensor_evolve_loop9(const float* const x0, const float* const x1, const float* const x2, float* const x3, const uint8_t* const x4) {
  const _Bool v6 = x4[0];
  if (!v6) return;
  for (int32_t i0 = 0; i0 < 19; ++i0) {
    const float v0 = x0[i0];
    for (int32_t i1 = 0; i1 < 16; ++i1) {
      const float v1 = x1[i1];
      const float v2 = ETP_ROUNDED(v0 * v1);
      const float v3 = x2[i1];
      const float v4 = x3[i0 * 16 + i1];
      const float v5 = ETP_ROUNDED(__builtin_fmaf(v3, v4, v2));
      const float v7 = v6 ? v5 : v4;
      x3[i0 * 16 + i1] = v7;
    }
  }
}

/* bw:f32[1,16] = fma bq bv bm */
/* by:f32[1,1,16] = select_n bb k bx */
/* cl:f32[1,16] = fma bq ck ce */
/* cn:f32[1,1,16] = select_n bb m cm */
ETP_LOOP void sensor_evolve_loop10(const float* const x0, float* const x1, const float* const x2, const uint8_t* const x3, float* const x4, const float* const x5) {
  const _Bool v4 = x3[0];
  if (!v4) return;
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = x2[i0];
    const float v3 = ETP_ROUNDED(__builtin_fmaf(v0, v1, v2));
    const float v5 = v4 ? v3 : v1;
    const float v6 = x4[i0];
    const float v7 = x5[i0];
    const float v8 = ETP_ROUNDED(__builtin_fmaf(v0, v6, v7));
    const float v9 = v4 ? v8 : v6;
    x1[i0] = v5;
    x4[i0] = v9;
  }
}

static void sensor_evolve(const float* x, float* y, uint8_t* finite) {
  char* const v8 = (char*)sensor_bool + 0; /* bool[] */
  char* const v1_rnn = (char*)sensor_f32 + 0; /* f32[19] rnn */
  char* const v15 = (char*)sensor_bool + 1; /* bool[] */
  char* const v14 = (char*)sensor_bool + 2; /* bool[] */
  char* const v13 = (char*)sensor_bool + 3; /* bool[] */
  char* const v12 = (char*)sensor_bool + 4; /* bool[] */
  char* const v3_rnn = (char*)sensor_f32 + 76; /* f32[19] rnn */
  char* const v19_rnn = (char*)sensor_f32 + 152; /* f32[16] rnn */
  char* const v5_rnn_Wz = (char*)sensor_f32 + 152; /* f32[16] rnn.Wz */
  char* const v21_rnn = (char*)sensor_f32 + 216; /* f32[16] rnn */
  char* const v11_rnn_Wh = (char*)sensor_f32 + 216; /* f32[16] rnn.Wh */
  char* const v7_rnn_Wr = (char*)sensor_f32 + 216; /* f32[16] rnn.Wr */
  char* const v20_rnn = (char*)sensor_f32 + 280; /* f32[16] rnn */
  char* const v18_rnn = (char*)sensor_f32 + 344; /* f32[16] rnn */
  char* const v23_out = (char*)sensor_f32 + 408; /* f32[3] out */
  char* const in0_rnn_Wz_weight_bias = (char*)sensor_param_rnn_Wz_weight_bias; /* f32[16] rnn/Wz/weight.bias */
  char* const in1_rnn_Wz_weight_weight = (char*)sensor_param_rnn_Wz_weight_weight; /* f32[19,16] rnn/Wz/weight.weight */
  char* const in2_rnn_Wr_weight_bias = (char*)sensor_param_rnn_Wr_weight_bias; /* f32[16] rnn/Wr/weight.bias */
  char* const in3_rnn_Wr_weight_weight = (char*)sensor_param_rnn_Wr_weight_weight; /* f32[19,16] rnn/Wr/weight.weight */
  char* const in4_rnn_Wh_weight_bias = (char*)sensor_param_rnn_Wh_weight_bias; /* f32[16] rnn/Wh/weight.bias */
  char* const in5_rnn_Wh_weight_weight = (char*)sensor_param_rnn_Wh_weight_weight; /* f32[19,16] rnn/Wh/weight.weight */
  char* const in6_out_weight_bias = (char*)sensor_param_out_weight_bias; /* f32[3] out/weight.bias */
  char* const in7_out_weight_weight = (char*)sensor_param_out_weight_weight; /* f32[16,3] out/weight.weight */
  char* const in8_rnn_h = (char*)sensor_state_rnn_h; /* f32[16] rnn/h */
  char* const in9_relation0_group0_weight = (char*)sensor_trace_relation0_group0_weight; /* f32[1,1,19,16] relation0/group0/weight */
  char* const in10_relation0_group0_bias = (char*)sensor_trace_relation0_group0_bias; /* f32[1,1,16] relation0/group0/bias */
  char* const in11_relation1_group0_weight = (char*)sensor_trace_relation1_group0_weight; /* f32[1,1,19,16] relation1/group0/weight */
  char* const in12_relation1_group0_bias = (char*)sensor_trace_relation1_group0_bias; /* f32[1,1,16] relation1/group0/bias */
  char* const in13_age = (char*)sensor_counter_age; /* i32[] age */
  char* const in14_calls = (char*)sensor_counter_calls; /* i32[] calls */
  char* const in15_arg0 = (char*)x; /* f32[3] arg0 */
  char* const out0_result0 = (char*)y; /* f32[3] result0 */
  char* const out8_finite = (char*)finite; /* bool[] finite */
  /* q:f32[19] = concatenate p i    rnn */
  sensor_evolve_loop0_rnn((void*)(in8_rnn_h), (void*)(v1_rnn + 12));
  /* q:f32[19] = concatenate p i    rnn */
  /* y:f32[19] = concatenate p x    rnn */
  sensor_evolve_loop1_rnn((void*)(in15_arg0), (void*)(v1_rnn), (void*)(v3_rnn));
  /* r:f32[16] = dot_general q b    rnn.Wz */
  sensor_evolve_loop2_rnn_Wz((void*)(v1_rnn), (void*)(in1_rnn_Wz_weight_weight), (void*)(v5_rnn_Wz));
  /* u:f32[16] = dot_general q d    rnn.Wr */
  sensor_evolve_loop2_rnn_Wz((void*)(v1_rnn), (void*)(in3_rnn_Wr_weight_weight), (void*)(v7_rnn_Wr));
  /* v:f32[16] = add u c    rnn.Wr */
  /* w:f32[16] = logistic v    rnn */
  /* x:f32[16] = mul w i    rnn */
  /* y:f32[19] = concatenate p x    rnn */
  /* az:bool[16] = is_finite w */
  /* ba:bool[] = reduce_and az */
  *(uint8_t*)(v8) = 1;
  sensor_evolve_loop3_rnn((void*)(v7_rnn_Wr), (void*)(in2_rnn_Wr_weight_bias), (void*)(v8), (void*)(in8_rnn_h), (void*)(v3_rnn + 12));
  /* z:f32[16] = dot_general y f    rnn.Wh */
  sensor_evolve_loop2_rnn_Wz((void*)(v3_rnn), (void*)(in5_rnn_Wh_weight_weight), (void*)(v11_rnn_Wh));
  /* s:f32[16] = add r a    rnn.Wz */
  /* t:f32[16] = logistic s    rnn */
  /* aa:f32[16] = add z e    rnn.Wh */
  /* ab:f32[16] = tanh aa    rnn */
  /* ac:f32[16] = sub 1.0 t    rnn */
  /* ad:f32[16] = mul ac i    rnn */
  /* ae:f32[16] = mul t ab    rnn */
  /* af:f32[16] = add ad ae    rnn */
  /* ag:f32[16] = mul t ac    rnn */
  /* ah:f32[16] = neg ag    rnn */
  /* ai:f32[16] = mul ah i    rnn */
  /* aj:f32[16] = mul ag ab    rnn */
  /* ak:f32[16] = add ai aj    rnn */
  /* al:f32[16] = mul ab ab    rnn */
  /* am:f32[16] = sub 1.0 al    rnn */
  /* an:f32[16] = mul t am    rnn */
  /* ao:bool[16] = is_finite af */
  /* ap:bool[] = reduce_and ao */
  /* aq:bool[16] = is_finite t */
  /* ar:bool[] = reduce_and aq */
  /* at:bool[16] = is_finite ak */
  /* au:bool[] = reduce_and at */
  /* aw:bool[16] = is_finite an */
  /* ax:bool[] = reduce_and aw */
  *(uint8_t*)(v12) = 1;
  *(uint8_t*)(v13) = 1;
  *(uint8_t*)(v14) = 1;
  *(uint8_t*)(v15) = 1;
  sensor_evolve_loop4_rnn((void*)(v5_rnn_Wz), (void*)(in0_rnn_Wz_weight_bias), (void*)(v11_rnn_Wh), (void*)(in4_rnn_Wh_weight_bias), (void*)(v12), (void*)(in8_rnn_h), (void*)(v13), (void*)(v14), (void*)(v15), (void*)(v18_rnn), (void*)(v19_rnn), (void*)(v20_rnn), (void*)(v21_rnn));
  /* bc:f32[3] = dot_general af h    out */
  sensor_evolve_loop5_out((void*)(v21_rnn), (void*)(in7_out_weight_weight), (void*)(v23_out));
  /* bd:f32[3] = add bc g    out */
  sensor_evolve_loop6_out((void*)(v23_out), (void*)(in6_out_weight_bias), (void*)(out0_result0));
  /* as:bool[] = and ap ar */
  /* av:bool[] = and as au */
  /* ay:bool[] = and av ax */
  /* bb:bool[] = and ay ba */
  /* co:i32[] = add n 1.0 */
  /* cp:i32[] = sub co 536870912.0 */
  /* cq:bool[] = gt co 1610612736.0 */
  /* cr:i32[] = select_n cq co cp */
  /* cs:i32[] = add o 1.0 */
  /* ct:i32[] = sub cs 536870912.0 */
  /* cu:bool[] = gt cs 1610612736.0 */
  /* cv:i32[] = select_n cu cs ct */
  /* cw:i32[] = select_n bb n cr */
  /* cx:i32[] = select_n bb o cv */
  sensor_evolve_loop7((void*)(v15), (void*)(v14), (void*)(v13), (void*)(v12), (void*)(v8), (void*)(in14_calls), (void*)(in13_age), (void*)(v15), (void*)(out8_finite));
  /* cy:f32[16] = select_n bb i af */
  sensor_evolve_loop8((void*)(v15), (void*)(in8_rnn_h), (void*)(v21_rnn));
  /* bo:f32[1,19,16] = mul bk bn */
  /* bs:f32[1,19,16] = fma br bi bo */
  /* bu:f32[1,1,19,16] = select_n bb j bt */
  sensor_evolve_loop9((void*)(v1_rnn), (void*)(v20_rnn), (void*)(v19_rnn), (void*)(in9_relation0_group0_weight), (void*)(v15));
  /* cg:f32[1,19,16] = mul cc cf */
  /* ch:f32[1,19,16] = fma br ca cg */
  /* cj:f32[1,1,19,16] = select_n bb l ci */
  sensor_evolve_loop9((void*)(v3_rnn), (void*)(v18_rnn), (void*)(v19_rnn), (void*)(in11_relation1_group0_weight), (void*)(v15));
  /* bw:f32[1,16] = fma bq bv bm */
  /* by:f32[1,1,16] = select_n bb k bx */
  /* cl:f32[1,16] = fma bq ck ce */
  /* cn:f32[1,1,16] = select_n bb m cm */
  sensor_evolve_loop10((void*)(v19_rnn), (void*)(in10_relation0_group0_bias), (void*)(v20_rnn), (void*)(v15), (void*)(in12_relation1_group0_bias), (void*)(v18_rnn));
}

/* y:f32[16] = add x c    rnn.Wr */
/* z:f32[16] = logistic y    rnn */
/* aa:f32[16] = mul z i    rnn */
/* ab:f32[19] = concatenate r aa    rnn */
/* cj:bool[16] = is_finite z */
/* ck:bool[] = reduce_and cj */
ETP_LOOP void sensor_learn_loop0_rnn(const float* const x0, const float* const x1, uint8_t* const x2, const float* const x3, float* const x4, float* const x5) {
  uint32_t b5 = 0;
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = v0 + v1;
    const float v3 = ETP_ROUNDED(etp_logistic_f32(v2));
    const _Bool v4 = etp_is_finite_f32(v3);
    const float v6 = x3[i0];
    const float v7 = ETP_ROUNDED(v3 * v6);
    b5 = b5 | !v4;
    x4[i0] = v3;
    x5[i0] = v7;
  }
  if (b5) {
    x2[0] = 0;
  }
}

/* v:f32[16] = add u a    rnn.Wz */
/* w:f32[16] = logistic v    rnn */
/* ad:f32[16] = add ac e    rnn.Wh */
/* ae:f32[16] = tanh ad    rnn */
/* af:f32[16] = sub 1.0 w    rnn */
/* ag:f32[16] = mul af i    rnn */
/* ah:f32[16] = mul w ae    rnn */
/* ai:f32[16] = add ag ah    rnn */
/* br:bool[16] = is_finite ai */
/* bs:bool[] = reduce_and br */
/* bu:bool[16] = is_finite w */
/* bv:bool[] = reduce_and bu */
ETP_LOOP void sensor_learn_loop1_rnn(const float* const x0, const float* const x1, uint8_t* const x2, const float* const x3, const float* const x4, const float* const x5, uint8_t* const x6, float* const x7, float* const x8, float* const x9, float* const x10) {
  uint32_t b5 = 0;
  uint32_t b17 = 0;
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = v0 + v1;
    const float v3 = ETP_ROUNDED(etp_logistic_f32(v2));
    const _Bool v4 = etp_is_finite_f32(v3);
    const float v6 = x3[i0];
    const float v7 = x4[i0];
    const float v8 = v6 + v7;
    const float v9 = ETP_ROUNDED(etp_tanh_f32(v8));
    const float v11 = 1.0f - v3;
    const float v12 = x5[i0];
    const float v13 = ETP_ROUNDED(v11 * v12);
    const float v14 = ETP_ROUNDED(v3 * v9);
    const float v15 = v13 + v14;
    const _Bool v16 = etp_is_finite_f32(v15);
    b5 = b5 | !v4;
    b17 = b17 | !v16;
    x7[i0] = v3;
    x8[i0] = v9;
    x9[i0] = v11;
    x10[i0] = v15;
  }
  if (b5) {
    x2[0] = 0;
  }
  if (b17) {
    x6[0] = 0;
  }
}

/* ak:f32[3] = add aj g    out */
/* at:f32[3] = sub ak s */
/* au:f32[3] = square at */
/* az:f32[3] = mul 2.0 at */
/* bb:f32[3] = mul 0.3333333432674408 az */
/* cs:bool[3] = is_finite ak */
/* ct:bool[] = reduce_and cs */
ETP_LOOP void sensor_learn_loop2_out(const float* const x0, const float* const x1, uint8_t* const x2, const float* const x3, float* const x4, float* const x5, float* const x6) {
  uint32_t b4 = 0;
  for (int32_t i0 = 0; i0 < 3; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = v0 + v1;
    const _Bool v3 = etp_is_finite_f32(v2);
    const float v5 = x3[i0];
    const float v6 = v2 - v5;
    const float v8 = ETP_ROUNDED(2.0f * v6);
    const float v10 = ETP_ROUNDED(0.33333334f * v8);
    const float v11 = ETP_ROUNDED(etp_square_f32(v6));
    b4 = b4 | !v3;
    x4[i0] = v2;
    x5[i0] = v10;
    x6[i0] = v11;
  }
  if (b4) {
    x2[0] = 0;
  }
}

/* bc:f32[16] = dot_general bb h    out */
ETP_LOOP void sensor_learn_loop3_out(const float* const x0, const float* const x1, float* const x2) {
  for (int32_t i0 = 0; i0 < 1; ++i0) {
    for (int32_t i1 = 0; i1 < 16; ++i1) {
      float s = 0;
      for (int32_t i2 = 0; i2 < 3; ++i2) {
        s = __builtin_fmaf(x0[i2], x1[i1 * 3 + i2], s);
      }
      x2[i0 * 16 + i1] = s + 0;
    }
  }
}

/* al:f32[16] = mul w af    rnn */
/* am:f32[16] = neg al    rnn */
/* an:f32[16] = mul am i    rnn */
/* ao:f32[16] = mul al ae    rnn */
/* ap:f32[16] = add an ao    rnn */
/* aq:f32[16] = mul ae ae    rnn */
/* ar:f32[16] = sub 1.0 aq    rnn */
/* as:f32[16] = mul w ar    rnn */
/* bd:f32[16] = mul w bc    rnn */
/* be:f32[16] = mul bc ae    rnn */
/* bf:f32[16] = mul bc i    rnn */
/* bg:f32[16] = neg bf    rnn */
/* bh:f32[16] = add_any be bg    rnn */
/* bi:f32[16] = mul bd ar    rnn */
/* bn:f32[16] = mul bh al    rnn */
/* bo:f32[16] = mul af bc */
/* bx:bool[16] = is_finite ap */
/* by:bool[] = reduce_and bx */
/* ca:bool[16] = is_finite bo */
/* cb:bool[] = reduce_and ca */
/* cd:bool[16] = is_finite bn */
/* ce:bool[] = reduce_and cd */
/* cg:bool[16] = is_finite as */
/* ch:bool[] = reduce_and cg */
/* cm:bool[16] = is_finite bi */
/* cn:bool[] = reduce_and cm */
ETP_LOOP void sensor_learn_loop4_rnn(const float* const x0, const float* const x1, const float* const x2, const float* const x3, const float* const x4, uint8_t* const x5, uint8_t* const x6, uint8_t* const x7, uint8_t* const x8, uint8_t* const x9, float* const x10, float* const x11, float* const x12, float* const x13, float* const x14) {
  uint32_t b12 = 0;
  uint32_t b18 = 0;
  uint32_t b21 = 0;
  uint32_t b28 = 0;
  uint32_t b31 = 0;
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v0 = x0[i0];
    const float v1 = x1[i0];
    const float v2 = ETP_ROUNDED(v0 * v1);
    const float v3 = x2[i0];
    const float v4 = x3[i0];
    const float v5 = ETP_ROUNDED(v3 * v4);
    const float v6 = x4[i0];
    const float v7 = ETP_ROUNDED(v3 * v6);
    const float v8 = -v7;
    const float v9 = v5 + v8;
    const float v10 = ETP_ROUNDED(v9 * v2);
    const _Bool v11 = etp_is_finite_f32(v10);
    const float v13 = -v2;
    const float v14 = ETP_ROUNDED(v13 * v6);
    const float v15 = ETP_ROUNDED(v2 * v4);
    const float v16 = v14 + v15;
    const _Bool v17 = etp_is_finite_f32(v16);
    const float v19 = ETP_ROUNDED(v1 * v3);
    const _Bool v20 = etp_is_finite_f32(v19);
    const float v22 = ETP_ROUNDED(v4 * v4);
    const float v24 = 1.0f - v22;
    const float v25 = ETP_ROUNDED(v0 * v3);
    const float v26 = ETP_ROUNDED(v25 * v24);
    const _Bool v27 = etp_is_finite_f32(v26);
    const float v29 = ETP_ROUNDED(v0 * v24);
    const _Bool v30 = etp_is_finite_f32(v29);
    b12 = b12 | !v11;
    b18 = b18 | !v17;
    b21 = b21 | !v20;
    b28 = b28 | !v27;
    b31 = b31 | !v30;
    x10[i0] = v10;
    x11[i0] = v16;
    x12[i0] = v19;
    x13[i0] = v26;
    x14[i0] = v29;
  }
  if (b12) {
    x5[0] = 0;
  }
  if (b18) {
    x6[0] = 0;
  }
  if (b21) {
    x7[0] = 0;
  }
  if (b28) {
    x8[0] = 0;
  }
  if (b31) {
    x9[0] = 0;
  }
}

/* bj:f32[19] = dot_general bi f    rnn.Wh */
ETP_LOOP void sensor_learn_loop5_rnn_Wh(const float* const x0, const float* const x1, float* const x2) {
  for (int32_t i0 = 0; i0 < 1; ++i0) {
    for (int32_t i1 = 0; i1 < 19; ++i1) {
      float s = 0;
      for (int32_t i2 = 0; i2 < 16; ++i2) {
        s = __builtin_fmaf(x0[i2], x1[i1 * 16 + i2], s);
      }
      x2[i0 * 19 + i1] = s + 0;
    }
  }
}

/* ax:f32[16] = sub 1.0 z    rnn */
/* ay:f32[16] = mul z ax    rnn */
/* bl:f32[16] = mul bk i    rnn */
/* bm:f32[16] = mul bl ay    rnn */
/* cp:bool[16] = is_finite bm */
/* cq:bool[] = reduce_and cp */
ETP_LOOP void sensor_learn_loop6_rnn(const float* const x0, const float* const x1, const float* const x2, uint8_t* const x3, float* const x4) {
  uint32_t b9 = 0;
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v1 = x0[i0];
    const float v2 = 1.0f - v1;
    const float v3 = ETP_ROUNDED(v1 * v2);
    const float v4 = x1[i0];
    const float v5 = x2[i0];
    const float v6 = ETP_ROUNDED(v4 * v5);
    const float v7 = ETP_ROUNDED(v6 * v3);
    const _Bool v8 = etp_is_finite_f32(v7);
    b9 = b9 | !v8;
    x4[i0] = v7;
  }
  if (b9) {
    x3[0] = 0;
  }
}

/* gb:f32[] = convert_element_type q */
ETP_LOOP void sensor_learn_loop7(const double* const x0, float* const x1) {
  const double v0 = x0[0];
  const float v1 = ETP_ROUNDED((float)v0);
  x1[0] = v1;
}

/* av:f32[] = reduce_sum au */
/* aw:f32[] = div av 3.0 */
/* bp:bool[1] = is_finite ba */
/* bt:bool[] = and bq bs */
/* bw:bool[] = and bt bv */
/* bz:bool[] = and bw by */
/* cc:bool[] = and bz cb */
/* cf:bool[] = and cc ce */
/* ci:bool[] = and cf ch */
/* cl:bool[] = and ci ck */
/* co:bool[] = and cl cn */
/* cr:bool[] = and co cq */
/* cu:bool[] = and cr ct */
/* cv:bool[] = and cu bs */
/* fr:i32[] = add n 1.0 */
/* fs:i32[] = sub fr 536870912.0 */
/* ft:bool[] = gt fr 1610612736.0 */
/* fu:i32[] = select_n ft fr fs */
/* fv:i32[] = add o 1.0 */
/* fw:i32[] = sub fv 536870912.0 */
/* fx:bool[] = gt fv 1610612736.0 */
/* fy:i32[] = select_n fx fv fw */
/* fz:i32[] = select_n cv n fu */
/* ga:i32[] = select_n cv o fy */
/* gc:i32[] = min p 2147483646.0 */
/* gd:i32[] = add gc 1.0 */
/* hs:i32[] = select_n cv p gd */
ETP_LOOP void sensor_learn_loop8(const float* const x0, const float* const x1, const float* const x2, const uint8_t* const x3, const uint8_t* const x4, const uint8_t* const x5, const uint8_t* const x6, const uint8_t* const x7, const uint8_t* const x8, const uint8_t* const x9, const uint8_t* const x10, const uint8_t* const x11, const uint8_t* const x12, int32_t* const x13, int32_t* const x14, int32_t* const x15, uint8_t* const x16, uint8_t* const x17, float* const x18) {
  const float v0 = x0[0];
  const float v1 = x1[0];
  const float v2 = x2[0];
  const float v3 = ETP_ROUNDED((float)(((0.0 + (double)v0) + (0.0 + (double)v2)) + (0.0 + (double)v1)));
  const float v5 = v3 / 3.0f;
  const _Bool v6 = etp_is_finite_f32(v5);
  const _Bool v7 = x3[0];
  const _Bool v8 = v6 & v7;
  const _Bool v9 = x4[0];
  const _Bool v10 = v8 & v9;
  const _Bool v11 = x5[0];
  const _Bool v12 = v10 & v11;
  const _Bool v13 = x6[0];
  const _Bool v14 = v12 & v13;
  const _Bool v15 = x7[0];
  const _Bool v16 = v14 & v15;
  const _Bool v17 = x8[0];
  const _Bool v18 = v16 & v17;
  const _Bool v19 = x9[0];
  const _Bool v20 = v18 & v19;
  const _Bool v21 = x10[0];
  const _Bool v22 = v20 & v21;
  const _Bool v23 = x11[0];
  const _Bool v24 = v22 & v23;
  const _Bool v25 = x12[0];
  const _Bool v26 = v24 & v25;
  const _Bool v27 = v26 & v7;
  const int32_t v28 = x13[0];
  const int32_t v30 = etp_add_i32(v28, (int32_t)1);
  const int32_t v32 = etp_sub_i32(v30, (int32_t)536870912);
  const _Bool v34 = (int32_t)1610612736 < v30;
  const int32_t v35 = v34 ? v32 : v30;
  const int32_t v36 = v27 ? v35 : v28;
  const int32_t v37 = x14[0];
  const int32_t v38 = etp_add_i32(v37, (int32_t)1);
  const int32_t v39 = etp_sub_i32(v38, (int32_t)536870912);
  const _Bool v40 = (int32_t)1610612736 < v38;
  const int32_t v41 = v40 ? v39 : v38;
  const int32_t v42 = v27 ? v41 : v37;
  const int32_t v43 = x15[0];
  const int32_t v45 = etp_min_i32(v43, (int32_t)2147483646);
  const int32_t v46 = etp_add_i32(v45, (int32_t)1);
  const int32_t v47 = v27 ? v46 : v43;
  x16[0] = v27;
  x17[0] = v27;
  x18[0] = v5;
  x13[0] = v36;
  x14[0] = v42;
  x15[0] = v47;
}

/* gi:f32[16] = mul gb bm */
/* gj:f32[16] = sub c gi */
/* ha:bool[16] = is_finite gj */
/* hb:bool[16] = and ha cv */
/* hc:f32[16] = select_n hb c gj */
/* hw:bool[] = reduce_and ha */
ETP_LOOP void sensor_learn_loop9(const float* const x0, const float* const x1, float* const x2, const uint8_t* const x3, uint8_t* const x4) {
  uint32_t b9 = 0;
  const float v0 = x0[0];
  const _Bool v6 = x3[0];
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v1 = x1[i0];
    const float v2 = ETP_ROUNDED(v0 * v1);
    const float v3 = x2[i0];
    const float v4 = v3 - v2;
    const _Bool v5 = etp_is_finite_f32(v4);
    const _Bool v7 = v5 & v6;
    const float v8 = v7 ? v4 : v3;
    b9 = b9 | !v5;
    x2[i0] = v8;
  }
  if (b9) {
    x4[0] = 0;
  }
}

/* cz:f32[19,16] = dot_general t bm    rnn.Wr */
/* gk:f32[19,16] = mul gb cz */
/* gl:f32[19,16] = sub d gk */
/* hd:bool[19,16] = is_finite gl */
/* he:bool[19,16] = and hd cv */
/* hf:f32[19,16] = select_n he d gl */
/* hy:bool[] = reduce_and hd */
ETP_LOOP void sensor_learn_loop10_rnn_Wr(const float* const x0, const float* const x1, const float* const x2, float* const x3, const uint8_t* const x4, uint8_t* const x5) {
  uint32_t b11 = 0;
  const float v3 = x2[0];
  const _Bool v8 = x4[0];
  for (int32_t i0 = 0; i0 < 19; ++i0) {
    const float v0 = x0[i0];
    for (int32_t i1 = 0; i1 < 16; ++i1) {
      const float v1 = x1[i1];
      const float v2 = ETP_ROUNDED(v0 * v1 + 0.0f);
      const float v4 = ETP_ROUNDED(v3 * v2);
      const float v5 = x3[i0 * 16 + i1];
      const float v6 = v5 - v4;
      const _Bool v7 = etp_is_finite_f32(v6);
      const _Bool v9 = v7 & v8;
      const float v10 = v9 ? v6 : v5;
      b11 = b11 | !v7;
      x3[i0 * 16 + i1] = v10;
    }
  }
  if (b11) {
    x5[0] = 0;
  }
}

/* gq:f32[3] = mul gb bb */
/* gr:f32[3] = sub g gq */
/* hm:bool[3] = is_finite gr */
/* hn:bool[3] = and hm cv */
/* ho:f32[3] = select_n hn g gr */
/* ie:bool[] = reduce_and hm */
ETP_LOOP void sensor_learn_loop11(const float* const x0, const float* const x1, float* const x2, const uint8_t* const x3, uint8_t* const x4) {
  uint32_t b9 = 0;
  const float v0 = x0[0];
  const _Bool v6 = x3[0];
  for (int32_t i0 = 0; i0 < 3; ++i0) {
    const float v1 = x1[i0];
    const float v2 = ETP_ROUNDED(v0 * v1);
    const float v3 = x2[i0];
    const float v4 = v3 - v2;
    const _Bool v5 = etp_is_finite_f32(v4);
    const _Bool v7 = v5 & v6;
    const float v8 = v7 ? v4 : v3;
    b9 = b9 | !v5;
    x2[i0] = v8;
  }
  if (b9) {
    x4[0] = 0;
  }
}

/* cy:f32[16,3] = dot_general ai bb    out */
/* gs:f32[16,3] = mul gb cy */
/* gt:f32[16,3] = sub h gs */
/* hp:bool[16,3] = is_finite gt */
/* hq:bool[16,3] = and hp cv */
/* hr:f32[16,3] = select_n hq h gt */
/* ig:bool[] = reduce_and hp */
ETP_LOOP void sensor_learn_loop12_out(const float* const x0, const float* const x1, const float* const x2, float* const x3, const uint8_t* const x4, uint8_t* const x5) {
  uint32_t b11 = 0;
  const float v3 = x2[0];
  const _Bool v8 = x4[0];
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v0 = x0[i0];
    for (int32_t i1 = 0; i1 < 3; ++i1) {
      const float v1 = x1[i1];
      const float v2 = ETP_ROUNDED(v0 * v1 + 0.0f);
      const float v4 = ETP_ROUNDED(v3 * v2);
      const float v5 = x3[i0 * 3 + i1];
      const float v6 = v5 - v4;
      const _Bool v7 = etp_is_finite_f32(v6);
      const _Bool v9 = v7 & v8;
      const float v10 = v9 ? v6 : v5;
      b11 = b11 | !v7;
      x3[i0 * 3 + i1] = v10;
    }
  }
  if (b11) {
    x5[0] = 0;
  }
}

/* dk:f32[1,19,16] = mul dg dj */
/* do:f32[1,19,16] = fma dn de dk */
/* dq:f32[1,1,19,16] = select_n cv j dp */
/* ea:f32[19,16] = fma dy dx dz */
/* eb:f32[19,16] = fma dv dw ea */
/* ec:f32[19,16] = select_n cv dz eb */
/* gg:f32[19,16] = mul gb ec */
/* gh:f32[19,16] = sub b gg */
/* gx:bool[19,16] = is_finite gh */
/* gy:bool[19,16] = and gx cv */
/* gz:f32[19,16] = select_n gy b gh */
/* hu:bool[] = reduce_and gx */
ETP_LOOP void sensor_learn_loop13(const float* const x0, const float* const x1, const float* const x2, float* const x3, const uint8_t* const x4, const float* const x5, float* const x6, uint8_t* const x7, const float* const x8, const float* const x9) {
  uint32_t b16 = 0;
  const _Bool v7 = x4[0];
  const float v9 = x5[0];
  for (int32_t i0 = 0; i0 < 19; ++i0) {
    const float v0 = x0[i0];
    for (int32_t i1 = 0; i1 < 16; ++i1) {
      const float v1 = x1[i1];
      const float v3 = ETP_ROUNDED(__builtin_fmaf(v0, v1, 0.0f));
      const float v4 = x2[i1];
      const float v5 = x3[i0 * 16 + i1];
      const float v6 = ETP_ROUNDED(__builtin_fmaf(v4, v5, v3));
      const float v8 = v7 ? v6 : 0.0f;
      const float v10 = ETP_ROUNDED(v9 * v8);
      const float v11 = x6[i0 * 16 + i1];
      const float v12 = v11 - v10;
      const _Bool v13 = etp_is_finite_f32(v12);
      const _Bool v14 = v13 & v7;
      const float v15 = v14 ? v12 : v11;
      const float v17 = x8[i1];
      const float v18 = ETP_ROUNDED(v0 * v17);
      const float v19 = x9[i1];
      const float v20 = ETP_ROUNDED(__builtin_fmaf(v19, v5, v18));
      const float v21 = v7 ? v20 : v5;
      b16 = b16 | !v13;
      x6[i0 * 16 + i1] = v15;
      x3[i0 * 16 + i1] = v21;
    }
  }
  if (b16) {
    x7[0] = 0;
  }
}

/* ee:f32[1,16] = fma dm ed di */
/* eg:f32[1,1,16] = select_n cv k ef */
/* el:f32[16] = add ej ek */
/* em:f32[16] = fma eh ei el */
/* en:f32[16] = select_n cv ek em */
/* fj:f32[1,16] = fma dm fi eu */
/* fl:f32[1,1,16] = select_n cv m fk */
/* fo:f32[16] = add fn ek */
/* fp:f32[16] = fma eh fm fo */
/* fq:f32[16] = select_n cv ek fp */
/* ge:f32[16] = mul gb en */
/* gf:f32[16] = sub a ge */
/* gm:f32[16] = mul gb fq */
/* gn:f32[16] = sub e gm */
/* gu:bool[16] = is_finite gf */
/* gv:bool[16] = and gu cv */
/* gw:f32[16] = select_n gv a gf */
/* hg:bool[16] = is_finite gn */
/* hh:bool[16] = and hg cv */
/* hi:f32[16] = select_n hh e gn */
/* ht:bool[] = reduce_and gu */
/* ia:bool[] = reduce_and hg */
ETP_LOOP void sensor_learn_loop14(const float* const x0, const float* const x1, float* const x2, const uint8_t* const x3, const float* const x4, float* const x5, uint8_t* const x6, const float* const x7, float* const x8, float* const x9, uint8_t* const x10, const float* const x11, const float* const x12, const float* const x13) {
  uint32_t b15 = 0;
  uint32_t b27 = 0;
  const _Bool v6 = x3[0];
  const float v8 = x4[0];
  for (int32_t i0 = 0; i0 < 16; ++i0) {
    const float v0 = x0[i0];
    const float v2 = v0 + 0.0f;
    const float v3 = x1[i0];
    const float v4 = x2[i0];
    const float v5 = ETP_ROUNDED(__builtin_fmaf(v3, v4, v2));
    const float v7 = v6 ? v5 : 0.0f;
    const float v9 = ETP_ROUNDED(v8 * v7);
    const float v10 = x5[i0];
    const float v11 = v10 - v9;
    const _Bool v12 = etp_is_finite_f32(v11);
    const _Bool v13 = v12 & v6;
    const float v14 = v13 ? v11 : v10;
    const float v16 = x7[i0];
    const float v17 = v16 + 0.0f;
    const float v18 = x8[i0];
    const float v19 = ETP_ROUNDED(__builtin_fmaf(v3, v18, v17));
    const float v20 = v6 ? v19 : 0.0f;
    const float v21 = ETP_ROUNDED(v8 * v20);
    const float v22 = x9[i0];
    const float v23 = v22 - v21;
    const _Bool v24 = etp_is_finite_f32(v23);
    const _Bool v25 = v24 & v6;
    const float v26 = v25 ? v23 : v22;
    const float v28 = x11[i0];
    const float v29 = x12[i0];
    const float v30 = ETP_ROUNDED(__builtin_fmaf(v28, v4, v29));
    const float v31 = v6 ? v30 : v4;
    const float v32 = x13[i0];
    const float v33 = ETP_ROUNDED(__builtin_fmaf(v28, v18, v32));
    const float v34 = v6 ? v33 : v18;
    b15 = b15 | !v12;
    b27 = b27 | !v24;
    x5[i0] = v14;
    x9[i0] = v26;
    x2[i0] = v31;
    x8[i0] = v34;
  }
  if (b15) {
    x6[0] = 0;
  }
  if (b27) {
    x10[0] = 0;
  }
}

/* hv:bool[] = and ht hu */
/* hx:bool[] = and hv hw */
/* hz:bool[] = and hx hy */
/* ib:bool[] = and hz ia */
/* id:bool[] = and ib ic */
/* if:bool[] = and id ie */
/* ih:bool[] = and if ig */
ETP_LOOP void sensor_learn_loop15(const uint8_t* const x0, const uint8_t* const x1, const uint8_t* const x2, const uint8_t* const x3, const uint8_t* const x4, const uint8_t* const x5, const uint8_t* const x6, const uint8_t* const x7, uint8_t* const x8) {
  const _Bool v0 = x0[0];
  const _Bool v1 = x1[0];
  const _Bool v2 = v0 & v1;
  const _Bool v3 = x2[0];
  const _Bool v4 = v2 & v3;
  const _Bool v5 = x3[0];
  const _Bool v6 = v4 & v5;
  const _Bool v7 = x4[0];
  const _Bool v8 = v6 & v7;
  const _Bool v9 = x5[0];
  const _Bool v10 = v8 & v9;
  const _Bool v11 = x6[0];
  const _Bool v12 = v10 & v11;
  const _Bool v13 = x7[0];
  const _Bool v14 = v12 & v13;
  x8[0] = v14;
}

static void sensor_learn(const float* x, const float* target, float* y, uint8_t* finite) {
  char* const v8 = (char*)sensor_bool + 0; /* bool[] */
  char* const v1_rnn = (char*)sensor_f32 + 0; /* f32[19] rnn */
  char* const v14 = (char*)sensor_bool + 1; /* bool[] */
  char* const v13 = (char*)sensor_bool + 2; /* bool[] */
  char* const v23 = (char*)sensor_bool + 3; /* bool[] */
  char* const v31 = (char*)sensor_bool + 4; /* bool[] */
  char* const v32 = (char*)sensor_bool + 5; /* bool[] */
  char* const v30 = (char*)sensor_bool + 6; /* bool[] */
  char* const v34 = (char*)sensor_bool + 7; /* bool[] */
  char* const v33 = (char*)sensor_bool + 8; /* bool[] */
  char* const v39 = (char*)sensor_bool + 9; /* bool[] */
  char* const v3_rnn = (char*)sensor_f32 + 76; /* f32[19] rnn */
  char* const v17_rnn = (char*)sensor_f32 + 152; /* f32[16] rnn */
  char* const v5_rnn_Wz = (char*)sensor_f32 + 152; /* f32[16] rnn.Wz */
  char* const v10_rnn = (char*)sensor_f32 + 216; /* f32[16] rnn */
  char* const v7_rnn_Wr = (char*)sensor_f32 + 216; /* f32[16] rnn.Wr */
  char* const v18_rnn = (char*)sensor_f32 + 280; /* f32[16] rnn */
  char* const v12_rnn_Wh = (char*)sensor_f32 + 280; /* f32[16] rnn.Wh */
  char* const v19_rnn = (char*)sensor_f32 + 344; /* f32[16] rnn */
  char* const v20_rnn = (char*)sensor_f32 + 408; /* f32[16] rnn */
  char* const v28 = (char*)sensor_f32 + 472; /* f32[3] */
  char* const v22_out = (char*)sensor_f32 + 472; /* f32[3] out */
  char* const v27 = (char*)sensor_f32 + 484; /* f32[3] */
  char* const v29_out = (char*)sensor_f32 + 496; /* f32[16] out */
  char* const v37_rnn = (char*)sensor_f32 + 496; /* f32[16] rnn */
  char* const v35_rnn = (char*)sensor_f32 + 560; /* f32[16] rnn */
  char* const v36 = (char*)sensor_f32 + 624; /* f32[16] */
  char* const v38_rnn_Wh = (char*)sensor_f32 + 688; /* f32[19] rnn.Wh */
  char* const v41 = (char*)sensor_f32 + 688; /* f32[] */
  char* const in0_rnn_Wz_weight_bias = (char*)sensor_param_rnn_Wz_weight_bias; /* f32[16] rnn/Wz/weight.bias */
  char* const in1_rnn_Wz_weight_weight = (char*)sensor_param_rnn_Wz_weight_weight; /* f32[19,16] rnn/Wz/weight.weight */
  char* const in2_rnn_Wr_weight_bias = (char*)sensor_param_rnn_Wr_weight_bias; /* f32[16] rnn/Wr/weight.bias */
  char* const in3_rnn_Wr_weight_weight = (char*)sensor_param_rnn_Wr_weight_weight; /* f32[19,16] rnn/Wr/weight.weight */
  char* const in4_rnn_Wh_weight_bias = (char*)sensor_param_rnn_Wh_weight_bias; /* f32[16] rnn/Wh/weight.bias */
  char* const in5_rnn_Wh_weight_weight = (char*)sensor_param_rnn_Wh_weight_weight; /* f32[19,16] rnn/Wh/weight.weight */
  char* const in6_out_weight_bias = (char*)sensor_param_out_weight_bias; /* f32[3] out/weight.bias */
  char* const in7_out_weight_weight = (char*)sensor_param_out_weight_weight; /* f32[16,3] out/weight.weight */
  char* const in8_rnn_h = (char*)sensor_state_rnn_h; /* f32[16] rnn/h */
  char* const in9_relation0_group0_weight = (char*)sensor_trace_relation0_group0_weight; /* f32[1,1,19,16] relation0/group0/weight */
  char* const in10_relation0_group0_bias = (char*)sensor_trace_relation0_group0_bias; /* f32[1,1,16] relation0/group0/bias */
  char* const in11_relation1_group0_weight = (char*)sensor_trace_relation1_group0_weight; /* f32[1,1,19,16] relation1/group0/weight */
  char* const in12_relation1_group0_bias = (char*)sensor_trace_relation1_group0_bias; /* f32[1,1,16] relation1/group0/bias */
  char* const in13_age = (char*)sensor_counter_age; /* i32[] age */
  char* const in14_calls = (char*)sensor_counter_calls; /* i32[] calls */
  char* const in15_optimizer_step = (char*)sensor_optimizer_slot_optimizer_step; /* i32[] optimizer/step */
  char* const in16_sgd_lr = (char*)sensor_hyperparameter_sgd_lr; /* f64[] sgd/lr */
  char* const in17_slice0 = (char*)x; /* f32[3] slice0 */
  char* const in18_slice1 = (char*)target; /* f32[3] slice1 */
  char* const out0_losses = (char*)sensor_last_loss; /* f32[] losses */
  char* const out1_aux0 = (char*)y; /* f32[3] aux0 */
  char* const out18_finite = (char*)finite; /* bool[] finite */
  char* const out19_updated = (char*)finite; /* bool[] updated */
  /* t:f32[19] = concatenate r i    rnn */
  sensor_evolve_loop0_rnn((void*)(in8_rnn_h), (void*)(v1_rnn + 12));
  /* t:f32[19] = concatenate r i    rnn */
  /* ab:f32[19] = concatenate r aa    rnn */
  sensor_evolve_loop1_rnn((void*)(in17_slice0), (void*)(v1_rnn), (void*)(v3_rnn));
  /* u:f32[16] = dot_general t b    rnn.Wz */
  sensor_evolve_loop2_rnn_Wz((void*)(v1_rnn), (void*)(in1_rnn_Wz_weight_weight), (void*)(v5_rnn_Wz));
  /* x:f32[16] = dot_general t d    rnn.Wr */
  sensor_evolve_loop2_rnn_Wz((void*)(v1_rnn), (void*)(in3_rnn_Wr_weight_weight), (void*)(v7_rnn_Wr));
  /* y:f32[16] = add x c    rnn.Wr */
  /* z:f32[16] = logistic y    rnn */
  /* aa:f32[16] = mul z i    rnn */
  /* ab:f32[19] = concatenate r aa    rnn */
  /* cj:bool[16] = is_finite z */
  /* ck:bool[] = reduce_and cj */
  *(uint8_t*)(v8) = 1;
  sensor_learn_loop0_rnn((void*)(v7_rnn_Wr), (void*)(in2_rnn_Wr_weight_bias), (void*)(v8), (void*)(in8_rnn_h), (void*)(v10_rnn), (void*)(v3_rnn + 12));
  /* ac:f32[16] = dot_general ab f    rnn.Wh */
  sensor_evolve_loop2_rnn_Wz((void*)(v3_rnn), (void*)(in5_rnn_Wh_weight_weight), (void*)(v12_rnn_Wh));
  /* v:f32[16] = add u a    rnn.Wz */
  /* w:f32[16] = logistic v    rnn */
  /* ad:f32[16] = add ac e    rnn.Wh */
  /* ae:f32[16] = tanh ad    rnn */
  /* af:f32[16] = sub 1.0 w    rnn */
  /* ag:f32[16] = mul af i    rnn */
  /* ah:f32[16] = mul w ae    rnn */
  /* ai:f32[16] = add ag ah    rnn */
  /* br:bool[16] = is_finite ai */
  /* bs:bool[] = reduce_and br */
  /* bu:bool[16] = is_finite w */
  /* bv:bool[] = reduce_and bu */
  *(uint8_t*)(v13) = 1;
  *(uint8_t*)(v14) = 1;
  sensor_learn_loop1_rnn((void*)(v5_rnn_Wz), (void*)(in0_rnn_Wz_weight_bias), (void*)(v13), (void*)(v12_rnn_Wh), (void*)(in4_rnn_Wh_weight_bias), (void*)(in8_rnn_h), (void*)(v14), (void*)(v17_rnn), (void*)(v18_rnn), (void*)(v19_rnn), (void*)(v20_rnn));
  /* aj:f32[3] = dot_general ai h    out */
  sensor_evolve_loop5_out((void*)(v20_rnn), (void*)(in7_out_weight_weight), (void*)(v22_out));
  /* ak:f32[3] = add aj g    out */
  /* at:f32[3] = sub ak s */
  /* au:f32[3] = square at */
  /* az:f32[3] = mul 2.0 at */
  /* bb:f32[3] = mul 0.3333333432674408 az */
  /* cs:bool[3] = is_finite ak */
  /* ct:bool[] = reduce_and cs */
  *(uint8_t*)(v23) = 1;
  sensor_learn_loop2_out((void*)(v22_out), (void*)(in6_out_weight_bias), (void*)(v23), (void*)(in18_slice1), (void*)(out1_aux0), (void*)(v27), (void*)(v28));
  /* bc:f32[16] = dot_general bb h    out */
  sensor_learn_loop3_out((void*)(v27), (void*)(in7_out_weight_weight), (void*)(v29_out));
  /* al:f32[16] = mul w af    rnn */
  /* am:f32[16] = neg al    rnn */
  /* an:f32[16] = mul am i    rnn */
  /* ao:f32[16] = mul al ae    rnn */
  /* ap:f32[16] = add an ao    rnn */
  /* aq:f32[16] = mul ae ae    rnn */
  /* ar:f32[16] = sub 1.0 aq    rnn */
  /* as:f32[16] = mul w ar    rnn */
  /* bd:f32[16] = mul w bc    rnn */
  /* be:f32[16] = mul bc ae    rnn */
  /* bf:f32[16] = mul bc i    rnn */
  /* bg:f32[16] = neg bf    rnn */
  /* bh:f32[16] = add_any be bg    rnn */
  /* bi:f32[16] = mul bd ar    rnn */
  /* bn:f32[16] = mul bh al    rnn */
  /* bo:f32[16] = mul af bc */
  /* bx:bool[16] = is_finite ap */
  /* by:bool[] = reduce_and bx */
  /* ca:bool[16] = is_finite bo */
  /* cb:bool[] = reduce_and ca */
  /* cd:bool[16] = is_finite bn */
  /* ce:bool[] = reduce_and cd */
  /* cg:bool[16] = is_finite as */
  /* ch:bool[] = reduce_and cg */
  /* cm:bool[16] = is_finite bi */
  /* cn:bool[] = reduce_and cm */
  *(uint8_t*)(v30) = 1;
  *(uint8_t*)(v31) = 1;
  *(uint8_t*)(v32) = 1;
  *(uint8_t*)(v33) = 1;
  *(uint8_t*)(v34) = 1;
  sensor_learn_loop4_rnn((void*)(v17_rnn), (void*)(v19_rnn), (void*)(v29_out), (void*)(v18_rnn), (void*)(in8_rnn_h), (void*)(v30), (void*)(v31), (void*)(v32), (void*)(v33), (void*)(v34), (void*)(v35_rnn), (void*)(v17_rnn), (void*)(v36), (void*)(v18_rnn), (void*)(v37_rnn));
  /* bj:f32[19] = dot_general bi f    rnn.Wh */
  sensor_learn_loop5_rnn_Wh((void*)(v18_rnn), (void*)(in5_rnn_Wh_weight_weight), (void*)(v38_rnn_Wh));
  /* ax:f32[16] = sub 1.0 z    rnn */
  /* ay:f32[16] = mul z ax    rnn */
  /* bl:f32[16] = mul bk i    rnn */
  /* bm:f32[16] = mul bl ay    rnn */
  /* cp:bool[16] = is_finite bm */
  /* cq:bool[] = reduce_and cp */
  *(uint8_t*)(v39) = 1;
  sensor_learn_loop6_rnn((void*)(v10_rnn), (void*)(v38_rnn_Wh + 12), (void*)(in8_rnn_h), (void*)(v39), (void*)(v10_rnn));
  /* gb:f32[] = convert_element_type q */
  sensor_learn_loop7((void*)(in16_sgd_lr), (void*)(v41));
  /* av:f32[] = reduce_sum au */
  /* aw:f32[] = div av 3.0 */
  /* bp:bool[1] = is_finite ba */
  /* bt:bool[] = and bq bs */
  /* bw:bool[] = and bt bv */
  /* bz:bool[] = and bw by */
  /* cc:bool[] = and bz cb */
  /* cf:bool[] = and cc ce */
  /* ci:bool[] = and cf ch */
  /* cl:bool[] = and ci ck */
  /* co:bool[] = and cl cn */
  /* cr:bool[] = and co cq */
  /* cu:bool[] = and cr ct */
  /* cv:bool[] = and cu bs */
  /* fr:i32[] = add n 1.0 */
  /* fs:i32[] = sub fr 536870912.0 */
  /* ft:bool[] = gt fr 1610612736.0 */
  /* fu:i32[] = select_n ft fr fs */
  /* fv:i32[] = add o 1.0 */
  /* fw:i32[] = sub fv 536870912.0 */
  /* fx:bool[] = gt fv 1610612736.0 */
  /* fy:i32[] = select_n fx fv fw */
  /* fz:i32[] = select_n cv n fu */
  /* ga:i32[] = select_n cv o fy */
  /* gc:i32[] = min p 2147483646.0 */
  /* gd:i32[] = add gc 1.0 */
  /* hs:i32[] = select_n cv p gd */
  sensor_learn_loop8((void*)(v28), (void*)(v28 + 4), (void*)(v28 + 8), (void*)(v14), (void*)(v13), (void*)(v31), (void*)(v32), (void*)(v30), (void*)(v34), (void*)(v8), (void*)(v33), (void*)(v39), (void*)(v23), (void*)(in13_age), (void*)(in14_calls), (void*)(in15_optimizer_step), (void*)(v14), (void*)(out18_finite), (void*)(out0_losses));
  /* gi:f32[16] = mul gb bm */
  /* gj:f32[16] = sub c gi */
  /* ha:bool[16] = is_finite gj */
  /* hb:bool[16] = and ha cv */
  /* hc:f32[16] = select_n hb c gj */
  /* hw:bool[] = reduce_and ha */
  *(uint8_t*)(v8) = 1;
  sensor_learn_loop9((void*)(v41), (void*)(v10_rnn), (void*)(in2_rnn_Wr_weight_bias), (void*)(v14), (void*)(v8));
  /* cz:f32[19,16] = dot_general t bm    rnn.Wr */
  /* gk:f32[19,16] = mul gb cz */
  /* gl:f32[19,16] = sub d gk */
  /* hd:bool[19,16] = is_finite gl */
  /* he:bool[19,16] = and hd cv */
  /* hf:f32[19,16] = select_n he d gl */
  /* hy:bool[] = reduce_and hd */
  *(uint8_t*)(v13) = 1;
  sensor_learn_loop10_rnn_Wr((void*)(v1_rnn), (void*)(v10_rnn), (void*)(v41), (void*)(in3_rnn_Wr_weight_weight), (void*)(v14), (void*)(v13));
  /* gq:f32[3] = mul gb bb */
  /* gr:f32[3] = sub g gq */
  /* hm:bool[3] = is_finite gr */
  /* hn:bool[3] = and hm cv */
  /* ho:f32[3] = select_n hn g gr */
  /* ie:bool[] = reduce_and hm */
  *(uint8_t*)(v23) = 1;
  sensor_learn_loop11((void*)(v41), (void*)(v27), (void*)(in6_out_weight_bias), (void*)(v14), (void*)(v23));
  /* cy:f32[16,3] = dot_general ai bb    out */
  /* gs:f32[16,3] = mul gb cy */
  /* gt:f32[16,3] = sub h gs */
  /* hp:bool[16,3] = is_finite gt */
  /* hq:bool[16,3] = and hp cv */
  /* hr:f32[16,3] = select_n hq h gt */
  /* ig:bool[] = reduce_and hp */
  *(uint8_t*)(v31) = 1;
  sensor_learn_loop12_out((void*)(v20_rnn), (void*)(v27), (void*)(v41), (void*)(in7_out_weight_weight), (void*)(v14), (void*)(v31));
  /* ii:f32[16] = select_n cv i ai */
  sensor_evolve_loop8((void*)(v14), (void*)(in8_rnn_h), (void*)(v20_rnn));
  /* dk:f32[1,19,16] = mul dg dj */
  /* do:f32[1,19,16] = fma dn de dk */
  /* dq:f32[1,1,19,16] = select_n cv j dp */
  /* ea:f32[19,16] = fma dy dx dz */
  /* eb:f32[19,16] = fma dv dw ea */
  /* ec:f32[19,16] = select_n cv dz eb */
  /* gg:f32[19,16] = mul gb ec */
  /* gh:f32[19,16] = sub b gg */
  /* gx:bool[19,16] = is_finite gh */
  /* gy:bool[19,16] = and gx cv */
  /* gz:f32[19,16] = select_n gy b gh */
  /* hu:bool[] = reduce_and gx */
  *(uint8_t*)(v32) = 1;
  sensor_learn_loop13((void*)(v1_rnn), (void*)(v35_rnn), (void*)(v36), (void*)(in9_relation0_group0_weight), (void*)(v14), (void*)(v41), (void*)(in1_rnn_Wz_weight_weight), (void*)(v32), (void*)(v17_rnn), (void*)(v19_rnn));
  /* ew:f32[1,19,16] = mul es ev */
  /* ex:f32[1,19,16] = fma dn eq ew */
  /* ez:f32[1,1,19,16] = select_n cv l ey */
  /* ff:f32[19,16] = fma fe fd dz */
  /* fg:f32[19,16] = fma dv fc ff */
  /* fh:f32[19,16] = select_n cv dz fg */
  /* go:f32[19,16] = mul gb fh */
  /* gp:f32[19,16] = sub f go */
  /* hj:bool[19,16] = is_finite gp */
  /* hk:bool[19,16] = and hj cv */
  /* hl:f32[19,16] = select_n hk f gp */
  /* ic:bool[] = reduce_and hj */
  *(uint8_t*)(v30) = 1;
  sensor_learn_loop13((void*)(v3_rnn), (void*)(v18_rnn), (void*)(v36), (void*)(in11_relation1_group0_weight), (void*)(v14), (void*)(v41), (void*)(in5_rnn_Wh_weight_weight), (void*)(v30), (void*)(v37_rnn), (void*)(v19_rnn));
  /* ee:f32[1,16] = fma dm ed di */
  /* eg:f32[1,1,16] = select_n cv k ef */
  /* el:f32[16] = add ej ek */
  /* em:f32[16] = fma eh ei el */
  /* en:f32[16] = select_n cv ek em */
  /* fj:f32[1,16] = fma dm fi eu */
  /* fl:f32[1,1,16] = select_n cv m fk */
  /* fo:f32[16] = add fn ek */
  /* fp:f32[16] = fma eh fm fo */
  /* fq:f32[16] = select_n cv ek fp */
  /* ge:f32[16] = mul gb en */
  /* gf:f32[16] = sub a ge */
  /* gm:f32[16] = mul gb fq */
  /* gn:f32[16] = sub e gm */
  /* gu:bool[16] = is_finite gf */
  /* gv:bool[16] = and gu cv */
  /* gw:f32[16] = select_n gv a gf */
  /* hg:bool[16] = is_finite gn */
  /* hh:bool[16] = and hg cv */
  /* hi:f32[16] = select_n hh e gn */
  /* ht:bool[] = reduce_and gu */
  /* ia:bool[] = reduce_and hg */
  *(uint8_t*)(v34) = 1;
  *(uint8_t*)(v33) = 1;
  sensor_learn_loop14((void*)(v35_rnn), (void*)(v36), (void*)(in10_relation0_group0_bias), (void*)(v14), (void*)(v41), (void*)(in0_rnn_Wz_weight_bias), (void*)(v34), (void*)(v18_rnn), (void*)(in12_relation1_group0_bias), (void*)(in4_rnn_Wh_weight_bias), (void*)(v33), (void*)(v19_rnn), (void*)(v17_rnn), (void*)(v37_rnn));
  /* hv:bool[] = and ht hu */
  /* hx:bool[] = and hv hw */
  /* hz:bool[] = and hx hy */
  /* ib:bool[] = and hz ia */
  /* id:bool[] = and ib ic */
  /* if:bool[] = and id ie */
  /* ih:bool[] = and if ig */
  sensor_learn_loop15((void*)(v34), (void*)(v32), (void*)(v8), (void*)(v13), (void*)(v33), (void*)(v30), (void*)(v23), (void*)(v31), (void*)(out19_updated));
}


static int sensor_rounds_twice(void) {
  static const volatile float a = 1.000244140625f, c = -1.00048828125f; /* 1 + 2^-12, -(1 + 2^-11) */
  const float x = a, z = c;
  const float p = x * x;
  return p + z == 0.0f;
}

int sensor_init(void) {
  __builtin_memset(sensor_param_rnn_Wz_weight_bias, 0, sizeof sensor_param_rnn_Wz_weight_bias);
  __builtin_memcpy(sensor_param_rnn_Wz_weight_weight, sensor_start_param_rnn_Wz_weight_weight, sizeof sensor_param_rnn_Wz_weight_weight);
  __builtin_memset(sensor_param_rnn_Wr_weight_bias, 0, sizeof sensor_param_rnn_Wr_weight_bias);
  __builtin_memcpy(sensor_param_rnn_Wr_weight_weight, sensor_start_param_rnn_Wr_weight_weight, sizeof sensor_param_rnn_Wr_weight_weight);
  __builtin_memset(sensor_param_rnn_Wh_weight_bias, 0, sizeof sensor_param_rnn_Wh_weight_bias);
  __builtin_memcpy(sensor_param_rnn_Wh_weight_weight, sensor_start_param_rnn_Wh_weight_weight, sizeof sensor_param_rnn_Wh_weight_weight);
  __builtin_memset(sensor_param_out_weight_bias, 0, sizeof sensor_param_out_weight_bias);
  __builtin_memcpy(sensor_param_out_weight_weight, sensor_start_param_out_weight_weight, sizeof sensor_param_out_weight_weight);
  __builtin_memset(sensor_state_rnn_h, 0, sizeof sensor_state_rnn_h);
  __builtin_memset(sensor_trace_relation0_group0_weight, 0, sizeof sensor_trace_relation0_group0_weight);
  __builtin_memset(sensor_trace_relation0_group0_bias, 0, sizeof sensor_trace_relation0_group0_bias);
  __builtin_memset(sensor_trace_relation1_group0_weight, 0, sizeof sensor_trace_relation1_group0_weight);
  __builtin_memset(sensor_trace_relation1_group0_bias, 0, sizeof sensor_trace_relation1_group0_bias);
  __builtin_memset(sensor_counter_age, 0, sizeof sensor_counter_age);
  __builtin_memset(sensor_counter_calls, 0, sizeof sensor_counter_calls);
  __builtin_memset(sensor_optimizer_slot_optimizer_step, 0, sizeof sensor_optimizer_slot_optimizer_step);
  __builtin_memcpy(sensor_hyperparameter_sgd_lr, sensor_start_hyperparameter_sgd_lr, sizeof sensor_hyperparameter_sgd_lr);
  sensor_last_loss[0] = 0;
  return sensor_rounds_twice();
}

int sensor_step(const float* x, float* y) {
  uint8_t finite = 0;
  int32_t i;
  for (i = 0; i < 3; ++i)
    if (!etp_is_finite_f32(x[i])) return 0;
  sensor_evolve(x, y, &finite);
  return finite;
}

int sensor_step_target(const float* x, const float* target, float* y) {
  uint8_t finite = 0;
  int32_t i;
  for (i = 0; i < 3; ++i)
    if (!etp_is_finite_f32(x[i])) return 0;
  for (i = 0; i < 3; ++i)
    if (!etp_is_finite_f32(target[i])) return 0;
  sensor_learn(x, target, y, &finite);
  return finite;
}

float sensor_loss(void) { return sensor_last_loss[0]; }
void sensor_set_learning_rate(double rate) { sensor_hyperparameter_sgd_lr[0] = rate; }

const sensor_array sensor_arrays[SENSOR_ARRAYS] = {
    {"param", "rnn/Wz/weight.bias", "f32", sensor_param_rnn_Wz_weight_bias, 16, sizeof sensor_param_rnn_Wz_weight_bias, 0},
    {"param", "rnn/Wz/weight.weight", "f32", sensor_param_rnn_Wz_weight_weight, 304, sizeof sensor_param_rnn_Wz_weight_weight, 0},
    {"param", "rnn/Wr/weight.bias", "f32", sensor_param_rnn_Wr_weight_bias, 16, sizeof sensor_param_rnn_Wr_weight_bias, 0},
    {"param", "rnn/Wr/weight.weight", "f32", sensor_param_rnn_Wr_weight_weight, 304, sizeof sensor_param_rnn_Wr_weight_weight, 0},
    {"param", "rnn/Wh/weight.bias", "f32", sensor_param_rnn_Wh_weight_bias, 16, sizeof sensor_param_rnn_Wh_weight_bias, 0},
    {"param", "rnn/Wh/weight.weight", "f32", sensor_param_rnn_Wh_weight_weight, 304, sizeof sensor_param_rnn_Wh_weight_weight, 0},
    {"param", "out/weight.bias", "f32", sensor_param_out_weight_bias, 3, sizeof sensor_param_out_weight_bias, 0},
    {"param", "out/weight.weight", "f32", sensor_param_out_weight_weight, 48, sizeof sensor_param_out_weight_weight, 0},
    {"state", "rnn/h", "f32", sensor_state_rnn_h, 16, sizeof sensor_state_rnn_h, 0},
    {"trace", "relation0/group0/weight", "f32", sensor_trace_relation0_group0_weight, 304, sizeof sensor_trace_relation0_group0_weight, 0},
    {"trace", "relation0/group0/bias", "f32", sensor_trace_relation0_group0_bias, 16, sizeof sensor_trace_relation0_group0_bias, 0},
    {"trace", "relation1/group0/weight", "f32", sensor_trace_relation1_group0_weight, 304, sizeof sensor_trace_relation1_group0_weight, 0},
    {"trace", "relation1/group0/bias", "f32", sensor_trace_relation1_group0_bias, 16, sizeof sensor_trace_relation1_group0_bias, 0},
    {"counter", "age", "i32", sensor_counter_age, 1, sizeof sensor_counter_age, 0},
    {"counter", "calls", "i32", sensor_counter_calls, 1, sizeof sensor_counter_calls, 0},
    {"optimizer_slot", "optimizer/step", "i32", sensor_optimizer_slot_optimizer_step, 1, sizeof sensor_optimizer_slot_optimizer_step, 0},
    {"hyperparameter", "sgd/lr", "f64", sensor_hyperparameter_sgd_lr, 1, sizeof sensor_hyperparameter_sgd_lr, 0},
};

static int sensor_same(const char* a, const char* b) {
  while (*a != 0 && *a == *b) ++a, ++b;
  return *a == *b;
}
const sensor_array* sensor_find(const char* role, const char* path) {
  int32_t i;
  for (i = 0; i < SENSOR_ARRAYS; ++i)
    if (sensor_same(sensor_arrays[i].role, role) && sensor_same(sensor_arrays[i].path, path)) return &sensor_arrays[i];
  return 0;
}
