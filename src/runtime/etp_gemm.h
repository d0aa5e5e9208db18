/* Matrix product C = A B, or C += A B, in f32 and f64, for any M, N, K and any element strides of A and B.
 *
 * Invariant: every element is one chain of fused multiply-adds in the order of k,
 *   C[m,n] = fma(A[m,K-1], B[K-1,n], ... fma(A[m,1], B[1,n], fma(A[m,0], B[0,n], c)) ...) + 0,  c = 0 or
 * C[m,n], (the last 0 makes a -0 a 0: then terms with A[m,k] = 0 can be left out without a trace, if B is
 * finite), whatever tile, block, vector width or part of C it falls in. So the bits equal those of the naive
 * loop, and a thread pool may cut C into any rectangles (never K). (Without hardware FMA: round after the
 * product too.) Start at the end, etp_gemm_f32; the work is in the kernel, R rows by V vectors of C held in
 * registers. */
#ifndef ETP_GEMM_H
#define ETP_GEMM_H

#include <stddef.h>
#include <stdint.h>

#include "runtime/etp_vector.h"

/* ---- transposing a square of lanes in registers ----
 * log2(lanes) rounds of butterflies: round d exchanges, between rows i and i + d, the lanes that differ in
 * bit d. ETP_LO and ETP_HI are the lane numbers that the two rows take from the pair (a, b). */
#define ETP_LO(l, d, n) (((l) & (d)) ? (l) - (d) + (n) : (l))
#define ETP_HI(l, d, n) (((l) & (d)) ? (l) + (n) : (l) + (d))
#define ETP_LANES2(F, d, n, o) F((o), d, n), F((o) + 1, d, n)
#define ETP_LANES4(F, d, n, o) ETP_LANES2(F, d, n, o), ETP_LANES2(F, d, n, (o) + 2)
#define ETP_LANES8(F, d, n, o) ETP_LANES4(F, d, n, o), ETP_LANES4(F, d, n, (o) + 4)
#define ETP_LANES16(F, d, n, o) ETP_LANES8(F, d, n, o), ETP_LANES8(F, d, n, (o) + 8)
#define ETP_BUTTERFLY(V, n, LANES, d)                                     \
  ETP_UNROLL for (int i = 0; i < n; i++) {                                \
    if (!(i & d)) {                                                       \
      V lo = v[i], hi = v[i + d];                                         \
      v[i] = __builtin_shufflevector(lo, hi, LANES(ETP_LO, d, n, 0));     \
      v[i + d] = __builtin_shufflevector(lo, hi, LANES(ETP_HI, d, n, 0)); \
    }                                                                     \
  }
#define ETP_TRANSPOSE2(V, v) ETP_BUTTERFLY(V, 2, ETP_LANES2, 1)
#define ETP_TRANSPOSE4(V, v) ETP_BUTTERFLY(V, 4, ETP_LANES4, 1) ETP_BUTTERFLY(V, 4, ETP_LANES4, 2)
#define ETP_TRANSPOSE8(V, v) \
  ETP_BUTTERFLY(V, 8, ETP_LANES8, 1) ETP_BUTTERFLY(V, 8, ETP_LANES8, 2) ETP_BUTTERFLY(V, 8, ETP_LANES8, 4)
#define ETP_TRANSPOSE16(V, v)          \
  ETP_BUTTERFLY(V, 16, ETP_LANES16, 1) \
  ETP_BUTTERFLY(V, 16, ETP_LANES16, 2) \
  ETP_BUTTERFLY(V, 16, ETP_LANES16, 4) ETP_BUTTERFLY(V, 16, ETP_LANES16, 8)

#if ETP_VBYTES == 64
#define ETP_TRANSPOSE_f32 ETP_TRANSPOSE16
#define ETP_TRANSPOSE_f64 ETP_TRANSPOSE8
#elif ETP_VBYTES == 32
#define ETP_TRANSPOSE_f32 ETP_TRANSPOSE8
#define ETP_TRANSPOSE_f64 ETP_TRANSPOSE4
#else
#define ETP_TRANSPOSE_f32 ETP_TRANSPOSE4
#define ETP_TRANSPOSE_f64 ETP_TRANSPOSE2
#endif

/* ---- blocking ----
 * A panel of B, K_BLOCK rows of one tile width, streams from L2 while each of its rows serves ETP_TILE_R rows
 * of C; a block of A, M_BLOCK x K_BLOCK, lies beside it. Where K is small, as many panels as fit L1 (B_BYTES)
 * are taken side by side, so that C is passed in the order of its rows. A B of FAR_BYTES or more comes from
 * afar: the next panel is fetched, a row of it every AHEAD steps, and packed while this one is at work.
 * Copying ("packing") costs a pass: it pays for B when PACK_ROWS rows of C or more read it in unaligned rows
 * or PACK_BYTES apart, for a transposed A when K exceeds PACK_K. None of these numbers can change a result.
 */
#define ETP_K_BLOCK 512
#define ETP_M_BLOCK 192
#define ETP_PACK_ROWS 24
#define ETP_PACK_BYTES 2048
#define ETP_PACK_K 64
#define ETP_B_BYTES (32 * 1024)
#define ETP_AHEAD 16
#define ETP_FAR_BYTES (4 << 20)

