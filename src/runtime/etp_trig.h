/* sin and cos of our own, so that they have the same bits on every machine: x = k·π/2 + r with |r| <= π/4,
 * and a polynomial of r for each quarter. Below 2^20 the multiple is subtracted in parts of π/2; beyond that
 * the fraction of x·2/π is cut out of the bits of 2/π. Errors are below 1 ulp. Start at etp_sin_f64. */
#ifndef ETP_TRIG_H
#define ETP_TRIG_H

#include <stdint.h>

#ifndef ETP_FN
#define ETP_FN static inline __attribute__((always_inline, unused))
#endif
#ifndef ETP_FAR /* what is seldom called */
#define ETP_FAR static __attribute__((noinline, unused))
#endif

#define ETP_PIO2_1 0x1.921fb54442d18p+0 /* π/2 is their sum */
#define ETP_PIO2_2 0x1.1a62633145c07p-54
#define ETP_PIO2_3 -0x1.f1976b7ed8fbcp-110
#define ETP_TRIG_ROUND 6755399441055744.0 /* 1.5·2^52 */
#define ETP_TRIG_NEAR 1048576.0

typedef struct etp_angle {
  double r, rest; /* the angle is their sum */
  uint32_t quarter;
} etp_angle;

ETP_FN uint64_t etp_trig_bits(double x) {
  uint64_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  return u;
}
ETP_FN double etp_trig_number(uint64_t u) {
  double x;
  __builtin_memcpy(&x, &u, sizeof x);
  return x;
}

/* 32 bits of a long number, from the given one up. */
ETP_FN uint64_t etp_trig_word(const uint32_t* q, int32_t bit) {
  const uint64_t both = (uint64_t)q[bit / 32 + 1] << 32 | q[bit / 32];
  return (uint32_t)(both >> (bit % 32));
}

/* |x| = m·2^e >= 2^20. Of 2/π, words whose product with x is a multiple of 4 are left out, and of the rest
 * seven are enough: what is cut off is below 2^-138. */
ETP_FAR etp_angle etp_far_angle(double x) {
  static const uint32_t two_over_pi[37] = {
      0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
      0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu, 0xb129a73eu, 0xe88235f5u, 0x2ebb4484u,
      0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u, 0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu,
      0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu, 0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu,
      0x3d0739f7u, 0x8a5292eau, 0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u};
  const uint64_t u = etp_trig_bits(x), m = (u & 0xfffffffffffffu) | (uint64_t)1 << 52;
  const int32_t e = (int32_t)(u >> 52 & 0x7ff) - 1075, first = e < 2 ? 0 : (e - 2) / 32;
  const int32_t point = 32 * (first + 7) - e; /* bits of the product behind the point */
  uint32_t q[11] = {0};
  uint64_t high, low, carry;
  etp_angle out;
  double f, g, p, scale;
  int32_t i, j, n = 0;
  for (j = 0; j < 2; ++j) {
    const uint64_t half = j == 0 ? (uint32_t)m : m >> 32;
    carry = 0;
    for (i = 0; i < 7; ++i) {
      carry += half * two_over_pi[first + 6 - i] + q[i + j];
      q[i + j] = (uint32_t)carry;
      carry >>= 32;
    }
    q[7 + j] = (uint32_t)carry;
  }
  out.quarter = (uint32_t)etp_trig_word(q, point) & 3u;
  high = etp_trig_word(q, point - 32) << 32 | etp_trig_word(q, point - 64);
  low = etp_trig_word(q, point - 96) << 32 | etp_trig_word(q, point - 128);
  if (high >> 63 != 0) { /* above a half: the next quarter, and what is missing to it */
    ++out.quarter;
    low = 0 - low;
    high = ~high + (low == 0);
    j = 1;
  } else {
    j = 0;
  }
  for (; high >> 63 == 0; ++n) {
    high = high << 1 | low >> 63;
    low <<= 1;
  }
  scale = etp_trig_number((uint64_t)(1023 - 53 - n) << 52);
  f = (double)(high >> 11) * scale;
  g = (double)((high & 0x7ff) << 42 | low >> 22) * scale * 0x1p-53;
  if (j != 0) f = -f, g = -g;
  p = f * ETP_PIO2_1;
  g = __builtin_fma(f, ETP_PIO2_1, -p) + (f * ETP_PIO2_2 + g * ETP_PIO2_1);
  out.r = p + g;
  out.rest = g - (out.r - p);
  if (x < 0.0) {
    out.r = -out.r, out.rest = -out.rest;
    out.quarter = 0 - out.quarter;
  }
  return out;
}

ETP_FN etp_angle etp_near_angle(double x) {
  const double shifted = __builtin_fma(x, 0x1.45f306dc9c883p-1, ETP_TRIG_ROUND), k = shifted - ETP_TRIG_ROUND;
  const double first = __builtin_fma(-k, ETP_PIO2_1, x); /* exact */
  const double second = k * ETP_PIO2_2, r = first - second, back = r - first;
  const double lost = (first - (r - back)) - (second + back); /* by the difference, exactly */
  etp_angle out;
  out.r = r;
  out.rest = lost - __builtin_fma(k, ETP_PIO2_3, __builtin_fma(k, ETP_PIO2_2, -second));
  out.quarter = (uint32_t)etp_trig_bits(shifted);
  return out;
}

