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

#endif /* ETP_STANDARD_H */
