// From a rule and a graph to programs: what a window does (window_plan.cpp) gets its ports, and the
// optimiser's update behind it.
#include "etrace/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/make_program.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "learn/plan/finite_guard.h"
#include "learn/plan/trace_sums.h"
#include "learn/plan/window_choice.h"
#include "learn/plan/window_plan.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"
#include "optim/slots.h"

namespace etrace {

struct PlanBuilder::Impl {
  Impl(const ETraceGraph& g, const LearningRule& r, VjpMethod m)
      : graph(g),
        rule((r.require(m), r.for_method(m))),
        bound(rule->bind(g)),
        windows(g, *bound, m),
        standing(standing_modulator(g, r)) {}
  const ETraceGraph& graph;
  std::shared_ptr<const LearningRule> rule;
  std::unique_ptr<const BoundRule> bound;
  WindowPlan windows;
  Array standing;  // modulator, where none is given
};

PlanBuilder::PlanBuilder(const ETraceGraph& g, const LearningRule& r, VjpMethod m)
    : impl_(std::make_unique<Impl>(g, r, m)) {}
PlanBuilder::~PlanBuilder() = default;
const ETraceGraph& PlanBuilder::graph() const { return impl_->graph; }
const BoundRule& PlanBuilder::rule() const { return *impl_->bound; }
VjpMethod PlanBuilder::method() const { return impl_->windows.method(); }
std::vector<TraceSlot> PlanBuilder::memory() const { return impl_->windows.memory(); }

namespace {

// What programs carry on is finite, and so is data: whoever hands it over has looked at it. Parameters and
// signals come from anywhere.
bool is_known_finite(const Port& p) {
  switch (p.role) {
    case PortRole::State:
    case PortRole::Trace:
    case PortRole::Arg:
    case PortRole::Slice:
    case PortRole::Weight:
      return true;
    default:
      return false;
  }
}

}  // namespace

Program lean(Program p) {
  std::vector<bool> finite;
  for (const Port& port : p.arguments) finite.push_back(is_known_finite(port));
  // What was only looked at is gone after the second time.
  const LeanJaxpr looked = simplify(look_early(simplify(std::move(p.jaxpr)).to_run(), finite));
  p.jaxpr = guard_passes(sum_in_passes(looked.to_run()));
  return exchange_buffers(std::move(p));
}

const Program& LearnerPlan::at(std::string_view name) const {
  std::string known;
  for (const Program& p : programs) {
    if (p.name == name) return p;
    known += (known.empty() ? "" : ", ") + p.name;
  }
  throw ValueError("plan", fmt::format("there is no program {}; there are: {}", name, known));
}

namespace {

// The ports that most programs begin with, and how many there are of each.
struct CarriedPorts {
  std::vector<Port> list;
  std::size_t params = 0, states = 0, memory = 0;

