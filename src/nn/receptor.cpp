#include "etrace/nn/receptor.h"

#include "etrace/nn/integrate.h"
#include "etrace/ops/numpy.h"

namespace etrace::nn {

namespace {

// Where transmitter is there during this step: for so many steps from a spike on.
Array transmitter(ShortTermState& left, const Array& spikes, const Array& duration, Dtype dtype) {
  const Array fading = maximum(left.value() - 1, 0);
  left.set(where(greater(spikes, 0.0), broadcast_to(duration, fading.shape()), fading));
  return convert(greater(left.value(), 0), dtype);
}

// One step of dx/dt = open·(1 − x) − close·x.
Array relaxed(const Array& x, const Array& open, const Quantity& close, double dt) {
  return exp_euler([&](const Array& v) { return open * (1.0 - v) - close.decimal() * v; }, x, dt);
}

}  // namespace

AMPA::AMPA(const char* name, const Size& n, const ReceptorOptions& o)
    : Dynamics(name, n, o.dt, o.dtype),
      g(hidden("g", size(), o.dtype)),
      left(short_term("left", full(size(), std::int64_t{0}, Dtype::I32))),
      alpha_(constant("alpha", o.alpha)),
      beta_(positive("beta", o.beta)),
      T_(constant("T", o.T)),
      T_dur_(steps_of("T_dur", o.T_dur, StepCount::Nearest)) {}

Array AMPA::update(const Array& spikes) {
  require_input(spikes);
  const Array on = transmitter(left, spikes, T_dur_, dtype());
  g.set(relaxed(g.value(), (alpha_() * T_()).decimal() * on, beta_(), dt()));
  return g.value();
}

NMDA::NMDA(const Size& n, const NMDAOptions& o)
    : Dynamics("NMDA", n, o.dt, o.dtype),
      g(hidden("g", size(), o.dtype)),
      x(hidden("x", size(), o.dtype)),
      left(short_term("left", full(size(), std::int64_t{0}, Dtype::I32))),
      alpha1_(constant("alpha1", o.alpha1)),
      beta1_(positive("beta1", o.beta1)),
      alpha2_(constant("alpha2", o.alpha2)),
      beta2_(positive("beta2", o.beta2)),
      T_(constant("T", o.T)),
      T_dur_(steps_of("T_dur", o.T_dur, StepCount::Nearest)) {}

Array NMDA::update(const Array& spikes) {
  require_input(spikes);
  const Array on = transmitter(left, spikes, T_dur_, dtype());
  x.set(relaxed(x.value(), (alpha2_() * T_()).decimal() * on, beta2_(), dt()));
  g.set(relaxed(g.value(), alpha1_().decimal() * x.value(), beta1_(), dt()));
  return g.value();
}

}  // namespace etrace::nn
