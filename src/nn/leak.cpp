#include "nn/leak.h"

#include "etrace/nn/integrate.h"
#include "etrace/ops/numpy.h"
#include "nn/threshold.h"

namespace etrace::nn {

namespace {
Array exact_step(const Array& V, const Array& current, const Leak& l, double dt) {
  const Quantity kept = exp(-dt / l.tau), gain = 1.0 - kept, rest = gain * l.V_rest;
  Array next = kept.decimal() * V;
  if (current.defined()) next = next + scaled(gain * l.R, current);
  return is_number(rest, 0.0) ? next : next + rest.decimal();
}
}  // namespace

Array current_at(const NeuronInput& in, const Array& V, const Array& own) {
  const Array constant = in.current.defined() ? own + in.current : own;
  return in.current_of ? constant + in.current_of(V) : constant;
}

Array leaky_step(const Array& V, const NeuronInput& in, const Leak& l, double dt) {
  const Drift drift = [&](const Array& v) {
    const Array driven = in.current_of(v);
    const Array total = in.current.defined() ? in.current + driven : driven;
    return ((l.V_rest.decimal() - v) + scaled(l.R, total)) / l.tau.decimal();
  };
  const Array next = in.current_of ? exp_euler(drift, V, dt) : exact_step(V, in.current, l, dt);
  return in.delta.defined() ? next + in.delta : next;
}

}  // namespace etrace::nn
