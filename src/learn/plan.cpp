// From a rule and a graph to programs. What a window does is in window_plan.cpp; here windows become
// sequences, updates are put between them, and everything gets its ports.
#include "etrace/plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "learn/interface.h"
#include "learn/lists.h"
#include "learn/trace_sums.h"
#include "learn/window_choice.h"
#include "learn/window_plan.h"

namespace etrace {

struct PlanBuilder::Impl {
  Impl(const ETraceGraph& g, const LearningRule& r, VjpMethod m)
      : graph(g), bound((r.require(m), r.bind(g))), windows(g, *bound, m) {}
  const ETraceGraph& graph;
  std::unique_ptr<const BoundRule> bound;
  WindowPlan windows;
};

PlanBuilder::PlanBuilder(const ETraceGraph& g, const LearningRule& r, VjpMethod m)
    : impl_(std::make_unique<Impl>(g, r, m)) {}
PlanBuilder::~PlanBuilder() = default;
const ETraceGraph& PlanBuilder::graph() const { return impl_->graph; }
const BoundRule& PlanBuilder::rule() const { return *impl_->bound; }
VjpMethod PlanBuilder::method() const { return impl_->windows.method(); }
std::vector<TraceSlot> PlanBuilder::memory() const { return impl_->windows.memory(); }

Program lean(Program p) {
  p.jaxpr = sum_in_passes(simplify(p.jaxpr));
  return p;
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

// Results with their ports, in the order they are added.
struct Results {
  const std::vector<Port>& arguments;
  Arrays values = {};
  std::vector<Port> ports = {};
  std::vector<Alias> aliases = {};

  void add(std::string name, PortRole role, const Array& value) {
    ports.push_back({std::move(name), role, value.aval()});
    values.push_back(value);
  }
  void add_all(const char* name, PortRole role, ArraySpan list) {
    for (std::size_t i = 0; i < list.size(); ++i) add(fmt::format("{}{}", name, i), role, list[i]);
  }
  // New values for arguments from `first` on.
  void replace(std::size_t first, ArraySpan list) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      aliases.push_back({values.size(), first + i});
      add(arguments[first + i].name, arguments[first + i].role, list[i]);
    }
  }
};

Program make_program(std::string name, std::vector<Port> arguments,
                     const std::function<void(ArraySpan, Results&)>& f) {
  Program p;
  p.name = std::move(name);
  p.arguments = std::move(arguments);
  Avals types;
  for (const Port& port : p.arguments) types.push_back(port.aval);
  Results results{p.arguments};
  p.jaxpr = make_jaxpr(
      [&](ArraySpan in) {
        f(in, results);
        return results.values;
      },
      types);
  p.results = std::move(results.ports);
  p.aliases = std::move(results.aliases);
  return p;
}

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

// Steps [begin, end) of every sequence.
Arrays time_part(ArraySpan sequences, std::int64_t begin, std::int64_t end) {
  Arrays out;
  for (const Array& a : sequences) out.push_back(slice_axis(a, 0, begin, end));
  return out;
}

// [count·steps, …] -> [count, steps, …] and back.
Array in_blocks(const Array& a, std::int64_t count) {
  Dims dims = a.shape().to_dims();
  dims[0] /= count;
  dims.insert(dims.begin(), count);
  return reshape(a, dims);
}
Array out_of_blocks(const Array& a) {
  Dims dims = a.shape().to_dims();
  dims[1] *= dims[0];
  dims.erase(dims.begin());
  return reshape(a, dims);
}

// f over blocks of `size` steps, in a loop if there are several, and once more over the rest. What f gives
// besides the carry comes back one block after the other in time. `per_block` has one entry per block.
struct Blocks {
  using Body = std::function<ScanResult(ArraySpan carry, ArraySpan sequences, ArraySpan block)>;
  std::int64_t size;
  Arrays carry = {}, collected = {};

