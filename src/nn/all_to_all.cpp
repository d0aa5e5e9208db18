#include "etrace/nn/all_to_all.h"

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "nn/check.h"
#include "nn/fold.h"

namespace etrace::nn {

namespace {
NamedArrays connection_leaves(std::int64_t in, std::int64_t out, const AllToAllOptions& o) {
  const Array key = layer_key(o.seed);
  const Shape shape = o.one_weight ? Shape{1} : Shape{in, out};
  NamedArrays result{{"weight", o.weight_init(random::fold_in(key, 0), shape, o.dtype)}};
  if (o.bias_init) result.emplace_back("bias", o.bias_init(random::fold_in(key, 1), {out}, o.dtype));
  return result;
}

Array without_diagonal(const Array& w) {
  const Array row = iota(Dtype::I32, w.shape(), 0), column = iota(Dtype::I32, w.shape(), 1);
  return where(equal_to(row, column), full_like(w, 0.0), w);
}
}  // namespace

AllToAll::AllToAll(std::int64_t in, std::int64_t out, const AllToAllOptions& o)
    : WeightLayer(o.unit),
      weight(param("weight", [=] { return connection_leaves(in, out, o); })),
      in_size(in),
      out_size(out),
      include_self_(o.include_self),
      one_weight_(o.one_weight) {
  if (one_weight_ && !include_self_ && in != out)
    wrong_option("AllToAll", "one weight without self-connections needs as many outputs as inputs, not " +
                                 std::to_string(in) + " and " + std::to_string(out));
}

Array AllToAll::of_one_weight(const Array& x) const {
  const Array total = sum(x, {-1}, true);
  const Array seen = include_self_ ? total : total - x;
  Shape shape = x.shape();
  shape = shape.with(shape.rank() - 1, out_size);
  // Spread before element_wise, so that every output has a trace of its own.
  return broadcast_to(seen, shape) * element_wise(broadcast_to(weight.value("weight"), {out_size}));
}

Array AllToAll::update(const Array& x) {
  require_tail(
      "an AllToAll from " + std::to_string(in_size) + " to " + std::to_string(out_size) + " features", x,
      {in_size});
  const Array bias = weight.has_leaf("bias") ? weight.value("bias") : Array();
  if (one_weight_) {
    const Array y = of_one_weight(x);
    return bias.defined() ? y + element_wise(bias) : y;
  }
  MatmulOptions options;
  if (!include_self_) options.weight_fn = without_diagonal;
  return with_folded_axes(
      x, 1, [&](const Array& rows) { return matmul(rows, weight.value("weight"), bias, options); });
}

}  // namespace etrace::nn
