// Sparse products as tables of indices: gather, multiply, add, in the order of kernels/sparse.cpp. A table
// points behind the last element, to a zero, where there is none: a term 0·0 changes no sum.
#include <algorithm>

#include "emit/expand.h"
#include "etrace/array.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/fma.h"
#include "etrace/ops/index.h"
#include "etrace/ops/shape.h"
#include "etrace/ops/sparse.h"
#include "kernels/kernels.h"

namespace etrace::emit {

namespace {

using Index = std::int64_t;
using Table = std::vector<std::int32_t>;

SparseEntries entries_of(const Params& params) {
  const Dims shape = params.dims("shape");
  return {SharedList(*params.find("row")), SharedList(*params.find("col")), shape[0], shape[1]};
}

// Zeros, so many, behind the last element of an axis.
Array with_zeros(const Array& x, int axis, Index count) {
  Dims sizes = x.shape().to_dims();
  sizes[static_cast<std::size_t>(axis)] = count;
  return count == 0 ? x : concatenate({x, Array(Tensor::zeros({x.dtype(), sizes}))}, axis);
}
Array zeros(Dtype dtype, const Dims& sizes) {
  return broadcast_in_dim(full({}, 0.0, dtype), Shape(sizes), {});
}

// Σ of the lanes, the last axis, by halves.
Array sum_of_lanes(Array v, Index lanes) {
  const int last = static_cast<int>(v.rank()) - 1;
  for (Index half = lanes / 2; half > 0; half /= 2)
    v = slice_axis(v, last, 0, half) + slice_axis(v, last, half, 2 * half);
  return squeeze(v, {last});
}

// The entries of every column, in order: some of them, from `first` on, as a table of two lists.
struct Columns {
  explicit Columns(const SparseEntries& s) : s(s), entries(static_cast<std::size_t>(s.cols)) {
    for (std::size_t p = 0; p < s.col.size(); ++p)
      entries[static_cast<std::size_t>(s.col[p])].push_back(static_cast<std::int32_t>(p));
  }
  // [k, columns, width]: stretch k of each column, zeros where it is not whole (or, of the rest, ends).
  struct Picked {
    Array x, w;
  };
  enum Which : std::uint8_t { Whole, Rest };
  Picked pick(const Array& x, const Array& w, Which which, Index width) const {
    Index count = 0;
    for (const auto& c : entries) {
      const auto n = static_cast<Index>(c.size());
      count = std::max(count, which == Whole ? n / width : n % width);
    }
    const Index each = which == Whole ? width : 1;
    Table rows, numbers;
    for (Index k = 0; k < count; ++k)
      for (const auto& c : entries)
        for (Index l = 0; l < each; ++l) {
          const auto n = static_cast<Index>(c.size()), start = which == Whole ? 0 : n / width * width;
          const Index end = which == Whole ? n / width * width : n, i = start + k * each + l;
          const bool is = i < end;
          const auto p = is ? c[static_cast<std::size_t>(i)] : static_cast<std::int32_t>(s.row.size());
          numbers.push_back(p);
          rows.push_back(static_cast<std::int32_t>(is ? s.row[static_cast<std::size_t>(p)] : s.rows));
        }
    const Shape shape{count, s.cols, each};
    return {take(with_zeros(x, 0, 1), Array(Tensor::of(rows, shape)), 0),
            take(with_zeros(w, 0, 1), Array(Tensor::of(numbers, shape)), 0)};
  }
  const SparseEntries& s;
  std::vector<Table> entries;
};

// One sample: whole vectors of entries in two sums that take turns, then the rest one by one.
Array one_sample(const SparseEntries& s, const Array& x, const Array& w) {
  const Columns columns(s);
  const Index lanes = sparse_lanes(x.dtype() == Dtype::F32);
  const Columns::Picked whole = columns.pick(x, w, Columns::Whole, lanes);
  const Columns::Picked rest = columns.pick(x, w, Columns::Rest, lanes);
  Array sums[2];
  for (const Index turn : {0, 1}) {
    sums[turn] = zeros(x.dtype(), {s.cols, lanes});
    const Index count = whole.x.shape()[0];
    if (turn >= count) continue;
    const auto own = [&](const Array& v) { return slice_axis(v, 0, turn, count, 2); };
    sums[turn] = chained([](const Array& sum, ArraySpan k) { return fma(k[1], k[0], sum); }, sums[turn],
                         {own(whole.x), own(whole.w)});
  }
  Array last = zeros(x.dtype(), {s.cols, 1});
  if (rest.x.shape()[0] > 0)
    last = chained([](const Array& sum, ArraySpan k) { return sum + k[1] * k[0]; }, last, {rest.x, rest.w});
  return sum_of_lanes(sums[0] + sums[1], lanes) + squeeze(last, {1});
}

// Several: a chain of fused products for each.
Array many_samples(const SparseEntries& s, const Array& x, const Array& w) {
  std::size_t longest = 1;
  const Columns columns(s);
  for (const auto& c : columns.entries) longest = std::max(longest, c.size());
  const Columns::Picked all =
      columns.pick(transpose(x, {1, 0}), w, Columns::Rest, static_cast<Index>(longest) + 1);
  const Index batch = x.shape()[0];
  const Array start = zeros(x.dtype(), {s.cols, batch});
  if (all.x.shape()[0] == 0) return transpose(start, {1, 0});
  const Array y = chained(
      [&](const Array& sum, ArraySpan k) {
        return fma(broadcast_in_dim(squeeze(k[1], {1}), sum.shape(), {0}), k[0], sum);
      },
      start, {squeeze(all.x, {2}), all.w});
  return transpose(y, {1, 0});
}

}  // namespace

// y[b, o] = Σ x[b, row(p)]·w[p] over the entries p of column o
Arrays sparse_product_formula(const Params& params, ArraySpan x) {
  const SparseEntries s = entries_of(params);
  const Index batch = x[0].shape()[0];
  if (s.cols == 0 || batch == 0) return {Array(Tensor::zeros({x[0].dtype(), {batch, s.cols}}))};
  if (batch == 1) return {reshape(one_sample(s, squeeze(x[0], {0}), x[1]), {1, s.cols})};
  return {many_samples(s, x[0], x[1])};
}

// g[p] = Σ_b x[b, row(p)]·y[b, col(p)], samples in lanes
Arrays sparse_gradient_formula(const Params& params, ArraySpan x) {
  const SparseEntries s = entries_of(params);
  const auto all = static_cast<Index>(s.row.size());
  const Index batch = x[0].shape()[0], lanes = sparse_lanes(x[0].dtype() == Dtype::F32);
  if (all == 0 || batch == 0) return {Array(Tensor::zeros({x[0].dtype(), {all}}))};
  Table rows, columns;
  for (std::size_t p = 0; p < s.row.size(); ++p) {
    rows.push_back(static_cast<std::int32_t>(s.row[p]));
    columns.push_back(static_cast<std::int32_t>(s.col[p]));
  }
  const auto picked = [&](const Array& v, const Table& table) {
    return take(v, Array(Tensor::of(table, {all})), 1);
  };
  if (batch == 1) return {squeeze(picked(x[0], rows) * picked(x[1], columns), {0})};
  const Index rounds = (batch + lanes - 1) / lanes;
  const auto in_lanes = [&](const Array& v) {  // [rounds, entries, lanes]
    return transpose(reshape(with_zeros(v, 0, rounds * lanes - batch), {rounds, lanes, all}), {0, 2, 1});
  };
  const Array all_lanes = chained([](const Array& sum, ArraySpan k) { return fma(k[0], k[1], sum); },
                                  zeros(x[0].dtype(), {all, lanes}),
                                  {in_lanes(picked(x[0], rows)), in_lanes(picked(x[1], columns))});
  return {sum_of_lanes(all_lanes, lanes)};
}

}  // namespace etrace::emit
