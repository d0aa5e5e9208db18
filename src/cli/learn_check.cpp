// The learn stage of `etrace check`: gradients and traces of the online rules, step by step and in windows.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/compare.h"
#include "cli/reference_check.h"
#include "cli/sequence.h"
#include "etrace/error.h"
#include "etrace/learner.h"
#include "etrace/ops/numpy.h"

namespace etrace::cli {

namespace {

// The rule of a run, or why it is not there.
std::shared_ptr<const LearningRule> rule_of(const ExpectedRun& run, std::string& why) {
  RuleOptions options;
  options.vjp_method = run.vjp_method == "single-step" ? VjpMethod::SingleStep : VjpMethod::MultiStep;
  if (run.algorithm == "D_RTRL" || run.algorithm == "OSTLRecurrent") return make_rule(run.algorithm, options);
  if (run.algorithm != "pp_prop") {
    why = "rule " + run.algorithm + " is not built yet";
    return nullptr;
  }
  const auto decay = [](const Attr& a) -> DecayOrRank {
    if (const auto* rank = a.get_if<std::int64_t>()) return {static_cast<int>(*rank)};
    const auto* alpha = a.get_if<double>();
    if (alpha == nullptr)
      throw CompilationError("check", "decay_or_rank is neither a number nor a pair of numbers");
    return {*alpha};
  };
  const Attr::Dict* items = run.options.dict_items();
  for (std::size_t i = 0; items != nullptr && i < items->size(); ++i) {
    const auto& [key, value] = (*items)[i];
    if (key != "decay_or_rank") continue;
    if (const Attr::List* pair = value.list_items()) {
      options.input_decay_or_rank = decay((*pair)[0]);
      options.decay_or_rank = decay((*pair)[1]);
    } else {
      options.decay_or_rank = decay(value);
    }
    return make_rule("pp_prop", options);
  }
  why = "pp_prop without decay_or_rank";
  return nullptr;
}

// Gradients summed over the sequence, and the traces at its end.
struct Found {
  ParamValues gradients;
  std::vector<EligibilityTrace> traces;
};

// The loss of the reference runs, for single steps or windows.
StepFunction mean_squared_error(std::int64_t window) {
  return [window](StepCall& model, ArraySpan s) -> LossAndAux {
    std::vector<StepInput> args;
    for (const Array& a : s.first(s.size() - 1))
      args.push_back(window == 1 ? StepInput(a) : StepInput(MultiStepData{a}));
    const Array error = square(model(args)[0] - s.back());
    if (window == 1) return {mean(error)};
    Dims axes;
    for (std::size_t a = 1; a < error.rank(); ++a) axes.push_back(static_cast<std::int64_t>(a));
    return {axes.empty() ? error : mean(error, axes)};
  };
}

Found run_rule(const Model& m, const ExpectedRun& sequence, const ExpectedRun& run, const LearningRule& rule,
               Compat compat) {
  CompileOptions options;
  options.compat = compat;
  rule.configure(options);
  Learner learner(compile_etrace_graph(m, options), rule);
  const bool single = rule.vjp_method() == VjpMethod::SingleStep;
  Arrays all = to_arrays(*sequence.args);
  all.push_back(sequence.targets);
  const std::int64_t length = sequence.targets.shape()[0],
                     window = single ? length : std::min(*run.window, length);
  // A window at the end may be shorter.
  Found found;
  for (const auto& [begin, end] :
       {std::pair(std::int64_t{0}, length / window * window), std::pair(length / window * window, length)}) {
    if (begin == end) continue;
    Arrays part;
    for (const Array& a : all) part.push_back(slice_axis(a, 0, begin, end));
    SequenceOptions how{.reduction = Reduction::Sum};
    if (!single) how.chunk_size = std::min(window, end - begin);
    const ParamValues g =
        learner.etrace_grad(part, mean_squared_error(how.chunk_size.value_or(1)), how).grads;
    if (found.gradients.leaves.empty()) {
      found.gradients = g;
      continue;
    }
    for (std::size_t i = 0; i < g.values.size(); ++i)
      found.gradients.values[i] = found.gradients.values[i] + g.values[i];
  }
  found.traces = learner.etraces();
  return found;
}

std::optional<std::string> compare_gradients(const Named<Tensors>& expected, const Found& found,
                                             const ExpectedRun& run) {
  const std::vector<ParamLeafId>& leaves = found.gradients.leaves;
  for (const auto& [key, tensors] : expected)
    for (std::size_t leaf = 0; leaf < tensors.size(); ++leaf)
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        if (to_string(leaves[i].path) != key || leaves[i].leaf != static_cast<std::int64_t>(leaf)) continue;
        const Tensor g = found.gradients.values[i].tensor();
        if (auto d = difference(fmt::format("the gradient of {} (leaf {})", key, leaf), g, tensors[leaf],
                                tolerance(run, 1e-9, g.dtype())))
          return d;
      }
  return std::nullopt;
}

std::optional<std::string> compare_traces(const Named<TraceValue>& expected, const Found& found,
                                          const ExpectedRun& run) {
  std::map<std::string, Tensor> by_name;
  for (const EligibilityTrace& t : found.traces) by_name.emplace(t.name, t.value.tensor());
  const auto one = [&](const std::string& name, const Tensor& value) -> std::optional<std::string> {
    const auto it = by_name.find(name);
    if (it == by_name.end()) return "there is no trace " + name;
    return difference("trace " + name, it->second, value, tolerance(run, 1e-9, value.dtype()));
  };
  for (const auto& [name, value] : expected) {
    if (const Tensor* t = std::get_if<Tensor>(&value)) {
      if (auto d = one(name, *t)) return d;
      continue;
    }
    for (const auto& [key, t] : std::get<Named<Tensor>>(value))
      if (auto d = one(name + "/" + key, t)) return d;
  }
  return std::nullopt;
}

}  // namespace

StageResult check_learn(const Model& m, const CheckOptions& options) {
  const ExpectedRun* sequence = reference_run(m);
  if (sequence == nullptr || !sequence->targets.defined()) return {{}, "the file carries no sequence"};
  const Compat compat = options.compat == "braintrace" ? Compat::Braintrace : Compat::None;
  std::string skipped;
  std::size_t compared = 0;
  for (const ExpectedRun& run : *m.expected->runs) {
    if (run.algorithm == "BPTT" || run.reference_error) continue;
    // What the reference does wrong is no truth for the default; what is right must come out in both modes.
    if (compat == Compat::None && run.compat.value_or(false)) continue;
    const Named<Tensors>* grads = run.grads ? &*run.grads : nullptr;
    for (const ExpectedRun& other : *m.expected->runs)
      if (grads == nullptr && !run.equals.empty() && other.id == run.equals && other.grads)
        grads = &*other.grads;
    if (grads == nullptr || !run.window) continue;
    std::string why;
    const std::shared_ptr<const LearningRule> rule = rule_of(run, why);
    if (rule == nullptr) {
      if (skipped.find(why) == std::string::npos) skipped += (skipped.empty() ? "" : ", ") + why;
      continue;
    }
    const Found found = run_rule(m, *sequence, run, *rule, compat);
    auto difference = compare_gradients(*grads, found, run);
    if (!difference && run.traces) difference = compare_traces(*run.traces, found, run);
    if (difference) return {run.id + ": " + *difference, {}};
    ++compared;
  }
  if (!skipped.empty()) return {{}, fmt::format("{} runs agree; {}", compared, skipped)};
  if (compared == 0) return {{}, "the file carries no run to compare"};
  return {};
}

}  // namespace etrace::cli
