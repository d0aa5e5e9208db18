#include "etrace/nn/grouped_linear.h"

#include "etrace/etp.h"
#include "etrace/ops/shape.h"
#include "etrace/random.h"
#include "nn/check.h"
#include "nn/fold.h"

namespace etrace::nn {

namespace {
std::string grouped_text(std::int64_t groups, std::int64_t in, std::int64_t out) {
  return "a GroupedLinear of " + std::to_string(groups) + " groups from " + std::to_string(in) + " to " +
         std::to_string(out) + " features";
}
NamedArrays grouped_leaves(std::int64_t groups, std::int64_t in, std::int64_t out,
                           const GroupedLinearOptions& o) {
  if (groups < 1) wrong_option(grouped_text(groups, in, out), "there must be at least one group");
  const Array key = layer_key(o.seed), weight_key = random::fold_in(key, 0);
  Arrays matrices;
  for (std::int64_t g = 0; g < groups; ++g)
    matrices.push_back(o.weight_init(random::fold_in(weight_key, g), {in, out}, o.dtype));
  NamedArrays result{{"weight", stack(matrices, 0)}};
  if (o.bias_init) result.emplace_back("bias", o.bias_init(random::fold_in(key, 1), {groups, out}, o.dtype));
  return result;
}
}  // namespace

GroupedLinear::GroupedLinear(std::int64_t g, std::int64_t in, std::int64_t out, const GroupedLinearOptions& o)
    : WeightLayer(o.unit),
      weight(param("weight", [=] { return grouped_leaves(g, in, out, o); })),
      groups(g),
      in_size(in),
      out_size(out) {}

Array GroupedLinear::update(const Array& x) {
  require_tail(grouped_text(groups, in_size, out_size), x, {groups, in_size});
  const Array bias = weight.has_leaf("bias") ? weight.value("bias") : Array();
  return with_folded_axes(
      x, 2, [&](const Array& rows) { return grouped_matmul(rows, weight.value("weight"), bias); });
}

}  // namespace etrace::nn
