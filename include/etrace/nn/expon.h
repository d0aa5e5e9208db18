// g ← e^(−dt/τ)·g + x
#pragma once

#include "etrace/module.h"

namespace etrace::nn {

struct ExponOptions {
  double tau = 8.0, dt = 1.0;  // in one unit of time
  Dtype dtype = Dtype::F32;
};

// An exponential synapse. Hidden state g [size]; returns the new g.
class Expon : public Module {
 public:
  explicit Expon(std::int64_t size, const ExponOptions& = {});
  Array update(const Array& x) override;

  HiddenState& g;

 private:
  double decay_;
};

}  // namespace etrace::nn
