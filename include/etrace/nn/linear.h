// y = x·W + b
#pragma once

#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct LinearOptions {
  Initializer weight_init = init::kaiming_normal();
  Initializer bias_init = init::zeros();  // empty: no bias
  Array mask = {};                        // fixed factor of W, broadcast to [in, out]; undefined: none
  Unit unit = {};                         // of W
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// One parameter `weight` with the leaves bias [out] and weight [in, out]. x is [in] or [batch, in]; more
// leading axes are folded into one and restored.
class Linear : public WeightLayer {
 public:
  using Options = LinearOptions;
  Linear(std::int64_t in_size, std::int64_t out_size, const LinearOptions& = {});
  Array update(const Array& x) override;

  ParamState& weight;
  const std::int64_t in_size, out_size;

 private:
  Array mask_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
