#include "etrace/nn/izhikevich.h"

#include "etrace/ops/numpy.h"
#include "nn/leak.h"
#include "nn/threshold.h"

namespace etrace::nn {

Izhikevich::Izhikevich(const Size& n, const IzhikevichOptions& o)
    : Neuron("Izhikevich", n, o.dt, o.dtype),
      options_(o),
      a_(constant("a", o.a)),
      b_(constant("b", o.b)),
      c_(constant("c", o.c)),
      V_th_(constant("V_th", o.V_th)),
      d_(constant("d", o.d)),
      V(hidden("V", filled(o.c))),
      u(hidden("u", filled(o.b) * filled(o.c))) {
  require_threshold(who(), filled(o.V_th), filled(o.c), o.surrogate);
}

Array Izhikevich::spikes() const {
  const Quantity threshold = V_th_();
  const Array above = V.value() - threshold.decimal();
  return spike(scaled(1.0 / (threshold - c_()), above), options_.surrogate);
}

Array Izhikevich::step(const Array& fired, const NeuronInput& in) {
  require_input(in);
  const Array s = options_.detached ? stop_gradient(fired) : fired;
  const Quantity a = a_(), b = b_(), threshold = V_th_();
  const Array start = reset_potential(options_.reset, V.value(), threshold, c_(), s);
  const Array jumped_u = u.value() + d_().decimal() * s;
  const System system = [&](ArraySpan x) {
    const Array v = minimum(x[0], threshold.decimal());  // also between the stages of a step
    const Array own = 0.04 * square(v) + 5.0 * v + 140.0;
    return Arrays{own + current_at(in, v, -x[1]), scaled(a, scaled(b, v) - x[1])};
  };
  const Arrays next = integrate(options_.method, system, {start, jumped_u}, dt());
  const Array jumped = in.delta.defined() ? next[0] + in.delta : next[0];
  V.set(minimum(jumped, threshold.decimal()));
  u.set(next[1]);
  return spikes();
}

}  // namespace etrace::nn
