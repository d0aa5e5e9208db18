#include "etrace/nn/dual_expon.h"

#include "etrace/ops/numpy.h"
#include "nn/check.h"

namespace etrace::nn {

DualExpon::DualExpon(const Size& n, const DualExponOptions& o)
    : LinearDynamics("DualExpon", n, o.dt, o.unit, o.dtype),
      g_rise(hidden("g_rise", size(), o.dtype)),
      g_decay(hidden("g_decay", size(), o.dtype)),
      A_(o.A),
      tau_decay_(positive("tau_decay", o.tau_decay)),
      tau_rise_(positive("tau_rise", o.tau_rise)) {
  if (any(less_equal(filled(o.tau_decay), filled(o.tau_rise))).item<bool>())
    wrong_option(who(), "tau_decay must be longer than tau_rise");
}

// A·(τ_d − τ_r)/(τ_r·τ_d), or what makes the peak 1: e^(−t/τ_d) − e^(−t/τ_r) is largest where its slope is 0,
// and is (1 − τ_r/τ_d)·(τ_r/τ_d)^(τ_r/(τ_d − τ_r)) there. The power by exp and log, which bare numbers have.
Quantity DualExpon::gain(const Quantity& quick, const Quantity& slow) const {
  const Quantity distance = slow - quick;
  if (A_) return Quantity(Array(*A_)) * distance / (quick * slow);
  return slow / distance * exp(quick / (quick - slow) * log(quick / slow));
}

Array DualExpon::update(const Array& x) {
  require_input(x);
  const Quantity slow = tau_decay_(), quick = tau_rise_();
  const auto move = [&](HiddenState& g, const Quantity& tau) {
    const Array kept = exp(-dt() / tau).decimal() * g.value();
    g.set(kept + x);
    return g.value();
  };
  const Array rising = move(g_rise, quick);
  const Array decaying = move(g_decay, slow);
  return gain(quick, slow).decimal() * (decaying - rising);
}

}  // namespace etrace::nn
