// The geometry of a convolution, and which kernel computes it: conv_direct where the features of the result
// lie side by side, else conv_patches.
#include "ops/conv_kernel.h"

#include <algorithm>
#include <limits>

#include "core/named_kernel.h"
#include "ops/conv_direct.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

constexpr std::string_view kOp = "conv_general_dilated";

// Offsets within one input channel that the window sees, [kernel position, output position]; -1 where it sees
// a zero (padding, or a gap of the dilated input).
Tensor patch_table(const ConvOptions& o, const Dims& in, std::span<const std::int64_t> strides,
                   const Dims& kernel, const Dims& out) {
  const std::size_t spatial = in.size();
  const std::int64_t positions = Shape(out).size(), taps = Shape(kernel).size();
  std::vector<std::int32_t> table(to_index(positions * taps), 0);
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
      table[to_index(tap * positions + p)] = static_cast<std::int32_t>(offset);
    }
  return Tensor::of(table, {positions * taps});
}

// Where the positions of some axes lie, row-major.
Tensor places_of(const Dims& sizes, std::span<const std::int64_t> strides) {
  std::vector<std::int64_t> out{0};
  for (std::size_t i = 0; i < sizes.size(); ++i) out = spread(out, sizes[i], strides[i]);
  return Tensor::of(out, {to_dim(out.size())});
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
  const ConvOptions o = conv_options(q.params, lhs.rank());
  if (direct_conv_fits(q, o)) return direct_conv_kernel(q, o);
  if (lhs.size() > std::numeric_limits<std::int32_t>::max())
    throw NotSupportedError(std::string(kOp), "an input of " + std::to_string(lhs.size()) +
                                                  " entries is too large; cut it into pieces");
  const Dims in = spatial_sizes(lhs, o.lhs_spec), kernel_sizes = spatial_sizes(rhs, o.rhs_spec);
  const Dims out = spatial_sizes(y, o.out_spec);
  const Dims x_strides = pick(strides_of(lhs), o.lhs_spec), w_strides = pick(strides_of(rhs), o.rhs_spec),
             y_strides = pick(strides_of(y), o.out_spec);
  etp_conv_patches d{};
  d.dtype = static_cast<std::int64_t>(q.y().dtype);
  d.images = y[to_index(o.out_spec[0])];
  d.groups = o.feature_group_count * o.batch_group_count;
  d.features = y[to_index(o.out_spec[1])] / d.groups;
  d.channels = rhs[to_index(o.rhs_spec[1])];
  d.taps = Shape(kernel_sizes).size(), d.positions = Shape(out).size();
  d.x_image = x_strides[0], d.x_channel = x_strides[1];
  d.x_group = o.feature_group_count > 1 ? d.channels * x_strides[1] : d.images * x_strides[0];
  d.w_feature = w_strides[0], d.w_channel = w_strides[1];
  d.y_image = y_strides[0], d.y_feature = y_strides[1];
  d.w_in_order = in_order(o.rhs_spec) ? 1 : 0, d.y_in_order = in_order(o.out_spec) ? 1 : 0;
  Tensors tables{patch_table(o, in, std::span(x_strides).subspan(2), kernel_sizes, out),
                 places_of(kernel_sizes, std::span(w_strides).subspan(2)),
                 places_of(out, std::span(y_strides).subspan(2))};
  return named_kernel(NamedKernel::of("conv_patches", d, {0, 1}, std::move(tables)), q.context);
}

}  // namespace etrace
