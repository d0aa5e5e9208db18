/* Positions of an emitted loop as parts for threads: f(p, lo, hi) for each stretch [lo, hi) of [0, size). */
#ifndef ETP_PARTS_H
#define ETP_PARTS_H

#include <stdint.h>

typedef struct {
  void (*f)(char* const* p, int64_t lo, int64_t hi);
  char* const* p;
  int64_t size, parts;
} etp_split;
static void etp_part(void* data, int64_t part) {
  const etp_split* s = (const etp_split*)data;
  s->f(s->p, s->size * part / s->parts, s->size * (part + 1) / s->parts);
}

#endif /* ETP_PARTS_H */
