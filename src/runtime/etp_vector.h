/* Vectors of the machine, for kernels in C: loads and stores at any address, fused multiply-adds.
 *
 * Width and the number of vectors in a tile row by instruction set: 6 x 4 accumulators need 32 registers,
 * 6 x 2 make do with 16. The FMA is spelled by builtins (gcc has no generic one for vector types): no header
 * to parse in emitted code, and no dependence on -ffp-contract. */
#ifndef ETP_VECTOR_H
#define ETP_VECTOR_H

#include <stddef.h>
#include <stdint.h>

#if defined(__AVX512F__)
#define ETP_VBYTES 64
#define ETP_TILE_V 4
#if defined(__clang__) /* gcc declares this one mask signed */
#define ETP_MASK16 unsigned short
#else
#define ETP_MASK16 short
#endif
#define ETP_VFMA_f32(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, (ETP_MASK16)-1, 4)
#define ETP_VFMA_f64(a, b, c) __builtin_ia32_vfmaddpd512_mask(a, b, c, (unsigned char)-1, 4)
#elif defined(__AVX__) && defined(__FMA__)
#define ETP_VBYTES 32
#define ETP_TILE_V 2
#define ETP_VFMA_f32(a, b, c) __builtin_ia32_vfmaddps256(a, b, c)
#define ETP_VFMA_f64(a, b, c) __builtin_ia32_vfmaddpd256(a, b, c)
#elif defined(__aarch64__)
#define ETP_VBYTES 16
#define ETP_TILE_V 4
#define ETP_VFMA_f32(a, b, c) etp_vfma_f32(a, b, c)
#define ETP_VFMA_f64(a, b, c) etp_vfma_f64(a, b, c)
#else
#define ETP_VBYTES 16
#define ETP_TILE_V 2
#define ETP_VFMA_f32(a, b, c) ((a) * (b) + (c))
#define ETP_VFMA_f64(a, b, c) ((a) * (b) + (c))
#endif
#define ETP_TILE_R 6

#if defined(__clang__)
#define ETP_UNROLL _Pragma("clang loop unroll(full)")
#define ETP_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define ETP_UNROLL _Pragma("GCC unroll 16")
#define ETP_ROLLED
#endif
/* Hides where a pointer came from: otherwise gcc computes the addresses of all rows of a tile beforehand and
 * spills them, which costs more than a short tile's arithmetic. */
#define ETP_OPAQUE(p) __asm__("" : "+r"(p))
#define ETP_GEMM_FN static inline __attribute__((always_inline, unused))

/* etp_v_*: a vector in a register. etp_vu_*: the same in memory, at any address. */
typedef float etp_v_f32 __attribute__((vector_size(ETP_VBYTES)));
typedef float etp_vu_f32 __attribute__((vector_size(ETP_VBYTES), aligned(4), may_alias));
typedef double etp_v_f64 __attribute__((vector_size(ETP_VBYTES)));
typedef double etp_vu_f64 __attribute__((vector_size(ETP_VBYTES), aligned(8), may_alias));

#define ETP_WIDTH(T) ((ptrdiff_t)(ETP_VBYTES / sizeof(T))) /* lanes of a vector */
ETP_GEMM_FN etp_v_f32 etp_load_f32(const float* p) { return *(const etp_vu_f32*)p; }
ETP_GEMM_FN etp_v_f64 etp_load_f64(const double* p) { return *(const etp_vu_f64*)p; }
ETP_GEMM_FN void etp_store_f32(float* p, etp_v_f32 v) { *(etp_vu_f32*)p = v; }
ETP_GEMM_FN void etp_store_f64(double* p, etp_v_f64 v) { *(etp_vu_f64*)p = v; }

#if defined(__aarch64__)
ETP_GEMM_FN etp_v_f32 etp_vfma_f32(etp_v_f32 a, etp_v_f32 b, etp_v_f32 c) {
  for (int i = 0; i < 4; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
ETP_GEMM_FN etp_v_f64 etp_vfma_f64(etp_v_f64 a, etp_v_f64 b, etp_v_f64 c) {
  for (int i = 0; i < 2; i++) c[i] = __builtin_fma(a[i], b[i], c[i]);
  return c;
}
#endif

/* The first n lanes only, the others 0 (load) or left alone (store). ETP_MASKS: in one instruction, else the
 * loads are kept out of the inner loop by packing. */
#if defined(__AVX512F__)
#define ETP_MASKS 1
ETP_GEMM_FN etp_v_f32 etp_load_some_f32(const float* p, ptrdiff_t n) {
  return __builtin_ia32_loadups512_mask(p, (etp_v_f32){0}, (unsigned short)((1u << n) - 1u));
}
ETP_GEMM_FN etp_v_f64 etp_load_some_f64(const double* p, ptrdiff_t n) {
  return __builtin_ia32_loadupd512_mask(p, (etp_v_f64){0}, (unsigned char)((1u << n) - 1u));
}
ETP_GEMM_FN void etp_store_some_f32(float* p, etp_v_f32 v, ptrdiff_t n) {
  __builtin_ia32_storeups512_mask(p, v, (unsigned short)((1u << n) - 1u));
}
ETP_GEMM_FN void etp_store_some_f64(double* p, etp_v_f64 v, ptrdiff_t n) {
  __builtin_ia32_storeupd512_mask(p, v, (unsigned char)((1u << n) - 1u));
}
#else
#define ETP_MASKS 0
#define ETP_SOME(T, S)                                                  \
  ETP_GEMM_FN etp_v_##S etp_load_some_##S(const T* p, ptrdiff_t n) {    \
    etp_v_##S v = {0};                                                  \
    __builtin_memcpy(&v, p, (size_t)n * sizeof(T));                     \
    return v;                                                           \
  }                                                                     \
  ETP_GEMM_FN void etp_store_some_##S(T* p, etp_v_##S v, ptrdiff_t n) { \
    __builtin_memcpy(p, &v, (size_t)n * sizeof(T));                     \
  }
ETP_SOME(float, f32)
ETP_SOME(double, f64)
#undef ETP_SOME
#endif

#endif /* ETP_VECTOR_H */
