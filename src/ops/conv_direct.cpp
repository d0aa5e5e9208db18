// The descriptor of a convolution whose result has its features side by side (kernels/conv_direct.cpp).
#include "ops/conv_direct.h"

#include <algorithm>
#include <limits>

#include "core/named_kernel.h"
#include "ops/structure_common.h"
#include "runtime/etp_vector.h"

namespace etrace {

using namespace structure;

namespace {

constexpr std::int64_t kTableEntries = 4096;  // of the inner sum: stays in the first cache
constexpr std::int64_t kPiecesAtMost = 16;
constexpr std::int64_t kFewPositions = 64;

// The input with zeros around and between its entries.
Dims padded_sizes(const ConvOptions& o, const Shape& x) {
  Dims to = x.to_dims();
  for (std::size_t d = 0; d < o.padding.size(); ++d) {
    const std::size_t a = to_index(o.lhs_spec[d + 2]);
    to[a] = dilated_size(to[a], o.lhs_dilation[d]) + o.padding[d].first + o.padding[d].second;
  }
  return to;
}

// Of every axis of the input: size and stride before and after, where its first entry goes, how far apart.
Tensor describe_padding(const ConvOptions& o, const Shape& x, etp_conv_direct& d) {
  const Dims to = padded_sizes(o, x), from_strides = strides_of(x), to_strides = strides_of(Shape(to));
  std::vector<std::int64_t> low(x.rank(), 0), step(x.rank(), 1), table;
  for (std::size_t i = 0; i < o.padding.size(); ++i) {
    low[to_index(o.lhs_spec[i + 2])] = o.padding[i].first;
    step[to_index(o.lhs_spec[i + 2])] = o.lhs_dilation[i];
  }
  for (std::size_t a = 0; a < x.rank(); ++a)
    table.insert(table.end(), {x[a], to[a], from_strides[a], to_strides[a], low[a], step[a]});
  d.padded_size = to != x.to_dims() ? Shape(to).size() : 0;
  d.pad_axes = d.pad_first = to_dim(x.rank());
  // The last axes that stay side by side are copied as one stretch.
  d.pad_stretch = 1;
  while (d.pad_first > 0 && step[to_index(d.pad_first - 1)] == 1) {
    const std::size_t a = to_index(--d.pad_first);
    d.pad_stretch *= x[a];
    if (to[a] != x[a]) break;
  }
  return Tensor::of(table, {to_dim(table.size())});
}

}  // namespace

bool direct_conv_fits(const KernelRequest& q, const ConvOptions& o) {
  const Shape& y = q.y().shape;
  if (q.y().dtype != Dtype::F32 && q.y().dtype != Dtype::F64) return false;
  const std::int64_t lanes = ETP_VBYTES / to_dim(size_of(q.y().dtype));
  const std::int64_t features =
      y[to_index(o.out_spec[1])] / std::max<std::int64_t>(1, o.feature_group_count * o.batch_group_count);
  for (const auto& [low, high] : o.padding)
    if (low < 0 || high < 0) return false;
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  return strides_of(y)[to_index(o.out_spec[1])] == 1 && 2 * features >= lanes && y.size() > 0 &&
         q.x(0).shape.size() > 0 && q.x(1).shape.size() > 0 && q.x(1).shape.size() < kMost &&
         Shape(padded_sizes(o, q.x(0).shape)).size() < kMost;
}

Kernel direct_conv_kernel(const KernelRequest& q, const ConvOptions& o) {
  const Shape &x = q.x(0).shape, &w = q.x(1).shape, &y = q.y().shape;
  const std::int64_t lanes = ETP_VBYTES / to_dim(size_of(q.y().dtype));
  const Dims x_strides = pick(strides_of(Shape(padded_sizes(o, x))), o.lhs_spec);
  const Dims w_strides = pick(strides_of(w), o.rhs_spec), y_strides = pick(strides_of(y), o.out_spec);
  const Dims window = spatial_sizes(w, o.rhs_spec), out = spatial_sizes(y, o.out_spec);
  const std::int64_t images = y[to_index(o.out_spec[0])];

  etp_conv_direct d{};
  d.dtype = static_cast<std::int64_t>(q.y().dtype);
  d.groups = o.feature_group_count * o.batch_group_count;
  d.features = y[to_index(o.out_spec[1])] / d.groups;
  d.channels = w[to_index(o.rhs_spec[1])];
  d.taps = Shape(window).size();
  d.x_image = x_strides[0], d.x_channel = x_strides[1];
  d.w_feature = w_strides[0], d.w_channel = w_strides[1];
  d.y_image = y_strides[0];
  d.x_group = o.feature_group_count > 1 ? d.channels * x_strides[1] : images * x_strides[0];
  d.width = (d.features + lanes - 1) / lanes * lanes;
  d.packed = w_strides[0] != 1 || d.width != d.features ? 1 : 0;
  d.rounds = Shape(out).size() < kFewPositions ? 1 : images;

  std::vector<std::int64_t> x_points{0}, y_points{0}, x_taps{0}, w_taps{0};
  if (d.rounds == 1) {
    x_points = spread(x_points, images, x_strides[0]);
    y_points = spread(y_points, images, y_strides[0]);
  }
  for (std::size_t i = 0; i < out.size(); ++i) {
    x_points = spread(x_points, out[i], o.strides[i] * x_strides[i + 2]);
    y_points = spread(y_points, out[i], y_strides[i + 2]);
    x_taps = spread(x_taps, window[i], o.rhs_dilation[i] * x_strides[i + 2]);
    w_taps = spread(w_taps, window[i], w_strides[i + 2]);
  }
  d.points = to_dim(x_points.size());
  d.chunk =
      std::min(d.channels, std::max<std::int64_t>(1, kTableEntries / std::max<std::int64_t>(d.taps, 1)));
  while (d.chunk > 1 && d.channels % d.chunk != 0) --d.chunk;
  std::vector<std::int32_t> x_inner, w_inner;
  for (std::int64_t c = 0; c < d.chunk; ++c)
    for (std::size_t t = 0; t < x_taps.size(); ++t) {
      x_inner.push_back(static_cast<std::int32_t>(c * x_strides[1] + x_taps[t]));
      w_inner.push_back(static_cast<std::int32_t>(d.packed != 0 ? (c * d.taps + to_dim(t)) * d.width
                                                                : c * w_strides[1] + w_taps[t]));
    }
  d.inner = to_dim(x_inner.size());
  const std::int64_t outer = d.channels / d.chunk;
  d.pieces = 1;
  if (d.rounds == 1 && d.points * d.width <= kTableEntries && outer >= 2 &&
      d.channels * d.taps >= 2 * kTableEntries)
    d.pieces = std::min(outer, kPiecesAtMost);
  const auto table = [](const auto& list) { return Tensor::of(list, {to_dim(list.size())}); };
  Tensors tables{describe_padding(o, x, d),
                 table(x_points),
                 table(y_points),
                 table(w_taps),
                 table(x_inner),
                 table(w_inner)};
  return named_kernel(NamedKernel::of("conv_direct", d, {0, 1}, std::move(tables)), q.context);
}

}  // namespace etrace
