// y = (x − μ)/√(v + ε) ⊙ scale + bias    μ, v: over space and the channels of one group
#pragma once

#include "etrace/nn/layer_norm.h"
#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct GroupNormOptions {
  std::int64_t groups = 32;
  double epsilon = 1e-6;
  bool scale = true, bias = true;
  bool channel_first = false;  // a sample is [channels, space…] instead of [space…, channels]
  Dtype dtype = Dtype::F32;
};

// Neighbouring channels form a group. One parameter `weight` with the leaves bias and scale [channels]. x is
// one sample or a batch of them.
class GroupNorm : public ScaleFreeLayer {
 public:
  using Options = GroupNormOptions;
  explicit GroupNorm(const Shape& in_size, const GroupNormOptions& = {});
  Array update(const Array& x) override;

  const Shape in_size;
  ParamState* const weight;  // null without scale and bias

 private:
  GroupNormOptions options_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
