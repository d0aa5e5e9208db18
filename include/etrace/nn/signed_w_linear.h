// y = x·(|W| ⊙ sign)
#pragma once

#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct SignedWLinearOptions {
  Initializer weight_init = init::kaiming_normal();
  Array sign = {};  // broadcast to [in, out]; undefined: +1 everywhere. A column [in, 1] of ±1 is Dale's law
  Unit unit = {};   // of W
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// Weights that keep their sign. Parameter `weight` [in, out], a bare array; no bias. The derivative of |W| at
// 0 is 0.
class SignedWLinear : public WeightLayer {
 public:
  using Options = SignedWLinearOptions;
  SignedWLinear(std::int64_t in_size, std::int64_t out_size, const SignedWLinearOptions& = {});
  Array update(const Array& x) override;

  ParamState& weight;
  const std::int64_t in_size, out_size;

 private:
  Array sign_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
