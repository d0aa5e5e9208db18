// What must be added of a block of A, some rows by at most kDepth columns, in a product A·B
// (event_product.h):
//   A[i,k] = f_i·β_k + D[i,k],   D zero at most places,
// so that Σ_k A[i,k]·B[k,:] = f_i·(Σ_k β_k·B[k,:]) + Σ of the rows of B at which D is not zero. The base f·β
// is
//   nothing               where few entries of A are set;
//   what a column has     in most rows, f ∈ {0, 1}: neurons that fire in most samples;
//   what a row has        in most columns, β = 1: the same neurons in the transposed product of a gradient.
// Which of them, and β, follow from a sample of the rows of A whose places depend on the sizes alone; f_i
// follows from row i. So neither depends on how rows are dealt out to threads. Private to ops/.
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
class EventRows {
 public:
  using Index = std::int64_t;
  struct Factor {  // A[i,k] = data[i·row + k·depth]
    const T* data;
    Index row, depth;
    Factor from(Index i, Index k) const { return {data + i * row + k * depth, row, depth}; }
  };
  enum class Base : std::uint8_t { Dense, Nothing, OfColumns, OfRows };  // Dense: too much is left of A

  static constexpr Index kDepth = 96;  // columns of a block
  static constexpr Index kRows = 256;  // rows whose lists are made together
  static constexpr Index kRoom = kDepth + 8;
  static constexpr Index kRowsAtLeast = 16;  // of A

  // A row's list: where D is not zero, and D there. A row of which more than three quarters are left is long:
  // it has no list, and is better multiplied as dense.
  const std::int32_t* place(Index row) const { return place_ + row * kRoom; }
  const T* value(Index row) const { return value_ + row * kRoom; }
  std::int32_t size(Index row) const { return size_[row]; }
  T factor(Index row) const { return factor_[row]; }
  bool is_long(Index row) const { return size_[row] < 0; }
  const T* base() const { return base_; }

  // Looks at columns [0, depth) of all rows of A.
  Base choose(Index rows, Index depth, const Factor& a) {
    if (is_dense_at_a_glance(rows, depth, a)) return Base::Dense;
    const Index runs = std::min(kRuns, rows / kRun), seen = runs * kRun;
    sample(rows, depth, a, runs);
    const Columns columns = survey_columns(seen, depth);
    const Index most = seen * depth / 3;
    if (columns.set <= most) return Base::Nothing;
    // The base itself is added once for as many rows as lie together.
    const Index together = std::min(rows, kRows), by_columns = columns.off + columns.base * seen / together;
    entries_ = columns.base;
    if (by_columns <= most / 2) return Base::OfColumns;
    const Index by_rows = off_rows(seen, depth) + depth * seen / together;
    if (std::min(by_columns, by_rows) > most) return Base::Dense;
    if (by_columns <= by_rows) return Base::OfColumns;
    base_ = kOnes.data(), entries_ = depth;
    return Base::OfRows;
  }

  // Lists of `rows` rows, at most kRows.
  void list(Base kind, Index rows, Index depth, const Factor& a) {
    const T* from = a.data;
    Index row = a.row;
    if (a.depth != 1) {
      gather(rows, depth, a, square_);
      from = square_, row = kDepth;
    }
    for (Index i = 0; i < rows; ++i, from += row) {
      const Index n =
          kind == Base::Nothing ? list_row(from, depth, T(0), i) : list_less(kind, from, depth, i);
      size_[i] = 4 * n > 3 * depth ? -1 : static_cast<std::int32_t>(n);
    }
  }

 private:
  static constexpr Index kRun = 8, kRuns = 4;  // the sample: so many rows at so many places
  static constexpr Index kGlance = 16;         // entries, before that
  static constexpr T kLargest = 256;           // of a base
  static constexpr std::array<T, kDepth> kOnes = [] {
    std::array<T, kDepth> out{};
    out.fill(T(1));
    return out;
  }();
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
  // Few entries, spread over the block, are zero or equal to a neighbour.
  static bool is_dense_at_a_glance(Index rows, Index depth, const Factor& a) {
    Index repeated = 0;
    for (Index p = 0; p < kGlance; ++p) {
      const Index i = (rows - 1) * p / kGlance, k = (depth - 1) * (5 * p % kGlance) / kGlance;
      const T x = *a.from(i, k).data;
      const bool in_column = x == *a.from(i + 1, k).data;
      const bool in_row = x == *a.from(i, std::min(k + 1, depth - 1)).data;
      repeated += x == T(0) || in_column || in_row ? 1 : 0;
    }
    return 4 * repeated < kGlance;
  }
  void sample(Index rows, Index depth, const Factor& a, Index runs) {
    for (Index r = 0; r < runs; ++r)
      gather(kRun, depth, a.from((rows - kRun) * r / std::max<Index>(runs - 1, 1), 0),
             square_ + r * kRun * kDepth);
  }

