#include "etrace/nn/one_to_one.h"

#include "etrace/etp.h"
#include "etrace/ops/elementwise.h"
#include "etrace/random.h"
#include "nn/check.h"

namespace etrace::nn {

namespace {
NamedArrays own_leaves(const Shape& size, const OneToOneOptions& o) {
  const Array key = layer_key(o.seed);
  NamedArrays result{{"weight", o.weight_init(random::fold_in(key, 0), size, o.dtype)}};
  if (o.bias_init) result.emplace_back("bias", o.bias_init(random::fold_in(key, 1), size, o.dtype));
  return result;
}
}  // namespace

OneToOne::OneToOne(const Shape& s, const OneToOneOptions& o)
    : WeightLayer(o.unit), weight(param("weight", [=] { return own_leaves(s, o); })), size(s) {}

Array OneToOne::update(const Array& x) {
  require_tail("a OneToOne of size " + to_string(size), x, size);
  const Array y = x * element_wise(weight.value("weight"));
  return weight.has_leaf("bias") ? y + element_wise(weight.value("bias")) : y;
}

}  // namespace etrace::nn
