// Many states per slot: all slots of one position are moved by one matrix product,
//   E[a, s] = Σ_c P[a, c]·E[c, s] + gain[s]·Σ_k q_k[a]·x_k[s]        s: the slots whose anchor is the
//   position
// so that P is read once per position and not once per row of slots. Threads take positions. A slot has one
// anchor, so no two threads write one number; gradients are kept by slot and then summed in the order of
// slots, so results do not depend on the number of threads.
#include <algorithm>

#include "kernels/trace_forms.h"
#include "runtime/etp_gemm.h"

namespace etrace::trace_pass {

namespace {

constexpr Index kSlots = 64;  // of one matrix product
constexpr Index kTogether =
    8;  // positions whose transitions are picked out together: they stand side by side
constexpr Index kPartWork = 1 << 20;  // multiplications that outweigh the hand-over to another thread

// The slots of every anchor, and where each takes its data from and adds its gradient to.
struct ByAnchor {
  explicit ByAnchor(const void* const* in)
      : first(table_of<Index>(in, 0)),
        slot(table_of<Index>(in, 1)),
        source(table_of<Index>(in, 2)),
        parameter(table_of<Index>(in, 3)),
        beside(table_of<std::uint8_t>(in, 4)) {}

  const Index* first;  // per position, into `slot`; one more at the end
  const Index* slot;
  const Index *source, *parameter;  // by slot; no source: null
  const std::uint8_t* beside;  // per position: the slots of the next one stand beside its own, one by one

  Index count(Index p) const { return first[p + 1] - first[p]; }
  const Index* slots_of(Index p) const { return slot + first[p]; }
};

void gemm(Index m, Index n, Index k, const float* a, const float* b, float* c, Index columns, void* scratch) {
  etp_gemm_f32(m, n, k, a, k, 1, b, columns, 1, c, columns, 1, scratch);
}
void gemm(Index m, Index n, Index k, const double* a, const double* b, double* c, Index columns,
          void* scratch) {
  etp_gemm_f64(m, n, k, a, k, 1, b, columns, 1, c, columns, 1, scratch);
}
template <class T>
std::size_t gemm_scratch(Index m) {
  return sizeof(T) == 4 ? etp_gemm_scratch_f32(m, kSlots, m, 0) : etp_gemm_scratch_f64(m, kSlots, m, 0);
}

template <class T>
class WidePass {
 public:
  WidePass(const Geometry& g, const ByAnchor& at, const Buffers<T>& b, T* slot_gradient, std::byte* scratch)
      : g_(g), at_(at), b_(b), slot_gradient_(slot_gradient), moves_(reinterpret_cast<T*>(scratch)) {
    old_ = moves_ + kTogether * g.states * g.states;
    next_ = old_ + kTogether * block();
    product_scratch_ = scratch + own_bytes(g);
  }
  static std::size_t own_bytes(const Geometry& g) {
    return whole_lines<T>(kTogether * g.states * (g.states + 2 * kSlots));
  }
  static std::size_t scratch_bytes(const Geometry& g) {
    return own_bytes(g) + (gemm_scratch<T>(g.states) + 63) / 64 * 64;
  }

  // Positions whose slots stand side by side are taken together, since they share lines of memory.
  void positions(Index first, Index last) {
    for (Index p = first, count; p < last; p += count) {
      count = 1;
      while (count < kTogether && p + count < last && at_.beside[p + count - 1] != 0) ++count;
      for (Index b = 0; b < g_.batch; ++b) {
        pick_transitions(p, count, b);
        for (Index s = 0; s < at_.count(p); s += kSlots)
          slots(at_.slots_of(p) + s, std::min(kSlots, at_.count(p) - s), p, count, b);
      }
    }
  }

 private:
  Index block() const { return g_.states * kSlots; }  // numbers of one position at work

  void pick_transitions(Index p, Index count, Index b) {
    const Index pairs = g_.states * g_.states, all = g_.batch * g_.positions;
    const T* from = b_.transition + b * g_.positions + p;
    for (Index i0 = 0; i0 < pairs; i0 += kTogether) {  // squares, so that lines are read and written whole
      const Index width = std::min(kTogether, pairs - i0);
      for (Index q = 0; q < count; ++q)
        for (Index i = i0; i < i0 + width; ++i) moves_[q * pairs + i] = from[i * all + q];
    }
  }

  // n slots of position p, and those beside them of the positions after it.
  void slots(const Index* slot, Index n, Index p, Index count, Index b) {
    const Index m = g_.states, all = g_.batch * g_.positions;
    for (Index c = 0; c < m; ++c) load(slot, n, count, b * m + c, old_ + c * kSlots);
    for (Index q = 0; q < count; ++q) {
      const Index here = b * g_.positions + p + q;
      T *const old = old_ + q * block(), *const next = next_ + q * block();
      for (Index a = 0; a < m; ++a)
        inject(b_.injection + a * all + here, m * all, slot, n, q, b, next + a * kSlots);
      if (b_.gradient != nullptr) add_gradient(slot, n, q, here, b, old);
      gemm(m, n, m, moves_ + q * m * m, old, next, kSlots, product_scratch_);
    }
    for (Index a = 0; a < m; ++a) store(next_ + a * kSlots, slot, n, count, b * m + a);
  }

