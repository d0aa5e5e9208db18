/* Matrix product C = A B, or C += A B, in f32 and f64, for any M, N, K and any element strides of A and B.
 *
 * Invariant: every element is one chain of fused multiply-adds in the order of k,
 *   C[m,n] = fma(A[m,K-1], B[K-1,n], ... fma(A[m,1], B[1,n], fma(A[m,0], B[0,n], c)) ...),  c = 0 or C[m,n],
 * whatever tile, block, vector width or part of C it falls in. So the bits equal those of the naive loop, and
 * a thread pool may cut C into any rectangles (never K). (Without hardware FMA: round after the product too.)
 * Start at the end, etp_gemm_f32; the work is in the kernel, R rows by V vectors of C held in registers. */
#ifndef ETP_GEMM_H
#define ETP_GEMM_H

#include <stddef.h>
#include <stdint.h>

/* ---- vectors ----
 * Width and the number of vectors in a tile row by instruction set: 6 x 4 accumulators need 32 registers,
 * 6 x 2 make do with 16. The FMA is spelled by builtins (gcc has no generic one for vector types): no header
 * to parse in emitted code, and no dependence on -ffp-contract. */
#if defined(__AVX512F__)
#define ETP_VBYTES 64
#define ETP_TILE_V 4
#define ETP_VFMA_f32(a, b, c) __builtin_ia32_vfmaddps512_mask(a, b, c, (unsigned short)-1, 4)
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

#define ETP_GEMM_FN static inline __attribute__((always_inline, unused))

/* etp_v_*: a vector in a register. etp_vu_*: the same in memory, at any address. */
typedef float etp_v_f32 __attribute__((vector_size(ETP_VBYTES)));
typedef float etp_vu_f32 __attribute__((vector_size(ETP_VBYTES), aligned(4), may_alias));
typedef double etp_v_f64 __attribute__((vector_size(ETP_VBYTES)));
typedef double etp_vu_f64 __attribute__((vector_size(ETP_VBYTES), aligned(8), may_alias));

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

/* The first n lanes only, the others 0 (load) or left alone (store). */
#if defined(__AVX512F__)
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
#define ETP_SOME(T, S)                                                                    \
  ETP_GEMM_FN etp_v_##S etp_load_some_##S(const T* p, ptrdiff_t n) {                      \
    etp_v_##S v = {0};                                                                    \
    for (int i = 0; i < (int)(ETP_VBYTES / sizeof(T)); i++) v[i] = i < n ? p[i] : 0;      \
    return v;                                                                             \
  }                                                                                       \
  ETP_GEMM_FN void etp_store_some_##S(T* p, etp_v_##S v, ptrdiff_t n) {                   \
    for (int i = 0; i < (int)(ETP_VBYTES / sizeof(T)); i++)                               \
      if (i < n) p[i] = v[i];                                                             \
  }
ETP_SOME(float, f32)
ETP_SOME(double, f64)
#undef ETP_SOME
#endif

/* ---- transposing a square of lanes in registers ----
 * log2(lanes) rounds of butterflies: round d exchanges, between rows i and i + d, the lanes that differ in
 * bit d. ETP_LO and ETP_HI are the lane numbers that the two rows take from the pair (a, b). */
#define ETP_LO(l, d, n) (((l) & (d)) ? (l) - (d) + (n) : (l))
#define ETP_HI(l, d, n) (((l) & (d)) ? (l) + (n) : (l) + (d))
#define ETP_LANES2(F, d, n, o) F((o), d, n), F((o) + 1, d, n)
#define ETP_LANES4(F, d, n, o) ETP_LANES2(F, d, n, o), ETP_LANES2(F, d, n, (o) + 2)
#define ETP_LANES8(F, d, n, o) ETP_LANES4(F, d, n, o), ETP_LANES4(F, d, n, (o) + 4)
#define ETP_LANES16(F, d, n, o) ETP_LANES8(F, d, n, o), ETP_LANES8(F, d, n, (o) + 8)
#define ETP_ROUND(V, n, LANES, d)                                           \
  for (int i = 0; i < n; i++)                                               \
    if (!(i & d)) {                                                         \
      V a = v[i], b = v[i + d];                                             \
      v[i] = __builtin_shufflevector(a, b, LANES(ETP_LO, d, n, 0));         \
      v[i + d] = __builtin_shufflevector(a, b, LANES(ETP_HI, d, n, 0));     \
    }
