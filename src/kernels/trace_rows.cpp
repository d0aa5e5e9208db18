// Passes of trace_window that fit any trace, and that of one step of a dense weight. The trace is read once
// and written once.
//
// Slots are walked as rows of columns (the last axis, axes joined where the strides allow it). What belongs
// to the anchors of a row is contiguous or is gathered first, so that all arithmetic runs over unit strides.
// With more than a few steps, and rows × columns that split into source and anchor, the sums over k are
// matrix products: one per sample for the trace, one over all samples for the gradient. Threads take
// stretches of rows; every sum has one order, so results do not depend on their number.
#include <algorithm>

#include "kernels/lanes.h"
#include "kernels/trace_direct.h"
#include "kernels/trace_forms.h"
#include "kernels/trace_split.h"
#include "runtime/etp_gemm.h"

namespace etrace::trace_pass {

namespace {

constexpr Index kColumns = 512;          // of a chunk: its rows of scratch stay in the first cache
constexpr Index kBlock = kRowsOfABlock;  // rows of one matrix product

void gemm(Index m, Index n, Index k, const float* a, Index ar, Index ac, const float* b, Index br, Index bc,
          float* c, Index cr, void* scratch, bool add = false) {
  etp_gemm_f32(m, n, k, a, ar, ac, b, br, bc, c, cr, add ? 1 : 0, scratch);
}
void gemm(Index m, Index n, Index k, const double* a, Index ar, Index ac, const double* b, Index br, Index bc,
          double* c, Index cr, void* scratch, bool add = false) {
  etp_gemm_f64(m, n, k, a, ar, ac, b, br, bc, c, cr, add ? 1 : 0, scratch);
}

// One pass --------------------------------------------------------------------------------------------------
template <class T>
class Pass {
 public:
  // `products`: whether the sums over k are matrix products.
  Pass(const Geometry& g, bool products, const Buffers<T>& b, T* scratch, void* product_scratch)
      : g_(g), b_(b), product_scratch_(product_scratch), last_column_(g.column.size), products_(products) {
    const Index m = g.states;
    auto take = [&](Index count) {
      T* at = scratch;
      scratch += count;
      return at;
    };
    moves_ = take(m * m * kColumns), adds_ = take(m * kColumns), old_ = take(m * kColumns);
    fresh_ = take(m * kColumns);
    signals_ = take(m * kColumns), grads_ = take(kColumns), line_ = take(kColumns), data_ = take(kColumns);
    if (products) {
      block_ = take(m * kBlock * g.column.size);
      block_gradient_ = take(kBlock * g.column.size);
    }
  }

  static Index scratch_elements(const Geometry& g, bool products) {
    const Index m = g.states, block = products ? (m + 1) * kBlock * g.column.size : 0;
    return (m * m + 4 * m + 3) * kColumns + block;
  }

  void only_columns(Index first, Index last) { first_column_ = first, last_column_ = last; }

  // A stretch of rows of the matrix that starts at the given slot, source element, anchor and parameter.
  void rows(Index first, Index last, Index slot, Axis at) {
    for (Index r0 = first; r0 < last; r0 += kBlock) {
      const Index count = std::min(kBlock, last - r0);
      const bool blocks = products_;
      if (blocks && b_.weighted != nullptr)
        product(count, r0, at, g_.steps * g_.batch, g_.elements, g_.positions, b_.source, b_.weighted,
                block_gradient_);
      for (Index b = 0; b < g_.batch; ++b) {
        if (blocks)
          for (Index a = 0; a < g_.states; ++a)
            product(count, r0, at, g_.steps, g_.batch * g_.elements, g_.states * g_.batch * g_.positions,
                    b_.source + b * g_.elements, b_.injection + (a * g_.batch + b) * g_.positions,
                    block_ + a * kBlock * g_.column.size);
        for (Index r = r0; r < r0 + count; ++r) row(r - r0, slot + r * g_.column.size, moved(at, r), b);
      }
    }
  }

