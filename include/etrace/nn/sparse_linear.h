// y = x·sparse(w) + b, or sparse(|w| ⊙ sign)
#pragma once

#include "etrace/etp.h"
#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct SparseLinearOptions {
  // Of the stored weights [nnz]; empty: normal with variance 2 / mean number of inputs of an output.
  Initializer weight_init = {};
  Initializer bias_init = {};  // empty: no bias
  Array sign = {};             // per stored weight; undefined: weights of either sign
  Unit unit = {};              // of w
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// Weights at fixed places [in, out] only; etrace/nn/connect.h draws such patterns. One parameter `weight`
// with the leaves bias [out] and weight [nnz], in the pattern's order.
class SparseLinear : public WeightLayer {
 public:
  using Options = SparseLinearOptions;
  explicit SparseLinear(SparsePattern, const SparseLinearOptions& = {});
  Array update(const Array& x) override;

  ParamState& weight;
  const SparsePattern& pattern() const { return pattern_; }

 private:
  SparsePattern pattern_;
  Array sign_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
