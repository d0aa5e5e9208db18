// Many steps of a trace where the anchors of a row lie side by side and the row has one source, as in every
// dense weight, with one or two states:
//   g = Σ_b (u·e + Σ_k x_k·w_k),   e ← D·e + Σ_k x_k·f_k      D [M, M], e, f_k, u [M] at every column
// Rows are passed sample by sample. f and w of a sample, and their sums over blocks of steps (trace_runs.h),
// are laid side by side and stay in the second cache while the trace streams by: it is read once and written
// once. The sums over k are held in registers: of one row for rows that are lists, of a tile of rows for the
// others. Every sum has one order, whatever the threads do.
#include <algorithm>
#include <cmath>

#include "kernels/trace_forms.h"
#include "kernels/trace_runs.h"

namespace etrace::trace_pass {

namespace {

constexpr Index kPanelBytes = 256;  // of a row, as sums are laid out: whole cache lines

template <class T>
class TilePass {
 public:
  using Vector = VectorOf<T>;
  static constexpr Index kPanel = kPanelBytes / sizeof(T);  // columns

  // Scratch: scratch_elements().
  TilePass(const Geometry& g, const Buffers<T>& b, const SourceRows<T>& x, Index panels, T* scratch)
      : g_(g),
        b_(b),
        x_(x),
        values_(g.states + (b.weighted != nullptr ? 1 : 0)),
        sums_of_blocks_(scratch),
        sums_(scratch + panels * x.blocks().count() * kMostValues * kPanel),
        spread_(sums_ + kMostRows * kMostValues * kPanel),
        moves_(spread_ + kMostRows * g.steps),
        room_(moves_ + panels * kMoves<2> * kPanel) {}

  static Index scratch_elements(const Geometry& g, Index panels) {
    return (panels * StepBlocks(g.steps).count() + kMostRows) * kMostValues * kPanel + kMostRows * g.steps +
           panels * kMoves<2> * kPanel + kMostRows * 2 * kPanel;
  }

  // Rows [first, last) of some panels of the matrix that starts at the given row of all, source, anchor and
  // parameter.
  void rows(Index first, Index last, Index first_panel, Index last_panel, Index row, const Axis& at) {
    const Index c = first_panel * kPanel, n = std::min(last_panel * kPanel, g_.column.size) - c;
    const Place p{first, last, row, c, n, at.source, at.anchor + c, at.parameter + c};
    if (g_.states == 1)
      b_.gradient == nullptr ? pass<1, 1, false>(p)
      : values_ == 1         ? pass<1, 1, true>(p)
                             : pass<1, 2, true>(p);
    else
      b_.gradient == nullptr ? pass<2, 2, false>(p)
      : values_ == 2         ? pass<2, 2, true>(p)
                             : pass<2, 3, true>(p);
  }

 private:
  static constexpr Index kWidth = kLanes<T>;
  static constexpr Index kMostValues = 3, kMostRows = ETP_TILE_R;
  template <int M>
  static constexpr int kMoves = M* M + M;  // D and u at one column

  struct Place {
    Index first, last;      // rows
    Index row;              // of the matrix among those of all
    Index column, columns;  // the first one, and how many
    Index source, anchor, parameter;
  };

  // A row of a panel: pointers to its first column, of state 0.
  struct Line {
    const T *e, *g;  // no g: the gradient begins
    T *out, *to;
    const T* moves;  // D and u, as packed
    Index slots;     // from state to state
    Index at;        // the first column among all slots
  };

  // M states, S values that are summed (f of the states, and w), with a gradient or without.
  template <int M, int S, bool G>
  void pass(const Place& p) {
    for (Index b = 0; b < g_.batch; ++b) {
      const bool lists = has_lists(p, b);
      const bool finite = pack<M, S>(p, b);  // else zeros must not be left out: 0·∞ is NaN
      pack_moves<M, G>(p, b);
      if (lists && finite) add_blocks<S>(p);
      Index open[kMostRows], count = 0;
      for (Index r = p.first; r < p.last; ++r) {
        const Index terms = x_.terms(b, p.row + r);
        if (terms >= 0 && finite) {
          list_row<M, S, G>(p, b, r, terms);
          continue;
        }
        open[count++] = r;
        if (count == tile_rows<S>()) dense_rows<M, S, G>(p, b, open, count), count = 0;
      }
      if (count > 0) dense_rows<M, S, G>(p, b, open, count);
    }
  }

