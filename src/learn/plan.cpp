// From a rule and a graph to programs.
#include "etrace/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/interface.h"
#include "learn/lists.h"
#include "learn/window.h"

namespace etrace {

namespace {

Avals with_steps(std::span<const Aval> types, std::int64_t steps) {
  Avals out;
  for (const Aval& a : types) out.push_back({a.dtype, a.shape.with_front(steps)});
  return out;
}

// Steps that do not count leave what is carried as it was.
Arrays unless_frozen(const Array& active, Arrays next, ArraySpan old) {
  if (!active.defined()) return next;
  for (std::size_t i = 0; i < next.size(); ++i) next[i] = where(active, next[i], old[i]);
  return next;
}

}  // namespace

PlanBuilder::PlanBuilder(const ETraceGraph& graph, const LearningRule& rule)
    : graph_(graph), rule_(rule), executor_(graph) {}

std::vector<LearningRule::Slot> PlanBuilder::memory() const {
  std::vector<LearningRule::Slot> out = rule_.slots(graph_);
  out.push_back({"age", {Dtype::I32, {}}});
  out.push_back({"calls", {Dtype::I32, {}}});
  return out;
}

Avals PlanBuilder::state_types() const { return etrace::state_types(graph_); }

Avals PlanBuilder::param_types() const {
  Avals out;
  for (const ParamLeaf& l : param_leaves(graph_.module_info))
    out.push_back(graph_.module_info.jaxpr().invars[l.input].aval);
  return out;
}

Arrays PlanBuilder::initial_memory() const {
  Arrays out;
  for (const LearningRule::Slot& s : memory()) out.push_back(zeros_of(s.aval));
  return out;
}

// Arguments of every step, [K, …] also where they do not change.
Arrays PlanBuilder::stacked_args(std::span<const StepInput> args, std::int64_t steps) const {
  Arrays out;
  for (const StepInput& a : args) {
    const Array& x = value_of(a);
    const bool many = std::holds_alternative<MultiStepData>(a);
    out.push_back(many ? x : broadcast_to(expand_dims(x, {0}), x.shape().with_front(steps)));
  }
  return out;
}

// The model alone, step after step: all that must be done in sequence.
PlanBuilder::Forward PlanBuilder::forward(ArraySpan params, const Carry& c, const Arrays& args,
                                          std::int64_t steps, const Array& active) const {
  const ModuleInfo& info = graph_.module_info;
  Arrays xs = args;
  if (active.defined()) xs.push_back(active);
  const std::size_t num_args = args.size();
  ScanResult r = over_steps(
      steps,
      [&](ArraySpan states, ArraySpan now) -> ScanResult {
        const Arrays out =
            eval_jaxpr(info.closed_jaxpr, executor_.program_inputs(now.first(num_args), states, params));
        ScanResult s;
        s.ys.assign(states.begin(), states.end());
        for (std::size_t i = 0; i < info.model.outputs.size(); ++i) {
          if (is_state(info.model.outputs[i].role)) s.carry.push_back(out[i]);
          if (info.model.outputs[i].role == Role::Out) s.ys.push_back(out[i]);
        }
        s.carry = unless_frozen(active.defined() ? now.back() : Array(), s.carry, states);
        return s;
      },
      c.states, xs);
  Forward f;
  f.states = std::move(r.carry);
  f.batch.steps = steps;
  f.batch.args = args;
  f.batch.params.assign(params.begin(), params.end());
  f.batch.states.assign(r.ys.begin(), r.ys.begin() + static_cast<std::ptrdiff_t>(c.states.size()));
  f.outputs.assign(r.ys.begin() + static_cast<std::ptrdiff_t>(c.states.size()), r.ys.end());
  return f;
}

WindowData PlanBuilder::window_data(ArraySpan params, const Carry& c, std::int64_t steps,
                                    const Array& active) const {
  WindowData w;
  w.steps = steps;
  w.params.assign(params.begin(), params.end());
  for (const HiddenParamOpRelation& r : graph_.hidden_param_op_relations)
    w.operands.push_back(parameter_operands(graph_, r, params));
  w.active = active;
  w.age = c.memory[c.memory.size() - 2];
  w.calls = c.memory.back();
  return w;
}

// With what the steps give to the traces.
WindowData PlanBuilder::window_data(const Forward& f, const Carry& c, const Array& active) const {
  WindowData w = window_data(f.batch.params, c, f.batch.steps, active);
  ETraceGraphExecutor::StackedData data =
      executor_.step_data(f.batch, [&](const StepData& d) { return rule_.keep(graph_, d); });
  w.kept = std::move(data.kept);
  w.df = std::move(data.df);
  w.jacobians = std::move(data.jacobians);
  return w;
}

Arrays PlanBuilder::next_memory(const Carry& old, Arrays traces, std::int64_t steps,
                                const Array& active) const {
  const Array& age = old.memory[old.memory.size() - 2];
  traces.push_back(active.defined() ? age + sum(convert(active, Dtype::I32)) : age + Array(steps));
  // One step is one call in single-step mode, whatever the window that runs it.
  const bool one_call = rule_.vjp_method() == VjpMethod::MultiStep;
  traces.push_back(old.memory.back() + Array(one_call ? std::int64_t{1} : steps));
  return traces;
}

PlanBuilder::Driven PlanBuilder::drive(ArraySpan params, const Carry& c, std::span<const StepInput> args,
                                       const Array& active) const {
  const std::optional<std::int64_t> length = multi_step_length(args);
  const std::int64_t steps = length.value_or(1);
  const Forward f = forward(params, c, stacked_args(args, steps), steps, active);
  Driven out;
  out.carry.states = f.states;
  out.carry.memory =
      next_memory(c, rule_.advance(graph_, window_data(f, c, active), traces(c), {}).traces, steps, active);
  for (const Array& y : f.outputs) out.outputs.push_back(length ? y : squeeze(y, {0}));
  return out;
}

PlanBuilder::Learned PlanBuilder::learn(ArraySpan params, const Carry& c, const StepProgram& program,
                                        ArraySpan slices, const Array& weights, const Array& active) const {
  return program.window ? learn_window(params, c, program, slices, weights, active)
                        : learn_steps(params, c, program, slices, weights, active);
}

namespace {

// A signal to the state before a step is one to the state after the step before it; the first is at the
// entry of the window.
void add_signals_before(Signals& signals, const Arrays& before) {
  for (std::size_t g = 0; g < before.size(); ++g) {
    const std::int64_t steps = before[g].shape()[0];
    signals.entry.push_back(squeeze(slice_axis(before[g], 0, 0, 1), {0}));
    if (steps == 1) continue;
    std::vector<PadAxis> axes(before[g].rank());
    axes[0] = {.low = -1, .high = 1};
    signals.each_step[g] =
        signals.each_step[g] + pad(before[g], convert(Array(0.0), before[g].dtype()), axes);
  }
}

}  // namespace

// Every step's loss meets the trace after that step. Steps differ in their entry state only, so all but the
// model itself is done for all of them at once.
PlanBuilder::Learned PlanBuilder::learn_steps(ArraySpan params, const Carry& c, const StepProgram& program,
                                              ArraySpan slices, const Array& weights,
                                              const Array& active) const {
  const std::int64_t steps = weights.shape()[0];
  const Arrays args = side_by_side(
      steps, [&](ArraySpan x) { return program.arguments(x); }, slices);
  const Forward f = forward(params, c, args, steps, active);
  const Arrays weighted = joined({slices, Arrays{weights}});
  const StepGradients g =
      executor_.step_gradients(f.batch, weighted, [&](ArraySpan extra, ArraySpan outputs) {
        const Array loss = program.loss(extra.first(slices.size()), outputs).loss;
        return loss * convert(extra.back(), loss.dtype());
      });
  const Arrays losses = side_by_side(
      steps,
      [&](ArraySpan m) {
        const LossAndAux l = program.loss(m.first(slices.size()), m.subspan(slices.size()));
        return joined({Arrays{l.loss}, l.aux});
      },
      joined({slices, f.outputs}));
  Signals signals{{}, g.group_signal};
  add_signals_before(signals, g.entry_signal);
  LearningRule::Advanced advanced = rule_.advance(graph_, window_data(f, c, active), traces(c), signals);

  Learned out;
  out.losses = losses[0];
  out.aux.assign(losses.begin() + 1, losses.end());
  out.carry.states = f.states;
  out.carry.memory = next_memory(c, std::move(advanced.traces), steps, active);
  out.gradients = std::move(advanced.gradients);
  for (std::size_t i = 0; i < params.size(); ++i)
    out.gradients[i] = instantiate(add_cotangents(out.gradients[i], g.instantaneous[i]), params[i].aval());
  return out;
}

// Reverse mode inside the window; the signal at its entry meets the trace from before.
PlanBuilder::Learned PlanBuilder::learn_window(ArraySpan params, const Carry& c, const StepProgram& program,
                                               ArraySpan slices, const Array& weights,
                                               const Array& active) const {
  const std::int64_t steps = *program.window;
  const std::size_t ns = c.states.size();
  const Arrays given = program.arguments(slices);
  std::vector<StepInput> inputs;
  for (std::size_t i = 0; i < given.size(); ++i)
    inputs.push_back(program.multi_step[i] ? StepInput(MultiStepData{given[i]}) : StepInput(given[i]));
  const Arrays args = stacked_args(inputs, steps);

  // Σ weight·loss as a function of entry states and parameters.
  const Arrays at = joined({c.states, params});
  std::vector<int> wanted;
  for (std::size_t i = 0; i < at.size(); ++i)
    if (is_floating(at[i].dtype())) wanted.push_back(static_cast<int>(i));
  const ScalarFunction total = [&](ArraySpan a) {
    const Carry entry{to_list(a.first(ns)), {}};
    const Forward run = forward(a.subspan(ns), entry, args, steps, active);
    const Array losses = program.loss(slices, run.outputs).loss;
    return sum(losses * convert(weights, losses.dtype()));
  };
  const Arrays found = value_and_grad(total, wanted)(at);
  Arrays slope(at.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) slope[static_cast<std::size_t>(wanted[i])] = found[1 + i];

  // Entry signal per group.
  Signals signals;
  const std::vector<StatePath> paths = state_paths(graph_);
  for (const HiddenGroup& g : graph_.hidden_groups) {
    Arrays members;
    for (const StatePath& path : g.hidden_paths)
      for (std::size_t i = 0; i < ns; ++i)
        if (paths[i] == path) members.push_back(instantiate(slope[i], at[i].aval()));
    signals.entry.push_back(g.concat_hidden(members));
  }

  const Forward f = forward(params, c, args, steps, active);
  LearningRule::Advanced advanced = rule_.advance(graph_, window_data(f, c, active), traces(c), signals);

  Learned out;
  const LossAndAux here = program.loss(slices, f.outputs);
  out.losses = here.loss;
  for (const Array& a : here.aux) out.aux.push_back(expand_dims(a, {0}));
  out.carry.states = f.states;
  out.carry.memory = next_memory(c, std::move(advanced.traces), steps, active);
  out.gradients = std::move(advanced.gradients);
  for (std::size_t i = 0; i < params.size(); ++i)
    out.gradients[i] = instantiate(add_cotangents(out.gradients[i], slope[ns + i]), params[i].aval());
  return out;
}

Arrays PlanBuilder::solve(ArraySpan params, const Carry& c, ArraySpan signal) const {
  const WindowData w = window_data(params, c, 0, {});
  Arrays out = rule_.contract(graph_, w, traces(c), signal);
  for (std::size_t i = 0; i < params.size(); ++i) out[i] = instantiate(out[i], params[i].aval());
  return out;
}

LearnerPlan PlanBuilder::plan(const StepFunction& f, std::span<const Aval> slices, std::int64_t steps) const {
  LearnerPlan plan;
  plan.params = param_leaf_ids(graph_.module_info);
  plan.memory = memory();
  plan.steps = steps;
  const Avals params = param_types(), states = state_types();
  Avals memory_types, carried = params;
  for (const LearningRule::Slot& s : plan.memory) memory_types.push_back(s.aval);
  carried.insert(carried.end(), states.begin(), states.end());
  carried.insert(carried.end(), memory_types.begin(), memory_types.end());
  const auto split = [&](ArraySpan& in) {
    const ArraySpan p = take_front(in, params.size()), h = take_front(in, states.size()),
                    m = take_front(in, memory_types.size());
    return std::pair(p, Carry{to_list(h), to_list(m)});
  };
  const bool windows = rule_.vjp_method() == VjpMethod::MultiStep;
  // One call of the step function, or of `count` steps.
  const auto learning = [&](std::int64_t count, bool time_axis) {
    Avals in = carried;
    for (const Aval& a : slices) in.push_back(time_axis ? Aval{a.dtype, a.shape.with_front(count)} : a);
    in.push_back({working_dtype(graph_), time_axis ? Shape{count} : Shape{}});
    return simplify(make_jaxpr(
        [&](ArraySpan x) {
          const auto [p, c] = split(x);
          Arrays parts(x.begin(), x.end());
          if (!time_axis)
            for (Array& a : parts) a = expand_dims(a, {0});
          const Array weights = parts.back();
          parts.pop_back();
          const StepProgram program = !windows ? StepProgram::trace(graph_, f, slices)
                                      : time_axis
                                          ? StepProgram::trace(graph_, f, with_steps(slices, count), count)
                                          : StepProgram::trace_unit_window(graph_, f, slices);
          const Learned l = learn(p, c, program, parts, weights);
          Arrays out{time_axis ? l.losses : squeeze(l.losses, {0})};
          for (const Array& a : l.aux) out.push_back(time_axis ? a : squeeze(a, {0}));
          return joined({out, l.carry.states, l.carry.memory, l.gradients});
        },
        in));
  };
  plan.init = make_jaxpr([&](ArraySpan) { return initial_memory(); }, Avals{});
  plan.step = learning(1, false);
  plan.window = learning(steps, true);
  Avals in = carried;
  const Avals args = argument_types(graph_);
  in.insert(in.end(), args.begin(), args.end());
  plan.evolve = simplify(make_jaxpr(
      [&](ArraySpan x) {
        const auto [p, c] = split(x);
        const std::vector<StepInput> inputs(x.begin(), x.end());
        const Driven d = drive(p, c, inputs);
        return joined({d.outputs, d.carry.states, d.carry.memory});
      },
      in));
  in = params;
  in.insert(in.end(), memory_types.begin(), memory_types.end());
  for (const HiddenGroup& g : graph_.hidden_groups) {
    Dims dims = g.varshape().to_dims();
    dims.push_back(g.num_state());
    in.push_back({g.hidden_states.front().invar.aval.dtype, Shape(dims)});
  }
  plan.solve = simplify(make_jaxpr(
      [&](ArraySpan x) {
        const ArraySpan p = take_front(x, params.size()), m = take_front(x, memory_types.size());
        return solve(p, Carry{{}, to_list(m)}, x);
      },
      in));
  return plan;
}

}  // namespace etrace
