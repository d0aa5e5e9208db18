#include "etrace/nn/gif.h"

#include "etrace/nn/integrate.h"
#include "etrace/ops/numpy.h"
#include "nn/leak.h"
#include "nn/threshold.h"

namespace etrace::nn {

Gif::Gif(const Size& n, const GifOptions& o)
    : Neuron("Gif", n, o.dt, o.dtype),
      options_(o),
      tau_(positive("tau", o.tau)),
      R_(constant("R", o.R)),
      V_rest_(constant("V_rest", o.V_rest)),
      V_reset_(constant("V_reset", o.V_reset)),
      V_th_inf_(constant("V_th_inf", o.V_th_inf)),
      V_th_reset_(constant("V_th_reset", o.V_th_reset)),
      a_(constant("a", o.a)),
      b_(constant("b", o.b)),
      k1_(constant("k1", o.k1)),
      k2_(constant("k2", o.k2)),
      R1_(constant("R1", o.R1)),
      R2_(constant("R2", o.R2)),
      A1_(constant("A1", o.A1)),
      A2_(constant("A2", o.A2)),
      V(hidden("V", filled(o.V_rest))),
      I1(hidden("I1", size(), o.dtype)),
      I2(hidden("I2", size(), o.dtype)),
      V_th(hidden("V_th", filled(o.V_th_inf))) {
  require_threshold(who(), filled(o.V_th_inf), filled(o.V_reset), o.surrogate);
}

Array Gif::spikes() const {
  const Array threshold = V_th.value();
  const Array above = V.value() - threshold;
  return spike(above / (threshold - V_reset_().decimal()), options_.surrogate);
}

Array Gif::step(const Array& fired, const NeuronInput& in) {
  require_input(in);
  const Array s = options_.detached ? stop_gradient(fired) : fired;
  const Array threshold = V_th.value();
  const Array start = reset_potential(options_.reset, V.value(), threshold, V_reset_(), s);
  // f where there is a spike, x elsewhere, with the spike's derivative.
  const auto on_spike = [&](const Array& x, const Array& f) { return x + s * (f - x); };
  const auto after_current = [&](HiddenState& I, const Quantity& R, const Quantity& A, const Quantity& k) {
    const Array before = I.value();
    const Array jumped = on_spike(before, R.decimal() * before + A.decimal());
    I.set(exp(-dt() * k).decimal() * jumped);
    return I.value();
  };
  const Array first = after_current(I1, R1_(), A1_(), k1_());
  const Array second = after_current(I2, R2_(), A2_(), k2_());
  const Array raised = on_spike(threshold, maximum(threshold, V_th_reset_().decimal()));
  const Quantity a = a_(), b = b_(), rest = V_rest_(), goal = V_th_inf_();
  const Drift of_threshold = [&](const Array& v) {
    const Array pull = b.decimal() * (v - goal.decimal());
    return is_number(a, 0.0) ? -pull : a.decimal() * (start - rest.decimal()) - pull;
  };
  V_th.set(exp_euler(of_threshold, raised, dt()));
  NeuronInput total = in;
  const Array own = first + second;
  total.current = in.current.defined() ? in.current + own : own;
  V.set(leaky_step(start, total, {tau_(), R_(), rest}, dt()));
  return spikes();
}

}  // namespace etrace::nn