  explicit CarriedPorts(const WindowPlan& plan) {
    const ModuleInfo& info = plan.graph().module_info;
    for (const ParamLeaf& l : param_leaves(info))
      list.push_back({to_string(ParamLeafId{l.path, l.leaf, l.key}), PortRole::Param,
                      info.jaxpr().invars[l.input].aval});
    params = list.size();
    for (std::size_t i = 0; i < info.model.inputs.size(); ++i)
      if (is_state(info.model.inputs[i].role))
        list.push_back({state_leaf_name(info.model.inputs[i]), PortRole::State, info.jaxpr().invars[i].aval});
    states = list.size() - params;
    for (const TraceSlot& s : plan.memory()) list.push_back({s.name, s.role, s.aval});
    memory = list.size() - params - states;
  }
};

Aval with_time(const Aval& a, std::optional<std::int64_t> length) {
  return length ? Aval{a.dtype, a.shape.with_front(*length)} : a;
}

// Gradients of Σ weight·loss, divided by the sum of the weights for a mean. Afterwards and not before: a
// rule's signal need not be proportional to the weights.
Arrays reduced(Arrays gradients, const Array& total, Reduction reduction, Compat compat) {
  if (reduction == Reduction::Sum) return gradients;
  const Array divisor =
      compat == Compat::Braintrace ? maximum(total, 1.0) : where(total > 0.0, total, full_like(total, 1.0));
  for (Array& g : gradients) g = g / convert(divisor, g.dtype());
  return gradients;
}

// What a window learns from.
struct Data {
  Arrays slices;    // [K, …]
  Array weights;    // [K] or [K, B]
  Array modulator;  // [K, …]; undefined: none
  bool by_group = false;
};

// Losses and aux without the time axis that a single step does not have.
void add_losses(Results& out, const Learned& l, bool time_axis) {
  const auto shown = [&](const Array& a) { return time_axis ? a : squeeze(a, {0}); };
  out.add("losses", PortRole::Loss, shown(l.losses));
  for (std::size_t i = 0; i < l.aux.size(); ++i)
    out.add(fmt::format("aux{}", i), PortRole::Aux, shown(l.aux[i]));
}

// Slices, weights and modulator at the end of the arguments.
void add_data_ports(std::vector<Port>& ports, const WindowPlan& plan, std::span<const Aval> slices,
                    const WindowForm& form) {
  for (std::size_t i = 0; i < slices.size(); ++i)
    ports.push_back({fmt::format("slice{}", i), PortRole::Slice, with_time(slices[i], form.steps)});
  const Shape one = form.samples ? Shape{*form.samples} : Shape{};
  if (form.weighted)
    ports.push_back({"weights", PortRole::Weight, with_time({working_dtype(plan.graph()), one}, form.steps)});
  if (form.modulator)
    ports.push_back({"modulator", PortRole::Signal,
                     form.modulator_per_step ? with_time(*form.modulator, form.steps) : *form.modulator});
}

Data take_data(ArraySpan in, std::size_t slices, const WindowForm& form, Dtype dtype) {
  const std::int64_t steps = form.steps.value_or(1);
  const auto timed = [&](const Array& a) { return form.steps ? a : expand_dims(a, {0}); };
  Data d;
  for (const Array& a : take_front(in, slices)) d.slices.push_back(timed(a));
  d.weights = form.weighted ? timed(take_front(in, 1)[0]) : full({steps}, 1.0, dtype);
  d.by_group = form.modulator_by_group;
  if (form.modulator)
    d.modulator = form.modulator_per_step
                      ? timed(in[0])
                      : broadcast_to(expand_dims(in[0], {0}), in[0].shape().with_front(steps));
  return d;
}

Learned learn(const WindowPlan& plan, const StepProgram& program, const WindowForm& form, ArraySpan params,
              ArraySpan states, ArraySpan memory, const Data& data) {
  const Array active = form.freeze ? not_equal_to(data.weights, 0.0) : Array();
  return plan.learn(params, {to_list(states), to_list(memory)}, program, data.slices, data.weights, active,
                    {data.modulator, data.by_group});
}

// An update that changes nothing unless its gradient is finite, and no element whose new value is not;
// `updated` says whether there was none of these. `weight`: of all that was learned from; without any there
// is no update: averages, decays and counts stay. Undefined: there is some.
struct Update {
  Arrays params, state;
  Array finite, updated;

