/* Elementary functions for the interpreter and for emitted C, scalar (etp_exp_f32) and array (etp_vexp_f32).
 * exp, exp2, expm1, log, log1p, tanh, logistic and erf_inv are our own: no branch, no table, no division
 * where a few FMAs do, so that a plain loop over them vectorises, and every FMA is spelled out, so that a
 * lane of a vector and a lone scalar give the same bits (compile with -ffp-contract=off, never with
 * -ffast-math). The idea throughout: e^x = 2^k e^r, k = round(x / ln 2), |r| <= ln2 / 2, and log x = k ln 2 +
 * log(1 + f). Start at etp_exp_f32; the f64 functions repeat the f32 ones with longer polynomials. sin and
 * cos are in etp_trig.h; the rest calls libm. */
#ifndef ETP_MATH_H
#define ETP_MATH_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/etp_trig.h"

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

/* ---- the rest: libm ----
 * Compilers know these functions by name: they write x * x for pow(x, 2), and numbers of their own where
 * arguments are constants, with other bits than the library gives for an argument of the same value. So it is
 * called by pointers that no compiler looks through. */
#ifndef ETP_CALL /* a device has its own way */
#ifdef __cplusplus
#define ETP_DECLARED(function)
#else
#define ETP_DECLARED(function) function; /* not everybody has <math.h> */
#endif
#ifdef __GNUC__
#define ETP_CALL(T, f, types, ...) \
  ETP_DECLARED(T f types)          \
  T(*call) types = f;              \
  __asm__("" : "+r"(call));        \
  return call(__VA_ARGS__);
#else
#define ETP_CALL(T, f, types, ...) \
  ETP_DECLARED(T f types)          \
  T(*volatile call) types = f;     \
  return call(__VA_ARGS__);
#endif
#define ETP_UNKNOWN(x) x
#endif

#define ETP_LIBM(name, f, T, S) \
  ETP_FN T etp_##name##_##S(T x) { ETP_CALL(T, f, (T), ETP_UNKNOWN(x)) }
#define ETP_LIBM_OF_TWO(name, f, T, S) \
  ETP_FN T etp_##name##_##S(T x, T y) { ETP_CALL(T, f, (T, T), ETP_UNKNOWN(x), ETP_UNKNOWN(y)) }
#define ETP_BOTH(form, name, g) form(name, g##f, float, f32) form(name, g, double, f64)
ETP_BOTH(ETP_LIBM, tan, tan)
ETP_BOTH(ETP_LIBM, asin, asin)
ETP_BOTH(ETP_LIBM, acos, acos)
ETP_BOTH(ETP_LIBM, atan, atan)
ETP_BOTH(ETP_LIBM, sinh, sinh)
ETP_BOTH(ETP_LIBM, cosh, cosh)
ETP_BOTH(ETP_LIBM, asinh, asinh)
ETP_BOTH(ETP_LIBM, acosh, acosh)
ETP_BOTH(ETP_LIBM, atanh, atanh)
ETP_BOTH(ETP_LIBM, erf, erf)
ETP_BOTH(ETP_LIBM, erfc, erfc)
ETP_BOTH(ETP_LIBM, cbrt, cbrt)
ETP_BOTH(ETP_LIBM_OF_TWO, atan2, atan2)
ETP_BOTH(ETP_LIBM_OF_TWO, other_pow, pow)
#undef ETP_BOTH
#undef ETP_LIBM
#undef ETP_LIBM_OF_TWO

/* Powers that are one operation, rounded once, are that for every exponent of the value, known or not: so a
 * compiler that knows it has them for nothing. The root of -0 is -0, that of -inf none, and their powers are
 * 0 and inf. */
#define ETP_POW(T, S, F)                                                                   \
  ETP_FN T etp_pow_##S(T x, T y) {                                                         \
    if (__builtin_rint##F(y * (T)2) == y * (T)2 && __builtin_fabs##F(y) <= (T)2) {         \
      if (y == (T)2) return x * x;                                                         \
      if (y == (T)1) return x;                                                             \
      if (y == (T)0) return (T)1;                                                          \
      if (y == (T)-1) return (T)1 / x;                                                     \
      if (y == (T)0.5) return x == -__builtin_inf##F() ? -x : __builtin_sqrt##F(x) + (T)0; \
    }                                                                                      \
    return etp_other_pow_##S(x, y);                                                        \
  }
