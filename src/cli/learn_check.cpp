// The learn stage of `etrace check`: gradients and traces of the online rules, step by step and in windows.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "cli/compare.h"
#include "cli/reference_check.h"
#include "cli/sequence.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/learning.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"

namespace etrace::cli {

namespace {

// The rule of a run, or why it is not there.
std::unique_ptr<LearningRule> rule_of(const ExpectedRun& run, Compat compat, std::string& why) {
  if (run.algorithm == "D_RTRL") return d_rtrl({compat});
  if (run.algorithm == "OSTLRecurrent") return ostl_recurrent({compat});
  if (run.algorithm == "pp_prop") {
    const auto decay = [](const Attr& a) {
      if (const auto* rank = a.get_if<std::int64_t>())
        return static_cast<double>(*rank - 1) / static_cast<double>(*rank + 1);
      const auto* alpha = a.get_if<double>();
      if (alpha == nullptr)
        throw CompilationError("check", "decay_or_rank is neither a number nor a pair of numbers");
      return *alpha;
    };
    const Attr::Dict* options = run.options.dict_items();
    for (std::size_t i = 0; options != nullptr && i < options->size(); ++i) {
      const auto& [key, value] = (*options)[i];
      if (key != "decay_or_rank") continue;
      if (const Attr::List* pair = value.list_items())
        return pp_prop({decay((*pair)[0]), decay((*pair)[1]), compat});
      return pp_prop({decay(value), decay(value), compat});
    }
    why = "pp_prop without decay_or_rank";
    return nullptr;
  }
  why = "rule " + run.algorithm + " is not built yet";
  return nullptr;
}

// Everything that is carried from step to step.
struct Carry {
  Arrays states, traces;
  Arrays gradients;  // per parameter leaf, summed
};

class Runner {
 public:
  Runner(const Model& m, const ExpectedRun& sequence, const LearningRule& rule, Compat compat)
      : model_(m),
        sequence_(sequence),
        rule_(rule),
        compat_(compat),
        graph_(compile_etrace_graph(m, rule.compile_options())),
        executor_(graph_, compat),
        leaves_(param_leaves(graph_.module_info)) {
    for (std::size_t i = 0; i < m.inputs.size(); ++i) {
      if (m.inputs[i].role == Role::Hidden || m.inputs[i].role == Role::Other) states_.push_back(i);
      if (m.inputs[i].role == Role::Arg) args_.push_back(i);
    }
  }

  const ETraceGraph& graph() const { return graph_; }
  std::vector<LearningRule::Slot> slots() const { return rule_.slots(graph_); }

  // Gradients summed over the sequence, then the final traces.
  Carry run(std::int64_t window, bool single_step) const {
    const std::int64_t length = sequence_.targets.shape()[0];
    Avals types;
    for (const ParamLeaf& l : leaves_) types.push_back(model_.program.jaxpr.invars[l.input].aval);
    for (const Tensor& a : *sequence_.args) types.push_back(a.aval());
    types.push_back(sequence_.targets.aval());
    Tensors inputs;
    for (const ParamLeaf& l : leaves_) inputs.push_back(model_.inputs[l.input].init);
    inputs.insert(inputs.end(), sequence_.args->begin(), sequence_.args->end());
    inputs.push_back(sequence_.targets);
    std::size_t num_traces = 0;
    const ClosedJaxpr program = make_jaxpr(
        [&](ArraySpan in) {
          const ArraySpan params = in.first(leaves_.size()), xs = in.subspan(leaves_.size());
          const Carry c = single_step ? steps(params, xs) : windows(params, xs, window, length);
          num_traces = c.traces.size();
          Arrays out = c.gradients;
          out.insert(out.end(), c.traces.begin(), c.traces.end());
          return out;
        },
        types);
    const Tensors out = evaluate(program, inputs);
    Carry result;
    result.gradients = to_arrays(std::span(out).first(out.size() - num_traces));
    result.traces = to_arrays(std::span(out).subspan(out.size() - num_traces));
    return result;
  }

 private:
  // Inputs of the program for one step.
  Arrays step_inputs(ArraySpan params, ArraySpan states, ArraySpan x) const {
    Arrays in(model_.inputs.size());
    for (std::size_t i = 0; i < leaves_.size(); ++i) in[leaves_[i].input] = params[i];
    for (std::size_t i = 0; i < states_.size(); ++i) in[states_[i]] = states[i];
    for (std::size_t i = 0; i < args_.size(); ++i)
      in[args_[i]] = x[static_cast<std::size_t>(model_.inputs[args_[i]].index)];
    return in;
  }

