// y = T[x]
#pragma once

#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct EmbeddingOptions {
  Initializer weight_init = init::lecun_uniform();
  Unit unit = {};  // of T
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// A row of a table per whole number x. Parameter `weight` [rows, features], a bare array. x is one index or
// [batch]; more axes are folded and restored. Negative indices count from the end, others out of range give
// NaN.
class Embedding : public WeightLayer {
 public:
  using Options = EmbeddingOptions;
  Embedding(std::int64_t num_embeddings, std::int64_t features, const EmbeddingOptions& = {});
  Array update(const Array& indices) override;

  ParamState& weight;
  const std::int64_t num_embeddings, features;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
