#include "learn/run/window_programs.h"
#include "learn/traces/interface.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"

namespace etrace {

WindowPrograms::WindowPrograms(Learner::Impl& impl, const StepFunction& f, Types types, std::int64_t length,
                               const SequenceOptions& o, const optim::Optimizer* optimizer)
    : impl_(impl),
      f_(f),
      types_(std::move(types)),
      length_(length),
      optimizer_(optimizer),
      multi_(impl.builder.method() == VjpMethod::MultiStep) {
  if (o.chunk_size && *o.chunk_size != 1) chunk_ = multi_ ? std::min(*o.chunk_size, length) : *o.chunk_size;
  form_.weighted = types_.weighted;
  form_.samples = types_.samples;
  form_.freeze = o.freeze && form_.weighted;
  form_.reduction = o.reduction;
  form_.modulator = types_.modulator;
  form_.modulator_per_step = types_.modulator_per_step;
  form_.modulator_by_group = types_.modulator_by_group;
}

const Learner::Impl::KnownObjective& WindowPrograms::objective(std::int64_t steps) const {
  return impl_.objective(f_, types_.slices, chunk_ ? std::optional(multi_ ? steps : *chunk_) : std::nullopt,
                         form_.samples);
}

std::vector<std::int64_t> WindowPrograms::lengths(std::int64_t steps, std::int64_t longest) const {
  if (!multi_) return window_lengths(steps, longest);
  std::vector<std::int64_t> out(static_cast<std::size_t>(steps / call_steps()), call_steps());
  if (steps % call_steps() != 0) out.push_back(steps % call_steps());
  return out;
}

std::vector<WindowPrograms::Stretch> WindowPrograms::stretches(const char* what,
                                                               const TrainOptions& o) const {
  const std::int64_t window = impl_.execution.window;
  std::int64_t every = length_;
  if (o.update == UpdateEvery::Step) every = 1;
  if (o.update == UpdateEvery::Window)
    every = o.window > 0 ? o.window : o.chunk_size ? *o.chunk_size : window;
  const std::int64_t longest = o.update == UpdateEvery::Sequence ? window : std::min(every, window);
  every = std::min(every, length_);
  if (every % call_steps() != 0 && every < length_)
    throw ValueError(what, fmt::format("an update every {} steps, but the step function takes windows of {}",
                                       every, call_steps()));
  std::vector<Stretch> out;
  for (std::int64_t begin = 0; begin < length_; begin += every) {
    const std::int64_t steps = std::min(every, length_ - begin);
    out.push_back({begin, steps, lengths(steps, longest)});
  }
  return out;
}

WindowPrograms::Known WindowPrograms::window(std::int64_t steps, bool updates) const {
  const Learner::Impl::KnownObjective known = objective(steps);
  WindowForm form = form_;
  if (steps > 1) form.steps = steps;
  return {fmt::format("{} {} {} {} {} {} {} {} {} {}",
                      updates ? fmt::format("train {}", impl_.optimizer_number(*optimizer_)) : "window",
                      known.number, steps, form.weighted, form.samples.value_or(0), form.freeze,
                      static_cast<int>(form.reduction), form.modulator ? to_string(*form.modulator) : "",
                      form.modulator_per_step, form.modulator_by_group),
          [this, form, updates, objective = known.program] {
            return updates ? impl_.builder.train(*objective, types_.slices, form, *optimizer_)
                           : impl_.builder.window(*objective, types_.slices, form);
          }};
}

WindowPrograms::Known WindowPrograms::update() const {
  return {fmt::format("update {} {}", impl_.optimizer_number(*optimizer_), static_cast<int>(form_.reduction)),
          [this] { return impl_.builder.update(*optimizer_, form_.reduction); }};
}

// The learner's side ----------------------------------------------------------------------------------------
LearnerPlan Learner::train_plan(std::span<const Aval> slices, std::int64_t length, const StepFunction& f,
                                const optim::Optimizer& optimizer, const TrainOptions& o,
                                PlanForm form) const {
  const char* what = "train_plan";
  if (length < 1)
    throw ValueError(what, fmt::format("a sequence of {} steps; it needs at least one", length));
  require_same_parameters(what, optimizer, impl_->param_states);
  WindowPrograms::Types types{{slices.begin(), slices.end()}};
  types.weighted = o.mask.defined();
  if (o.mask.defined() && o.mask.rank() == 2) types.samples = o.mask.shape()[1];
  const bool by_group = !o.modulators.empty();
  const StepInput given = by_group ? impl_->packed(what, o.modulators) : o.modulator;
  const Array own = value_of(given);
  const Array modulator = own.defined() ? kept_modulator(impl_->graph, own) : impl_->modulator;
  if (impl_->rule->takes_modulator() && modulator.defined()) {
    types.modulator_by_group = own.defined() ? by_group : impl_->modulator_by_group;
    types.modulator_per_step = own.defined() && std::holds_alternative<MultiStepData>(given);
    types.modulator = types.modulator_per_step ? Aval{own.dtype(), own.shape().without(0)} : modulator.aval();
  }
  const WindowPrograms programs(*impl_, f, std::move(types), length, o, &optimizer);
  programs.objective(programs.call_steps());  // refuses a chunk of no length
  LearnerPlan out;
  std::vector<std::string> keys;
  const auto add = [&](const WindowPrograms::Known& known, std::int64_t steps) {
    if (std::find(keys.begin(), keys.end(), known.key) != keys.end()) return;
    keys.push_back(known.key);
    Program p = known.make();
    if (form == PlanForm::AsCompiled) p = impl_->ready(std::move(p));
    const auto same = [&](const Program& other) { return other.name == p.name; };
    if (std::any_of(out.programs.begin(), out.programs.end(), same))
      p.name = fmt::format("{}_of_{}", p.name, steps);
    out.programs.push_back(std::move(p));
  };
  for (const WindowPrograms::Stretch& s : programs.stretches(what, o)) {
    const bool whole = s.windows.size() == 1;
    for (const std::int64_t steps : s.windows) add(programs.window(steps, whole), steps);
    if (!whole) add(programs.update(), s.steps);
  }
  return out;
}

std::vector<Program> Learner::compiled() const {
  std::vector<Program> out;
  for (const Impl::Cached& c : impl_->launches) out.push_back(c.launch.program());
  return out;
}

}  // namespace etrace