  void append(ArraySpan more) {
    for (std::size_t i = 0; i < more.size(); ++i)
      if (i == collected.size())
        collected.push_back(more[i]);
      else
        collected[i] = concatenate(Arrays{collected[i], more[i]});
  }
  void once(const Body& f, ArraySpan sequences, ArraySpan per_block, std::int64_t index, std::int64_t begin,
            std::int64_t end) {
    Arrays own;
    for (const Array& a : time_part(per_block, index, index + 1)) own.push_back(squeeze(a, {0}));
    ScanResult r = f(carry, time_part(sequences, begin, end), own);
    carry = std::move(r.carry);
    append(r.ys);
  }
  void run(const Body& f, Arrays init, ArraySpan sequences, ArraySpan per_block = {}) {
    carry = std::move(init);
    const std::int64_t length = sequences[0].shape()[0], count = length / size, rest = length % size;
    if (count == 1) once(f, sequences, per_block, 0, 0, size);
    if (count > 1) {
      Arrays xs;
      for (const Array& a : sequences) xs.push_back(in_blocks(slice_axis(a, 0, 0, count * size), count));
      for (const Array& a : per_block) xs.push_back(slice_axis(a, 0, 0, count));
      ScanResult r = scan(
          [&](ArraySpan c, ArraySpan now) {
            return f(c, now.first(sequences.size()), now.subspan(sequences.size()));
          },
          carry, xs, {.length = count});
      carry = std::move(r.carry);
      for (Array& y : r.ys) y = out_of_blocks(y);
      append(r.ys);
    }
    if (rest > 0) once(f, sequences, per_block, count, count * size, length);
  }
};

// Gradients of Σ weight·loss, divided by the sum of the weights for a mean. Afterwards and not before: a
// rule's signal need not be proportional to the weights.
Arrays reduced(Arrays gradients, const Array& weights, Reduction reduction, Compat compat) {
  if (reduction == Reduction::Sum) return gradients;
  const Array total = sum(weights);
  const Array divisor =
      compat == Compat::Braintrace ? maximum(total, 1.0) : where(total > 0.0, total, full_like(total, 1.0));
  for (Array& g : gradients) g = g / convert(divisor, g.dtype());
  return gradients;
}

// What a program of sequences learns from.
struct Data {
  Arrays slices;    // [T, …]
  Array weights;    // [T] or [T, B]
  Array modulator;  // undefined: none
  bool weighted = false, modulator_per_step = false;

  std::int64_t length() const { return weights.shape()[0]; }
  // Everything with a time axis in one list, and a part of it as Data again.
  Arrays timed() const {
    return joined(
        {slices, modulator_per_step ? Arrays{modulator} : Arrays{}, weighted ? Arrays{weights} : Arrays{}});
  }
  Data part(ArraySpan timed) const {
    Data d = *this;
    const std::int64_t steps = timed[0].shape()[0];
    d.slices = to_list(take_front(timed, slices.size()));
    if (modulator_per_step) d.modulator = take_front(timed, 1)[0];
    d.weights = weighted ? timed[0] : full({steps}, 1.0, weights.dtype());
    return d;
  }
  Array modulator_of_each() const {  // [K, …]
    if (!modulator.defined() || modulator_per_step) return modulator;
    return broadcast_to(expand_dims(modulator, {0}), modulator.shape().with_front(length()));
  }
};

