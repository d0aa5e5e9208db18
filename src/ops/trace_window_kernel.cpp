// Native code of trace_window. The trace is read once and written once.
//
// Slots are walked as rows of columns (the last axis, axes joined where the strides allow it). What belongs
// to the anchors of a row is contiguous or is gathered first, so that all arithmetic runs over unit strides.
// A dense weight has code of its own, for one step (trace_direct.h) and for many (trace_tiles.h). Elsewhere,
// with more than a few steps, and rows × columns that split into source and anchor, the sums over k are
// matrix products: one per sample for the trace, one over all samples for the gradient. Threads take
// stretches of rows; every sum has one order, so results do not depend on their number.
#include <algorithm>
#include <cstring>
#include <memory>

#include "etrace/error.h"
#include "ops/parts.h"
#include "ops/structure_common.h"
#include "ops/trace_direct.h"
#include "ops/trace_geometry.h"
#include "ops/trace_patch.h"
#include "ops/trace_sparse.h"
#include "ops/trace_split.h"
#include "ops/trace_storage.h"
#include "ops/trace_tiles.h"
#include "ops/trace_wide.h"
#include "runtime/etp_gemm.h"
#include "runtime/thread_pool.h"

namespace etrace::trace {

namespace {

constexpr Index kColumns = 512;     // of a chunk: its rows of scratch stay in the first cache
constexpr Index kBlock = 48;        // rows of one matrix product
constexpr Index kProductSteps = 4;  // from so many steps on, products pay

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

