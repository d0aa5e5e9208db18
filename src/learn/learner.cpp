// Learners: values, calls, access. Sequences are in drivers.cpp, checkpoints in checkpoint.cpp.
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
#include "learn/interface.h"
#include "learn/learner_impl.h"

namespace etrace {

// Values ----------------------------------------------------------------------------------------------------
Tensor Place::get() const { return state != nullptr ? state->leaves()[leaf].tensor() : own; }

void Place::set(const Tensor& value) {
  if (state == nullptr) {
    own = value;
    return;
  }
  Arrays leaves = state->leaves();
  leaves[leaf] = value;
  state->set_leaves(leaves);
}

namespace {

constexpr std::size_t kCachedPrograms = 32;

bool holds_key(const InputRecord& in) {
  const Aval& a = in.init.aval();
  return a.dtype == Dtype::U32 && a.shape.rank() > 0 && a.shape.back() == 2;
}

std::string place_name(const InputRecord& in) {
  const std::string key = to_string(in.leaf_key);
  return key.empty() ? to_string(in.path) : to_string(in.path) + "." + key;
}

// Statistics, the mode and random keys: noise must not begin again with every sequence.
bool survives_reset(const InputRecord& in) {
  const std::optional<StateKind> kind = state_kind(in.type);
  return (kind && is_a(*kind, StateKind::LongTerm)) || holds_key(in);
}

}  // namespace

Learner::Impl::Impl(ETraceGraph g, const LearningRule& r, LearnerOptions o)
    : graph(std::move(g)), rule(r.clone()), options(std::move(o)), builder(graph, *rule) {
  if (options.backend != "interpreter")
    throw NotSupportedError("compile",
                            fmt::format("backend \"{}\" is not there; use \"interpreter\"", options.backend));
  if (options.verbose < 0 || options.verbose > 2)
    throw ValueError("compile", fmt::format("verbose is {}; it must be 0, 1 or 2", options.verbose));
  if (options.execution_window < 1)
    throw ValueError("compile",
                     fmt::format("execution_window is {}; it must be at least 1", options.execution_window));
  if (graph.hidden_param_op_relations.empty())
    throw CompilationError("compile",
                           "no parameter is learned online: no weight reaches a hidden state through an "
                           "eligibility-trace operator.\n" +
                               graph.explain());
  for (const InputRecord& in : graph.module_info.model.inputs) {
    if (in.role == Role::Arg) continue;
    (in.role == Role::Param ? params : states)
        .push_back({place_name(in), nullptr, 0, in.init, in.init, survives_reset(in)});
  }
  memory = to_tensors(builder.initial_memory());
}

Arrays Learner::Impl::params_now() const {
  Arrays out;
  for (const Place& p : params) out.push_back(p.get());
  return out;
}

Carry Learner::Impl::carry_now() const {
  Carry c;
  for (const Place& p : states) c.states.push_back(p.get());
  c.memory = to_arrays(memory);
  return c;
}

Tensors Learner::Impl::inputs(ArraySpan more) const {
  Tensors out;
  for (const Place& p : params) out.push_back(p.get());
  for (const Place& p : states) out.push_back(p.get());
  out.insert(out.end(), memory.begin(), memory.end());
  for (const Array& a : more) out.push_back(a.tensor());
  return out;
}

void Learner::Impl::write(std::span<const Tensor> new_states, std::span<const Tensor> new_memory) {
  for (std::size_t i = 0; i < states.size(); ++i) states[i].set(new_states[i]);
  memory.assign(new_memory.begin(), new_memory.end());
}

const Executable& Learner::Impl::program(const std::string& key, const ClosedJaxpr* step, const Avals& types,
                                         const Function& f) {
  for (const Cached& c : cache)
    if (c.key == key && c.types == types && c.step.has_value() == (step != nullptr) &&
        (step == nullptr || equal(*c.step, *step)))
      return c.program;
  Avals all;
  for (const Place& p : params) all.push_back(p.get().aval());
  for (const Place& p : states) all.push_back(p.get().aval());
  for (const Tensor& m : memory) all.push_back(m.aval());
  all.insert(all.end(), types.begin(), types.end());
  if (cache.size() == kCachedPrograms) cache.pop_front();
  cache.push_back({key, step != nullptr ? std::optional(*step) : std::nullopt, types,
                   Executable(simplify(make_jaxpr(f, all)))});
  return cache.back().program;
}

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
  if (o.verbose > 0) std::cout << CompilationReport(impl->graph).to_string(o.verbose);
  impl->module = &model;
  // Leaves of touched states, in the order of the program's inputs.
  std::size_t param = 0, state = 0;
  for (State* touched : step.touched)
    for (std::size_t leaf = 0; leaf < touched->avals().size(); ++leaf) {
      const bool is_param = touched->kind() == StateKind::Param;
      Place& place = is_param ? impl->params[param++] : impl->states[state++];
      if (!is_param && o.vmap && touched->kind() != StateKind::Mode) continue;
      place.state = touched;
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
  const Avals expected = argument_types(impl_->graph);
  const std::optional<std::int64_t> length = multi_step_length(args);
  if (args.size() != expected.size())
    throw ValueError("update",
                     fmt::format("{} arguments, but the model takes {}", args.size(), expected.size()));
  Avals types;
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
    types.push_back(x.aval());
    values.push_back(x);
  }
  if (length && *length < 1) throw ValueError("update", "multi-step data without a step");
  const std::size_t np = impl_->params.size(), ns = impl_->states.size(), nm = impl_->memory.size();
  std::vector<bool> multi;
  for (const StepInput& a : args) multi.push_back(std::holds_alternative<MultiStepData>(a));
  const Executable& run = impl_->program(key, nullptr, types, [&](ArraySpan in) {
    const ArraySpan p = in.first(np), s = in.subspan(np, ns), m = in.subspan(np + ns, nm),
                    x = in.subspan(np + ns + nm);
    std::vector<StepInput> inputs;
    for (std::size_t i = 0; i < x.size(); ++i)
      inputs.push_back(multi[i] ? StepInput(MultiStepData{x[i]}) : StepInput(x[i]));
    const PlanBuilder::Driven d =
        impl_->builder.drive(p, {Arrays(s.begin(), s.end()), Arrays(m.begin(), m.end())}, inputs);
    Arrays out = d.outputs;
    out.insert(out.end(), d.carry.states.begin(), d.carry.states.end());
    out.insert(out.end(), d.carry.memory.begin(), d.carry.memory.end());
    return out;
  });
  const Tensors out = run(impl_->inputs(values));
  const std::size_t results = out.size() - ns - nm;
  impl_->write(std::span(out).subspan(results, ns), std::span(out).subspan(results + ns));
  return to_arrays(std::span(out).first(results));
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
  return {param_leaf_ids(impl_->graph.module_info),
          impl_->builder.solve(impl_->params_now(), impl_->carry_now(), signals)};
}

