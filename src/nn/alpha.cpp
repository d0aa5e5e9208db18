#include "etrace/nn/alpha.h"

#include "etrace/ops/elementwise.h"

namespace etrace::nn {

Alpha::Alpha(const Size& n, const AlphaOptions& o)
    : LinearDynamics("Alpha", n, o.dt, o.unit, o.dtype),
      g(hidden("g", size(), o.dtype)),
      h(hidden("h", size(), o.dtype)),
      tau_(positive("tau", o.tau)) {}

Array Alpha::update(const Array& x) {
  require_input(x);
  const Quantity kept = decay(tau_), gain = 1.0 - kept;
  const Array before = h.value();
  const Array own = kept.decimal() * g.value();
  g.set(own + gain.decimal() * before);
  h.set(kept.decimal() * before + x);
  return g.value();
}

}  // namespace etrace::nn
