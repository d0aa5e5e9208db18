// g_r ← e^(−dt/τ_r)·g_r + x   g_d ← e^(−dt/τ_d)·g_d + x   g = a·(g_d − g_r)
// By default a makes the peak of one spike 1: a = τ_d/(τ_d − τ_r)·(τ_r/τ_d)^(τ_r/(τ_r − τ_d)). With A it is
// A·(τ_d − τ_r)/(τ_r·τ_d), in 1/ms, as in the reference system (whose default A is the first formula).
#pragma once

#include "etrace/nn/constant.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct DualExponOptions {
  Time tau_decay = 10.0, tau_rise = 1.0, dt = 1.0;
  std::optional<double> A = {};  // none: the peak of one spike is 1, at the time between steps where it lies
  Unit unit = units::mS;         // of x and g, where x has one
  Dtype dtype = Dtype::F32;
};

// A synapse that rises and decays. Hidden states g_rise and g_decay [size]; returns g, in the unit of x.
class DualExpon : public LinearDynamics {
 public:
  using Options = DualExponOptions;
  explicit DualExpon(const Size&, const DualExponOptions& = {});
  Array update(const Array& x) override;

  HiddenState &g_rise, &g_decay;

 private:
  Quantity gain(const Quantity& tau_rise, const Quantity& tau_decay) const;
  std::optional<double> A_;
  StepConstant tau_decay_, tau_rise_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
