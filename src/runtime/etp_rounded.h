/* ETP_ROUNDED(x): x, rounded before it is used. gcc 12 fuses products with sums and differences that stand
 * side by side (vfmaddsub), whatever -ffp-contract says. It does not look through this, and vectors and speed
 * stay as they are. */
#ifndef ETP_ROUNDED_H
#define ETP_ROUNDED_H

#if defined(__has_builtin)
#if __has_builtin(__builtin_assoc_barrier)
#define ETP_ROUNDED(x) __builtin_assoc_barrier(x)
#endif
#endif
#ifndef ETP_ROUNDED
#define ETP_ROUNDED(x) (x)
#endif

#endif /* ETP_ROUNDED_H */
