// τ dV/dt = −V + V_rest + R·I(V), and then what jumps: the step that most neurons share.
#pragma once

#include "etrace/nn/neuron.h"

namespace etrace::nn {

struct Leak {
  Quantity tau, R, V_rest;
};
// Exact for a current that does not depend on V: λ·V + (1 − λ)·(V_rest + R·I), λ = e^(−dt/τ); exponential
// Euler otherwise.
Array leaky_step(const Array& V, const NeuronInput&, const Leak&, double dt);

// own + the input's current at V.
Array current_at(const NeuronInput&, const Array& V, const Array& own);

}  // namespace etrace::nn
