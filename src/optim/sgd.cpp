// Gradient descent.
//   without momentum   d = g
//   with momentum μ    b ← μ·b + g,  d = b        Nesterov: d = g + μ·b
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "optim/check.h"

namespace etrace::optim {

SGD::SGD(Schedule rate, const SgdOptions& own, CommonOptions common)
    : Optimizer(std::move(rate), std::move(common)), own_(own) {
  require_fraction("sgd", "momentum", own.momentum);
  if (own.nesterov && own.momentum == 0.0)
    throw ValueError("sgd", "nesterov without momentum; set momentum, 0.9 for example");
}

std::vector<Optimizer::Slot> SGD::slots() const {
  if (own_.momentum == 0.0) return {};
  return {{"momentum"}};
}

Optimizer::Direction SGD::direction(const Array& grad, ArraySpan slots, const Array&) const {
  if (own_.momentum == 0.0) return {grad, {}};
  const Array b = own_.momentum * slots[0] + grad;
  return {own_.nesterov ? grad + own_.momentum * b : b, {b}};
}

}  // namespace etrace::optim
