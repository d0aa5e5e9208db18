// C dV/dt = −g_Na·m³·h·(V − E_Na) − g_K·n⁴·(V − E_K) − g_L·(V − E_L) + I
// dx/dt = α_x(V)·(1 − x) − β_x(V)·x  for x = m, h, n
//   α_m = 0.1(V + 40)/(1 − e^(−(V + 40)/10))   β_m = 4·e^(−(V + 65)/18)
//   α_h = 0.07·e^(−(V + 65)/20)                β_h = 1/(1 + e^(−(V + 35)/10))
//   α_n = 0.01(V + 55)/(1 − e^(−(V + 55)/10))  β_n = 0.125·e^(−(V + 65)/80)
// a spike: V rises through V_th
#pragma once

#include "etrace/nn/integrate.h"
#include "etrace/nn/neuron.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct HodgkinHuxleyOptions {
  Voltage E_Na = 50.0, E_K = -77.0, E_L = -54.387;
  Number g_Na = 120.0, g_K = 36.0, g_L = 0.3;  // mS/cm²
  Number C = 1.0;                              // µF/cm²
  Voltage V_th = 20.0, V_start = -65.0;
  Time dt = 0.01;
  Method method = Method::ExpEuler;
  Surrogate surrogate = surrogate::relu_grad();
  double surrogate_width = 20.0;  // mV that count as 1 in the surrogate
  Dtype dtype = Dtype::F32;
};

// Hodgkin and Huxley's neurons. Hidden states V, m, h, n [size], at first at rest for V_start; the input is
// the current I in µA/cm²; returns 1 at the step at which V rises through V_th.
class HodgkinHuxley : public Neuron {
 public:
  using Options = HodgkinHuxleyOptions;
  explicit HodgkinHuxley(const Size&, const HodgkinHuxleyOptions& = {});
  Array spikes() const override;  // where V is above V_th
  Array step(const Array& fired, const NeuronInput&) override;
  Unit current_unit() const override { return units::uA / (units::cm * units::cm); }

 private:
  HodgkinHuxleyOptions options_;
  StepConstant E_Na_, E_K_, E_L_, g_Na_, g_K_, g_L_, C_, V_th_;

 public:
  HiddenState &V, &m, &h, &n;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
