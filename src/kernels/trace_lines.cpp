// The trace of a sparse weight: slots are walked in lines that share an anchor (or, where the slots lie that
// way, a source). The K values of a source, and those of an anchor, are brought side by side first, so that
// the sums of a slot over the steps are products of two short rows; the trace is read and written once.
// Threads take stretches of lines, and no sum depends on where they end.
#include <algorithm>

#include "kernels/lanes.h"
#include "kernels/lines.h"
#include "kernels/trace_forms.h"

namespace etrace::trace_pass {

namespace {

constexpr Index kTurnSteps = 4;  // from so many steps on, rows of steps pay
constexpr Index kChunk = 64;     // slots of one line at a time

struct SparseForm : etp_trace_window {  // without a source there is one element, 1
  explicit SparseForm(const etp_trace_window& d) : etp_trace_window(d) {}
  SparseForm(const etp_trace_window& d, const void* const* in) : etp_trace_window(d) {
    lines = {by_anchor != 0 ? positions : elements, slots, table_of<std::int32_t>(in, 0),
             table_of<std::int32_t>(in, 1), in_order != 0 ? nullptr : table_of<std::int32_t>(in, 2)};
  }
  Lines lines{};

  bool turned() const { return steps >= kTurnSteps; }
  // The gradient so far waits until all samples are summed; here it need not wait.
  bool adds_total() const { return has_total != 0 && batch == 1; }
  Index rows() const { return states + has_weighted; }  // of an anchor: q of each state, w
};

template <class T>
class SparsePass {
 public:
  SparsePass(const SparseForm& f, const Buffers<T>& b, T* scratch)
      : f_(f), b_(b), length_(round_up(f.steps, kLanes<T>)), x_(scratch) {
    anchors_ = x_ + f.elements * length_;
  }
  static Index scratch_elements(const SparseForm& f) {
    return f.turned() ? (f.elements + f.positions * f.rows()) * round_up(f.steps, kLanes<T>) : 0;
  }

  // The rows of steps, for one sample: [elements, K] and [positions, rows, K].
  void turn_part(Index b, int part, int parts) const {
    const auto cut = [&](Index n, int p) { return n * p / parts; };
    const Index e0 = cut(f_.elements, part), e1 = cut(f_.elements, part + 1);
    if (b_.source != nullptr)
      turn(b_.source + b * f_.elements, f_.steps, f_.batch * f_.elements, e0, e1, x_, length_, length_);
    else if (e0 < e1)
      for (Index k = 0; k < length_; ++k) x_[k] = T(k < f_.steps ? 1 : 0);
    const Index p0 = cut(f_.positions, part), p1 = cut(f_.positions, part + 1), all = f_.batch * f_.positions;
    for (Index a = 0; a < f_.rows(); ++a)
      if (a < f_.states)
        turn(b_.injection + a * all + b * f_.positions, f_.steps, f_.states * all, p0, p1,
             anchors_ + a * length_, f_.rows() * length_, length_);
      else
        turn(b_.weighted + b * f_.positions, f_.steps, all, p0, p1, anchors_ + a * length_,
             f_.rows() * length_, length_);
  }

  void lines_part(Index b, int part, int parts) {
    const Index end = f_.lines.part_begin(part + 1, parts);
    for (Index l = f_.lines.part_begin(part, parts); l < end; ++l) {
      const Index last = f_.lines.first[l + 1];
      for (Index i = f_.lines.first[l]; i < last; i += kChunk) chunk(b, l, i, std::min(kChunk, last - i));
    }
  }

 private:
  Index other(Index i) const { return f_.lines.other[i]; }

  // Slots i … i+n−1 of line l.
  void chunk(Index b, Index l, Index i, Index n) {
    if (f_.turned())
      sum_turned(l, i, n);
    else
      sum_in_place(b, l, i, n);
    if (b_.gain != nullptr)
      for (Index a = 0; a < f_.rows(); ++a)
        for (Index j = 0; j < n; ++j) sums_[a * kChunk + j] *= b_.gain[f_.lines.entry_at(i + j)];
    f_.by_anchor != 0 ? move<true>(b, l, i, n) : move<false>(b, l, i, n);
  }

