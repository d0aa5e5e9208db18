// One step of a trace where the anchors of a row lie side by side and the row has one source, as in every
// dense weight:
//   g = (G +) Σ_b (u·e + x·w),   e ← D·e + x·f        D [M, M], e, f, u [M] at every column, M = 1 or 2
// The trace is read once and written once, as it streams by; so this is bound by memory if all else stays in
// the nearest cache. What belongs to the anchors (D, f, u, w) is packed first, in the order in which columns
// read it: side by side in memory it would lie a power of two apart, in the same few sets of the cache. Four
// streams run at a time, each one long and in order, as the hardware fetches ahead: two rows that lie half a
// block apart share what belongs to their anchors, two samples (or the two states of one) share the sum.
// The sums of a block of rows stay near until all samples have passed, and then meet the gradient so far.
// Every sum has one order, whatever the blocks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>

#include "kernels/trace_geometry.h"
#include "runtime/etp_gemm.h"

namespace etrace::trace_pass {

template <class T>
class DirectPass {
 public:
  // `packed` has packed_elements() for all threads, `sums` sum_elements() for this one.
  DirectPass(const Geometry& g, const Buffers<T>& b, T* packed, T* sums)
      : g_(g), b_(b), packed_(packed), sums_(sums) {}

  // Whether what belongs to the anchors is packed: it must serve many rows.
  static bool packs(const Geometry& g) {
    return g.row.anchor == 0 && g.row.size >= 8 && g.matrices * g.column.size <= g.positions;
  }
  static Index packed_elements(const Geometry& g, bool gradient) {
    return packs(g) ? g.matrices * g.batch * sample_elements(g, gradient) : 0;
  }
  static Index sum_elements(const Geometry& g) { return block_of(g) * g.column.size; }

  // D, f, u, w of one sample of a matrix whose anchors start at the given one, as
  // [column / lanes][coefficient][lane], zeros behind the last column.
  void pack(Index matrix, Index anchor, Index b) const {
    const Index n = g_.column.size, m = g_.states, all = g_.batch * g_.positions;
    T* to = packed_at(matrix, b);
    for (Index j = 0; j < n; j += kLanes) {
      const Index p = b * g_.positions + anchor + j, count = std::min(kLanes, n - j);
      const auto add = [&](const T* from) {
        if (count == kLanes) {
          put(to, at<Vector>(from));
        } else {
          std::copy_n(from, count, to);
          std::fill_n(to + count, kLanes - count, T(0));
        }
        to += kLanes;
      };
      for (Index i = 0; i < m * m; ++i) add(b_.transition + i * all + p);
      for (Index i = 0; i < m; ++i) add(b_.injection + i * all + p);
      if (!gradient()) continue;
      for (Index i = 0; i < m; ++i) add(b_.entry + i * all + p);
      add(b_.weighted + p);
    }
  }

  // A stretch of rows of the matrix that starts at the given slot, source element, anchor and parameter.
  void rows(Index first, Index last, Index slot, const Axis& at) const {
    const Index block = block_of(g_);
    for (Index r0 = first; r0 < last; r0 += block) {
      const Stretch s{r0, std::min(block, last - r0), slot, at};
      if (g_.states == 1)
        gradient() ? samples<1, true>(s) : samples<1, false>(s);
      else
        gradient() ? samples<2, true>(s) : samples<2, false>(s);
    }
  }

 private:
  using Vector = std::conditional_t<sizeof(T) == 4, etp_v_f32, etp_v_f64>;
  static constexpr Index kLanes = ETP_VBYTES / sizeof(T);
  static constexpr Index kRoom = 256;        // columns, whole vectors
  static constexpr Index kNear = 32 * 1024;  // bytes of sums that stay near while the samples pass

  struct Stretch {
    Index first, count, slot;
    const Axis& at;
  };
  // Rows of samples that run together: R of them, of S samples. Pointers to column 0 of the first.
  struct Lines {
    const T *packed, *d, *f, *u, *w;  // what belongs to the anchors: packed, or as it is
    const T* e;
    T* out;
    const T *so_far, *total;  // may be null
    T* g;
    T x[2][2];                                                                  // [sample][row]
    Index state, slots, sample, row, packed_sample, sum_row, total_row, g_row;  // strides
  };
  template <class V, int M>
  struct AtColumns;
  template <class V>
  struct AtColumns<V, 1> {
    V d, f, u, w;
  };
  template <class V>
  struct AtColumns<V, 2> {
    V d00, d01, d10, d11, f0, f1, u0, u1, w;
  };

  bool gradient() const { return b_.gradient != nullptr; }
  static Index block_of(const Geometry& g) {
    return std::max<Index>(2, kNear / std::max<Index>(g.column.size * static_cast<Index>(sizeof(T)), 1));
  }
  static constexpr Index coefficients(Index m, bool gradient) { return m * m + m + (gradient ? m + 1 : 0); }
  static Index sample_elements(const Geometry& g, bool gradient) {
    return (g.column.size + kLanes - 1) / kLanes * kLanes * coefficients(g.states, gradient);
  }
  T* packed_at(Index matrix, Index b) const {
    return packed_ + (matrix * g_.batch + b) * sample_elements(g_, gradient());
  }

