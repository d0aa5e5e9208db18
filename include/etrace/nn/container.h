// Layers made of layers. Sequential (etrace/module.h) is y = f_n(… f_1(x));
// Residual: y = x + f(x)     Parallel: y = f_1(x) + … + f_n(x), or the results joined on the last axis
#pragma once

#include "etrace/nn/unit_layer.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

using etrace::ModuleList;
using etrace::Sequential;

// x and what the layers, one after the other, make of it; both must have one shape. States have paths such as
// layers/0/h.
class Residual : public Sequential {
 public:
  using Module::operator();
  Array operator()(const Quantity& x) { return Module::operator()(x.decimal()); }  // UnitError
  Array update(const Array& x) override;
};

enum class Joined : std::uint8_t { Sum, Concatenated };

// The same input to every branch: net.add<Linear>(3, 5); net.add<GRUCell>(3, 5). Paths: branches/0/weight.
class Parallel : public NumberLayer, public AddsModules<Parallel> {
 public:
  explicit Parallel(Joined how = Joined::Sum);
  ModuleList& branches;
  ModuleList& list() { return branches; }
  Array update(const Array& x) override;

 private:
  Joined how_;
};

}  // namespace etrace::nn
#pragma GCC visibility pop