  Update(const optim::Optimizer& optimizer, std::span<const ParamLeafId> leaves, ArraySpan old,
         ArraySpan gradients, ArraySpan slots, ArraySpan rates, const Array& so_far, const Array& weight) {
    finite = so_far.defined() ? so_far : all_finite(gradients);
    const Array counts = weight.defined() ? weight > 0.0 : Array();
    const Array go = counts.defined() ? logical_and(finite, counts) : finite;
    const optim::Updated next = optimizer.apply(old, gradients, slots, leaves, rates);
    const auto good = [&](const Array& a) {
      return is_floating(a.dtype()) ? logical_and(is_finite(a), go) : go;
    };
    for (std::size_t i = 0; i < old.size(); ++i) {
      const Array& p = next.params[i];
      params.push_back(select_n(good(p), Arrays{old[i], p}));
    }
    for (std::size_t i = 0; i < slots.size(); ++i)
      state.push_back(select_n(good(next.state[i]), Arrays{slots[i], next.state[i]}));
    updated = all_finite(joined({next.params, next.state}));
    if (counts.defined()) updated = logical_or(updated, logical_not(counts));
  }
  void add_answers(Results& out) const {
    out.add(kFinitePort, PortRole::Finite, finite);
    out.add(kUpdatedPort, PortRole::Finite, updated);
  }
};

}  // namespace

std::vector<std::int64_t> window_lengths(std::int64_t length, std::int64_t window) {
  std::vector<std::int64_t> out(static_cast<std::size_t>(length / window), window);
  for (std::int64_t rest = length % window; rest > 0; rest -= out.back()) {
    std::int64_t power = 1;
    while (2 * power <= rest) power *= 2;
    const std::int64_t between = power + power / 2;
    out.push_back(power > 1 && between <= rest ? between : power);
  }
  return out;
}

// Programs --------------------------------------------------------------------------------------------------
StepProgram PlanBuilder::objective(const StepFunction& f, std::span<const Aval> slices,
                                   std::optional<std::int64_t> chunk,
                                   std::optional<std::int64_t> samples) const {
  const ETraceGraph& g = graph();
  const bool multi = method() == VjpMethod::MultiStep;
  if (chunk && *chunk < 1)
    throw ValueError("step_fn", fmt::format("chunk_size is {}; it must be at least 1", *chunk));
  if (!chunk)
    return multi ? StepProgram::trace_unit_window(g, f, slices, samples)
                 : StepProgram::trace(g, f, slices, std::nullopt, samples);
  if (!multi)
    throw ValueError("step_fn",
                     fmt::format("chunk_size {} needs a learner with vjp_method multi-step; this one is "
                                 "single-step and runs in windows by itself",
                                 *chunk));
  Avals types;
  for (const Aval& a : slices) types.push_back(with_time(a, *chunk));
  return StepProgram::trace(g, f, types, *chunk, samples);
}

ExecutionChoice PlanBuilder::execution(std::optional<std::int64_t> wanted,
                                       std::optional<std::int64_t> memory_limit) const {
  return choose_window(graph(), rule(), wanted, memory_limit);
}

Program PlanBuilder::init(std::uint64_t seed) const {
  return make_program("init", {}, [&](ArraySpan, Results& out) {
    const std::vector<TraceSlot> slots = memory();
    const Arrays values = initial_memory(seed);
    for (std::size_t i = 0; i < slots.size(); ++i) out.add(slots[i].name, slots[i].role, values[i]);
  });
}

Arrays PlanBuilder::initial_memory(std::uint64_t seed) const { return impl_->windows.initial_memory(seed); }

Program PlanBuilder::evolve(const EvolveForm& form) const {
  const WindowPlan& plan = impl_->windows;
  const CarriedPorts carried(plan);
  std::vector<Port> ports = carried.list;
  const Avals args = argument_types(graph());
  std::vector<bool> many = form.many;
  many.resize(args.size(), form.steps.has_value());
  for (std::size_t i = 0; i < args.size(); ++i)
    ports.push_back(
        {fmt::format("arg{}", i), PortRole::Arg, many[i] ? with_time(args[i], form.steps) : args[i]});
  const Shape one = form.samples ? Shape{*form.samples} : Shape{};
  if (form.freeze)
    ports.push_back({"weights", PortRole::Weight, with_time({working_dtype(graph()), one}, form.steps)});
  return make_program(form.steps ? "evolve_window" : "evolve", ports, [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, carried.params), s = take_front(in, carried.states),
                    m = take_front(in, carried.memory), x = take_front(in, args.size());
    std::vector<StepInput> inputs;
    for (std::size_t i = 0; i < x.size(); ++i)
      inputs.push_back(many[i] ? StepInput(MultiStepData{x[i]}) : StepInput(x[i]));
    Array active;
    if (form.freeze) active = not_equal_to(form.steps ? in[0] : expand_dims(in[0], {0}), 0.0);
    const Driven d = plan.drive(p, {to_list(s), to_list(m)}, inputs, active);
    out.add_all("result", PortRole::Result, d.outputs);
    out.replace(carried.params, joined({d.carry.states, d.carry.memory}));
    out.add(kFinitePort, PortRole::Finite, d.finite);
  });
}

