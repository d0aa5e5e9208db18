// Flatten: […, a, b, c] -> […, a·b·c]     Unflatten: […, a·b·c] -> […, a, b, c]
#pragma once

#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// All axes of a sample into one. The sample's sizes are said, so that the batch is never guessed.
class Flatten : public SameUnitLayer {
 public:
  explicit Flatten(const Shape& in_size) : in_size(in_size) {}
  Array update(const Array& x) override;
  std::int64_t out_size() const { return in_size.size(); }
  const Shape in_size;
};

// The last axis into several.
class Unflatten : public SameUnitLayer {
 public:
  explicit Unflatten(const Shape& out_size) : out_size(out_size) {}
  Array update(const Array& x) override;
  const Shape out_size;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