  // sum[j] = gain·Σ_k x_k·v_k at the slots beside slot[j], v_k at v + k·v_step
  void inject(const T* v, Index v_step, const Index* slot, Index n, Index q, Index b, T* sum) const {
    const auto at = [&](const Index* table, Index j) { return table[slot[j] + q]; };
    std::fill_n(sum, n, T(0));
    for (Index k = 0; k < g_.steps; ++k) {
      const T factor = v[k * v_step];
      const T* x = b_.source == nullptr ? nullptr : b_.source + (k * g_.batch + b) * g_.elements;
      for (Index j = 0; j < n; ++j) sum[j] += x == nullptr ? factor : factor * x[at(at_.source, j)];
    }
    if (b_.gain == nullptr) return;
    for (Index j = 0; j < n; ++j) sum[j] *= b_.gain[at(at_.parameter, j)];
  }

  void add_gradient(const Index* slot, Index n, Index q, Index here, Index b, const T* old) {
    const Index all = g_.batch * g_.positions;
    T sum[kSlots];
    if (b_.weighted != nullptr)
      inject(b_.weighted + here, all, slot, n, q, b, sum);
    else
      std::fill_n(sum, n, T(0));
    for (Index c = 0; c < g_.states; ++c) {
      const T u = b_.entry[c * all + here];
      for (Index j = 0; j < n; ++j) sum[j] += u * old[c * kSlots + j];
    }
    for (Index j = 0; j < n; ++j) {
      T& total = slot_gradient_[slot[j] + q];
      total = b == 0 ? sum[j] : total + sum[j];
    }
  }

  void load(const Index* slot, Index n, Index count, Index row, T* to) const {
    const T* from = reinterpret_cast<const T*>(b_.trace) + row * g_.slots;
    T stretch[kTogether];
    for (Index j = 0; j < n; ++j) {
      const T* beside = from + slot[j];
      if (!b_.as_computed()) {
        b_.load(stored(b_.trace, row, slot[j]), count, stretch);
        beside = stretch;
      }
      for (Index q = 0; q < count; ++q) to[q * block() + j] = beside[q];
    }
  }
  void store(const T* from, const Index* slot, Index n, Index count, Index row) const {
    T* to = reinterpret_cast<T*>(b_.next) + row * g_.slots;
    T stretch[kTogether];
    for (Index j = 0; j < n; ++j) {
      T* beside = b_.as_computed() ? to + slot[j] : stretch;
      for (Index q = 0; q < count; ++q) beside[q] = from[q * block() + j];
      if (!b_.as_computed()) b_.store(stretch, count, stored(b_.next, row, slot[j]));
    }
  }
  template <class Byte>
  Byte* stored(Byte* trace, Index row, Index slot) const {
    return trace + static_cast<std::size_t>(row * g_.slots + slot) * b_.storage.bytes;
  }

  const Geometry& g_;
  const ByAnchor& at_;
  const Buffers<T>& b_;
  T* slot_gradient_;
  T *moves_, *old_, *next_;
  void* product_scratch_;
};

Index wide_parts(const etp_trace_window& d, Index threads) {
  const Index work = d.slots * d.batch * d.states * d.states;
  return threads_of(d, std::clamp<Index>(work / kPartWork, 1, threads), d.positions);
}

template <class T>
std::size_t by_slot_bytes(const etp_trace_window& d) {
  return d.has_gradient != 0 ? whole_lines<T>(d.slots) : 0;
}

template <class T>
std::size_t wide_scratch_bytes(const etp_trace_window& d, Index threads) {
  return by_slot_bytes<T>(d) +
         WidePass<T>::scratch_bytes(Geometry(d)) * static_cast<std::size_t>(wide_parts(d, threads));
}

template <class T>
void run_wide(const etp_trace_window& d, const etp_context& context, const void* const* in,
              const Buffers<T>& b, void* scratch) {
  if (b.gradient != nullptr) std::fill_n(b.gradient, d.parameters, T(0));
  if (d.slots == 0 || d.batch == 0) return;
  const Geometry g(d);
  const ByAnchor slots(in);
  const Index parts = wide_parts(d, context.threads);
  const std::size_t per_part = WidePass<T>::scratch_bytes(g);
  T* const slot_gradient = static_cast<T*>(scratch);
  auto* const own = static_cast<std::byte*>(scratch) + by_slot_bytes<T>(d);
  in_parts(context, parts, [&](int part) {
    WidePass<T> pass(g, slots, b, slot_gradient, own + per_part * static_cast<std::size_t>(part));
    pass.positions(g.positions * part / parts, g.positions * (part + 1) / parts);
  });
  if (b.gradient == nullptr) return;
  for (Index s = 0; s < g.slots; ++s) b.gradient[slots.parameter[s]] += slot_gradient[s];
}

}  // namespace

template <class T>
FormCode<T> wide_form() {
  return {wide_parts, wide_scratch_bytes<T>, run_wide<T>};
}
template FormCode<float> wide_form();
template FormCode<double> wide_form();

}  // namespace etrace::trace_pass
