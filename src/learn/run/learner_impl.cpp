// Values, programs and runs of a learner.
#include "learn/run/learner_impl.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/finite.h"
#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/host.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/plan/room.h"
#include "learn/plan/window_plan.h"
#include "learn/run/host_step.h"
#include "learn/run/parts.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"

namespace etrace {

namespace {

constexpr std::size_t kRemembered = 128;  // programs; step functions, optimisers and losses likewise

void check_options(const LearnerOptions& o) {
  if (o.verbose < 0 || o.verbose > 2)
    throw ValueError("compile", fmt::format("verbose is {}; it must be 0, 1 or 2", o.verbose));
  if (o.execution_window && *o.execution_window < 1)
    throw ValueError("compile",
                     fmt::format("execution_window is {}; it must be at least 1", *o.execution_window));
}

LearnerOptions complete(LearnerOptions o) {
  check_options(o);
  if (o.backend.empty()) o.backend = default_backend();
  return o;
}

const ETraceGraph& with_relations(const ETraceGraph& g) {
  if (g.all_relations().empty())
    throw CompilationError("compile",
                           "no parameter is learned online: no weight reaches a hidden state through an "
                           "eligibility-trace operator.\n" +
                               g.explain());
  return g;
}

// Statistics, the mode, and keys that go on; what is set back says so by its type (KeyState).
bool survives_reset(const InputRecord& in) {
  const std::optional<StateKind> kind = state_kind(in.type);
  return kind && is_a(*kind, StateKind::LongTerm);
}

}  // namespace

Learner::Impl::Impl(ETraceGraph g, const LearningRule& r, LearnerOptions o)
    : graph(std::move(g)),
      rule(r.for_method(o.vjp_method)),
      options(complete(std::move(o))),
      builder(with_relations(graph), *rule, options.vjp_method),
      execution(builder.execution(options.execution_window, options.memory_limit)),
      backend(find_backend(options.backend)) {
  require_known(options.trace_passes, row_names(builder.rule().slots()));
  if (backend.memory() != nullptr)
    require_room(graph, *rule, options.vjp_method, execution, backend.name(), backend.memory()->free_bytes());
  const ModuleInfo& info = graph.module_info;
  params = param_leaf_ids(info);
  memory = builder.memory();
  const std::vector<ParamLeaf> leaves = param_leaves(info);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    session.add(PortRole::Param, param_name(params[i]), info.model.inputs[leaves[i].input].init);
  for (const InputRecord& in : info.model.inputs) {
    if (!is_state(in.role)) continue;
    states.push_back({state_leaf_name(in), in.init, true, survives_reset(in)});
    session.add(PortRole::State, states.back().name, in.init);
  }
  const Arrays start = builder.initial_memory(options.seed.value_or(0));
  for (std::size_t i = 0; i < memory.size(); ++i)
    session.add(memory[i].role, memory[i].name, start[i].tensor());
  for (const ParamLeafId& p : params) session.add(PortRole::Gradient, param_name(p), {});
  modulator = standing_modulator(graph, *rule);
}

Learner::Impl::~Impl() = default;

Arrays Learner::Impl::params_now() {
  Arrays out;
  for (const ParamLeafId& p : params) out.push_back(session.value(PortRole::Param, param_name(p)));
  return out;
}

Arrays Learner::Impl::memory_now() {
  Arrays out;
  for (const TraceSlot& s : memory) out.push_back(session.value(s.role, s.name));
  return out;
}

void Learner::Impl::zero_sums() {
  const std::vector<ParamLeaf> leaves = param_leaves(graph.module_info);
  for (std::size_t i = 0; i < params.size(); ++i)
    session.clear(PortRole::Gradient, param_name(params[i]),
                  graph.module_info.jaxpr().invars[leaves[i].input].aval);
}

Arrays Learner::Impl::evolve(const char* what, ArraySpan args, const Array& weights, EvolveForm form,
                             const Course& course) {
  const std::int64_t length = course.length;
  form.many.resize(args.size(), true);
  const std::int64_t called = counter("calls");
  Tensors data, results;
  for (const Array& a : args) data.push_back(a.tensor());
  if (weights.defined()) data.push_back(weights.tensor());
  std::vector<bool> timed = form.many;
  timed.resize(data.size(), true);
  std::int64_t begin = 0;
  for (const std::int64_t steps : window_lengths(length, execution.window)) {
    form.steps = steps > 1 ? std::optional(steps) : std::nullopt;
    EvolveForm own = form;
    if (!form.steps) own.many.assign(args.size(), false);
    std::string key = fmt::format("evolve {} {} {}", steps, form.samples.value_or(0), form.freeze);
    for (const bool many : own.many) key += many ? " many" : " one";
    Launch& l = launch(key, [&] { return builder.evolve(own); });
    for (std::size_t i = 0; i < data.size(); ++i) {
      const std::size_t at = i < args.size() ? l.argument(PortRole::Arg, fmt::format("arg{}", i))
                                             : l.argument(PortRole::Weight, "weights");
      l.give(at, data[i].bytes() + (timed[i] ? bytes_before(data[i].aval(), length, begin) : 0));
    }
    const std::size_t count = result_types(graph).size();
    results.resize(count);
    for (std::size_t i = 0; i < count; ++i)
      take_part(l, l.result(PortRole::Result, fmt::format("result{}", i)), steps, results[i], length, begin);
    if (any_of_steps(course.bad, begin, steps)) {
      ++skipped;
      for (Tensor& r : results) clear_part(r, length, begin, steps);
    } else if (!l.run()) {
      say_not_finite(what, steps_text(course.first + begin, steps));
    }
    begin += steps;
  }
  if (builder.method() == VjpMethod::MultiStep)
    session.set(PortRole::Counter, "calls",
                Tensor::full({Dtype::I32, {}}, counted_on(called + course.calls)));
  return to_arrays(results);
}

namespace {

constexpr const char* kWhatHelps =
    "A smaller learning rate or clipping (clip_norm) may help; with LearnerOptions::not_finite = "
    "NotFinite::Skip such steps are left out and counted";

std::string not_finite_text(const std::string& found) {
  return fmt::format(
      "{}: a loss, a state, a gradient or a new parameter would not be finite; nothing that {} would have "
      "changed was changed",
      found, found.starts_with("steps") ? "they" : "it");
}

}  // namespace

// A pass is judged before it runs, by its operands; what their products make of a trace is seen when it is
// used.
std::string Learner::Impl::forget_overflowed() {
  const Arrays fresh = builder.initial_memory(options.seed.value_or(0));
  std::vector<std::string> names;
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].role != PortRole::Trace || all_finite(session.value(PortRole::Trace, memory[i].name)))
      continue;
    session.set(PortRole::Trace, memory[i].name, fresh[i].tensor());
    names.push_back(memory[i].name);
  }
  if (names.empty()) return "";
  return fmt::format("; {} overflowed and {} anew", fmt::join(names, ", "),
                     names.size() == 1 ? "starts" : "start");
}

