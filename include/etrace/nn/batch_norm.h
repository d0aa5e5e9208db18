// y = (x − μ)/√(v + ε) ⊙ scale + bias    μ, v: over batch and space; while evaluating, their running averages
#pragma once

#include "etrace/nn/layer_norm.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct BatchNormOptions {
  double momentum = 0.99;  // running ← momentum·running + (1 − momentum)·that of the batch
  double epsilon = 1e-5;
  bool scale = true, bias = true;
  bool channel_first = false;  // a sample is [channels, space…] instead of [space…, channels]
  Dtype dtype = Dtype::F32;
};

// Samples have 0 to 3 axes of space; x must have a batch axis. One parameter `weight` with the leaves bias
// and scale [channels]; running_mean and running_variance [channels] are kept over resets. While the model
// trains (Module::train) the batch counts and the running averages follow it.
class BatchNorm : public NumberLayer {
 public:
  using Options = BatchNormOptions;
  explicit BatchNorm(const Shape& in_size, const BatchNormOptions& = {});
  explicit BatchNorm(std::int64_t features, const BatchNormOptions& options = {})
      : BatchNorm(Shape{features}, options) {}
  Array update(const Array& x) override;

  const Shape in_size;       // of a sample
  ParamState* const weight;  // null without scale and bias
  LongTermState &running_mean, &running_variance;

 private:
  BatchNormOptions options_;
};
using BatchNorm0d = BatchNorm;
using BatchNorm1d = BatchNorm;
using BatchNorm2d = BatchNorm;
using BatchNorm3d = BatchNorm;

}  // namespace etrace::nn
#pragma GCC visibility pop