  // States at the start of a sequence, then traces at zero.
  Arrays initial() const {
    Arrays flat;
    for (const std::size_t i : states_) flat.push_back(model_.inputs[i].init);
    for (const LearningRule::Slot& s : slots()) flat.push_back(zeros_of(s.aval));
    return flat;
  }

  // The order of states in the graph's step and in the model's inputs is the same: that of first touch.
  Carry steps(ArraySpan params, ArraySpan xs) const {
    Arrays init = initial();
    const std::size_t ns = states_.size(), nt = init.size() - ns;
    for (const ParamLeaf& l : leaves_) init.push_back(zeros_of(model_.program.jaxpr.invars[l.input].aval));
    init.push_back(full({}, std::int64_t{0}, Dtype::I32));
    const ScanResult r = scan(
        [&](ArraySpan carry, ArraySpan x) -> ScanResult {
          const Arrays in = step_inputs(params, carry.first(ns), x);
          const StepValues step = executor_.solve_h2w_h2h_jacobian(in);
          const Arrays traces = rule_.roll(graph_, step.data, carry.subspan(ns, nt));
          const StepLoss mse = [&](ArraySpan out) { return mean(square(out[0] - x.back())); };
          const StepGradient g = executor_.solve_h2w_h2h_l2h_jacobian(in, mse);
          const Array age = carry.back() + Array(1);
          const Arrays grads = rule_.solve(graph_, step.data, g.group_signal, traces, age);
          Arrays next = step.states;
          next.insert(next.end(), traces.begin(), traces.end());
          for (std::size_t i = 0; i < leaves_.size(); ++i)
            next.push_back(add_cotangents(add_cotangents(carry[ns + nt + i], grads[i]), g.instantaneous[i]));
          next.push_back(age);
          return {next, {}};
        },
        init, Arrays(xs.begin(), xs.end()));
    return unpack(r.carry, ns, nt);
  }

  Carry unpack(ArraySpan carry, std::size_t ns, std::size_t nt) const {
    Carry c;
    c.traces.assign(carry.begin() + static_cast<std::ptrdiff_t>(ns),
                    carry.begin() + static_cast<std::ptrdiff_t>(ns + nt));
    c.gradients.assign(carry.begin() + static_cast<std::ptrdiff_t>(ns + nt),
                       carry.begin() + static_cast<std::ptrdiff_t>(ns + nt + leaves_.size()));
    return c;
  }