  template <int M, bool Gradient>
  void samples(const Stretch& s) const {
    if (!packs(g_)) {
      for (Index b = 0; b < g_.batch; ++b)
        for (Index r = s.first; r < s.first + s.count; ++r) run<M, 1, 1, Gradient, false>(s, r, 0, b);
      return;
    }
    Index b = 0;
    if constexpr (M == 1)
      for (; b + 2 <= g_.batch; b += 2) two_by_two<M, 2, Gradient>(s, b);
    for (; b < g_.batch; ++b) two_by_two<M, 1, Gradient>(s, b);
  }
  template <int M, int S, bool Gradient>
  void two_by_two(const Stretch& s, Index b) const {
    const Index half = s.count / 2;
    for (Index r = s.first; r < s.first + half; ++r) run<M, 2, S, Gradient, true>(s, r, half, b);
    if (s.count % 2 != 0) run<M, 1, S, Gradient, true>(s, s.first + s.count - 1, 0, b);
  }

  // Row r, with R = 2 also the one `apart` rows on, of samples b to b + S - 1.
  template <int M, int R, int S, bool Gradient, bool Packed>
  void run(const Stretch& s, Index r, Index apart, Index b) const {
    const Index n = g_.column.size;
    const Index p = b * g_.positions + s.at.anchor + r * g_.row.anchor;
    const Index start = b * M * g_.slots + s.slot + r * n;
    Lines l{};
    if (Packed) {
      l.packed = packed_at(s.slot / (g_.row.size * n), b);
      l.packed_sample = sample_elements(g_, Gradient);
    } else {
      l.d = b_.transition + p, l.f = b_.injection + p;
      if (Gradient) l.u = b_.entry + p, l.w = b_.weighted + p;
    }
    l.state = g_.batch * g_.positions, l.slots = g_.slots, l.sample = M * g_.slots, l.row = apart * n;
    for (Index i = 0; i < S; ++i)
      for (Index q = 0; q < R; ++q)
        l.x[i][q] = g_.elements == 0
                        ? T(1)
                        : b_.source[(b + i) * g_.elements + s.at.source + (r + q * apart) * g_.row.source];
    if (Gradient) {
      T* sums = sums_ + (r - s.first) * n;
      const Index place = s.at.parameter + r * g_.row.parameter;
      const bool last = b + S == g_.batch;
      l.so_far = b == 0 ? nullptr : sums, l.sum_row = apart * n;
      l.g = last ? b_.gradient + place : sums;
      l.g_row = last ? apart * g_.row.parameter : l.sum_row;
      l.total = last && b_.total != nullptr ? b_.total + place : nullptr;
      l.total_row = apart * g_.row.parameter;
    }
    if (b_.as_computed()) {
      l.e = reinterpret_cast<const T*>(b_.trace) + start, l.out = reinterpret_cast<T*>(b_.next) + start;
      stretch<M, R, S, Gradient, Packed>(l, 0, n);
      return;
    }
    // A trace in another type than that of the sums passes through room for some columns of every stream.
    alignas(64) T room[4 * kRoom];
    const Lines far = l;
    l.slots = kRoom, l.row = M * kRoom, l.sample = R * M * kRoom;
    for (Index c = 0; c < n; c += kRoom) {
      const Index count = std::min(kRoom, n - c);
      const auto for_streams = [&](const auto& f) {
        T* near = room;
        for (Index i = 0; i < S; ++i)
          for (Index q = 0; q < R; ++q)
            for (Index a = 0; a < M; ++a, near += kRoom)
              f(static_cast<std::size_t>(start + c + i * far.sample + q * far.row + a * far.slots) *
                    b_.storage.bytes,
                near);
      };
      for_streams([&](std::size_t at, T* near) { b_.load(b_.trace + at, count, near); });
      l.e = l.out = room - c;
      l.packed = stretch<M, R, S, Gradient, Packed>(l, c, c + count);
      for_streams([&](std::size_t at, T* near) { b_.store(near, count, b_.next + at); });
    }
  }

  // Columns [j, end); only at the last one of a row is there a vector that is not full. Gives back where the
  // packed coefficients go on. The lines are copied: what nobody else can reach stays in registers from
  // column to column.
  template <int M, int R, int S, bool Gradient, bool Packed>
  static const T* stretch(const Lines& lines, Index j, Index end) {
    Lines l = lines;
    constexpr Index kStep = kLanes * coefficients(M, Gradient);
    for (; j + kLanes <= end; j += kLanes, l.packed += kStep)
      columns<Vector, M, R, S, Gradient, Packed>(l, j);
    for (; j < end; ++j, ++l.packed) columns<T, M, R, S, Gradient, Packed>(l, j);
    return l.packed;
  }