  // sums[a, j] = Σ_k x_k·v_k of the rows of both, for the slots of a chunk.
  void sum_turned(Index l, Index i, Index n) {
    const Index vectors = length_ / kLanes<T>;
    for (Index a = 0; a < f_.rows(); ++a) {
      const T* line = f_.by_anchor != 0 ? anchors_ + (l * f_.rows() + a) * length_ : x_ + l * length_;
      const T* others = f_.by_anchor != 0 ? x_ : anchors_ + a * length_;
      const Index stride = f_.by_anchor != 0 ? length_ : f_.rows() * length_;
      if (vectors == 4)
        sum_rows<4>(line, others, stride, i, n, sums_ + a * kChunk);
      else if (vectors == 2)
        sum_rows<2>(line, others, stride, i, n, sums_ + a * kChunk);
      else
        sum_rows<0>(line, others, stride, i, n, sums_ + a * kChunk);
    }
  }
  // Count 0: any number of vectors.
  template <int Count>
  void sum_rows(const T* line, const T* others, Index stride, Index i, Index n, T* sum) const {
    using L = Lanes<T>;
    if constexpr (Count > 0) {
      VectorOf<T> own[Count];
      for (int v = 0; v < Count; ++v) own[v] = L::load(line + v * kLanes<T>);
      for (Index j = 0; j < n; ++j) {
        const T* row = others + other(i + j) * stride;
        VectorOf<T> s = own[0] * L::load(row);
        for (int v = 1; v < Count; ++v) s = L::fma(own[v], L::load(row + v * kLanes<T>), s);
        sum[j] = sum_of_lanes<T>(s);
      }
    } else {
      for (Index j = 0; j < n; ++j) {
        const T* row = others + other(i + j) * stride;
        VectorOf<T> s{};
        for (Index k = 0; k < length_; k += kLanes<T>) s = L::fma(L::load(line + k), L::load(row + k), s);
        sum[j] = sum_of_lanes<T>(s);
      }
    }
  }

  // The same for few steps, from where the operands lie.
  void sum_in_place(Index b, Index l, Index i, Index n) {
    const Index all = f_.batch * f_.positions;
    std::fill_n(sums_, f_.rows() * kChunk, T(0));
    for (Index k = 0; k < f_.steps; ++k) {
      const T* x = b_.source == nullptr ? nullptr : b_.source + (k * f_.batch + b) * f_.elements;
      for (Index a = 0; a < f_.rows(); ++a) {
        const T* v = a < f_.states ? b_.injection + (k * f_.states + a) * all : b_.weighted + k * all;
        v += b * f_.positions;
        T* sum = sums_ + a * kChunk;
        if (f_.by_anchor != 0)
          for (Index j = 0; j < n; ++j) sum[j] += (x == nullptr ? T(1) : x[other(i + j)]) * v[l];
        else
          for (Index j = 0; j < n; ++j) sum[j] += (x == nullptr ? T(1) : x[l]) * v[other(i + j)];
      }
    }
  }

  // e ← P·e + sums, g = u·e + w
  template <bool ByAnchor>
  void move(Index b, Index l, Index i, Index n) {
    const Index m = f_.states, all = f_.batch * f_.positions;
    const std::int32_t* others = f_.lines.other + i;
    const auto at_anchor = [&](const T* v, Index j) {
      return v[b * f_.positions + (ByAnchor ? l : others[j])];
    };
    for (Index c = 0; c < m; ++c) load_row(b, c, i, n);
    if (b_.gradient != nullptr) {
      if (b_.weighted != nullptr)
        std::copy_n(sums_ + m * kChunk, n, grads_);
      else
        std::fill_n(grads_, n, T(0));
      for (Index c = 0; c < m; ++c)
        for (Index j = 0; j < n; ++j) grads_[j] += at_anchor(b_.entry + c * all, j) * old_[c * kChunk + j];
      put_gradient(b, i, n);
    }
    for (Index a = 0; a < m; ++a) {
      T* next = sums_ + a * kChunk;
      for (Index c = 0; c < m; ++c)
        for (Index j = 0; j < n; ++j)
          next[j] += at_anchor(b_.transition + (a * m + c) * all, j) * old_[c * kChunk + j];
      store_row(b, a, i, n);
    }
  }

