// s = H((V − V_th)/(V_th − c))   V ← reset(V, s) to c, u ← u + d·s
// dV/dt = 0.04·V² + 5·V + 140 − u + I   du/dt = a·(b·V − u)
#pragma once

#include "etrace/nn/integrate.h"
#include "etrace/nn/neuron.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct IzhikevichOptions {
  Number a = 0.02, b = 0.2;  // 1/ms
  Voltage c = -65.0, V_th = 30.0;
  Number d = 8.0;  // mV/ms
  Time dt = 0.1;
  Reset reset = Reset::Hard;
  bool detached = false;  // no gradient flows through the reset's spikes
  Method method = Method::ExpEuler;
  Surrogate surrogate = surrogate::relu_grad();
  Dtype dtype = Dtype::F32;
};

// Izhikevich's neurons; the defaults fire regularly and adapt, others give bursts, fast spikes and more.
// Hidden states V [size], at first c, and u [size], at first b·c; the input is the current I in mV/ms;
// returns the spikes of the new states. V is cut at V_th.
class Izhikevich : public Neuron {
 public:
  using Options = IzhikevichOptions;
  explicit Izhikevich(const Size&, const IzhikevichOptions& = {});
  Array spikes() const override;
  Array step(const Array& fired, const NeuronInput&) override;
  Unit current_unit() const override { return units::mV / units::ms; }

 private:
  IzhikevichOptions options_;
  StepConstant a_, b_, c_, V_th_, d_;

 public:
  HiddenState &V, &u;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
