// y = x ⊙ w + b
#pragma once

#include "etrace/nn/init.h"
#include "etrace/nn/weight_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct OneToOneOptions {
  Initializer weight_init = init::normal();
  Initializer bias_init = {};  // empty: no bias
  Unit unit = {};              // of w
  Dtype dtype = Dtype::F32;
  std::uint64_t seed = 0;
};

// Every input to the output of its number. One parameter `weight` with the leaves bias and weight of the size
// of one sample, which may have several axes.
class OneToOne : public WeightLayer {
 public:
  using Options = OneToOneOptions;
  explicit OneToOne(const Shape& size, const OneToOneOptions& = {});
  explicit OneToOne(std::int64_t size, const OneToOneOptions& options = {})
      : OneToOne(Shape{size}, options) {}
  Array update(const Array& x) override;

  ParamState& weight;
  const Shape size;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
