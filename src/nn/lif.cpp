#include "etrace/nn/lif.h"

#include "etrace/ops/elementwise.h"
#include "nn/decay.h"

namespace etrace::nn {

namespace {
LIFOptions checked(LIFOptions o) {
  if (!(o.V_th > o.V_reset))
    throw ValueError("nn",
                     "LIF with the threshold V_th = " + std::to_string(o.V_th) + " and V_reset = " +
                         std::to_string(o.V_reset) + "; the threshold must lie above the value after a spike",
                     OriginScope::current());
  if (!o.surrogate)
    throw ValueError("nn", "LIF without a surrogate; give one of nn::surrogate, such as relu_grad()",
                     OriginScope::current());
  return o;
}
// Factors of one are left out of the program.
Array times(double factor, const Array& x) { return factor == 1.0 ? x : factor * x; }
}  // namespace

LIF::LIF(std::int64_t size, LIFOptions options)
    : options_(checked(std::move(options))),
      decay_(decay("LIF", options_.dt, options_.tau)),
      V(hidden("V", full({size}, options_.V_rest, options_.dtype))) {}

Array LIF::spikes() const {
  const double scale = 1.0 / (options_.V_th - options_.V_reset);
  return spike(times(scale, V.value() - options_.V_th), options_.surrogate);
}

Array LIF::advance(const Array& fired, const Array& drive) {
  const Array before = V.value();
  const bool soft = options_.reset == Reset::Soft;
  const Array drop = soft ? times(options_.V_th - options_.V_reset, fired)
                          : (stop_gradient(before) - options_.V_reset) * fired;
  const Array next = decay_ * (before - drop) + drive;
  const double rest = (1.0 - decay_) * options_.V_rest;
  V.set(rest == 0.0 ? next : next + rest);
  return spikes();
}

Array LIF::update(const Array& current) {
  const Array fired = spikes();
  return advance(fired, current_gain() * current);
}

}  // namespace etrace::nn
