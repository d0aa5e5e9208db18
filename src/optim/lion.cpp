// Lion: steps of one size, in the direction of a momentum's sign. Weight decay is decoupled.
//   d = sign(β₁·m + (1 − β₁)·g)      m ← β₂·m + (1 − β₂)·g
#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "optim/check.h"

namespace etrace::optim {

Lion::Lion(Schedule rate, const LionOptions& own, CommonOptions common)
    : Optimizer(std::move(rate), std::move(common), Decay::Decoupled), own_(own) {
  require_fraction("lion", "beta1", own.beta1);
  require_fraction("lion", "beta2", own.beta2);
}

std::vector<Optimizer::Slot> Lion::slots() const { return {{"m"}}; }

Optimizer::Direction Lion::direction(const Array& grad, ArraySpan slots, const Array&) const {
  const Array blend = own_.beta1 * slots[0] + (1.0 - own_.beta1) * grad;
  return {sign(blend), {own_.beta2 * slots[0] + (1.0 - own_.beta2) * grad}};
}

}  // namespace etrace::optim
