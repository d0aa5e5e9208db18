// y = x·W + b, without the diagonal of W unless `include_self`; with one weight for all: y_j = w·Σ_{i (≠ j)}
// x_i
#pragma once

#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct AllToAllOptions {
  Initializer weight_init = init::kaiming_normal();
  Initializer bias_init = {};  // empty: no bias
  bool include_self = true;    // false: neurons i and i are not connected
  bool one_weight = false;     // one number for all connections; weight_init draws a vector of length 1
  Unit unit = {};              // of W
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// Every input to every output. One parameter `weight` with the leaves bias [out] and weight [in, out] or [1].
class AllToAll : public WeightLayer {
 public:
  using Options = AllToAllOptions;
  AllToAll(std::int64_t in_size, std::int64_t out_size, const AllToAllOptions& = {});
  Array update(const Array& x) override;

  ParamState& weight;
  const std::int64_t in_size, out_size;

 private:
  Array of_one_weight(const Array& x) const;
  bool include_self_, one_weight_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