  bool has_lists(const Place& p, Index b) const {
    for (Index r = p.first; r < p.last; ++r)
      if (x_.terms(b, p.row + r) > 0) return true;
    return false;
  }

  template <int S>
  T* sums_of(Index panel) const {
    return sums_of_blocks_ + panel * x_.blocks().count() * S * kPanel;
  }

  // Whole tiles, of a panel that is not full.
  static Index columns_in_use(Index n) { return round_up(n, ETP_TILE_V * kWidth); }

  // f and w of one sample as [panel][block][value][column], zeros behind the last column: blocks of one step.
  template <int M, int S>
  bool pack(const Place& p, Index b) {
    const Index all = g_.batch * g_.positions, at = b * g_.positions + p.anchor;
    Vector zeros{};  // 0·f
    for (Index c = 0; c < p.columns; c += kPanel)
      x_.blocks().for_groups([&](Index first, Index steps, Index block) {
        const Index n = std::min(kPanel, p.columns - c);
        T* to = sums_of<S>(c / kPanel) + block * S * kPanel;
        for (Index k = first; k < first + steps; ++k)
          for (int s = 0; s < S; ++s, to += kPanel) {
            const T* from = (s < M ? b_.injection + (k * M + s) * all : b_.weighted + k * all) + at + c;
            Index j = 0;
            for (; j + kWidth <= n; j += kWidth) {
              const Vector now = Lanes<T>::load(from + j);
              Lanes<T>::store(to + j, now);
              zeros += now * T(0);
            }
            for (; j < n; ++j) to[j] = from[j], zeros[0] += from[j] * T(0);
            for (; j < columns_in_use(n); ++j) to[j] = T(0);
          }
      });
    return sum_of_lanes<T>(zeros) == T(0);
  }
  // The longer blocks.
  template <int S>
  void add_blocks(const Place& p) {
    constexpr Index size = S * kPanel;
    for (Index c = 0; c < p.columns; c += kPanel) {
      const Index n = columns_in_use(std::min(kPanel, p.columns - c));
      x_.blocks().for_groups([&](Index, Index steps, Index block) {
        const T* half = sums_of<S>(c / kPanel) + block * size;
        T* to = sums_of<S>(c / kPanel) + (block + steps) * size;
        for (Index count = steps; count > 1; count /= 2) {
          for (Index i = 0; i < count / 2; ++i, half += 2 * size, to += size)
            for (int v = 0; v < S; ++v)
              for (Index j = v * kPanel; j < v * kPanel + n; j += kWidth)
                Lanes<T>::store(to + j, Lanes<T>::load(half + j) + Lanes<T>::load(half + size + j));
          half += count % 2 * size;
        }
      });
    }
  }

  // D and u of one sample as [panel][D and u][column]: in place they are often a power of two apart.
  template <int M, bool G>
  void pack_moves(const Place& p, Index b) {
    const Index all = g_.batch * g_.positions, at = b * g_.positions + p.anchor;
    for (Index c = 0; c < p.columns; c += kPanel)
      for (int i = 0; i < (G ? kMoves<M> : M * M); ++i) {
        const T* from = (i < M * M ? b_.transition + i * all : b_.entry + (i - M * M) * all) + at + c;
        std::copy_n(from, std::min(kPanel, p.columns - c), moves_ + (c / kPanel * kMoves<M> + i) * kPanel);
      }
  }

  // Row r from column c of the place on, the first one of a panel.
  template <int M, bool G>
  Line line(const Place& p, Index b, Index r, Index c) const {
    const Index start = b * M * g_.slots + (p.row + r) * g_.column.size + p.column + c;
    T* to = G ? b_.gradient + p.parameter + r * g_.row.parameter + c : nullptr;
    const T* e = reinterpret_cast<const T*>(b_.trace) + start;
    T* out = reinterpret_cast<T*>(b_.next) + start;
    return {e, b == 0 ? nullptr : to, out, to, moves_ + c * kMoves<M>, g_.slots, start};
  }

  // A trace in another type than that of the sums passes through room for a panel of each row at work.
  template <int M>
  void bring(Line& l, Index columns, T* room) const {
    for (Index a = 0; a < M; ++a)
      b_.load(b_.trace + static_cast<std::size_t>(l.at + a * g_.slots) * b_.storage.bytes, columns,
              room + a * kPanel);
    l.e = l.out = room, l.slots = kPanel;
  }
  template <int M>
  void put_back(const Line& l, Index columns) const {
    for (Index a = 0; a < M; ++a)
      b_.store(l.out + a * kPanel, columns,
               b_.next + static_cast<std::size_t>(l.at + a * g_.slots) * b_.storage.bytes);
  }

