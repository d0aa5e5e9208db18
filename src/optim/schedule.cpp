// Learning-rate schedules: scalar formulas in Array operations. Powers are written exp(k·log factor) with the
// logarithm taken in double, which loses less in f32 than powers of a rounded factor.
#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/optim.h"
#include "optim/check.h"

namespace etrace::optim {

namespace {

constexpr const char* kScheduleStage = "schedule";

void require_steps(std::string_view what, std::int64_t n) {
  if (n <= 0) throw ValueError(kScheduleStage, fmt::format("{} is {} steps; expected at least 1", what, n));
}

// Grows to 1 at the last step of the warm-up.
Array warmup_factor(const Array& step, std::int64_t warmup) {
  return minimum((step + 1.0) / static_cast<double>(warmup), 1.0);
}

}  // namespace

Schedule::Schedule(double rate) : constant_(rate) {
  require_not_negative(kScheduleStage, "the learning rate", rate);
  formula_ = [rate](const Array& step) { return full({}, rate, step.dtype()); };
}

Schedule::Schedule(Formula formula) : formula_(std::move(formula)) {
  if (!formula_) throw ValueError(kScheduleStage, "the formula is empty; give a function of the step");
}

Array Schedule::operator()(const Array& step) const {
  if (!step.shape().is_scalar())
    throw ValueError(kScheduleStage, "the step is " + to_string(step.aval()) + "; expected one number");
  const Array at = is_floating(step.dtype()) ? step : convert(step, Dtype::F32);
  const Array rate = formula_(at);
  if (!rate.shape().is_scalar())
    throw ValueError(kScheduleStage, "the formula gave " + to_string(rate.aval()) + "; expected one number");
  if (!rate.is_tracer() && !at.is_tracer())
    require_not_negative(kScheduleStage, fmt::format("the learning rate at step {}", at.item<double>()),
                         rate.item<double>());
  return convert(rate, at.dtype());
}

double Schedule::at(std::int64_t step) const {
  if (constant_) return *constant_;
  return (*this)(full({}, static_cast<double>(step), Dtype::F64)).item<double>();
}

namespace schedule {

Schedule constant(double rate) { return Schedule(rate); }

Schedule step_decay(double initial, double factor, std::int64_t every) {
  require_not_negative(kScheduleStage, "the initial rate", initial);
  require_positive(kScheduleStage, "the factor", factor);
  require_steps("the interval", every);
  return Schedule([=](const Array& step) {
    const Array drops = floor(step / static_cast<double>(every));
    return initial * exp(std::log(factor) * drops);
  });
}

Schedule exponential(double initial, double factor, std::int64_t every) {
  require_not_negative(kScheduleStage, "the initial rate", initial);
  require_positive(kScheduleStage, "the factor", factor);
  require_steps("the interval", every);
  return Schedule(
      [=](const Array& step) { return initial * exp(std::log(factor) / static_cast<double>(every) * step); });
}

Schedule linear_warmup(double peak, std::int64_t warmup) {
  require_not_negative(kScheduleStage, "the peak rate", peak);
  require_steps("the warm-up", warmup);
  return Schedule([=](const Array& step) { return peak * warmup_factor(step, warmup); });
}

Schedule cosine(double peak, std::int64_t total, std::int64_t warmup, double final) {
  require_not_negative(kScheduleStage, "the peak rate", peak);
  require_not_negative(kScheduleStage, "the final rate", final);
  if (warmup < 0 || total <= warmup)
    throw ValueError(kScheduleStage,
                     fmt::format("a warm-up of {} steps in a total of {}; expected 0 or more, and "
                                 "less than the total",
                                 warmup, total));
  return Schedule([=](const Array& step) {
    const auto start = static_cast<double>(warmup), length = static_cast<double>(total - warmup);
    const Array progress = clip((step - start) / length, 0.0, 1.0);
    const Array falling = final + 0.5 * (peak - final) * (1.0 + cos(std::numbers::pi * progress));
    return warmup == 0 ? falling : where(step < start, peak * warmup_factor(step, warmup), falling);
  });
}

Schedule piecewise(std::vector<double> values, std::vector<std::int64_t> boundaries) {
  if (values.size() != boundaries.size() + 1)
    throw ValueError(kScheduleStage, fmt::format("{} values for {} boundaries; expected one value more",
                                                 values.size(), boundaries.size()));
  for (const double v : values) require_not_negative(kScheduleStage, "a rate", v);
  for (std::size_t i = 0; i < boundaries.size(); ++i)
    if (boundaries[i] <= (i == 0 ? 0 : boundaries[i - 1]))
      throw ValueError(
          kScheduleStage,
          fmt::format("boundary {} at step {}; boundaries must ascend from step 1 on", i, boundaries[i]));
  return Schedule([values = std::move(values), boundaries = std::move(boundaries)](const Array& step) {
    Array rate = full({}, values[0], step.dtype());
    for (std::size_t i = 0; i < boundaries.size(); ++i)
      rate = where(step >= static_cast<double>(boundaries[i]), values[i + 1], rate);
    return rate;
  });
}

}  // namespace schedule
}  // namespace etrace::optim
