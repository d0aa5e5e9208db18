// y[…, g, :] = x[…, g, :]·W[g] + b[g]
#pragma once

#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct GroupedLinearOptions {
  // One weight [in, out] per group: a group's fan is that of its own matrix.
  Initializer weight_init = init::kaiming_normal(init::Distribution::Normal);
  Initializer bias_init = init::zeros();  // empty: no bias
  Unit unit = {};                         // of W
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// Several Linear layers side by side; a trace smaller by the number of groups than that of the dense layer.
// One parameter `weight` with the leaves bias [groups, out] and weight [groups, in, out]. x is [groups, in]
// or [batch, groups, in]; more leading axes are folded.
class GroupedLinear : public WeightLayer {
 public:
  using Options = GroupedLinearOptions;
  GroupedLinear(std::int64_t groups, std::int64_t in_size, std::int64_t out_size,
                const GroupedLinearOptions& = {});
  Array update(const Array& x) override;

  ParamState& weight;
  const std::int64_t groups, in_size, out_size;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
