// Adam and AdamW.
//   m ← β₁·m + (1 − β₁)·g      v ← β₂·v + (1 − β₂)·g²      c = 1 − βᵗ
//   d = (m/c₁) / (√(v/c₂) + ε), or with epsilon_first (m·√c₂/c₁) / (√v + ε)
// AdamW is the same with the weight decay outside of m and v.
#include <cmath>

#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "optim/check.h"

namespace etrace::optim {

namespace {

constexpr double kDefaultDecay = 0.01;  // of AdamW

void check(std::string_view stage, const AdamOptions& o) {
  require_fraction(stage, "beta1", o.beta1);
  require_fraction(stage, "beta2", o.beta2);
  require_positive(stage, "epsilon", o.epsilon);
}

// 1 − βᵗ, to full precision also in f32, where 1 − 0.999 has lost half its digits.
Array correction(double beta, const Array& count) {
  return beta == 0.0 ? ones_like(count) : -expm1(std::log(beta) * count);
}

struct Moments {
  Array direction, m, v;
};
Moments adam(const AdamOptions& o, const Array& grad, ArraySpan slots, const Array& count) {
  const Array m = o.beta1 * slots[0] + (1.0 - o.beta1) * grad;
  // One statement per operation: eager values as large as the parameters go as soon as they are used.
  Array v = square(grad);
  v = (1.0 - o.beta2) * v;
  v = o.beta2 * slots[1] + v;
  // Both corrections are scalars; multiplied into the denominator they cost one product per element.
  const Array c1 = correction(o.beta1, count), c2 = correction(o.beta2, count);
  const Array scale = c1 / sqrt(c2);
  const Array least = o.epsilon * (o.epsilon_first ? scale : c1);
  Array root = sqrt(v);
  root = root * scale;
  root = root + least;
  return {m / root, m, v};
}

}  // namespace

Adam::Adam(Schedule rate, const AdamOptions& own, CommonOptions common)
    : Optimizer(std::move(rate), std::move(common)), own_(own) {
  check("adam", own);
}
std::vector<Optimizer::Slot> Adam::slots() const { return {{"m"}, {"v"}}; }
Optimizer::Direction Adam::direction(const Array& grad, ArraySpan slots, const Array& count) const {
  const Moments next = adam(own_, grad, slots, count);
  return {next.direction, {next.m, next.v}};
}

AdamW::AdamW(Schedule rate, const AdamOptions& own, CommonOptions common)
    : Optimizer(std::move(rate), std::move(common), Decay::Decoupled, kDefaultDecay), own_(own) {
  check("adamw", own);
}
std::vector<Optimizer::Slot> AdamW::slots() const { return {{"m"}, {"v"}}; }
Optimizer::Direction AdamW::direction(const Array& grad, ArraySpan slots, const Array& count) const {
  const Moments next = adam(own_, grad, slots, count);
  return {next.direction, {next.m, next.v}};
}

}  // namespace etrace::optim
