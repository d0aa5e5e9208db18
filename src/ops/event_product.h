// The matrix product where most of A is zero, as with spikes: C[m, :] (+)= Σ_k A[m,k]·B[k, :] over the k at
// which A is not zero, in ascending order. Terms that are left out are fma(0, b, c) = c for finite b, so the
// result has the bits of the dense product (runtime/etp_gemm.h): which way is taken, decided at every call by
// a count, changes nothing. A block of B that holds an infinity or a NaN is multiplied as dense, where 0·∞
// must give NaN. (One exception: a sum that is −0, which only underflow can leave, stays −0 here.)
// Private to ops/.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "ops/lanes.h"

namespace etrace {

#if defined(__AVX2__)
// Byte j of row m: the place of the j-th bit that is set in m.
constexpr std::array<std::uint64_t, 256> kPlacesOfBits = [] {
  std::array<std::uint64_t, 256> out{};
  for (unsigned m = 0; m < 256; ++m)
    for (unsigned bit = 0, n = 0; bit < 8; ++bit)
      if ((m >> bit & 1U) != 0) out[m] |= std::uint64_t{bit} << (8 * n++);
  return out;
}();
#endif

template <class T>
class EventProduct {
 public:
  using Index = std::int64_t;
  struct Factor {  // A[i,k] = data[i·row + k·depth]
    const T* data;
    Index row, depth;
  };

  // Whether a product of these sizes could gain: enough rows to outweigh the look at all of B, and rows of B
  // that are contiguous and long.
  static bool fits(Index rows, Index columns, Index depth, Index b_column) {
    return b_column == 1 && rows >= kRowsAtLeast && columns >= kPanel && depth > 0;
  }
  static std::size_t scratch_bytes() { return sizeof(Lists); }

  // At most a quarter of A is set.
  static bool is_sparse(Index rows, Index depth, const Factor& a) {
    const bool along_depth = a.depth == 1;
    const Index outer = along_depth ? rows : depth, inner = along_depth ? depth : rows;
    const Index outer_step = along_depth ? a.row : a.depth, inner_step = along_depth ? 1 : a.row;
    const Index most = rows * depth / 4;
    Index set = 0;
    for (Index o = 0; o < outer; ++o) {
      set += count(a.data + o * outer_step, inner, inner_step);
      // Dense data is known after a few lines.
      if (set > most || (o == kFewLines && 2 * set > (o + 1) * inner)) return false;
    }
    return true;
  }

  // dense(m, n, k, a, b, c, accumulate) multiplies a part as dense.
  template <class Dense>
  static void multiply(Index rows, Index columns, Index depth, const Factor& a, const T* b, Index b_row, T* c,
                       Index c_row, bool accumulate, void* scratch, const Dense& dense) {
    if (is_sparse(rows, depth, a))
      run(rows, columns, depth, a, b, b_row, c, c_row, accumulate, scratch, dense);
    else
      dense(rows, columns, depth, a.data, b, c, accumulate);
  }

 private:
  static constexpr Index kVectors = std::min(8, 256 / ETP_VBYTES);  // of C in registers
  static constexpr Index kPanel = kVectors * kLanes<T>;             // columns
  static constexpr Index kDepth = 96;  // rows of a panel: it stays in the first cache
  static constexpr Index kRows = 256;  // rows of A whose lists are made together
  static constexpr Index kRoom = kDepth + 8;
  static constexpr Index kRowsAtLeast = 16;
  static constexpr Index kFewLines = 8;

  // Per row of A what is set, places and values; and a panel of B, rows contiguous (in place they are often a
  // power of two apart, and fall into few sets of a cache).
  struct Lists {
    T panel[kDepth * kPanel];
    T square[kRows * kDepth];  // A, rows contiguous
    T value[kRows * kRoom];
    std::int32_t place[kRows * kRoom];
    std::int32_t size[kRows];
  };

  template <class Dense>
  static void run(Index rows, Index columns, Index depth, const Factor& a, const T* b, Index b_row, T* c,
                  Index c_row, bool accumulate, void* scratch, const Dense& dense) {
    Lists& lists = *static_cast<Lists*>(scratch);
    const Index whole = columns / kPanel * kPanel;
    for (Index k0 = 0; k0 < depth; k0 += kDepth) {
      const Index k = std::min(kDepth, depth - k0);
      const bool add = accumulate || k0 > 0;
      for (Index m0 = 0; m0 < rows; m0 += kRows) {
        const Index m = std::min(kRows, rows - m0);
        const Factor block{a.data + m0 * a.row + k0 * a.depth, a.row, a.depth};
        list(m, k, block, lists);
        for (Index n = 0; n < whole; n += kPanel) {
          T* out = c + m0 * c_row + n;
          if (pack(b + k0 * b_row + n, b_row, k, lists.panel))
            for (Index i = 0; i < m; ++i)
              sum_row(lists.place + i * kRoom, lists.value + i * kRoom, lists.size[i], lists.panel,
                      out + i * c_row, add);
          else
            dense(m, kPanel, k, block.data, b + k0 * b_row + n, out, add);
        }
      }
      if (whole < columns)
        dense(rows, columns - whole, k, a.data + k0 * a.depth, b + k0 * b_row + whole, c + whole, add);
    }
  }

