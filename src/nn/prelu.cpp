#include "etrace/nn/prelu.h"

#include "etrace/etp.h"
#include "etrace/nn/activation.h"
#include "etrace/ops/shape.h"
#include "nn/check.h"

namespace etrace::nn {

PReLU::PReLU(const Shape& in, const PReLUOptions& o)
    : in_size(in),
      slope(param("slope", full({o.per_feature && in.rank() > 0 ? in.back() : 1}, o.slope, o.dtype))) {}

Array PReLU::update(const Array& x) {
  require_tail("a PReLU of samples " + to_string(in_size), x, in_size);
  // Spread before element_wise, so that every position has a trace of its own.
  return prelu(x, element_wise(broadcast_to(slope.value(), in_size)));
}

}  // namespace etrace::nn
