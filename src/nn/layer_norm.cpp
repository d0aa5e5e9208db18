#include "etrace/nn/layer_norm.h"

#include "nn/check.h"
#include "nn/normalize.h"

namespace etrace::nn {

namespace {
std::string layer_norm_text(const Shape& in) { return "a LayerNorm of samples " + to_string(in); }

NamedArrays layer_norm_leaves(const Shape& in, const NormOptions& o) {
  if (o.axes < 1 || o.axes > static_cast<std::int64_t>(in.rank()))
    wrong_option(layer_norm_text(in), "it cannot go over the last " + std::to_string(o.axes) +
                                          " axes; expected 1 or more of them");
  const auto count = static_cast<std::size_t>(o.axes);
  return scale_and_bias(Shape(in.dims().last(count)), o.scale, o.bias, o.dtype);
}
}  // namespace

LayerNorm::LayerNorm(const Shape& in, const NormOptions& o)
    : in_size(in),
      weight(o.scale || o.bias ? &param("weight", layer_norm_leaves(in, o)) : nullptr),
      options_(o) {
  layer_norm_leaves(in, o);
}

Array LayerNorm::update(const Array& x) {
  require_tail(layer_norm_text(in_size), x, in_size);
  const auto count = static_cast<std::size_t>(options_.axes);
  const Array y = normalized(x, last_axes(x.rank(), count), options_.epsilon);
  return scaled_and_shifted(y, weight, in_size, last_axes(in_size.rank(), count));
}

}  // namespace etrace::nn