/* flags of etp_gemm_scratch: which operand has no unit stride along its rows */
#define ETP_GEMM_TA 1 /* acs != 1 */
#define ETP_GEMM_TB 2 /* bcs != 1 */

/* The next piece of n, in the least number of pieces of at most `most`, all nearly equal. */
ETP_GEMM_FN ptrdiff_t etp_share(ptrdiff_t n, ptrdiff_t most) {
  ptrdiff_t pieces = (n + most - 1) / most;
  return (n + pieces - 1) / pieces;
}

#define ETP_GEMM_TILE_COLUMN(T, S, V) \
  ETP_GEMM_TILE(T, S, 1, V)           \
  ETP_GEMM_TILE(T, S, 2, V)           \
  ETP_GEMM_TILE(T, S, 3, V)           \
  ETP_GEMM_TILE(T, S, 4, V) ETP_GEMM_TILE(T, S, 5, V) ETP_GEMM_TILE(T, S, 6, V)
#define ETP_GEMM_TILE_NAMES(S, V)                                                       \
  {                                                                                     \
    etp_gemm_tile_1x##V##_##S, etp_gemm_tile_2x##V##_##S, etp_gemm_tile_3x##V##_##S,    \
        etp_gemm_tile_4x##V##_##S, etp_gemm_tile_5x##V##_##S, etp_gemm_tile_6x##V##_##S \
  }
#if ETP_TILE_V == 4
#define ETP_GEMM_TILES(T, S)    \
  ETP_GEMM_TILE_COLUMN(T, S, 1) \
  ETP_GEMM_TILE_COLUMN(T, S, 2) ETP_GEMM_TILE_COLUMN(T, S, 3) ETP_GEMM_TILE_COLUMN(T, S, 4)
#define ETP_GEMM_TILE_TABLE(S)                                                       \
  {                                                                                  \
    ETP_GEMM_TILE_NAMES(S, 1), ETP_GEMM_TILE_NAMES(S, 2), ETP_GEMM_TILE_NAMES(S, 3), \
        ETP_GEMM_TILE_NAMES(S, 4)                                                    \
  }
#else
#define ETP_GEMM_TILES(T, S) ETP_GEMM_TILE_COLUMN(T, S, 1) ETP_GEMM_TILE_COLUMN(T, S, 2)
#define ETP_GEMM_TILE_TABLE(S) \
  { ETP_GEMM_TILE_NAMES(S, 1), ETP_GEMM_TILE_NAMES(S, 2) }
#endif

/* How a chain ends. */
#define ETP_NO_MINUS_0(S, v) ((v) + (etp_v_##S){0})

/* One k: all of c += a column of A times a row of B. */
#define ETP_GEMM_STEP(S, R, V)                                                                        \
  {                                                                                                   \
    ETP_UNROLL for (int j = 0; j < V; j++) {                                                          \
      b[j] = j < V - 1 || !ETP_MASKS ? etp_load_##S(B + j * L) : etp_load_some_##S(B + j * L, lanes); \
    }                                                                                                 \
    ETP_UNROLL for (int r = 0; r < R; r++) {                                                          \
      etp_v_##S a = A[r * ars] - (etp_v_##S){0}; /* broadcast; exact, also for -0 */                  \
      ETP_UNROLL for (int j = 0; j < V; j++) c[r][j] = ETP_VFMA_##S(a, b[j], c[r][j]);                \
    }                                                                                                 \
    A += acs;                                                                                         \
    B += ldb;                                                                                         \
  }

/* R rows by V vectors: both are constants, so that everything unrolls and c lives in registers. They are so
 * from the beginning, not after inlining: clang would unroll the loops of the unknown R and V first, and then
 * leave c in memory. Each size is a function of its own: inlined side by side they lose registers to whatever
 * the compiler keeps alive around them. */
