// Vectors of the machine's width for kernels that are templates over the element type..
#pragma once

#include <cstdint>
#include <cstring>
#include <utility>

#include "runtime/etp_gemm.h"

namespace etrace {

template <class T>
struct Lanes;

template <>
struct Lanes<float> {
  using Vector = etp_v_f32;
  static inline Vector load(const float* p) { return etp_load_f32(p); }
  static inline void store(float* p, Vector v) { etp_store_f32(p, v); }
  static inline Vector fma(Vector a, Vector b, Vector c) { return ETP_VFMA_f32(a, b, c); }
  static inline void transpose(Vector* v) { ETP_TRANSPOSE_f32(Vector, v) }
};
template <>
struct Lanes<double> {
  using Vector = etp_v_f64;
  static inline Vector load(const double* p) { return etp_load_f64(p); }
  static inline void store(double* p, Vector v) { etp_store_f64(p, v); }
  static inline Vector fma(Vector a, Vector b, Vector c) { return ETP_VFMA_f64(a, b, c); }
  static inline void transpose(Vector* v) { ETP_TRANSPOSE_f64(Vector, v) }
};

template <class T>
using VectorOf = typename Lanes<T>::Vector;
template <class T>
constexpr std::int64_t kLanes = ETP_VBYTES / static_cast<std::int64_t>(sizeof(T));

template <class T>
inline VectorOf<T> splat(T value) {
  return value - VectorOf<T>{};
}

// The sum of all lanes, by halves: one order on every machine of this width.
template <class T, std::int64_t... I>
inline T sum_of_lanes(VectorOf<T> v, std::integer_sequence<std::int64_t, I...>) {
  constexpr std::int64_t n = kLanes<T>;
  if constexpr (n >= 16) v += __builtin_shufflevector(v, v, ((I + 8) % n)...);
  if constexpr (n >= 8) v += __builtin_shufflevector(v, v, ((I + 4) % n)...);
  if constexpr (n >= 4) v += __builtin_shufflevector(v, v, ((I + 2) % n)...);
  v += __builtin_shufflevector(v, v, ((I + 1) % n)...);
  return v[0];
}
template <class T>
inline T sum_of_lanes(VectorOf<T> v) {
  return sum_of_lanes<T>(v, std::make_integer_sequence<std::int64_t, kLanes<T>>());
}

inline std::int64_t round_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit * unit; }

// out[c, r] = in[r, c] for the columns [first, last) of `in`; rows of `out` are `stride` apart and filled up
// with zeros to the given length.
template <class T>
void turn(const T* in, std::int64_t rows, std::int64_t row_stride, std::int64_t first, std::int64_t last,
          T* out, std::int64_t stride, std::int64_t length) {
  constexpr std::int64_t n = kLanes<T>;
  for (std::int64_t c0 = first; c0 < last; c0 += n)
    for (std::int64_t r0 = 0; r0 < rows; r0 += n) {
      if (c0 + n <= last && r0 + n <= rows) {  // a square in registers
        VectorOf<T> v[n];
        ETP_UNROLL for (int i = 0; i < n; ++i) v[i] = Lanes<T>::load(in + (r0 + i) * row_stride + c0);
        Lanes<T>::transpose(v);
        ETP_UNROLL for (int i = 0; i < n; ++i) Lanes<T>::store(out + (c0 + i) * stride + r0, v[i]);
        continue;
      }
      for (std::int64_t c = c0; c < c0 + n && c < last; ++c)
        for (std::int64_t r = r0; r < r0 + n && r < rows; ++r) out[c * stride + r] = in[r * row_stride + c];
    }
  for (std::int64_t c = first; c < last && rows < length; ++c)
    std::memset(out + c * stride + rows, 0, static_cast<std::size_t>(length - rows) * sizeof(T));
}

}  // namespace etrace
