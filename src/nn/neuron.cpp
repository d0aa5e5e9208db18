#include "etrace/nn/neuron.h"

#include "etrace/ops/elementwise.h"
#include "nn/check.h"

namespace etrace::nn {

namespace {
Array sum_of_both(const Array& a, const Array& b) {
  if (!a.defined()) return b;
  return b.defined() ? a + b : a;
}
}  // namespace

NeuronInput operator+(const NeuronInput& a, const NeuronInput& b) {
  NeuronInput sum{sum_of_both(a.current, b.current), a.current_of, sum_of_both(a.delta, b.delta)};
  if (!a.current_of) sum.current_of = b.current_of;
  if (a.current_of && b.current_of)
    sum.current_of = [f = a.current_of, g = b.current_of](const Array& V) {
      const Array first = f(V);
      return first + g(V);
    };
  return sum;
}

void Neuron::require_input(const NeuronInput& in) const {
  if (in.current.defined()) Dynamics::require_input(in.current);
  if (in.delta.defined()) Dynamics::require_input(in.delta);
}

}  // namespace etrace::nn
