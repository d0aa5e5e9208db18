// From a rule and a graph to programs.
#include "etrace/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/interface.h"
#include "learn/window.h"

namespace etrace {

namespace {

Arrays joined(std::initializer_list<ArraySpan> parts) {
  Arrays out;
  for (const ArraySpan part : parts) out.insert(out.end(), part.begin(), part.end());
  return out;
}

ArraySpan take_front(ArraySpan& from, std::size_t count) {
  const ArraySpan front = from.first(count);
  from = from.subspan(count);
  return front;
}

Avals with_steps(std::span<const Aval> types, std::int64_t steps) {
  Avals out;
  for (const Aval& a : types) out.push_back({a.dtype, a.shape.with_front(steps)});
  return out;
}

// f once per step: by a loop, or, for one step, written out. Everything that f gives besides the carry comes
// back with a leading axis.
ScanResult over_steps(std::int64_t steps, const ScanBody& f, const Arrays& init, const Arrays& xs) {
  if (steps != 1) return scan(f, init, xs, {.length = steps});
  Arrays now;
  for (const Array& x : xs) now.push_back(squeeze(slice_axis(x, 0, 0, 1), {0}));
  ScanResult r = f(init, now);
  for (Array& y : r.ys) y = expand_dims(y, {0});
  return r;
}

// Steps that do not count leave what is carried as it was.
Arrays unless_frozen(const Array& active, Arrays next, ArraySpan old) {
  if (!active.defined()) return next;
  for (std::size_t i = 0; i < next.size(); ++i) next[i] = where(active, next[i], old[i]);
  return next;
}

bool is_zero(const Array& a) {
  if (!a.defined()) return true;
  const std::optional<Scalar> value = a.splat();
  return value && to_double(*value) == 0.0;
}

// What the traces need of a step, as one list that a loop can carry out, and back.
struct Collected {
  std::vector<std::size_t> df_counts;
  std::size_t kept = 0;