 private:
  Axis moved(const Axis& at, Index r) const {
    return {0, at.source + r * g_.row.source, at.anchor + r * g_.row.anchor,
            at.parameter + r * g_.row.parameter};
  }

  // out[r,c] = Σ_k x_k[source of (r, c)]·v_k[anchor of (r, c)]
  void product(Index count, Index r0, const Axis& at, Index depth, Index x_step, Index v_step, const T* x,
               const T* v, T* out) {
    const Axis start = moved(at, r0);
    x += start.source, v += start.anchor;
    if (g_.column.source == 0)
      gemm(count, g_.column.size, depth, x, g_.row.source, x_step, v, v_step, g_.column.anchor, out,
           g_.column.size, product_scratch_);
    else
      gemm(count, g_.column.size, depth, v, g_.row.anchor, v_step, x, x_step, g_.column.source, out,
           g_.column.size, product_scratch_);
  }

  void row(Index in_block, Index slot, const Axis& at, Index b) {
    for (Index c0 = first_column_; c0 < last_column_; c0 += kColumns) {
      const Index n = std::min(kColumns, last_column_ - c0);
      chunk(in_block, slot + c0, c0, n, at, b);
    }
  }

  // Values at the anchors (or sources) of a chunk: in place if they are side by side.
  const T* line(const T* base, const Index* table, Index start, Index stride, Index c0, Index n,
                T* space) const {
    if (g_.gathered != 0) {
      for (Index j = 0; j < n; ++j) space[j] = base[table[c0 + j]];
      return space;
    }
    const T* first = base + start + c0 * stride;
    if (stride == 1) return first;
    for (Index j = 0; j < n; ++j) space[j] = first[j * stride];
    return space;
  }
  const T* anchored(const T* base, const Axis& at, Index c0, Index n, T* space) const {
    return line(base, g_.anchor, at.anchor, g_.column.anchor, c0, n, space);
  }

  // sum[j] = Σ_k x_k·v_k over the steps, v_k at v + k·v_step.
  void inject(const T* v, Index v_step, Index b, const Axis& at, Index c0, Index n, T* sum) {
    if (g_.steps == 0) std::fill_n(sum, n, T(0));
    for (Index k = 0; k < g_.steps; ++k) {
      const T* __restrict q = anchored(v + k * v_step, at, c0, n, line_);
      if (g_.elements == 0) {
        for (Index j = 0; j < n; ++j) sum[j] = k == 0 ? q[j] : sum[j] + q[j];
        continue;
      }
      const T* x = b_.source + (k * g_.batch + b) * g_.elements;
      if (g_.gathered == 0 && g_.column.source == 0) {
        const T factor = x[at.source];
        if (k == 0)
          for (Index j = 0; j < n; ++j) sum[j] = factor * q[j];
        else
          for (Index j = 0; j < n; ++j) sum[j] += factor * q[j];
        continue;
      }
      const T* __restrict d = line(x, g_.source, at.source, g_.column.source, c0, n, data_);
      if (k == 0)
        for (Index j = 0; j < n; ++j) sum[j] = d[j] * q[j];
      else
        for (Index j = 0; j < n; ++j) sum[j] += d[j] * q[j];
    }
  }

  const T* gain(const Axis& at, Index c0, Index n) {
    return line(b_.gain, g_.parameter, at.parameter, g_.column.parameter, c0, n, line_);
  }
  void scale(T* __restrict v, const Axis& at, Index c0, Index n) {
    if (b_.gain == nullptr) return;
    const T* __restrict factor = gain(at, c0, n);
    for (Index j = 0; j < n; ++j) v[j] *= factor[j];
  }

  void add_gradient(const T* __restrict g, const Axis& at, Index c0, Index n) {
    if (g_.gathered != 0) {
      for (Index j = 0; j < n; ++j) b_.gradient[g_.parameter[c0 + j]] += g[j];
      return;
    }
    T* out = b_.gradient + at.parameter + c0 * g_.column.parameter;
    if (g_.column.parameter == 1)
      for (Index j = 0; j < n; ++j) out[j] += g[j];
    else
      for (Index j = 0; j < n; ++j) out[j * g_.column.parameter] += g[j];
  }

