// g ← e^(−dt/τ)·g + (1 − e^(−dt/τ))·h   h ← e^(−dt/τ)·h + x, with the old h in the first
#pragma once

#include "etrace/nn/constant.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

struct AlphaOptions {
  Time tau = 8.0, dt = 1.0;
  Unit unit = units::mS;  // of x and g, where x has one
  Dtype dtype = Dtype::F32;
};

// A synapse with a smooth rise. Hidden states g and h [size]; returns the new g, in the unit of x.
class Alpha : public LinearDynamics {
 public:
  using Options = AlphaOptions;
  explicit Alpha(const Size&, const AlphaOptions& = {});
  Array update(const Array& x) override;

  HiddenState &g, &h;

 private:
  StepConstant tau_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
