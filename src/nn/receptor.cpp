#include "etrace/nn/receptor.h"

#include "etrace/nn/integrate.h"
#include "etrace/ops/numpy.h"

namespace etrace::nn {

namespace {

// Where transmitter is there during this step: for T_dur from a spike on.
Array transmitter(ShortTermState& left, const Array& spikes, const Quantity& duration, double dt) {
  const Array fading = maximum(left.value() - dt, 0.0);
  const Array now = where(greater(spikes, 0.0), full_like(fading, 1.0) * duration.decimal(), fading);
  left.set(now);
  // Half a step below the bound: a duration of whole steps does not depend on how the subtraction rounds.
  return convert(greater(now, dt * 1e-3), fading.dtype());
}

// One step of dx/dt = open·(1 − x) − close·x.
Array relaxed(const Array& x, const Array& open, const Quantity& close, double dt) {
  return exp_euler([&](const Array& v) { return open * (1.0 - v) - close.decimal() * v; }, x, dt);
}

}  // namespace

AMPA::AMPA(const char* name, const Size& n, const ReceptorOptions& o)
    : Dynamics(name, n, o.dt, o.dtype),
      g(hidden("g", size(), o.dtype)),
      left(short_term("left", full(size(), 0.0, o.dtype))),
      alpha_(constant("alpha", o.alpha)),
      beta_(positive("beta", o.beta)),
      T_(constant("T", o.T)),
      T_dur_(positive("T_dur", o.T_dur)) {}

Array AMPA::update(const Array& spikes) {
  require_input(spikes);
  const Array on = transmitter(left, spikes, T_dur_(), dt());
  g.set(relaxed(g.value(), (alpha_() * T_()).decimal() * on, beta_(), dt()));
  return g.value();
}

NMDA::NMDA(const Size& n, const NMDAOptions& o)
    : Dynamics("NMDA", n, o.dt, o.dtype),
      g(hidden("g", size(), o.dtype)),
      x(hidden("x", size(), o.dtype)),
      left(short_term("left", full(size(), 0.0, o.dtype))),
      alpha1_(constant("alpha1", o.alpha1)),
      beta1_(positive("beta1", o.beta1)),
      alpha2_(constant("alpha2", o.alpha2)),
      beta2_(positive("beta2", o.beta2)),
      T_(constant("T", o.T)),
      T_dur_(positive("T_dur", o.T_dur)) {}

Array NMDA::update(const Array& spikes) {
  require_input(spikes);
  const Array on = transmitter(left, spikes, T_dur_(), dt());
  x.set(relaxed(x.value(), (alpha2_() * T_()).decimal() * on, beta2_(), dt()));
  g.set(relaxed(g.value(), alpha1_().decimal() * x.value(), beta1_(), dt()));
  return g.value();
}

}  // namespace etrace::nn
