/* How emitted code shares its work among threads. */
#ifndef ETP_PARTS_H
#define ETP_PARTS_H

#include "kernels/etp_abi.h"

/* Positions of a loop as parts: f(p, lo, hi) for each stretch [lo, hi) of [0, size). */
typedef struct {
  void (*f)(char* const* p, int64_t lo, int64_t hi);
  char* const* p;
  int64_t size, parts;
} etp_split;
static inline void etp_part(void* data, int64_t part) {
  const etp_split* s = (const etp_split*)data;
  s->f(s->p, s->size * part / s->parts, s->size * (part + 1) / s->parts);
}

/* A whole loop over time by rows: each part has rows of its own at all times, and nobody waits in between. */
typedef struct {
  const etp_run* run;
  int64_t rows, parts;
} etp_row_split;
/* 1 where that leaves too many threads without work: then they share every step. */
static inline int64_t etp_row_parts(int64_t threads, int64_t rows, int64_t most) {
  const int64_t parts = threads < rows ? threads : rows;
  return 2 * rows < threads ? 1 : parts < most ? parts : most;
}
static inline void etp_share_rows(const etp_run* run, void (*f)(void* data, int64_t part), int64_t rows,
                                  int64_t parts) {
  etp_row_split split = {run, rows, parts};
  run->context->parallel(run->context->pool, parts, f, &split);
}
/* For kernels that a part calls. */
static inline etp_context etp_alone(const etp_context* x) {
  etp_context alone = *x;
  alone.threads = 1;
  return alone;
}

#endif /* ETP_PARTS_H */
