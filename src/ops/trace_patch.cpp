// At every position of a sample the slots are a small matrix, and what K steps add to it is a product of
// depth K whose factors are read where they lie (patch_tile.h). The trace is read and written once. Threads
// take chunks of positions; what a chunk adds to the gradient is kept apart and summed in order, and chunks
// follow from the sizes alone, so that no result depends on the number of threads.
#include "ops/trace_patch.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "ops/parts.h"
#include "ops/patch_tile.h"

namespace etrace::trace {

namespace {

constexpr Index kRowsAtMost = 4096;    // of a matrix: its sums stay in the caches
constexpr Index kChunkWork = 1 << 15;  // multiplications that outweigh the hand-over to another thread
constexpr Index kChunksAtMost = 64;
constexpr Index kGroup = 8;  // positions whose columns are packed together

// Along one kind of axes: where each index stands in the source or among the anchors, in the slots, in the
// parameter.
struct Places {
  std::vector<Index> data, slot, parameter;
};

struct PatchForm {
  Layout at;
  Index batch, states, steps, positions, elements, slots, parameters;
  bool anchored_columns = true;  // else the rows are the anchors
  Places rows, columns;
  std::vector<Index> position_slot, position_source, position_anchor;
  // Where the k-th step lies in the source, the injection, the weighted signal.
  std::vector<std::int32_t> source_steps, injection_steps, weighted_steps;
  bool fits = false;

  explicit PatchForm(const KernelRequest& r) : at(r.params) {
    const TracePattern p = pattern_of(r.params);
    const Shape &e = r.x(at.trace).shape, &q = r.x(at.injection).shape;
    batch = e[0], states = e[1], steps = q[0], positions = q[3];
    elements = at.source ? r.x(*at.source).shape[2] : 0;
    slots = p.slots.size();
    if (!p.anchor_table.empty() || (at.source && !p.source_table.empty()) || p.position_axes.empty() ||
        slots == 0)
      return;
    if (steps * batch * std::max(elements, states * positions) > std::numeric_limits<std::int32_t>::max())
      return;
    lay_out(axes_of(p, at.source.has_value(), parameters), strides_of(p.slots));
    source_steps = multiples(batch * elements);
    injection_steps = multiples(states * batch * positions);
    weighted_steps = multiples(batch * positions);
  }

  std::vector<std::int32_t> multiples(Index step) const {
    std::vector<std::int32_t> out;
    for (Index k = 0; k < steps; ++k) out.push_back(static_cast<std::int32_t>(k * step));
    return out;
  }

 private:
  enum Kind : std::uint8_t { Position, Anchored, Sourced };

