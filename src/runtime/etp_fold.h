/* The order in which the elements of a line are joined, by whoever joins them: a line goes by blocks; element
 * i of a block belongs to lane i % ETP_FOLD_LANES; a lane is a chain that begins with the neutral element;
 * lanes are joined by halves, and blocks, one after the other, onto what was joined before. So vectors of any
 * width give the same bits. What is a line, and in which order lines are joined, ops/reduce_order.h says. */
#ifndef ETP_FOLD_H
#define ETP_FOLD_H

#include <stdint.h>

#ifndef ETP_FN
#define ETP_FN static inline __attribute__((always_inline, unused))
#endif

#define ETP_FOLD_LANES 16
#define ETP_FOLD_BLOCK 4096

/* Of elements T that are joined as A by JOIN(a, b):
 *   NAME_add   n elements onto the lanes, from a multiple of ETP_FOLD_LANES of the block on
 *   NAME_end   the lanes of a block as one */
#define ETP_FOLD(NAME, T, A, JOIN)                                                       \
  ETP_FN void NAME##_add(A* __restrict lane, const T* __restrict x, int64_t n) {         \
    int64_t i = 0;                                                                       \
    for (; i + ETP_FOLD_LANES <= n; i += ETP_FOLD_LANES)                                 \
      for (int64_t k = 0; k < ETP_FOLD_LANES; ++k) lane[k] = JOIN(lane[k], (A)x[i + k]); \
    for (int64_t k = 0; i < n; ++i, ++k) lane[k] = JOIN(lane[k], (A)x[i]);               \
  }                                                                                      \
  ETP_FN A NAME##_end(A* lane) {                                                         \
    for (int64_t w = ETP_FOLD_LANES / 2; w > 0; w /= 2)                                  \
      for (int64_t k = 0; k < w; ++k) lane[k] = JOIN(lane[k], lane[k + w]);              \
    return lane[0];                                                                      \
  }

#endif /* ETP_FOLD_H */
