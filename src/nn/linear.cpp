#include "etrace/nn/linear.h"

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "nn/check.h"
#include "nn/fold.h"

namespace etrace::nn {

namespace {
std::string linear_text(std::int64_t in, std::int64_t out) {
  return "a Linear from " + std::to_string(in) + " to " + std::to_string(out) + " features";
}

NamedArrays linear_leaves(std::int64_t in, std::int64_t out, const LinearOptions& o) {
  if (in < 0 || out < 0) wrong_option(linear_text(in, out), "sizes must not be negative");
  const Array key = layer_key(o.seed), weight_key = random::fold_in(key, 0),
              bias_key = random::fold_in(key, 1);
  NamedArrays result{{"weight", o.weight_init(weight_key, {in, out}, o.dtype)}};
  if (o.bias_init) result.emplace_back("bias", o.bias_init(bias_key, {out}, o.dtype));
  return result;
}
}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& options)
    : WeightLayer(options.unit),
      weight(param("weight", [=] { return linear_leaves(in, out, options); })),
      in_size(in),
      out_size(out) {
  if (options.mask.defined()) mask_ = broadcast_to(convert(options.mask, options.dtype), {in, out});
}

Array Linear::update(const Array& x) {
  require_tail(linear_text(in_size, out_size), x, {in_size});
  MatmulOptions options;
  if (mask_.defined()) options.weight_fn = [this](const Array& w) { return w * mask_; };
  const Array bias = weight.has_leaf("bias") ? weight.value("bias") : Array();
  return with_folded_axes(
      x, 1, [&](const Array& rows) { return matmul(rows, weight.value("weight"), bias, options); });
}

}  // namespace etrace::nn