  // Rows that are lists -------------------------------------------------------------------------------------
  template <int M, int S, bool G>
  void list_row(const Place& p, Index b, Index r, Index terms) {
    constexpr Index most = 4 * kWidth;
    static_assert(kPanel % most == 0);
    const Term<T>* list = x_.list(b, p.row + r);
    for (Index c = 0; c < p.columns; c += kPanel) {
      Line l = line<M, G>(p, b, r, c);
      const T* sums = sums_of<S>(c / kPanel);
      const Index columns = std::min(kPanel, p.columns - c);
      if (!b_.as_computed()) bring<M>(l, columns, room_);
      Index j = 0;
      for (; j + most <= columns; j += most) list_columns<M, S, G, 4>(l, j, most, sums, list, terms);
      const Index left = columns - j;
      if (left > 3 * kWidth)
        list_columns<M, S, G, 4>(l, j, left, sums, list, terms);
      else if (left > 2 * kWidth)
        list_columns<M, S, G, 3>(l, j, left, sums, list, terms);
      else if (left > kWidth)
        list_columns<M, S, G, 2>(l, j, left, sums, list, terms);
      else if (left > 0)
        list_columns<M, S, G, 1>(l, j, left, sums, list, terms);
      if (!b_.as_computed()) put_back<M>(l, columns);
    }
  }

  // `count` columns from j on, in C vectors.
  template <int M, int S, bool G, int C>
  inline __attribute__((always_inline)) void list_columns(const Line& l, Index j, Index count, const T* from,
                                                          const Term<T>* list, Index terms) {
    Vector s[C][S] = {};
    from += j;
    for (Index t = 0; t < terms; ++t) {
      const Vector factor = splat(list[t].factor);
      const T* f = from + list[t].block * (S * kPanel);
      ETP_UNROLL for (int c = 0; c < C; ++c) ETP_UNROLL for (int v = 0; v < S; ++v) s[c][v] =
          Lanes<T>::fma(factor, Lanes<T>::load(f + v * kPanel + c * kWidth), s[c][v]);
    }
    if (count == C * kWidth) {
      ETP_UNROLL for (int c = 0; c < C; ++c) finish<Vector, M, S, G>(l, j + c * kWidth, s[c]);
      return;
    }
    ETP_UNROLL for (int c = 0; c < C; ++c) ETP_UNROLL for (int v = 0; v < S; ++v)
        Lanes<T>::store(sums_ + v * kPanel + c * kWidth, s[c][v]);
    finish_row<M, S, G>(l, j, j + count, sums_ - j);
  }

  // The others ----------------------------------------------------------------------------------------------
  template <int S>
  static constexpr Index tile_rows() {
    return S == 3 ? 4 : ETP_TILE_R;
  }
  template <int M, int S, bool G>
  void dense_rows(const Place& p, Index b, const Index* rows, Index count) {
    constexpr int R = tile_rows<S>(), C = S == 1 ? ETP_TILE_V : ETP_TILE_V / 2;
    const T* x[R];
    for (Index i = 0; i < R; ++i) x[i] = i < count ? data(p, b, rows[i], spread_ + i * g_.steps) : x[0];
    Line lines[R];
    for (Index c = 0; c < p.columns; c += kPanel) {
      const Index columns = std::min(kPanel, p.columns - c);
      for (Index i = 0; i < count; ++i) {
        lines[i] = line<M, G>(p, b, rows[i], c);
        if (b_.as_computed())
          fetch<M, G>(lines[i], columns);
        else
          bring<M>(lines[i], columns, room_ + i * M * kPanel);
      }
      for (Index j = 0; j < columns; j += C * kWidth) sum_tile<S, R, C>(x, sums_of<S>(c / kPanel), j);
      for (Index i = 0; i < count; ++i) {
        finish_row<M, S, G>(lines[i], 0, columns, sums_ + i * S * kPanel);
        if (!b_.as_computed()) put_back<M>(lines[i], columns);
      }
    }
  }

  // Asks for what the sums will meet, while they are being made.
  template <int M, bool G>
  static void fetch(const Line& l, Index columns) {
    for (Index j = 0; j < columns; j += 64 / sizeof(T)) {
      __builtin_prefetch(l.e + j, 1);
      if (M == 2) __builtin_prefetch(l.e + l.slots + j, 1);
      if (G) __builtin_prefetch(l.to + j, 1);
    }
  }