#define ETP_GEMM_TILE(T, S, R, V)                                                                            \
  static __attribute__((noinline, unused)) void etp_gemm_tile_##R##x##V##_##S(const etp_gemm_tile_##S* t) {  \
    const ptrdiff_t L = ETP_WIDTH(T);                                                                        \
    const ptrdiff_t K = t->K, lanes = t->lanes, ars = t->ars, acs = t->acs, ldb = t->ldb, ldc = t->ldc;      \
    const ptrdiff_t ahead_step = t->ahead_step, pace = ETP_AHEAD / V;                                        \
    const T *A = t->A, *B = t->B, *next = t->next, *ahead = t->ahead;                                        \
    T* C = t->C;                                                                                             \
    etp_v_##S c[ETP_TILE_R][8], b[8];                                                                        \
    if (t->accumulate) {                                                                                     \
      ETP_UNROLL for (int r = 0; r < R; r++) {                                                               \
        ETP_UNROLL for (int j = 0; j < V; j++) {                                                             \
          c[r][j] = j < V - 1 ? etp_load_##S(C + j * L) : etp_load_some_##S(C + j * L, lanes);               \
        }                                                                                                    \
        C += ldc;                                                                                            \
        ETP_OPAQUE(C);                                                                                       \
      }                                                                                                      \
    } else {                                                                                                 \
      ETP_UNROLL for (int r = 0; r < R; r++) {                                                               \
        ETP_UNROLL for (int j = 0; j < V; j++) c[r][j] = (etp_v_##S){0};                                     \
      }                                                                                                      \
    }                                                                                                        \
    ptrdiff_t k = K;                                                                                         \
    if (R > 1 && K >= R * ((V + 1) / 2)) { /* not all at once: a core waits for ten lines or so at a time */ \
      ETP_ROLLED for (int row = 0; row < R; row++) {                                                         \
        ETP_UNROLL for (int i = 0; i < V; i += 2) {                                                          \
          __builtin_prefetch(next + i * L, 1);                                                               \
          if (i + 1 < V) __builtin_prefetch(next + (i + 1) * L, 1);                                          \
          ETP_GEMM_STEP(S, R, V)                                                                             \
        }                                                                                                    \
        next += ldc;                                                                                         \
      }                                                                                                      \
      k -= R * ((V + 1) / 2);                                                                                \
    }                                                                                                        \
    for (; ahead && k >= pace * V; k -= pace * V) {                                                          \
      ETP_ROLLED for (int i = 0; i < V; i++) {                                                               \
        __builtin_prefetch(ahead + i * L, 0, 2);                                                             \
        ETP_ROLLED for (int step = 0; step < pace; step++) ETP_GEMM_STEP(S, R, V)                            \
      }                                                                                                      \
      ahead += ahead_step;                                                                                   \
    }                                                                                                        \
    ETP_ROLLED for (; k > 0; k--) ETP_GEMM_STEP(S, R, V);                                                    \
    C = t->C;                                                                                                \
    ETP_UNROLL for (int r = 0; r < R; r++) {                                                                 \
      ETP_UNROLL for (int j = 0; j < V - 1; j++) etp_store_##S(C + j * L, ETP_NO_MINUS_0(S, c[r][j]));       \
      etp_store_some_##S(C + (V - 1) * L, ETP_NO_MINUS_0(S, c[r][V - 1]), lanes);                            \
      C += ldc;                                                                                              \
      ETP_OPAQUE(C);                                                                                         \
    }                                                                                                        \
  }

#define ETP_GEMM_KERNEL(T, S)                                                                   \
  /* One tile of C and what it needs. lanes: how many of its last vector are inside C. */       \
  typedef struct {                                                                              \
    ptrdiff_t K, lanes;                                                                         \
    const T* A;                                                                                 \
    ptrdiff_t ars, acs;                                                                         \
    const T* B;                                                                                 \
    ptrdiff_t ldb;                                                                              \
    T* C;                                                                                       \
    ptrdiff_t ldc;                                                                              \
    int accumulate;                                                                             \
    const T* next;  /* the tile of C that comes next, to be fetched meanwhile */                \
    const T* ahead; /* rows, as wide as the tile, of what is needed after this tile; or NULL */ \
    ptrdiff_t ahead_step;                                                                       \
  } etp_gemm_tile_##S;                                                                          \
                                                                                                \
  ETP_GEMM_TILES(T, S)                                                                          \
  ETP_GEMM_TILE(T, S, 1, 8)

