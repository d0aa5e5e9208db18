/* C[i, j] = Σ_k A[i, k]·B[k, j], or the same onto what C holds, for matrices that a library of products does
 * not take: integers, and strides of any size. G: T, rows, columns, depth, onto, and strides a_row, a_depth,
 * b_depth, b_column, c_row. A block of 256 threads has 16 × 16 elements. */
#ifndef ETP_CUDA_PRODUCT_H
#define ETP_CUDA_PRODUCT_H

#include "emit/device/etp_cuda_vector.h"

ETP_FN int32_t etp_fused(int32_t a, int32_t b, int32_t c) { return etp_add_i32(etp_mul_i32(a, b), c); }
ETP_FN int64_t etp_fused(int64_t a, int64_t b, int64_t c) { return etp_add_i64(etp_mul_i64(a, b), c); }
ETP_FN uint32_t etp_fused(uint32_t a, uint32_t b, uint32_t c) { return a * b + c; }

template <class G>
ETP_DEVICE void etp_product(const etp_pointers<3>& p) {
  typedef typename G::T T;
  __shared__ T shared_a[16 * 17];
  __shared__ T shared_b[16 * 17];
  constexpr int64_t across = (G::columns + 15) / 16;
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  const int64_t i = blockIdx.x / across * 16 + y, j = blockIdx.x % across * 16 + x;
  const T* const a = (const T*)p.at[0];
  const T* const b = (const T*)p.at[1];
  T* const c = (T*)p.at[2];
  const bool inside = i < G::rows && j < G::columns;
  T sum = G::onto && inside ? c[i * G::c_row + j] : (T)0;
  for (int64_t k0 = 0; k0 < G::depth; k0 += 16) {
    __syncthreads();
    shared_a[y * 17 + x] = i < G::rows && k0 + x < G::depth ? a[i * G::a_row + (k0 + x) * G::a_depth] : (T)0;
    shared_b[y * 17 + x] =
        j < G::columns && k0 + y < G::depth ? b[(k0 + y) * G::b_depth + j * G::b_column] : (T)0;
    __syncthreads();
    for (int k = 0; k < 16 && k0 + k < G::depth; ++k)
      sum = etp_fused(shared_a[y * 17 + k], shared_b[k * 17 + x], sum);
  }
  if (inside) c[i * G::c_row + j] = sum;
}

/* A small row times a matrix, which a library takes longer to begin with than to do. 512 threads have 16
 * columns; 32 of them divide the depth of each, side by side in memory either way, and join their sums by
 * halves. */
template <class G>
ETP_DEVICE void etp_row_product(const etp_pointers<3>& p, unsigned block) {
  typedef typename G::T T;
  __shared__ T shared[512];
  constexpr bool along = G::b_depth == 1; /* neighbours in memory are neighbours in depth */
  const int own = along ? threadIdx.x / 32 : threadIdx.x % 16;
  const int part = along ? threadIdx.x % 32 : threadIdx.x / 16;
  const int64_t j = (int64_t)block * 16 + own;
  const T* const a = (const T*)p.at[0];
  const T* const b = (const T*)p.at[1];
  T* const c = (T*)p.at[2];
  T sum = 0;
  if (j < G::columns) {
#pragma unroll 8
    for (int64_t k = part; k < G::depth; k += 32)
      sum = etp_fused(a[k * G::a_depth], b[k * G::b_depth + j * G::b_column], sum);
  }
  shared[part * 16 + own] = sum;
  __syncthreads();
  for (int w = 16; w > 0; w /= 2) {
    if (part < w) shared[part * 16 + own] = shared[part * 16 + own] + shared[(part + w) * 16 + own];
    __syncthreads();
  }
  if (part == 0 && j < G::columns) c[j] = G::onto ? c[j] + shared[own] : shared[own];
}

#endif /* ETP_CUDA_PRODUCT_H */
