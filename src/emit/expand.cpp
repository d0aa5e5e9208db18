// What an element is made of is known before the program runs, so paddings and convolutions are tables of
// indices: gather, multiply, sum. A table points behind the last element, to a zero, where there is none.
#include "emit/expand.h"

#include <algorithm>

#include "etrace/array.h"
#include "etrace/control.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/linalg.h"
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

// Along every axis a table of entries, and behind them the padding value.
Arrays padded(const Params& params, ArraySpan x) {
  const Shape out = abstract_eval(pad_p, params, avals_of(x))[0].shape;
  Array y = x[0];
  const Attr::List& config = *params.find("padding_config")->list_items();
  for (std::size_t a = 0; a < out.rank(); ++a) {
    const Dims row = *config[a].ints();
    if (row == Dims{0, 0, 0}) continue;
    const Index n = x[0].shape()[a], step = row[2] + 1;
    Table table;
    for (Index i = 0; i < out[a]; ++i) {
      const Index at = i - row[0];
      table.push_back(entry(at >= 0 && at % step == 0 && at / step < n ? at / step : n));
    }
    Dims sizes = y.shape().to_dims();
    sizes[a] = 1;
    const Array border = broadcast_in_dim(x[1], Shape(sizes), {});
    y = picked(concatenate({y, border}, static_cast<int>(a)), table, {out[a]}, static_cast<int>(a));
  }
  return {y};
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

Array chained(const ChainTerm& f, const Array& start, const Arrays& xs) {
  constexpr Index kWrittenOut = 4;  // terms; longer sums are a loop
  const Index n = xs[0].shape()[0];
  if (n > kWrittenOut)
    return scan([&](ArraySpan c, ArraySpan x) { return ScanResult{{f(c[0], x)}, {}}; }, {start}, xs).carry[0];
  Array acc = start;
  for (Index i = 0; i < n; ++i) {
    Arrays at;
    for (const Array& x : xs) at.push_back(squeeze(slice_axis(x, 0, i, i + 1), {0}));
    acc = f(acc, at);
  }
  return acc;
}

decltype(PrimitiveSpec::lower) expansion(const Primitive& p) {
  if (&p == &trace_window_p) return trace_pass_formula;
  if (p.spec.lower != nullptr) return p.spec.lower;
  if (&p == &sparse_product_p) return sparse_product_formula;
  if (&p == &sparse_gradient_p) return sparse_gradient_formula;
  if (&p == &pad_p) return padded;
  if (&p == &conv_general_dilated_p) return convolution;
  return nullptr;
}

}  // namespace etrace::emit
