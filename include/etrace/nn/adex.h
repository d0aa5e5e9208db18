// s = H((V − V_th)/(V_th − V_reset))   V ← reset(V, s), w ← w + b·s
// τ dV/dt = −(V − V_rest) + Δ_T·e^((V − V_T)/Δ_T) − R·w + R·I   τ_w dw/dt = a·(V − V_rest) − w
#pragma once

#include "etrace/nn/integrate.h"
#include "etrace/nn/neuron.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct AdExOptions {
  Time tau = 10.0, tau_w = 30.0, dt = 0.1;
  Resistance R = 1.0;
  Voltage V_rest = -65.0, V_reset = -68.0, V_th = -30.0, V_T = -59.9, delta_T = 3.48;
  Number a = 1.0;  // mA/mV
  Current b = 1.0;
  Reset reset = Reset::Hard;
  bool detached = false;  // no gradient flows through the reset's spikes
  Method method = Method::ExpEuler;
  Surrogate surrogate = surrogate::relu_grad();
  Dtype dtype = Dtype::F32;
};

// Adaptive exponential integrate-and-fire neurons. Hidden states V [size], at first V_rest, and w [size]; the
// input is the current I; returns the spikes of the new states. V is cut at V_th: beyond it, it only runs off
// to infinity.
class AdEx : public Neuron {
 public:
  using Options = AdExOptions;
  explicit AdEx(const Size&, const AdExOptions& = {});
  Array spikes() const override;
  Array step(const Array& fired, const NeuronInput&) override;

 private:
  AdExOptions options_;
  StepConstant tau_, tau_w_, R_, V_rest_, V_reset_, V_th_, V_T_, delta_T_, a_, b_;

 public:
  HiddenState &V, &w;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