#define ETP_GEMM_PACK(T, S)                                                                                  \
  /* dst[tile][k][row in tile] from A. A transposed A is read along its rows, 32 at a time: all of a row     \
   * first would write to as many places as there are tiles, one tile first would read as many pages as      \
   * there are k. */                                                                                         \
  static inline void etp_gemm_pack_a_##S(ptrdiff_t M, ptrdiff_t K, const T* A, ptrdiff_t ars, ptrdiff_t acs, \
                                         T* dst) {                                                           \
    ptrdiff_t tiles = (M + ETP_TILE_R - 1) / ETP_TILE_R, low = M / tiles, high = M % tiles;                  \
    for (ptrdiff_t k0 = 0; k0 < K; k0 += 32) {                                                               \
      ptrdiff_t k1 = k0 + 32 < K ? k0 + 32 : K;                                                              \
      for (ptrdiff_t i = 0, m = 0, r; i < tiles; i++, m += r) {                                              \
        const T* a = A + m * ars;                                                                            \
        T* d = dst + m * K;                                                                                  \
        r = low + (i < high);                                                                                \
        if (ars == 1 && r == 6) {                                                                            \
          for (ptrdiff_t k = k0; k < k1; k++) __builtin_memcpy(d + k * 6, a + k * acs, 6 * sizeof(T));       \
        } else if (ars == 1 && r == 5) {                                                                     \
          for (ptrdiff_t k = k0; k < k1; k++) __builtin_memcpy(d + k * 5, a + k * acs, 5 * sizeof(T));       \
        } else {                                                                                             \
          for (ptrdiff_t k = k0; k < k1; k++)                                                                \
            for (ptrdiff_t q = 0; q < r; q++) d[k * r + q] = a[q * ars + k * acs];                           \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
  }                                                                                                          \
  /* N columns of B, of K rows, and where they shall be packed. */                                           \
  typedef struct {                                                                                           \
    const T* B;                                                                                              \
    ptrdiff_t N, K, brs, bcs;                                                                                \
    T* to;                                                                                                   \
  } etp_gemm_columns_##S;                                                                                    \
  /* The vectors of the next panel of N columns, and in *width its columns. */                               \
  ETP_GEMM_FN ptrdiff_t etp_panel_##S(ptrdiff_t N, ptrdiff_t* width) {                                       \
    ptrdiff_t v = etp_share((N + ETP_WIDTH(T) - 1) / ETP_WIDTH(T), ETP_TILE_V);                              \
    *width = N < v * ETP_WIDTH(T) ? N : v * ETP_WIDTH(T);                                                    \
    return v;                                                                                                \
  }                                                                                                          \
  /* dst[k][n], rows of ld, from N columns of B; the last vector of a row is filled up with zeros. */        \
  static inline void etp_gemm_pack_panel_##S(ptrdiff_t N, ptrdiff_t K, const T* B, ptrdiff_t brs,            \
                                             ptrdiff_t bcs, T* dst, ptrdiff_t ld) {                          \
    const ptrdiff_t L = ETP_WIDTH(T);                                                                        \
    if (bcs == 1) {                                                                                          \
      ptrdiff_t whole = N / L * L;                                                                           \
      for (ptrdiff_t k = 0; k < K; k++, B += brs, dst += ld) {                                               \
        for (ptrdiff_t n = 0; n < whole; n += L) etp_store_##S(dst + n, etp_load_##S(B + n));                \
        if (whole < N) etp_store_##S(dst + whole, etp_load_some_##S(B + whole, N - whole));                  \
      }                                                                                                      \
      return;                                                                                                \
    }                                                                                                        \
    for (ptrdiff_t n = 0; n < N; n += L) {                                                                   \
      ptrdiff_t nn = N - n < L ? N - n : L, k = 0;                                                           \
      const T* b = B + n * bcs;                                                                              \
      T* d = dst + n;                                                                                        \
      if (brs == 1) {                                                                                        \
        etp_v_##S v[ETP_WIDTH(T)];                                                                           \
        if (nn == L) {                                                                                       \
          for (; k + L <= K; k += L) {                                                                       \
            ETP_UNROLL for (int i = 0; i < L; i++) v[i] = etp_load_##S(b + i * bcs + k);                     \
            ETP_TRANSPOSE_##S(etp_v_##S, v);                                                                 \
            ETP_UNROLL for (int i = 0; i < L; i++) etp_store_##S(d + (k + i) * ld, v[i]);                    \
          }                                                                                                  \
        }                                                                                                    \
        for (; k < K; k += L) {                                                                              \
          ptrdiff_t rows = K - k < L ? K - k : L;                                                            \
          for (int i = 0; i < L; i++) v[i] = (etp_v_##S){0};                                                 \
          for (int i = 0; i < nn; i++) v[i] = etp_load_some_##S(b + i * bcs + k, rows);                      \
          ETP_TRANSPOSE_##S(etp_v_##S, v);                                                                   \
          for (int i = 0; i < rows; i++) etp_store_##S(d + (k + i) * ld, v[i]);                              \
        }                                                                                                    \
      } else {                                                                                               \
        for (; k < K; k++)                                                                                   \
          for (ptrdiff_t i = 0; i < L; i++) d[k * ld + i] = i < nn ? b[k * brs + i * bcs] : 0;               \
      }                                                                                                      \
    }                                                                                                        \
  }                                                                                                          \
  /* Rows [k0, k1) of the panels of N columns of B; the panels, of K rows, one after the other. */           \
  static inline void etp_gemm_pack_b_##S(const etp_gemm_columns_##S* c, ptrdiff_t k0, ptrdiff_t k1) {        \
    for (ptrdiff_t n = 0, w; n < c->N; n += w) {                                                             \
      ptrdiff_t ld = etp_panel_##S(c->N - n, &w) * ETP_WIDTH(T);                                             \
      etp_gemm_pack_panel_##S(w, k1 - k0, c->B + n * c->bcs + k0 * c->brs, c->brs, c->bcs,                   \
                              c->to + n * c->K + k0 * ld, ld);                                               \
    }                                                                                                        \
  }

