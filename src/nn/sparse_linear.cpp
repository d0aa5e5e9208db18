#include "etrace/nn/sparse_linear.h"

#include <algorithm>
#include <cmath>

#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "nn/check.h"
#include "nn/fold.h"

namespace etrace::nn {

namespace {
NamedArrays sparse_leaves(const SparsePattern& pattern, const SparseLinearOptions& o) {
  const Array key = layer_key(o.seed);
  const double fan =
      static_cast<double>(pattern.nnz()) / static_cast<double>(std::max<std::int64_t>(1, pattern.cols()));
  const Initializer weights =
      o.weight_init ? o.weight_init : init::normal(std::sqrt(2.0 / std::max(1.0, fan)));
  NamedArrays result{{"weight", weights(random::fold_in(key, 0), {pattern.nnz()}, o.dtype)}};
  if (o.bias_init)
    result.emplace_back("bias", o.bias_init(random::fold_in(key, 1), {pattern.cols()}, o.dtype));
  return result;
}
}  // namespace

SparseLinear::SparseLinear(SparsePattern pattern, const SparseLinearOptions& o)
    : WeightLayer(o.unit),
      weight(param("weight", [=] { return sparse_leaves(pattern, o); })),
      pattern_(std::move(pattern)) {
  if (o.sign.defined()) sign_ = broadcast_to(convert(o.sign, o.dtype), {pattern_.nnz()});
}

Array SparseLinear::update(const Array& x) {
  require_tail("a SparseLinear from " + std::to_string(pattern_.rows()) + " to " +
                   std::to_string(pattern_.cols()) + " features",
               x, {pattern_.rows()});
  const Array bias = weight.has_leaf("bias") ? weight.value("bias") : Array();
  MatmulOptions options;
  if (sign_.defined()) options.weight_fn = [this](const Array& w) { return abs(w) * sign_; };
  return with_folded_axes(x, 1, [&](const Array& rows) {
    return sparse_matmul(rows, weight.value("weight"), pattern_, bias, options);
  });
}

}  // namespace etrace::nn
