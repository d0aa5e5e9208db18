// The convolution where the features of the result do not lie side by side (else: conv_direct.h), as matrix
// products: for each image and group, the patches that the window sees become the
// columns of a matrix (a stretch of output positions at a time, to stay in cache), and the kernel's rows
// multiply it.
#include "ops/conv_kernel.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "ops/conv_direct.h"
#include "ops/matrix_product.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

constexpr std::string_view kOp = "conv_general_dilated";
constexpr std::size_t kPatchBytes = 256 * 1024;  // patches of one stretch: half of a usual second-level cache

// Offsets within one input channel that the window sees, [kernel position, output position]; -1 where it sees
// a zero (padding, or a gap of the dilated input).
std::shared_ptr<const std::vector<std::int32_t>> patch_table(const ConvOptions& o, const Dims& in,
                                                             const Dims& kernel, const Dims& out) {
  const std::size_t spatial = in.size();
  const Dims strides = strides_of(Shape(in));
  const std::int64_t positions = Shape(out).size(), taps = Shape(kernel).size();
  auto table = std::make_shared<std::vector<std::int32_t>>(to_index(positions * taps), 0);
  for (std::int64_t tap = 0; tap < taps; ++tap)
    for (std::int64_t p = 0; p < positions; ++p) {
      std::int64_t offset = 0, tap_rest = tap, p_rest = p;
      for (std::size_t d = spatial; d-- > 0;) {
        const std::int64_t at = (p_rest % out[d]) * o.strides[d] - o.padding[d].first +
                                (tap_rest % kernel[d]) * o.rhs_dilation[d];
        p_rest /= out[d];
        tap_rest /= kernel[d];
        const std::int64_t entry = at / o.lhs_dilation[d];
        if (at < 0 || at % o.lhs_dilation[d] != 0 || entry >= in[d]) {
          offset = -1;
          break;
        }
        offset += entry * strides[d];
      }
      (*table)[to_index(tap * positions + p)] = static_cast<std::int32_t>(offset);
    }
  return table;
}

template <class Word>
void gather_patches(const Word* image, std::int64_t channels, std::int64_t plane, const std::int32_t* table,
                    std::int64_t taps, std::int64_t positions, std::int64_t first, std::int64_t count,
                    Word* columns) {
  for (std::int64_t c = 0; c < channels; ++c, image += plane)
    for (std::int64_t tap = 0; tap < taps; ++tap, columns += count) {
      const std::int32_t* __restrict at = table + tap * positions + first;
      for (std::int64_t i = 0; i < count; ++i) columns[i] = at[i] < 0 ? Word(0) : image[at[i]];
    }
}

bool in_order(const Dims& spec) { return spec == axis_range(0, to_dim(spec.size())); }

Dims filled(const Dims& values, std::size_t count) { return values.empty() ? Dims(count, 1) : values; }

}  // namespace