  // Whether the sums over k can be matrix products.
  static bool products_fit(const Geometry& g) {
    return !g.gathered() && g.steps > 1 && g.elements > 0 && g.column.size <= 4096 &&
           ((g.column.source == 0 && g.row.anchor == 0) || (g.column.anchor == 0 && g.row.source == 0));
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
  const T* line(const T* base, const std::vector<Index>& table, Index start, Index stride, Index c0, Index n,
                T* space) const {
    if (g_.gathered()) {
      for (Index j = 0; j < n; ++j) space[j] = base[table[static_cast<std::size_t>(c0 + j)]];
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
      if (!g_.gathered() && g_.column.source == 0) {
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
    if (g_.gathered()) {
      for (Index j = 0; j < n; ++j) b_.gradient[g_.parameter[static_cast<std::size_t>(c0 + j)]] += g[j];
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
    b_.storage.load(b_.trace + static_cast<std::size_t>(at) * b_.storage.bytes, n, row);
    return row;
  }
  T* new_row(Index start, Index state) {
    return b_.as_computed() ? reinterpret_cast<T*>(b_.next) + start + state * g_.slots
                            : fresh_ + state * kColumns;
  }
  void finish(Index start, Index n) {
    if (b_.as_computed()) return;
    for (Index a = 0; a < g_.states; ++a)
      b_.storage.store(fresh_ + a * kColumns, n,
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

// Forms -----------------------------------------------------------------------------------------------------
// Those that fit, the fastest first; the last one always does.
template <class T>
std::vector<TraceForm> fitting(const KernelRequest& r) {
  if (is_wide(r)) return {TraceForm::Wide, TraceForm::Rows};
  if (is_sparse(r)) return {TraceForm::Lines, TraceForm::Rows};
  const Layout at(r.params);
  const Storage<T> storage = storage_of<T>(r.x(0).dtype);
  const Geometry g = geometry_of(r);
  std::vector<TraceForm> out;
  if (is_patch(r)) out.push_back(TraceForm::Patches);
  if (DirectPass<T>::fits(g, at, storage)) out.push_back(TraceForm::Step);
  if (g.steps > 1 && tiles_fit(g, at) && storage.load == nullptr) out.push_back(TraceForm::Tiles);
  if (Pass<T>::products_fit(g)) out.push_back(TraceForm::Products);
  out.push_back(TraceForm::Rows);
  return out;
}

// The form that is asked for, or the first that pays.
template <class T>
TraceForm form_of(const KernelRequest& r) {
  const std::vector<TraceForm> all = fitting<T>(r);
  const Index steps = r.x(Layout(r.params).injection).shape[0];
  if (const std::string wanted = r.params.text_or("form", ""); !wanted.empty()) {
    const std::optional<TraceForm> form = trace_form(wanted);
    if (form && std::find(all.begin(), all.end(), *form) != all.end()) return *form;
    structure::refuse("trace_window", "the form " + wanted + " does not fit a trace of type " +
                                          to_string(r.x(0)) + " in " + std::to_string(steps) + " steps");
  }
  return *std::find_if(all.begin(), all.end(), [&](TraceForm f) {
    return steps >= kProductSteps || (f != TraceForm::Tiles && f != TraceForm::Products);
  });
}

// What keeps a weight from the code for dense ones.
template <class T>
std::string not_dense(const KernelRequest& r) {
  const Layout at(r.params);
  const Geometry g = geometry_of(r);
  if (storage_of<T>(r.x(0).dtype).load != nullptr)
    return "the trace is stored as " + std::string(short_name(r.x(0).dtype));
  if (g.states > 2) return std::to_string(g.states) + " states at each position";
  if (at.gain) return "every slot has a gain";
  if (g.elements == 0) return "slots have no source";
  if (g.shared) return "positions share their parameter";
  return "a row of slots is no row of positions";
}

template <class T>
std::string reason_of(TraceForm form, const KernelRequest& r) {
  if (r.params.has("form")) return "as asked for";
  const std::string steps = std::to_string(r.x(Layout(r.params).injection).shape[0]) + " steps";
  switch (form) {
    case TraceForm::Step:
      return "one step of a dense weight";
    case TraceForm::Tiles:
      return steps + " of a dense weight";
    case TraceForm::Products:
      return steps + ", and " + not_dense<T>(r);
    case TraceForm::Lines:
      return "tables name its slots";
    case TraceForm::Patches:
      return "its parameter feeds many positions";
    case TraceForm::Wide:
      return std::to_string(geometry_of(r).states) + " states at each slot";
    case TraceForm::Rows:
      return fitting<T>(r).size() > 1 ? steps + " are too few for sums beforehand" : not_dense<T>(r);
  }
  return {};
}

template <class T>
Choice choice_for(const KernelRequest& r) {
  const TraceForm form = form_of<T>(r);
  Choice out{form, 1, reason_of<T>(form, r)};
  const char* parts = "positions";
  if (form == TraceForm::Lines) {
    out.threads = sparse_threads(r);
    parts = "lines";
  } else if (form == TraceForm::Patches) {
    out.threads = patch_threads(r);
  } else if (form == TraceForm::Wide) {
    out.threads = wide_threads(r);
  } else if (form == TraceForm::Tiles) {
    out.threads = tile_threads(r);
    parts = "columns";
  } else {
    const Split split(geometry_of(r), r.params);
    out.threads = static_cast<int>(split.parts);
    parts = split.what();
  }
  if (r.params.has("threads"))
    out.reason += "; threads as asked for";
  else if (out.threads > 1)
    out.reason += std::string("; threads take ") + parts;
  else if (default_pool().size() > 1)
    out.reason += "; too little work to divide";
  return out;
}

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
Kernel direct_kernel(const KernelRequest& request, const Storage<T>& storage) {
  using Pass = DirectPass<T>;
  const auto g = std::make_shared<const Geometry>(geometry_of(request));
  const Layout at(request.params);
  const Split split(*g, request.params);
  const Index packed = (Pass::packed_elements(*g, at.entry.has_value()) + 15) / 16 * 16;
  const Index sums = at.entry ? (Pass::sum_elements(*g) + 15) / 16 * 16 : 0;
  Kernel kernel;
  kernel.scratch_bytes = static_cast<std::size_t>(packed + split.parts * sums) * sizeof(T);
  kernel.in_place = {{0, at.trace}};
  if (at.total) kernel.in_place.push_back({1, *at.total});
  kernel.run = [=](const KernelArgs& args) {
    const Buffers<T> buffers = buffers_of<T>(args, at, storage);
    if (g->slots == 0 || g->batch == 0) return no_gradient(*g, buffers);
    T* scratch = static_cast<T*>(args.scratch);
    const auto pass = [&](int part) { return Pass(*g, buffers, scratch, scratch + packed + part * sums); };
    if (packed > 0) {
      const Index count = g->matrices() * g->batch;
      in_parts(split.parts, [&](int part) {
        for (Index i = count * part / split.parts; i < count * (part + 1) / split.parts; ++i)
          pass(part).pack(i / g->batch, g->start_of(i / g->batch).anchor, i % g->batch);
      });
    }
    in_parts(split.parts, [&](int part) {
      for_rows(*g, split, part, [&](Index first, Index last, Index slot, const Axis& start) {
        pass(part).rows(first, last, slot, start);
      });
    });
  };
  return kernel;
}

// Where a kernel gives the gradient of its window alone: with the gradient so far added.
template <class T>
Kernel with_total(Kernel inner, const KernelRequest& request) {
  const Layout at(request.params);
  const bool adds_it = inner.in_place.size() > 1;
  if (!at.total || adds_it) return inner;
  const Index count = request.y(1).shape.size();
  const std::size_t own = (static_cast<std::size_t>(count) * sizeof(T) + 63) / 64 * 64;
  const int parts = parts_of_work(count);
  Kernel kernel;
  kernel.scratch_bytes = own + inner.scratch_bytes;
  kernel.in_place = inner.in_place;
  kernel.in_place.push_back({1, *at.total});
  kernel.run = [=, run = std::move(inner.run)](const KernelArgs& args) {
    T* window = static_cast<T*>(args.scratch);
    void* const out[] = {args.out[0], window};
    run({args.in, out, static_cast<std::byte*>(args.scratch) + own});
    const T* total = static_cast<const T*>(args.in[*at.total]);
    T* gradient = static_cast<T*>(args.out[1]);
    in_parts(parts, [&](int part) {
      for (Index i = count * part / parts; i < count * (part + 1) / parts; ++i)
        gradient[i] = total[i] + window[i];
    });
  };
  return kernel;
}

template <class T>
Kernel kernel_for(TraceForm form, const KernelRequest& request, const Storage<T>& storage) {
  const auto g = std::make_shared<const Geometry>(geometry_of(request));
  const Layout at(request.params);
  const bool products = form == TraceForm::Products;
  const Split split(*g, request.params);
  const std::size_t elements = static_cast<std::size_t>(Pass<T>::scratch_elements(*g, products));
  const std::size_t own = (elements * sizeof(T) + 63) / 64 * 64;
  const std::size_t per_part = own + product_scratch<T>(*g);

  Kernel kernel;
  kernel.scratch_bytes = per_part * static_cast<std::size_t>(split.parts);
  kernel.in_place = {{0, at.trace}};
  kernel.run = [=](const KernelArgs& args) {
    const Buffers<T> buffers = buffers_of<T>(args, at, storage);
    const bool empty = g->slots == 0 || g->batch == 0;
    if (buffers.gradient != nullptr) std::fill_n(buffers.gradient, g->parameters, T(0));
    if (empty) return;
    in_parts(split.parts, [&](int part) {
      std::byte* scratch = static_cast<std::byte*>(args.scratch) + static_cast<std::size_t>(part) * per_part;
      Pass<T> pass(*g, products, buffers, reinterpret_cast<T*>(scratch), scratch + own);
      if (split.kind == Split::Columns) pass.only_columns(split.begin(part), split.begin(part + 1));
      for_rows(*g, split, part, [&](Index first, Index last, Index slot, const Axis& start) {
        pass.rows(first, last, slot, start);
      });
    });
  };
  return kernel;
}

template <class T>
Kernel kernel_of(const KernelRequest& r) {
  const Storage<T> storage = storage_of<T>(r.x(0).dtype);
  const TraceForm form = form_of<T>(r);
  if (form == TraceForm::Step) return direct_kernel<T>(r, storage);
  if (form == TraceForm::Lines) return with_total<T>(sparse_kernel<T>(r, storage), r);
  if (form == TraceForm::Patches) return with_total<T>(patch_kernel<T>(r, storage), r);
  if (form == TraceForm::Wide) return with_total<T>(wide_kernel<T>(r, storage), r);
  if (form == TraceForm::Tiles) return with_total<T>(tile_kernel<T>(r), r);
  return with_total<T>(kernel_for<T>(form, r, storage), r);
}

// Where it is said whether to go on: a pass that does not leaves everything as it is.
Kernel with_go(Kernel inner, const KernelRequest& request) {
  const Layout at(request.params);
  if (!at.go) return inner;
  const std::size_t trace_bytes = request.y(0).bytes();
  const std::size_t gradient_bytes = at.entry ? request.y(1).bytes() : 0;
  Kernel kernel = inner;
  kernel.run = [=, run = std::move(inner.run)](const KernelArgs& args) {
    if (*static_cast<const std::uint8_t*>(args.in[*at.go]) != 0) return run(args);
    if (args.out[0] != args.in[at.trace]) std::memcpy(args.out[0], args.in[at.trace], trace_bytes);
    if (!at.entry) return;
    if (!at.total)
      std::memset(args.out[1], 0, gradient_bytes);
    else if (args.out[1] != args.in[*at.total])
      std::memcpy(args.out[1], args.in[*at.total], gradient_bytes);
  };
  return kernel;
}

}  // namespace

int threads_of(const Params& params, std::int64_t chosen, std::int64_t most) {
  const std::int64_t wanted = params.integer_or("threads", chosen);
  return static_cast<int>(std::clamp<std::int64_t>(wanted, 1, std::max<std::int64_t>(1, most)));
}
Choice choice_of(const KernelRequest& r) {
  return r.x(1).dtype == Dtype::F32 ? choice_for<float>(r) : choice_for<double>(r);
}
std::vector<TraceForm> forms_that_fit(const KernelRequest& r) {
  return r.x(1).dtype == Dtype::F32 ? fitting<float>(r) : fitting<double>(r);
}

Kernel make_kernel(const KernelRequest& r) {
  return with_go(r.x(1).dtype == Dtype::F32 ? kernel_of<float>(r) : kernel_of<double>(r), r);
}

}  // namespace etrace::trace
