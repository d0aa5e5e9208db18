#include "etrace/nn/adex.h"

#include "etrace/ops/numpy.h"
#include "nn/leak.h"
#include "nn/threshold.h"

namespace etrace::nn {

AdEx::AdEx(const Size& n, const AdExOptions& o)
    : Neuron("AdEx", n, o.dt, o.dtype),
      options_(o),
      tau_(positive("tau", o.tau)),
      tau_w_(positive("tau_w", o.tau_w)),
      R_(constant("R", o.R)),
      V_rest_(constant("V_rest", o.V_rest)),
      V_reset_(constant("V_reset", o.V_reset)),
      V_th_(constant("V_th", o.V_th)),
      V_T_(constant("V_T", o.V_T)),
      delta_T_(positive("delta_T", o.delta_T)),
      a_(constant("a", o.a)),
      b_(constant("b", o.b)),
      V(hidden("V", filled(o.V_rest))),
      w(hidden("w", size(), o.dtype)) {
  require_threshold(who(), filled(o.V_th), filled(o.V_reset), o.surrogate);
}

Array AdEx::spikes() const {
  const Quantity threshold = V_th_();
  const Array above = V.value() - threshold.decimal();
  return spike(scaled(1.0 / (threshold - V_reset_()), above), options_.surrogate);
}

Array AdEx::step(const Array& fired, const NeuronInput& in) {
  require_input(in);
  const Array s = options_.detached ? stop_gradient(fired) : fired;
  const Quantity rest = V_rest_(), width = delta_T_(), tip = V_T_(), tau = tau_(), tau_w = tau_w_(), R = R_(),
                 a = a_(), threshold = V_th_();
  const Array start = reset_potential(options_.reset, V.value(), threshold, V_reset_(), s);
  const Array adapted = w.value() + b_().decimal() * s;
  const System system = [&](ArraySpan x) {
    const Array v = minimum(x[0], threshold.decimal());  // also between the stages of a step
    const Array above_rest = v - rest.decimal();
    // Whoever reaches e^30 is beyond the threshold at the end of the step, and sharp neurons (a small
    // delta_T) would overflow.
    const Array upswing = width.decimal() * exp(minimum((v - tip.decimal()) / width.decimal(), 30.0));
    const Array drive = current_at(in, v, -x[1]);
    return Arrays{(upswing - above_rest + scaled(R, drive)) / tau.decimal(),
                  (scaled(a, above_rest) - x[1]) / tau_w.decimal()};
  };
  const Arrays next = integrate(options_.method, system, {start, adapted}, dt());
  const Array jumped = in.delta.defined() ? next[0] + in.delta : next[0];
  V.set(minimum(jumped, threshold.decimal()));
  w.set(next[1]);
  return spikes();
}

}  // namespace etrace::nn