// A step that is left out in real time allocates nothing.
void Learner::Impl::say_not_finite(const char* what, const std::string& found) {
  ++skipped;
  if (options.not_finite == NotFinite::Error)
    throw ValueError(what, fmt::format("{}. {}", not_finite_text(found), kWhatHelps));
}
void Learner::Impl::say_overflow(const char* what, const std::string& found) {
  ++skipped;
  const std::string forgotten = forget_overflowed();
  if (options.not_finite == NotFinite::Error)
    throw ValueError(what, fmt::format("{}{}. {}", not_finite_text(found), forgotten, kWhatHelps));
}
void Learner::Impl::say_left_out(const char* what, const std::string& found) {
  ++skipped;
  const std::string forgotten = forget_overflowed();
  if (options.not_finite == NotFinite::Error)
    throw ValueError(what,
                     fmt::format("{}: new values of parameters or of the optimiser would not be finite; "
                                 "these elements were not changed{}. {}",
                                 found, forgotten, kWhatHelps));
}

// Programs --------------------------------------------------------------------------------------------------
Program Learner::Impl::ready(Program p) const {
  return with_trace_passes(lean(std::move(p)), options.trace_passes);
}

Launch& Learner::Impl::launch(const std::string& key, const std::function<Program()>& make) {
  for (auto it = launches.begin(); it != launches.end(); ++it)
    if (it->key == key) {
      launches.splice(launches.begin(), launches, it);
      return it->launch;
    }
  check_interrupt();
  Program p = ready(make());
  check_interrupt();
  std::shared_ptr<const Runnable> code = compile(p);
  if (launches.size() == kRemembered) launches.pop_back();
  launches.push_front({key, Launch(session, std::move(p), std::move(code))});
  return launches.front().launch;
}

const Learner::Impl::KnownObjective& Learner::Impl::objective(const StepFunction& f,
                                                              std::span<const Aval> slices,
                                                              std::optional<std::int64_t> chunk,
                                                              std::optional<std::int64_t> samples) {
  std::string key = fmt::format("{} {}", chunk.value_or(0), samples.value_or(0));
  for (const Aval& a : slices) key += " " + to_string(a);
  for (const KnownObjective& known : objectives)
    if (known.function == f.identity() && known.key == key) return known;
  auto traced = std::make_shared<const StepProgram>(builder.objective(f, slices, chunk, samples));
  // Another function that does the same shares its programs.
  std::size_t number = next_objective++;
  std::shared_ptr<const LabelCheck> labels;
  for (const KnownObjective& known : objectives)
    if (known.key == key && same(*known.program, *traced)) {
      number = known.number;
      traced = known.program;
      labels = known.labels;
    }
  if (labels == nullptr) labels = std::make_shared<const LabelCheck>(*traced);
  if (objectives.size() == kRemembered) objectives.pop_front();
  objectives.push_back({std::move(key), f.identity(), std::move(traced), std::move(labels), number});
  return objectives.back();
}

