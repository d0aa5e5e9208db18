// The matrix product where most of A is zero, as with spikes: in blocks of depth,
// C[m,:] (+)= Σ_k A[m,k]·B[k,:] over the k at which A is not zero, in ascending order (event_rows.h). Which
// way is taken is decided at every call by a count over a part of A.
//
// Terms that are left out are fma(0, b, c) = c for finite b, so the result has the bits of the dense product
// (runtime/etp_gemm.h): they could change the sign of a zero alone, and no result is −0. A panel of B that
// holds an infinity or a NaN is multiplied as dense: 0·∞ must give NaN..
#pragma once

#include "kernels/event_rows.h"

namespace etrace {

template <class T>
class EventProduct {
 public:
  using Rows = EventRows<T>;
  using Index = typename Rows::Index;
  using Factor = typename Rows::Factor;

  // C[i, j] = c[i·c_row + j], i over the rows of A, B[k, j] = b[k·b_row + j]. The rows [first, last) of C are
  // written; what is decided is so for all rows of A.
  struct Operands {
    Index rows, columns, depth;
    Factor a;
    const T* b;
    Index b_row;
    T* c;
    Index c_row, first, last;
    bool accumulate;
  };

  // Whether a product of these sizes, of all rows, could gain: enough rows to outweigh the look at all of B,
  // and rows of B that are contiguous and long.
  static bool fits(Index rows, Index columns, Index depth, Index b_column) {
    return b_column == 1 && rows >= Rows::kRowsAtLeast && columns >= kPanel && depth > 0;
  }
  static std::size_t scratch_bytes() { return sizeof(Scratch); }

  // dense(m, n, k, a, b, c, accumulate) multiplies a part as dense.
  template <class Dense>
  static void multiply(const Operands& o, void* scratch, const Dense& dense) {
    Scratch& s = *static_cast<Scratch*>(scratch);
    Index done = 0;  // of depth; blocks that are dense wait, to be multiplied together
    const auto as_dense = [&](Index k) {
      if (done < k)
        dense(o.last - o.first, o.columns, k - done, o.a.from(o.first, done).data, o.b + done * o.b_row,
              o.c + o.first * o.c_row, o.accumulate || done > 0);
    };
    for (Index k0 = 0; k0 < o.depth; k0 += Rows::kDepth) {
      const Index k = std::min(Rows::kDepth, o.depth - k0);
      if (!s.rows.is_sparse(o.rows, k, o.a.from(0, k0))) continue;
      as_dense(k0);
      add_block(o, k0, k, s, dense);
      done = k0 + k;
    }
    as_dense(o.depth);
  }

 private:
  static constexpr Index kVectors = std::min(8, 256 / ETP_VBYTES);  // of C in registers
  static constexpr Index kPanel = kVectors * kLanes<T>;             // columns
  static constexpr Index kAhead = 3, kLine = 64 / static_cast<Index>(sizeof(T));

  // A panel of B stays in the first cache, rows contiguous (in place they are often a power of two apart, and
  // fall into few sets of a cache).
  struct Scratch {
    T panel[Rows::kDepth * kPanel];
    Rows rows;
  };

  template <class Dense>
  static void add_block(const Operands& o, Index k0, Index k, Scratch& s, const Dense& dense) {
    const bool add = o.accumulate || k0 > 0;
    const Index whole = o.columns / kPanel * kPanel;
    const T* b = o.b + k0 * o.b_row;
    for (Index m0 = o.first; m0 < o.last; m0 += Rows::kRows) {
      const Index m = std::min(Rows::kRows, o.last - m0);
      const Factor a = o.a.from(m0, k0);
      s.rows.list(m, k, a);
      for (Index n = 0; n < whole; n += kPanel) {
        T* c = o.c + m0 * o.c_row + n;
        const bool finite = pack(b + n, o.b_row, k, s.panel);
        for (Index i = 0, end; i < m; i = end) {
          end = i + 1;
          if (finite && !s.rows.is_long(i)) {
            // Rows of C are often a power of two apart, and B comes from afar: both are fetched ahead.
            if (i + kAhead < m) fetch(c + (i + kAhead) * o.c_row);
            if (i < k && n + kPanel < whole) fetch(b + n + kPanel + i * o.b_row);
            sum_row(s, i, c + i * o.c_row, add);
            continue;
          }
          while (end < m && (!finite || s.rows.is_long(end))) ++end;
          dense(end - i, kPanel, k, a.from(i, 0).data, b + n, c + i * o.c_row, add);
        }
      }
    }
    if (whole < o.columns)
      dense(o.last - o.first, o.columns - whole, k, o.a.from(o.first, k0).data, b + whole,
            o.c + o.first * o.c_row + whole, add);
  }

  static void fetch(const T* row) {
    for (Index j = 0; j < kPanel; j += kLine) __builtin_prefetch(row + j);
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

  static void sum_row(const Scratch& s, Index row, T* c, bool add) {
    using L = Lanes<T>;
    VectorOf<T> sum[kVectors] = {};
    if (add) {
      ETP_UNROLL for (Index v = 0; v < kVectors; ++v) sum[v] = L::load(c + v * kLanes<T>);
    }
    const std::int32_t* place = s.rows.place(row);
    const T* value = s.rows.value(row);
    for (Index i = 0, n = s.rows.size(row); i < n; ++i) {
      const VectorOf<T> factor = splat(value[i]);
      const T* from = s.panel + place[i] * kPanel;
      ETP_UNROLL for (Index v = 0; v < kVectors; ++v) sum[v] =
          L::fma(factor, L::load(from + v * kLanes<T>), sum[v]);
    }
    // No −0, as in the dense product.
    ETP_UNROLL for (Index v = 0; v < kVectors; ++v) L::store(c + v * kLanes<T>, sum[v] + VectorOf<T>{});
  }
};

}  // namespace etrace