ConvOptions conv_options(const Params& params, std::size_t rank) {
  if (rank < 2)
    refuse(kOp, "operands need a batch and a feature axis, but the input has rank " + std::to_string(rank));
  const std::size_t spatial = rank - 2;
  ConvOptions o;
  o.strides = filled(params.dims_or("window_strides", {}), spatial);
  o.lhs_dilation = filled(params.dims_or("lhs_dilation", {}), spatial);
  o.rhs_dilation = filled(params.dims_or("rhs_dilation", {}), spatial);
  if (params.has("padding"))
    for (const Dims& row : int_table(kOp, params, "padding", 2)) o.padding.emplace_back(row[0], row[1]);
  else
    o.padding.assign(spatial, {0, 0});
  o.feature_group_count = params.integer_or("feature_group_count", 1);
  o.batch_group_count = params.integer_or("batch_group_count", 1);
  const Attr* attr = params.find("dimension_numbers");
  const Params specs(attr != nullptr && attr->dict_items() != nullptr ? *attr->dict_items() : Attr::Dict{});
  const Dims usual = axis_range(0, to_dim(rank));
  o.lhs_spec = specs.dims_or("lhs_spec", usual);
  o.rhs_spec = specs.dims_or("rhs_spec", usual);
  o.out_spec = specs.dims_or("out_spec", usual);

  for (const Dims* spec : {&o.lhs_spec, &o.rhs_spec, &o.out_spec}) {
    if (spec->size() != rank)
      refuse(kOp, "the specification " + show(*spec) + " in dimension_numbers must name all " +
                      std::to_string(rank) + " axes");
    check_axes(kOp, "dimension_numbers", *spec, rank);
  }
  for (const Dims* list : {&o.strides, &o.lhs_dilation, &o.rhs_dilation}) {
    if (list->size() != spatial)
      refuse(kOp, "strides and dilations need one entry for each of the " + std::to_string(spatial) +
                      " spatial axes, but one is " + show(*list));
    if (std::any_of(list->begin(), list->end(), [](std::int64_t v) { return v < 1; }))
      refuse(kOp, "strides and dilations must be positive, but one is " + show(*list));
  }
  if (o.padding.size() != spatial)
    refuse(kOp, "padding needs [low, high] for each of the " + std::to_string(spatial) +
                    " spatial axes, but has " + std::to_string(o.padding.size()) + " entries");
  if (o.feature_group_count < 1 || o.batch_group_count < 1 ||
      (o.feature_group_count > 1 && o.batch_group_count > 1))
    refuse(kOp,
           "feature_group_count and batch_group_count must be positive, and only one of them above 1; they "
           "are " +
               std::to_string(o.feature_group_count) + " and " + std::to_string(o.batch_group_count));
  return o;
}

Params conv_params(const ConvOptions& o) {
  std::vector<Dims> padding;
  for (const auto& [low, high] : o.padding) padding.push_back({low, high});
  return {{"window_strides", o.strides},
          {"padding", to_attr(padding)},
          {"lhs_dilation", o.lhs_dilation},
          {"rhs_dilation", o.rhs_dilation},
          {"dimension_numbers",
           Attr::dict({{"lhs_spec", o.lhs_spec}, {"rhs_spec", o.rhs_spec}, {"out_spec", o.out_spec}})},
          {"feature_group_count", o.feature_group_count},
          {"batch_group_count", o.batch_group_count},
          {"preferred_element_type", nullptr}};
}

Dims spatial_sizes(const Shape& shape, const Dims& spec) {
  return pick(shape.dims(), std::span(spec).subspan(2));
}

std::int64_t dilated_size(std::int64_t n, std::int64_t dilation) {
  return n == 0 ? 0 : (n - 1) * dilation + 1;
}

Dims conv_spatial_output(const ConvOptions& o, const Shape& lhs, const Shape& rhs) {
  const Dims in = spatial_sizes(lhs, o.lhs_spec), kernel = spatial_sizes(rhs, o.rhs_spec);
  Dims out;
  for (std::size_t d = 0; d < in.size(); ++d) {
    const std::int64_t room = dilated_size(in[d], o.lhs_dilation[d]) + o.padding[d].first +
                              o.padding[d].second - dilated_size(kernel[d], o.rhs_dilation[d]);
    out.push_back(room < 0 ? 0 : room / o.strides[d] + 1);
  }
  return out;
}

