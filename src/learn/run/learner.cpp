// Learners: making, calls, access. Values and programs are in learner_impl.cpp, sequences in drivers.cpp,
// checkpoints in checkpoint.cpp.
#include "etrace/learner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "base/finite.h"
#include "base/nearest.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "learn/plan/misfit.h"
#include "learn/run/host_step.h"
#include "learn/run/learner_impl.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"
#include "module/state_reads.h"

namespace etrace {

// Making ----------------------------------------------------------------------------------------------------
Learner::Learner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Learner::Learner(ETraceGraph graph, const LearningRule& rule, LearnerOptions options)
    : impl_(std::make_unique<Impl>(std::move(graph), rule, std::move(options))) {}
Learner::~Learner() = default;
Learner::Learner(Learner&&) noexcept = default;
Learner& Learner::operator=(Learner&&) noexcept = default;

namespace {

CompileOptions compile_options(const LearningRule& rule, const LearnerOptions& o) {
  CompileOptions out;
  out.compat = o.compat;
  out.control_flow = o.control_flow;
  out.strict = o.strict;
  out.batch_size = o.batch_size;
  rule.configure(out);
  return out;
}

// Random keys start from the seed and their place.
void seed_states(Module& model, std::uint64_t seed) {
  for (const StateEntry& e : states(model)) {
    const bool goes_on = is_a(e.state->kind(), StateKind::Random);
    if (!goes_on && !is_a(e.state->kind(), StateKind::Key)) continue;
    std::uint64_t place = 2166136261U;
    for (const char c : to_string(e.path))
      place = ((place ^ static_cast<unsigned char>(c)) * 16777619U) & 0xffffffffU;
    const Array key =
        random::fold_in(random::key(seed), full({}, static_cast<std::int64_t>(place), Dtype::U32));
    goes_on ? e.state->set(key) : static_cast<KeyState&>(*e.state).start_from(key);
  }
}

Array first_lane(const Array& a, std::int64_t batch) {
  if (a.rank() == 0 || a.shape()[0] != batch)
    throw ValueError("compile",
                     fmt::format("with vmap every example argument has a leading axis of {} lanes, but "
                                 "one has type {}",
                                 batch, to_string(a.aval())));
  return squeeze(slice_axis(a, 0, 0, 1), {0});
}

// The step of every lane at once: arguments and states get a leading axis, parameters and the mode stay.
bool in_every_lane(const OutputRecord& r) {
  return r.role == Role::Param || state_kind(r.type) == StateKind::Mode;
}

Model in_lanes(const Model& model, std::int64_t batch) {
  Mask mapped, out_mapped;
  for (const InputRecord& in : model.inputs) mapped.push_back(!in_every_lane(in));
  for (const OutputRecord& out : model.outputs) out_mapped.push_back(!in_every_lane(out));
  Model out = model;
  out.program = vmap(model.program, mapped, batch, out_mapped).jaxpr;
  for (InputRecord& in : out.inputs) {
    if (!is_state(in.role)) continue;
    in.per_sample = !in_every_lane(in);
    if (in_every_lane(in)) continue;
    const Array init = in.init;
    if (holds_key(in) && in.init.aval() == Aval{Dtype::U32, {2}}) {  // every lane draws for itself
      in.init = random::split(init, batch).tensor();
      continue;
    }
    in.init = broadcast_to(expand_dims(init, {0}), init.shape().with_front(batch)).tensor();
  }
  return out;
}

}  // namespace

Learner compile(Module& model, const LearningRule& rule, ArraySpan example, const LearnerOptions& o) {
  if (example.empty())
    throw ValueError("compile", "no example argument; give one for each argument of the model");
  if (o.vmap && !o.batch_size) throw ValueError("compile", "vmap needs a batch_size: the number of lanes");
  if (o.batch_size && *o.batch_size < 1)
    throw ValueError("compile", fmt::format("batch_size is {}; it must be at least 1", *o.batch_size));
  if (o.vmap)
    init_all_states(model);
  else if (o.batch_size)
    init_all_states(model, *o.batch_size);
  if (o.seed) seed_states(model, *o.seed);

  Arrays args;
  for (const Array& a : example) args.push_back(o.vmap ? first_lane(a, *o.batch_size) : a);
  const TracedStep step = trace_step(model, args);
  const CompileOptions options = compile_options(rule, o);
  ETraceGraph graph = o.vmap ? compile_etrace_graph(in_lanes(step.model, *o.batch_size), options)
                             : compile_etrace_graph(step, options);
  auto impl = std::make_unique<Learner::Impl>(std::move(graph), rule, o);
  if (o.verbose > 0)
    std::cout << CompilationReport(impl->graph).to_string(o.verbose) << "\nSequences run "
              << impl->execution.to_string() << "\n";
  for (const StateEntry& e : states(model))
    if (is_a(e.state->kind(), StateKind::ShortTerm)) impl->resettable.push_back(e.state->shared_from_this());
  // The values are the model's: every leaf of a touched state is an input of the step, in order.
  auto record = std::find_if(step.model.inputs.begin(), step.model.inputs.end(),
                             [](const InputRecord& in) { return in.role != Role::Arg; });
  for (State* touched : step.touched) {
    const std::shared_ptr<State> owner = touched->shared_from_this();
    const bool is_param = touched->kind() == StateKind::Param;
    if (is_param) impl->param_states.push_back(owner);
    for (std::size_t leaf = 0; leaf < touched->avals().size(); ++leaf, ++record) {
      const std::string name = state_leaf_name(*record);
      if (is_param) {
        impl->session.attach(PortRole::Param, name, owner, owner->leaf(leaf));
      } else if (!o.vmap || touched->kind() == StateKind::Mode) {
        impl->session.attach(PortRole::State, name, owner, owner->leaf(leaf));
        for (KnownState& known : impl->states)
          if (known.name == name) known.own = false;
      }
    }
  }
  return Learner(std::move(impl));
}

Learner compile(Module& model, std::string_view rule, ArraySpan example, const LearnerOptions& options,
                const RuleOptions& rule_options) {
  return compile(model, *make_rule(rule, rule_options), example, options);
}

// Calls -----------------------------------------------------------------------------------------------------
Arrays Learner::update(std::span<const StepInput> args) {
  const Avals expected = argument_types(impl_->graph);
  const std::optional<std::int64_t> length = multi_step_length(args);
  if (args.size() != expected.size())
    throw ValueError("update",
                     fmt::format("{} arguments, but the model takes {}", args.size(), expected.size()));
  Arrays values;
  const bool skip = impl_->options.not_finite == NotFinite::Skip;
  bool bad = false;
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool many = std::holds_alternative<MultiStepData>(args[i]);
    const Array& x = value_of(args[i]);
    const Aval wanted = many ? Aval{expected[i].dtype, expected[i].shape.with_front(*length)} : expected[i];
    if (x.aval() != wanted)
      throw ValueError("update", fmt::format("argument {} {}", i, misfit(x.aval(), wanted)));
    if (skip)
      bad = bad || !all_finite(x.tensor());
    else
      require_finite("update", fmt::format("argument {}", i), x.tensor());
    values.push_back(x);
  }
  if (length && *length < 1) throw ValueError("update", "multi-step data without a step");
  EvolveForm form;
  for (const StepInput& a : args) form.many.push_back(std::holds_alternative<MultiStepData>(a));
  Impl::Course course{length.value_or(1), 1, impl_->counter("age")};
  course.bad.assign(bad ? static_cast<std::size_t>(course.length) : 0, true);
  Arrays out = impl_->evolve("update", values, {}, form, course);
  if (!length)
    for (Array& y : out) y = squeeze(y, {0});
  return out;
}