// All steps of [T, …] in windows, gradients summed.
Learned over_windows(const WindowPlan& plan, const Objective& objective, const SequenceForm& form,
                     ArraySpan params, const Carry& start, const Data& data) {
  const std::int64_t length = data.length();
  const std::int64_t size = objective.steps.window ? std::min(*objective.steps.window, length)
                                                   : std::min(form.execution_window, length);
  const std::size_t ns = start.states.size(), nm = start.memory.size();
  const bool several = length > size;
  const Blocks::Body body = [&](ArraySpan carry, ArraySpan timed, ArraySpan) -> ScanResult {
    const Data now = data.part(timed);
    const Carry before{to_list(take_front(carry, ns)), to_list(take_front(carry, nm))};
    const Array active = form.freeze ? not_equal_to(now.weights, 0.0) : Array();
    const bool shorter = objective.rest && now.length() != *objective.steps.window;
    const StepProgram& program = shorter ? *objective.rest : objective.steps;
    Learned l = plan.learn(params, before, program, now.slices, now.weights, active, now.modulator_of_each());
    for (std::size_t i = 0; i < l.gradients.size() && several; ++i)
      l.gradients[i] = carry[i] + l.gradients[i];
    return {joined({l.carry.states, l.carry.memory, l.gradients}), joined({Arrays{l.losses}, l.aux})};
  };
  Arrays init = joined({start.states, start.memory});
  for (const Array& p : params)
    if (several) init.push_back(zeros_of(p.aval()));
  Blocks blocks{size};
  blocks.run(body, init, data.timed());
  ArraySpan left = blocks.carry;
  Learned out;
  out.carry.states = to_list(take_front(left, ns));
  out.carry.memory = to_list(take_front(left, nm));
  out.gradients = to_list(left);
  out.losses = blocks.collected[0];
  out.aux.assign(blocks.collected.begin() + 1, blocks.collected.end());
  return out;
}

// Losses and aux without the time axis that a single step does not have.
void add_losses(Results& out, const Learned& l, bool time_axis) {
  const auto shown = [&](const Array& a) { return time_axis ? a : squeeze(a, {0}); };
  out.add("losses", PortRole::Loss, shown(l.losses));
  for (std::size_t i = 0; i < l.aux.size(); ++i)
    out.add(fmt::format("aux{}", i), PortRole::Aux, shown(l.aux[i]));
}

// Slices and weights at the end of the arguments.
void add_data_ports(std::vector<Port>& ports, const WindowPlan& plan, std::span<const Aval> slices,
                    const SequenceForm& form) {
  for (std::size_t i = 0; i < slices.size(); ++i)
    ports.push_back({fmt::format("slice{}", i), PortRole::Slice, with_time(slices[i], form.length)});
  const Shape one = form.samples ? Shape{*form.samples} : Shape{};
  if (form.weighted)
    ports.push_back(
        {"weights", PortRole::Weight, with_time({working_dtype(plan.graph()), one}, form.length)});
  if (form.modulator) ports.push_back({"modulator", PortRole::Signal, *form.modulator});
}

Data take_data(ArraySpan in, std::size_t slices, const SequenceForm& form, Dtype dtype) {
  Data d;
  d.slices = to_list(take_front(in, slices));
  d.weighted = form.weighted;
  d.modulator_per_step = form.modulator_per_step;
  d.weights = form.weighted ? take_front(in, 1)[0] : full({form.length.value_or(1)}, 1.0, dtype);
  if (form.modulator) d.modulator = in[0];
  if (form.length) return d;
  for (Array& a : d.slices) a = expand_dims(a, {0});
  if (form.weighted) d.weights = expand_dims(d.weights, {0});
  return d;
}

}  // namespace