void Learner::Impl::require_fitted_for(const char* what, const StepProgram& program) const {
  if (!fitted) return;
  const std::int64_t window = program.window.value_or(1);
  if (window != fitted->window)
    throw ValueError(
        what, fmt::format("the estimate of {} was fitted for windows of {} steps, and these have {}; use "
                          "those, or fit it anew with train_synthetic_gradient",
                          rule->name(), fitted->window, window));
  if (!same(fitted->loss, program))
    throw ValueError(what,
                     fmt::format("the estimate of {} was fitted for another loss; use that one, or fit it "
                                 "anew with train_synthetic_gradient",
                                 rule->name()));
}

std::size_t Learner::Impl::optimizer_number(const optim::Optimizer& optimizer) {
  const std::shared_ptr<const ClosedJaxpr> update = optimizer.update_program();
  for (const KnownOptimizer& known : optimizers)
    if (known.update == update) return known.number;
  std::size_t number = next_optimizer++;
  for (const KnownOptimizer& known : optimizers)
    if (equal(*known.update, *update)) number = known.number;
  if (optimizers.size() == kRemembered) optimizers.pop_front();
  optimizers.push_back({update, number});
  return number;
}

namespace {

// One loss per sample: the batch is the leading axis of results and target.
Array loss_of(const Loss& loss, ArraySpan results, const Array& target, bool per_sample) {
  if (!per_sample) return loss(results, target);
  const Function one = [&](ArraySpan a) { return Arrays{loss(a.first(a.size() - 1), a.back())}; };
  return vmap(one)(joined({results, Arrays{target}}))[0];
}

}  // namespace

Array Loss::operator()(ArraySpan results, const Array& target) const {
  if (of_all_) return of_all_(results, target);
  if (results.size() == 1) return of_one_(results[0], target);
  throw ValueError(
      "loss", fmt::format("the model has {} results, and the loss takes one; give a loss of all of them: "
                          "[](ArraySpan results, const Array& target) {{ … }}",
                          results.size()));
}

Loss::OfOne* Loss::plain_function() const {
  OfOne* const* found = of_one_.target<OfOne*>();
  return found == nullptr ? nullptr : *found;
}

StepFunction step_function(const Loss& loss, bool windows, bool per_sample) {
  if (!windows)
    return [=](StepCall& model, ArraySpan s) {
      return LossAndAux{loss_of(loss, model({s[0]}), s[1], per_sample)};
    };
  return [=](StepCall& model, ArraySpan s) {
    const Arrays results = model({MultiStepData{s[0]}});
    const Function one = [&](ArraySpan a) {
      return Arrays{loss_of(loss, a.first(a.size() - 1), a.back(), per_sample)};
    };
    return LossAndAux{vmap(one)(joined({results, Arrays{s[1]}}))[0]};
  };
}

// A plain function is known again by its address; of others nothing is known.
StepFunction Learner::Impl::step_function(const Loss& loss, bool windows, bool per_sample) {
  Loss::OfOne* const plain = loss.plain_function();
  if (plain == nullptr) return etrace::step_function(loss, windows, per_sample);
  for (const KnownLoss& known : losses)
    if (known.function == plain && known.windows == windows && known.per_sample == per_sample)
      return known.step;
  if (losses.size() == kRemembered) losses.pop_front();
  losses.push_back({plain, windows, per_sample, etrace::step_function(loss, windows, per_sample)});
  return losses.back().step;
}

// What the rule holds
// -----------------------------------------------------------------------------------------
const TraceSlot& Learner::Impl::rule_param(std::string_view name) const {
  std::string known;
  for (const TraceSlot& s : memory) {
    if (s.role != PortRole::RuleParam) continue;
    if (s.name == name) return s;
    known += (known.empty() ? "" : ", ") + s.name;
  }
  throw ValueError("rule_param", fmt::format("{} has no parameter {}; it has: {}", rule->name(), name,
                                             known.empty() ? "none" : known));
}

void Learner::Impl::forget_traces() {
  const Arrays fresh = builder.initial_memory(options.seed.value_or(0));
  for (std::size_t i = 0; i < memory.size(); ++i) {
    if (memory[i].role != PortRole::Trace && memory[i].role != PortRole::Counter) continue;
    session.set(memory[i].role, memory[i].name, Tensor());  // the old one goes first: traces are the most
    session.set(memory[i].role, memory[i].name, fresh[i].tensor());
  }
}

void require_finite(const char* what, const std::string& where, const Tensor& t) {
  if (all_finite(t)) return;
  for (const double v : t.to_doubles())
    if (!std::isfinite(v))
      throw ValueError(what, fmt::format("{} holds {}; nothing was changed", where, unsigned_nan(v)));
}

}  // namespace etrace
