#include "etrace/nn/expon.h"

#include "etrace/ops/elementwise.h"

namespace etrace::nn {

Expon::Expon(const Size& n, const ExponOptions& o)
    : LinearDynamics("Expon", n, o.dt, o.unit, o.dtype),
      g(hidden("g", size(), o.dtype)),
      tau_(positive("tau", o.tau)) {}

Array Expon::update(const Array& x) {
  require_input(x);
  const Array kept = decay(tau_).decimal() * g.value();
  g.set(kept + x);
  return g.value();
}

}  // namespace etrace::nn
