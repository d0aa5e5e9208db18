/* Threefry-2x32, 20 rounds (Salmon et al. 2011): a pair of 32-bit words from a key and a counter, no state.
 * The same bits as JAX's threefry2x32 with jax_threefry_partitionable: word i of an array is
 *   x0 ^ x1,  (x0, x1) = threefry(key, (hi32(i), lo32(i))),
 * so any part of an array can be filled alone, in any order and by any thread. Start at etp_random_bits_u32.
 */
#ifndef ETP_RNG_H
#define ETP_RNG_H

#include <stddef.h>
#include <stdint.h>

#ifndef ETP_FN
#define ETP_FN static inline __attribute__((always_inline, unused))
#endif

#define ETP_THREEFRY_ROUND(r) \
  a += b;                     \
  b = ((b << (r)) | (b >> (32 - (r)))) ^ a;

/* Encrypts the counter (*x0, *x1) in place under the key (k0, k1). */
ETP_FN void etp_threefry2x32(uint32_t k0, uint32_t k1, uint32_t* x0, uint32_t* x1) {
  const uint32_t k2 = k0 ^ k1 ^ 0x1bd11bdau;
  uint32_t a = *x0 + k0, b = *x1 + k1;
  ETP_THREEFRY_ROUND(13)
  ETP_THREEFRY_ROUND(15) ETP_THREEFRY_ROUND(26) ETP_THREEFRY_ROUND(6) a += k1, b += k2 + 1u;
  ETP_THREEFRY_ROUND(17)
  ETP_THREEFRY_ROUND(29) ETP_THREEFRY_ROUND(16) ETP_THREEFRY_ROUND(24) a += k2, b += k0 + 2u;
  ETP_THREEFRY_ROUND(13)
  ETP_THREEFRY_ROUND(15) ETP_THREEFRY_ROUND(26) ETP_THREEFRY_ROUND(6) a += k0, b += k1 + 3u;
  ETP_THREEFRY_ROUND(17)
  ETP_THREEFRY_ROUND(29) ETP_THREEFRY_ROUND(16) ETP_THREEFRY_ROUND(24) a += k1, b += k2 + 4u;
  ETP_THREEFRY_ROUND(13) ETP_THREEFRY_ROUND(15) ETP_THREEFRY_ROUND(26) ETP_THREEFRY_ROUND(6)* x0 = a + k2;
  *x1 = b + k0 + 5u;
}

#ifndef ETP_SCALARS_ALONE
/* out[j] = word first + j of the array with this key. */
static inline __attribute__((unused)) void etp_random_bits_u32(uint32_t k0, uint32_t k1, uint64_t first,
                                                               ptrdiff_t n, uint32_t* out) {
  for (ptrdiff_t j = 0; j < n; j++) {
    uint64_t i = first + (uint64_t)j;
    uint32_t x0 = (uint32_t)(i >> 32), x1 = (uint32_t)i;
    etp_threefry2x32(k0, k1, &x0, &x1);
    out[j] = x0 ^ x1;
  }
}

/* The same for 64-bit words: both halves are used, x0 is the high one. */
static inline __attribute__((unused)) void etp_random_bits_u64(uint32_t k0, uint32_t k1, uint64_t first,
                                                               ptrdiff_t n, uint64_t* out) {
  for (ptrdiff_t j = 0; j < n; j++) {
    uint64_t i = first + (uint64_t)j;
    uint32_t x0 = (uint32_t)(i >> 32), x1 = (uint32_t)i;
    etp_threefry2x32(k0, k1, &x0, &x1);
    out[j] = (uint64_t)x0 << 32 | x1;
  }
}
#endif /* ETP_SCALARS_ALONE */

#undef ETP_THREEFRY_ROUND

#endif /* ETP_RNG_H */
