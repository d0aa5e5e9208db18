#include "learn/run/online_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/traces/interface.h"

namespace etrace {

void check_sequences(const char* stage, ArraySpan sequences) {
  if (sequences.empty())
    throw ValueError(stage, "no sequence; give at least one array with time as its first axis");
  for (std::size_t i = 0; i < sequences.size(); ++i)
    if (sequences[i].rank() == 0 || sequences[i].shape()[0] < 1 ||
        sequences[i].shape()[0] != sequences[0].shape()[0])
      throw ValueError(stage,
                       fmt::format("sequence {} has shape {}; every sequence needs the same number of steps, "
                                   "at least one, as its first axis",
                                   i, to_string(sequences[i].shape())));
}

Arrays steps_of(ArraySpan sequences, std::int64_t begin, std::int64_t end) {
  Arrays out;
  for (const Array& a : sequences) out.push_back(slice_axis(a, 0, begin, end));
  return out;
}

OnlineRun::OnlineRun(const ETraceGraph& graph, const LearningRule& rule, ArraySpan sequences,
                     const StepFunction& f, const StepProgram& step, std::string backend)
    : graph_(graph),
      rule_(rule),
      sequences_(sequences),
      f_(f),
      step_(step),
      backend_(std::move(backend)),
      in_windows_(in_windows(step)) {
  start_from(graph.module_info.model, sequences);
}

void OnlineRun::start_from(const Model& model, ArraySpan sequences) {
  sequences_ = sequences;
  params_.clear();
  states_.clear();
  const std::vector<InputRecord>& inputs = graph_.module_info.model.inputs;
  const auto value_of_input = [&](const InputRecord& wanted) {
    const auto found = std::find_if(model.inputs.begin(), model.inputs.end(), [&](const InputRecord& in) {
      return in.role == wanted.role && in.path == wanted.path && in.leaf == wanted.leaf;
    });
    if (found == model.inputs.end() || found->init.aval() != wanted.init.aval())
      throw ValueError("rules", fmt::format("a draw without {} of type {}: all draws must have one program",
                                            state_leaf_name(wanted), to_string(wanted.init.aval())));
    return found->init;
  };
  for (const ParamLeaf& leaf : param_leaves(graph_.module_info))
    params_.emplace_back(value_of_input(inputs[leaf.input]));
  for (const InputRecord& in : inputs)
    if (is_state(in.role)) states_.emplace_back(state_leaf_name(in), value_of_input(in));
}

Learner& OnlineRun::at_start(std::int64_t window) const {
  std::optional<Learner>& l = window == 0 ? single_ : multi_;
  if (!l)
    l.emplace(graph_, rule_,
              LearnerOptions{.vjp_method = window == 0 ? VjpMethod::SingleStep : VjpMethod::MultiStep,
                             .backend = backend_});
  ParamValues params = l->params();
  params.values = params_;
  l->set_params(params);
  for (const auto& [name, value] : states_) l->set_state(name, value);
  l->reset_state();
  return *l;
}

SequenceGradient OnlineRun::gradient(Learner& learner, std::int64_t window, ArraySpan sequences,
                                     const SequenceOptions& options) const {
  SequenceOptions how = options;
  if (window > 0) how.chunk_size = window;
  return learner.etrace_grad(sequences, function(window), how);
}

Arrays OnlineRun::single_step() const { return windows(0); }

Arrays OnlineRun::windows(std::int64_t window) const {
  return gradient(at_start(window), window, sequences_, {.reduction = Reduction::Sum}).grads.values;
}

namespace {
double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}
}  // namespace

OnlineRun::Timed OnlineRun::timed(std::int64_t window, int repeats) const {
  Timed out;
  out.gradients = windows(window);
  out.trace_bytes = at_start(window).trace_bytes();
  for (int i = 0; i < repeats; ++i) {
    Learner& l = at_start(window);
    const auto begin = std::chrono::steady_clock::now();
    gradient(l, window, sequences_, {.reduction = Reduction::Sum});
    const double seconds = seconds_since(begin);
    out.seconds = i == 0 ? seconds : std::min(out.seconds, seconds);
  }
  return out;
}

double OnlineRun::seconds_of_one_step(std::int64_t window) const {
  const std::int64_t one = window == 0 ? 0 : 1;
  const Arrays first = steps_of(sequences_, 0, 1);
  double seconds = 0.0;
  for (int i = 0; i < 2; ++i) {  // the first run makes the program
    Learner& l = at_start(one);
    const auto begin = std::chrono::steady_clock::now();
    gradient(l, one, first, {.reduction = Reduction::Sum});
    seconds = seconds_since(begin);
  }
  return seconds;
}

std::int64_t OnlineRun::working_bytes(std::int64_t window) const {
  const PlanBuilder builder(graph_, rule_, window == 0 ? VjpMethod::SingleStep : VjpMethod::MultiStep);
  WindowForm form;
  if (window > 1) form.steps = window;
  if (const Array m = standing_modulator(graph_, rule_); m.defined()) form.modulator = m.aval();
  Avals slices;
  for (const Array& a : sequences_) slices.push_back({a.dtype(), a.shape().without(0)});
  const StepProgram objective =
      builder.objective(function(window), slices, window > 1 ? std::optional(window) : std::nullopt);
  const Program program = lean(builder.gradient(objective, slices, form));
  return static_cast<std::int64_t>(Executable(program.jaxpr, program.aliases).arena_bytes());
}

std::vector<Arrays> OnlineRun::last_step(const std::vector<std::int64_t>& horizons,
                                         std::int64_t window) const {
  Learner& l = at_start(window);
  const std::int64_t last = std::max<std::int64_t>(window, 1);  // steps of the call that learns
  std::vector<std::vector<StepInput>> args;
  for (std::int64_t t = 0; t < steps(); ++t) {
    Arrays now;
    for (const Array& a : steps_of(sequences_, t, t + 1)) now.push_back(squeeze(a, {0}));
    const Arrays a = step_.arguments(now);
    args.emplace_back(a.begin(), a.end());
  }
  const std::vector<std::string> names = l.state_names();
  std::vector<Arrays> before;  // states before each step
  for (std::int64_t t = 0; t < steps(); ++t) {
    before.emplace_back();
    for (const std::string& name : names) before.back().push_back(l.state(name));
    if (t + 1 < steps()) l.update(args[static_cast<std::size_t>(t)]);
  }
  const Arrays window_data = steps_of(sequences_, steps() - last, steps());
  SequenceOptions how{.reduction = Reduction::Sum};
  if (last > 1) how.mask = convert(arange(last) >= last - 1, Dtype::F64);
  std::vector<Arrays> out;
  for (const std::int64_t horizon : horizons) {
    for (std::size_t i = 0; i < names.size(); ++i)
      l.set_state(names[i], before[static_cast<std::size_t>(steps() - horizon)][i]);
    l.reset_state();
    for (std::int64_t t = steps() - horizon; t < steps() - last; ++t)
      l.update(args[static_cast<std::size_t>(t)]);
    out.push_back(gradient(l, window, window_data, how).grads.values);
  }
  return out;
}

}  // namespace etrace
