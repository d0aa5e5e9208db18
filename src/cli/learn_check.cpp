// The learn stage of `etrace check`: gradients and traces of the online rules, step by step and in windows.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "cli/compare.h"
#include "cli/reference_check.h"
#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/expected.h"
#include "etrace/learner.h"
#include "etrace/ops/numpy.h"
#include "train/sequence.h"

namespace etrace::cli {

namespace {

// Random feedback of the reference: that of the run, or of one with the same options.
const Attr::Dict* feedback_of(const Model& m, const ExpectedRun& run) {
  if (const Attr::Dict* own = run.feedback.dict_items()) return own;
  for (const ExpectedRun& other : *m.expected->runs)
    if (other.algorithm == run.algorithm && other.options == run.options)
      if (const Attr::Dict* known = other.feedback.dict_items()) return known;
  return nullptr;
}

std::shared_ptr<const LearningRule> rule_of(const Model& m, const ExpectedRun& run) {
  const Attr::Dict* items = run.options.dict_items();
  RuleOptions options = items != nullptr ? RuleOptions(*items) : RuleOptions();
  // The file brings the matrices; nothing is drawn.
  if (feedback_of(m, run) != nullptr) options.set("random_feedback_key", 0);
  return make_rule(run.algorithm, options);
}

VjpMethod method_of(const ExpectedRun& run) {
  return run.vjp_method == "single-step" ? VjpMethod::SingleStep : VjpMethod::MultiStep;
}

// Files number groups and relations as the reference found them; here they may stand in another order.
class Numbering {
 public:
  Numbering(const Model& m, const std::string& scope, const ETraceGraph& g) {
    const ExpectedGraph* expected = nullptr;
    if (m.expected->graphs)
      for (const auto& [name, graph] : *m.expected->graphs)
        if (name == (scope.empty() ? "diagonal" : scope)) expected = &graph;
    if (expected == nullptr || !expected->groups || !expected->relations) return;
    for (const ExpectedGroup& e : *expected->groups)
      for (const HiddenGroup& group : g.hidden_groups)
        if (as_set(e.hidden_paths) == as_set(group.hidden_paths)) groups_[e.index] = group.index;
    std::set<std::size_t> taken;
    for (std::size_t i = 0; i < expected->relations->size(); ++i)
      for (std::size_t k = 0; k < g.hidden_param_op_relations.size(); ++k)
        if (!taken.contains(k) && same((*expected->relations)[i], g.hidden_param_op_relations[k])) {
          relations_[static_cast<std::int64_t>(i)] = k;
          taken.insert(k);
          break;
        }
  }

  // A group's number in the file in ours.
  std::size_t group(std::int64_t index) const {
    const auto it = groups_.find(index);
    return it == groups_.end() ? static_cast<std::size_t>(index) : it->second;
  }

  // "relation1/group0/df" in our numbers.
  std::string ours(const std::string& name) const {
    std::string out;
    std::size_t at = 0;
    while (at <= name.size()) {
      const std::size_t end = std::min(name.find('/', at), name.size());
      const std::string part = name.substr(at, end - at);
      out += (at == 0 ? "" : "/") + renumbered(renumbered(part, "relation", relations_), "group", groups_);
      at = end + 1;
    }
    return out;
  }

 private:
  using Map = std::map<std::int64_t, std::size_t>;
  static std::set<std::string> as_set(const std::vector<StatePath>& paths) {
    std::set<std::string> out;
    for (const StatePath& p : paths) out.insert(to_string(p));
    return out;
  }
  static bool same(const ExpectedRelation& e, const HiddenParamOpRelation& r) {
    if (e.primitive != r.primitive->name() || as_set(e.hidden_paths) != as_set(r.connected_hidden_paths) ||
        e.trainable.size() != r.trainables.size())
      return false;
    return std::all_of(e.trainable.begin(), e.trainable.end(), [&](const auto& t) {
      const TrainableSource* own = r.trainable(t.first);
      return own != nullptr && own->path == t.second.path && own->leaf == t.second.leaf;
    });
  }
  static std::string renumbered(const std::string& part, const std::string& prefix, const Map& map) {
    if (!part.starts_with(prefix)) return part;
    const std::string digits = part.substr(prefix.size());
    if (digits.empty() || digits.size() > 9 || digits.find_first_not_of("0123456789") != std::string::npos)
      return part;
    const auto it = map.find(std::stoll(digits));
    return it == map.end() ? part : prefix + std::to_string(it->second);
  }

