// Reference gradients of a sequence: reverse mode, forward mode, central differences.
#include "learn/verify_oracle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "io/step_outputs.h"
#include "learn/interface.h"
#include "learn/verify_way.h"

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
SequenceOracle::SequenceOracle(const Model& model, const StepProgram& step, ArraySpan sequences)
    : model_(model), step_(step), sequences_(sequences) {
  for (const InputRecord& in : model.inputs) {
    if (is_state(in.role)) states_.push_back(in.init);
    if (in.role != Role::Param) continue;
    if (is_floating(in.init.dtype())) floating_.push_back(static_cast<int>(params_.size()));
    params_.push_back(in.init);
    names_.push_back(to_string(ParamLeafId{in.path, in.leaf, to_string(in.leaf_key)}));
  }
}

Array SequenceOracle::loss(ArraySpan params, bool copies, bool last_only) const {
  const std::size_t np = params.size();
  Arrays xs;
  if (copies) xs.assign(params.begin(), params.end());
  xs.insert(xs.end(), sequences_.begin(), sequences_.end());
  const ScanResult r = scan(
      [&](ArraySpan states, ArraySpan now) -> ScanResult {
        const ArraySpan p = copies ? now.first(np) : params, slices = now.subspan(copies ? np : 0);
        const Arrays args = step_.arguments(slices);
        Arrays in;
        std::size_t next_param = 0, next_state = 0;
        for (const InputRecord& record : model_.inputs)
          in.push_back(record.role == Role::Arg     ? args[static_cast<std::size_t>(record.index)]
                       : record.role == Role::Param ? p[next_param++]
                                                    : states[next_state++]);
        const Arrays out = eval_jaxpr(model_.program, in);
        ScanResult s{new_states_of(model_, states, out), {}};
        s.ys = {step_.loss(slices, results_of(model_, out)).loss};
        return s;
      },
      states_, xs, {.length = steps()});
  return sum(last_only ? slice_axis(r.ys[0], 0, steps() - 1, steps()) : r.ys[0]);
}

namespace {

Tensors run(const Function& f, const Arrays& args) {
  return evaluate(simplify(make_jaxpr(f, avals_of(args))), to_tensors(args));
}

}  // namespace

SequenceOracle::Gradient SequenceOracle::bptt() const {
  const Function f = value_and_grad([this](ArraySpan p) { return loss(p, false, false); }, floating_);
  const Tensors out = run(f, params_);
  Gradient g{to_double(out[0].at(0)), Tensors(params_.size())};
  for (std::size_t i = 0; i < floating_.size(); ++i)
    g.values[static_cast<std::size_t>(floating_[i])] = out[1 + i];
  return g;
}

Tensors SequenceOracle::last_step_by_origin() const {
  Arrays copies;
  for (const Array& p : params_)
    copies.push_back(broadcast_to(expand_dims(p, {0}), p.shape().with_front(steps())));
  const Tensors out = run(grad([this](ArraySpan p) { return loss(p, true, true); }, floating_), copies);
  Tensors split(params_.size());
  for (std::size_t i = 0; i < floating_.size(); ++i) split[static_cast<std::size_t>(floating_[i])] = out[i];
  return split;
}

std::vector<double> SequenceOracle::finite_differences(const Gradient& gradient,
                                                       const std::vector<Dtype>& narrowest) const {
  constexpr std::int64_t kEntries = 64;
  const Executable value(
      simplify(make_jaxpr([this](ArraySpan p) { return Arrays{loss(p, false, false)}; }, avals_of(params_))));
  const Tensors at = to_tensors(params_);
  std::vector<double> out(at.size(), 0.0);
  for (const int which : floating_) {
    const auto leaf = static_cast<std::size_t>(which);
    const std::vector<double> values = at[leaf].to_doubles();
    const auto shifted = [&](std::int64_t entry, double by) {
      std::vector<double> moved = values;
      moved[static_cast<std::size_t>(entry)] += by;
      Tensors args = at;
      args[leaf] = array(moved, at[leaf].shape(), at[leaf].dtype()).tensor();
      return to_double(value(args)[0].at(0));
    };
    // The step balances the error of the stencil, h², against round-off, ε/h.
    const double step = std::cbrt(unit_roundoff(narrowest[leaf]));
    const std::int64_t size = at[leaf].size(),
                       stride = std::max<std::int64_t>(1, (size + kEntries - 1) / kEntries);
    std::vector<double> numeric, exact;
    for (std::int64_t i = 0; i < size; i += stride) {
      const double h = step * std::max(1.0, std::abs(values[static_cast<std::size_t>(i)]));
      numeric.push_back((shifted(i, h) - shifted(i, -h)) / (2.0 * h));
      exact.push_back(to_double(gradient.values[leaf].at(i)));
    }
    // Of two gradients that vanish there is no direction to compare.
    if (norm(numeric) > kAlive || norm(exact) > kAlive) out[leaf] = agreement(exact, numeric).deviation;
  }
  return out;
}

Tensors SequenceOracle::full_rtrl(std::int64_t max_influence) const {
  std::int64_t width = 0;
  for (const Array& s : states_)
    if (is_floating(s.dtype())) width += s.size();
  for (const int i : floating_) {
    const auto leaf = static_cast<std::size_t>(i);
    const std::int64_t numbers = params_[leaf].size() * width;
    if (numbers > max_influence)
      throw NotSupportedError(
          "verify",
          fmt::format("full RTRL carries the influence of each of the {} elements of {} on each of {} "
                      "state values: {} numbers, more than max_influence = {}. Use a smaller model, or "
                      "leave full RTRL out",
                      params_[leaf].size(), names_[leaf], width, numbers, max_influence));
  }
  Tensors out(params_.size());
  for (const int i : floating_) {
    const Function f = [this](ArraySpan p) { return Arrays{loss(p, false, false)}; };
    out[static_cast<std::size_t>(i)] = run(jacfwd(f, i), params_)[0];
  }
  return out;
}

}  // namespace etrace
