// y = (x·(ŵ ⊙ mask)) ⊙ gain + b    ŵ: the weights standardised per output
// (etrace/nn/weight_standardization.h)
#pragma once

#include "etrace/nn/init.h"
#include "etrace/nn/unit_layer.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct ScaledWSLinearOptions {
  Initializer weight_init = init::kaiming_normal();
  Initializer bias_init = init::zeros();  // empty: no bias
  Array mask = {};                        // fixed factor of ŵ, broadcast to [in, out]; undefined: none
  bool gain = true;
  double epsilon = 1e-4;
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// One parameter `weight` with the leaves bias [out], gain [1, out] (at first 1) and weight [in, out]. Gain
// and bias are learned online too.
class ScaledWSLinear : public SameUnitLayer {
 public:
  using Options = ScaledWSLinearOptions;
  ScaledWSLinear(std::int64_t in_size, std::int64_t out_size, const ScaledWSLinearOptions& = {});
  Array update(const Array& x) override;

  ParamState& weight;
  const std::int64_t in_size, out_size;

 private:
  Array mask_;
  double epsilon_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