  void chunk(Index in_block, Index slot, Index c0, Index n, const Axis& at, Index b) {
    const Index m = g_.states, bp = b * g_.positions, all = g_.batch * g_.positions;
    const bool blocks = products_;
    // What is added.
    const T* adds[2];
    for (Index a = 0; a < m; ++a) {
      T* sum = adds_ + a * kColumns;
      if (blocks) {
        const T* from = block_ + (a * kBlock + in_block) * g_.column.size + c0;
        if (b_.gain == nullptr && m <= 2) {
          adds[a] = from;
          continue;
        }
        std::copy_n(from, n, sum);
      } else {
        inject(b_.injection + a * all + bp, m * all, b, at, c0, n, sum);
      }
      scale(sum, at, c0, n);
      if (m <= 2) adds[a] = sum;
    }
    if (b_.gradient != nullptr) {
      T* __restrict g = grads_;
      std::fill_n(g, n, T(0));
      if (b_.weighted != nullptr && !blocks) {
        inject(b_.weighted + bp, all, b, at, c0, n, g);
        scale(g, at, c0, n);
      }
      if (b_.weighted != nullptr && blocks && b == 0) {  // the product holds all samples
        std::copy_n(block_gradient_ + in_block * g_.column.size + c0, n, g);
        scale(g, at, c0, n);
      }
    }
    const T* moves[4];
    for (Index i = 0; i < m * m; ++i) {
      const T* p = anchored(b_.transition + i * all + bp, at, c0, n, moves_ + i * kColumns);
      if (m <= 2)
        moves[i] = p;
      else if (p != moves_ + i * kColumns)
        std::copy_n(p, n, moves_ + i * kColumns);
    }
    const T* signals[2];
    for (Index c = 0; b_.gradient != nullptr && c < m; ++c) {
      const T* u = anchored(b_.entry + c * all + bp, at, c0, n, signals_ + c * kColumns);
      if (m <= 2)
        signals[c] = u;
      else if (u != signals_ + c * kColumns)
        std::copy_n(u, n, signals_ + c * kColumns);
    }
    const Index start = b * m * g_.slots + slot;
    if (m == 1)
      one_state(n, start, moves, adds, signals);
    else if (m == 2)
      two_states(n, start, moves, adds, signals);
    else
      any_states(n, start);
    finish(start, n);
    if (b_.gradient != nullptr) add_gradient(grads_, at, c0, n);
  }

  // A row of the old trace, and where the new one goes; `finish` brings it there.
  const T* old_row(Index start, Index n, Index state) {
    const Index at = start + state * g_.slots;
    if (b_.as_computed()) return reinterpret_cast<const T*>(b_.trace) + at;
    T* row = old_ + state * kColumns;
    b_.load(b_.trace + static_cast<std::size_t>(at) * b_.storage.bytes, n, row);
    return row;
  }
  T* new_row(Index start, Index state) {
    return b_.as_computed() ? reinterpret_cast<T*>(b_.next) + start + state * g_.slots
                            : fresh_ + state * kColumns;
  }
  void finish(Index start, Index n) {
    if (b_.as_computed()) return;
    for (Index a = 0; a < g_.states; ++a)
      b_.store(fresh_ + a * kColumns, n,
               b_.next + static_cast<std::size_t>(start + a * g_.slots) * b_.storage.bytes);
  }

  void one_state(Index n, Index start, const T* const* moves, const T* const* adds, const T* const* signals) {
    const T* e = old_row(start, n, 0);
    T* out = new_row(start, 0);
    const T* __restrict d = moves[0];
    const T* __restrict f = adds[0];
    if (b_.gradient == nullptr) {
#pragma GCC ivdep
      for (Index j = 0; j < n; ++j) out[j] = d[j] * e[j] + f[j];
      return;
    }
    const T* __restrict u = signals[0];
    T* __restrict g = grads_;
#pragma GCC ivdep
    for (Index j = 0; j < n; ++j) {
      const T old = e[j];
      g[j] += u[j] * old;
      out[j] = d[j] * old + f[j];
    }
  }

