// The convolution without copies of patches, where the features of the result lie side by side: every output
// position is a row of features. The input is padded (and spread) once; then the element that a position
// reads for a channel and a tap lies at a sum of two offsets, one of the position and one of the pair, and
// the sums of all features of a few positions run in registers (patch_tile.h). The same serves the gradient
// of a kernel, a convolution with few positions and a long sum: that one is cut into pieces whose results are
// added in order. Pieces follow from the sizes alone.
#include <algorithm>
#include <cstring>

#include "kernels/context.h"
#include "kernels/kernels.h"
#include "kernels/patch_tile.h"

namespace etrace {

namespace {

using Index = std::int64_t;

// The tables, in order.
struct ConvTables {
  explicit ConvTables(const void* const* in)
      : axes(static_cast<const PadAxis*>(in[2])),
        x_points(static_cast<const Index*>(in[3])),
        y_points(static_cast<const Index*>(in[4])),
        taps(static_cast<const Index*>(in[5])),
        x_inner(static_cast<const std::int32_t*>(in[6])),
        w_inner(static_cast<const std::int32_t*>(in[7])) {}

  struct PadAxis {  // of the input: sizes and strides before and after, and where its entries go
    Index from, to, from_stride, to_stride, low, step;
  };
  const PadAxis* axes;
  const Index *x_points, *y_points;       // of an image's positions; of few, all images'
  const Index* taps;                      // of the kernel
  const std::int32_t *x_inner, *w_inner;  // of some channels and all taps
};

// Entries [begin, end) of the first axis of the input with zeros around and between its entries.
template <class T>
void pad_input(const etp_conv_direct& d, const ConvTables::PadAxis* axes, const T* x, T* out, Index begin,
               Index end) {
  const Index row = axes[0].to_stride, own = axes[0].from_stride;
  std::memset(out + begin * row, 0, static_cast<std::size_t>((end - begin) * row) * sizeof(T));
  if (d.pad_first == 0) {
    std::copy(x + begin * own, x + end * own, out + begin * own);
    return;
  }
  Index offset = 0;  // of the stretch within its axes
  for (Index a = d.pad_first; a < d.pad_axes; ++a) offset += axes[a].low * axes[a].to_stride;
  Index stretches = 1;
  for (Index a = 1; a < d.pad_first; ++a) stretches *= axes[a].from;
  for (Index n = begin; n < end; ++n)
    for (Index s = 0; s < stretches; ++s) {
      Index rest = s, to = n * row + offset;
      for (Index a = d.pad_first; a-- > 1;) {
        to += (rest % axes[a].from * axes[a].step + axes[a].low) * axes[a].to_stride;
        rest /= axes[a].from;
      }
      std::copy_n(x + (n * stretches + s) * d.pad_stretch, d.pad_stretch, out + to);
    }
}

// w[o, i, t] -> [i, t, o], o filled up with zeros.
template <class T>
void pack_weights(const etp_conv_direct& d, const T* w, T* out, const Index* taps) {
  for (Index c = 0; c < d.channels; ++c)
    for (Index t = 0; t < d.taps; ++t, out += d.width) {
      const T* from = w + c * d.w_channel + taps[t];
      for (Index f = 0; f < d.features; ++f) out[f] = from[f * d.w_feature];
      std::fill(out + d.features, out + d.width, T(0));
    }
}

// How a convolution is dealt out, and where in the scratch memory its pieces lie.
template <class T>
struct ConvParts {
  static constexpr Index kRows = PatchTiles<T>::kRows;

  ConvParts(const etp_conv_direct& d, Index threads)
      : blocks((d.points + kRows - 1) / kRows),
        parts(parts_of_work(d.groups * d.rounds * d.points * d.features * d.channels * d.taps / 4, threads)),
        tasks(d.pieces > 1 ? d.pieces : std::min<Index>(parts, blocks * d.rounds)),
        panel(d.channels * d.taps * d.width) {
    const auto take = [&](Index elements) {
      const std::size_t at = bytes;
      bytes += static_cast<std::size_t>(round_up(elements * static_cast<Index>(sizeof(T)), 64));
      return at;
    };
    x_at = take(d.padded_size);
    w_at = take(d.packed != 0 ? d.groups * panel : 0);
    rows_at = take(d.pieces > 1 ? d.pieces * d.points * d.width : tasks * kRows * d.width);
  }

