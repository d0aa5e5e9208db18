// What layers make of an input with a unit: they compute with mantissas, and their bases say what that means.
// Layers with weights: etrace/nn/weight_layer.h; neurons and synapses: etrace/nn/constant.h.
#pragma once

#include "etrace/module.h"
#include "etrace/units/quantity.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// Of numbers: x has no dimension (kHz·ms is 1), else UnitError.
class NumberLayer : public Module {
 public:
  using Module::operator();
  Array operator()(const Quantity& x) { return Module::operator()(x.decimal()); }
};

// Moves entries, or is of degree one, f(c·x) = c·f(x) for c > 0: the result has the unit of x.
class SameUnitLayer : public Module {
 public:
  using Module::operator();
  Quantity operator()(const Quantity& x) { return {Module::operator()(x.mantissa()), x.unit()}; }
};

// Divides by the scale of x: any unit will do, and the result is a number.
class ScaleFreeLayer : public Module {
 public:
  using Module::operator();
  Array operator()(const Quantity& x) { return Module::operator()(x.mantissa()); }
};

}  // namespace etrace::nn
#pragma GCC visibility pop
