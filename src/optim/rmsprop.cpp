// RMSprop.
//   v ← ρ·v + (1 − ρ)·g²      d = g/(√v + ε)      with momentum μ: b ← μ·b + d, and b is the direction
#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "optim/check.h"

namespace etrace::optim {

RMSprop::RMSprop(Schedule rate, const RmspropOptions& own, CommonOptions common)
    : Optimizer(std::move(rate), std::move(common)), own_(own) {
  require_fraction("rmsprop", "decay", own.decay);
  require_positive("rmsprop", "epsilon", own.epsilon);
  require_fraction("rmsprop", "momentum", own.momentum);
}

std::vector<Optimizer::Slot> RMSprop::slots() const {
  if (own_.momentum == 0.0) return {{"v"}};
  return {{"v"}, {"momentum"}};
}

Optimizer::Direction RMSprop::direction(const Array& grad, ArraySpan slots, const Array&) const {
  const Array v = own_.decay * slots[0] + (1.0 - own_.decay) * square(grad);
  const Array scaled = grad / (sqrt(v) + own_.epsilon);
  if (own_.momentum == 0.0) return {scaled, {v}};
  const Array b = own_.momentum * slots[1] + scaled;
  return {b, {v, b}};
}

}  // namespace etrace::optim