  Index blocks, parts, tasks, panel;  // panel: of the packed kernel of one group
  std::size_t x_at = 0, w_at = 0, rows_at = 0, bytes = 0;
};

// The sum over the channels' chunks [first, last).
PatchSum chunk_sum(const etp_conv_direct& d, const ConvTables& tables, Index first, Index last) {
  return {
      last - first, d.chunk * d.x_channel, d.packed != 0 ? d.chunk * d.taps * d.width : d.chunk * d.w_channel,
      d.inner,      tables.x_inner,        tables.w_inner};
}

template <class T>
void convolve(const etp_conv_direct& d, const etp_context& context, const void* const* in, void* const* out,
              void* scratch) {
  const ConvTables tables(in);
  const ConvParts<T> n(d, context.threads);
  constexpr Index kRows = ConvParts<T>::kRows;
  auto* memory = static_cast<std::byte*>(scratch);
  const T *x = static_cast<const T*>(in[0]), *w = static_cast<const T*>(in[1]);
  if (d.padded_size > 0) {
    T* padded = reinterpret_cast<T*>(memory + n.x_at);
    const Index size = tables.axes[0].from;
    in_parts(context, n.parts, [&](int part) {
      pad_input(d, tables.axes, x, padded, size * part / n.parts, size * (part + 1) / n.parts);
    });
    x = padded;
  }
  if (d.packed != 0) {
    T* panels = reinterpret_cast<T*>(memory + n.w_at);
    for (Index g = 0; g < d.groups; ++g)
      pack_weights(d, w + g * d.features * d.w_feature, panels + g * n.panel, tables.taps);
    w = panels;
  }
  T* rows = reinterpret_cast<T*>(memory + n.rows_at);
  const Index outer = d.channels / d.chunk;
  for (Index g = 0; g < d.groups; ++g) {
    const T* source = x + g * d.x_group;
    const T* weights = w + g * (d.packed != 0 ? n.panel : d.features * d.w_feature);
    T* target = static_cast<T*>(out[0]) + g * d.features;
    const auto put = [&](Index point, Index image_at, const T* row) {
      std::copy_n(row, d.features, target + image_at + tables.y_points[point]);
    };
    if (d.pieces > 1) {
      const Index all = d.points * d.width;
      in_parts(context, n.tasks, [&](int piece) {
        const Index first = outer * piece / n.tasks, last = outer * (piece + 1) / n.tasks;
        const PatchSum sum = chunk_sum(d, tables, first, last);
        PatchTiles<T>::run(sum, source + first * sum.x_outer, tables.x_points, d.points,
                           weights + first * sum.w_outer, d.width, rows + piece * all, d.width);
      });
      for (Index piece = 1; piece < n.tasks; ++piece)
        for (Index i = 0; i < all; ++i) rows[i] += rows[piece * all + i];
      for (Index p = 0; p < d.points; ++p) put(p, 0, rows + p * d.width);
      continue;
    }
    const PatchSum sum = chunk_sum(d, tables, 0, outer);
    in_parts(context, n.tasks, [&](int task) {
      T* own = rows + task * kRows * d.width;
      const Index all = n.blocks * d.rounds;
      for (Index block = all * task / n.tasks; block < all * (task + 1) / n.tasks; ++block) {
        const Index image = block / n.blocks, first = block % n.blocks * kRows;
        const Index count = std::min(kRows, d.points - first);
        PatchTiles<T>::run(sum, source + image * d.x_image, tables.x_points + first, count, weights, d.width,
                           own, d.width);
        for (Index p = 0; p < count; ++p) put(first + p, image * d.y_image, own + p * d.width);
      }
    });
  }
}

}  // namespace

void run_conv_direct(const void* descriptor, const etp_context* context, const void* const* in,
                     void* const* out, void* scratch) {
  const auto& d = *static_cast<const etp_conv_direct*>(descriptor);
  (d.dtype == ETP_F32 ? convolve<float> : convolve<double>)(d, *context, in, out, scratch);
}
std::size_t conv_direct_scratch(const void* descriptor, std::int64_t threads) {
  const auto& d = *static_cast<const etp_conv_direct*>(descriptor);
  return d.dtype == ETP_F32 ? ConvParts<float>(d, threads).bytes : ConvParts<double>(d, threads).bytes;
}

}  // namespace etrace
