#include "etrace/nn/hodgkin_huxley.h"

#include "etrace/ops/numpy.h"
#include "nn/check.h"
#include "nn/leak.h"
#include "nn/threshold.h"

namespace etrace::nn {

namespace {

struct Rates {
  Array open, close;
};
// x/(1 − e^(−x)) = 1/φ(−x), also at 0.
Array linear_rate(const Array& x) { return 1.0 / expm1_ratio(-x); }

Rates rates_of_m(const Array& V) { return {linear_rate((V + 40.0) / 10.0), 4.0 * exp((V + 65.0) / -18.0)}; }
Rates rates_of_h(const Array& V) { return {0.07 * exp((V + 65.0) / -20.0), logistic((V + 35.0) / 10.0)}; }
Rates rates_of_n(const Array& V) {
  return {0.1 * linear_rate((V + 55.0) / 10.0), 0.125 * exp((V + 65.0) / -80.0)};
}
Array at_rest(const Rates& r) { return r.open / (r.open + r.close); }
Array gate(const Rates& r, const Array& x) { return r.open * (1.0 - x) - r.close * x; }

}  // namespace

HodgkinHuxley::HodgkinHuxley(const Size& size, const HodgkinHuxleyOptions& o)
    : Neuron("HodgkinHuxley", size, o.dt, o.dtype),
      options_(o),
      E_Na_(constant("E_Na", o.E_Na)),
      E_K_(constant("E_K", o.E_K)),
      E_L_(constant("E_L", o.E_L)),
      g_Na_(constant("g_Na", o.g_Na)),
      g_K_(constant("g_K", o.g_K)),
      g_L_(constant("g_L", o.g_L)),
      C_(positive("C", o.C)),
      V_th_(constant("V_th", o.V_th)),
      V(hidden("V", filled(o.V_start))),
      m(hidden("m", at_rest(rates_of_m(filled(o.V_start))))),
      h(hidden("h", at_rest(rates_of_h(filled(o.V_start))))),
      n(hidden("n", at_rest(rates_of_n(filled(o.V_start))))) {
  if (!o.surrogate || !(o.surrogate_width > 0.0))
    wrong_option(who(), "it needs a surrogate and a positive surrogate_width");
}

Array HodgkinHuxley::spikes() const {
  const Array above = V.value() - V_th_().decimal();
  return spike(above * (1.0 / options_.surrogate_width), options_.surrogate);
}

Array HodgkinHuxley::step(const Array& fired, const NeuronInput& in) {
  require_input(in);
  const Quantity E_Na = E_Na_(), E_K = E_K_(), E_L = E_L_(), g_Na = g_Na_(), g_K = g_K_(), g_L = g_L_(),
                 C = C_();
  const System system = [&](ArraySpan x) {
    const Array sodium = scaled(g_Na, x[1] * x[1] * x[1] * x[2]) * (E_Na.decimal() - x[0]);
    const Array potassium = scaled(g_K, square(square(x[3]))) * (E_K.decimal() - x[0]);
    const Array leak = g_L.decimal() * (E_L.decimal() - x[0]);
    const Array total = current_at(in, x[0], sodium + potassium + leak);
    return Arrays{is_number(C, 1.0) ? total : total / C.decimal(), gate(rates_of_m(x[0]), x[1]),
                  gate(rates_of_h(x[0]), x[2]), gate(rates_of_n(x[0]), x[3])};
  };
  const Array before = V.value();
  const Arrays states{before, m.value(), h.value(), n.value()};
  const Arrays next = integrate(options_.method, system, states, dt());
  V.set(in.delta.defined() ? next[0] + in.delta : next[0]);
  m.set(next[1]);
  h.set(next[2]);
  n.set(next[3]);
  const Array above = spikes();
  return above * (1.0 - fired);
}

}  // namespace etrace::nn
