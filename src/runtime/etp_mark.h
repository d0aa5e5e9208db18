/* etp_mark: the sign bit is set iff x is not finite, since exponents of ones only overflow into it. */
#ifndef ETP_MARK_H
#define ETP_MARK_H

#include <stdint.h>

#ifndef ETP_FN
#define ETP_FN static inline __attribute__((always_inline, unused))
#endif

ETP_FN uint32_t etp_mark_f32(float x) {
  uint32_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  return (u & 0x7f800000u) + 0x00800000u;
}
ETP_FN uint64_t etp_mark_f64(double x) {
  uint64_t u;
  __builtin_memcpy(&u, &x, sizeof u);
  return (u & 0x7ff0000000000000u) + 0x0010000000000000u;
}

#endif /* ETP_MARK_H */