  // Of the columns of the sample: what is set, what is not their base, and how many have one.
  struct Columns {
    Index set = 0, off = 0, base = 0;
  };
  // The base of a column is what it has most often, zero or the first other value in it.
  Columns survey_columns(Index rows, Index depth) {
    Mask none{}, most{}, based{};  // lanes count down
    base_ = columns_;
    for (Index k = 0; k < depth; k += kLanes<T>) {
      const T* from = square_ + k;
      Vector other{};
      for (Index i = 0; i < rows; ++i) {
        const Vector x = L::load(from + i * kDepth);
        other = other == Vector{} ? x : other;
      }
      other = (other >= -kLargest) & (other <= kLargest) ? other : Vector{};
      Mask zeros{}, equal{};
      for (Index i = 0; i < rows; ++i) {
        const Vector x = L::load(from + i * kDepth);
        zeros += x == Vector{};
        equal += x == other;
      }
      L::store(columns_ + k, equal < zeros ? other : Vector{});
      none += zeros;
      most += equal < zeros ? equal : zeros;
      based += equal < zeros;
    }
    const Index all = rows * round_up(depth, kLanes<T>);  // what was filled up, is zero
    return {all + total(none), all + total(most), -total(based)};
  }
  static Index total(Mask m) {
    Index n = 0;
    for (Index l = 0; l < kLanes<T>; ++l) n += m[l];
    return n;
  }
  // What is not the base of its row, zero or the first other value in it. Long rows cost what dense ones
  // do, no more than half of them would.
  Index off_rows(Index rows, Index depth) const {
    Index n = 0;
    for (Index i = 0; i < rows; ++i) {
      const T* row = square_ + i * kDepth;
      const Bits set = differing(row, depth, T(0), kOnes.data());
      const Bits off = differing(row, depth, common_value(row, set), kOnes.data());
      n += std::min({set.count(), off.count(), (depth + 1) / 2});
    }
    return n;
  }

  // A bit per entry of a row.
  struct Bits {
    std::uint64_t word[(kDepth + 63) / 64] = {};
    Index count() const {
      Index n = 0;
      for (const std::uint64_t w : word) n += __builtin_popcountll(w);
      return n;
    }
  };
  static T common_value(const T* a, const Bits& set) {
    Index k = 0;
    for (const std::uint64_t w : set.word) {
      if (w != 0) {
        const T x = a[k + __builtin_ctzll(w)];
        return x >= -kLargest && x <= kLargest ? x : T(0);
      }
      k += 64;
    }
    return T(0);
  }
  // Entries of a row that are not f·β.
  static Bits differing(const T* a, Index depth, T f, const T* base) {
    Bits out;
    for (Index first = 0; first < depth; first += 64) {
      std::uint64_t bits = 0;
      const Index last = std::min(depth, first + 64);
      Index k = first;
      for (; k + 8 <= last; k += 8) bits |= std::uint64_t{eight(a + k, f, base + k)} << (k - first);
      for (; k < last; ++k) bits |= std::uint64_t{a[k] != f * base[k] ? 1U : 0U} << (k - first);
      out.word[first / 64] = bits;
    }
    return out;
  }
  static unsigned eight(const T* a, T f, const T* base) {
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 4) {
      const __m256 x = _mm256_mul_ps(_mm256_set1_ps(f), _mm256_loadu_ps(base));
      return static_cast<unsigned>(_mm256_movemask_ps(_mm256_cmp_ps(_mm256_loadu_ps(a), x, _CMP_NEQ_UQ)));
    }
#endif
    unsigned bits = 0;
    for (unsigned l = 0; l < 8; ++l) bits |= (a[l] != f * base[l] ? 1U : 0U) << l;
    return bits;
  }

  // The list of a row from the base or, where that leaves as much of it, from zero.
  Index list_less(Base kind, const T* a, Index depth, Index row) {
    Bits set;
    T f = 1;
    if (kind == Base::OfRows) {
      set = differing(a, depth, T(0), base_);
      f = 2 * set.count() > depth ? common_value(a, set) : T(0);  // at least depth − set would be left
    }
    const Index n = list_row(a, depth, f, row);
    if (f == T(0) || 2 * n < entries_) return n;  // at least entries − n are set
    if (kind == Base::OfColumns) set = differing(a, depth, T(0), base_);
    return n < set.count() ? n : list_row(a, depth, T(0), row);
  }

  Index list_row(const T* __restrict a, Index depth, T f, Index row) {
    factor_[row] = f;
    // Without a branch: where spikes fall cannot be foretold. Lists have room for a vector more.
    T* __restrict value = value_ + row * kRoom;
    std::int32_t* __restrict place = place_ + row * kRoom;
    Index n = 0, k = 0;
#if defined(__AVX2__)
    if constexpr (sizeof(T) == 4) {
      const __m256 factor = _mm256_set1_ps(f);
      for (; k + 8 <= depth; k += 8) {
        const __m256 x =
            _mm256_sub_ps(_mm256_loadu_ps(a + k), _mm256_mul_ps(factor, _mm256_loadu_ps(base_ + k)));
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
      value[n] = a[k] - f * base_[k];
      place[n] = static_cast<std::int32_t>(k);
      n += value[n] != T(0) ? 1 : 0;
    }
    return n;
  }

  T square_[kRows * kDepth];  // of A, rows contiguous
  T value_[kRows * kRoom];
  T columns_[kDepth];  // of them the base
  const T* base_;      // β
  Index entries_;      // of β that are not zero
  T factor_[kRows];
  std::int32_t place_[kRows * kRoom];
  std::int32_t size_[kRows];
};

}  // namespace etrace
