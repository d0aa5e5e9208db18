// sparse_product y = x·S(w) and sparse_gradient g[p] = Σ_b x[b,row(p)]·y[b,col(p)]: bilinear, and each the
// transpose of the other.
#include <algorithm>
#include <memory>

#include "core/named_kernel.h"
#include "etrace/axes.h"
#include "etrace/emission.h"
#include "etrace/facts.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "etrace/ops/sparse.h"
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

Kernel sparse_kernel(std::string_view name, const KernelRequest& q) {
  const SparseEntries s = entries_of(name, q.params);
  check_range(name, "row", s.row.values(), s.rows);
  check_range(name, "column", s.col.values(), s.cols);
  const auto lines = sparse_lines(s.col, s.row, s.cols);
  const etp_sparse d{static_cast<Index>(q.y().dtype), q.x(0).shape[0], s.rows, s.cols, entries(s),
                     lines->in_order() ? 1 : 0};
  return named_kernel(NamedKernel::of(name, d, {0, 1}, tables_of(lines)), q.context);
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
    .kernel = [](const KernelRequest& q) { return sparse_kernel("sparse_product", q); },
    .emit = [](const EmitRequest&) -> Emission { return KernelCode{}; },
    .axes =
        [](const EmitRequest& q) {
          AxisTable t(q);
          t.keep(0, 0, 0);
          t.at(0, 1) = {AxisSource::Same};
          return t;
        },
    .facts = [](const FactRequest&) { return Facts{.zeros = true}; },  // no entry, no sum
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
    .kernel = [](const KernelRequest& q) { return sparse_kernel("sparse_gradient", q); },
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