  void two_states(Index n, Index start, const T* const* moves, const T* const* adds,
                  const T* const* signals) {
    const T *e0 = old_row(start, n, 0), *e1 = old_row(start, n, 1);
    T *out0 = new_row(start, 0), *out1 = new_row(start, 1);
    const T* __restrict d00 = moves[0], * __restrict d01 = moves[1];
    const T* __restrict d10 = moves[2], * __restrict d11 = moves[3];
    const T* __restrict f0 = adds[0], * __restrict f1 = adds[1];
    if (b_.gradient != nullptr) {
      const T* __restrict u0 = signals[0], * __restrict u1 = signals[1];
      T* __restrict g = grads_;
      for (Index j = 0; j < n; ++j) g[j] += u0[j] * e0[j] + u1[j] * e1[j];
    }
#pragma GCC ivdep
    for (Index j = 0; j < n; ++j) {
      const T a = e0[j], b = e1[j];
      out0[j] = d00[j] * a + d01[j] * b + f0[j];
      out1[j] = d10[j] * a + d11[j] * b + f1[j];
    }
  }

  void any_states(Index n, Index start) {
    const Index m = g_.states;
    for (Index c = 0; c < m; ++c) {
      T* __restrict old = old_ + c * kColumns;
      if (const T* row = old_row(start, n, c); row != old) std::copy_n(row, n, old);
      if (b_.gradient == nullptr) continue;
      const T* __restrict u = signals_ + c * kColumns;
      T* __restrict g = grads_;
      for (Index j = 0; j < n; ++j) g[j] += u[j] * old[j];
    }
    for (Index a = 0; a < m; ++a) {
      T* __restrict sum = adds_ + a * kColumns;
      for (Index c = 0; c < m; ++c) {
        const T* __restrict d = moves_ + (a * m + c) * kColumns;
        const T* __restrict old = old_ + c * kColumns;
        for (Index j = 0; j < n; ++j) sum[j] += d[j] * old[j];
      }
      std::copy_n(sum, n, new_row(start, a));
    }
  }

