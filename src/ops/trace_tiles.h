// Many steps of a trace where the anchors of a row lie side by side and the row has one source, as in every
// dense weight:
//   g (+)= u·e,   e ← D·e + Σ_k x_k·f_k        D [M, M], e, f_k, u [M] at every column, M = 1 or 2
// (what the steps of the window themselves add to g is one matrix product, made beforehand). The sum over k
// is held in registers for a tile of rows and columns and meets the trace there, which is read once, written
// once, and streams by row after row. f of one sample is brought into the order in which tiles read it and
// stays in the second cache for a block of rows, beside the gradient of the block. Where few x are not zero,
// as with spikes, rows are summed one by one over those that are not: the same bits, since 0·f adds nothing.
// Every sum has one order, whatever the blocks. Private to ops/.
#pragma once

#include <algorithm>

#include "ops/trace_geometry.h"
#include "runtime/etp_gemm.h"

namespace etrace::trace {

template <class T>
class TilePass {
 public:
  // Scratch: scratch_elements().
  TilePass(const Geometry& g, const Buffers<T>& b, T* scratch)
      : g_(g),
        b_(b),
        e_(reinterpret_cast<const T*>(b.trace)),
        out_(reinterpret_cast<T*>(b.next)),
        panels_(scratch),
        x_(panels_ + panel_count(g) * g.steps * kPanel),
        factors_(x_ + g.steps * kRows),
        sums_(factors_ + g.steps) {}

  static bool fits(const Geometry& g, const Layout& at, const Storage<T>& storage) {
    return storage.load == nullptr && !g.gathered() && g.states <= 2 && g.elements > 0 && !g.shared &&
           !at.gain && g.column.source == 0 && g.column.anchor == 1 && g.row.anchor == 0 &&
           (g.column.parameter == 1 || !at.entry);
  }
  static Index scratch_elements(const Geometry& g) {
    return panel_count(g) * g.steps * kPanel + g.steps * (kRows + 2) + kRows * kPanel;
  }

  // A stretch of rows of the matrix that starts at the given slot, source element, anchor and parameter; the
  // gradient is there already, but for what the old trace adds.
  void rows(Index first, Index last, Index slot, const Axis& at) {
    for (Index r0 = first; r0 < last; r0 += kBlock)
      for (Index b = 0; b < g_.batch; ++b) {
        pack(at, b);
        for (Index r = r0; r < std::min(last, r0 + kBlock); r += kRows)
          g_.states == 1 ? tile<1>(r, std::min(kRows, last - r), slot, at, b)
                         : tile<2>(r, std::min(kRows, last - r), slot, at, b);
      }
  }

 private:
  using Vector __attribute__((vector_size(ETP_VBYTES), aligned(sizeof(T)), may_alias)) = T;
  static constexpr Index kLanes = ETP_VBYTES / sizeof(T);
  static constexpr Index kPanel = ETP_TILE_V * kLanes;  // numbers of one step in a tile: columns × states
  static constexpr Index kRows = ETP_TILE_R;
  static constexpr Index kBlock = 20 * kRows;

  static Index panel_count(const Geometry& g) {
    const Index columns = kPanel / g.states;
    return (g.column.size + columns - 1) / columns;
  }

  // f of one sample, as [panel][k][state][column], zeros behind the last column.
  void pack(const Axis& at, Index b) {
    const Index columns = kPanel / g_.states, all = g_.batch * g_.positions;
    T* to = panels_;
    for (Index c = 0; c < g_.column.size; c += columns) {
      const Index n = std::min(columns, g_.column.size - c);
      for (Index k = 0; k < g_.steps; ++k)
        for (Index a = 0; a < g_.states; ++a, to += columns) {
          const T* from = b_.injection + (k * g_.states + a) * all + b * g_.positions + at.anchor + c;
          std::copy_n(from, n, to);
          std::fill_n(to + n, columns - n, T(0));
        }
    }
    Vector zeros{};  // 0·f, unless an f is not finite: then zeros must not be left out, since 0·∞ is NaN
    for (const T* p = panels_; p < to; p += kLanes) zeros += *reinterpret_cast<const Vector*>(p) * T(0);
    finite_ = true;
    for (Index i = 0; i < kLanes; ++i) finite_ = finite_ && zeros[i] == T(0);
  }

  // x of the rows of a tile, as [k][row], zeros behind the last row; how many are not zero.
  Index gather(Index r, Index count, const Axis& at, Index b) {
    const T* from = b_.source + b * g_.elements + at.source + r * g_.row.source;
    Index set = 0;
    for (Index k = 0; k < g_.steps; ++k, from += g_.batch * g_.elements)
      for (Index i = 0; i < kRows; ++i) {
        const T x = i < count ? from[i * g_.row.source] : T(0);
        x_[k * kRows + i] = x;
        set += x != T(0) ? 1 : 0;
      }
    return set;
  }

