// What layers with weights share: units. A layer computes with mantissas; `unit` says what its weights mean.
#pragma once

#include "etrace/module.h"
#include "etrace/units/quantity.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

class WeightLayer : public Module {
 public:
  using Module::operator();
  // The result has unit(x)·unit of the weights, and so has the bias.
  Quantity operator()(const Quantity& x) { return {Module::operator()(x.mantissa()), x.unit() * unit_}; }
  const Unit& weight_unit() const { return unit_; }

 protected:
  explicit WeightLayer(const Unit& unit) : unit_(unit) {}

 private:
  Unit unit_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
