// g ← e^(−dt/τ)·g + x
#pragma once

#include "etrace/nn/constant.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct ExponOptions {
  Time tau = 8.0, dt = 1.0;
  Unit unit = units::mS;  // of x and g, where x has one
  Dtype dtype = Dtype::F32;
};

// A synapse whose conductance jumps and decays. Hidden state g [size]; returns the new g, in the unit of x.
class Expon : public LinearDynamics {
 public:
  using Options = ExponOptions;
  explicit Expon(const Size&, const ExponOptions& = {});
  Array update(const Array& x) override;

  HiddenState& g;

 private:
  StepConstant tau_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
