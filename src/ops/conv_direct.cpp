// Every output position is a row of features. The input is padded (and spread) once; then the element that a
// position reads for a channel and a tap lies at a sum of two offsets, one of the position and one of the
// pair, and the sums of all features of a few positions run in registers (patch_tile.h). The same serves the
// gradient of a kernel, a convolution with few positions and a long sum: that one is cut into pieces whose
// results are added in order. Pieces follow from the sizes alone.
#include "ops/conv_direct.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>

#include "ops/parts.h"
#include "ops/patch_tile.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

using Index = std::int64_t;

constexpr Index kTableEntries = 4096;  // of the inner sum: stays in the first cache
constexpr Index kPiecesAtMost = 16;
constexpr Index kFewPositions = 64;

// The input with zeros around and between its entries.
class Padding {
 public:
  Padding(const ConvOptions& o, const Shape& x) : from_(x.to_dims()), to_(x.to_dims()) {
    low_.assign(x.rank(), 0);
    step_.assign(x.rank(), 1);
    for (std::size_t d = 0; d < o.padding.size(); ++d) {
      const std::size_t a = to_index(o.lhs_spec[d + 2]);
      low_[a] = o.padding[d].first;
      step_[a] = o.lhs_dilation[d];
      to_[a] = dilated_size(from_[a], step_[a]) + o.padding[d].first + o.padding[d].second;
    }
    to_strides_ = strides_of(Shape(to_));
    from_strides_ = strides_of(Shape(from_));
    // The last axes that stay side by side are copied as one stretch.
    first_ = from_.size();
    stretch_ = 1;
    while (first_ > 0 && step_[first_ - 1] == 1) {
      --first_;
      stretch_ *= from_[first_];
      if (to_[first_] != from_[first_]) break;
    }
  }
  bool needed() const { return to_ != from_; }
  const Dims& shape() const { return to_; }

  // Entries [begin, end) of the first axis, the batch or what stands there.
  template <class T>
  void operator()(const T* x, T* out, Index begin, Index end) const {
    const Dims &strides = to_strides_, &own = from_strides_;
    std::memset(out + begin * strides[0], 0, to_index((end - begin) * strides[0]) * sizeof(T));
    if (first_ == 0) {
      std::copy(x + begin * own[0], x + end * own[0], out + begin * own[0]);
      return;
    }
    Index offset = 0;  // of the stretch within its axes
    for (std::size_t a = first_; a < to_.size(); ++a) offset += low_[a] * strides[a];
    Index stretches = 1;
    for (std::size_t a = 1; a < first_; ++a) stretches *= from_[a];
    for (Index n = begin; n < end; ++n)
      for (Index s = 0; s < stretches; ++s) {
        Index rest = s, to = n * strides[0] + offset;
        for (std::size_t a = first_; a-- > 1;) {
          to += (rest % from_[a] * step_[a] + low_[a]) * strides[a];
          rest /= from_[a];
        }
        std::copy_n(x + (n * stretches + s) * stretch_, stretch_, out + to);
      }
  }

 private:
  Dims from_, to_, from_strides_, to_strides_, low_, step_;
  std::size_t first_ = 0;
  Index stretch_ = 1;
};

struct DirectConv {
  ConvOptions o;
  Padding padding;
  Index images, groups, features, channels, taps, chunk;  // features, channels: of one group
  Dims x_strides, w_strides, y_strides;                   // of the padded input, the kernel, the result
  std::vector<Index> x_points, y_points;                  // of an image's positions; of few, all images'
  Index rounds;                                           // over the points: one per image, or one
  std::vector<std::int32_t> x_inner, w_inner;             // of some channels and all taps
  bool packed;  // the kernel's features do not lie side by side in whole vectors: a copy that does
  Index width;  // of a row of features in that copy, and of sums
  Index pieces = 1;