Kernel conv_kernel(const KernelRequest& q) {
  const Shape &lhs = q.x(0).shape, &rhs = q.x(1).shape, &y = q.y().shape;
  const Dtype dtype = q.y().dtype;
  const ConvOptions o = conv_options(q.params, lhs.rank());
  if (direct_conv_fits(q, o)) return direct_conv_kernel(q, o);
  const Dims in = spatial_sizes(lhs, o.lhs_spec), kernel_sizes = spatial_sizes(rhs, o.rhs_spec);
  const Dims out = spatial_sizes(y, o.out_spec);
  const std::int64_t plane = Shape(in).size(), taps = Shape(kernel_sizes).size(),
                     positions = Shape(out).size();
  if (plane > std::numeric_limits<std::int32_t>::max())
    throw NotSupportedError(std::string(kOp), "an input channel of " + std::to_string(plane) +
                                                  " entries is too large; cut the input into pieces");
  const std::int64_t images = y[to_index(o.out_spec[0])], features = y[to_index(o.out_spec[1])];
  const std::int64_t in_features = lhs[to_index(o.lhs_spec[1])];
  const std::int64_t channels = rhs[to_index(o.rhs_spec[1])], depth = channels * taps;
  const std::int64_t groups = o.feature_group_count * o.batch_group_count, group_features = features / groups;
  const std::size_t bytes = size_of(dtype);

  // Stretches of output positions, all but the last of one length.
  const std::int64_t fits = to_dim(kPatchBytes / bytes) / std::max<std::int64_t>(depth, 1);
  const std::int64_t stretch =
      std::max<std::int64_t>(1, std::min(positions, std::max<std::int64_t>(64, fits / 64 * 64)));
  auto product_of = [&](std::int64_t columns) {
    return MatrixProduct(dtype, {group_features, columns, depth}, {depth, 1, columns, 1, positions});
  };
  const MatrixProduct whole = product_of(stretch), rest = product_of(positions % stretch);

  std::size_t scratch = 0;
  auto take = [&](std::size_t size) { return std::exchange(scratch, scratch + (size + 63) / 64 * 64); };
  const bool lhs_copy = !in_order(o.lhs_spec), rhs_copy = !in_order(o.rhs_spec),
             out_copy = !in_order(o.out_spec);
  const std::size_t lhs_at = lhs_copy ? take(q.x(0).bytes()) : 0,
                    rhs_at = rhs_copy ? take(q.x(1).bytes()) : 0;
  const std::size_t out_at = out_copy ? take(q.y().bytes()) : 0;
  const std::size_t patches_at = take(to_index(depth * stretch) * bytes);
  const std::size_t product_at = take(std::max(whole.scratch_bytes(), rest.scratch_bytes()));
  const StridedCopy lhs_order = permuting_copy(lhs, o.lhs_spec, bytes),
                    rhs_order = permuting_copy(rhs, o.rhs_spec, bytes);
  const Shape usual_out(pick(y.dims(), o.out_spec));
  const StridedCopy out_order = permuting_copy(usual_out, inverse_permutation(o.out_spec), bytes);
  const auto table = patch_table(o, in, kernel_sizes, out);

  Kernel kernel;
  kernel.scratch_bytes = scratch;
  kernel.run = [=, by_feature = o.feature_group_count > 1, size = y.size()](const KernelArgs& k) {
    if (size == 0) return;
    auto* memory = static_cast<std::byte*>(k.scratch);
    auto ordered = [&](bool copy, const StridedCopy& order, std::size_t at, const void* data) {
      if (copy) order(data, memory + at);
      return copy ? static_cast<const std::byte*>(memory + at) : static_cast<const std::byte*>(data);
    };
    const std::byte* x = ordered(lhs_copy, lhs_order, lhs_at, k.in[0]);
    const std::byte* w = ordered(rhs_copy, rhs_order, rhs_at, k.in[1]);
    std::byte* result = out_copy ? memory + out_at : static_cast<std::byte*>(k.out[0]);
    for (std::int64_t image = 0; image < images; ++image)
      for (std::int64_t g = 0; g < groups; ++g) {
        const std::int64_t from =
            by_feature ? image * in_features + g * channels : (g * images + image) * in_features;
        const std::byte* source = x + to_index(from * plane) * bytes;
        const std::byte* weights = w + to_index(g * group_features * depth) * bytes;
        std::byte* target = result + to_index((image * features + g * group_features) * positions) * bytes;
        for (std::int64_t p = 0; p < positions; p += stretch) {
          const std::int64_t count = std::min(stretch, positions - p);
          std::byte* patches = memory + patches_at;
          if (bytes == 4)
            gather_patches(reinterpret_cast<const std::uint32_t*>(source), channels, plane, table->data(),
                           taps, positions, p, count, reinterpret_cast<std::uint32_t*>(patches));
          else
            gather_patches(reinterpret_cast<const std::uint64_t*>(source), channels, plane, table->data(),
                           taps, positions, p, count, reinterpret_cast<std::uint64_t*>(patches));
          (count == stretch ? whole : rest)(weights, patches, target + to_index(p) * bytes,
                                            memory + product_at);
        }
      }
    if (out_copy) out_order(result, k.out[0]);
  };
  return kernel;
}

}  // namespace etrace
