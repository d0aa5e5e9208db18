// sparse_product y = x·S(w) and sparse_gradient g[p] = Σ_b x[b,row(p)]·y[b,col(p)]: bilinear, and each the
// transpose of the other. Entries are walked line by line of the result, so that threads share nothing and
// every sum has one order. One sample reads x in place; several are turned to lie side by side first, so that
// an entry meets whole vectors of samples.
#include <algorithm>
#include <memory>

#include "etrace/emission.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "etrace/ops/sparse.h"
#include "ops/lanes.h"
#include "ops/parts.h"
#include "ops/sparse_lines.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

using Index = std::int64_t;

// Parameters ------------------------------------------------------------------------------------------------
SharedList indices_of(std::string_view op, const Attr& list) {
  try {
    return SharedList(list);
  } catch (const ValueError& e) {  // in a program it is the file that is wrong
    throw CompilationError(std::string(op), e.message());
  }
}

SparseEntries entries_of(std::string_view op, const Params& params) {
  const Attr *row = params.find("row"), *col = params.find("col");
  const Dims shape = params.dims("shape");
  const auto is_list = [](const Attr* a) {
    return a != nullptr && (a->ints() != nullptr || a->table() != nullptr);
  };
  if (is_list(row) && is_list(col) && shape.size() == 2) {
    SparseEntries out{indices_of(op, *row), indices_of(op, *col), shape[0], shape[1]};
    if (out.row.size() == out.col.size()) return out;
  }
  throw CompilationError(std::string(op),
                         "the parameters 'row' and 'col' must be lists of integers of one length, and "
                         "'shape' [rows, columns]");
}

Params params_of(const SparseEntries& s) {
  return {{"row", s.row.attr()}, {"col", s.col.attr()}, {"shape", Dims{s.rows, s.cols}}};
}

SparseEntries turned(const SparseEntries& s) { return {s.col, s.row, s.cols, s.rows}; }

Index entries(const SparseEntries& s) { return to_dim(s.row.size()); }

// Once per equation: whoever makes kernels trusts the lists.
void check_range(std::string_view op, const char* what, const Table& list, Index limit) {
  for (std::size_t p = 0; p < list.size(); ++p)
    if (list[p] < 0 || list[p] >= limit)
      throw CompilationError(std::string(op), "entry " + std::to_string(p) + " has " + what + " " +
                                                  std::to_string(list[p]) + ", expected 0 … " +
                                                  std::to_string(limit - 1));
}

// x is [B, I] and the other operand, or y, as named.
void check_data(std::string_view op, const char* what, const Aval& a, Index size) {
  if (a.shape.rank() != 2 || a.shape[1] != size)
    refuse(op, std::string(what) + " has type " + to_string(a) + ", expected [samples, " +
                   std::to_string(size) + "]");
}

void check_types(std::string_view op, std::span<const Aval> in) {
  expect_operands(op, in, 2);
  if (in[0].dtype != in[1].dtype || (in[0].dtype != Dtype::F32 && in[0].dtype != Dtype::F64))
    refuse_type(op, "the operands " + to_string(in[0]) + " and " + to_string(in[1]) +
                        " must both be float32, or both float64; convert them first");
}

Array index_list(const SharedList& list) { return Tensor::of(list.values(), {to_dim(list.size())}); }

// In elementary equations, with any axes in front of x [..., I] and w [..., nnz].
Array plain_product(const Array& x, const Array& w, const SparseEntries& s) {
  const Array terms = take(x, index_list(s.row), -1) * w;
  Dims dims = terms.shape().to_dims();
  dims.back() = s.cols;
  return scatter_add(zeros_of({x.dtype(), Shape(dims)}), index_list(s.col), terms,
                     static_cast<int>(dims.size()) - 1);
}
Array plain_gradient(const Array& x, const Array& y, const SparseEntries& s) {
  const Array terms = take(x, index_list(s.row), -1) * take(y, index_list(s.col), -1);
  return reduce_sum(terms, {to_dim(terms.rank()) - 2});
}

// Kernels ---------------------------------------------------------------------------------------------------
// x at the next places of a list, in the lanes of a vector. (Loads one by one are faster than a gather.)
template <class T, std::int64_t... I>
inline VectorOf<T> lanes_at(const T* x, const std::int32_t* at, std::integer_sequence<std::int64_t, I...>) {
  return VectorOf<T>{x[at[I]]...};
}
template <class T>
inline VectorOf<T> lanes_at(const T* x, const std::int32_t* at) {
  return lanes_at(x, at, std::make_integer_sequence<std::int64_t, kLanes<T>>());
}

