#include "etrace/nn/conv.h"

#include <algorithm>

#include "etrace/etp.h"
#include "etrace/nn/weight_standardization.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "nn/check.h"

namespace etrace::nn {

// What a convolution is, apart from the values of its weights.
struct ConvGeometry {
  std::string name;
  EtpConvOptions options;
  Dims kernel_order;  // the kernel's axes in terms of [space…, in, out]
  Shape plain_kernel, kernel;
  Shape bias;  // broadcasts against a batch of results
};

namespace {

Dims axes_of_space(const std::string& name, const char* what, Dims values, std::size_t space) {
  if (values.size() == 1) values.resize(space, values[0]);
  if (values.size() != space)
    wrong_option(name, std::string(what) + " has " + std::to_string(values.size()) +
                           " entries; expected 1 or " + std::to_string(space));
  for (const std::int64_t v : values)
    if (v < 1)
      wrong_option(name, std::string(what) + " holds " + std::to_string(v) + "; expected at least 1");
  return values;
}

// Letters of x, kernel and y.
std::vector<std::string> conv_layout(const std::string& name, const ConvLayerOptions& o, std::size_t space) {
  const std::string around = std::string("DHW").substr(3 - space);
  const std::string data = o.channel_first ? "NC" + around : "N" + around + "C";
  if (o.layout.empty()) return {data, around + "IO", data};
  const bool fits = o.layout.size() == 3 && std::all_of(o.layout.begin(), o.layout.end(),
                                                        [&](const auto& l) { return l.size() == space + 2; });
  if (!fits || o.layout[0].find('C') + 1 <= 1 || o.layout[2].find('C') + 1 <= 1)
    wrong_option(name, "the layout must be three strings of " + std::to_string(space + 2) +
                           " letters, for x, kernel and y, with N in front and a C behind it, such as " +
                           data + ", " + around + "IO, " + data);
  return o.layout;
}

EtpConvOptions operator_options(const std::string& name, std::size_t space, const ConvLayerOptions& o) {
  EtpConvOptions c;
  c.strides = axes_of_space(name, "strides", o.strides, space);
  c.rhs_dilation = axes_of_space(name, "dilation", o.dilation, space);
  c.lhs_dilation = axes_of_space(name, "input_dilation", o.input_dilation, space);
  c.feature_group_count = o.groups;
  c.layout = conv_layout(name, o, space);
  if (!o.padding.name().empty()) {
    c.padding = o.padding.name();
    return c;
  }
  c.explicit_padding = o.padding.pairs();
  if (c.explicit_padding.size() == 1) c.explicit_padding.resize(space, c.explicit_padding[0]);
  if (c.explicit_padding.size() != space)
    wrong_option(name, "padding has " + std::to_string(c.explicit_padding.size()) + " pairs; expected 1 or " +
                           std::to_string(space));
  return c;
}

// Where the letters of a kernel stand in [space…, in, out]; space in the order of the kernel's own letters.
Dims order_of_kernel(const std::string& letters) {
  Dims order;
  std::int64_t space = 0;
  for (const char letter : letters) {
    const auto last = static_cast<std::int64_t>(letters.size()) - 1;
    order.push_back(letter == 'O' ? last : letter == 'I' ? last - 1 : space++);
  }
  return order;
}

// K ⊙ mask, before that standardised per output channel.
WeightFn kernel_function(const ConvGeometry& g, const ConvLayerOptions& o) {
  if (!o.mask.defined() && !o.standardize) return {};
  const Array mask = o.mask.defined() ? broadcast_to(convert(o.mask, o.dtype), g.kernel) : Array();
  const Dims order = g.kernel_order;
  Dims back(order.size());
  for (std::size_t a = 0; a < order.size(); ++a)
    back[static_cast<std::size_t>(order[a])] = static_cast<std::int64_t>(a);
  return [=, standardize = o.standardize](const Array& k) {
    const Array even = standardize ? transpose(weight_standardization(transpose(k, back)), order) : k;
    return mask.defined() ? even * mask : even;
  };
}

std::shared_ptr<const ConvGeometry> conv_geometry(const std::string& name, std::size_t space, const Shape& in,
                                                  std::int64_t out_channels, const Dims& kernel_size,
                                                  const ConvLayerOptions& o) {
  if (in.rank() != space + 1)
    wrong_option(name, "samples of shape " + to_string(in) + "; expected " + std::to_string(space) +
                           " axes of space and one of channels");
  auto g = std::make_shared<ConvGeometry>();
  g->name = name;
  g->options = operator_options(name, space, o);
  const std::vector<std::string>& layout = g->options.layout;
  const std::int64_t in_channels = in[layout[0].find('C') - 1];
  if (o.groups < 1 || in_channels % o.groups != 0 || out_channels % o.groups != 0)
    wrong_option(name, std::to_string(in_channels) + " input and " + std::to_string(out_channels) +
                           " output channels in " + std::to_string(o.groups) +
                           " groups; both must divide evenly");
  Dims plain = axes_of_space(name, "the kernel", kernel_size, space), kernel;
  plain.insert(plain.end(), {in_channels / o.groups, out_channels});
  g->kernel_order = order_of_kernel(layout[1]);
  for (const std::int64_t axis : g->kernel_order) kernel.push_back(plain[static_cast<std::size_t>(axis)]);
  g->plain_kernel = plain;
  g->kernel = kernel;
  Dims bias(space + 1, 1);
  bias[layout[2].find('C') - 1] = out_channels;
  g->bias = bias;
  g->options.kernel_fn = kernel_function(*g, o);
  return g;
}

// Drawn as [space…, in, out], so that the fans are those of the channels in any layout.
NamedArrays conv_leaves(const ConvGeometry& g, const ConvLayerOptions& o) {
  const Array key = layer_key(o.seed);
  const Array kernel = o.weight_init(random::fold_in(key, 0), g.plain_kernel, o.dtype);
  NamedArrays leaves{{"weight", transpose(kernel, g.kernel_order)}};
  if (o.bias_init) leaves.emplace_back("bias", o.bias_init(random::fold_in(key, 1), g.bias, o.dtype));
  return leaves;
}

std::size_t axes_of_space(const Shape& in) {
  if (in.rank() < 2 || in.rank() > 4)
    wrong_option("Conv",
                 "samples of shape " + to_string(in) + "; expected 1 to 3 axes of space and one of channels");
  return in.rank() - 1;
}

}  // namespace

Conv::Conv(const Shape& in, std::int64_t out_channels, const Dims& kernel_size, const ConvLayerOptions& o)
    : Conv("Conv", axes_of_space(in), in, out_channels, kernel_size, o) {}

Conv::Conv(const std::string& name, std::size_t space, const Shape& in, std::int64_t out_channels,
           const Dims& kernel_size, const ConvLayerOptions& o)
    : Conv(conv_geometry(name, space, in, out_channels, kernel_size, o), in, o) {}

Conv::Conv(std::shared_ptr<const ConvGeometry> geometry, const Shape& in, const ConvLayerOptions& o)
    : WeightLayer(o.unit),
      weight(param("weight", [=] { return conv_leaves(*geometry, o); })),
      in_size(in),
      geometry_(std::move(geometry)) {
  Avals types{{o.dtype, in.with_front(1)}};  // of a batch, then of the leaves: bias before weight
  for (const Aval& leaf : weight.avals()) types.push_back(leaf);
  const Recording once = record(types, [&](ArraySpan a) {
    return Arrays{conv(a[0], a.back(), a.size() > 2 ? a[1] : Array(), geometry_->options)};
  });
  out_size_ = once.jaxpr.out_avals()[0].shape.without(0);
}

Array Conv::of_batch(const Array& x) const {
  const Array bias = weight.has_leaf("bias") ? weight.value("bias") : Array();
  return conv(x, weight.value("weight"), bias, geometry_->options);
}

Array Conv::update(const Array& x) {
  require_sample("a " + geometry_->name, x, in_size);
  if (is_batch(x, in_size.rank())) return of_batch(x);
  return squeeze(of_batch(expand_dims(x, {0})), {0});
}

}  // namespace etrace::nn
