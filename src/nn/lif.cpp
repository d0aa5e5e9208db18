#include "etrace/nn/lif.h"

#include "etrace/ops/numpy.h"
#include "nn/leak.h"
#include "nn/threshold.h"

namespace etrace::nn {

LIF::LIF(const Size& size, const LIFOptions& o) : LIF("LIF", size, o) {}

LIF::LIF(const char* name, const Size& n, const LIFOptions& o)
    : Neuron(name, n, o.dt, o.dtype),
      reset_(o.reset),
      detached_(o.detached),
      surrogate_(o.surrogate),
      tau_(positive("tau", o.tau)),
      R_(constant("R", o.R)),
      V_th_(constant("V_th", o.V_th)),
      V_reset_(constant("V_reset", o.V_reset)),
      V_rest_(constant("V_rest", o.V_rest)),
      refractory_(steps_of("tau_ref", o.tau_ref, StepCount::AtLeast)),
      V(hidden("V", filled(o.V_rest))),
      since(o.tau_ref.number() == 0.0 ? nullptr : &short_term("since", broadcast_to(refractory_, size()))) {
  require_threshold(who(), filled(o.V_th), filled(o.V_reset), o.surrogate);
}

Array LIF::spikes() const {
  const Quantity threshold = V_th_();
  const Array above = V.value() - threshold.decimal();
  return spike(scaled(1.0 / (threshold - V_reset_()), above), surrogate_);
}

Array LIF::after_reset(const Array& fired) const {
  const Array s = detached_ ? stop_gradient(fired) : fired;
  return reset_potential(reset_, V.value(), V_th_(), V_reset_(), s);
}

Array LIF::step(const Array& fired, const NeuronInput& in) {
  require_input(in);
  const Array start = after_reset(fired);
  Array next = leaky_step(start, in, {tau_(), R_(), V_rest_()}, dt());
  if (since != nullptr) {
    const Array elapsed = since->value() + 1;
    next = where(less(elapsed, refractory_), start, next);
    since->set(
        where(greater_equal(next, V_th_().decimal()), full_like(elapsed, 0), minimum(elapsed, refractory_)));
  }
  V.set(next);
  return spikes();
}

namespace {
LIFOptions at_zero(LIFOptions o) {
  o.V_rest = 0.0;
  o.V_reset = 0.0;
  return o;
}
LIFOptions with_period(LIFOptions o) {
  if (o.tau_ref.number() == 0.0) o.tau_ref = 5.0;
  return o;
}
}  // namespace

IF::IF(const Size& n, const LIFOptions& o) : LIF("IF", n, at_zero(o)) {}
LIFRef::LIFRef(const Size& n, const LIFOptions& o) : LIF("LIFRef", n, with_period(o)) {}

}  // namespace etrace::nn
