// s = H((V − V_th)/(V_th − V_reset))           the spikes of the step before
// V ← λ·reset(V, s) + (1 − λ)·(V_rest + R·I)    λ = e^(−dt/τ), the exact solution for a constant I
// reset   soft: V − (V_th − V_reset)·s    hard: V − (sg(V) − V_reset)·s,  sg: stop_gradient
#pragma once

#include "etrace/module.h"
#include "etrace/nn/surrogate.h"

namespace etrace::nn {

enum class Reset : std::uint8_t { Soft, Hard };

struct LIFOptions {
  double tau = 5.0, dt = 1.0;  // in one unit of time
  double R = 1.0;
  double V_th = 1.0, V_reset = 0.0, V_rest = 0.0;
  Reset reset = Reset::Soft;
  Surrogate surrogate = surrogate::relu_grad();
  Dtype dtype = Dtype::F32;
};

// Leaky integrate-and-fire neurons. Hidden state V [size], at first V_rest; the input is the current I;
// returns the spikes of the new V. Spikes are not detached: the reset is part of the gradient.
class LIF : public Module {
 public:
  explicit LIF(std::int64_t size, LIFOptions = {});
  Array update(const Array& current) override;

  Array spikes() const;  // of V as it stands
  // The step above with any drive in place of (1 − λ)·R·I; `fired` is spikes(), asked for by who needs it
  // before the drive is known. Returns the spikes of the new V.
  Array advance(const Array& fired, const Array& drive);
  double current_gain() const { return (1.0 - decay_) * options_.R; }  // drive = current_gain()·I

 private:
  LIFOptions options_;
  double decay_;  // λ

 public:
  HiddenState& V;
};

}  // namespace etrace::nn
