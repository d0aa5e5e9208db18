// What an element is made of is known before the program runs, so sparse products and convolutions are tables
// of indices: gather, multiply, sum. A table points behind the last element, to a zero, where there is none.
#include "emit/expand.h"

#include <algorithm>

#include "etrace/array.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "etrace/ops/sparse.h"
#include "etrace/ops/trace_window.h"
#include "ops/conv_kernel.h"

namespace etrace::emit {

namespace {

using Index = std::int64_t;
using Table = std::vector<std::int32_t>;

std::int32_t entry(Index i) { return static_cast<std::int32_t>(i); }

Array picked(const Array& x, const Table& table, const Shape& shape, int axis) {
  return take(x, Array(Tensor::of(table, shape)), axis);
}
// One zero behind the last element of an axis.
Array with_zero(const Array& x, int axis) {
  Shape one = x.shape();
  Dims sizes = one.to_dims();
  sizes[static_cast<std::size_t>(axis)] = 1;
  return concatenate({x, Array(Tensor::zeros({x.dtype(), sizes}))}, axis);
}

SparseEntries entries_of(const Params& params) {
  const Dims shape = params.dims("shape");
  return {SharedList(*params.find("row")), SharedList(*params.find("col")), shape[0], shape[1]};
}

// y[b, o] = Σ x[b, row(p)]·w[p] over the entries p of column o: all columns as long as the longest.
Arrays sparse_product(const Params& params, ArraySpan x) {
  const SparseEntries s = entries_of(params);
  std::vector<std::vector<std::int32_t>> columns(static_cast<std::size_t>(s.cols));
  for (std::size_t p = 0; p < s.col.size(); ++p)
    columns[static_cast<std::size_t>(s.col[p])].push_back(entry(static_cast<Index>(p)));
  std::size_t longest = 0;
  for (const auto& column : columns) longest = std::max(longest, column.size());
  const Index batch = x[0].shape()[0], terms = static_cast<Index>(longest);
  if (terms == 0) return {Array(Tensor::zeros({x[0].dtype(), {batch, s.cols}}))};
  Table rows, entries;
  for (const auto& column : columns)
    for (std::size_t k = 0; k < longest; ++k) {
      rows.push_back(k < column.size() ? entry(s.row[static_cast<std::size_t>(column[k])]) : entry(s.rows));
      entries.push_back(k < column.size() ? column[k] : entry(static_cast<Index>(s.row.size())));
    }
  const Array a = picked(with_zero(x[0], 1), rows, {s.cols, terms}, 1);
  const Array w = picked(with_zero(x[1], 0), entries, {s.cols, terms}, 0);
  return {sum(a * broadcast_to(w, {batch, s.cols, terms}), {2})};
}

// g[p] = Σ_b x[b, row(p)]·y[b, col(p)]
Arrays sparse_gradient(const Params& params, ArraySpan x) {
  const SparseEntries s = entries_of(params);
  Table rows, columns;
  for (std::size_t p = 0; p < s.row.size(); ++p) {
    rows.push_back(entry(s.row[p]));
    columns.push_back(entry(s.col[p]));
  }
  const Shape all{static_cast<Index>(rows.size())};
  return {sum(picked(x[0], rows, all, 1) * picked(x[1], columns, all, 1), {0})};
}

Index product_of(const Dims& sizes) {
  Index n = 1;
  for (const Index s : sizes) n *= s;
  return n;
}
Dims indices_of(Index flat, const Dims& sizes) {
  Dims out(sizes.size());
  for (std::size_t d = sizes.size(); d-- > 0;) {
    out[d] = flat % sizes[d];
    flat /= sizes[d];
  }
  return out;
}

// Which pixel of x the tap t of the window at position p meets; behind the last: none.
Index pixel(const ConvOptions& o, const Dims& in, const Dims& p, const Dims& t) {
  Index flat = 0;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const Index at = p[d] * o.strides[d] - o.padding[d].first + t[d] * o.rhs_dilation[d];
    if (at < 0 || at % o.lhs_dilation[d] != 0 || at / o.lhs_dilation[d] >= in[d]) return product_of(in);
    flat = flat * in[d] + at / o.lhs_dilation[d];
  }
  return flat;
}

// Patches (n, channel, position, tap), and a product with the kernel for every group.
Arrays convolution(const Params& params, ArraySpan x) {
  const ConvOptions o = conv_options(params, x[0].rank());
  const Dims in = spatial_sizes(x[0].shape(), o.lhs_spec), window = spatial_sizes(x[1].shape(), o.rhs_spec);
  const Dims out = conv_spatial_output(o, x[0].shape(), x[1].shape());
  const Array image = transpose(x[0], o.lhs_spec), kernel = transpose(x[1], o.rhs_spec);
  const Index n = image.shape()[0], channels = image.shape()[1], features = kernel.shape()[0];
  const Index positions = product_of(out), taps = product_of(window);
  const Index by_feature = o.feature_group_count, by_batch = o.batch_group_count;
  Dims result{n / by_batch, features};
  result.insert(result.end(), out.begin(), out.end());
  Dims back(o.out_spec.size());
  for (std::size_t a = 0; a < back.size(); ++a)
    back[static_cast<std::size_t>(o.out_spec[a])] = static_cast<Index>(a);
  if (product_of(result) == 0 || channels * taps == 0 || product_of(in) == 0)
    return {transpose(Array(Tensor::zeros({x[0].dtype(), result})), back)};

  Table table;
  for (Index p = 0; p < positions; ++p)
    for (Index t = 0; t < taps; ++t)
      table.push_back(entry(pixel(o, in, indices_of(p, out), indices_of(t, window))));
  const Array patches =
      picked(with_zero(reshape(image, {n, channels, product_of(in)}), 2), table, {positions, taps}, 2);
  // Groups lead: of the samples or of the channels, and of the features of the result.
  const Index groups = by_feature * by_batch, own = channels / by_feature;
  const Array a = reshape(patches, {by_batch, n / by_batch, by_feature, own, positions, taps});
  const Array grouped =
      reshape(transpose(a, {0, 2, 1, 4, 3, 5}), {groups, n / by_batch * positions, own * taps});
  const Array w = reshape(kernel, {groups, features / groups, own * taps});
  const Array y = dot_general(grouped, w, {{2}, {2}, {0}, {0}});  // (group, n and position, feature)
  const Array split = reshape(y, {groups, n / by_batch, positions, features / groups});
  return {transpose(reshape(transpose(split, {1, 0, 3, 2}), result), back)};
}

}  // namespace

decltype(PrimitiveSpec::lower) expansion(const Primitive& p) {
  if (&p == &trace_window_p) return trace_pass_formula;
  if (p.spec.lower != nullptr) return p.spec.lower;
  if (&p == &sparse_product_p) return sparse_product;
  if (&p == &sparse_gradient_p) return sparse_gradient;
  if (&p == &conv_general_dilated_p) return convolution;
  return nullptr;
}

}  // namespace etrace::emit
