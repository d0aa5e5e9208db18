// Reference gradients of a sequence: reverse mode, forward mode, central differences.
#include "verify/verify_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "session/program_run.h"
#include "verify/verify_way.h"

namespace etrace {

// Distances -------------------------------------------------------------------------------------------------
double norm(std::span<const double> v) {
  double sum = 0.0;
  for (const double x : v) sum += x * x;
  return std::sqrt(sum);
}

Agreement agreement(std::span<const double> a, std::span<const double> b) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  double difference = 0.0, product = 0.0;
  std::size_t signs = 0, equal_signs = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    product += a[i] * b[i];
    if (std::abs(b[i]) <= kAlive) continue;
    ++signs;
    if (std::signbit(a[i]) == std::signbit(b[i]) && a[i] != 0.0) ++equal_signs;
  }
  const double na = norm(a), nb = norm(b);
  Agreement out;
  if (nb > 0.0)
    out.deviation = std::sqrt(difference) / nb;
  else
    out.deviation = na > 0.0 ? std::numeric_limits<double>::infinity() : 0.0;
  out.cosine = na > 0.0 && nb > 0.0 ? std::clamp(product / (na * nb), -1.0, 1.0) : kNone;
  out.norm_ratio = nb > 0.0 ? na / nb : kNone;
  out.sign_agreement = signs > 0 ? static_cast<double>(equal_signs) / static_cast<double>(signs) : kNone;
  return out;
}

Agreement agreement(const Tensor& gradient, const Tensor& reference) {
  if (gradient.shape() != reference.shape())
    throw ValueError("verify", fmt::format("a gradient of shape {} cannot be compared with one of shape {}",
                                           to_string(gradient.shape()), to_string(reference.shape())));
  return agreement(gradient.to_doubles(), reference.to_doubles());
}

// The sequence ----------------------------------------------------------------------------------------------
SequenceOracle::SequenceOracle(const Model& model, const StepProgram& step, ArraySpan sequences, Form form)
    : plan_(model), step_(step), sequences_(sequences), form_(form) {
  for (const Array& a : sequences) slices_.push_back({a.dtype(), a.shape().without(0)});
}

ProgramRun SequenceOracle::bound(Program p) const {
  ProgramRun run(find_backend("interpreter"), form_ == Form::Lean ? lean(std::move(p)) : std::move(p));
  for (const ModelPlan::Start& each : plan_.params()) run.set(PortRole::Param, each.port.name, each.value);
  start(run);
  for (std::size_t i = 0; i < sequences_.size(); ++i)
    run.set(PortRole::Slice, fmt::format("slice{}", i), sequences_[i].tensor());
  return run;
}

void SequenceOracle::start(ProgramRun& run) const {
  for (const ModelPlan::Start& each : plan_.states()) run.set(PortRole::State, each.port.name, each.value);
}

Tensors SequenceOracle::gradients(ProgramRun& run) const {
  Tensors out(plan_.params().size());
  for (std::size_t i = 0; i < out.size(); ++i)
    if (is_floating(i)) out[i] = run.result(PortRole::Gradient, plan_.params()[i].port.name);
  return out;
}

namespace {

double total(ProgramRun& run) {
  double sum = 0.0;
  for (const double v : run.result(PortRole::Loss, "losses").to_doubles()) sum += v;
  return sum;
}

}  // namespace

SequenceOracle::Gradient SequenceOracle::bptt() const {
  ProgramRun run = bound(plan_.bptt(step_, slices_, {.steps = steps()}));
  run();
  return {total(run), gradients(run)};
}

Tensors SequenceOracle::last_step_by_origin() const {
  ProgramRun run = bound(plan_.bptt(step_, slices_, {.steps = steps(), .weighted = true, .by_origin = true}));
  std::vector<double> last(static_cast<std::size_t>(steps()), 0.0);
  last.back() = 1.0;
  run.set(PortRole::Weight, "weights", array(last, {steps()}, Dtype::F64).tensor());
  run();
  return gradients(run);
}

std::vector<double> SequenceOracle::finite_differences(const Gradient& gradient,
                                                       const std::vector<Dtype>& narrowest) const {
  constexpr std::int64_t kEntries = 64;
  ProgramRun run = forward();
  std::vector<double> out(plan_.params().size(), 0.0);
  for (std::size_t leaf = 0; leaf < out.size(); ++leaf) {
    if (!is_floating(leaf)) continue;
    const std::string& name = plan_.params()[leaf].port.name;
    const Tensor& at = plan_.params()[leaf].value;
    const std::vector<double> values = at.to_doubles();
    const auto shifted = [&](std::int64_t entry, double by) {
      std::vector<double> moved = values;
      moved[static_cast<std::size_t>(entry)] += by;
      run.set(PortRole::Param, name, array(moved, at.shape(), at.dtype()).tensor());
      start(run);
      run();
      return total(run);
    };
    // The step balances the error of the stencil, h², against round-off, ε/h.
    const double step = std::cbrt(unit_roundoff(narrowest[leaf]));
    const std::int64_t size = at.size(), stride = std::max<std::int64_t>(1, (size + kEntries - 1) / kEntries);
    std::vector<double> numeric, exact;
    for (std::int64_t i = 0; i < size; i += stride) {
      const double h = step * std::max(1.0, std::abs(values[static_cast<std::size_t>(i)]));
      numeric.push_back((shifted(i, h) - shifted(i, -h)) / (2.0 * h));
      exact.push_back(to_double(gradient.values[leaf].at(i)));
    }
    run.set(PortRole::Param, name, at);
    // Of two gradients that vanish there is no direction to compare.
    if (norm(numeric) > kAlive || norm(exact) > kAlive) out[leaf] = agreement(exact, numeric).deviation;
  }
  return out;
}