  void lay_out(const std::vector<Axis>& all, const Dims& all_strides) {
    std::vector<Axis> axes;
    Dims slot_strides;
    std::vector<Kind> kinds;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Axis& a = all[i];
      if (a.size == 1) continue;
      if (a.parameter != 0 && a.anchor != 0 && a.source != 0) return;
      axes.push_back(a);
      slot_strides.push_back(all_strides[i]);
      kinds.push_back(a.parameter == 0 ? Position : a.anchor != 0 ? Anchored : Sourced);
    }
    if (kinds.empty() || kinds.back() == Position) return;
    anchored_columns = kinds.back() == Anchored;
    std::size_t first_column = axes.size();
    while (first_column > 0 && kinds[first_column - 1] == kinds.back()) --first_column;
    rows = columns = {{0}, {0}, {0}};
    position_slot = position_source = position_anchor = {0};
    for (std::size_t a = 0; a < axes.size(); ++a) {
      const Axis& x = axes[a];
      if (kinds[a] == Position) {
        spread(position_slot, x.size, slot_strides[a]);
        spread(position_source, x.size, x.source);
        spread(position_anchor, x.size, x.anchor);
        continue;
      }
      if (a < first_column && kinds[a] == kinds.back()) return;  // one kind on both sides of the other
      Places& to = a >= first_column ? columns : rows;
      spread(to.data, x.size, kinds[a] == Anchored ? x.anchor : x.source);
      spread(to.slot, x.size, slot_strides[a]);
      spread(to.parameter, x.size, x.parameter);
    }
    fits = static_cast<Index>(rows.data.size() * columns.data.size()) <= kRowsAtMost;
  }
  // Every index so far, followed along one more axis.
  static void spread(std::vector<Index>& places, Index size, Index step) {
    std::vector<Index> out;
    for (const Index place : places)
      for (Index i = 0; i < size; ++i) out.push_back(place + i * step);
    places = std::move(out);
  }
};

template <class T>
class PatchPass {
 public:
  // Row stretches of whole vectors: injections of every state, the weighted signal, the old trace, the
  // gradient of one chunk; then the columns of all steps side by side.
  PatchPass(const PatchForm& f, const Buffers<T>& b, T* scratch)
      : f_(f),
        b_(b),
        rows_(static_cast<Index>(f.rows.data.size())),
        columns_(static_cast<Index>(f.columns.data.size())),
        width_(round_up(columns_, kLanes<T>)) {
    sums_ = scratch;
    weighted_ = sums_ + f.states * rows_ * width_;
    old_ = weighted_ + rows_ * width_;
    packed_ = old_ + f.states * width_;
    packed_steps_ = reinterpret_cast<std::int32_t*>(packed_ + (f.states + 1) * kGroup * f.steps * width_);
    for (Index k = 0; k < f.steps; ++k) packed_steps_[k] = static_cast<std::int32_t>(k * width_);
    side_by_side_ = columns_ == width_ && f.anchored_columns && f.columns.data.back() == columns_ - 1;
  }
  static Index scratch_elements(const PatchForm& f) {
    const auto rows = static_cast<Index>(f.rows.data.size());
    const Index width = width_of(f);
    return ((f.states + 1) * (rows + kGroup * f.steps) + f.states) * width + f.steps;
  }
  static Index width_of(const PatchForm& f) {
    return round_up(static_cast<Index>(f.columns.data.size()), kLanes<T>);
  }
  static Index gradient_elements(const PatchForm& f) {
    return static_cast<Index>(f.rows.data.size()) * width_of(f);
  }

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
    if (!f_.anchored_columns)
      return pack(b_.source == nullptr ? nullptr : b_.source + b * f_.elements, f_.source_steps,
                  f_.position_source.data() + s, count, packed(0, 0));
    const Index all = f_.batch * f_.positions;
    const Index* places = f_.position_anchor.data() + s;
    for (Index a = 0; a < f_.states; ++a)
      pack(b_.injection + a * all + b * f_.positions, f_.injection_steps, places, count, packed(a, 0));
    if (b_.weighted != nullptr)
      pack(b_.weighted + b * f_.positions, f_.weighted_steps, places, count, packed(f_.states, 0));
  }
  void pack(const T* from, const std::vector<std::int32_t>& steps, const Index* places, Index count, T* out) {
    for (Index k = 0; k < f_.steps; ++k)
      for (Index i = 0; i < count; ++i) {
        T* to = out + (i * f_.steps + k) * width_;
        const T* row = from == nullptr ? nullptr : from + steps[static_cast<std::size_t>(k)] + places[i];
        if (side_by_side_) {
          for (Index c = 0; c < width_; c += kLanes<T>) Lanes<T>::store(to + c, Lanes<T>::load(row + c));
          continue;
        }
        for (Index c = 0; c < columns_; ++c)
          to[c] = row == nullptr ? T(1) : row[f_.columns.data[static_cast<std::size_t>(c)]];
        std::fill(to + columns_, to + width_, T(0));
      }
  }

  // Position s + i, the i-th of what is packed.
  void position(Index b, Index s, Index i, T* gradient) {
    const auto at = static_cast<std::size_t>(s + i);
    const Index anchor = b * f_.positions + f_.position_anchor[at];
    if (f_.anchored_columns)
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
    const PatchSum sum{1, 0, 0, f_.steps, f_.source_steps.data(), packed_steps_};
    const Index* points = f_.rows.data.data();
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
    const Index* points = f_.rows.data.data();
    PatchSum sum{1, 0, 0, f_.steps, f_.injection_steps.data(), packed_steps_};
    for (Index a = 0; a < f_.states; ++a)
      PatchTiles<T>::run(sum, b_.injection + a * f_.batch * f_.positions + anchor, points, rows_,
                         packed(0, i), width_, sums_ + a * rows_ * width_, width_);
    sum.x_inner = f_.weighted_steps.data();
    if (b_.weighted != nullptr)
      PatchTiles<T>::run(sum, b_.weighted + anchor, points, rows_, packed(0, i), width_, weighted_, width_);
  }

  // The same as `row`, in the usual case: one state, whole vectors.
  void whole_row(Index b, Index r, Index anchor, Index slot, T* gradient) const {
    using L = Lanes<T>;
    slot += f_.rows.slot[static_cast<std::size_t>(r)] + b * f_.slots;
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
    const auto at = static_cast<std::size_t>(r);
    slot += f_.rows.slot[at];
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
    if (!f_.anchored_columns) {
      const T factor = v[f_.rows.data[static_cast<std::size_t>(r)]];
      for (Index c = 0; c < columns_; ++c) to[c] += factor * e[c];
    } else if (f_.columns.data.back() == columns_ - 1) {
      for (Index c = 0; c < columns_; ++c) to[c] += v[c] * e[c];
    } else {
      for (Index c = 0; c < columns_; ++c) to[c] += v[f_.columns.data[static_cast<std::size_t>(c)]] * e[c];
    }
  }
  void scale(Index r) {
    if (b_.gain == nullptr) return;
    const T* gain = b_.gain + f_.rows.parameter[static_cast<std::size_t>(r)];
    for (Index a = 0; a < f_.states + (b_.weighted != nullptr ? 1 : 0); ++a) {
      T* v = sums_ + (a * rows_ + r) * width_;  // the weighted signal follows the states
      for (Index c = 0; c < columns_; ++c) v[c] *= gain[f_.columns.parameter[static_cast<std::size_t>(c)]];
    }
  }

