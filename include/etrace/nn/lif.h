// s = H((V − V_th)/(V_th − V_reset))           the spikes of the step before
// τ dV/dt = −V + V_rest + R·I                  from reset(V, s), then V ← V + what jumps
// reset   soft: V − (V_th − V_reset)·s    hard: V − (sg(V) − V_reset)·s,  sg: stop_gradient
// For a current that does not depend on V the step is exact: V ← λ·V + (1 − λ)·(V_rest + R·I), λ = e^(−dt/τ)
#pragma once

#include "etrace/nn/neuron.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct LIFOptions {
  Time tau = 5.0, dt = 1.0;
  Resistance R = 1.0;
  Voltage V_th = 1.0, V_reset = 0.0, V_rest = 0.0;
  Reset reset = Reset::Soft;
  bool detached = false;  // no gradient flows through the reset's spikes
  // So long after a spike V stays where the reset has put it: the fewest steps that last as long.
  Time tau_ref = 0.0;
  Surrogate surrogate = surrogate::relu_grad();
  Dtype dtype = Dtype::F32;
};

// Leaky integrate-and-fire neurons. Hidden state V [size], at first V_rest; the input is the current I;
// returns the spikes of the new V. With tau_ref the number of steps since the last spike, up to the period,
// is the state `since`. The constants may differ between neurons, and all but tau_ref be learned.
class LIF : public Neuron {
 public:
  using Options = LIFOptions;
  explicit LIF(const Size&, const LIFOptions& = {});

  Array spikes() const override;
  Array step(const Array& fired, const NeuronInput&) override;
  Array after_reset(const Array& fired) const;  // V once it is reset

 protected:
  LIF(const char* who, const Size&, const LIFOptions&);

 private:
  Reset reset_;
  bool detached_;
  Surrogate surrogate_;
  StepConstant tau_, R_, V_th_, V_reset_, V_rest_;
  Array refractory_;  // steps

 public:
  HiddenState& V;
  ShortTermState* const since;  // i32, null without a refractory period
};

// LIF neurons that rest at 0, as the reference system's IF (it leaks, too).
class IF : public LIF {
 public:
  explicit IF(const Size&, const LIFOptions& = {});  // V_rest and V_reset are 0
};

// LIF neurons with a refractory period of 5 ms, unless the options name one.
class LIFRef : public LIF {
 public:
  explicit LIFRef(const Size&, const LIFOptions& = {});
};

}  // namespace etrace::nn
#pragma GCC visibility pop