// Programs --------------------------------------------------------------------------------------------------
Objective PlanBuilder::objective(const StepFunction& f, std::span<const Aval> slices,
                                 const SequenceForm& form) const {
  const ETraceGraph& g = graph();
  const bool multi = method() == VjpMethod::MultiStep;
  const std::int64_t length = form.length.value_or(1), chunk = std::min(form.chunk.value_or(1), length);
  if (form.chunk && *form.chunk < 1)
    throw ValueError("step_fn", fmt::format("chunk_size is {}; it must be at least 1", *form.chunk));
  if (!form.chunk || *form.chunk == 1)
    return {multi ? StepProgram::trace_unit_window(g, f, slices, form.samples)
                  : StepProgram::trace(g, f, slices, std::nullopt, form.samples),
            std::nullopt};
  if (!multi)
    throw ValueError("step_fn",
                     fmt::format("chunk_size {} needs a learner with vjp_method multi-step; this one is "
                                 "single-step and runs in windows by itself",
                                 *form.chunk));
  const auto windows = [&](std::int64_t steps) {
    Avals types;
    for (const Aval& a : slices) types.push_back(with_time(a, steps));
    return StepProgram::trace(g, f, types, steps, form.samples);
  };
  Objective out{windows(chunk), std::nullopt};
  if (length % chunk != 0) out.rest = windows(length % chunk);
  return out;
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
  many.resize(args.size(), form.length.has_value());
  for (std::size_t i = 0; i < args.size(); ++i)
    ports.push_back(
        {fmt::format("arg{}", i), PortRole::Arg, many[i] ? with_time(args[i], form.length) : args[i]});
  const Shape one = form.samples ? Shape{*form.samples} : Shape{};
  if (form.freeze)
    ports.push_back({"weights", PortRole::Weight, with_time({working_dtype(graph()), one}, form.length)});
  return make_program(form.length ? "evolve_sequence" : "evolve", ports, [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, carried.params), s = take_front(in, carried.states),
                    m = take_front(in, carried.memory), x = take_front(in, args.size());
    Arrays sequences;
    for (std::size_t i = 0; i < x.size(); ++i)
      if (many[i]) sequences.push_back(x[i]);
    if (form.freeze) sequences.push_back(in[0]);
    const Blocks::Body body = [&](ArraySpan carry, ArraySpan now, ArraySpan) -> ScanResult {
      const Carry before{to_list(take_front(carry, s.size())), to_list(carry)};
      std::vector<StepInput> inputs;
      std::size_t next = 0;
      for (std::size_t i = 0; i < x.size(); ++i)
        inputs.push_back(many[i] ? StepInput(MultiStepData{now[next++]}) : StepInput(x[i]));
      const Array active = form.freeze ? not_equal_to(now.back(), 0.0) : Array();
      const Driven d = plan.drive(p, before, inputs, active);
      return {joined({d.carry.states, d.carry.memory}), d.outputs};
    };
    ScanResult last;
    if (form.length) {
      Blocks blocks{std::min(form.window, *form.length)};
      blocks.run(body, joined({s, m}), sequences);
      last = {blocks.carry, blocks.collected};
    } else {
      last = body(joined({s, m}), sequences, {});
    }
    out.add_all("result", PortRole::Result, last.ys);
    out.replace(carried.params, last.carry);
  });
}

Program PlanBuilder::gradient(const Objective& objective, std::span<const Aval> slices,
                              const SequenceForm& form) const {
  const WindowPlan& plan = impl_->windows;
  const CarriedPorts carried(plan);
  std::vector<Port> ports = carried.list;
  add_data_ports(ports, plan, slices, form);
  return make_program(form.length ? "sequence" : "step", ports, [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, carried.params), s = take_front(in, carried.states),
                    m = take_front(in, carried.memory);
    const Data data = take_data(in, slices.size(), form, working_dtype(graph()));
    const Learned l = over_windows(plan, objective, form, p, {to_list(s), to_list(m)}, data);
    add_losses(out, l, form.length.has_value());
    out.replace(carried.params, joined({l.carry.states, l.carry.memory}));
    const Arrays g = reduced(l.gradients, data.weights, form.reduction, graph().options.compat);
    for (std::size_t i = 0; i < g.size(); ++i) out.add(carried.list[i].name, PortRole::Gradient, g[i]);
  });
}