ProgramRun SequenceOracle::forward() const {
  return bound(plan_.forward(step_, slices_, {.steps = steps()}));
}

namespace {

double dot_product(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Half along the gradient, so that its size shows, half anywhere, so that what is missing from it does.
std::vector<double> direction(const std::vector<double>& gradient) {
  const double size = norm(gradient), count = static_cast<double>(gradient.size());
  std::vector<double> out;
  std::uint64_t bits = 0x9e3779b97f4a7c15;
  for (const double g : gradient) {
    bits = bits * 6364136223846793005 + 1442695040888963407;
    const double anywhere = static_cast<double>(bits >> 11) / 4503599627370496.0 - 1.0;  // in [-1, 1)
    out.push_back((size > 0.0 ? g / size : 0.0) + anywhere / std::sqrt(count));
  }
  const double length = norm(out);
  for (double& x : out) x /= length;
  return out;
}

}  // namespace

std::optional<double> SequenceOracle::slope_deviation(ProgramRun& run, const Gradient& gradient,
                                                      std::size_t leaf, Dtype narrowest) const {
  const std::string& name = plan_.params()[leaf].port.name;
  const Tensor& at = plan_.params()[leaf].value;
  const std::optional<double> tolerance = differences_below(narrowest);
  if (!tolerance || at.size() == 0) return std::nullopt;
  const std::vector<double> values = at.to_doubles(), exact = gradient.values[leaf].to_doubles(),
                            along = direction(exact);
  const auto loss = [&](double by) {
    std::vector<double> moved = values;
    for (std::size_t i = 0; i < moved.size(); ++i) moved[i] += by * along[i];
    run.set(PortRole::Param, name, array(moved, at.shape(), at.dtype()).tensor());
    start(run);
    run();
    return total(run);
  };
  const double h = std::cbrt(unit_roundoff(narrowest)) *
                   std::max(1.0, norm(values) / std::sqrt(static_cast<double>(values.size())));
  const double here = loss(0.0), ahead = loss(h), behind = loss(-h), near = loss(h / 2), back = loss(-h / 2);
  run.set(PortRole::Param, name, at);
  const double wide = (ahead - behind) / (2.0 * h), slope = (near - back) / h;
  const double expected = dot_product(exact, along), size = std::max(std::abs(slope), std::abs(expected));
  const double rounding = 16.0 * unit_roundoff(narrowest) * (std::abs(here) + std::abs(ahead)) / h;
  // A smooth function bends half as much over half the way; at a kink the sides differ over any.
  const double bend = std::abs(ahead - 2.0 * here + behind) / h,
               small_bend = std::abs(near - 2.0 * here + back) / (h / 2);
  const bool smooth = small_bend <= 0.75 * bend + rounding;
  const double unsure = 10.0 * std::abs(wide - slope) + rounding;
  const double off = std::abs(slope - expected);
  if (!std::isfinite(off) || !smooth || (size <= kAlive && off <= kAlive)) return std::nullopt;
  if (off > *tolerance * size && off <= unsure) return std::nullopt;
  return off / size;
}

Tensors SequenceOracle::full_rtrl(std::int64_t max_influence) const {
  std::int64_t width = 0;
  for (const ModelPlan::Start& s : plan_.states())
    if (etrace::is_floating(s.port.aval.dtype)) width += s.port.aval.shape.size();
  const std::vector<ModelPlan::Start>& params = plan_.params();
  for (std::size_t i = 0; i < params.size(); ++i) {
    const std::int64_t size = params[i].port.aval.shape.size(), numbers = size * width;
    if (is_floating(i) && numbers > max_influence)
      throw NotSupportedError(
          "verify",
          fmt::format("full RTRL carries the influence of each of the {} elements of {} on each of {} "
                      "state values: {} numbers, more than max_influence = {}. Use a smaller model, or "
                      "leave full RTRL out",
                      size, params[i].port.name, width, numbers, max_influence));
  }
  Tensors out(params.size());
  for (std::size_t i = 0; i < params.size(); ++i) {
    if (!is_floating(i)) continue;
    ProgramRun run = bound(plan_.rtrl(step_, slices_, {.steps = steps()}, i));
    run();
    out[i] = run.result(PortRole::Gradient, params[i].port.name);
  }
  return out;
}

}  // namespace etrace