Array Learner::operator()(const StepInput& x) {
  const Arrays out = update(std::span<const StepInput>(&x, 1));
  if (out.size() != 1)
    throw ValueError("update",
                     fmt::format("the model has {} results; use update to get them all", out.size()));
  return out[0];
}

ParamValues Learner::solve(ArraySpan signals) {
  const std::vector<HiddenGroup>& groups = impl_->graph.hidden_groups;
  if (signals.size() != groups.size())
    throw ValueError("solve", fmt::format("{} signals for {} hidden groups", signals.size(), groups.size()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Dims dims = groups[i].varshape().to_dims();
    dims.push_back(groups[i].num_state());
    if (signals[i].shape() != Shape(dims))
      throw ValueError("solve", fmt::format("signal {} has shape {}, expected {}", i,
                                            to_string(signals[i].shape()), to_string(Shape(dims))));
  }
  Launch& l = impl_->launch("solve", [&] { return impl_->builder.solve(); });
  Tensors given;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    given.push_back(convert(signals[i], groups[i].hidden_states.front().invar.aval.dtype).tensor());
    l.give(l.argument(PortRole::Signal, fmt::format("signal{}", groups[i].index)), given.back().bytes());
  }
  std::unordered_map<std::string, Tensor> results;  // of parameters with a trace
  const std::vector<Port>& ports = l.program().results;
  for (std::size_t i = 0; i < ports.size(); ++i) {
    Tensor& to = results[ports[i].name] = Tensor::uninitialized(ports[i].aval);
    l.take(i, to.writable());
  }
  l.run();
  ParamValues out;
  for (const ParamLeafId& p : impl_->params)
    if (const auto it = results.find(impl_->param_name(p)); it != results.end()) {
      out.leaves.push_back(p);
      out.values.emplace_back(it->second);
    }
  return out;
}

