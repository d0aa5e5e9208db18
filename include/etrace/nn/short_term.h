// Synapses whose strength depends on what they have just done; s: spikes that arrive.
//   STD   x⁻ = 1 + (x − 1)·e^(−dt/τ)   x ← x⁻ − s·U·x_old                              passes on x·s
//   STP   u⁻ = u·e^(−dt/τ_f)   x⁻ = 1 + (x − 1)·e^(−dt/τ_d)
//         u ← u⁻ + s·U·(1 − u_old)   x ← x⁻ − s·u_new·x_old                            passes on u·x·s
#pragma once

#include "etrace/nn/constant.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct STDOptions {
  Time tau = 200.0, dt = 1.0;
  Number U = 0.07;
  Dtype dtype = Dtype::F32;
};

// Short-term depression. Hidden state x [size], at first 1: the share of vesicles that is left.
class STD : public Dynamics {
 public:
  using Options = STDOptions;
  explicit STD(const Size&, const STDOptions& = {});
  Array update(const Array& spikes) override;

  HiddenState& x;

 private:
  StepConstant tau_, U_;
};

struct STPOptions {
  Time tau_f = 1500.0, tau_d = 200.0, dt = 1.0;
  Number U = 0.15;
  Dtype dtype = Dtype::F32;
};

// Short-term facilitation and depression. Hidden states u [size], at first U, and x [size], at first 1.
class STP : public Dynamics {
 public:
  using Options = STPOptions;
  explicit STP(const Size&, const STPOptions& = {});
  Array update(const Array& spikes) override;

  HiddenState &u, &x;

 private:
  StepConstant tau_f_, tau_d_, U_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
