#include "learn/plan/window_plan.h"

#include <algorithm>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "learn/plan/finite_guard.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"
#include "learn/traces/window.h"

namespace etrace {

WindowPlan::WindowPlan(const ETraceGraph& g, const BoundRule& r, VjpMethod m)
    : graph_(g), rule_(r), method_(m), executor_(g), own_(own_steps(g, r.own_step())) {}

// What is carried -------------------------------------------------------------------------------------------
std::vector<TraceSlot> WindowPlan::memory() const {
  std::vector<TraceSlot> out = rule_.slots();
  out.push_back({"age", {Dtype::I32, {}}, PortRole::Counter});
  out.push_back({"calls", {Dtype::I32, {}}, PortRole::Counter});
  return out;
}

Arrays WindowPlan::initial_memory(std::uint64_t seed) const {
  const Array zero = zeros_of({Dtype::I32, {}});
  return joined({rule_.initial(seed), Arrays{zero, zero}});
}

std::int64_t counted_on(std::int64_t count) { return count > kMostCounted ? count - kCountedBack : count; }

namespace {
Array counted_on(const Array& counter, const Array& more) {
  const Array next = counter + more;
  return where(next > Array(kMostCounted), next - Array(kCountedBack), next);
}
}  // namespace

Arrays WindowPlan::next_memory(const Carry& old, Arrays slots, std::int64_t steps,
                               const Array& active) const {
  const Array& age = old.memory[old.memory.size() - 2];
  // A step counts if any sample does.
  Array counted = Array(steps);
  if (active.defined()) counted = sum(convert(active.rank() == 2 ? any(active, {1}) : active, Dtype::I32));
  slots.push_back(counted_on(age, counted));
  // One step is one call in single-step mode, whatever the window that runs it.
  slots.push_back(
      counted_on(old.memory.back(), Array(method_ == VjpMethod::MultiStep ? std::int64_t{1} : steps)));
  return slots;
}

// One step --------------------------------------------------------------------------------------------------
std::size_t WindowPlan::DataLayout::count() const {
  std::size_t n = kept + jacobians;
  for (const std::size_t k : df) n += k;
  for (const std::size_t k : transitions) n += k;
  return n;
}

Arrays WindowPlan::data_of(const StepValues& values, DataLayout& layout) const {
  Arrays out = rule_.keep(values.data);
  layout = {};
  layout.kept = out.size();
  for (const Arrays& list : values.data.df) {
    layout.df.push_back(list.size());
    out.insert(out.end(), list.begin(), list.end());
  }
  layout.jacobians = values.data.jacobians.size();
  out.insert(out.end(), values.data.jacobians.begin(), values.data.jacobians.end());
  for (const Arrays& list : values.data.transitions) {
    layout.transitions.push_back(list.size());
    out.insert(out.end(), list.begin(), list.end());
  }
  return out;
}

namespace {

using Inputs = std::vector<StepSplit::Input>;

Avals param_types(const ETraceGraph& g) {
  Avals out;
  for (const ParamLeaf& l : param_leaves(g.module_info))
    out.push_back(g.module_info.jaxpr().invars[l.input].aval);
  return out;
}

Avals chained(std::initializer_list<std::span<const Aval>> parts) {
  Avals out;
  for (const std::span<const Aval> part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

Inputs input_kinds(std::size_t params, std::size_t states, std::size_t data) {
  Inputs out(params, StepSplit::Input::Fixed);
  out.insert(out.end(), states, StepSplit::Input::Carried);
  out.insert(out.end(), data, StepSplit::Input::PerStep);
  return out;
}

}  // namespace

const WindowPlan::PlainStep& WindowPlan::plain_step() const {
  if (plain_ != nullptr) return *plain_;
  const Avals params = param_types(graph_), states = state_types(graph_), args = argument_types(graph_);
  DataLayout layout;
  std::size_t outputs = 0;
  const ClosedJaxpr step = make_jaxpr(
      [&](ArraySpan in) {
        const ArraySpan p = take_front(in, params.size()), h = take_front(in, states.size());
        const StepValues values = executor_.solve_h2w_h2h_jacobian(executor_.program_inputs(in, h, p));
        outputs = values.outputs.size();
        const Arrays data = data_of(values, layout);
        return joined({values.states, values.outputs, data});
      },
      chained({params, states, args}));
  // Windows differentiate this step, so that marks of derivatives must stay: no simplify().
  const ClosedJaxpr tidy = eliminate_dead_code(eliminate_common_subexpressions(inline_calls(step)));
  plain_ = std::make_unique<const PlainStep>(PlainStep{
      StepSplit(tidy, input_kinds(params.size(), states.size(), args.size()), states_per_sample(graph_)),
      outputs, layout});
  return *plain_;
}

const WindowPlan::LossStep& WindowPlan::loss_step(const StepProgram& program, std::span<const Aval> slices,
                                                  const Aval& weight) const {
  for (const LossStep& known : losses_)
    if (same(known.program, program)) return known;
  const Avals params = param_types(graph_), states = state_types(graph_);
  const std::size_t ns = slices.size();
  const auto weighted_loss = [&](ArraySpan extra, ArraySpan outputs) {
    const ArraySpan own = take_front(extra, program.params.size());
    const Array loss = program.loss_with(extra.first(ns), outputs, own).loss;
    return sum(loss * convert(extra[ns], loss.dtype()));
  };
  const Avals extra = chained({slices, std::span(&weight, 1)});
  Avals own;
  for (const std::size_t i : program.params) own.push_back(params[i]);
  StepDerivative derivative(graph_, own_, weighted_loss, chained({own, extra}), program.params);
  DataLayout layout;
  const ClosedJaxpr step = make_jaxpr(
      [&](ArraySpan in) {
        const ArraySpan p = take_front(in, params.size()), h = take_front(in, states.size());
        const Arrays args = program.arguments(in.first(ns));
        const StepValues values = executor_.solve_h2w_h2h_jacobian(executor_.program_inputs(args, h, p));
        const LossAndAux l = program.loss(in.first(ns), values.outputs, p);
        const Arrays data = data_of(values, layout),
                     residuals = derivative.residuals(args, h, p, joined({program.own_params(p), in}));
        return joined({values.states, Arrays{l.loss}, l.aux, data, residuals});
      },
      chained({params, states, extra}));
  constexpr std::size_t kRemembered = 8;
  if (losses_.size() == kRemembered) losses_.pop_front();
  losses_.push_back(
      {program, std::move(derivative),
       StepSplit(simplify(step).to_run(), input_kinds(params.size(), states.size(), extra.size()),
                 states_per_sample(graph_)),
       program.num_aux(), layout});
  return losses_.back();
}

const ExitCredit& WindowPlan::exit_credit() const {
  if (exit_credit_ == nullptr) exit_credit_ = std::make_unique<const ExitCredit>(graph_);
  return *exit_credit_;
}

// Windows ---------------------------------------------------------------------------------------------------
WindowData WindowPlan::window_data(ArraySpan params, const Carry& c, std::int64_t steps,
                                   const Array& active) const {
  if (active.defined() && active.rank() == 2) require_own_states(graph_, active.shape()[1]);
  WindowData w;
  w.steps = steps;
  w.params.assign(params.begin(), params.end());
  for (const HiddenParamOpRelation& r : graph_.hidden_param_op_relations)
    w.operands.push_back(parameter_operands(graph_, r, params));
  w.active = active;
  w.age = c.memory[c.memory.size() - 2];
  w.calls = c.memory.back();
  for (const OwnSteps::Place place : own_.relations)
    w.own.push_back({.meets_signal = place == OwnSteps::Place::Signal});
  for (const OwnSteps::Place place : own_.composites)
    w.composite_own.push_back({.meets_signal = place == OwnSteps::Place::Signal});
  return w;
}

void WindowPlan::fill(WindowData& w, const DataLayout& layout, const StepSplit::Result& r,
                      std::size_t first) const {
  const auto next = [&](std::size_t count) {
    Arrays out;
    for (std::size_t i = 0; i < count; ++i) out.push_back(r.all_steps(first++, w.steps));
    return out;
  };
  w.kept = next(layout.kept);
  for (const std::size_t count : layout.df) w.df.push_back(next(count));
  w.jacobians = next(layout.jacobians);
  for (const std::size_t count : layout.transitions) w.transitions.push_back(next(count));
}

namespace {

// Arguments of every step, [K, …] also where they do not change.
Arrays stacked_args(std::span<const StepInput> args, std::int64_t steps) {
  Arrays out;
  for (const StepInput& a : args) {
    const Array& x = value_of(a);
    const bool many = std::holds_alternative<MultiStepData>(a);
    out.push_back(many ? x : broadcast_to(expand_dims(x, {0}), x.shape().with_front(steps)));
  }
  return out;
}

Arrays rule_memory(const Carry& c) { return {c.memory.begin(), c.memory.end() - 2}; }

// Losses of steps and samples that weigh something.
Array counted(const Array& losses, const Array& weights) {
  return where(not_equal_to(weights, 0.0), losses, full({}, 0.0, losses.dtype()));
}

// By the traces, and by all other ways.
Arrays whole_gradients(Arrays traced, ArraySpan others, ArraySpan params) {
  traced.resize(params.size());
  for (std::size_t i = 0; i < params.size(); ++i)
    traced[i] = instantiate(add_cotangents(traced[i], others[i]), params[i].aval());
  return traced;
}

Carry if_finite(const Array& finite, const Carry& next, const Carry& old) {
  return {etrace::if_finite(finite, next.states, old.states),
          etrace::if_finite(finite, next.memory, old.memory)};
}

}  // namespace

Driven WindowPlan::drive(ArraySpan params, const Carry& c, std::span<const StepInput> args,
                         const Array& active) const {
  const std::optional<std::int64_t> length = multi_step_length(args);
  const std::int64_t steps = length.value_or(1);
  const PlainStep& step = plain_step();
  const StepSplit::Result r =
      step.split.run(steps, joined({params, c.states, stacked_args(args, steps)}), active);
  WindowData w = window_data(params, c, steps, active);
  fill(w, step.data, r, step.outputs);
  Driven out;
  const Arrays memory = rule_.advance(w, rule_memory(c), {}).memory;
  out.finite = all_finite_early(all_finite(r.carried), memory);
  out.carry = if_finite(out.finite, {r.carried, next_memory(c, memory, steps, active)}, c);
  for (std::size_t i = 0; i < step.outputs; ++i) {
    const Array y = r.all_steps(i, steps);
    out.outputs.push_back(length ? y : squeeze(y, {0}));
  }
  return out;
}

Learned WindowPlan::learn(ArraySpan params, const Carry& c, const StepProgram& program, ArraySpan slices,
                          const Array& weights, const Array& active, const ThirdFactor& modulator) const {
  return program.window ? learn_window(params, c, program, slices, weights, active, modulator)
                        : learn_steps(params, c, program, slices, weights, active, modulator);
}

// What the rule makes of the gradient, to the states after each step and before it.
Signals WindowPlan::signals_of(const WindowData& w, ArraySpan memory, const StepGradients& g) const {
  Signals out;
  out.each_step = rule_.learning_signal(w, memory, BoundRule::SignalTo::EachStep, g.group_signal);
  const auto same = [](const Array& a, const Array& b) { return a.rep() == b.rep(); };
  if (rule_.own_step() != OwnStep::Signal && !std::equal(out.each_step.begin(), out.each_step.end(),
                                                         g.group_signal.begin(), g.group_signal.end(), same))
    throw ValueError("learn",
                     "the rule puts another signal in the place of the gradient, but its own step comes from "
                     "the gradient: let its own_step() be OwnStep::Signal");
  if (!g.before_signal.empty())
    out.before_step = rule_.learning_signal(w, memory, BoundRule::SignalTo::BeforeStep, g.before_signal);
  return out;
}

// The own step of every loss, and the past by the trace from before the step.
Learned WindowPlan::learn_steps(ArraySpan params, const Carry& c, const StepProgram& program,
                                ArraySpan slices, const Array& weights, const Array& active,
                                const ThirdFactor& modulator) const {
  const std::int64_t steps = weights.shape()[0];
  Avals slice_types;
  for (const Array& s : slices) slice_types.push_back({s.dtype(), s.shape().without(0)});
  const LossStep& step = loss_step(program, slice_types, {weights.dtype(), weights.shape().without(0)});
  const StepSplit::Result r =
      step.split.run(steps, joined({params, c.states, slices, Arrays{weights}}), active);
  const std::size_t first_residual = 1 + step.aux + step.data.count();
  const StepGradients g = step.derivative.gradients(
      steps, ArraySpan(r.outs).subspan(first_residual),
      {r.stacked.begin() + static_cast<std::ptrdiff_t>(first_residual), r.stacked.end()});
  WindowData w = window_data(params, c, steps, active);
  w.modulator = modulator.value, w.modulator_by_group = modulator.by_group;
  for (std::size_t i = 0; i < g.cotangents.size(); ++i) w.own[i].cotangent = g.cotangents[i];
  fill(w, step.data, r, 1 + step.aux);
  const Arrays memory = rule_memory(c);

  Learned out;
  out.losses = r.all_steps(0, steps);
  for (std::size_t i = 0; i < step.aux; ++i) out.aux.push_back(r.all_steps(1 + i, steps));
  BoundRule::Advanced advanced = rule_.advance(w, memory, signals_of(w, memory, g));
  out.gradients = whole_gradients(advanced.gradients, g.leaves, params);
  out.finite = all_finite_early(all_finite(joined({Arrays{counted(out.losses, weights)}, r.carried})),
                                joined({advanced.memory, out.gradients}));
  out.carry =
      if_finite(out.finite, {r.carried, next_memory(c, std::move(advanced.memory), steps, active)}, c);
  return out;
}

// Reverse mode inside the window; the signal at its entry meets the trace from before.
Learned WindowPlan::learn_window(ArraySpan params, const Carry& c, const StepProgram& program,
                                 ArraySpan slices, const Array& weights, const Array& active,
                                 const ThirdFactor& modulator) const {
  const std::int64_t steps = *program.window;
  const std::size_t ns = c.states.size(), np = params.size();
  const Arrays given = program.arguments(slices);
  std::vector<StepInput> inputs;
  for (std::size_t i = 0; i < given.size(); ++i)
    inputs.push_back(program.multi_step[i] ? StepInput(MultiStepData{given[i]}) : StepInput(given[i]));
  const PlainStep& step = plain_step();

  // Σ weight·loss as a function of entry states and parameters; everything else that the steps give follows
  // it.
  const Arrays at = joined({c.states, params}),
               held = joined({stacked_args(inputs, steps), slices, Arrays{weights},
                              active.defined() ? Arrays{active} : Arrays{}});
  std::vector<bool> stacked;
  const Recording forward = record(avals_of(joined({at, held})), [&](ArraySpan in) {
    const ArraySpan states = take_front(in, ns), p = take_front(in, np), args = take_front(in, given.size()),
                    s = take_front(in, slices.size());
    const StepSplit::Result r =
        step.split.run(steps, joined({p, states, args}), active.defined() ? in[1] : Array());
    stacked = r.stacked;
    Arrays outputs;
    for (std::size_t i = 0; i < step.outputs; ++i) outputs.push_back(r.all_steps(i, steps));
    const LossAndAux l = program.loss(s, outputs, p);
    const Array total = sum(l.loss * convert(in[0], l.loss.dtype()));
    Arrays rest = joined({Arrays{l.loss}, l.aux, r.carried, ArraySpan(r.outs).subspan(step.outputs)});
    for (Array& a : rest) a = stop_gradient(a);
    return joined({Arrays{total}, rest});
  });
  Mask wanted(forward.captured.size(), false);
  for (const Array& a : at) wanted.push_back(is_floating(a.dtype()));
  wanted.resize(forward.captured.size() + at.size() + held.size(), false);
  ClosedJaxpr whole{forward.jaxpr, {}};
  whole.jaxpr.invars.insert(whole.jaxpr.invars.begin(), whole.jaxpr.constvars.begin(),
                            whole.jaxpr.constvars.end());
  whole.jaxpr.constvars.clear();
  const Arrays found = eval_jaxpr(value_and_grad(whole, wanted), joined({forward.captured, at, held}));
  ArraySpan left = ArraySpan(found).subspan(1);
  const Array losses = take_front(left, 1)[0];
  const Arrays aux = to_list(take_front(left, program.num_aux()));
  const Arrays states = to_list(take_front(left, ns));
  StepSplit::Result data;
  data.outs = to_list(take_front(left, step.data.count()));
  data.stacked.assign(stacked.begin() + static_cast<std::ptrdiff_t>(step.outputs), stacked.end());
  Arrays slope(at.size());
  for (std::size_t i = 0; i < at.size(); ++i)
    if (is_floating(at[i].dtype())) slope[i] = take_front(left, 1)[0];

  // Entry signal per group.
  const auto of_groups = [&](ArraySpan per_state) {
    const std::vector<StatePath> paths = state_paths(graph_);
    Arrays slabs;
    for (const HiddenGroup& g : graph_.hidden_groups) {
      Arrays members;
      for (const StatePath& path : g.hidden_paths)
        for (std::size_t i = 0; i < ns; ++i)
          if (paths[i] == path) members.push_back(instantiate(per_state[i], at[i].aval()));
      slabs.push_back(g.concat_hidden(members));
    }
    return slabs;
  };
  WindowData w = window_data(params, c, steps, active);
  w.modulator = modulator.value, w.modulator_by_group = modulator.by_group;
  fill(w, step.data, data, 0);
  const Arrays memory = rule_memory(c);
  Arrays entry = of_groups(slope);
  for (Array& a : entry) a = expand_dims(a, {0});
  entry = rule_.learning_signal(w, memory, BoundRule::SignalTo::Entry, std::move(entry));
  for (Array& a : entry) a = squeeze(a, {0});
  BoundRule::Advanced advanced = rule_.advance(w, memory, {entry, {}, {}});
  const Arrays estimate = rule_.exit_estimate(w, memory, of_groups(states));
  if (!estimate.empty()) {
    const ExitCredit::Found later =
        exit_credit().gradients(steps, params, c.states, stacked_args(inputs, steps), active, estimate);
    for (std::size_t i = 0; i < np; ++i) slope[ns + i] = add_cotangents(slope[ns + i], later.params[i]);
  }

  Learned out;
  out.losses = losses;
  for (const Array& a : aux) out.aux.push_back(expand_dims(a, {0}));
  out.gradients = whole_gradients(advanced.gradients, ArraySpan(slope).subspan(ns), params);
  out.finite = all_finite_early(all_finite(joined({Arrays{counted(losses, weights)}, states})),
                                joined({advanced.memory, out.gradients}));
  out.carry = if_finite(out.finite, {states, next_memory(c, std::move(advanced.memory), steps, active)}, c);
  return out;
}

Arrays WindowPlan::solve(ArraySpan params, const Carry& c, ArraySpan signal) const {
  return rule_.contract(window_data(params, c, 0, {}), rule_memory(c), signal);
}

}  // namespace etrace
