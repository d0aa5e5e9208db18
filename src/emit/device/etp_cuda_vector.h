/* Some numbers side by side, which are loaded and stored together; and traces in less memory than that of
 * their sums. */
#ifndef ETP_CUDA_VECTOR_H
#define ETP_CUDA_VECTOR_H

#include "emit/device/etp_cuda.h"

template <class T, int N>
struct alignas(sizeof(T) * N > 16 ? 16 : sizeof(T) * N) etp_pack {
  T at[N];
};

/* Halves, stored as their bits; which is which is said by the type. */
struct etp_half {
  uint16_t bits;
};
struct etp_brain {
  uint16_t bits;
};

ETP_FN float etp_fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
ETP_FN double etp_fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

template <class T>
ETP_DEVICE T etp_widened(etp_half x) {
  return (T)etp_f16_to_f32(x.bits);
}
template <class T>
ETP_DEVICE T etp_widened(etp_brain x) {
  return (T)etp_bf16_to_f32(x.bits);
}
template <class S, class T>
struct etp_narrow {
  ETP_DEVICE static S of(T x) { return (S)x; }
};
template <class T>
struct etp_narrow<etp_half, T> {
  ETP_DEVICE static etp_half of(T x) { return {etp_f32_to_f16((float)x)}; }
};
template <class T>
struct etp_narrow<etp_brain, T> {
  ETP_DEVICE static etp_brain of(T x) { return {etp_f32_to_bf16((float)x)}; }
};
/* Stochastically. */
template <class S>
ETP_DEVICE S etp_rounded(float x, uint32_t key, uint32_t place);
template <>
ETP_DEVICE etp_half etp_rounded<etp_half>(float x, uint32_t key, uint32_t place) {
  return {etp_f32_to_f16_at(x, key, place)};
}
template <>
ETP_DEVICE etp_brain etp_rounded<etp_brain>(float x, uint32_t key, uint32_t place) {
  return {etp_f32_to_bf16_at(x, key, place)};
}
template <class T, class S>
ETP_DEVICE T etp_wide(S x) {
  if constexpr (sizeof(S) == 2)
    return etp_widened<T>(x);
  else
    return (T)x;
}

/* N numbers from p on, as T. `once`: they will not be read again soon, and need not stay in a cache. */
template <class T, int N, class S>
ETP_DEVICE etp_pack<T, N> etp_load(const S* p) {
  const etp_pack<S, N> from = *(const etp_pack<S, N>*)p;
  etp_pack<T, N> out;
  for (int i = 0; i < N; ++i) out.at[i] = etp_wide<T>(from.at[i]);
  return out;
}
template <class T, int N, class S>
ETP_DEVICE etp_pack<T, N> etp_load_once(const S* p) {
#ifdef __CUDACC__
  if constexpr (sizeof(etp_pack<S, N>) == 16) {
    const uint4 bits = __ldcs((const uint4*)p);
    etp_pack<S, N> from;
    memcpy(&from, &bits, sizeof from);
    etp_pack<T, N> out;
    for (int i = 0; i < N; ++i) out.at[i] = etp_wide<T>(from.at[i]);
    return out;
  }
#endif
  return etp_load<T, N>(p);
}
template <int N, class S>
ETP_DEVICE void etp_put_once(S* p, const etp_pack<S, N>& x) {
#ifdef __CUDACC__
  if constexpr (sizeof(etp_pack<S, N>) == 16) {
    uint4 bits;
    memcpy(&bits, &x, sizeof bits);
    __stcs((uint4*)p, bits);
    return;
  }
#endif
  *(etp_pack<S, N>*)p = x;
}

#endif /* ETP_CUDA_VECTOR_H */