// Σ_i w[e_i]·x[o_i] over one line, in two vectors of sums that take turns.
template <bool InOrder, class T>
T line_sum(const SparseLines& lines, Index first, Index last, const T* w, const T* x) {
  using L = Lanes<T>;
  constexpr Index n = kLanes<T>;
  const std::int32_t *other = lines.other.data(), *entry = lines.entry.data();
  const auto values = [&](Index i) { return InOrder ? L::load(w + i) : lanes_at(w, entry + i); };
  VectorOf<T> even{}, odd{};
  Index i = first;
  for (; i + 2 * n <= last; i += 2 * n) {
    even = L::fma(values(i), lanes_at(x, other + i), even);
    odd = L::fma(values(i + n), lanes_at(x, other + i + n), odd);
  }
  if (i + n <= last) even = L::fma(values(i), lanes_at(x, other + i), even), i += n;
  T rest = 0;
  for (; i < last; ++i) rest += w[InOrder ? i : entry[i]] * x[other[i]];
  return sum_of_lanes<T>(even + odd) + rest;
}

// out[:] = Σ_i w[e_i]·x[o_i, :] for `Count` vectors of samples.
template <int Count, class T>
void line_rows(const SparseLines& lines, Index first, Index last, const T* w, const T* x, Index stride,
               T* out) {
  using L = Lanes<T>;
  VectorOf<T> sum[Count] = {};
  for (Index i = first; i < last; ++i) {
    const VectorOf<T> factor = splat(w[lines.entry_at(i)]);
    const T* row = x + lines.other[to_index(i)] * stride;
    for (int v = 0; v < Count; ++v) sum[v] = L::fma(factor, L::load(row + v * kLanes<T>), sum[v]);
  }
  for (int v = 0; v < Count; ++v) L::store(out + v * kLanes<T>, sum[v]);
}

template <class T>
struct SparseSizes {
  Index batch, rows, cols;
  Index stride() const { return round_up(batch, kLanes<T>); }  // of samples that lie side by side
  std::size_t turned_bytes(Index lines) const {
    return batch == 1 ? 0 : to_index(round_up(lines * stride() * to_dim(sizeof(T)), 64));
  }
};

// x [B, n] -> [n, stride], by all threads.
template <class T>
void turn_samples(const T* x, Index batch, Index n, T* out, Index stride, int parts) {
  default_pool().parallel(parts, [&](int part) {
    turn(x, batch, n, n * part / parts, n * (part + 1) / parts, out, stride, stride);
  });
}

template <class T>
Kernel product_kernel(const KernelRequest& q) {
  const SparseEntries s = entries_of(sparse_product_p.name(), q.params);
  const auto lines = sparse_lines(s.col, s.row, s.cols);
  const SparseSizes<T> n{q.x(0).shape[0], s.rows, s.cols};
  const int parts = parts_of_work(entries(s) * n.batch);
  const std::size_t x_bytes = n.turned_bytes(n.rows);
  Kernel kernel;
  kernel.scratch_bytes = x_bytes + n.turned_bytes(n.cols);
  kernel.run = [=](const KernelArgs& k) {
    const T *x = static_cast<const T*>(k.in[0]), *w = static_cast<const T*>(k.in[1]);
    T* y = static_cast<T*>(k.out[0]);
    const auto for_lines = [&](const auto& f) {
      default_pool().parallel(parts, [&](int part) {
        const Index end = lines->part_begin(part + 1, parts);
        for (Index o = lines->part_begin(part, parts); o < end; ++o)
          f(o, lines->first[to_index(o)], lines->first[to_index(o) + 1]);
      });
    };
    if (n.batch == 1)
      return for_lines([&](Index o, Index first, Index last) {
        y[o] = lines->in_order() ? line_sum<true>(*lines, first, last, w, x)
                                 : line_sum<false>(*lines, first, last, w, x);
      });
    const Index stride = n.stride();
    T* xt = static_cast<T*>(k.scratch);
    T* yt = reinterpret_cast<T*>(static_cast<std::byte*>(k.scratch) + x_bytes);
    turn_samples(x, n.batch, n.rows, xt, stride, parts);
    for_lines([&](Index o, Index first, Index last) {
      Index c = 0;
      for (; c + 4 * kLanes<T> <= stride; c += 4 * kLanes<T>)
        line_rows<4>(*lines, first, last, w, xt + c, stride, yt + o * stride + c);
      for (; c < stride; c += kLanes<T>)
        line_rows<1>(*lines, first, last, w, xt + c, stride, yt + o * stride + c);
    });
    default_pool().parallel(parts, [&](int part) {
      turn(yt, n.cols, stride, n.batch * part / parts, n.batch * (part + 1) / parts, y, n.cols, n.cols);
    });
  };
  return kernel;
}

