// Values, programs and runs of a learner.
#include "learn/learner_impl.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/host_step.h"
#include "learn/interface.h"

namespace etrace {

Tensor ModelLeaf::get() const { return state != nullptr ? state->leaves()[leaf].tensor() : own; }

void ModelLeaf::set(const Tensor& value) {
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

bool holds_key(const InputRecord& in) {
  const Aval& a = in.init.aval();
  return a.dtype == Dtype::U32 && a.shape.rank() > 0 && a.shape.back() == 2;
}

// Statistics, the mode and random keys: noise must not begin again with every sequence.
bool survives_reset(const InputRecord& in) {
  const std::optional<StateKind> kind = state_kind(in.type);
  return (kind && is_a(*kind, StateKind::LongTerm)) || holds_key(in);
}

Tensor copied(const Tensor& t) { return Tensor::copy_of(t.aval(), t.bytes()); }

}  // namespace

Learner::Impl::Impl(ETraceGraph g, const LearningRule& r, LearnerOptions o)
    : graph(std::move(g)),
      rule(r.clone()),
      options(complete(std::move(o))),
      builder(with_relations(graph), *rule, options.vjp_method),
      execution(builder.execution(options.execution_window, options.memory_limit)),
      backend(find_backend(options.backend)) {
  require_known(options.trace_passes, row_names(builder.rule().slots()));
  for (const InputRecord& in : graph.module_info.model.inputs) {
    if (in.role == Role::Arg) continue;
    (in.role == Role::Param ? params : states)
        .push_back({state_leaf_name(in), nullptr, 0, in.init, in.init, survives_reset(in)});
  }
  memory = to_tensors(builder.initial_memory(options.seed.value_or(0)));
  modulator = rule->standing_modulator();
}

Learner::Impl::~Impl() = default;

Arrays Learner::Impl::params_now() const {
  Arrays out;
  for (const ModelLeaf& p : params) out.push_back(p.get());
  return out;
}

// Programs --------------------------------------------------------------------------------------------------
Program Learner::Impl::ready(Program p) const {
  return with_trace_passes(lean(std::move(p)), options.trace_passes);
}

const Loaded& Learner::Impl::program(const std::string& key, const std::function<Program()>& make) {
  for (const Cached& c : cache)
    if (c.key == key) return c.loaded;
  Program p = ready(make());
  std::shared_ptr<const Runnable> code = backend.compile(p);
  if (cache.size() == kCachedPrograms) cache.pop_front();
  cache.push_back({key, {std::move(p), std::move(code)}});
  return cache.back().loaded;
}

const Learner::Impl::KnownObjective& Learner::Impl::objective(const StepFunction& f,
                                                              std::span<const Aval> slices,
                                                              const SequenceForm& form) {
  std::string key =
      fmt::format("{} {} {}", form.length.value_or(0), form.chunk.value_or(0), form.samples.value_or(0));
  for (const Aval& a : slices) key += " " + to_string(a);
  for (const KnownObjective& known : objectives)
    if (known.function == f.identity() && known.key == key) return known;
  auto traced = std::make_shared<const Objective>(builder.objective(f, slices, form));
  // Another function that does the same shares its programs.
  std::size_t number = next_objective++;
  for (const KnownObjective& known : objectives)
    if (known.key == key && equal(known.objective->steps.program, traced->steps.program)) {
      number = known.number;
      traced = known.objective;
    }
  if (objectives.size() == kCachedPrograms) objectives.pop_front();
  objectives.push_back({std::move(key), f.identity(), std::move(traced), number});
  return objectives.back();
}

void Learner::Impl::require_fitted_for(const char* what, const Objective& objective,
                                       const SequenceForm& form) const {
  if (!fitted) return;
  const std::int64_t window = form.chunk.value_or(1);
  if (window != fitted->window)
    throw ValueError(
        what, fmt::format("the estimate of {} was fitted for windows of {} steps, and these have {}; use "
                          "those, or fit it anew with train_synthetic_gradient",
                          rule->name(), fitted->window, window));
  if (!equal(fitted->loss, objective.steps.program))
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
  if (optimizers.size() == kCachedPrograms) optimizers.pop_front();
  optimizers.push_back({update, number});
  return number;
}

namespace {

// One loss per sample: the batch is the leading axis of result and target.
Array loss_of(const Loss& loss, const Array& output, const Array& target, bool per_sample) {
  if (!per_sample) return loss(output, target);
  return vmap([&](ArraySpan a) { return Arrays{loss(a[0], a[1])}; })(Arrays{output, target})[0];
}

StepFunction made_of_loss(const Loss& loss, bool windows, bool per_sample) {
  if (!windows)
    return [=](StepCall& model, ArraySpan s) {
      return LossAndAux{loss_of(loss, model(s[0]), s[1], per_sample)};
    };
  return [=](StepCall& model, ArraySpan s) {
    const Array out = model(MultiStepData{s[0]});
    const Function one = [&](ArraySpan a) { return Arrays{loss_of(loss, a[0], a[1], per_sample)}; };
    return LossAndAux{vmap(one)(Arrays{out, s[1]})[0]};
  };
}

}  // namespace

// A plain function is known again by its address; of others nothing is known.
StepFunction Learner::Impl::step_function(const Loss& loss, bool windows, bool per_sample) {
  const auto* plain = loss.target<Array (*)(const Array&, const Array&)>();
  if (plain == nullptr) return made_of_loss(loss, windows, per_sample);
  for (const KnownLoss& known : losses)
    if (known.function == *plain && known.windows == windows && known.per_sample == per_sample)
      return known.step;
  if (losses.size() == kCachedPrograms) losses.pop_front();
  losses.push_back({*plain, windows, per_sample, made_of_loss(loss, windows, per_sample)});
  return losses.back().step;
}

// Runs ------------------------------------------------------------------------------------------------------
Learner::Impl::Outcome Learner::Impl::run(const Loaded& loaded, ArraySpan data,
                                          std::span<const Tensor> given_slots) {
  const Program& p = loaded.program;
  Outcome out;
  Tensors held;  // arguments that somebody else owns
  std::vector<const void*> in(p.arguments.size());
  std::vector<void*> results(p.results.size());
  std::vector<bool> replaced(p.arguments.size(), false);
  for (const Alias& a : p.aliases) replaced[a.argument] = true;
  std::size_t param = 0, state = 0, slot = 0, optimizer_slot = 0, next = 0;
  for (std::size_t i = 0; i < p.arguments.size(); ++i) {
    // Values that are replaced in place are copies, so that a run can fail; traces are not: they exist once.
    const auto take = [&](const Tensor& now, Tensors& into) {
      into.push_back(replaced[i] ? copied(now) : now);
      in[i] = into.back().bytes();
    };
    switch (p.arguments[i].role) {
      case PortRole::Param:
        take(params[param++].get(), replaced[i] ? out.params : held);
        break;
      case PortRole::State:
        take(states[state++].get(), replaced[i] ? out.states : held);
        break;
      case PortRole::OptimizerSlot:
        take(given_slots[optimizer_slot++], out.slots);
        break;
      case PortRole::Trace:
      case PortRole::RuleParam:
      case PortRole::Counter:
      case PortRole::Key: {
        Tensor& own = memory[slot++];
        if (replaced[i] && !own.unique()) own = copied(own);
        in[i] = own.bytes();
        break;
      }
      default:
        held.push_back(data[next++].tensor());
        ETRACE_CHECK(held.back().aval() == p.arguments[i].aval);
        in[i] = held.back().bytes();
    }
  }
  for (const Alias& a : p.aliases) results[a.result] = const_cast<void*>(in[a.argument]);
  for (std::size_t i = 0; i < results.size(); ++i)
    if (results[i] == nullptr)
      results[i] = out.results.emplace_back(Tensor::uninitialized(p.results[i].aval)).writable();
  loaded.code->run(in.data(), results.data());
  return out;
}

void Learner::Impl::commit(const Outcome& o) {
  for (std::size_t i = 0; i < o.params.size(); ++i) params[i].set(o.params[i]);
  for (std::size_t i = 0; i < o.states.size(); ++i) states[i].set(o.states[i]);
}

Tensor& Learner::Impl::rule_param(std::string_view name) {
  const std::vector<TraceSlot> slots = builder.memory();
  std::string known;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].role != PortRole::RuleParam) continue;
    if (slots[i].name == name) return memory[i];
    known += (known.empty() ? "" : ", ") + slots[i].name;
  }
  throw ValueError("rule_param", fmt::format("{} has no parameter {}; it has: {}", rule->name(), name,
                                             known.empty() ? "none" : known));
}

void Learner::Impl::forget_traces() {
  const std::vector<TraceSlot> slots = builder.memory();
  const Arrays fresh = builder.initial_memory(options.seed.value_or(0));
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].role != PortRole::Trace && slots[i].role != PortRole::Counter) continue;
    memory[i] = Tensor();  // the old one goes first: traces are the most that there is
    memory[i] = fresh[i].tensor();
  }
}

}  // namespace etrace
