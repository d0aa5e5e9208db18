#include "etrace/nn/scaled_ws_linear.h"

#include "etrace/etp.h"
#include "etrace/nn/weight_standardization.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "nn/check.h"
#include "nn/fold.h"

namespace etrace::nn {

namespace {
NamedArrays standardized_leaves(std::int64_t in, std::int64_t out, const ScaledWSLinearOptions& o) {
  const Array key = layer_key(o.seed);
  NamedArrays result{{"weight", o.weight_init(random::fold_in(key, 0), {in, out}, o.dtype)}};
  if (o.bias_init) result.emplace_back("bias", o.bias_init(random::fold_in(key, 1), {out}, o.dtype));
  if (o.gain) result.emplace_back("gain", full({1, out}, 1.0, o.dtype));
  return result;
}
}  // namespace

ScaledWSLinear::ScaledWSLinear(std::int64_t in, std::int64_t out, const ScaledWSLinearOptions& o)
    : weight(param("weight", [=] { return standardized_leaves(in, out, o); })),
      in_size(in),
      out_size(out),
      epsilon_(o.epsilon) {
  if (o.mask.defined()) mask_ = broadcast_to(convert(o.mask, o.dtype), {in, out});
}

Array ScaledWSLinear::update(const Array& x) {
  require_tail(
      "a ScaledWSLinear from " + std::to_string(in_size) + " to " + std::to_string(out_size) + " features", x,
      {in_size});
  MatmulOptions options;
  options.weight_fn = [this](const Array& w) {
    const Array standard = weight_standardization(w, epsilon_);
    return mask_.defined() ? standard * mask_ : standard;
  };
  Array y = with_folded_axes(
      x, 1, [&](const Array& rows) { return matmul(rows, weight.value("weight"), {}, options); });
  if (weight.has_leaf("gain")) y = y * element_wise(squeeze(weight.value("gain"), {0}));
  return weight.has_leaf("bias") ? y + element_wise(weight.value("bias")) : y;
}

}  // namespace etrace::nn