  const Geometry& g_;
  const Buffers<T>& b_;
  void* product_scratch_;
  Index first_column_ = 0, last_column_;
  bool products_;
  T *moves_, *adds_, *old_, *fresh_, *signals_, *grads_, *line_, *data_, *block_ = nullptr,
                                                                         *block_gradient_ = nullptr;
};

// The kernel ------------------------------------------------------------------------------------------------
template <class T>
std::size_t product_scratch(const Geometry& g) {
  const int flags = ETP_GEMM_TA | ETP_GEMM_TB;
  const Index depth = g.steps * g.batch;
  const std::size_t bytes = sizeof(T) == 4 ? etp_gemm_scratch_f32(kBlock, g.column.size, depth, flags)
                                           : etp_gemm_scratch_f64(kBlock, g.column.size, depth, flags);
  return (bytes + 63) / 64 * 64;
}

// The products of a block of rows are of all columns.
template <bool Products>
Split row_split(const Geometry& g, const etp_trace_window& d, Index threads) {
  return Split(g, d, threads, !Products);
}
template <bool Products>
Index row_parts(const etp_trace_window& d, Index threads) {
  return row_split<Products>(Geometry(d), d, threads).parts;
}

template <class T, bool Products>
std::size_t row_part_bytes(const Geometry& g) {
  return whole_lines<T>(Pass<T>::scratch_elements(g, Products)) + product_scratch<T>(g);
}

template <class T, bool Products>
std::size_t row_scratch_bytes(const etp_trace_window& d, Index threads) {
  return row_part_bytes<T, Products>(Geometry(d)) * static_cast<std::size_t>(row_parts<Products>(d, threads));
}

template <class T, bool Products>
void run_rows(const etp_trace_window& d, const etp_context& context, const void* const* in,
              const Buffers<T>& b, void* memory) {
  if (b.gradient != nullptr) std::fill_n(b.gradient, d.parameters, T(0));
  if (d.slots == 0 || d.batch == 0) return;
  const Geometry g(d, in);
  const Split split = row_split<Products>(g, d, context.threads);
  const std::size_t own = whole_lines<T>(Pass<T>::scratch_elements(g, Products));
  in_parts(context, split.parts, [&](int part) {
    std::byte* scratch =
        static_cast<std::byte*>(memory) + static_cast<std::size_t>(part) * row_part_bytes<T, Products>(g);
    Pass<T> pass(g, Products, b, reinterpret_cast<T*>(scratch), scratch + own);
    if (split.kind == Split::Columns) pass.only_columns(split.begin(part), split.begin(part + 1));
    for_rows(g, split, part, [&](Index first, Index last, Index slot, const Axis& start) {
      pass.rows(first, last, slot, start);
    });
  });
}

// One step --------------------------------------------------------------------------------------------------
// The gradient where there are no slots or no samples.
template <class T>
void no_gradient(const Geometry& g, const Buffers<T>& b) {
  if (b.gradient == nullptr) return;
  if (b.total == nullptr)
    std::fill_n(b.gradient, g.parameters, T(0));
  else if (b.total != b.gradient)
    std::copy_n(b.total, g.parameters, b.gradient);
}

template <class T>
struct StepMemory {  // elements
  explicit StepMemory(const etp_trace_window& d)
      : packed(round_up(DirectPass<T>::packed_elements(Geometry(d), d.has_gradient != 0), 16)),
        sums(d.has_gradient != 0 ? round_up(DirectPass<T>::sum_elements(Geometry(d)), 16) : 0) {}
  Index packed, sums;  // of all threads, of each
};

Index step_parts(const etp_trace_window& d, Index threads) { return Split(Geometry(d), d, threads).parts; }

template <class T>
std::size_t step_scratch_bytes(const etp_trace_window& d, Index threads) {
  const StepMemory<T> m(d);
  return static_cast<std::size_t>(m.packed + step_parts(d, threads) * m.sums) * sizeof(T);
}

template <class T>
void run_step(const etp_trace_window& d, const etp_context& context, const void* const* in,
              const Buffers<T>& b, void* memory) {
  const Geometry g(d, in);
  if (g.slots == 0 || g.batch == 0) return no_gradient(g, b);
  const Split split(g, d, context.threads);
  const StepMemory<T> m(d);
  T* scratch = static_cast<T*>(memory);
  const auto pass = [&](int part) {
    return DirectPass<T>(g, b, scratch, scratch + m.packed + part * m.sums);
  };
  if (m.packed > 0) {
    const Index count = g.matrices * g.batch;
    in_parts(context, split.parts, [&](int part) {
      for (Index i = count * part / split.parts; i < count * (part + 1) / split.parts; ++i)
        pass(part).pack(i / g.batch, g.start_of(i / g.batch).anchor, i % g.batch);
    });
  }
  in_parts(context, split.parts, [&](int part) {
    for_rows(g, split, part, [&](Index first, Index last, Index slot, const Axis& start) {
      pass(part).rows(first, last, slot, start);
    });
  });
}

}  // namespace

template <class T>
FormCode<T> rows_form() {
  return {row_parts<false>, row_scratch_bytes<T, false>, run_rows<T, false>};
}
template <class T>
FormCode<T> products_form() {
  return {row_parts<true>, row_scratch_bytes<T, true>, run_rows<T, true>};
}
template <class T>
FormCode<T> step_form() {
  return {step_parts, step_scratch_bytes<T>, run_step<T>, [](const etp_trace_window&) { return true; }};
}
template FormCode<float> rows_form();
template FormCode<double> rows_form();
template FormCode<float> products_form();
template FormCode<double> products_form();
template FormCode<float> step_form();
template FormCode<double> step_form();

}  // namespace etrace::trace_pass
