// s = H((V − V_th)/(V_th − V_reset))     V_th is a state
// on a spike   I_j ← R_j·I_j + A_j   V_th ← max(V_th_reset, V_th)   V ← reset(V, s)
// dI_j/dt = −k_j·I_j   dV_th/dt = a·(V − V_rest) − b·(V_th − V_th_inf)   τ dV/dt = −(V − V_rest) + R·(I + I_1
// + I_2) V follows the new I_1 and I_2; V_th follows V as the reset has left it
#pragma once

#include "etrace/nn/neuron.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct GifOptions {
  Time tau = 20.0, dt = 1.0;
  Resistance R = 20.0;
  Voltage V_rest = -70.0, V_reset = -70.0, V_th_inf = -50.0, V_th_reset = -60.0;
  Number a = 0.0, b = 0.01, k1 = 0.2, k2 = 0.02;  // 1/ms
  Number R1 = 0.0, R2 = 1.0;
  Current A1 = 0.0, A2 = 0.0;
  Reset reset = Reset::Soft;
  bool detached = false;  // no gradient flows through the reset's spikes
  Surrogate surrogate = surrogate::relu_grad();
  Dtype dtype = Dtype::F32;
};

// Generalised integrate-and-fire neurons. Hidden states V, I1, I2, V_th [size], at first V_rest, 0, 0,
// V_th_inf; the input is the current I; returns the spikes of the new states.
class Gif : public Neuron {
 public:
  using Options = GifOptions;
  explicit Gif(const Size&, const GifOptions& = {});
  Array spikes() const override;
  Array step(const Array& fired, const NeuronInput&) override;

 private:
  GifOptions options_;
  StepConstant tau_, R_, V_rest_, V_reset_, V_th_inf_, V_th_reset_, a_, b_, k1_, k2_, R1_, R2_, A1_, A2_;

 public:
  HiddenState &V, &I1, &I2, &V_th;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