  DirectConv(const KernelRequest& q, const ConvOptions& options, Index lanes)
      : o(options), padding(options, q.x(0).shape) {
    const Shape &w = q.x(1).shape, &y = q.y().shape;
    images = y[to_index(o.out_spec[0])];
    groups = o.feature_group_count * o.batch_group_count;
    features = y[to_index(o.out_spec[1])] / groups;
    channels = w[to_index(o.rhs_spec[1])];
    x_strides = pick(strides_of(Shape(padding.shape())), o.lhs_spec);
    w_strides = pick(strides_of(w), o.rhs_spec);
    y_strides = pick(strides_of(y), o.out_spec);
    width = round_up(features, lanes);
    packed = w_strides[0] != 1 || width != features;

    const Dims window = spatial_sizes(w, o.rhs_spec), out = spatial_sizes(y, o.out_spec);
    taps = Shape(window).size();
    x_points = y_points = {0};
    rounds = Shape(out).size() < kFewPositions ? 1 : images;
    if (rounds == 1) {
      spread(x_points, images, x_strides[0]);
      spread(y_points, images, y_strides[0]);
    }
    std::vector<Index> x_taps{0}, w_taps{0};
    for (std::size_t d = 0; d < out.size(); ++d) {
      spread(x_points, out[d], o.strides[d] * x_strides[d + 2]);
      spread(y_points, out[d], y_strides[d + 2]);
      spread(x_taps, window[d], o.rhs_dilation[d] * x_strides[d + 2]);
      spread(w_taps, window[d], w_strides[d + 2]);
    }
    chunk = std::min(channels, std::max<Index>(1, kTableEntries / std::max<Index>(taps, 1)));
    while (chunk > 1 && channels % chunk != 0) --chunk;
    for (Index c = 0; c < chunk; ++c)
      for (std::size_t t = 0; t < x_taps.size(); ++t) {
        x_inner.push_back(static_cast<std::int32_t>(c * x_strides[1] + x_taps[t]));
        w_inner.push_back(static_cast<std::int32_t>(packed ? (c * taps + to_dim(t)) * width
                                                           : c * w_strides[1] + w_taps[t]));
      }
    const Index outer = channels / std::max<Index>(chunk, 1);
    if (rounds == 1 && points() * width <= kTableEntries && outer >= 2 &&
        channels * taps >= 2 * kTableEntries)
      pieces = std::min(outer, kPiecesAtMost);
  }

  Index points() const { return to_dim(x_points.size()); }
  Index outer() const { return chunk == 0 ? 0 : channels / chunk; }
  Index panel() const { return channels * taps * width; }  // of the packed kernel of one group
  Index work() const { return groups * rounds * points() * features * channels * taps; }

  // The sum over the channels' chunks [first, last).
  PatchSum sum(Index first, Index last) const {
    return {
        last - first,           chunk * x_strides[1], packed ? chunk * taps * width : chunk * w_strides[1],
        to_dim(x_inner.size()), x_inner.data(),       w_inner.data()};
  }
  Index group_of_x(Index g) const {
    return o.feature_group_count > 1 ? g * channels * x_strides[1] : g * images * x_strides[0];
  }

  static void spread(std::vector<Index>& places, Index size, Index step) {
    std::vector<Index> out;
    for (const Index place : places)
      for (Index i = 0; i < size; ++i) out.push_back(place + i * step);
    places = std::move(out);
  }
};

// w[o, i, t] -> [i, t, o], o filled up with zeros.
template <class T>
void pack_kernel(const DirectConv& d, const T* w, T* out, const std::vector<Index>& taps) {
  for (Index c = 0; c < d.channels; ++c)
    for (Index t = 0; t < d.taps; ++t, out += d.width) {
      const T* from = w + c * d.w_strides[1] + taps[to_index(t)];
      for (Index f = 0; f < d.features; ++f) out[f] = from[f * d.w_strides[0]];
      std::fill(out + d.features, out + d.width, T(0));
    }
}

