#include "etrace/nn/constant.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "etrace/etp.h"
#include "etrace/ops/numpy.h"
#include "nn/check.h"

namespace etrace::nn {

std::optional<double> Constant::number() const {
  if (learned_ || !value_.is_weak()) return std::nullopt;
  return to_double(*value_.splat());
}

Quantity StepConstant::operator()() const {
  return Quantity(learned_ != nullptr ? element_wise(learned_->value()) : fixed_);
}

Dynamics::Dynamics(std::string who, const Size& size, const Time& dt, Dtype dtype)
    : who_(std::move(who)), size_(size.shape()), dt_(dt.number().value_or(0.0)), dtype_(dtype) {
  if (!(dt_ > 0.0))
    wrong_option(who_, "dt = " + (dt.number() ? std::to_string(dt_) : std::string("an array")) +
                           "; the time step must be one positive number");
  if (!is_floating(dtype)) wrong_option(who_, "the element type must be f32 or f64");
}

StepConstant Dynamics::constant(const char* name, const Constant& c) {
  if (c.number()) return {c.value(), nullptr};
  if (c.is_learned()) return {Array(), &param(name, filled(c))};
  filled(c);  // checks the shape
  return {convert(c.value(), dtype_), nullptr};
}

StepConstant Dynamics::positive(const char* name, const Constant& c) {
  const std::vector<double> values = c.value().tensor().to_doubles();
  const auto bad = std::find_if(values.begin(), values.end(), [](double v) { return !(v > 0.0); });
  if (bad != values.end())
    wrong_option(who_, std::string(name) + " = " + std::to_string(*bad) + "; it must be positive");
  return constant(name, c);
}

Array Dynamics::filled(const Constant& c) const {
  if (numpy_broadcast_shapes(c.value().shape(), size_) != size_)
    wrong_option(who_, "a constant of shape " + to_string(c.value().shape()) + " for a population of " +
                           to_string(size_) + "; expected one number or one per neuron");
  const Array values =
      c.value().is_weak() ? full({}, *c.value().splat(), dtype_) : convert(c.value(), dtype_);
  return broadcast_to(values, size_);
}

namespace {
// duration/dt as a whole number. What is less than a millionth of it, or a hundredth of a step, away from a
// whole number is one: durations and dt are decimal numbers that bits do not hold exactly.
double whole_number(double ratio, StepCount how) {
  if (how == StepCount::Nearest) return std::max(1.0, std::round(ratio));
  return std::max(0.0, std::ceil(ratio - std::min(1e-6 * ratio, 0.01)));
}
}  // namespace

Array Dynamics::steps_of(const char* name, const Constant& duration, StepCount how) const {
  if (duration.is_learned())
    wrong_option(who_, std::string(name) + " cannot be learned: it counts steps, which have no derivative");
  filled(duration);  // checks the shape
  // A bare number in double precision, whatever type its array would have.
  const std::vector<double> durations =
      duration.number() ? std::vector{*duration.number()} : duration.value().tensor().to_doubles();
  std::vector<std::int32_t> counts;
  for (const double d : durations) {
    const bool allowed = how == StepCount::Nearest ? d > 0.0 : d >= 0.0;
    const double count = allowed ? whole_number(d / dt_, how) : -1.0;
    if (!(count >= 0.0 && count <= std::numeric_limits<std::int32_t>::max()))
      wrong_option(who_, std::string(name) + " = " + std::to_string(d) + " ms in steps of " +
                             std::to_string(dt_) + " ms; it must be " +
                             (how == StepCount::Nearest ? "positive" : "0 or more") +
                             " and less than 2^31 steps");
    counts.push_back(static_cast<std::int32_t>(count));
  }
  return Array(Tensor::of(counts, duration.value().shape()));
}

void Dynamics::require_input(const Array& x) const {
  require_sample("a " + who_ + " of size " + to_string(size_), x, size_);
}

Quantity Dynamics::decay(const StepConstant& tau) const { return exp(-dt_ / tau()); }

Array scaled(const Quantity& factor, const Array& x) {
  const Array& f = factor.mantissa();
  return f.is_weak() && to_double(*f.splat()) == 1.0 ? x : f * x;
}

}  // namespace etrace::nn