  template <int M>
  void tile(Index r, Index count, Index slot, const Axis& at, Index b) {
    constexpr Index kColumns = kPanel / M;
    const bool few = gather(r, count, at, b) * 4 <= g_.steps * count && finite_;
    const Index n = g_.column.size, all = g_.batch * g_.positions, p = b * g_.positions + at.anchor;
    Line l{b_.transition + p,
           b_.entry == nullptr ? nullptr : b_.entry + p,
           nullptr,
           nullptr,
           nullptr,
           nullptr,
           all,
           g_.slots};
    const auto finish = [&](Index i, Index c, const T* sums) __attribute__((always_inline)) {
      const Index start = b * M * g_.slots + slot + (r + i) * n;
      l.e = e_ + start, l.out = out_ + start, l.sums = sums - c;
      if (b_.gradient != nullptr) l.g = b_.gradient + at.parameter + (r + i) * g_.row.parameter;
      Index j = c;
      for (; j + kLanes <= std::min(n, c + kColumns); j += kLanes) columns<Vector, M>(l, j);
      for (; j < std::min(n, c + kColumns); ++j) columns<T, M>(l, j);
      __builtin_prefetch(l.e + kRows * n + c, 1);
      if (M == 2) __builtin_prefetch(l.e + g_.slots + kRows * n + c, 1);
    };
    const T* panel = panels_;
    if (!few) {
      for (Index c = 0; c < n; c += kColumns, panel += g_.steps * kPanel) {
        sum_tile(panel);
        for (Index i = 0; i < count; ++i) finish(i, c, sums_ + i * kPanel);
      }
      return;
    }
    for (Index i = 0; i < count; ++i) {
      const Index set = list_steps(i);
      panel = panels_;
      for (Index c = 0; c < n; c += kColumns, panel += g_.steps * kPanel) {
        sum_row(panel, set);
        finish(i, c, sums_);
      }
    }
  }

  // sums[row] = Σ_k x[k][row]·panel[k]
  void sum_tile(const T* panel) {
    Vector s[kRows][ETP_TILE_V] = {};
    const T* x = x_;
    for (Index k = 0; k < g_.steps; ++k, x += kRows, panel += kPanel) {
      Vector f[ETP_TILE_V];
      ETP_UNROLL for (int v = 0; v < ETP_TILE_V; ++v) f[v] =
          *reinterpret_cast<const Vector*>(panel + v * kLanes);
      ETP_UNROLL for (int i = 0; i < kRows; ++i) {
        const Vector factor = x[i] - Vector{};  // broadcast
        ETP_UNROLL for (int v = 0; v < ETP_TILE_V; ++v) s[i][v] = fma(factor, f[v], s[i][v]);
      }
    }
    ETP_UNROLL for (int i = 0; i < kRows; ++i) {
      ETP_UNROLL for (int v = 0; v < ETP_TILE_V; ++v) *
          reinterpret_cast<Vector*>(sums_ + i * kPanel + v * kLanes) = s[i][v];
    }
  }

  // The steps in which x of row i is not zero.
  Index list_steps(Index i) {
    Index set = 0;
    for (Index k = 0; k < g_.steps; ++k) {
      const T x = x_[k * kRows + i];
      factors_[set] = x;
      listed()[set] = static_cast<std::int32_t>(k);
      set += x != T(0) ? 1 : 0;
    }
    return set;
  }
  std::int32_t* listed() const { return reinterpret_cast<std::int32_t*>(sums_ + kRows * kPanel); }

  // sums = Σ x·panel[k] over those steps
  void sum_row(const T* panel, Index set) {
    Vector s[ETP_TILE_V] = {};
    for (Index q = 0; q < set; ++q) {
      const T* f = panel + listed()[q] * kPanel;
      const Vector factor = factors_[q] - Vector{};
      ETP_UNROLL for (int v = 0; v < ETP_TILE_V; ++v) s[v] =
          fma(factor, *reinterpret_cast<const Vector*>(f + v * kLanes), s[v]);
    }
    ETP_UNROLL for (int v = 0; v < ETP_TILE_V; ++v) * reinterpret_cast<Vector*>(sums_ + v * kLanes) = s[v];
  }

  static inline __attribute__((always_inline)) Vector fma(Vector a, Vector b, Vector c) {
    if constexpr (sizeof(T) == 4)
      return ETP_VFMA_f32(a, b, c);
    else
      return ETP_VFMA_f64(a, b, c);
  }

  // Pointers to column 0, of state 0; state 1 is one stride on. `sums` holds the states of a tile in turn.
  struct Line {
    const T *d, *u, *sums, *e;
    T *out, *g;
    Index state, slots;  // strides of what belongs to anchors, and of the trace
  };

  // Columns [j, j + lanes): V is a vector, or T for what is left over. All reads come before the writes.
  template <class V, int M>
  static inline __attribute__((always_inline)) void columns(const Line& l, Index j) {
    const auto at = [j](const T* p) { return *reinterpret_cast<const V*>(p + j); };
    const auto put = [j](T* p, const V& v) { *reinterpret_cast<V*>(p + j) = v; };
    const V e0 = at(l.e);
    if constexpr (M == 1) {
      const V next = at(l.d) * e0 + at(l.sums);
      if (l.g != nullptr) put(l.g, at(l.g) + at(l.u) * e0);
      put(l.out, next);
    } else {
      const V e1 = at(l.e + l.slots);
      const V next0 = at(l.d) * e0 + at(l.d + l.state) * e1 + at(l.sums);
      const V next1 = at(l.d + 2 * l.state) * e0 + at(l.d + 3 * l.state) * e1 + at(l.sums + kPanel / M);
      if (l.g != nullptr) put(l.g, at(l.g) + (at(l.u) * e0 + at(l.u + l.state) * e1));
      put(l.out, next0);
      put(l.out + l.slots, next1);
    }
  }

  const Geometry& g_;
  const Buffers<T>& b_;
  const T* e_;
  T* out_;
  T *panels_, *x_, *factors_, *sums_;
  bool finite_ = true;  // all that has been packed
};

}  // namespace etrace::trace
