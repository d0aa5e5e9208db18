// Learners: making, calls, access. Values and programs are in learner_impl.cpp, sequences in drivers.cpp,
// checkpoints in checkpoint.cpp.
#include "etrace/learner.h"

#include <fmt/format.h>

#include <cmath>
#include <iostream>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/explain.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "learn/host_step.h"
#include "learn/interface.h"
#include "learn/learner_impl.h"

namespace etrace {

// Making ----------------------------------------------------------------------------------------------------
Learner::Learner(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Learner::Learner(ETraceGraph graph, const LearningRule& rule, LearnerOptions options)
    : impl_(std::make_unique<Impl>(std::move(graph), rule, std::move(options))) {}
Learner::~Learner() {
  if (impl_ != nullptr && impl_->host != nullptr) impl_->host->give_back(false);
}
Learner::Impl& Learner::impl() const {
  if (impl_->host != nullptr) impl_->host->give_back();
  return *impl_;
}
Learner::Learner(Learner&&) noexcept = default;
Learner& Learner::operator=(Learner&& other) noexcept {
  if (impl_ != nullptr && impl_->host != nullptr) impl_->host->give_back(false);
  impl_ = std::move(other.impl_);
  return *this;
}

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

// States that hold a random key start from the seed and their place.
void seed_states(Module& model, std::uint64_t seed) {
  for (const StateEntry& e : states(model)) {
    const Avals types = e.state->avals();
    const Shape& shape = types[0].shape;
    const bool per_sample = shape.rank() == 2;  // [batch, 2]
    if (types.size() != 1 || types[0].dtype != Dtype::U32 || shape.is_scalar() || shape.back() != 2 ||
        shape.rank() > 2)
      continue;
    std::uint32_t place = 2166136261u;
    for (const char c : to_string(e.path)) place = (place ^ static_cast<unsigned char>(c)) * 16777619u;
    const Array key =
        random::fold_in(random::key(seed), Array(Tensor::full({Dtype::U32, {}}, std::int64_t{place})));
    e.state->set(per_sample ? random::split(key, shape[0]) : key);
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
    if (!is_state(in.role) || in_every_lane(in)) continue;
    const Array init = in.init;
    if (in.init.aval() == Aval{Dtype::U32, {2}}) {  // every lane draws for itself
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
                             : compile_etrace_graph(model, args, options);
  auto impl = std::make_unique<Learner::Impl>(std::move(graph), rule, o);
  if (o.verbose > 0)
    std::cout << CompilationReport(impl->graph).to_string(o.verbose) << "\nSequences run "
              << impl->execution.to_string() << "\n";
  for (const StateEntry& e : states(model))
    if (is_a(e.state->kind(), StateKind::ShortTerm)) impl->resettable.push_back(e.state->shared_from_this());
  // Leaves of touched states, in the order of the program's inputs.
  std::size_t param = 0, state = 0;
  for (State* touched : step.touched)
    for (std::size_t leaf = 0; leaf < touched->avals().size(); ++leaf) {
      const bool is_param = touched->kind() == StateKind::Param;
      ModelLeaf& place = is_param ? impl->params[param++] : impl->states[state++];
      if (!is_param && o.vmap && touched->kind() != StateKind::Mode) continue;
      place.state = touched->shared_from_this();
      place.leaf = leaf;
    }
  return Learner(std::move(impl));
}

Learner compile(Module& model, std::string_view rule, ArraySpan example, const LearnerOptions& options,
                const RuleOptions& rule_options) {
  return compile(model, *make_rule(rule, rule_options), example, options);
}

// Calls -----------------------------------------------------------------------------------------------------
Arrays Learner::update(std::span<const StepInput> args) {
  const Avals expected = argument_types(impl().graph);
  const std::optional<std::int64_t> length = multi_step_length(args);
  if (args.size() != expected.size())
    throw ValueError("update",
                     fmt::format("{} arguments, but the model takes {}", args.size(), expected.size()));
  Arrays values;
  std::string key = "update";
  for (std::size_t i = 0; i < args.size(); ++i) {
    const bool many = std::holds_alternative<MultiStepData>(args[i]);
    const Array& x = value_of(args[i]);
    const Aval wanted = many ? Aval{expected[i].dtype, expected[i].shape.with_front(*length)} : expected[i];
    if (x.aval() != wanted)
      throw ValueError("update", fmt::format("argument {} has type {}, expected {}", i, to_string(x.aval()),
                                             to_string(wanted)));
    key += many ? " many" : " one";
    values.push_back(x);
  }
  if (length && *length < 1) throw ValueError("update", "multi-step data without a step");
  EvolveForm form{.length = length, .window = length.value_or(1)};
  for (const StepInput& a : args) form.many.push_back(std::holds_alternative<MultiStepData>(a));
  const Loaded& code = impl().program(fmt::format("{} {}", key, length.value_or(0)),
                                      [&] { return impl().builder.evolve(form); });
  const Impl::Outcome out = impl().run(code, values);
  impl().commit(out);
  return to_arrays(out.results);
}

Array Learner::operator()(const StepInput& x) {
  const Arrays out = update(std::span<const StepInput>(&x, 1));
  if (out.size() != 1)
    throw ValueError("update",
                     fmt::format("the model has {} results; use update to get them all", out.size()));
  return out[0];
}

ParamValues Learner::solve(ArraySpan signals) {
  const std::vector<HiddenGroup>& groups = impl().graph.hidden_groups;
  if (signals.size() != groups.size())
    throw ValueError("solve", fmt::format("{} signals for {} hidden groups", signals.size(), groups.size()));
  for (std::size_t i = 0; i < groups.size(); ++i) {
    Dims dims = groups[i].varshape().to_dims();
    dims.push_back(groups[i].num_state());
    if (signals[i].shape() != Shape(dims))
      throw ValueError("solve", fmt::format("signal {} has shape {}, expected {}", i,
                                            to_string(signals[i].shape()), to_string(Shape(dims))));
  }
  const Loaded& code = impl().program("solve", [&] { return impl().builder.solve(); });
  Arrays given;
  for (std::size_t i = 0; i < groups.size(); ++i)
    given.push_back(convert(signals[i], groups[i].hidden_states.front().invar.aval.dtype));
  return {param_leaf_ids(impl().graph.module_info), to_arrays(impl().run(code, given).results)};
}

// The rule's own
// ---------------------------------------------------------------------------------------------
void Learner::set_modulator(const Array& modulator) {
  if (!impl_->rule->takes_modulator())
    throw ValueError("set_modulator", fmt::format("{} takes no modulator", impl_->rule->name()));
  impl_->modulator = modulator;
}

std::vector<std::string> Learner::rule_param_names() const {
  std::vector<std::string> out;
  for (const TraceSlot& s : impl().builder.memory())
    if (s.role == PortRole::RuleParam) out.push_back(s.name);
  return out;
}

Array Learner::rule_param(std::string_view name) const { return impl().rule_param(name); }

void Learner::set_rule_param(std::string_view name, const Array& value) {
  Tensor& place = impl().rule_param(name);
  if (value.aval() != place.aval())
    throw ValueError("rule_param", fmt::format("{} has type {}, but the value has {}", name,
                                               to_string(place.aval()), to_string(value.aval())));
  place = value.tensor();
  impl().fitted.reset();
}

// Resetting -------------------------------------------------------------------------------------------------
void Learner::reset_state() { impl().forget_traces(); }

void Learner::reset_model_state() {
  for (const std::shared_ptr<State>& s : impl().resettable) static_cast<ShortTermState&>(*s).reset();
  for (ModelLeaf& p : impl().states)
    if (p.state == nullptr && !p.survives_reset) p.own = p.init;
}

// Access ----------------------------------------------------------------------------------------------------
const ETraceGraph& Learner::graph() const { return impl().graph; }
const LearningRule& Learner::rule() const { return *impl().rule; }
std::string Learner::describe() const {
  return fmt::format("{}, {}", impl().rule->describe(), etrace::name(impl().options.vjp_method));
}
std::int64_t Learner::trace_bytes() const {
  std::int64_t bytes = 0;
  for (const TraceSlot& s : impl().builder.rule().slots()) bytes += static_cast<std::int64_t>(s.aval.bytes());
  return bytes;
}
const LearnerOptions& Learner::options() const { return impl().options; }
const ExecutionChoice& Learner::execution() const { return impl().execution; }
CompilationReport Learner::report() const { return CompilationReport(impl().graph); }
std::int64_t Learner::running_index() const { return to_int(impl().memory.back().at(0)); }
std::int64_t Learner::age() const { return to_int(impl().memory[impl().memory.size() - 2].at(0)); }

std::vector<EligibilityTrace> Learner::etraces() const {
  const Arrays memory = to_arrays(impl().memory);
  return impl().builder.rule().traces(impl().params_now(), ArraySpan(memory).first(memory.size() - 2));
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
  for (const ParamLeafId& id : param_leaf_ids(impl().graph.module_info))
    if (to_string(id.path) == param) return get_etrace_of(id.path);
  return get_etrace_of(StatePath{std::string(param)});
}

ParamValues Learner::params() const {
  return {param_leaf_ids(impl().graph.module_info), impl().params_now()};
}

void Learner::set_params(const ParamValues& values) {
  const std::vector<ParamLeafId> ids = param_leaf_ids(impl().graph.module_info);
  std::vector<Tensor> next;
  for (const ModelLeaf& p : impl().params) next.push_back(p.get());
  for (std::size_t k = 0; k < values.leaves.size(); ++k) {
    const auto it = std::find(ids.begin(), ids.end(), values.leaves[k]);
    if (it == ids.end())
      throw ValueError("set_params",
                       fmt::format("the step uses no parameter {}", to_string(values.leaves[k])));
    Tensor& place = next[static_cast<std::size_t>(it - ids.begin())];
    if (values.values[k].aval() != place.aval())
      throw ValueError("set_params",
                       fmt::format("{} has type {}, expected {}", to_string(values.leaves[k]),
                                   to_string(values.values[k].aval()), to_string(place.aval())));
    place = values.values[k].tensor();
  }
  for (std::size_t i = 0; i < next.size(); ++i) impl().params[i].set(next[i]);
}

std::vector<std::string> Learner::state_names() const {
  std::vector<std::string> out;
  for (const ModelLeaf& p : impl().states) out.push_back(p.name);
  return out;
}

namespace {
ModelLeaf& find_place(std::vector<ModelLeaf>& places, std::string_view path) {
  std::string known;
  for (ModelLeaf& p : places) {
    if (p.name == path) return p;
    known += (known.empty() ? "" : ", ") + p.name;
  }
  throw ValueError("state", fmt::format("there is no state {}; there are: {}", path, known));
}
}  // namespace

Array Learner::state(std::string_view path) const { return find_place(impl().states, path).get(); }

void Learner::set_state(std::string_view path, const Array& value) {
  ModelLeaf& p = find_place(impl().states, path);
  if (value.aval() != p.get().aval())
    throw ValueError("state", fmt::format("{} has type {}, but the value has {}", path,
                                          to_string(p.get().aval()), to_string(value.aval())));
  p.set(value.tensor());
}

LearnerPlan Learner::plan(const StepFunction& f, std::span<const Aval> slices, std::int64_t length,
                          const optim::Optimizer* optimizer) const {
  LearnerPlan out =
      impl().builder.plan(f, slices, std::min(impl().execution.window, length), length, optimizer);
  for (Program& p : out.programs) p = impl().ready(std::move(p));
  return out;
}

// Sums ------------------------------------------------------------------------------------------------------
void GradientSum::add(const ParamValues& grads, double weight) {
  if (value_.leaves.empty()) value_ = {grads.leaves, Arrays(grads.values.size())};
  if (value_.leaves != grads.leaves)
    throw ValueError("GradientSum",
                     "the gradients are of other parameters than before; use one object for each");
  weight_ += weight;
  for (std::size_t i = 0; i < grads.values.size(); ++i) {
    if (!grads.values[i].defined()) continue;
    const Array part = weight == 1.0 ? grads.values[i] : weight * grads.values[i];
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
