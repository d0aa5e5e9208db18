// One step of a trace where the anchors of a row lie side by side and the row has one source, as in every
// dense weight:
//   g (+)= u·e + x·w,   e ← D·e + x·f        D [M, M], e, f, u [M] at every column, M = 1 or 2
// Nothing lies in between. A block of rows is passed sample by sample, so that what belongs to the anchors
// and the block's gradient stay in the caches while the trace streams by. (Several rows at once would load
// less, but lose more: rows are often a power of two apart.) Every sum has one order, whatever the blocks.
// Private to ops/.
#pragma once

#include <algorithm>

#include "ops/trace_geometry.h"
#include "runtime/etp_gemm.h"

namespace etrace::trace {

template <class T>
class DirectPass {
 public:
  DirectPass(const Geometry& g, const Buffers<T>& b)
      : g_(g), b_(b), e_(reinterpret_cast<const T*>(b.trace)), out_(reinterpret_cast<T*>(b.next)) {}

  static bool fits(const Geometry& g, const Layout& at, const Storage<T>& storage) {
    return storage.load == nullptr && !g.gathered() && g.steps == 1 && g.states <= 2 &&
           g.column.anchor == 1 && !g.shared && !at.gain && (!at.source || g.column.source == 0) &&
           at.entry.has_value() == at.weighted.has_value();
  }

  // A stretch of rows of the matrix that starts at the given slot, source element, anchor and parameter.
  void rows(Index first, Index last, Index slot, const Axis& at) const {
    constexpr Index kNear = 32 * 1024;  // bytes of the gradient that stay near while the samples pass
    const Index row_bytes = g_.column.size * static_cast<Index>(sizeof(T));
    const Index block = std::max<Index>(1, kNear / std::max<Index>(row_bytes, 1));
    for (Index r0 = first; r0 < last; r0 += block)
      for (Index b = 0; b < g_.batch; ++b)
        for (Index r = r0; r < std::min(last, r0 + block); ++r) row(r, slot, at, b);
  }

 private:
  void row(Index r, Index slot, const Axis& at, Index b) const {
    if (b_.gradient == nullptr)
      g_.states == 1 ? row_of<1, false, false>(r, slot, at, b) : row_of<2, false, false>(r, slot, at, b);
    else if (b == 0)
      g_.states == 1 ? row_of<1, true, true>(r, slot, at, b) : row_of<2, true, true>(r, slot, at, b);
    else
      g_.states == 1 ? row_of<1, true, false>(r, slot, at, b) : row_of<2, true, false>(r, slot, at, b);
  }

  // Pointers to the first column, of state 0; state 1 is one stride on.
  struct Line {
    const T *d, *f, *u, *w, *e;
    T *out, *g;
    Index state, slots;  // strides of what belongs to anchors, and of the trace
    T x;
  };

  // Columns [j, j + lanes): V is a vector, or T for what is left over. All reads come before the writes.
  template <class V, int M, bool Gradient, bool First>
  static inline __attribute__((always_inline)) void columns(const Line& l, Index j) {
    const auto at = [j](const T* p) { return *reinterpret_cast<const V*>(p + j); };
    const auto put = [j](T* p, const V& v) { *reinterpret_cast<V*>(p + j) = v; };
    const V e0 = at(l.e);
    if constexpr (M == 1) {
      const V next = at(l.d) * e0 + l.x * at(l.f);
      if constexpr (Gradient) {
        const V sum = at(l.u) * e0 + l.x * at(l.w);
        put(l.g, First ? sum : at(l.g) + sum);
      }
      put(l.out, next);
    } else {
      const V e1 = at(l.e + l.slots);
      const V next0 = at(l.d) * e0 + at(l.d + l.state) * e1 + l.x * at(l.f);
      const V next1 = at(l.d + 2 * l.state) * e0 + at(l.d + 3 * l.state) * e1 + l.x * at(l.f + l.state);
      if constexpr (Gradient) {
        const V sum = at(l.u) * e0 + at(l.u + l.state) * e1 + l.x * at(l.w);
        put(l.g, First ? sum : at(l.g) + sum);
      }
      put(l.out, next0);
      put(l.out + l.slots, next1);
    }
  }

  template <int M, bool Gradient, bool First>
  void row_of(Index r, Index slot, const Axis& at, Index b) const {
    using Vector __attribute__((vector_size(ETP_VBYTES), aligned(sizeof(T)), may_alias)) = T;
    constexpr Index kLanes = ETP_VBYTES / sizeof(T);
    const Index n = g_.column.size;
    const Index p = b * g_.positions + at.anchor + r * g_.row.anchor;
    const Index start = b * M * g_.slots + slot + r * n;
    const Line l{
        b_.transition + p,
        b_.injection + p,
        Gradient ? b_.entry + p : nullptr,
        Gradient ? b_.weighted + p : nullptr,
        e_ + start,
        out_ + start,
        Gradient ? b_.gradient + at.parameter + r * g_.row.parameter : nullptr,
        g_.batch * g_.positions,
        g_.slots,
        g_.elements == 0 ? T(1) : b_.source[b * g_.elements + at.source + r * g_.row.source],
    };
    Index j = 0;
    for (; j + kLanes <= n; j += kLanes) columns<Vector, M, Gradient, First>(l, j);
    for (; j < n; ++j) columns<T, M, Gradient, First>(l, j);
  }

  const Geometry& g_;
  const Buffers<T>& b_;
  const T* e_;
  T* out_;
};

}  // namespace etrace::trace
