/* What stands before the other headers in code for compilers that nothing is known of but C99. */
#ifndef ETP_STANDARD_H
#define ETP_STANDARD_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#define ETP_FN static inline

/* Of POSIX, not of C99: without the global sign of lgamma(). */
double lgamma_r(double, int*);
float lgammaf_r(float, int*);

#endif /* ETP_STANDARD_H */
