// y = x where x ≥ 0, else a·x
#pragma once

#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct PReLUOptions {
  double slope = 0.25;       // at first
  bool per_feature = false;  // one slope per entry of the last axis; false: one for all
  Dtype dtype = Dtype::F32;
};

// relu with a slope that is learned, also online. Parameter `slope` [1] or [features].
class PReLU : public SameUnitLayer {
 public:
  using Options = PReLUOptions;
  explicit PReLU(const Shape& in_size, const PReLUOptions& = {});
  explicit PReLU(std::int64_t features, const PReLUOptions& options = {}) : PReLU(Shape{features}, options) {}
  Array update(const Array& x) override;

  const Shape in_size;  // of a sample
  ParamState& slope;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