  static Index count(const T* a, Index n, Index step) {
    Index set = 0, i = 0;
    if (step == 1) {
      const VectorOf<T> zero{};
      auto sums = zero != zero;  // of integers; a lane counts down
      for (; i + kLanes<T> <= n; i += kLanes<T>) sums += Lanes<T>::load(a + i) != zero;
      for (Index l = 0; l < kLanes<T>; ++l) set -= sums[l];
    }
    for (; i < n; ++i) set += a[i * step] != T(0) ? 1 : 0;
    return set;
  }

  // The panel, and whether all of it is finite: 0·b is 0 then.
  static bool pack(const T* b, Index row, Index depth, T* to) {
    VectorOf<T> zeros[2] = {};
    for (Index k = 0; k < depth; ++k, b += row, to += kPanel)
      ETP_UNROLL for (Index v = 0; v < kVectors; ++v) {
        const VectorOf<T> x = Lanes<T>::load(b + v * kLanes<T>);
        Lanes<T>::store(to + v * kLanes<T>, x);
        zeros[v % 2] += x * T(0);
      }
    return sum_of_lanes<T>(zeros[0] + zeros[1]) == T(0);
  }

  static void list(Index rows, Index depth, const Factor& a, Lists& lists) {
    const T* from = a.data;
    Index row = a.row;
    if (a.depth != 1) {
      if (a.row == 1)
        turn(a.data, depth, a.depth, 0, rows, lists.square, kDepth, depth);
      else
        for (Index i = 0; i < rows; ++i)
          for (Index k = 0; k < depth; ++k) lists.square[i * kDepth + k] = a.data[i * a.row + k * a.depth];
      from = lists.square, row = kDepth;
    }
    for (Index i = 0; i < rows; ++i)
      lists.size[i] = list_row(from + i * row, depth, lists.value + i * kRoom, lists.place + i * kRoom);
  }
  static std::int32_t list_row(const T* __restrict a, Index depth, T* __restrict value,
                               std::int32_t* __restrict place) {
    // Without a branch: where spikes fall cannot be foretold. Lists have room for a vector more.
    std::int32_t n = 0;
    Index k = 0;
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 4) {
      for (; k + 8 <= depth; k += 8) {
        const __m256 x = _mm256_loadu_ps(a + k);
        const int set = _mm256_movemask_ps(_mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_NEQ_UQ));
        const __m256i at = _mm256_cvtepu8_epi32(
            _mm_cvtsi64_si128(static_cast<long long>(kPlacesOfBits[static_cast<std::size_t>(set)])));
        _mm256_storeu_ps(value + n, _mm256_permutevar8x32_ps(x, at));
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(place + n),
                            _mm256_add_epi32(at, _mm256_set1_epi32(static_cast<int>(k))));
        n += __builtin_popcount(static_cast<unsigned>(set));
      }
    }
#endif
    for (; k < depth; ++k) {
      value[n] = a[k];
      place[n] = static_cast<std::int32_t>(k);
      n += a[k] != T(0) ? 1 : 0;
    }
    return n;
  }

  static void sum_row(const std::int32_t* place, const T* value, Index n, const T* panel, T* c, bool add) {
    using L = Lanes<T>;
    VectorOf<T> sum[kVectors] = {};
    if (add) {
      ETP_UNROLL for (Index v = 0; v < kVectors; ++v) sum[v] = L::load(c + v * kLanes<T>);
    }
    for (Index i = 0; i < n; ++i) {
      const VectorOf<T> factor = splat(value[i]);
      const T* row = panel + place[i] * kPanel;
      ETP_UNROLL for (Index v = 0; v < kVectors; ++v) sum[v] =
          L::fma(factor, L::load(row + v * kLanes<T>), sum[v]);
    }
    ETP_UNROLL for (Index v = 0; v < kVectors; ++v) L::store(c + v * kLanes<T>, sum[v]);
  }
};

}  // namespace etrace