#define ETP_GEMM_DRIVER(T, S)                                                                                \
  /* How many of N columns of B, K high, are taken at once for M rows of C: those that fit L1, but at least  \
   * a panel. */                                                                                             \
  ETP_GEMM_FN ptrdiff_t etp_columns_##S(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K) {                             \
    const ptrdiff_t W = ETP_TILE_V * ETP_WIDTH(T);                                                           \
    ptrdiff_t w, fit = ETP_B_BYTES / (ptrdiff_t)sizeof(T) / K / W * W;                                       \
    if (N <= 0) return 0;                                                                                    \
    etp_panel_##S(N, &w);                                                                                    \
    if (M > ETP_TILE_R && w < fit) w = fit;                                                                  \
    return w < N ? w : N;                                                                                    \
  }                                                                                                          \
                                                                                                             \
  /* M rows by N columns of C, tile by tile, row after row of tiles. packed_a, packed_b: in the layouts of   \
   * pack_a and pack_b. later: columns to be packed meanwhile, a share after each row of tiles, which has    \
   * fetched them; or NULL. */                                                                               \
  static inline void etp_gemm_tiles_##S(ptrdiff_t M, ptrdiff_t N, etp_gemm_tile_##S t, int packed_a,         \
                                        int packed_b, const etp_gemm_columns_##S* later) {                   \
    static void (*const tile[ETP_TILE_V][ETP_TILE_R])(const etp_gemm_tile_##S*) = ETP_GEMM_TILE_TABLE(S);    \
    const ptrdiff_t L = ETP_WIDTH(T), ldb = t.ldb, step = packed_a ? t.K : t.ars;                            \
    const T *A = t.A, *B = t.B;                                                                              \
    T* C = t.C;                                                                                              \
    /* ceil(M / 6) tiles of nearly equal height: one of 1 or 2 rows would starve the FMA units */            \
    ptrdiff_t tiles = (M + ETP_TILE_R - 1) / ETP_TILE_R, low = M / tiles, high = M % tiles;                  \
    ptrdiff_t share = (t.K / tiles / L + 1) * L, k0 = 0;                                                     \
    for (ptrdiff_t i = 0, m = 0, r; i < tiles; i++, m += r) {                                                \
      const int fetch = later && k0 < t.K;                                                                   \
      r = low + (i < high);                                                                                  \
      t.A = A + m * step;                                                                                    \
      if (packed_a) t.ars = 1;                                                                               \
      if (packed_a) t.acs = r;                                                                               \
      t.ahead = fetch ? later->B + k0 * later->brs : NULL;                                                   \
      t.ahead_step = fetch ? later->brs : 0;                                                                 \
      for (ptrdiff_t n = 0, w; n < N; n += w) {                                                              \
        ptrdiff_t v = etp_panel_##S(N - n, &w);                                                              \
        t.lanes = w - (v - 1) * L;                                                                           \
        t.B = packed_b ? B + n * t.K : B + n;                                                                \
        t.ldb = packed_b ? v * L : ldb;                                                                      \
        t.C = C + m * t.ldc + n;                                                                             \
        t.next = n + w < N ? t.C + w : C + (m + r) * t.ldc;                                                  \
        tile[v - 1][r - 1](&t);                                                                              \
      }                                                                                                      \
      if (later && k0 < t.K) {                                                                               \
        ptrdiff_t k1 = k0 + share < t.K ? k0 + share : t.K;                                                  \
        etp_gemm_pack_b_##S(later, k0, k1);                                                                  \
        k0 = k1;                                                                                             \
      }                                                                                                      \
    }                                                                                                        \
  }                                                                                                          \
                                                                                                             \
  /* Bytes for packed columns of B: all of them if they are taken at once, else those at work and the next.  \
   */                                                                                                        \
  static inline ptrdiff_t etp_gemm_b_bytes_##S(ptrdiff_t N, ptrdiff_t K) {                                   \
    const ptrdiff_t W = ETP_TILE_V * ETP_WIDTH(T), row = (N + W - 1) / W * ETP_TILE_V * ETP_VBYTES;          \
    ptrdiff_t k = K < ETP_K_BLOCK ? K : ETP_K_BLOCK, panel = k * ETP_TILE_V * ETP_VBYTES;                    \
    ptrdiff_t most = panel < ETP_B_BYTES ? ETP_B_BYTES : panel;                                              \
    return k * row <= most ? k * row : 2 * most;                                                             \
  }                                                                                                          \
                                                                                                             \
  /* Bytes of scratch that etp_gemm, or etp_gemm_part, of a product of this size may use. */                 \
  static inline size_t etp_gemm_scratch_##S(ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, int flags) {              \
    ptrdiff_t k = K < ETP_K_BLOCK ? K : ETP_K_BLOCK, m = M < ETP_M_BLOCK ? M : ETP_M_BLOCK;                  \
    ptrdiff_t size = etp_gemm_b_bytes_##S(N, K);                                                             \
    if (flags & ETP_GEMM_TA) size += m * k * (ptrdiff_t)sizeof(T);                                           \
    return M > 0 && N > 0 && K > 0 ? (size_t)size : 0;                                                       \
  }                                                                                                          \
  /* C of few k: row by row, without tiles. b_1 ... b_K lie in the first cache, and C is written once. */    \
  ETP_GEMM_FN void etp_gemm_flat_k_##S(const int K, ptrdiff_t M, ptrdiff_t N, const T* A, ptrdiff_t ars,     \
                                       ptrdiff_t acs, const T* B, ptrdiff_t brs, T* C, ptrdiff_t ldc,        \
                                       int accumulate) {                                                     \
    const ptrdiff_t L = ETP_WIDTH(T), whole = N / L * L;                                                     \
    for (ptrdiff_t m = 0; m < M; m++, A += ars, C += ldc) {                                                  \
      etp_v_##S a[4], c;                                                                                     \
      ETP_UNROLL for (int k = 0; k < K; k++) a[k] = A[k * acs] - (etp_v_##S){0};                             \
      for (ptrdiff_t n = 0; n < whole; n += L) {                                                             \
        c = accumulate ? etp_load_##S(C + n) : (etp_v_##S){0};                                               \
        ETP_UNROLL for (int k = 0; k < K; k++) c = ETP_VFMA_##S(a[k], etp_load_##S(B + k * brs + n), c);     \
        etp_store_##S(C + n, ETP_NO_MINUS_0(S, c));                                                          \
      }                                                                                                      \
      if (whole == N) continue;                                                                              \
      c = accumulate ? etp_load_some_##S(C + whole, N - whole) : (etp_v_##S){0};                             \
      ETP_UNROLL for (int k = 0; k < K; k++) {                                                               \
        c = ETP_VFMA_##S(a[k], etp_load_some_##S(B + k * brs + whole, N - whole), c);                        \
      }                                                                                                      \
      etp_store_some_##S(C + whole, ETP_NO_MINUS_0(S, c), N - whole);                                        \
    }                                                                                                        \
  }                                                                                                          \
  static __attribute__((noinline, unused)) void etp_gemm_flat_##S(                                           \
      ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, const T* A, ptrdiff_t ars, ptrdiff_t acs, const T* B,           \
      ptrdiff_t brs, T* C, ptrdiff_t ldc, int accumulate) {                                                  \
    if (K == 1) etp_gemm_flat_k_##S(1, M, N, A, ars, acs, B, brs, C, ldc, accumulate);                       \
    if (K == 2) etp_gemm_flat_k_##S(2, M, N, A, ars, acs, B, brs, C, ldc, accumulate);                       \
    if (K == 3) etp_gemm_flat_k_##S(3, M, N, A, ars, acs, B, brs, C, ldc, accumulate);                       \
    if (K == 4) etp_gemm_flat_k_##S(4, M, N, A, ars, acs, B, brs, C, ldc, accumulate);                       \
  }                                                                                                          \
  /* The last columns of one row of C, less than 8 vectors of them. Where another row of B follows, loads    \
   * may run over the end of a row: those lanes are not stored. */                                           \
  ETP_GEMM_FN void etp_gemm_thin_v_##S(const int V, ptrdiff_t N, ptrdiff_t K, const T* A, ptrdiff_t acs,     \
                                       const T* B, ptrdiff_t brs, T* C, int accumulate) {                    \
    const ptrdiff_t L = ETP_WIDTH(T), lanes = N - (V - 1) * L, over = V * L - N;                             \
    const ptrdiff_t whole = over == 0 ? K : brs < 1 ? 0 : K - (over + brs - 1) / brs;                        \
    etp_v_##S c[8];                                                                                          \
    ETP_UNROLL for (int j = 0; j < V; j++) {                                                                 \
      c[j] = (etp_v_##S){0};                                                                                 \
      if (accumulate) c[j] = j < V - 1 ? etp_load_##S(C + j * L) : etp_load_some_##S(C + j * L, lanes);      \
    }                                                                                                        \
    ptrdiff_t k = 0;                                                                                         \
    for (; k < whole; k++, A += acs, B += brs) {                                                             \
      const etp_v_##S a = A[0] - (etp_v_##S){0};                                                             \
      ETP_UNROLL for (int j = 0; j < V; j++) c[j] = ETP_VFMA_##S(a, etp_load_##S(B + j * L), c[j]);          \
    }                                                                                                        \
    for (; k < K; k++, A += acs, B += brs) {                                                                 \
      const etp_v_##S a = A[0] - (etp_v_##S){0};                                                             \
      ETP_UNROLL for (int j = 0; j < V - 1; j++) c[j] = ETP_VFMA_##S(a, etp_load_##S(B + j * L), c[j]);      \
      c[V - 1] = ETP_VFMA_##S(a, etp_load_some_##S(B + (V - 1) * L, lanes), c[V - 1]);                       \
    }                                                                                                        \
    ETP_UNROLL for (int j = 0; j < V - 1; j++) etp_store_##S(C + j * L, ETP_NO_MINUS_0(S, c[j]));            \
    etp_store_some_##S(C + (V - 1) * L, ETP_NO_MINUS_0(S, c[V - 1]), lanes);                                 \
  }                                                                                                          \
  static __attribute__((noinline, unused)) void etp_gemm_thin_##S(ptrdiff_t N, ptrdiff_t K, const T* A,      \
                                                                  ptrdiff_t acs, const T* B, ptrdiff_t brs,  \
                                                                  T* C, int accumulate) {                    \
    const ptrdiff_t V = (N + ETP_WIDTH(T) - 1) / ETP_WIDTH(T);                                               \
    if (V == 1) etp_gemm_thin_v_##S(1, N, K, A, acs, B, brs, C, accumulate);                                 \
    if (V == 2) etp_gemm_thin_v_##S(2, N, K, A, acs, B, brs, C, accumulate);                                 \
    if (V == 3) etp_gemm_thin_v_##S(3, N, K, A, acs, B, brs, C, accumulate);                                 \
    if (V == 4) etp_gemm_thin_v_##S(4, N, K, A, acs, B, brs, C, accumulate);                                 \
    if (V == 5) etp_gemm_thin_v_##S(5, N, K, A, acs, B, brs, C, accumulate);                                 \
    if (V == 6) etp_gemm_thin_v_##S(6, N, K, A, acs, B, brs, C, accumulate);                                 \
    if (V == 7) etp_gemm_thin_v_##S(7, N, K, A, acs, B, brs, C, accumulate);                                 \
    if (V == 8) etp_gemm_thin_v_##S(8, N, K, A, acs, B, brs, C, accumulate);                                 \
  }                                                                                                          \
  /* One row of C, N a multiple of the lanes, from a B with unit steps along k: squares of B are turned in   \
   * registers and used at once, two side by side, which are a cache line. */                                \
  ETP_GEMM_FN etp_v_##S etp_gemm_square_##S(const T* A, ptrdiff_t acs, const T* B, ptrdiff_t bcs,            \
                                            etp_v_##S c) {                                                   \
    etp_v_##S v[ETP_WIDTH(T)];                                                                               \
    ETP_UNROLL for (int q = 0; q < ETP_WIDTH(T); q++) v[q] = etp_load_##S(B + q * bcs);                      \
    ETP_TRANSPOSE_##S(etp_v_##S, v);                                                                         \
    ETP_UNROLL for (int q = 0; q < ETP_WIDTH(T); q++) c =                                                    \
        ETP_VFMA_##S(A[q * acs] - (etp_v_##S){0}, v[q], c);                                                  \
    return c;                                                                                                \
  }                                                                                                          \
  static __attribute__((noinline, unused)) void etp_gemm_turned_row_##S(                                     \
      ptrdiff_t N, ptrdiff_t K, const T* A, ptrdiff_t acs, const T* B, ptrdiff_t bcs, T* C,                  \
      int accumulate) {                                                                                      \
    const ptrdiff_t L = ETP_WIDTH(T);                                                                        \
    for (ptrdiff_t n = 0; n < N; n += L, B += L * bcs) {                                                     \
      etp_v_##S c = accumulate ? etp_load_##S(C + n) : (etp_v_##S){0};                                       \
      ptrdiff_t k = 0;                                                                                       \
      for (; k + 2 * L <= K; k += 2 * L) {                                                                   \
        c = etp_gemm_square_##S(A + k * acs, acs, B + k, bcs, c);                                            \
        c = etp_gemm_square_##S(A + (k + L) * acs, acs, B + k + L, bcs, c);                                  \
      }                                                                                                      \
      for (; k < K; k++) {                                                                                   \
        etp_v_##S column = {0};                                                                              \
        ETP_UNROLL for (int q = 0; q < L; q++) column[q] = B[q * bcs + k];                                   \
        c = ETP_VFMA_##S(A[k * acs] - (etp_v_##S){0}, column, c);                                            \
      }                                                                                                      \
      etp_store_##S(C + n, ETP_NO_MINUS_0(S, c));                                                            \
    }                                                                                                        \
  }                                                                                                          \
  /* C[M,N] = A B, or += if accumulate. A[m,k] is at A[m * ars + k * acs], B[k,n] at B[k * brs + n * bcs],   \
   * C[m,n] at C[m * ldc + n]; C overlaps neither A nor B. scratch: etp_gemm_scratch bytes, best at a        \
   * multiple of 64, used by one call at a time. */                                                          \
  static __attribute__((noinline, unused)) void etp_gemm_##S(                                                \
      ptrdiff_t M, ptrdiff_t N, ptrdiff_t K, const T* A, ptrdiff_t ars, ptrdiff_t acs, const T* B,           \
      ptrdiff_t brs, ptrdiff_t bcs, T* C, ptrdiff_t ldc, int accumulate, void* scratch) {                    \
    const ptrdiff_t L = ETP_WIDTH(T), W = ETP_TILE_V * L;                                                    \
    const ptrdiff_t row = brs * (ptrdiff_t)sizeof(T);                                                        \
    const int odd = ((uintptr_t)B | (uintptr_t)row) % ETP_VBYTES != 0; /* loads would cross cache lines */   \
    const int pack_b = bcs != 1 || (M >= ETP_PACK_ROWS && (odd || row >= ETP_PACK_BYTES));                   \
    const int far = pack_b && bcs == 1 && K * row >= ETP_FAR_BYTES;                                          \
    const int pack_a = acs != 1 && M > 1 && N > W && K > ETP_PACK_K;                                         \
    ptrdiff_t mblock = pack_a ? ETP_M_BLOCK : M;                                                             \
    /* few rows: nothing of B is read twice; what must be turned, is so in pieces that fit L1 */             \
    ptrdiff_t kblock = M > ETP_TILE_R ? ETP_K_BLOCK : pack_b || !ETP_MASKS ? 64 : K;                         \
    T* bp = (T*)scratch;                                                                                     \
    const ptrdiff_t packed = etp_gemm_b_bytes_##S(N, K) / (ptrdiff_t)sizeof(T), half = packed / 2;           \
    T* ap = bp + packed;                                                                                     \
    if (K > 0 && K <= 4 && bcs == 1 && N >= 4 * L && M > 1) {                                                \
      etp_gemm_flat_##S(M, N, K, A, ars, acs, B, brs, C, ldc, accumulate);                                   \
      return;                                                                                                \
    }                                                                                                        \
    if (M == 1 && brs == 1 && bcs != 1 && N >= L && K > 0) {                                                 \
      const ptrdiff_t turned = N / L * L;                                                                    \
      etp_gemm_turned_row_##S(turned, K, A, acs, B, bcs, C, accumulate);                                     \
      B += turned * bcs, C += turned, N -= turned;                                                           \
    }                                                                                                        \
    if (K <= 0 && !accumulate)                                                                               \
      for (ptrdiff_t m = 0; m < M; m++)                                                                      \
        for (ptrdiff_t n = 0; n < N; n++) C[m * ldc + n] = 0;                                                \
    for (ptrdiff_t m = 0, mm; m < M; m += mm) {                                                              \
      mm = etp_share(M - m, mblock);                                                                         \
      for (ptrdiff_t k = 0, kk; k < K; k += kk) {                                                            \
        const T* a = A + m * ars + k * acs;                                                                  \
        kk = (etp_share(K - k, kblock) + L - 1) & ~(ptrdiff_t)(L - 1); /* whole vectors to turn */           \
        if (kk > K - k) kk = K - k;                                                                          \
        if (pack_a) etp_gemm_pack_a_##S(mm, kk, a, ars, acs, ap);                                            \
        if (pack_a) a = ap;                                                                                  \
        etp_gemm_columns_##S now = {B + k * brs, 0, kk, brs, bcs, bp}, later = now;                          \
        for (ptrdiff_t n = 0; n < N; n += now.N) {                                                           \
          etp_gemm_tile_##S t = {                                                                            \
              kk, 0,    a, ars, acs, B + k * brs + n * bcs, brs, C + m * ldc + n, ldc, accumulate || k > 0,  \
              a,  NULL, 0};                                                                                  \
          if (M == 1 && N - n >= 8 * L && !pack_b) {                                                         \
            now.N = 8 * L;                                                                                   \
            t.lanes = L;                                                                                     \
            etp_gemm_tile_1x8_##S(&t);                                                                       \
            continue;                                                                                        \
          }                                                                                                  \
          if (M == 1 && !pack_b) {                                                                           \
            now.N = N - n;                                                                                   \
            etp_gemm_thin_##S(now.N, kk, a, acs, t.B, brs, t.C, t.accumulate);                               \
            continue;                                                                                        \
          }                                                                                                  \
          now.B = t.B;                                                                                       \
          now.N = etp_columns_##S(M, N - n, kk);                                                             \
          const int packed_b = pack_b || (!ETP_MASKS && now.N % L != 0);                                     \
          if (packed_b && later.N == 0) etp_gemm_pack_b_##S(&now, 0, kk);                                    \
          if (packed_b) t.B = now.to;                                                                        \
          later = now;                                                                                       \
          later.B += now.N * bcs;                                                                            \
          later.N = far ? etp_columns_##S(M, N - n - now.N, kk) : 0;                                         \
          later.to = now.to == bp ? bp + half : bp;                                                          \
          etp_gemm_tiles_##S(mm, now.N, t, pack_a, packed_b, later.N > 0 ? &later : NULL);                   \
          now.to = later.N > 0 ? later.to : now.to;                                                          \
        }                                                                                                    \
      }                                                                                                      \
    }                                                                                                        \
  }                                                                                                          \
                                                                                                             \
  /* The part [m0, m1) x [n0, n1) of the same C: by the invariant, the product of these rows and columns. */ \
  static __attribute__((unused)) void etp_gemm_part_##S(                                                     \
      ptrdiff_t m0, ptrdiff_t m1, ptrdiff_t n0, ptrdiff_t n1, ptrdiff_t K, const T* A, ptrdiff_t ars,        \
      ptrdiff_t acs, const T* B, ptrdiff_t brs, ptrdiff_t bcs, T* C, ptrdiff_t ldc, int accumulate,          \
      void* scratch) {                                                                                       \
    etp_gemm_##S(m1 - m0, n1 - n0, K, A + m0 * ars, ars, acs, B + n0 * bcs, brs, bcs, C + m0 * ldc + n0,     \
                 ldc, accumulate, scratch);                                                                  \
  }