  void put_gradient(Index b, Index i, Index n) const {
    for (Index j = 0; j < n; ++j) {
      const Index at = f_.lines.entry_at(i + j);
      if (f_.adds_total())
        b_.gradient[at] = b_.total[at] + grads_[j];
      else
        b_.gradient[at] = b == 0 ? grads_[j] : b_.gradient[at] + grads_[j];
    }
  }

  void load_row(Index b, Index state, Index i, Index n) {
    const Index start = (b * f_.states + state) * f_.slots;
    T* row = old_ + state * kChunk;
    const Index pieces = f_.lines.in_order() ? 1 : n, length = n / pieces;
    for (Index j = 0; j < pieces; ++j) {
      const Index at = start + f_.lines.entry_at(i + j);
      if (b_.as_computed())
        std::copy_n(reinterpret_cast<const T*>(b_.trace) + at, length, row + j);
      else
        b_.load(b_.trace + static_cast<std::size_t>(at) * b_.storage.bytes, length, row + j);
    }
  }
  void store_row(Index b, Index state, Index i, Index n) {
    const Index start = (b * f_.states + state) * f_.slots;
    const T* row = sums_ + state * kChunk;
    const Index pieces = f_.lines.in_order() ? 1 : n, length = n / pieces;
    for (Index j = 0; j < pieces; ++j) {
      const Index at = start + f_.lines.entry_at(i + j);
      if (b_.as_computed())
        std::copy_n(row + j, length, reinterpret_cast<T*>(b_.next) + at);
      else
        b_.store(row + j, length, b_.next + static_cast<std::size_t>(at) * b_.storage.bytes);
    }
  }

 public:
  // Of one part: the sums of a chunk, the old trace, the gradient.
  static Index part_elements(const SparseForm& f) { return (f.rows() + f.states + 1) * kChunk; }
  void use(T* own) {
    sums_ = own;
    old_ = sums_ + f_.rows() * kChunk;
    grads_ = old_ + f_.states * kChunk;
  }

 private:
  const SparseForm& f_;
  const Buffers<T>& b_;
  Index length_;  // of a row of steps
  T *x_, *anchors_, *sums_ = nullptr, *old_ = nullptr, *grads_ = nullptr;
};

Index line_parts(const etp_trace_window& d, Index threads) {
  const Index work = d.slots * d.states * std::max<Index>(1, d.steps / 8);
  return threads_of(d, parts_of_work(work, threads), d.slots);
}

template <class T>
std::size_t line_scratch_bytes(const etp_trace_window& d, Index threads) {
  const SparseForm f(d);
  return whole_lines<T>(SparsePass<T>::scratch_elements(f)) +
         whole_lines<T>(SparsePass<T>::part_elements(f)) * static_cast<std::size_t>(line_parts(d, threads));
}

template <class T>
void run_lines(const etp_trace_window& d, const etp_context& context, const void* const* in,
               const Buffers<T>& b, void* memory) {
  if (d.slots == 0) return;
  if (d.batch == 0 && b.gradient != nullptr) std::fill_n(b.gradient, d.slots, T(0));
  const SparseForm f(d, in);
  const auto parts = static_cast<int>(line_parts(d, context.threads));
  auto* const scratch = static_cast<std::byte*>(memory);
  auto* const own = scratch + whole_lines<T>(SparsePass<T>::scratch_elements(f));
  const std::size_t part_bytes = whole_lines<T>(SparsePass<T>::part_elements(f));
  const SparsePass<T> shared(f, b, reinterpret_cast<T*>(scratch));
  for (Index sample = 0; sample < f.batch; ++sample) {
    if (f.turned()) in_parts(context, parts, [&](int part) { shared.turn_part(sample, part, parts); });
    in_parts(context, parts, [&](int part) {
      SparsePass<T> pass = shared;
      pass.use(reinterpret_cast<T*>(own + part_bytes * static_cast<std::size_t>(part)));
      pass.lines_part(sample, part, parts);
    });
  }
}

}  // namespace

template <class T>
FormCode<T> lines_form() {
  return {line_parts, line_scratch_bytes<T>, run_lines<T>,
          [](const etp_trace_window& d) { return SparseForm(d).adds_total(); }};
}
template FormCode<float> lines_form();
template FormCode<double> lines_form();

}  // namespace etrace::trace_pass
