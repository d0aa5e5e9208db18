// y = x/√(mean(x²) + ε) ⊙ scale    over the last axes of a sample
#pragma once

#include "etrace/nn/layer_norm.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// One parameter `weight` with the leaf scale; NormOptions::bias is not used.
class RMSNorm : public ScaleFreeLayer {
 public:
  using Options = NormOptions;
  explicit RMSNorm(const Shape& in_size, const NormOptions& = {});
  explicit RMSNorm(std::int64_t features, const NormOptions& options = {})
      : RMSNorm(Shape{features}, options) {}
  Array update(const Array& x) override;

  const Shape in_size;       // of a sample
  ParamState* const weight;  // null without scale

 private:
  NormOptions options_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