  // x of all steps, also of a row that is a list.
  const T* data(const Place& p, Index b, Index r, T* room) const {
    if (x_.terms(b, p.row + r) < 0) return x_.data(b, p.row + r);
    const T* from = b_.source + b * g_.elements + p.source + r * g_.row.source;
    for (Index k = 0; k < g_.steps; ++k) room[k] = from[k * g_.batch * g_.elements];
    return room;
  }

  // sums[row][value] = Σ_k x[row][k]·f_k[value] at C vectors of columns from j on, of a panel
  template <int S, int R, int C>
  void sum_tile(const T* const* x, const T* from, Index j) {
    Vector s[R][S][C] = {};
    const T* f = from + j;
    for (Index k = 0; k < g_.steps; ++k, f += S * kPanel) {
      if (k % StepBlocks::kGroup == 0) f = from + StepBlocks::first_of(k) * S * kPanel + j;
      Vector now[S][C];
      ETP_UNROLL for (int v = 0; v < S; ++v) ETP_UNROLL for (int c = 0; c < C; ++c) now[v][c] =
          Lanes<T>::load(f + v * kPanel + c * kWidth);
      ETP_UNROLL for (int i = 0; i < R; ++i) {
        const Vector factor = splat(x[i][k]);
        ETP_UNROLL for (int v = 0; v < S; ++v) ETP_UNROLL for (int c = 0; c < C; ++c) s[i][v][c] =
            Lanes<T>::fma(factor, now[v][c], s[i][v][c]);
      }
    }
    ETP_UNROLL for (int i = 0; i < R; ++i) ETP_UNROLL for (int v = 0; v < S; ++v)
        ETP_UNROLL for (int c = 0; c < C; ++c)
            Lanes<T>::store(sums_ + (i * S + v) * kPanel + j + c * kWidth, s[i][v][c]);
  }

  // What the sums meet --------------------------------------------------------------------------------------
  static inline Vector fma(Vector a, Vector b, Vector c) { return Lanes<T>::fma(a, b, c); }
  static inline T fma(T a, T b, T c) { return std::fma(a, b, c); }

  // Columns [j, end), with sums as [value][column].
  template <int M, int S, bool G>
  void finish_row(const Line l, Index j, Index end, const T* sums) const {
    for (; j + kWidth <= end; j += kWidth) {
      Vector s[S];
      ETP_UNROLL for (int v = 0; v < S; ++v) s[v] = Lanes<T>::load(sums + v * kPanel + j);
      finish<Vector, M, S, G>(l, j, s);
    }
    for (; j < end; ++j) {
      T s[S];
      for (int v = 0; v < S; ++v) s[v] = sums[v * kPanel + j];
      finish<T, M, S, G>(l, j, s);
    }
  }

  // Columns [j, j + lanes): V is a vector, or T for what is left over. All reads come before the writes.
  template <class V, int M, int S, bool G>
  static inline __attribute__((always_inline)) void finish(const Line& l, Index j, const V* s) {
    using Memory __attribute__((aligned(sizeof(T)), may_alias)) = V;
    const auto at = [j](const T* p) -> V { return *reinterpret_cast<const Memory*>(p + j); };
    const auto put = [j](T* p, const V& v) { *reinterpret_cast<Memory*>(p + j) = v; };
    const auto move = [&](int i) { return at(l.moves + i * kPanel); };
    const V e0 = at(l.e);
    V g{}, next1{};
    if constexpr (G) {
      if (l.g != nullptr) g = at(l.g);
      if constexpr (S > M) g += s[M];
      g = fma(move(M * M), e0, g);
    }
    V next0 = fma(move(0), e0, s[0]);
    if constexpr (M == 2) {
      const V e1 = at(l.e + l.slots);
      next0 = fma(move(1), e1, next0);
      next1 = fma(move(2), e0, fma(move(3), e1, s[1]));
      if constexpr (G) g = fma(move(5), e1, g);
    }
    put(l.out, next0);
    if constexpr (M == 2) put(l.out + l.slots, next1);
    if constexpr (G) put(l.to, g);
  }

  const Geometry& g_;
  const Buffers<T>& b_;
  const SourceRows<T>& x_;
  Index values_;
  T *sums_of_blocks_, *sums_, *spread_, *moves_, *room_;
};

// How the work is dealt out to threads, by rows and by panels of columns: no two parts share an element of
// trace or gradient, and no sum depends on where a part ends.
struct Units {
  Index panels, sheets, stretches, rows, count, parts;