  // Windows: reverse mode inside, and the signal at the entry meets the trace from before.
  Carry windows(ArraySpan params, ArraySpan xs, std::int64_t window, std::int64_t length) const {
    Arrays carry = initial();
    const std::size_t ns = states_.size(), nt = carry.size() - ns;
    Arrays gradients(leaves_.size());
    std::int64_t calls = 0;
    for (std::int64_t begin = 0; begin < length; begin += window, ++calls) {
      const std::int64_t end = std::min(begin + window, length);
      Arrays part;
      for (const Array& x : xs) part.push_back(slice_axis(x, 0, begin, end));
      const Arrays states(carry.begin(), carry.begin() + static_cast<std::ptrdiff_t>(ns));
      const Arrays old(carry.begin() + static_cast<std::ptrdiff_t>(ns), carry.end());

      // Loss of the window as a function of entry states and parameters.
      Arrays at = states;
      at.insert(at.end(), params.begin(), params.end());
      const ScalarFunction loss = [&](ArraySpan a) {
        const ScanResult r = scan(
            [&](ArraySpan c, ArraySpan x) -> ScanResult {
              const Arrays out = eval_jaxpr(model_.program, step_inputs(a.subspan(ns), c, x));
              ScanResult s;
              for (std::size_t i = 0; i < model_.outputs.size(); ++i)
                if (model_.outputs[i].role == Role::Hidden || model_.outputs[i].role == Role::Other)
                  s.carry.push_back(out[i]);
              for (std::size_t i = 0; i < model_.outputs.size(); ++i)
                if (model_.outputs[i].role == Role::Out && model_.outputs[i].index == 0)
                  s.ys.push_back(mean(square(out[i] - x.back())));
              return s;
            },
            Arrays(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(ns)), part);
        return sum(r.ys[0]);
      };
      std::vector<int> wanted;
      for (std::size_t i = 0; i < at.size(); ++i)
        if (is_floating(at[i].dtype())) wanted.push_back(static_cast<int>(i));
      const Arrays found = value_and_grad(loss, wanted)(at);
      Arrays slope(at.size());
      for (std::size_t i = 0; i < wanted.size(); ++i)
        slope[static_cast<std::size_t>(wanted[i])] = found[1 + i];

      // Entry signal per group; then the traces roll through the window.
      Arrays entry;
      for (const HiddenGroup& g : graph_.hidden_groups) {
        Arrays members;
        for (const StatePath& path : g.hidden_paths)
          for (std::size_t i = 0; i < ns; ++i)
            if (model_.inputs[states_[i]].path == path) members.push_back(slope[i]);
        entry.push_back(g.concat_hidden(members));
      }
      const ScanResult rolled = scan(
          [&](ArraySpan c, ArraySpan x) -> ScanResult {
            const StepValues step = executor_.solve_h2w_h2h_jacobian(step_inputs(params, c.first(ns), x));
            Arrays next = step.states;
            const Arrays traces = rule_.roll(graph_, step.data, c.subspan(ns, nt));
            next.insert(next.end(), traces.begin(), traces.end());
            return {next, {}};
          },
          carry, part);
      // Operand values for the solve: parameters are constant, so any step's will do.
      Arrays first;
      for (const Array& x : part) first.push_back(squeeze(slice_axis(x, 0, 0, 1), {0}));
      const StepData data = executor_.solve_h2w_h2h_jacobian(step_inputs(params, states, first)).data;
      // By default the correction counts the steps that the old trace has seen; the reference counts calls,
      // plus one.
      const std::int64_t age = compat_ == Compat::Braintrace ? calls + 1 : begin;
      const Arrays boundary = rule_.solve(graph_, data, entry, old, full({}, age, Dtype::I32));
      for (std::size_t i = 0; i < leaves_.size(); ++i)
        gradients[i] = add_cotangents(add_cotangents(gradients[i], boundary[i]), slope[ns + i]);
      carry = rolled.carry;
    }
    Carry c;
    c.traces.assign(carry.begin() + static_cast<std::ptrdiff_t>(ns), carry.end());
    c.gradients = gradients;
    return c;
  }

  const Model& model_;
  const ExpectedRun& sequence_;
  const LearningRule& rule_;
  Compat compat_;
  ETraceGraph graph_;
  ETraceVjpGraphExecutor executor_;
  std::vector<ParamLeaf> leaves_;
  std::vector<std::size_t> states_, args_;
};

std::optional<std::string> compare_gradients(const Named<Tensors>& expected, const Carry& found,
                                             const std::vector<ParamLeaf>& leaves, const ExpectedRun& run) {
  for (const auto& [key, tensors] : expected)
    for (std::size_t leaf = 0; leaf < tensors.size(); ++leaf)
      for (std::size_t i = 0; i < leaves.size(); ++i) {
        if (to_string(leaves[i].path) != key || leaves[i].leaf != static_cast<std::int64_t>(leaf)) continue;
        const Tensor g = found.gradients[i].tensor();
        if (auto d = difference(fmt::format("the gradient of {} (leaf {})", key, leaf), g, tensors[leaf],
                                tolerance(run, 1e-9, g.dtype())))
          return d;
      }
  return std::nullopt;
}

std::optional<std::string> compare_traces(const Named<TraceValue>& expected, const Carry& found,
                                          const std::vector<LearningRule::Slot>& slots,
                                          const ExpectedRun& run) {
  std::map<std::string, Tensor> by_name;
  for (std::size_t i = 0; i < slots.size(); ++i) by_name.emplace(slots[i].name, found.traces[i].tensor());
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
    const std::unique_ptr<LearningRule> rule = rule_of(run, compat, why);
    if (rule == nullptr) {
      if (skipped.find(why) == std::string::npos) skipped += (skipped.empty() ? "" : ", ") + why;
      continue;
    }
    const Runner runner(m, *sequence, *rule, compat);
    const Carry found = runner.run(*run.window, run.vjp_method == "single-step");
    auto difference = compare_gradients(*grads, found, param_leaves(runner.graph().module_info), run);
    if (!difference && run.traces) difference = compare_traces(*run.traces, found, runner.slots(), run);
    if (difference) return {run.id + ": " + *difference, {}};
    ++compared;
  }
  if (!skipped.empty()) return {{}, fmt::format("{} runs agree; {}", compared, skipped)};
  if (compared == 0) return {{}, "the file carries no run to compare"};
  return {};
}

}  // namespace etrace::cli
