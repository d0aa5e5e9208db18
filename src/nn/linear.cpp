#include "etrace/nn/linear.h"

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"

namespace etrace::nn {

namespace {
NamedArrays leaves(std::int64_t in, std::int64_t out, const LinearOptions& o) {
  if (in < 0 || out < 0)
    throw ValueError("nn", "a Linear from " + std::to_string(in) + " to " + std::to_string(out) + " features",
                     OriginScope::current());
  const Array key = layer_key(o.seed), weight_key = random::fold_in(key, 0),
              bias_key = random::fold_in(key, 1);
  NamedArrays result{{"weight", o.weight_init(weight_key, {in, out}, o.dtype)}};
  if (o.bias_init) result.emplace_back("bias", o.bias_init(bias_key, {out}, o.dtype));
  return result;
}
}  // namespace

Linear::Linear(std::int64_t in, std::int64_t out, const LinearOptions& options)
    : weight(param("weight", leaves(in, out, options))), in_size(in), out_size(out) {
  if (options.mask.defined()) mask_ = broadcast_to(convert(options.mask, options.dtype), {in, out});
}

Array Linear::update(const Array& x) {
  if (x.rank() == 0 || x.shape().back() != in_size)
    throw ValueError("nn",
                     "a Linear from " + std::to_string(in_size) + " to " + std::to_string(out_size) +
                         " features was given " + to_string(x.aval()),
                     OriginScope::current());
  MatmulOptions options;
  if (mask_.defined()) options.weight_fn = [this](const Array& w) { return w * mask_; };
  const Array bias = weight.has_leaf("bias") ? weight.value("bias") : Array();
  const Array folded = x.rank() <= 2 ? x : reshape(x, {-1, in_size});
  const Array y = matmul(folded, weight.value("weight"), bias, options);
  if (x.rank() <= 2) return y;
  Dims sizes = x.shape().to_dims();
  sizes.back() = out_size;
  return reshape(y, sizes);
}

}  // namespace etrace::nn