/* Piece `part` of a cut of C for `parts` threads, for etp_gemm_part; may be empty. A grid on tile boundaries:
 * the one with the least work in its largest piece, edges counted too, as they are what a piece must read. */
static __attribute__((unused)) void etp_gemm_split(ptrdiff_t M, ptrdiff_t N, int parts, int part,
                                                   ptrdiff_t* m0, ptrdiff_t* m1, ptrdiff_t* n0,
                                                   ptrdiff_t* n1) {
  ptrdiff_t best = -1;
  *m0 = *m1 = *n0 = *n1 = 0;
  for (int rows = 1; rows <= parts; rows++) {
    int cols = parts / rows;
    if (rows * cols != parts) continue;
    ptrdiff_t m = ((M + ETP_TILE_R - 1) / ETP_TILE_R + rows - 1) / rows * ETP_TILE_R; /* rows of a piece */
    ptrdiff_t n = ((N + 63) / 64 + cols - 1) / cols * 64;                             /* its columns */
    ptrdiff_t mm = m < M ? m : M, nn = n < N ? n : N, cost = mm * nn + 16 * (mm + nn);
    if (best >= 0 && cost >= best) continue;
    best = cost;
    ptrdiff_t y = part / cols * m, x = part % cols * n;
    *m0 = y < M ? y : M;
    *m1 = y + m < M ? y + m : M;
    *n0 = x < N ? x : N;
    *n1 = x + n < N ? x + n : N;
  }
}

ETP_GEMM_KERNEL(float, f32)
ETP_GEMM_PACK(float, f32)
ETP_GEMM_DRIVER(float, f32)
ETP_GEMM_KERNEL(double, f64)
ETP_GEMM_PACK(double, f64)
ETP_GEMM_DRIVER(double, f64)

#endif /* ETP_GEMM_H */