ETP_POW(float, f32, f)
ETP_POW(double, f64, )
#undef ETP_POW

/* log |Gamma(x)|. The _r form: plain lgamma writes the global signgam, a race between threads. */
ETP_FN float etp_lgamma_f32(float x) {
  int sign;
  ETP_CALL(float, lgammaf_r, (float, int*), ETP_UNKNOWN(x), &sign)
}
ETP_FN double etp_lgamma_f64(double x) {
  int sign;
  ETP_CALL(double, lgamma_r, (double, int*), ETP_UNKNOWN(x), &sign)
}

/* Roots have one right result, whoever computes them. */
ETP_FN float etp_sqrt_f32(float x) { return __builtin_sqrtf(x); }
ETP_FN double etp_sqrt_f64(double x) { return __builtin_sqrt(x); }
ETP_FN float etp_rsqrt_f32(float x) { return 1.0f / __builtin_sqrtf(x); }
ETP_FN double etp_rsqrt_f64(double x) { return 1.0 / __builtin_sqrt(x); }

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

/* psi(x) = d/dx log Gamma(x): reflection for x <= -1/2, the recurrence up to 10, then the asymptotic series.
 * At the pole 0 the limit from the side of its sign, at the others NaN. */
ETP_FN double etp_digamma_f64(double x) {
  double y = 0.0;
  if (x < 0.0 && __builtin_floor(x) == x) return __builtin_nan("");
  if (x <= -0.5) {
    double r = x - __builtin_rint(x); /* tan(pi x) from what is exact */
    y = -3.14159265358979323846 / etp_tan_f64(3.14159265358979323846 * r);
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
  return y + (etp_log_f64(x) - 0.5 / x - z * p);
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

/* Stochastic rounding: up with the probability that says what is cut off, so that sums in 16 bits are right
 * on average (to nearest, a trace that decays slowly stops). What decides is a hash of the number, of its
 * place in the array and of a key that changes from time to time: the same bits wherever and by however many
 * it is computed. Infinite from half a unit beyond the largest number on, as to nearest. */
ETP_FN uint32_t etp_decided(float x, uint32_t key, uint32_t place) {
  uint32_t h = etp_bits_f32(x) ^ (key + place);
  return (h ^ h >> 15) * 0x846ca68bu; /* its high bits are good */
}

ETP_FN uint16_t etp_f32_to_bf16_at(float x, uint32_t key, uint32_t place) {
  uint32_t u = etp_bits_f32(x), size = u & 0x7fffffffu;
  uint32_t up = size < 0x7f7f0000u ? etp_decided(x, key, place) >> 16 : 0x8000u;
  uint32_t rounded = (u + up) >> 16, nan = (u >> 16) | 0x40u;
  return (uint16_t)(size > 0x7f800000u ? nan : rounded);
}

/* Below 2^-14, numbers are multiples of 2^-24. */
ETP_FN uint16_t etp_f32_to_f16_at(float x, uint32_t key, uint32_t place) {
  uint32_t b = etp_bits_f32(x), sign = (b >> 16) & 0x8000u, u = b & 0x7fffffffu;
  uint32_t up = etp_decided(x, key, place);
  uint32_t normal = (u - (112u << 23) + (up >> 19)) >> 13;
  uint32_t small = u < (113u << 23) ? u : 0u;
  uint32_t subnormal = ((uint32_t)(int32_t)(etp_from_bits_f32(small) * 0x1p40f) + (up >> 16)) >> 16;
  uint32_t nan = 0x7e00u | ((u >> 13) & 0x3ffu);
  uint32_t largest = u < 0x477ff000u ? 0x7bffu : 0x7c00u;
  uint32_t h = u < (113u << 23) ? subnormal : normal;
  h = u < 0x477fe000u ? h : largest;
  return (uint16_t)(sign | (u > 0x7f800000u ? nan : h));
}

#ifndef ETP_SCALARS_ALONE
/* ---- arrays: y[i] = f(x[i]), y == x allowed, otherwise no overlap ----
 * The innermost loops have 16 steps, a constant, so that gcc vectorises them at -O2 too. A tail of less than
 * 16 is computed as the last 16 elements, first and into a buffer, since y may be x. gcc prefers 256-bit
 * vectors on most AVX-512 machines, which halves the rate here and is what the attribute is for (and inlining
 * would drop it); clang takes -mprefer-vector-width=512 from the command line. */
#if defined(__AVX512F__) && defined(__GNUC__) && !defined(__clang__)
#define ETP_WIDE static __attribute__((noinline, unused, target("prefer-vector-width=512")))
#else
#define ETP_WIDE static __attribute__((noinline, unused))
#endif

/* y == x is no dependence between different elements: say so, or gcc declines. */
#if defined(__clang__)
#define ETP_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define ETP_INDEPENDENT _Pragma("GCC ivdep")
#endif

#define ETP_ARRAY(name, T, S, BLOCKS)                                   \
  ETP_WIDE void etp_v##name##_##S(ptrdiff_t n, const T* x, T* y) {      \
    T last[16] = {0};                                                   \
    ptrdiff_t whole = n & ~(ptrdiff_t)15;                               \
    if (n > whole) {                                                    \
      if (n >= 16)                                                      \
        __builtin_memcpy(last, x + n - 16, sizeof last);                \
      else                                                              \
        __builtin_memcpy(last, x, (size_t)n * sizeof(T));               \
      for (int j = 0; j < 16; j++) last[j] = etp_##name##_##S(last[j]); \
    }                                                                   \
    BLOCKS(name, T, S)                                                  \
    if (n > whole) {                                                    \
      if (n >= 16)                                                      \
        __builtin_memcpy(y + n - 16, last, sizeof last);                \
      else                                                              \
        __builtin_memcpy(y, last, (size_t)n * sizeof(T));               \
    }                                                                   \
  }

#define ETP_ONE_LOOP(name, T, S)                                                        \
  for (ptrdiff_t i = 0; i < whole; i += 16) {                                           \
    ETP_INDEPENDENT for (int j = 0; j < 16; j++) y[i + j] = etp_##name##_##S(x[i + j]); \
  }

#define ETP_TWO_LOOPS(name, T, S)                                                \
  for (ptrdiff_t i0 = 0; i0 < whole; i0 += 256) {                                \
    T e[256];                                                                    \
    ptrdiff_t m = whole - i0 < 256 ? whole - i0 : 256;                           \
    for (ptrdiff_t i = 0; i < m; i += 16) {                                      \
      for (int j = 0; j < 16; j++) e[i + j] = etp_##name##_e_##S(x[i0 + i + j]); \
    }                                                                            \
    for (ptrdiff_t i = 0; i < m; i += 16) {                                      \
      ETP_INDEPENDENT for (int j = 0; j < 16; j++) y[i0 + i + j] =               \
          etp_##name##_q_##S(x[i0 + i + j], e[i + j]);                           \
    }                                                                            \
  }

#define ETP_ARRAYS(name, BLOCKS)      \
  ETP_ARRAY(name, float, f32, BLOCKS) \
  ETP_ARRAY(name, double, f64, BLOCKS)
ETP_ARRAYS(exp, ETP_ONE_LOOP)
ETP_ARRAYS(exp2, ETP_ONE_LOOP)
ETP_ARRAYS(expm1, ETP_ONE_LOOP)
ETP_ARRAYS(log, ETP_ONE_LOOP)
ETP_ARRAYS(log1p, ETP_ONE_LOOP)
ETP_ARRAYS(tanh, ETP_TWO_LOOPS)
ETP_ARRAYS(logistic, ETP_TWO_LOOPS)
#undef ETP_ARRAYS
#undef ETP_TWO_LOOPS
#undef ETP_ONE_LOOP
#undef ETP_ARRAY
#endif /* ETP_SCALARS_ALONE */

#endif /* ETP_MATH_H */