template <class T>
Kernel gradient_kernel(const KernelRequest& q) {
  const SparseEntries s = entries_of(sparse_gradient_p.name(), q.params);
  const auto lines = sparse_lines(s.col, s.row, s.cols);
  const SparseSizes<T> n{q.x(0).shape[0], s.rows, s.cols};
  const int parts = parts_of_work(entries(s) * n.batch);
  const std::size_t x_bytes = n.turned_bytes(n.rows);
  Kernel kernel;
  kernel.scratch_bytes = x_bytes + n.turned_bytes(n.cols);
  kernel.run = [=](const KernelArgs& k) {
    const T *x = static_cast<const T*>(k.in[0]), *y = static_cast<const T*>(k.in[1]);
    T* g = static_cast<T*>(k.out[0]);
    const Index stride = n.batch == 1 ? 1 : n.stride();
    if (n.batch != 1) {
      T* xt = static_cast<T*>(k.scratch);
      T* yt = reinterpret_cast<T*>(static_cast<std::byte*>(k.scratch) + x_bytes);
      turn_samples(x, n.batch, n.rows, xt, stride, parts);
      turn_samples(y, n.batch, n.cols, yt, stride, parts);
      x = xt, y = yt;
    }
    default_pool().parallel(parts, [&](int part) {
      const Index end = lines->part_begin(part + 1, parts);
      for (Index o = lines->part_begin(part, parts); o < end; ++o)
        for (Index i = lines->first[to_index(o)]; i < lines->first[to_index(o) + 1]; ++i) {
          const T *a = x + lines->other[to_index(i)] * stride, *b = y + o * stride;
          if (stride == 1) {
            g[lines->entry_at(i)] = a[0] * b[0];
            continue;
          }
          VectorOf<T> sum{};
          for (Index c = 0; c < stride; c += kLanes<T>)
            sum = Lanes<T>::fma(Lanes<T>::load(a + c), Lanes<T>::load(b + c), sum);
          g[lines->entry_at(i)] = sum_of_lanes<T>(sum);
        }
    });
  };
  return kernel;
}

Samples samples_of(std::uint64_t seed, bool gradient) {
  Source r(seed);
  Samples out;
  const auto add = [&](Index b, Index i, Index o, Index nnz, bool sorted, Dtype dtype) {
    Dims row, col;
    for (Index p = 0; p < nnz; ++p) {
      row.push_back(r.integer(0, i - 1));
      col.push_back(r.integer(0, o - 1));
    }
    if (sorted) std::sort(col.begin(), col.end());
    out.push_back({{r.floats({b, i}, dtype), r.floats(gradient ? Shape{b, o} : Shape{nnz}, dtype)},
                   {{"row", row}, {"col", col}, {"shape", Dims{i, o}}},
                   dtype == Dtype::F64});
  };
  add(1, r.integer(1, 5), r.integer(1, 5), r.integer(1, 30), true, Dtype::F64);
  add(1, 4, 3, 23, false, Dtype::F64);
  add(r.integer(2, 3), r.integer(1, 5), r.integer(1, 5), r.integer(1, 9), false, Dtype::F64);
  add(5, 3, 4, 20, true, Dtype::F64);
  add(37, 5, 4, 11, true, Dtype::F32);
  add(1, 3, 2, 40, true, Dtype::F32);
  add(2, 3, 2, 0, true, Dtype::F64);
  return out;
}

// [n, B, m] -> [n·B, m]
Array folded(const Array& x) { return reshape(x, {x.shape()[0] * x.shape()[1], x.shape()[2]}); }

}  // namespace

