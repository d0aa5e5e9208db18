/* Random numbers one by one, for emitted code: the same words as the arrays of etp_rng.h. */
#ifndef ETP_DRAW_H
#define ETP_DRAW_H

#include "runtime/etp_rng.h"

/* Word i of the array with the key (k0, k1). */
ETP_FN uint32_t etp_random_word(uint32_t k0, uint32_t k1, int64_t i) {
  uint32_t x0 = (uint32_t)((uint64_t)i >> 32), x1 = (uint32_t)i;
  etp_threefry2x32(k0, k1, &x0, &x1);
  return x0 ^ x1;
}

/* Word `which` (0 or 1) of key i made from the key (k0, k1). */
ETP_FN uint32_t etp_random_key(uint32_t k0, uint32_t k1, int64_t i, int64_t which) {
  uint32_t x0 = (uint32_t)((uint64_t)i >> 32), x1 = (uint32_t)i;
  etp_threefry2x32(k0, k1, &x0, &x1);
  return which == 0 ? x0 : x1;
}

#endif /* ETP_DRAW_H */
