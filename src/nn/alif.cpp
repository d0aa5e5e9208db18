#include "etrace/nn/alif.h"

#include "etrace/ops/numpy.h"
#include "nn/leak.h"
#include "nn/threshold.h"

namespace etrace::nn {

ALIF::ALIF(const Size& n, const ALIFOptions& o)
    : Neuron("ALIF", n, o.dt, o.dtype),
      options_(o),
      tau_(positive("tau", o.tau)),
      tau_a_(positive("tau_a", o.tau_a)),
      beta_(constant("beta", o.beta)),
      R_(constant("R", o.R)),
      V_th_(constant("V_th", o.V_th)),
      V_reset_(constant("V_reset", o.V_reset)),
      V_rest_(constant("V_rest", o.V_rest)),
      V(hidden("V", filled(o.V_rest))),
      a(hidden("a", size(), o.dtype)) {
  require_threshold(who(), filled(o.V_th), filled(o.V_reset), o.surrogate);
}

Array ALIF::spikes() const {
  const Quantity threshold = V_th_();
  const Array above = V.value() - threshold.decimal();
  const Array raised = above - scaled(beta_(), a.value());
  return spike(scaled(1.0 / (threshold - V_reset_()), raised), options_.surrogate);
}

Array ALIF::step(const Array& fired, const NeuronInput& in) {
  require_input(in);
  const Array s = options_.detached ? stop_gradient(fired) : fired;
  const Array start = reset_potential(options_.reset, V.value(), V_th_(), V_reset_(), s);
  const Array adapted = a.value() + s;
  V.set(leaky_step(start, in, {tau_(), R_(), V_rest_()}, dt()));
  a.set(decay(tau_a_).decimal() * adapted);
  return spikes();
}

}  // namespace etrace::nn