const Primitive sparse_product_p{{
    .name = "sparse_product",
    .doc = "y[b,o] = Σ x[b,row(p)]·w[p] over the entries p with col(p) = o",
    .params = {"row", "col", "shape"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      check_types("sparse_product", in);
      const SparseEntries s = entries_of("sparse_product", params);
      check_data("sparse_product", "x", in[0], s.rows);
      if (in[1].shape != Shape{entries(s)})
        refuse("sparse_product", "the values have type " + to_string(in[1]) + ", expected one for each of " +
                                     std::to_string(entries(s)) + " entries");
      return {{in[0].dtype, {in[0].shape[0], s.cols}}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const SparseEntries s = entries_of("sparse_product", q.params);
      check_range("sparse_product", "row", s.row.values(), s.rows);
      check_range("sparse_product", "column", s.col.values(), s.cols);
      return q.y().dtype == Dtype::F32 ? product_kernel<float>(q) : product_kernel<double>(q);
    },
    .emit = [](const EmitRequest&) -> Emission { return KernelCode{}; },
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      Array dy;
      if (dx[0].defined()) dy = bind1(sparse_product_p, {dx[0], x[1]}, params);
      if (dx[1].defined()) dy = add_cotangents(dy, bind1(sparse_product_p, {x[0], dx[1]}, params));
      return {dy};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval>) -> Arrays {
      const SparseEntries s = entries_of("sparse_product", params);
      Arrays out(2);
      if (!x[0].defined()) out[0] = sparse_product(ct[0], x[1], turned(s));
      if (!x[1].defined()) out[1] = sparse_gradient(x[0], ct[0], s);
      return out;
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched,
                std::int64_t n) -> Arrays {
      const SparseEntries s = entries_of("sparse_product", params);
      if (batched[1])
        return {plain_product(batched[0] ? x[0] : expand_dims(x[0], {0}), expand_dims(x[1], {1}), s)};
      const std::int64_t b = x[0].shape()[1];
      return {reshape(sparse_product(folded(x[0]), x[1], s), {n, b, s.cols})};
    },
    .samples = [](std::uint64_t seed) -> Samples { return samples_of(seed, false); },
}};

const Primitive sparse_gradient_p{{
    .name = "sparse_gradient",
    .doc = "g[p] = Σ_b x[b,row(p)]·y[b,col(p)]",
    .params = {"row", "col", "shape"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      check_types("sparse_gradient", in);
      const SparseEntries s = entries_of("sparse_gradient", params);
      check_data("sparse_gradient", "x", in[0], s.rows);
      check_data("sparse_gradient", "y", in[1], s.cols);
      if (in[0].shape[0] != in[1].shape[0])
        refuse("sparse_gradient", "x has type " + to_string(in[0]) + " and y " + to_string(in[1]) +
                                      "; expected as many samples of both");
      return {{in[0].dtype, {entries(s)}}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const SparseEntries s = entries_of("sparse_gradient", q.params);
      check_range("sparse_gradient", "row", s.row.values(), s.rows);
      check_range("sparse_gradient", "column", s.col.values(), s.cols);
      return q.y().dtype == Dtype::F32 ? gradient_kernel<float>(q) : gradient_kernel<double>(q);
    },
    .emit = [](const EmitRequest&) -> Emission { return KernelCode{}; },
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      Array dy;
      if (dx[0].defined()) dy = bind1(sparse_gradient_p, {dx[0], x[1]}, params);
      if (dx[1].defined()) dy = add_cotangents(dy, bind1(sparse_gradient_p, {x[0], dx[1]}, params));
      return {dy};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval>) -> Arrays {
      const SparseEntries s = entries_of("sparse_gradient", params);
      Arrays out(2);
      if (!x[0].defined()) out[0] = sparse_product(x[1], ct[0], turned(s));
      if (!x[1].defined()) out[1] = sparse_product(x[0], ct[0], s);
      return out;
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched, std::int64_t) -> Arrays {
      const SparseEntries s = entries_of("sparse_gradient", params);
      const auto wide = [&](std::size_t i) { return batched[i] ? x[i] : expand_dims(x[i], {0}); };
      return {plain_gradient(wide(0), wide(1), s)};
    },
    .samples = [](std::uint64_t seed) -> Samples { return samples_of(seed, true); },
}};

Array sparse_product(const Array& x, const Array& w, const SparseEntries& s) {
  return bind1(sparse_product_p, {x, w}, params_of(s));
}
Array sparse_gradient(const Array& x, const Array& y, const SparseEntries& s) {
  return bind1(sparse_gradient_p, {x, y}, params_of(s));
}

}  // namespace etrace
