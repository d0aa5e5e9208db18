// At every position of a sample the slots are a small matrix, and what K steps add to it is a product of
// depth K whose factors are read where they lie (patch_tile.h). The trace is read and written once. Threads
// take chunks of positions; what a chunk adds to the gradient is kept apart and summed in order, and chunks
// follow from the sizes alone, so that no result depends on the number of threads.
#include <algorithm>
#include <utility>

#include "kernels/patch_tile.h"
#include "kernels/trace_forms.h"

namespace etrace::trace_pass {

namespace {

constexpr Index kChunkWork = 1 << 15;  // multiplications that outweigh the hand-over to another thread
constexpr Index kChunksAtMost = 64;
constexpr Index kGroup = 8;  // positions whose columns are packed together

// Along one kind of axes: where each index stands in the source or among the anchors, in the slots, in the
// parameter.
struct Places {
  const Index *data, *slot, *parameter;
};

struct PatchForm : etp_trace_window {
  PatchForm(const etp_trace_window& d, const void* const* in)
      : etp_trace_window(d),
        rows{table_of<Index>(in, 0), table_of<Index>(in, 1), table_of<Index>(in, 2)},
        columns{table_of<Index>(in, 3), nullptr, table_of<Index>(in, 4)},
        position_slot(table_of<Index>(in, 5)),
        position_source(table_of<Index>(in, 6)),
        position_anchor(table_of<Index>(in, 7)) {}

  Places rows, columns;  // columns follow each other in the slots
  const Index *position_slot, *position_source, *position_anchor;
};

template <class T>
class PatchPass {
 public:
  // Row stretches of whole vectors: injections of every state, the weighted signal, the old trace, the
  // gradient of one chunk; then the columns of all steps side by side.
  PatchPass(const PatchForm& f, const Buffers<T>& b, T* scratch)
      : f_(f), b_(b), rows_(f.row_count), columns_(f.column_count), width_(round_up(columns_, kLanes<T>)) {
    sums_ = scratch;
    weighted_ = sums_ + f.states * rows_ * width_;
    old_ = weighted_ + rows_ * width_;
    packed_ = old_ + f.states * width_;
    auto* steps = reinterpret_cast<std::int32_t*>(packed_ + (f.states + 1) * kGroup * f.steps * width_);
    const auto multiples = [&](Index step) {
      for (Index k = 0; k < f.steps; ++k) steps[k] = static_cast<std::int32_t>(k * step);
      return std::exchange(steps, steps + f.steps);
    };
    packed_steps_ = multiples(width_);
    source_steps_ = multiples(source_step());
    injection_steps_ = multiples(injection_step());
    weighted_steps_ = multiples(weighted_step());
    side_by_side_ = columns_ == width_ && f.anchored_columns != 0 && last_column() == columns_ - 1;
  }
  static Index scratch_elements(const etp_trace_window& d) {
    return ((d.states + 1) * (d.row_count + kGroup * d.steps) + d.states) * width_of(d) + 4 * d.steps;
  }
  static Index width_of(const etp_trace_window& d) { return round_up(d.column_count, kLanes<T>); }
  static Index gradient_elements(const etp_trace_window& d) { return d.row_count * width_of(d); }

  // Positions [first, last) of every sample; gradient: of this chunk, zeroed.
  void positions(Index first, Index last, T* gradient) {
    for (Index b = 0; b < f_.batch; ++b)
      for (Index s = first; s < last; s += kGroup) {
        const Index count = std::min(kGroup, last - s);
        pack_group(b, s, count);
        for (Index i = 0; i < count; ++i) position(b, s, i, gradient);
      }
  }

 private:
  // What the columns of a few positions read in all steps, side by side: of the anchors for every state and
  // the weighted signal, or of the sources. (In place the steps lie far apart, often by a power of two, and
  // fall into few sets of a cache.)
  T* packed(Index which, Index i) const { return packed_ + (which * kGroup + i) * f_.steps * width_; }
  void pack_group(Index b, Index s, Index count) {
    if (f_.anchored_columns == 0)
      return pack(b_.source == nullptr ? nullptr : b_.source + b * f_.elements, source_step(),
                  f_.position_source + s, count, packed(0, 0));
    const Index all = f_.batch * f_.positions;
    const Index* places = f_.position_anchor + s;
    for (Index a = 0; a < f_.states; ++a)
      pack(b_.injection + a * all + b * f_.positions, injection_step(), places, count, packed(a, 0));
    if (b_.weighted != nullptr)
      pack(b_.weighted + b * f_.positions, weighted_step(), places, count, packed(f_.states, 0));
  }
  void pack(const T* from, Index step, const Index* places, Index count, T* out) {
    for (Index k = 0; k < f_.steps; ++k)
      for (Index i = 0; i < count; ++i) {
        T* to = out + (i * f_.steps + k) * width_;
        const T* row = from == nullptr ? nullptr : from + k * step + places[i];
        if (side_by_side_) {
          for (Index c = 0; c < width_; c += kLanes<T>) Lanes<T>::store(to + c, Lanes<T>::load(row + c));
          continue;
        }
        for (Index c = 0; c < columns_; ++c) to[c] = row == nullptr ? T(1) : row[f_.columns.data[c]];
        std::fill(to + columns_, to + width_, T(0));
      }
  }

