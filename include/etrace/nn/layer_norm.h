// y = (x − μ)/√(v + ε) ⊙ scale + bias    μ, v: mean and variance over the last axes of a sample
#pragma once

#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct NormOptions {
  std::int64_t axes = 1;  // so many of the last ones
  double epsilon = 1e-6;
  bool scale = true, bias = true;
  Dtype dtype = Dtype::F32;
};

// One parameter `weight` with the leaves bias and scale of the shape of the last axes; both are learned
// online where they reach a hidden state. The variance takes two passes: in one, E[x²] − μ², rounding leaves
// a rest that recurrences amplify.
class LayerNorm : public ScaleFreeLayer {
 public:
  using Options = NormOptions;
  explicit LayerNorm(const Shape& in_size, const NormOptions& = {});
  explicit LayerNorm(std::int64_t features, const NormOptions& options = {})
      : LayerNorm(Shape{features}, options) {}
  Array update(const Array& x) override;

  const Shape in_size;       // of a sample
  ParamState* const weight;  // null without scale and bias

 private:
  NormOptions options_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
