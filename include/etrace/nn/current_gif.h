// s = H((V − V_th)/(V_th − V_reset))   V ← reset(V, s), I2 ← I2 + A2·s
// τ_I2 dI2/dt = −I2   τ dV/dt = −V + V_rest + R·(I + I2), with the new I2
#pragma once

#include "etrace/nn/neuron.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct CurrentGifOptions {
  Time tau = 20.0, tau_I2 = 50.0, dt = 1.0;
  Current A2 = -1.0;  // below 0: spikes make further spikes less likely
  Resistance R = 1.0;
  Voltage V_th = 1.0, V_reset = 0.0, V_rest = 0.0;
  Reset reset = Reset::Soft;
  bool detached = true;  // no gradient flows through the spikes that reset V and drive I2
  Surrogate surrogate = surrogate::relu_grad();
  Dtype dtype = Dtype::F32;
};

// LIF neurons with a slow current after each spike: the GIF neurons of working-memory models. Hidden states
// V [size] and I2 [size]; the input is the current I; returns the spikes of the new states.
class CurrentGif : public Neuron {
 public:
  using Options = CurrentGifOptions;
  explicit CurrentGif(const Size&, const CurrentGifOptions& = {});
  Array spikes() const override;
  Array step(const Array& fired, const NeuronInput&) override;

 private:
  CurrentGifOptions options_;
  StepConstant tau_, tau_I2_, A2_, R_, V_th_, V_reset_, V_rest_;

 public:
  HiddenState &V, &I2;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