Program PlanBuilder::gradient(const StepProgram& objective, std::span<const Aval> slices,
                              const WindowForm& form) const {
  const WindowPlan& plan = impl_->windows;
  const CarriedPorts carried(plan);
  std::vector<Port> ports = carried.list;
  add_data_ports(ports, plan, slices, form);
  return make_program(form.steps ? "gradient" : "step", ports, [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, carried.params), s = take_front(in, carried.states),
                    m = take_front(in, carried.memory);
    const Data data = take_data(in, slices.size(), form, working_dtype(graph()));
    const Learned l = learn(plan, objective, form, p, s, m, data);
    add_losses(out, l, form.steps.has_value());
    out.replace(carried.params, joined({l.carry.states, l.carry.memory}));
    for (std::size_t i = 0; i < p.size(); ++i)
      out.add(carried.list[i].name, PortRole::Gradient, l.gradients[i]);
    out.add(kFinitePort, PortRole::Finite, l.finite);
  });
}

Program PlanBuilder::window(const StepProgram& objective, std::span<const Aval> slices,
                            const WindowForm& form) const {
  const WindowPlan& plan = impl_->windows;
  const CarriedPorts carried(plan);
  std::vector<Port> ports = carried.list;
  for (std::size_t i = 0; i < carried.params; ++i)
    ports.push_back({carried.list[i].name, PortRole::Gradient, carried.list[i].aval});
  add_data_ports(ports, plan, slices, form);
  return make_program(form.steps ? "window" : "window_of_one", ports, [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, carried.params), s = take_front(in, carried.states),
                    m = take_front(in, carried.memory), sums = take_front(in, carried.params);
    const Data data = take_data(in, slices.size(), form, working_dtype(graph()));
    const Learned l = learn(plan, objective, form, p, s, m, data);
    add_losses(out, l, form.steps.has_value());
    Arrays next;
    for (std::size_t i = 0; i < sums.size(); ++i) next.push_back(sums[i] + l.gradients[i]);
    out.replace(carried.params, joined({l.carry.states, l.carry.memory, if_finite(l.finite, next, sums)}));
    out.add(kFinitePort, PortRole::Finite, l.finite);
  });
}

Program PlanBuilder::train(const StepProgram& objective, std::span<const Aval> slices, const WindowForm& form,
                           const optim::Optimizer& optimizer) const {
  const WindowPlan& plan = impl_->windows;
  const CarriedPorts carried(plan);
  const std::vector<ParamLeafId> leaves = param_leaf_ids(graph().module_info);
  const optim::OptimizerPorts own(optimizer, leaves, std::span(carried.list).first(carried.params));
  std::vector<Port> ports = joined_ports({carried.list, own.slots, own.hyper});
  add_data_ports(ports, plan, slices, form);
  return make_program(form.steps ? "train_window" : "train_step", ports, [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, carried.params), s = take_front(in, carried.states),
                    m = take_front(in, carried.memory), o = take_front(in, own.slots.size()),
                    rates = take_front(in, own.hyper.size());
    const Data data = take_data(in, slices.size(), form, working_dtype(graph()));
    const Learned l = learn(plan, objective, form, p, s, m, data);
    const Array weight = sum(data.weights);
    const Arrays g = reduced(l.gradients, weight, form.reduction, graph().options.compat);
    const Update update(optimizer, leaves, p, g, o, rates, l.finite, form.weighted ? weight : Array());
    add_losses(out, l, form.steps.has_value());
    out.replace(carried.params, joined({l.carry.states, l.carry.memory}));
    out.replace(0, update.params);
    out.replace(carried.list.size(), update.state);
    update.add_answers(out);
  });
}

