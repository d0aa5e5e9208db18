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
