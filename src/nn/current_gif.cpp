#include "etrace/nn/current_gif.h"

#include "etrace/ops/numpy.h"
#include "nn/leak.h"
#include "nn/threshold.h"

namespace etrace::nn {

CurrentGif::CurrentGif(const Size& n, const CurrentGifOptions& o)
    : Neuron("CurrentGif", n, o.dt, o.dtype),
      options_(o),
      tau_(positive("tau", o.tau)),
      tau_I2_(positive("tau_I2", o.tau_I2)),
      A2_(constant("A2", o.A2)),
      R_(constant("R", o.R)),
      V_th_(constant("V_th", o.V_th)),
      V_reset_(constant("V_reset", o.V_reset)),
      V_rest_(constant("V_rest", o.V_rest)),
      V(hidden("V", filled(o.V_rest))),
      I2(hidden("I2", size(), o.dtype)) {
  require_threshold(who(), filled(o.V_th), filled(o.V_reset), o.surrogate);
}

Array CurrentGif::spikes() const {
  const Quantity threshold = V_th_();
  const Array above = V.value() - threshold.decimal();
  return spike(scaled(1.0 / (threshold - V_reset_()), above), options_.surrogate);
}

Array CurrentGif::step(const Array& fired, const NeuronInput& in) {
  require_input(in);
  const Array s = options_.detached ? stop_gradient(fired) : fired;
  const Array start = reset_potential(options_.reset, V.value(), V_th_(), V_reset_(), s);
  const Array jumped = I2.value() + A2_().decimal() * s;
  I2.set(decay(tau_I2_).decimal() * jumped);
  NeuronInput total = in;
  total.current = in.current.defined() ? in.current + I2.value() : I2.value();
  V.set(leaky_step(start, total, {tau_(), R_(), V_rest_()}, dt()));
  return spikes();
}

}  // namespace etrace::nn