// The rule's own --------------------------------------------------------------------------------------------
std::vector<std::string> Learner::rule_param_names() const {
  std::vector<std::string> out;
  for (const TraceSlot& s : impl_->memory)
    if (s.role == PortRole::RuleParam) out.push_back(s.name);
  return out;
}

Array Learner::rule_param(std::string_view name) const {
  return impl_->session.value(PortRole::RuleParam, impl_->rule_param(name).name);
}

void Learner::set_rule_param(std::string_view name, const Array& value) {
  const TraceSlot& slot = impl_->rule_param(name);
  if (value.aval() != slot.aval)
    throw ValueError("rule_param", fmt::format("{} has type {}, but the value has {}", name,
                                               to_string(slot.aval), to_string(value.aval())));
  impl_->session.set(slot.role, slot.name, value.tensor());
  impl_->fitted.reset();
}

// Resetting -------------------------------------------------------------------------------------------------
void Learner::reset_state() { impl_->forget_traces(); }

void Learner::reset_model_state() {
  for (const std::shared_ptr<State>& s : impl_->resettable) static_cast<ShortTermState&>(*s).reset();
  for (const KnownState& s : impl_->states)
    if (s.own && !s.survives_reset) impl_->session.set(PortRole::State, s.name, s.init);
}

// Access ----------------------------------------------------------------------------------------------------
const ETraceGraph& Learner::graph() const { return impl_->graph; }
const LearningRule& Learner::rule() const { return *impl_->rule; }
std::string Learner::describe() const {
  return fmt::format("{}, {}", impl_->rule->describe_on(impl_->graph),
                     etrace::name(impl_->options.vjp_method));
}
std::int64_t Learner::trace_bytes() const {
  std::int64_t bytes = 0;
  for (const TraceSlot& s : impl_->builder.rule().slots()) bytes += static_cast<std::int64_t>(s.aval.bytes());
  return bytes;
}
const LearnerOptions& Learner::options() const { return impl_->options; }
const ExecutionChoice& Learner::execution() const { return impl_->execution; }
CompilationReport Learner::report() const { return CompilationReport(impl_->graph); }
std::int64_t Learner::running_index() const { return impl_->counter("calls"); }
std::int64_t Learner::age() const { return impl_->counter("age"); }
std::int64_t Learner::skipped() const { return impl_->skipped; }

std::vector<EligibilityTrace> Learner::etraces() const {
  const Arrays memory = impl_->memory_now();
  return impl_->builder.rule().traces(impl_->params_now(), ArraySpan(memory).first(memory.size() - 2));
}

std::vector<EligibilityTrace> Learner::get_etrace_of(const StatePath& param) const {
  std::vector<EligibilityTrace> out;
  std::string traced;
  std::vector<StatePath> seen;
  for (const EligibilityTrace& t : etraces())
    for (const StatePath& p : t.params) {
      if (p == param) out.push_back(t);
      if (std::find(seen.begin(), seen.end(), p) != seen.end()) continue;
      seen.push_back(p);
      traced += (traced.empty() ? "" : ", ") + to_string(p);
    }
  if (out.empty())
    throw ValueError("get_etrace_of",
                     fmt::format("{} has no trace; traced are: {}", to_string(param), traced));
  return out;
}

std::vector<EligibilityTrace> Learner::get_etrace_of(std::string_view param) const {
  for (const ParamLeafId& id : impl_->params)
    if (to_string(id.path) == param) return get_etrace_of(id.path);
  return get_etrace_of(StatePath{std::string(param)});
}

namespace {
// A function that this learner's model is recorded with is asking.
const StateReads* recording(const Learner::Impl& impl) {
  const StateReads* const reads = StateReads::active();
  return reads != nullptr && &reads->model() == &impl.graph.module_info.model ? reads : nullptr;
}
}  // namespace

ParamValues Learner::params() const {
  if (const StateReads* r = recording(*impl_)) return {impl_->params, to_list(r->params())};
  return {impl_->params, impl_->params_now()};
}

