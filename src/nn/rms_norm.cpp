#include "etrace/nn/rms_norm.h"

#include "etrace/ops/numpy.h"
#include "nn/check.h"
#include "nn/normalize.h"

namespace etrace::nn {

namespace {
std::string rms_norm_text(const Shape& in) { return "an RMSNorm of samples " + to_string(in); }

NamedArrays rms_norm_leaves(const Shape& in, const NormOptions& o) {
  if (o.axes < 1 || o.axes > static_cast<std::int64_t>(in.rank()))
    wrong_option(rms_norm_text(in), "it cannot go over the last " + std::to_string(o.axes) +
                                        " axes; expected 1 or more of them");
  return scale_and_bias(Shape(in.dims().last(static_cast<std::size_t>(o.axes))), o.scale, false, o.dtype);
}
}  // namespace

RMSNorm::RMSNorm(const Shape& in, const NormOptions& o)
    : in_size(in), weight(o.scale ? &param("weight", rms_norm_leaves(in, o)) : nullptr), options_(o) {
  rms_norm_leaves(in, o);
}

Array RMSNorm::update(const Array& x) {
  require_tail(rms_norm_text(in_size), x, in_size);
  const auto count = static_cast<std::size_t>(options_.axes);
  const Array size = mean(square(x), last_axes(x.rank(), count), true);
  return scaled_and_shifted(x * rsqrt(size + options_.epsilon), weight, in_size,
                            last_axes(in_size.rank(), count));
}

}  // namespace etrace::nn