  // Columns [j, j + lanes): V is a vector, or T for what is left over.
  template <class V, int M, int R, int S, bool Gradient, bool Packed>
  static inline __attribute__((always_inline)) void columns(const Lines& l, Index j) {
    V sum0{}, sum1{};
    if (Gradient && l.so_far != nullptr) {
      sum0 = at<V>(l.so_far + j);
      if (R == 2) sum1 = at<V>(l.so_far + l.sum_row + j);
    }
    for_sample<V, M, R, Gradient, Packed>(l, 0, j, sum0, sum1);
    if constexpr (S == 2) for_sample<V, M, R, Gradient, Packed>(l, 1, j, sum0, sum1);
    if (!Gradient) return;
    if (l.total != nullptr) {
      sum0 = at<V>(l.total + j) + sum0;
      if (R == 2) sum1 = at<V>(l.total + l.total_row + j) + sum1;
    }
    put(l.g + j, sum0);
    if (R == 2) put(l.g + l.g_row + j, sum1);
  }

  template <class V, int M, int R, bool Gradient, bool Packed>
  static inline __attribute__((always_inline)) void for_sample(const Lines& l, int sample, Index j, V& sum0,
                                                               V& sum1) {
    const AtColumns<V, M> c = coefficients_at<V, M, Gradient, Packed>(l, sample, j);
    const Index place = sample * l.sample + j;
    advance<V, Gradient>(c, l.e + place, l.out + place, l.slots, l.x[sample][0], sum0);
    if constexpr (R == 2)
      advance<V, Gradient>(c, l.e + l.row + place, l.out + l.row + place, l.slots, l.x[sample][1], sum1);
  }

  template <class V, int M, bool Gradient, bool Packed>
  static inline __attribute__((always_inline)) AtColumns<V, M> coefficients_at(const Lines& l, int sample,
                                                                               Index j) {
    const T* packed = l.packed + sample * l.packed_sample;
    const auto coefficient = [&](const T* as_it_is, Index state, Index number) {
      return Packed ? at<V>(packed + number * kLanes) : at<V>(as_it_is + state * l.state + j);
    };
    AtColumns<V, M> c;
    if constexpr (M == 1) {
      c.d = coefficient(l.d, 0, 0), c.f = coefficient(l.f, 0, 1);
      if (Gradient) c.u = coefficient(l.u, 0, 2), c.w = coefficient(l.w, 0, 3);
    } else {
      c.d00 = coefficient(l.d, 0, 0), c.d01 = coefficient(l.d, 1, 1);
      c.d10 = coefficient(l.d, 2, 2), c.d11 = coefficient(l.d, 3, 3);
      c.f0 = coefficient(l.f, 0, 4), c.f1 = coefficient(l.f, 1, 5);
      if (Gradient)
        c.u0 = coefficient(l.u, 0, 6), c.u1 = coefficient(l.u, 1, 7), c.w = coefficient(l.w, 0, 8);
    }
    return c;
  }

  // All reads come before the writes.
  template <class V, bool Gradient>
  static inline __attribute__((always_inline)) void advance(const AtColumns<V, 1>& c, const T* e, T* out,
                                                            Index, T source, V& sum) {
    const V x = source - V{}, e0 = at<V>(e);
    if (Gradient) sum = fma(c.u, e0, fma(x, c.w, sum));
    put(out, fma(c.d, e0, x * c.f));
  }
  template <class V, bool Gradient>
  static inline __attribute__((always_inline)) void advance(const AtColumns<V, 2>& c, const T* e, T* out,
                                                            Index slots, T source, V& sum) {
    const V x = source - V{}, e0 = at<V>(e), e1 = at<V>(e + slots);
    if (Gradient) sum = fma(c.u0, e0, fma(c.u1, e1, fma(x, c.w, sum)));
    put(out, fma(c.d00, e0, fma(c.d01, e1, x * c.f0)));
    put(out + slots, fma(c.d10, e0, fma(c.d11, e1, x * c.f1)));
  }

  // At any address.
  template <class V>
  static inline __attribute__((always_inline)) V at(const T* p) {
    V v;
    std::memcpy(&v, p, sizeof(V));
    return v;
  }
  template <class V>
  static inline __attribute__((always_inline)) void put(T* p, const V& v) {
    std::memcpy(p, &v, sizeof(V));
  }
  template <class V>
  static inline __attribute__((always_inline)) V fma(const V& a, const V& b, const V& c) {
    if constexpr (sizeof(V) == sizeof(T))
      return std::fma(a, b, c);
    else if constexpr (sizeof(T) == 4)
      return ETP_VFMA_f32(a, b, c);
    else
      return ETP_VFMA_f64(a, b, c);
  }

  const Geometry& g_;
  const Buffers<T>& b_;
  T *packed_, *sums_;
};

}  // namespace etrace::trace_pass
