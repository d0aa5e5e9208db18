#include "etrace/nn/short_term.h"

#include "etrace/ops/numpy.h"

namespace etrace::nn {

namespace {
// Towards 1.
Array recovered(const Array& x, const Quantity& kept) { return 1.0 + (x - 1.0) * kept.decimal(); }
}  // namespace

STD::STD(const Size& n, const STDOptions& o)
    : Dynamics("STD", n, o.dt, o.dtype),
      x(hidden("x", full(size(), 1.0, o.dtype))),
      tau_(positive("tau", o.tau)),
      U_(constant("U", o.U)) {}

Array STD::update(const Array& spikes) {
  require_input(spikes);
  const Array before = x.value();
  const Array used = U_().decimal() * before * spikes;
  x.set(recovered(before, decay(tau_)) - used);
  return x.value() * spikes;
}

STP::STP(const Size& n, const STPOptions& o)
    : Dynamics("STP", n, o.dt, o.dtype),
      u(hidden("u", filled(o.U))),
      x(hidden("x", full(size(), 1.0, o.dtype))),
      tau_f_(positive("tau_f", o.tau_f)),
      tau_d_(positive("tau_d", o.tau_d)),
      U_(constant("U", o.U)) {}

Array STP::update(const Array& spikes) {
  require_input(spikes);
  const Array u_before = u.value();
  const Array x_before = x.value();
  const Array rise = U_().decimal() * (1.0 - u_before) * spikes;
  u.set(decay(tau_f_).decimal() * u_before + rise);
  const Array used = u.value() * x_before * spikes;
  x.set(recovered(x_before, decay(tau_d_)) - used);
  return u.value() * x.value() * spikes;
}

}  // namespace etrace::nn