  Map groups_, relations_;
};

// Gradients summed over the sequence, and the traces at its end.
struct Found {
  ParamValues gradients;
  std::vector<EligibilityTrace> traces;
  Numbering numbering;
};

// A matrix as nested lists of numbers.
Array matrix_of(const Attr& rows) {
  std::vector<double> values;
  const Attr::List* list = rows.list_items();
  if (list == nullptr) throw CompilationError("check", "a feedback matrix is not a list of rows");
  for (const Attr& row : *list) {
    const Attr::List* numbers = row.list_items();
    if (numbers == nullptr)
      throw CompilationError("check", "a row of a feedback matrix is not a list of numbers");
    for (const Attr& x : *numbers)
      values.push_back(x.get_if<double>() != nullptr ? *x.get_if<double>()
                                                     : static_cast<double>(*x.get_if<std::int64_t>()));
  }
  const auto n = static_cast<std::int64_t>(list->size());
  return Array(
      Tensor::of(values, {n, static_cast<std::int64_t>(values.size()) / std::max<std::int64_t>(n, 1)}));
}

void use_feedback(Learner& learner, const Attr::Dict& feedback, const Numbering& numbering) {
  for (const auto& [group, rows] : feedback) {
    const std::string name = fmt::format("group{}/feedback", numbering.group(std::stoll(group)));
    learner.set_rule_param(name, convert(matrix_of(rows), learner.rule_param(name).dtype()));
  }
}

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
               Compat compat, const std::string& backend) {
  CompileOptions options;
  options.compat = compat;
  rule.configure(options);
  const VjpMethod method = method_of(run);
  Learner learner(compile_etrace_graph(m, options), rule, {.vjp_method = method, .backend = backend});
  Arrays all = to_arrays(*sequence.args);
  all.push_back(sequence.targets);
  SequenceOptions how{.reduction = Reduction::Sum};
  if (method == VjpMethod::MultiStep) how.chunk_size = std::min(*run.window, sequence.targets.shape()[0]);
  Found found{{}, {}, Numbering(m, run.graph, learner.graph())};
  if (const Attr::Dict* feedback = feedback_of(m, run)) use_feedback(learner, *feedback, found.numbering);
  found.gradients = learner.etrace_grad(all, mean_squared_error(how.chunk_size.value_or(1)), how).grads;
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

std::optional<std::string> compare_named(const char* what, const Named<Tensor>& expected,
                                         const std::map<std::string, Tensor>& found,
                                         const Numbering& numbering, const ExpectedRun& run) {
  for (const auto& [name, value] : expected) {
    const auto it = found.find(numbering.ours(name));
    if (it == found.end()) return fmt::format("there is no {} {}", what, name);
    if (auto d = difference(fmt::format("{} {}", what, name), it->second, value,
                            tolerance(run, 1e-9, value.dtype())))
      return d;
  }
  return std::nullopt;
}

std::optional<std::string> compare_traces(const Named<TraceValue>& expected, const Found& found,
                                          const Numbering& numbering, const ExpectedRun& run) {
  std::map<std::string, Tensor> by_name;
  for (const EligibilityTrace& t : found.traces) by_name.emplace(t.name, t.value.tensor());
  Named<Tensor> flat;
  for (const auto& [name, value] : expected) {
    if (const Tensor* t = std::get_if<Tensor>(&value)) flat.emplace_back(name, *t);
    if (const auto* by_key = std::get_if<Named<Tensor>>(&value))
      for (const auto& [key, t] : *by_key) flat.emplace_back(name + "/" + key, t);
  }
  return compare_named("trace", flat, by_name, numbering, run);
}

// x, ∂h/∂y and D of every step.
std::optional<std::string> compare_jacobians(const Model& m, const ExpectedRun& sequence, Compat compat) {
  CompileOptions options;
  options.compat = compat;
  const ETraceGraph g = compile_etrace_graph(m, options);
  const ETraceGraphExecutor executor(g);
  std::vector<StepInput> args;
  for (const Tensor& a : *sequence.args) args.emplace_back(MultiStepData{Array(a)});
  Arrays params, states;
  for (const InputRecord& in : g.module_info.model.inputs)
    if (in.role != Role::Arg) (in.role == Role::Param ? params : states).push_back(in.init);
  const StepData data = executor.solve_h2w_h2h_jacobian(args, states, params).data;
  std::map<std::string, Tensor> found;
  for (std::size_t r = 0; r < data.df.size(); ++r) {
    const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
    if (const auto x = etp_rules(*relation.primitive)->x_operand)
      found.emplace(fmt::format("relation{}/x", r), data.operands[r][*x].tensor());
    for (std::size_t k = 0; k < data.df[r].size(); ++k)
      found.emplace(fmt::format("relation{}/group{}/df", r, relation.hidden_groups[k]),
                    data.df[r][k].tensor());
  }
  for (std::size_t k = 0; k < data.jacobians.size(); ++k)
    found.emplace(fmt::format("group{}/hid2hid", k), data.jacobians[k].tensor());
  return compare_named("Jacobian", *m.expected->jacobians, found, Numbering(m, "diagonal", g), sequence);
}

}  // namespace

StageResult check_learn(const Model& m, const CheckOptions& options) {
  const ExpectedRun* sequence = train::reference_run(m);
  if (sequence == nullptr || !sequence->targets.defined()) return {{}, "the file carries no sequence"};
  const Compat compat = options.compat == "braintrace" ? Compat::Braintrace : Compat::None;
  std::size_t compared = 0;
  if (m.expected->jacobians) {
    if (auto d = compare_jacobians(m, *sequence, compat)) return {*d, {}};
    ++compared;
  }
  for (const ExpectedRun& run : *m.expected->runs) {
    if (run.algorithm == "BPTT" || run.reference_error) continue;
    // What the reference does wrong is no truth for the default; what is right must come out in both modes,
    // unless the file says that the reference does it otherwise.
    if (run.compat && *run.compat != (compat == Compat::Braintrace)) continue;
    const Named<Tensors>* grads = run.grads ? &*run.grads : nullptr;
    for (const ExpectedRun& other : *m.expected->runs)
      if (grads == nullptr && !run.equals.empty() && other.id == run.equals && other.grads)
        grads = &*other.grads;
    if (grads == nullptr || !run.window) continue;
    const Found found = run_rule(m, *sequence, run, *rule_of(m, run), compat, options.backend);
    auto difference = compare_gradients(*grads, found, run);
    if (!difference && run.traces) difference = compare_traces(*run.traces, found, found.numbering, run);
    if (difference) return {run.id + ": " + *difference, {}};
    ++compared;
  }
  if (compared == 0) return {{}, "the file carries no run to compare"};
  return {};
}

}  // namespace etrace::cli