  void load(Index b, Index state, Index slot) {
    const Index at = (b * f_.states + state) * f_.slots + slot;
    if (b_.as_computed())
      std::copy_n(reinterpret_cast<const T*>(b_.trace) + at, columns_, old_ + state * width_);
    else
      b_.storage.load(b_.trace + static_cast<std::size_t>(at) * b_.storage.bytes, columns_,
                      old_ + state * width_);
  }
  void store(Index b, Index state, Index slot, const T* row) {
    const Index at = (b * f_.states + state) * f_.slots + slot;
    if (b_.as_computed())
      std::copy_n(row, columns_, reinterpret_cast<T*>(b_.next) + at);
    else
      b_.storage.store(row, columns_, b_.next + static_cast<std::size_t>(at) * b_.storage.bytes);
  }

  static constexpr T kOne = 1;  // the source of slots that have none
  const PatchForm& f_;
  const Buffers<T>& b_;
  Index rows_, columns_, width_;
  T *sums_, *weighted_, *old_, *packed_;
  std::int32_t* packed_steps_;
  bool side_by_side_;  // columns are anchors in whole vectors, as they lie
};

// The chunks' gradients, in order.
template <class T>
void sum_chunks(const PatchForm& f, const T* chunks, Index count, T* out) {
  const Index width = PatchPass<T>::width_of(f), size = PatchPass<T>::gradient_elements(f);
  for (std::size_t r = 0; r < f.rows.data.size(); ++r)
    for (std::size_t c = 0; c < f.columns.data.size(); ++c) {
      T sum = 0;
      for (Index k = 0; k < count; ++k)
        sum += chunks[k * size + static_cast<Index>(r) * width + static_cast<Index>(c)];
      out[f.rows.parameter[r] + f.columns.parameter[c]] = sum;
    }
}

}  // namespace

bool is_patch(const KernelRequest& r) { return PatchForm(r).fits; }

namespace {
// Sums are cut into chunks of positions, as many as the sizes say: their bits depend on no thread.
Index chunks_of(const PatchForm& f) {
  const Index work = f.slots * f.batch * f.states * (f.steps + 1);
  return std::clamp<Index>(std::min(work / kChunkWork, kChunksAtMost), 1,
                           static_cast<Index>(f.position_slot.size()));
}
}  // namespace

int patch_threads(const KernelRequest& r) {
  const Index chunks = chunks_of(PatchForm(r));
  return threads_of(r.params, std::min<Index>(chunks, default_pool().size()), chunks);
}

template <class T>
Kernel patch_kernel(const KernelRequest& r, const Storage<T>& storage) {
  const auto f = std::make_shared<const PatchForm>(r);
  const auto count = static_cast<Index>(f->position_slot.size());
  const Index chunks = chunks_of(*f);
  const int threads = patch_threads(r);
  const auto bytes = [](Index elements) {
    return static_cast<std::size_t>(round_up(elements * static_cast<Index>(sizeof(T)), 64));
  };
  const Index gradient_size = PatchPass<T>::gradient_elements(*f);
  const std::size_t part_bytes = bytes(PatchPass<T>::scratch_elements(*f)),
                    gradients_at = part_bytes * static_cast<std::size_t>(chunks);
  Kernel kernel;
  kernel.scratch_bytes = gradients_at + bytes(chunks * gradient_size);
  kernel.in_place = {{0, f->at.trace}};
  kernel.run = [=](const KernelArgs& args) {
    const Buffers<T> buffers = buffers_of<T>(args, f->at, storage);
    auto* scratch = static_cast<std::byte*>(args.scratch);
    T* gradients = reinterpret_cast<T*>(scratch + gradients_at);
    const auto run = [&](int chunk) {
      T* own = gradients + chunk * gradient_size;
      std::fill_n(own, gradient_size, T(0));
      PatchPass<T> pass(*f, buffers,
                        reinterpret_cast<T*>(scratch + part_bytes * static_cast<std::size_t>(chunk)));
      pass.positions(count * chunk / chunks, count * (chunk + 1) / chunks, own);
    };
    default_pool().parallel(threads, [&](int thread) {
      for (Index c = chunks * thread / threads; c < chunks * (thread + 1) / threads; ++c)
        run(static_cast<int>(c));
    });
    if (buffers.gradient != nullptr) sum_chunks(*f, gradients, chunks, buffers.gradient);
  };
  return kernel;
}

template Kernel patch_kernel(const KernelRequest&, const Storage<float>&);
template Kernel patch_kernel(const KernelRequest&, const Storage<double>&);

}  // namespace etrace::trace
