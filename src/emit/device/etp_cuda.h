/* What stands before the other headers in emitted CUDA C++: the names of C that a runtime compiler without
 * any headers does not know, and kernels. The same text is C++ for a CPU once somebody has defined ETP_KERNEL
 * and the names of a grid (blockIdx, threadIdx, __syncthreads …): so it is run where there is no device.
 *
 * A kernel takes pointers alone: p.at[0], p.at[1] … Sizes are constants of the text. */
#ifndef ETP_CUDA_H
#define ETP_CUDA_H

template <int N>
struct etp_pointers {
  char* at[N];
};

#ifdef __CUDACC__

typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef long ptrdiff_t;
#define INT32_MIN (-2147483647 - 1)
#define INT32_MAX 2147483647
#define UINT32_MAX 4294967295u
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT64_MAX 9223372036854775807ll
#define INT64_C(x) x##ll
#define UINT64_C(x) x##ull

#define ETP_FN static __device__ __forceinline__
#define ETP_FAR static __device__ __noinline__
#define ETP_DEVICE __device__ __forceinline__
#define ETP_KERNEL(name, pointers, threads) \
  extern "C" __global__ void __launch_bounds__(threads) name(const etp_pointers<pointers> p)

/* Functions of the device under the names that the headers call. */
#define __builtin_memcpy memcpy
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)
#define __builtin_fma fma
#define __builtin_fmaf fmaf
#define __builtin_fabs fabs
#define __builtin_fabsf fabsf
#define __builtin_floor floor
#define __builtin_floorf floorf
#define __builtin_ceil ceil
#define __builtin_ceilf ceilf
#define __builtin_rint rint
#define __builtin_rintf rintf
#define __builtin_round round
#define __builtin_roundf roundf
#define __builtin_fmod fmod
#define __builtin_fmodf fmodf
#define __builtin_nextafter nextafter
#define __builtin_nextafterf nextafterf
#define __builtin_copysign copysign
#define __builtin_copysignf copysignf
#define __builtin_sqrt sqrt
#define __builtin_sqrtf sqrtf
#define __builtin_sin sin
#define __builtin_sinf sinf
#define __builtin_cos cos
#define __builtin_cosf cosf
/* Functions of the library are made of approximate instructions. Of a constant, they are the device's, too.
 */
ETP_FN float etp_unknown(float x) {
  asm("" : "+f"(x));
  return x;
}
ETP_FN double etp_unknown(double x) {
  asm("" : "+d"(x));
  return x;
}
#define ETP_UNKNOWN(x) etp_unknown(x)
#define ETP_CALL(T, f, types, ...) return f(__VA_ARGS__);
#define lgamma_r(x, sign) lgamma(x)
#define lgammaf_r(x, sign) lgammaf(x)

#else /* on a CPU */
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#define ETP_FN static inline __attribute__((unused))
#define ETP_DEVICE inline
#endif

#define ETP_SCALARS_ALONE /* of the headers that follow: no loops over arrays */

#endif /* ETP_CUDA_H */
