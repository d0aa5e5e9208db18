#include "etrace/nn/signed_w_linear.h"

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "nn/check.h"
#include "nn/fold.h"

namespace etrace::nn {

SignedWLinear::SignedWLinear(std::int64_t in, std::int64_t out, const SignedWLinearOptions& o)
    : WeightLayer(o.unit),
      weight(param("weight",
                   [=] {
                     return o.weight_init(layer_key(o.seed), {in, out}, o.dtype);
                   })),
      in_size(in),
      out_size(out) {
  if (o.sign.defined()) sign_ = broadcast_to(convert(o.sign, o.dtype), {in, out});
}

Array SignedWLinear::update(const Array& x) {
  require_tail(
      "a SignedWLinear from " + std::to_string(in_size) + " to " + std::to_string(out_size) + " features", x,
      {in_size});
  MatmulOptions options;
  options.weight_fn = [this](const Array& w) { return sign_.defined() ? abs(w) * sign_ : abs(w); };
  return with_folded_axes(x, 1, [&](const Array& rows) { return matmul(rows, weight.value(), {}, options); });
}

}  // namespace etrace::nn