void Learner::set_params(const ParamValues& values) {
  const std::vector<ParamLeafId>& ids = impl_->params;
  for (std::size_t k = 0; k < values.leaves.size(); ++k) {
    if (std::find(ids.begin(), ids.end(), values.leaves[k]) == ids.end())
      throw ValueError("set_params",
                       fmt::format("the step uses no parameter {}", to_string(values.leaves[k])));
    const Aval type = impl_->session.value(PortRole::Param, to_string(values.leaves[k])).aval();
    if (values.values[k].aval() != type)
      throw ValueError("set_params", fmt::format("{} has type {}, expected {}", to_string(values.leaves[k]),
                                                 to_string(values.values[k].aval()), to_string(type)));
  }
  for (std::size_t k = 0; k < values.leaves.size(); ++k)
    impl_->session.set(PortRole::Param, to_string(values.leaves[k]), values.values[k].tensor());
}

std::vector<std::string> Learner::state_names() const { return row_names(impl_->states); }

namespace {
const KnownState& find_state(const std::vector<KnownState>& states, std::string_view path) {
  for (const KnownState& s : states)
    if (s.name == path) return s;
  throw ValueError(
      "state", fmt::format("there is no state {}; there are: {}", path, fmt::join(row_names(states), ", ")));
}
}  // namespace

Array Learner::state(std::string_view path) const {
  if (recording(*impl_) != nullptr)
    throw NotSupportedError("step_fn", fmt::format("reads the state {} outside of the model's step, where it "
                                                   "would be a constant: return it from the model's update "
                                                   "as a result",
                                                   path));
  return impl_->session.value(PortRole::State, find_state(impl_->states, path).name);
}

void Learner::set_state(std::string_view path, const Array& value) {
  const KnownState& s = find_state(impl_->states, path);
  const Aval type = impl_->session.value(PortRole::State, s.name).aval();
  if (value.aval() != type)
    throw ValueError("state", fmt::format("{} has type {}, but the value has {}", path, to_string(type),
                                          to_string(value.aval())));
  impl_->session.set(PortRole::State, s.name, value.tensor());
}

LearnerPlan Learner::plan(const StepFunction& f, std::span<const Aval> slices,
                          const optim::Optimizer* optimizer) const {
  std::optional<Aval> modulator;
  if (impl_->rule->takes_modulator() && impl_->modulator.defined()) modulator = impl_->modulator.aval();
  LearnerPlan out = impl_->builder.plan(f, slices, impl_->execution.window, optimizer, modulator,
                                        impl_->modulator_by_group);
  for (Program& p : out.programs) p = impl_->ready(std::move(p));
  return out;
}

// Sums ------------------------------------------------------------------------------------------------------
void GradientSum::add(const ParamValues& grads, double weight) {
  if (value_.leaves.empty()) value_ = {grads.leaves, Arrays(grads.values.size())};
  std::optional<Arrays> added = values_for(value_.leaves, grads);
  if (!added) {
    const std::optional<Arrays> before = values_for(grads.leaves, value_);
    if (!before)
      throw ValueError("GradientSum",
                       "the gradients are of other parameters than before; use one object for each");
    value_ = {grads.leaves, *before};
    added = grads.values;
  }
  weight_ += weight;
  for (std::size_t i = 0; i < added->size(); ++i) {
    if (!(*added)[i].defined()) continue;
    const Array part = weight == 1.0 ? (*added)[i] : weight * (*added)[i];
    value_.values[i] = value_.values[i].defined() ? value_.values[i] + part : part;
  }
}

ParamValues GradientSum::mean() const {
  if (!(weight_ > 0.0)) throw ValueError("GradientSum", "nothing was added yet");
  ParamValues out = value_;
  for (Array& v : out.values)
    if (v.defined()) v = v / weight_;
  return out;
}

// GradExpon -------------------------------------------------------------------------------------------------
GradExpon::GradExpon(double decay) : decay_(decay) {
  if (!(decay > 0.0 && decay < 1.0))
    throw ValueError("GradExpon", fmt::format("decay {}; it must lie in (0, 1)", decay));
}

GradExpon GradExpon::from_tau(double tau, double dt) {
  if (!(tau > 0.0) || !(dt > 0.0))
    throw ValueError("GradExpon", fmt::format("tau {} and dt {}; both must be positive", tau, dt));
  return GradExpon(std::exp(-dt / tau));
}

const ParamValues& GradExpon::update(const ParamValues& grads) {
  if (value_.leaves.empty()) {
    value_ = grads;
    return value_;
  }
  if (value_.leaves != grads.leaves)
    throw ValueError("GradExpon",
                     "the gradients are of other parameters than before; use one object for each");
  for (std::size_t i = 0; i < grads.values.size(); ++i)
    if (grads.values[i].defined())
      value_.values[i] =
          value_.values[i].defined() ? decay_ * value_.values[i] + grads.values[i] : grads.values[i];
    else if (value_.values[i].defined())
      value_.values[i] = decay_ * value_.values[i];
  return value_;
}

}  // namespace etrace