  // Position s + i, the i-th of what is packed.
  void position(Index b, Index s, Index i, T* gradient) {
    const Index at = s + i;
    const Index anchor = b * f_.positions + f_.position_anchor[at];
    if (f_.anchored_columns != 0)
      sum_anchored(b_.source == nullptr ? &kOne : b_.source + b * f_.elements + f_.position_source[at], i);
    else
      sum_sourced(anchor, i);
    const bool whole = side_by_side_ && f_.states == 1 && b_.as_computed() && b_.gain == nullptr &&
                       b_.gradient != nullptr && b_.weighted != nullptr;
    for (Index r = 0; r < rows_; ++r)
      whole ? whole_row(b, r, anchor, f_.position_slot[at], gradient + r * width_)
            : row(b, r, anchor, f_.position_slot[at], gradient + r * width_);
  }

  // sums[r, c] = Σ_k x_k·v_k at the places of row and column, for q of every state and for w. Columns are
  // anchors, and rows read x (without a source: the same 1 at every step).
  void sum_anchored(const T* x, Index i) {
    const PatchSum sum{1, 0, 0, f_.steps, source_steps_, packed_steps_};
    const Index* points = f_.rows.data;
    if (f_.states == 1 && b_.weighted != nullptr)
      return PatchTiles<T>::run_both(sum, x, points, rows_, {packed(0, i), packed(1, i)}, width_,
                                     {sums_, weighted_}, width_);
    for (Index a = 0; a < f_.states; ++a)
      PatchTiles<T>::run(sum, x, points, rows_, packed(a, i), width_, sums_ + a * rows_ * width_, width_);
    if (b_.weighted != nullptr)
      PatchTiles<T>::run(sum, x, points, rows_, packed(f_.states, i), width_, weighted_, width_);
  }
  // The same where columns are sources and rows anchors.
  void sum_sourced(Index anchor, Index i) {
    const Index* points = f_.rows.data;
    PatchSum sum{1, 0, 0, f_.steps, injection_steps_, packed_steps_};
    for (Index a = 0; a < f_.states; ++a)
      PatchTiles<T>::run(sum, b_.injection + a * f_.batch * f_.positions + anchor, points, rows_,
                         packed(0, i), width_, sums_ + a * rows_ * width_, width_);
    sum.x_inner = weighted_steps_;
    if (b_.weighted != nullptr)
      PatchTiles<T>::run(sum, b_.weighted + anchor, points, rows_, packed(0, i), width_, weighted_, width_);
  }

  // The same as `row`, in the usual case: one state, whole vectors.
  void whole_row(Index b, Index r, Index anchor, Index slot, T* gradient) const {
    using L = Lanes<T>;
    slot += f_.rows.slot[r] + b * f_.slots;
    const T* e = reinterpret_cast<const T*>(b_.trace) + slot;
    T* next = reinterpret_cast<T*>(b_.next) + slot;
    const T *d = b_.transition + anchor, *u = b_.entry + anchor;
    const T *sum = sums_ + r * width_, *weighted = weighted_ + r * width_;
    for (Index c = 0; c < columns_; c += kLanes<T>) {
      const VectorOf<T> old = L::load(e + c);
      L::store(gradient + c, (L::load(gradient + c) + L::load(weighted + c)) + L::load(u + c) * old);
      L::store(next + c, L::load(sum + c) + L::load(d + c) * old);
    }
  }

  // One row of columns: e ← P·e + sums, gradient += u·e + weighted.
  void row(Index b, Index r, Index anchor, Index slot, T* gradient) {
    const Index m = f_.states, all = f_.batch * f_.positions;
    slot += f_.rows.slot[r];
    for (Index c = 0; c < m; ++c) load(b, c, slot);
    scale(r);
    if (b_.gradient != nullptr) {
      if (b_.weighted != nullptr) add(gradient, weighted_ + r * width_);
      for (Index c = 0; c < m; ++c) multiply_add(b_.entry + c * all + anchor, r, old_ + c * width_, gradient);
    }
    for (Index a = 0; a < m; ++a) {
      T* next = sums_ + (a * rows_ + r) * width_;
      for (Index c = 0; c < m; ++c)
        multiply_add(b_.transition + (a * m + c) * all + anchor, r, old_ + c * width_, next);
      store(b, a, slot, next);
    }
  }