  Arrays flat(const Arrays& kept_values, const StepData& data) {
    Arrays out = kept_values;
    kept = out.size();
    df_counts.clear();
    for (const Arrays& list : data.df) {
      df_counts.push_back(list.size());
      out.insert(out.end(), list.begin(), list.end());
    }
    out.insert(out.end(), data.jacobians.begin(), data.jacobians.end());
    return out;
  }
  void restore(ArraySpan stacked, WindowData& w) const {
    const ArraySpan k = take_front(stacked, kept);
    w.kept.assign(k.begin(), k.end());
    w.df.clear();
    for (const std::size_t count : df_counts) {
      const ArraySpan df = take_front(stacked, count);
      w.df.emplace_back(df.begin(), df.end());
    }
    w.jacobians.assign(stacked.begin(), stacked.end());
  }
};

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
  Arrays xs;
  for (const StepInput& a : args)
    if (std::holds_alternative<MultiStepData>(a)) xs.push_back(value_of(a));
  if (active.defined()) xs.push_back(active);
  std::size_t num_outputs = 0;
  Collected collected;
  const ScanResult r = over_steps(
      steps,
      [&](ArraySpan states, ArraySpan now) -> ScanResult {
        Arrays step_args;
        std::size_t next = 0;
        for (const StepInput& a : args)
          step_args.push_back(std::holds_alternative<MultiStepData>(a) ? now[next++] : value_of(a));
        const StepValues v =
            executor_.solve_h2w_h2h_jacobian(executor_.program_inputs(step_args, states, params));
        num_outputs = v.outputs.size();
        return {unless_frozen(active.defined() ? now.back() : Array(), v.states, states),
                joined({v.outputs, collected.flat(rule_.keep(graph_, v.data), v.data)})};
      },
      c.states, xs);
  WindowData w = window_data(params, c, steps, active);
  collected.restore(ArraySpan(r.ys).subspan(num_outputs), w);
  Driven out;
  out.carry.states = r.carry;
  out.carry.memory = next_memory(c, rule_.advance(graph_, w, traces(c), {}).traces, steps, active);
  for (std::size_t i = 0; i < num_outputs; ++i)
    out.outputs.push_back(length ? r.ys[i] : squeeze(r.ys[i], {0}));
  return out;
}

PlanBuilder::Learned PlanBuilder::learn(ArraySpan params, const Carry& c, const StepProgram& program,
                                        ArraySpan slices, const Array& weights, const Array& active) const {
  return program.window ? learn_window(params, c, program, slices, weights, active)
                        : learn_steps(params, c, program, slices, weights, active);
}

// Every step's loss meets the trace after that step.
PlanBuilder::Learned PlanBuilder::learn_steps(ArraySpan params, const Carry& c, const StepProgram& program,
                                              ArraySpan slices, const Array& weights,
                                              const Array& active) const {
  const std::int64_t steps = weights.shape()[0];
  const std::size_t num_states = c.states.size(), num_groups = graph_.hidden_groups.size();
  Collected collected;
  std::size_t num_aux = 0;
  // One step; `direct` names the parameters whose instantaneous gradient is summed in the carry.
  std::vector<std::size_t> direct;
  const auto one_step = [&](ArraySpan states, ArraySpan x, const Array& weight, Arrays& instantaneous) {
    const Arrays in = executor_.program_inputs(program.arguments(x), states, params);
    const StepValues v = executor_.solve_h2w_h2h_jacobian(in);
    const StepGradient g = executor_.step_gradient(in, [&](ArraySpan out) {
      const Array loss = program.loss(x, out).loss;
      return loss * convert(weight, loss.dtype());
    });
    const LossAndAux here = program.loss(x, v.outputs);
    num_aux = here.aux.size();
    instantaneous = g.instantaneous;
    return std::pair(v.states, joined({Arrays{here.loss}, here.aux, g.group_signal,
                                       collected.flat(rule_.keep(graph_, v.data), v.data)}));
  };
  {
    Avals types = avals_of(c.states);
    for (const Array& s : slices) types.push_back({s.dtype(), s.shape().without(0)});
    types.push_back({weights.dtype(), {}});
    record(types, [&](ArraySpan in) {
      Arrays instantaneous;
      one_step(in.first(num_states), in.subspan(num_states, slices.size()), in.back(), instantaneous);
      for (std::size_t i = 0; i < instantaneous.size(); ++i)
        if (!is_zero(instantaneous[i])) direct.push_back(i);
      return Arrays{};
    });
  }
  Arrays init = c.states;
  for (const std::size_t i : direct) init.push_back(zeros_of(params[i].aval()));
  Arrays xs(slices.begin(), slices.end());
  xs.push_back(weights);
  if (active.defined()) xs.push_back(active);
  const ScanResult r = over_steps(
      steps,
      [&](ArraySpan carry, ArraySpan now) -> ScanResult {
        Arrays instantaneous;
        auto [states, ys] =
            one_step(carry.first(num_states), now.first(slices.size()), now[slices.size()], instantaneous);
        Arrays next = unless_frozen(active.defined() ? now.back() : Array(), states, carry.first(num_states));
        for (std::size_t i = 0; i < direct.size(); ++i)
          next.push_back(carry[num_states + i] + instantaneous[direct[i]]);
        return {next, ys};
      },
      init, xs);

  Learned out;
  ArraySpan ys = r.ys;
  out.losses = take_front(ys, 1)[0];
  const ArraySpan aux = take_front(ys, num_aux), signals = take_front(ys, num_groups);
  out.aux.assign(aux.begin(), aux.end());
  WindowData w = window_data(params, c, steps, active);
  collected.restore(ys, w);
  LearningRule::Advanced advanced =
      rule_.advance(graph_, w, traces(c), {{}, Arrays(signals.begin(), signals.end())});
  out.carry.states.assign(r.carry.begin(), r.carry.begin() + static_cast<std::ptrdiff_t>(num_states));
  out.carry.memory = next_memory(c, std::move(advanced.traces), steps, active);
  out.gradients = std::move(advanced.gradients);
  for (std::size_t i = 0; i < direct.size(); ++i)
    out.gradients[direct[i]] = add_cotangents(out.gradients[direct[i]], r.carry[num_states + i]);
  for (std::size_t i = 0; i < params.size(); ++i)
    out.gradients[i] = instantiate(out.gradients[i], params[i].aval());
  return out;
}

// Reverse mode inside the window; the signal at its entry meets the trace from before.
PlanBuilder::Learned PlanBuilder::learn_window(ArraySpan params, const Carry& c, const StepProgram& program,
                                               ArraySpan slices, const Array& weights,
                                               const Array& active) const {
  const std::int64_t steps = *program.window;
  const std::size_t ns = c.states.size();
  const ModuleInfo& info = graph_.module_info;
  const Arrays args = program.arguments(slices);
  std::vector<StepInput> inputs;
  for (std::size_t i = 0; i < args.size(); ++i)
    inputs.push_back(program.multi_step[i] ? StepInput(MultiStepData{args[i]}) : StepInput(args[i]));

  // Σ weight·loss as a function of entry states and parameters.
  Arrays at = joined({c.states, params});
  std::vector<int> wanted;
  for (std::size_t i = 0; i < at.size(); ++i)
    if (is_floating(at[i].dtype())) wanted.push_back(static_cast<int>(i));
  const auto loss_of = [&](ArraySpan a) {
    Arrays xs;
    for (std::size_t i = 0; i < args.size(); ++i)
      if (program.multi_step[i]) xs.push_back(args[i]);
    if (active.defined()) xs.push_back(active);
    const ScanResult r = scan(
        [&](ArraySpan states, ArraySpan now) -> ScanResult {
          Arrays step_args;
          std::size_t next = 0;
          for (std::size_t i = 0; i < args.size(); ++i)
            step_args.push_back(program.multi_step[i] ? now[next++] : args[i]);
          const Arrays out =
              eval_jaxpr(info.closed_jaxpr, executor_.program_inputs(step_args, states, a.subspan(ns)));
          ScanResult s;
          for (std::size_t i = 0; i < info.model.outputs.size(); ++i) {
            if (is_state(info.model.outputs[i].role)) s.carry.push_back(out[i]);
            if (info.model.outputs[i].role == Role::Out) s.ys.push_back(out[i]);
          }
          s.carry = unless_frozen(active.defined() ? now.back() : Array(), s.carry, states);
          return s;
        },
        Arrays(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(ns)), xs, {.length = steps});
    return program.loss(slices, r.ys);
  };
  const Arrays found = value_and_grad(
      [&](ArraySpan a) {
        const Array losses = loss_of(a).loss;
        return sum(losses * convert(weights, losses.dtype()));
      },
      wanted)(at);
  Arrays slope(at.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) slope[static_cast<std::size_t>(wanted[i])] = found[1 + i];
  const LossAndAux here = loss_of(at);

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

  // What the traces need of every step.
  Collected collected;
  Arrays xs;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (program.multi_step[i]) xs.push_back(args[i]);
  if (active.defined()) xs.push_back(active);
  const ScanResult r = over_steps(
      steps,
      [&](ArraySpan states, ArraySpan now) -> ScanResult {
        Arrays step_args;
        std::size_t next = 0;
        for (std::size_t i = 0; i < args.size(); ++i)
          step_args.push_back(program.multi_step[i] ? now[next++] : args[i]);
        const StepValues v =
            executor_.solve_h2w_h2h_jacobian(executor_.program_inputs(step_args, states, params));
        return {unless_frozen(active.defined() ? now.back() : Array(), v.states, states),
                collected.flat(rule_.keep(graph_, v.data), v.data)};
      },
      c.states, xs);
  WindowData w = window_data(params, c, steps, active);
  collected.restore(r.ys, w);
  LearningRule::Advanced advanced = rule_.advance(graph_, w, traces(c), signals);

  Learned out;
  out.losses = here.loss;
  for (const Array& a : here.aux) out.aux.push_back(expand_dims(a, {0}));
  out.carry.states = r.carry;
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
    return std::pair(p, Carry{Arrays(h.begin(), h.end()), Arrays(m.begin(), m.end())});
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
        return solve(p, Carry{{}, Arrays(m.begin(), m.end())}, x);
      },
      in));
  return plan;
}

}  // namespace etrace