ETP_FN double etp_sin_part_f64(double r, double rest) {
  const double z = r * r;
  double p = 0x1.952c77030ad4ap-49;
  p = __builtin_fma(p, z, -0x1.ae7f3e733b81fp-41);
  p = __builtin_fma(p, z, 0x1.6124613a86d09p-33);
  p = __builtin_fma(p, z, -0x1.ae64567f544e4p-26);
  p = __builtin_fma(p, z, 0x1.71de3a556c734p-19);
  p = __builtin_fma(p, z, -0x1.a01a01a01a01ap-13);
  p = __builtin_fma(p, z, 0x1.1111111111111p-7);
  p = __builtin_fma(p, z, -0x1.5555555555555p-3);
  return r + __builtin_fma(r * z, p, __builtin_fma(-0.5 * z, rest, rest));
}
ETP_FN double etp_cos_part_f64(double r, double rest) {
  const double z = r * r, lost = __builtin_fma(r, r, -z), half = 0.5 * z, w = 1.0 - half;
  double p = 0x1.ae7f3e733b81fp-45;
  p = __builtin_fma(p, z, -0x1.93974a8c07c9dp-37);
  p = __builtin_fma(p, z, 0x1.1eed8eff8d898p-29);
  p = __builtin_fma(p, z, -0x1.27e4fb7789f5cp-22);
  p = __builtin_fma(p, z, 0x1.a01a01a01a01ap-16);
  p = __builtin_fma(p, z, -0x1.6c16c16c16c17p-10);
  p = __builtin_fma(p, z, 0x1.5555555555555p-5);
  return w + (((1.0 - w) - half) + __builtin_fma(z * z, p, __builtin_fma(-0.5, lost, -(r * rest))));
}
/* sin of the angle, `turn` quarters on. */
ETP_FN double etp_turned_f64(double x, uint32_t turn) {
  const etp_angle a = __builtin_fabs(x) < ETP_TRIG_NEAR ? etp_near_angle(x) : etp_far_angle(x);
  const uint32_t quarter = a.quarter + turn;
  const double y = (quarter & 1u) != 0 ? etp_cos_part_f64(a.r, a.rest) : etp_sin_part_f64(a.r, a.rest);
  return (quarter & 2u) != 0 ? -y : y;
}
ETP_FN double etp_sin_f64(double x) {
  const double size = __builtin_fabs(x);
  if (!(size < __builtin_inf())) return x - x;
  return size < 0x1p-27 ? x : etp_turned_f64(x, 0);
}
ETP_FN double etp_cos_f64(double x) {
  return __builtin_fabs(x) < __builtin_inf() ? etp_turned_f64(x, 1) : x - x;
}

/* f32: the angle in double, without fused products (32 bits of π/2 times k are exact), polynomials in float.
 */
ETP_FN etp_angle etp_near_angle_f32(float x) {
  const double shifted = (double)x * 0x1.45f306dc9c883p-1 + ETP_TRIG_ROUND, k = shifted - ETP_TRIG_ROUND;
  etp_angle out;
  out.r = ((double)x - k * 0x1.921fb544p+0) - k * 0x1.0b4611a626331p-34;
  out.rest = 0.0;
  out.quarter = (uint32_t)etp_trig_bits(shifted);
  return out;
}
ETP_FN float etp_sin_part_f32(float r, float rest) {
  const float z = r * r;
  float p = 0x1.71de3ap-19f;
  p = __builtin_fmaf(p, z, -0x1.a01a02p-13f);
  p = __builtin_fmaf(p, z, 0x1.111112p-7f);
  p = __builtin_fmaf(p, z, -0x1.555556p-3f);
  return r + __builtin_fmaf(r * z, p, rest);
}
ETP_FN float etp_cos_part_f32(float r, float rest) {
  const float z = r * r, lost = __builtin_fmaf(r, r, -z), half = 0.5f * z, w = 1.0f - half;
  float p = -0x1.27e4fcp-22f;
  p = __builtin_fmaf(p, z, 0x1.a01a02p-16f);
  p = __builtin_fmaf(p, z, -0x1.6c16c2p-10f);
  p = __builtin_fmaf(p, z, 0x1.555556p-5f);
  return w + (((1.0f - w) - half) + __builtin_fmaf(z * z, p, __builtin_fmaf(-0.5f, lost, -(r * rest))));
}
ETP_FN float etp_turned_f32(float x, uint32_t turn) {
  const etp_angle a =
      __builtin_fabsf(x) < (float)ETP_TRIG_NEAR ? etp_near_angle_f32(x) : etp_far_angle((double)x);
  const uint32_t quarter = a.quarter + turn;
  const float r = (float)a.r, rest = (float)(a.r - (double)r);
  const float y = (quarter & 1u) != 0 ? etp_cos_part_f32(r, rest) : etp_sin_part_f32(r, rest);
  return (quarter & 2u) != 0 ? -y : y;
}
ETP_FN float etp_sin_f32(float x) {
  const float size = __builtin_fabsf(x);
  if (!(size < __builtin_inff())) return x - x;
  return size < 0x1p-13f ? x : etp_turned_f32(x, 0);
}
ETP_FN float etp_cos_f32(float x) {
  return __builtin_fabsf(x) < __builtin_inff() ? etp_turned_f32(x, 1) : x - x;
}

#endif /* ETP_TRIG_H */
