#include "nn/normalize.h"

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"

namespace etrace::nn {

NamedArrays scale_and_bias(const Shape& shape, bool scale, bool bias, Dtype dtype) {
  NamedArrays leaves;
  if (scale) leaves.emplace_back("scale", full(shape, 1.0, dtype));
  if (bias) leaves.emplace_back("bias", full(shape, 0.0, dtype));
  return leaves;
}

Array scaled_and_shifted(const Array& y, const ParamState* weight, const Shape& sample, const Dims& axes) {
  if (weight == nullptr) return y;
  const auto spread = [&](const char* leaf) {
    const Array value = weight->value(leaf);
    return element_wise(value.shape() == sample ? value : broadcast_in_dim(value, sample, axes));
  };
  const Array scaled = weight->has_leaf("scale") ? y * spread("scale") : y;
  return weight->has_leaf("bias") ? scaled + spread("bias") : scaled;
}

Dims last_axes(std::size_t rank, std::size_t count) {
  Dims axes;
  for (std::size_t a = rank - count; a < rank; ++a) axes.push_back(static_cast<std::int64_t>(a));
  return axes;
}

Array normalized(const Array& x, const Dims& axes, double epsilon) {
  const Array centred = x - mean(x, axes, true);
  return centred * rsqrt(mean(square(centred), axes, true) + epsilon);
}

}  // namespace etrace::nn
