// Adagrad.
//   s ← s + g²      d = g/(√s + ε)
#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "optim/check.h"

namespace etrace::optim {

Adagrad::Adagrad(Schedule rate, const AdagradOptions& own, CommonOptions common)
    : Optimizer(std::move(rate), std::move(common)), own_(own) {
  require_not_negative("adagrad", "initial_sum", own.initial_sum);
  require_positive("adagrad", "epsilon", own.epsilon);
}

std::vector<Optimizer::Slot> Adagrad::slots() const { return {{"sum", own_.initial_sum}}; }

Optimizer::Direction Adagrad::direction(const Array& grad, ArraySpan slots, const Array&) const {
  const Array s = slots[0] + square(grad);
  return {grad / (sqrt(s) + own_.epsilon), {s}};
}

}  // namespace etrace::optim