  Units(const etp_trace_window& d, Index available) {
    const auto ceil = [](Index a, Index b) { return (a + b - 1) / b; };
    const Index bytes = d.dtype == ETP_F32 ? 4 : 8, values = d.states + d.has_weighted;
    panels = std::max<Index>(ceil(d.column_size * bytes, kPanelBytes), 1);
    rows = d.row_size;
    const Index threads = threads_of(d, threads_that_pay(d, available), d.slots);
    // What is laid out for a sample serves many rows, and stays in the second cache.
    constexpr Index kRowsAtLeast = 128, kRowsAtMost = 1024, kNear = 400 * 1024;
    const Index per_panel = StepBlocks(d.steps).count() * values * kPanelBytes;
    stretches = std::clamp<Index>(rows / kRowsAtLeast, 1, threads);
    sheets = std::clamp<Index>(ceil(threads, stretches * d.matrices), 1, panels);
    sheets = std::max(sheets, ceil(panels, std::max<Index>(kNear / per_panel, 1)));
    if (sheets * stretches * d.matrices < threads)
      stretches = std::min(rows, ceil(threads, sheets * d.matrices));
    stretches = std::max({stretches, ceil(rows, kRowsAtMost), Index{1}});
    count = d.matrices * sheets * stretches;
    parts = std::min(threads, std::max<Index>(count, 1));
  }
  Index panels_at_most() const { return (panels + sheets - 1) / sheets; }

  // Calls f(matrix, first panel, last panel, first row, last row) for every unit of a part.
  template <class F>
  void for_part(Index part, const F& f) const {
    for (Index u = count * part / parts; u < count * (part + 1) / parts; ++u) {
      const Index c = u % sheets, s = u / sheets % stretches, matrix = u / sheets / stretches;
      f(matrix, panels * c / sheets, panels * (c + 1) / sheets, rows * s / stretches,
        rows * (s + 1) / stretches);
    }
  }
};

template <class T>
std::size_t tiles_own_bytes(const etp_trace_window& d, const Units& units) {
  return whole_lines<T>(TilePass<T>::scratch_elements(Geometry(d), units.panels_at_most()));
}

template <class T>
std::size_t tiles_scratch_bytes(const etp_trace_window& d, Index threads) {
  const Units units(d, threads);
  return tiles_own_bytes<T>(d, units) * static_cast<std::size_t>(units.parts) +
         whole_lines<T>(SourceRows<T>::scratch_elements(d.steps, d.matrices * d.row_size, d.batch));
}

template <class T>
void run_tiles(const etp_trace_window& d, const etp_context& context, const void* const* in,
               const Buffers<T>& b, void* memory) {
  if (d.slots == 0 || d.batch == 0) {
    if (b.gradient != nullptr) std::fill_n(b.gradient, d.parameters, T(0));
    return;
  }
  const Geometry g(d, in);
  const Units units(d, context.threads);
  const std::size_t own = tiles_own_bytes<T>(d, units);
  auto* scratch = static_cast<std::byte*>(memory);
  const bool lists = g.column.size >= TilePass<T>::kPanel;
  SourceRows<T> x(g.steps, g.matrices * g.row.size, g.batch, lists,
                  reinterpret_cast<T*>(scratch + own * static_cast<std::size_t>(units.parts)));
  in_parts(context, units.parts, [&](int part) {
    for (Index i = g.batch * g.matrices * part / units.parts;
         i < g.batch * g.matrices * (part + 1) / units.parts; ++i) {
      const Index sample = i / g.matrices, matrix = i % g.matrices, row = matrix * g.row.size;
      x.fill(sample, row, row + g.row.size, b.source + sample * g.elements + g.start_of(matrix).source,
             g.batch * g.elements, g.row.source);
    }
  });
  in_parts(context, units.parts, [&](int part) {
    TilePass<T> pass(g, b, x, units.panels_at_most(),
                     reinterpret_cast<T*>(scratch + own * static_cast<std::size_t>(part)));
    units.for_part(part, [&](Index matrix, Index first_panel, Index last_panel, Index first, Index last) {
      pass.rows(first, last, first_panel, last_panel, matrix * g.row.size, g.start_of(matrix));
    });
  });
}

}  // namespace

template <class T>
FormCode<T> tiles_form() {
  return {[](const etp_trace_window& d, Index threads) { return Units(d, threads).parts; },
          tiles_scratch_bytes<T>, run_tiles<T>};
}
template FormCode<float> tiles_form();
template FormCode<double> tiles_form();

}  // namespace etrace::trace_pass
