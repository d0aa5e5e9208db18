// What must be added of a block of A, some rows by at most kDepth columns, in a product A·B
// (event_product.h): per row the places at which A is not zero, and what is there. Whether that pays follows
// from a sample of the rows of A whose places depend on the sizes alone, so not on how rows are dealt out to
// threads..
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "kernels/lanes.h"

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
class EventRows {
 public:
  using Index = std::int64_t;
  struct Factor {  // A[i,k] = data[i·row + k·depth]
    const T* data;
    Index row, depth;
    Factor from(Index i, Index k) const { return {data + i * row + k * depth, row, depth}; }
  };
  static constexpr Index kDepth = 96;  // columns of a block
  static constexpr Index kRows = 256;  // rows whose lists are made together
  static constexpr Index kRoom = kDepth + 8;
  static constexpr Index kRowsAtLeast = 16;  // of A

  // A row's list: where it is not zero, and what it is there. A row of which more than three quarters are set
  // is long: it has no list, and is better multiplied as dense.
  const std::int32_t* place(Index row) const { return place_ + row * kRoom; }
  const T* value(Index row) const { return value_ + row * kRoom; }
  std::int32_t size(Index row) const { return size_[row]; }
  bool is_long(Index row) const { return size_[row] < 0; }

  // Of columns [0, depth) of all rows of A: whether at most a third of the sample is set.
  bool is_sparse(Index rows, Index depth, const Factor& a) {
    if (is_dense_at_a_glance(rows, depth, a)) return false;
    const Index runs = std::min(kRuns, rows / kRun), seen = runs * kRun;
    sample(rows, depth, a, runs);
    return set_in_sample(seen, depth) <= seen * depth / 3;
  }

  // Lists of `rows` rows, at most kRows.
  void list(Index rows, Index depth, const Factor& a) {
    const T* from = a.data;
    Index row = a.row;
    if (a.depth != 1) {
      gather(rows, depth, a, square_);
      from = square_, row = kDepth;
    }
    for (Index i = 0; i < rows; ++i, from += row) {
      const Index n = list_row(from, depth, i);
      size_[i] = 4 * n > 3 * depth ? -1 : static_cast<std::int32_t>(n);
    }
  }

 private:
  static constexpr Index kRun = 8, kRuns = 4;  // the sample: so many rows at so many places
  static constexpr Index kGlance = 16;         // entries, before that
  using Vector = VectorOf<T>;
  using L = Lanes<T>;
  using Mask = decltype(Vector{} != Vector{});

  // to[i, k] = A[i, k], rows kDepth apart and filled up with zeros to whole vectors.
  static void gather(Index rows, Index depth, const Factor& a, T* to) {
    const Index whole = round_up(depth, kLanes<T>);
    if (a.row == 1) return turn(a.data, depth, a.depth, 0, rows, to, kDepth, whole);
    for (Index i = 0; i < rows; ++i, to += kDepth) {
      const T* row = a.data + i * a.row;
      if (a.depth == 1)
        std::copy_n(row, depth, to);
      else
        for (Index k = 0; k < depth; ++k) to[k] = row[k * a.depth];
      std::fill(to + depth, to + whole, T(0));
    }
  }
  // Few of some entries, spread over the block, are zero.
  static bool is_dense_at_a_glance(Index rows, Index depth, const Factor& a) {
    Index zeros = 0;
    for (Index p = 0; p < kGlance; ++p) {
      const Index i = (rows - 1) * p / kGlance, k = (depth - 1) * (5 * p % kGlance) / kGlance;
      zeros += *a.from(i, k).data == T(0) ? 1 : 0;
    }
    return 4 * zeros < kGlance;
  }
  void sample(Index rows, Index depth, const Factor& a, Index runs) {
    for (Index r = 0; r < runs; ++r)
      gather(kRun, depth, a.from((rows - kRun) * r / std::max<Index>(runs - 1, 1), 0),
             square_ + r * kRun * kDepth);
  }

  Index set_in_sample(Index rows, Index depth) const {
    Mask zeros{};  // lanes count down
    for (Index i = 0; i < rows; ++i)
      for (Index k = 0; k < depth; k += kLanes<T>) zeros += L::load(square_ + i * kDepth + k) == Vector{};
    Index set = rows * round_up(depth, kLanes<T>);  // what was filled up, is zero
    for (Index l = 0; l < kLanes<T>; ++l) set += zeros[l];
    return set;
  }

  Index list_row(const T* __restrict a, Index depth, Index row) {
    // Without a branch: where spikes fall cannot be foretold. Lists have room for a vector more.
    T* __restrict value = value_ + row * kRoom;
    std::int32_t* __restrict place = place_ + row * kRoom;
    Index n = 0, k = 0;
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
      n += value[n] != T(0) ? 1 : 0;
    }
    return n;
  }

  T square_[kRows * kDepth];  // of A, rows contiguous
  T value_[kRows * kRoom];
  std::int32_t place_[kRows * kRoom];
  std::int32_t size_[kRows];
};

}  // namespace etrace
