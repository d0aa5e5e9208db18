// s = H((V − V_th − β·a)/(V_th − V_reset))
// V ← reset(V, s), a ← a + s;  τ dV/dt = −V + V_rest + R·I   τ_a da/dt = −a
#pragma once

#include "etrace/nn/neuron.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct ALIFOptions {
  Time tau = 5.0, tau_a = 100.0, dt = 1.0;
  Number beta = 0.1;
  Resistance R = 1.0;
  Voltage V_th = 1.0, V_reset = 0.0, V_rest = 0.0;
  Reset reset = Reset::Soft;
  bool detached = false;  // no gradient flows through the reset's spikes
  Surrogate surrogate = surrogate::relu_grad();
  Dtype dtype = Dtype::F32;
};

// LIF neurons whose threshold rises with every spike. Hidden states V [size] and a [size]; the input is the
// current I; returns the spikes of the new states.
class ALIF : public Neuron {
 public:
  using Options = ALIFOptions;
  explicit ALIF(const Size&, const ALIFOptions& = {});
  Array spikes() const override;
  Array step(const Array& fired, const NeuronInput&) override;

 private:
  ALIFOptions options_;
  StepConstant tau_, tau_a_, beta_, R_, V_th_, V_reset_, V_rest_;

 public:
  HiddenState &V, &a;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
