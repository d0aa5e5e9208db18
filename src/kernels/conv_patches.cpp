// The convolution as matrix products: for each image and group, the patches that the window sees become the
// columns of a matrix (a stretch of output positions at a time, to stay in cache), and the kernel's rows
// multiply it.
#include <algorithm>

#include "kernels/context.h"
#include "kernels/matrix_product.h"

namespace etrace {

namespace {

using Index = std::int64_t;

constexpr Index kPatchBytes = 256 * 1024;  // patches of one stretch: half of a usual second-level cache

Index element_bytes(const etp_conv_patches& d) { return d.dtype == ETP_I64 || d.dtype == ETP_F64 ? 8 : 4; }

// Stretches of output positions, all but the last of one length, and where what they need lies in scratch.
struct PatchStretches {
  PatchStretches(const etp_conv_patches& d, Index threads)
      : bytes(element_bytes(d)), depth(d.channels * d.taps) {
    const Index fits = kPatchBytes / bytes / std::max<Index>(depth, 1);
    length = std::max<Index>(1, std::min(d.positions, std::max<Index>(64, fits / 64 * 64)));
    const auto take = [&](Index size) {
      const Index at = scratch;
      scratch += (size + 63) / 64 * 64;
      return at;
    };
    w_at = take(d.w_in_order != 0 ? 0 : d.groups * d.features * depth * bytes);
    y_at = take(d.y_in_order != 0 ? 0 : d.features * d.positions * bytes);
    patches_at = take(depth * length * bytes);
    const etp_matrix_product whole = product(d, length), rest = product(d, d.positions % length);
    product_at = take(static_cast<Index>(
        std::max(matrix_product_scratch(&whole, threads), matrix_product_scratch(&rest, threads))));
  }
  etp_matrix_product product(const etp_conv_patches& d, Index columns) const {
    return {d.dtype, d.features, columns, depth, depth, 1, columns, 1, d.positions, 0, 0};
  }

  Index bytes, depth, length = 0;
  Index w_at = 0, y_at = 0, patches_at = 0, product_at = 0, scratch = 0;
};

template <class Word>
void gather_patches(const etp_conv_patches& d, const Word* image, const std::int32_t* table, Index first,
                    Index count, Word* columns) {
  for (Index c = 0; c < d.channels; ++c, image += d.x_channel)
    for (Index tap = 0; tap < d.taps; ++tap, columns += count) {
      const std::int32_t* __restrict at = table + tap * d.positions + first;
      for (Index i = 0; i < count; ++i) columns[i] = at[i] < 0 ? Word(0) : image[at[i]];
    }
}

// w[feature, channel, tap] from where it lies.
template <class Word>
void order_weights(const etp_conv_patches& d, const Word* w, const Index* taps, Word* out) {
  for (Index f = 0; f < d.groups * d.features; ++f)
    for (Index c = 0; c < d.channels; ++c)
      for (Index t = 0; t < d.taps; ++t) *out++ = w[f * d.w_feature + c * d.w_channel + taps[t]];
}

template <class Word>
void convolve_patches(const etp_conv_patches& d, const etp_context& context, const void* const* in,
                      void* const* out, void* scratch) {
  const PatchStretches n(d, context.threads);
  auto* memory = static_cast<std::byte*>(scratch);
  const Word *x = static_cast<const Word*>(in[0]), *w = static_cast<const Word*>(in[1]);
  const auto* table = static_cast<const std::int32_t*>(in[2]);
  const Index *taps = static_cast<const Index*>(in[3]), *y_points = static_cast<const Index*>(in[4]);
  if (d.w_in_order == 0) {
    Word* ordered = reinterpret_cast<Word*>(memory + n.w_at);
    order_weights(d, w, taps, ordered);
    w = ordered;
  }
  Word* patches = reinterpret_cast<Word*>(memory + n.patches_at);
  for (Index image = 0; image < d.images; ++image)
    for (Index g = 0; g < d.groups; ++g) {
      const Word* source = x + image * d.x_image + g * d.x_group;
      Word* place = static_cast<Word*>(out[0]) + image * d.y_image + g * d.features * d.y_feature;
      Word* target = d.y_in_order != 0 ? place : reinterpret_cast<Word*>(memory + n.y_at);
      for (Index p = 0; p < d.positions; p += n.length) {
        const Index count = std::min(n.length, d.positions - p);
        gather_patches(d, source, table, p, count, patches);
        multiply(n.product(d, count), context, w + g * d.features * n.depth, patches, target + p,
                 memory + n.product_at);
      }
      if (d.y_in_order != 0) continue;
      for (Index f = 0; f < d.features; ++f)
        for (Index p = 0; p < d.positions; ++p)
          place[f * d.y_feature + y_points[p]] = target[f * d.positions + p];
    }
}

}  // namespace

void run_conv_patches(const void* descriptor, const etp_context* context, const void* const* in,
                      void* const* out, void* scratch) {
  const auto& d = *static_cast<const etp_conv_patches*>(descriptor);
  if (d.images * d.groups * d.features * d.positions == 0) return;
  (element_bytes(d) == 4 ? convolve_patches<std::uint32_t> : convolve_patches<std::uint64_t>)(d, *context, in,
                                                                                              out, scratch);
}
std::size_t conv_patches_scratch(const void* descriptor, std::int64_t threads) {
  const auto& d = *static_cast<const etp_conv_patches*>(descriptor);
  return static_cast<std::size_t>(PatchStretches(d, threads).scratch);
}

}  // namespace etrace