template <class T>
Kernel kernel_of(const KernelRequest& q, const ConvOptions& options) {
  const auto d = std::make_shared<const DirectConv>(q, options, kLanes<T>);
  std::vector<Index> taps{0};
  const Dims window = spatial_sizes(q.x(1).shape, options.rhs_spec);
  for (std::size_t i = 0; i < window.size(); ++i) DirectConv::spread(taps, window[i], d->w_strides[i + 2]);
  constexpr Index kRows = PatchTiles<T>::kRows;
  const Index blocks = (d->points() + kRows - 1) / kRows;
  const int parts = parts_of_work(d->work() / 4);
  const int tasks = static_cast<int>(d->pieces > 1 ? d->pieces : std::min(to_dim(parts), blocks * d->rounds));

  std::size_t scratch = 0;
  const auto take = [&](Index elements) {
    return std::exchange(scratch, scratch + to_index(round_up(elements * to_dim(sizeof(T)), 64)));
  };
  const std::size_t x_at = take(d->padding.needed() ? Shape(d->padding.shape()).size() : 0);
  const std::size_t w_at = take(d->packed ? d->groups * d->panel() : 0);
  const std::size_t rows_at =
      take(d->pieces > 1 ? d->pieces * d->points() * d->width : tasks * kRows * d->width);

  Kernel kernel;
  kernel.scratch_bytes = scratch;
  kernel.run = [=, n = q.x(0).shape[0], size = q.y().shape.size()](const KernelArgs& k) {
    if (size == 0) return;
    auto* memory = static_cast<std::byte*>(k.scratch);
    const T *x = static_cast<const T*>(k.in[0]), *w = static_cast<const T*>(k.in[1]);
    T* y = static_cast<T*>(k.out[0]);
    if (d->padding.needed()) {
      T* padded = reinterpret_cast<T*>(memory + x_at);
      default_pool().parallel(
          parts, [&](int part) { d->padding(x, padded, n * part / parts, n * (part + 1) / parts); });
      x = padded;
    }
    if (d->packed) {
      T* panels = reinterpret_cast<T*>(memory + w_at);
      for (Index g = 0; g < d->groups; ++g)
        pack_kernel(*d, w + g * d->features * d->w_strides[0], panels + g * d->panel(), taps);
      w = panels;
    }
    T* rows = reinterpret_cast<T*>(memory + rows_at);
    for (Index g = 0; g < d->groups; ++g) {
      const T* source = x + d->group_of_x(g);
      const T* weights = w + g * (d->packed ? d->panel() : d->features * d->w_strides[0]);
      T* target = y + g * d->features * d->y_strides[1];
      const auto put = [&](Index point, Index image_at, const T* row) {
        std::copy_n(row, d->features, target + image_at + d->y_points[to_index(point)]);
      };
      if (d->pieces > 1) {
        const Index all = d->points() * d->width;
        default_pool().parallel(tasks, [&](int piece) {
          const Index first = d->outer() * piece / tasks, last = d->outer() * (piece + 1) / tasks;
          const PatchSum sum = d->sum(first, last);
          PatchTiles<T>::run(sum, source + first * sum.x_outer, d->x_points.data(), d->points(),
                             weights + first * sum.w_outer, d->width, rows + piece * all, d->width);
        });
        for (int piece = 1; piece < tasks; ++piece)
          for (Index i = 0; i < all; ++i) rows[i] += rows[piece * all + i];
        for (Index p = 0; p < d->points(); ++p) put(p, 0, rows + p * d->width);
        continue;
      }
      const PatchSum sum = d->sum(0, d->outer());
      default_pool().parallel(tasks, [&](int task) {
        T* own = rows + task * kRows * d->width;
        const Index all = blocks * d->rounds;
        for (Index block = all * task / tasks; block < all * (task + 1) / tasks; ++block) {
          const Index image = block / blocks, first = block % blocks * kRows;
          const Index count = std::min(kRows, d->points() - first);
          PatchTiles<T>::run(sum, source + image * d->x_strides[0], d->x_points.data() + first, count,
                             weights, d->width, own, d->width);
          for (Index p = 0; p < count; ++p) put(first + p, image * d->y_strides[0], own + p * d->width);
        }
      });
    }
  };
  return kernel;
}

}  // namespace

bool direct_conv_fits(const KernelRequest& q, const ConvOptions& o) {
  const Shape& y = q.y().shape;
  if (q.y().dtype != Dtype::F32 && q.y().dtype != Dtype::F64) return false;
  const Index lanes = ETP_VBYTES / to_dim(size_of(q.y().dtype));
  const Index features =
      y[to_index(o.out_spec[1])] / std::max<Index>(1, o.feature_group_count * o.batch_group_count);
  for (const auto& [low, high] : o.padding)
    if (low < 0 || high < 0) return false;
  const Padding padding(o, q.x(0).shape);
  constexpr Index kMost = std::numeric_limits<std::int32_t>::max();
  return strides_of(y)[to_index(o.out_spec[1])] == 1 && 2 * features >= lanes && y.size() > 0 &&
         q.x(0).shape.size() > 0 && q.x(1).shape.size() > 0 && q.x(1).shape.size() < kMost &&
         Shape(padding.shape()).size() < kMost;
}

Kernel direct_conv_kernel(const KernelRequest& q, const ConvOptions& o) {
  return q.y().dtype == Dtype::F32 ? kernel_of<float>(q, o) : kernel_of<double>(q, o);
}

}  // namespace etrace