Program PlanBuilder::update(const optim::Optimizer& optimizer, Reduction reduction) const {
  const CarriedPorts carried(impl_->windows);
  const std::span<const Port> params = std::span(carried.list).first(carried.params);
  const std::vector<ParamLeafId> leaves = param_leaf_ids(graph().module_info);
  const optim::OptimizerPorts own(optimizer, leaves, params);
  std::vector<Port> ports = joined_ports({params, own.slots, own.hyper});
  const std::size_t first_sum = ports.size();
  for (const Port& p : params) ports.push_back({p.name, PortRole::Gradient, p.aval});
  ports.push_back({"total_weight", PortRole::Weight, {working_dtype(graph()), {}}});
  return make_program("update", ports, [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, params.size()), o = take_front(in, own.slots.size()),
                    rates = take_front(in, own.hyper.size()), sums = take_front(in, params.size());
    const Arrays g = reduced(to_list(sums), in[0], reduction, graph().options.compat);
    const Update update(optimizer, leaves, p, g, o, rates, {}, in[0]);
    out.replace(0, joined({update.params, update.state}));
    update.add_answers(out);
    Arrays zeros;
    for (const Array& a : sums) zeros.push_back(zeros_of(a.aval()));
    out.replace(first_sum, zeros);
  });
}

Program PlanBuilder::solve() const {
  const WindowPlan& plan = impl_->windows;
  const CarriedPorts carried(plan);
  std::vector<Port> ports(carried.list.begin(),
                          carried.list.begin() + static_cast<std::ptrdiff_t>(carried.params));
  ports.insert(ports.end(), carried.list.end() - static_cast<std::ptrdiff_t>(carried.memory),
               carried.list.end());
  for (const HiddenGroup& g : graph().hidden_groups) {
    Dims dims = g.varshape().to_dims();
    dims.push_back(g.num_state());
    ports.push_back({fmt::format("signal{}", g.index),
                     PortRole::Signal,
                     {g.hidden_states.front().invar.aval.dtype, Shape(dims)}});
  }
  return make_program("solve", ports, [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, carried.params), m = take_front(in, carried.memory);
    const Arrays g = plan.solve(p, {{}, to_list(m)}, in);
    for (std::size_t i = 0; i < g.size(); ++i)
      if (g[i].defined()) out.add(carried.list[i].name, PortRole::Gradient, g[i]);
  });
}

LearnerPlan PlanBuilder::plan(const StepFunction& f, std::span<const Aval> slices, std::int64_t steps,
                              const optim::Optimizer* optimizer, std::optional<Aval> modulator,
                              bool modulator_by_group) const {
  const bool windows = steps > 1;
  WindowForm step;
  if (!modulator && impl_->standing.defined()) modulator = impl_->standing.aval();
  step.modulator = modulator;
  step.modulator_by_group = modulator_by_group;
  WindowForm window = step;
  if (windows) window.steps = steps;
  const StepProgram one = objective(f, slices);
  const StepProgram many = method() == VjpMethod::SingleStep
                               ? one
                               : objective(in_windows(StepProgram::trace(graph(), f, slices)), slices, steps);
  LearnerPlan out;
  out.programs = {init(), evolve({})};
  if (windows) out.programs.push_back(evolve({.steps = steps}));
  out.programs.push_back(gradient(one, slices, step));
  out.programs.push_back(this->window(many, slices, window));
  if (optimizer != nullptr) {
    out.programs.push_back(train(one, slices, step, *optimizer));
    if (windows) out.programs.push_back(train(many, slices, window, *optimizer));
    out.programs.push_back(update(*optimizer, Reduction::Mean));
  }
  out.programs.push_back(solve());
  return out;
}

}  // namespace etrace