  void add(T* __restrict to, const T* __restrict from) const {
    for (Index c = 0; c < columns_; ++c) to[c] += from[c];
  }
  // to += v·e with v at the anchors of the row
  void multiply_add(const T* v, Index r, const T* __restrict e, T* __restrict to) const {
    if (f_.anchored_columns == 0) {
      const T factor = v[f_.rows.data[r]];
      for (Index c = 0; c < columns_; ++c) to[c] += factor * e[c];
    } else if (last_column() == columns_ - 1) {
      for (Index c = 0; c < columns_; ++c) to[c] += v[c] * e[c];
    } else {
      for (Index c = 0; c < columns_; ++c) to[c] += v[f_.columns.data[c]] * e[c];
    }
  }
  void scale(Index r) {
    if (b_.gain == nullptr) return;
    const T* gain = b_.gain + f_.rows.parameter[r];
    for (Index a = 0; a < f_.states + (b_.weighted != nullptr ? 1 : 0); ++a) {
      T* v = sums_ + (a * rows_ + r) * width_;  // the weighted signal follows the states
      for (Index c = 0; c < columns_; ++c) v[c] *= gain[f_.columns.parameter[c]];
    }
  }

  void load(Index b, Index state, Index slot) {
    const Index at = (b * f_.states + state) * f_.slots + slot;
    if (b_.as_computed())
      std::copy_n(reinterpret_cast<const T*>(b_.trace) + at, columns_, old_ + state * width_);
    else
      b_.load(b_.trace + static_cast<std::size_t>(at) * b_.storage.bytes, columns_, old_ + state * width_);
  }
  void store(Index b, Index state, Index slot, const T* row) {
    const Index at = (b * f_.states + state) * f_.slots + slot;
    if (b_.as_computed())
      std::copy_n(row, columns_, reinterpret_cast<T*>(b_.next) + at);
    else
      b_.store(row, columns_, b_.next + static_cast<std::size_t>(at) * b_.storage.bytes);
  }

  Index source_step() const { return f_.batch * f_.elements; }
  Index injection_step() const { return f_.states * f_.batch * f_.positions; }
  Index weighted_step() const { return f_.batch * f_.positions; }
  Index last_column() const { return f_.columns.data[columns_ - 1]; }

  static constexpr T kOne = 1;  // the source of slots that have none
  const PatchForm& f_;
  const Buffers<T>& b_;
  Index rows_, columns_, width_;
  T *sums_, *weighted_, *old_, *packed_;
  // Where the k-th step lies in what is packed, in the source, the injection, the weighted signal.
  const std::int32_t *packed_steps_, *source_steps_, *injection_steps_, *weighted_steps_;
  bool side_by_side_;  // columns are anchors in whole vectors, as they lie
};

// The chunks' gradients, in order.
template <class T>
void sum_chunks(const PatchForm& f, const T* chunks, Index count, T* out) {
  const Index width = PatchPass<T>::width_of(f), size = PatchPass<T>::gradient_elements(f);
  for (Index r = 0; r < f.row_count; ++r)
    for (Index c = 0; c < f.column_count; ++c) {
      T sum = 0;
      for (Index k = 0; k < count; ++k) sum += chunks[k * size + r * width + c];
      out[f.rows.parameter[r] + f.columns.parameter[c]] = sum;
    }
}

Index patch_threads(const etp_trace_window& d, Index threads) {
  return threads_of(d, std::min(patch_chunks(d), threads), patch_chunks(d));
}

template <class T>
std::size_t patch_scratch_bytes(const etp_trace_window& d, Index) {
  return whole_lines<T>(PatchPass<T>::scratch_elements(d)) * static_cast<std::size_t>(patch_chunks(d)) +
         whole_lines<T>(patch_chunks(d) * PatchPass<T>::gradient_elements(d));
}

template <class T>
void run_patches(const etp_trace_window& d, const etp_context& context, const void* const* in,
                 const Buffers<T>& b, void* memory) {
  const PatchForm f(d, in);
  const Index chunks = patch_chunks(d), threads = patch_threads(d, context.threads);
  const Index gradient_size = PatchPass<T>::gradient_elements(d);
  const std::size_t own = whole_lines<T>(PatchPass<T>::scratch_elements(d));
  auto* scratch = static_cast<std::byte*>(memory);
  T* gradients = reinterpret_cast<T*>(scratch + own * static_cast<std::size_t>(chunks));
  const auto run_chunk = [&](Index chunk) {
    T* gradient = gradients + chunk * gradient_size;
    std::fill_n(gradient, gradient_size, T(0));
    PatchPass<T> pass(f, b, reinterpret_cast<T*>(scratch + own * static_cast<std::size_t>(chunk)));
    pass.positions(d.position_count * chunk / chunks, d.position_count * (chunk + 1) / chunks, gradient);
  };
  in_parts(context, threads, [&](int thread) {
    for (Index c = chunks * thread / threads; c < chunks * (thread + 1) / threads; ++c) run_chunk(c);
  });
  if (b.gradient != nullptr) sum_chunks(f, gradients, chunks, b.gradient);
}

}  // namespace

// Sums are cut into chunks, and no thread changes their bits.
Index patch_chunks(const etp_trace_window& d) {
  const Index work = d.slots * d.batch * d.states * (d.steps + 1);
  return std::clamp<Index>(std::min(work / kChunkWork, kChunksAtMost), 1, d.position_count);
}

template <class T>
FormCode<T> patches_form() {
  return {patch_threads, patch_scratch_bytes<T>, run_patches<T>};
}
template FormCode<float> patches_form();
template FormCode<double> patches_form();

}  // namespace etrace::trace_pass