// Resetting -------------------------------------------------------------------------------------------------
void Learner::reset_state() { impl_->memory = to_tensors(impl_->builder.initial_memory()); }

void Learner::reset_model_state() {
  if (impl_->module != nullptr) reset_all_states(*impl_->module);
  for (Place& p : impl_->states)
    if (p.state == nullptr && !p.survives_reset) p.own = p.init;
}

// Access ----------------------------------------------------------------------------------------------------
const ETraceGraph& Learner::graph() const { return impl_->graph; }
const LearningRule& Learner::rule() const { return *impl_->rule; }
const LearnerOptions& Learner::options() const { return impl_->options; }
CompilationReport Learner::report() const { return CompilationReport(impl_->graph); }
std::int64_t Learner::running_index() const { return to_int(impl_->memory.back().at(0)); }
std::int64_t Learner::age() const { return to_int(impl_->memory[impl_->memory.size() - 2].at(0)); }

std::vector<EligibilityTrace> Learner::etraces() const {
  std::vector<EligibilityTrace> out;
  const std::vector<LearningRule::Slot> slots = impl_->rule->slots(impl_->graph);
  for (std::size_t i = 0; i < slots.size(); ++i)
    out.push_back({slots[i].name, impl_->rule->unpack(impl_->graph, i, impl_->memory[i])});
  return out;
}

std::vector<EligibilityTrace> Learner::get_etrace_of(const StatePath& param) const {
  const std::vector<std::size_t> found = impl_->rule->slots_of(impl_->graph, param);
  if (found.empty()) {
    std::string traced;
    for (const ParamLeafId& id : param_leaf_ids(impl_->graph.module_info))
      if (id.leaf == 0 && !impl_->rule->slots_of(impl_->graph, id.path).empty())
        traced += (traced.empty() ? "" : ", ") + to_string(id.path);
    throw ValueError("get_etrace_of",
                     fmt::format("{} has no trace; traced are: {}", to_string(param), traced));
  }
  const std::vector<EligibilityTrace> all = etraces();
  std::vector<EligibilityTrace> out;
  for (const std::size_t i : found) out.push_back(all[i]);
  return out;
}

std::vector<EligibilityTrace> Learner::get_etrace_of(std::string_view param) const {
  for (const ParamLeafId& id : param_leaf_ids(impl_->graph.module_info))
    if (to_string(id.path) == param) return get_etrace_of(id.path);
  return get_etrace_of(StatePath{std::string(param)});
}

ParamValues Learner::params() const {
  return {param_leaf_ids(impl_->graph.module_info), impl_->params_now()};
}

void Learner::set_params(const ParamValues& values) {
  const std::vector<ParamLeafId> ids = param_leaf_ids(impl_->graph.module_info);
  std::vector<Tensor> next;
  for (const Place& p : impl_->params) next.push_back(p.get());
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
  for (std::size_t i = 0; i < next.size(); ++i) impl_->params[i].set(next[i]);
}

std::vector<std::string> Learner::state_names() const {
  std::vector<std::string> out;
  for (const Place& p : impl_->states) out.push_back(p.name);
  return out;
}

namespace {
Place& find_place(std::vector<Place>& places, std::string_view path) {
  std::string known;
  for (Place& p : places) {
    if (p.name == path) return p;
    known += (known.empty() ? "" : ", ") + p.name;
  }
  throw ValueError("state", fmt::format("there is no state {}; there are: {}", path, known));
}
}  // namespace

Array Learner::state(std::string_view path) const { return find_place(impl_->states, path).get(); }

void Learner::set_state(std::string_view path, const Array& value) {
  Place& p = find_place(impl_->states, path);
  if (value.aval() != p.get().aval())
    throw ValueError("state", fmt::format("{} has type {}, but the value has {}", path,
                                          to_string(p.get().aval()), to_string(value.aval())));
  p.set(value.tensor());
}

LearnerPlan Learner::plan(const StepFunction& f, std::span<const Aval> slices, std::int64_t steps) const {
  return impl_->builder.plan(f, slices, steps);
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
