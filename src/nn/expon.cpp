#include "etrace/nn/expon.h"

#include "etrace/ops/elementwise.h"
#include "nn/decay.h"

namespace etrace::nn {

Expon::Expon(std::int64_t size, const ExponOptions& o)
    : g(hidden("g", {size}, o.dtype)), decay_(decay("Expon", o.dt, o.tau)) {}

Array Expon::update(const Array& x) {
  g.set(decay_ * g.value() + x);
  return g.value();
}

}  // namespace etrace::nn