Program PlanBuilder::train(const Objective& objective, std::span<const Aval> slices, const SequenceForm& form,
                           const optim::Optimizer& optimizer, std::int64_t every) const {
  const WindowPlan& plan = impl_->windows;
  const CarriedPorts carried(plan);
  const std::vector<ParamLeafId> leaves = param_leaf_ids(graph().module_info);
  std::vector<Port> ports = carried.list;
  Arrays types;
  for (std::size_t i = 0; i < carried.params; ++i) types.push_back(zeros_of(ports[i].aval));
  const Arrays slots = optimizer.init(types, leaves);
  const std::vector<std::string> names = optimizer.state_names(leaves),
                                 hyper = optimizer.hyperparameter_names(leaves);
  for (std::size_t i = 0; i < slots.size(); ++i)
    ports.push_back({"optimizer/" + names[i], PortRole::OptimizerSlot, slots[i].aval()});
  const std::int64_t length = form.length.value_or(1), updates = (length + every - 1) / every;
  for (const std::string& name : hyper)
    ports.push_back({fmt::format("{}/{}", optimizer.name(), name), PortRole::Hyperparameter,
                     with_time({Dtype::F64, {}}, form.length ? std::optional(updates) : std::nullopt)});
  add_data_ports(ports, plan, slices, form);
  const std::string name = form.length ? "train" : "train_step";
  return make_program(name, ports, [&](ArraySpan in, Results& out) {
    const ArraySpan p = take_front(in, carried.params), s = take_front(in, carried.states),
                    m = take_front(in, carried.memory), o = take_front(in, slots.size());
    Arrays rates = to_list(take_front(in, hyper.size()));
    if (!form.length)
      for (Array& r : rates) r = expand_dims(r, {0});
    const Data data = take_data(in, slices.size(), form, working_dtype(graph()));
    const Blocks::Body body = [&](ArraySpan carry, ArraySpan now, ArraySpan rate) -> ScanResult {
      const ArraySpan params = take_front(carry, p.size()), state = take_front(carry, o.size());
      const Carry before{to_list(take_front(carry, s.size())), to_list(carry)};
      const Data part = data.part(now);
      const Learned l = over_windows(plan, objective, form, params, before, part);
      const Arrays g = reduced(l.gradients, part.weights, form.reduction, graph().options.compat);
      const optim::Updated next = optimizer.apply(params, g, state, leaves, rate);
      return {joined({next.params, next.state, l.carry.states, l.carry.memory}),
              joined({Arrays{l.losses}, l.aux})};
    };
    Blocks blocks{std::min(every, length)};
    blocks.run(body, joined({p, o, s, m}), data.timed(), rates);
    Learned all;
    all.losses = blocks.collected[0];
    all.aux.assign(blocks.collected.begin() + 1, blocks.collected.end());
    add_losses(out, all, form.length.has_value());
    ArraySpan left = blocks.carry;
    const ArraySpan params = take_front(left, p.size()), state = take_front(left, o.size());
    out.replace(carried.params, left);
    out.replace(0, params);
    out.replace(carried.list.size(), state);
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
    for (std::size_t i = 0; i < g.size(); ++i) out.add(carried.list[i].name, PortRole::Gradient, g[i]);
  });
}

LearnerPlan PlanBuilder::plan(const StepFunction& f, std::span<const Aval> slices, std::int64_t steps,
                              std::int64_t length, const optim::Optimizer* optimizer) const {
  const bool multi = method() == VjpMethod::MultiStep;
  SequenceForm step{.execution_window = steps, .reduction = Reduction::Mean}, window = step, sequence = step;
  window.length = steps;
  sequence.length = length;
  // A function of one step is what a multi-step learner runs step by step.
  const Objective one = objective(f, slices, step);
  LearnerPlan out;
  out.programs = {init(), evolve({}), gradient(one, slices, step), gradient(one, slices, window),
                  gradient(one, slices, sequence)};
  out.programs[3].name = "window";
  if (multi) out.programs[3].name = "window_of_steps";
  if (optimizer != nullptr) out.programs.push_back(train(one, slices, sequence, *optimizer, length));
  out.programs.push_back(solve());
  return out;
}

}  // namespace etrace
