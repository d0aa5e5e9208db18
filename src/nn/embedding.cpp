#include "etrace/nn/embedding.h"

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/shape.h"
#include "nn/check.h"
#include "nn/fold.h"

namespace etrace::nn {

Embedding::Embedding(std::int64_t rows, std::int64_t columns, const EmbeddingOptions& o)
    : WeightLayer(o.unit),
      weight(param("weight",
                   [=] {
                     return o.weight_init(layer_key(o.seed), {rows, columns}, o.dtype);
                   })),
      num_embeddings(rows),
      features(columns) {}

Array Embedding::update(const Array& indices) {
  if (!is_integer(indices.dtype()))
    throw TypeError("nn",
                    "an Embedding of " + std::to_string(num_embeddings) + " rows was given " +
                        to_string(indices.aval()) + "; expected whole numbers",
                    OriginScope::current());
  return with_folded_axes(indices, 0,
                          [&](const Array& flat) { return etrace::embedding(flat, weight.value()); });
}

}  // namespace etrace::nn
