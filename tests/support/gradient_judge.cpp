#include "support/gradient_judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <tuple>

#include "etrace/compiler.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"

namespace etrace::testing {

std::string_view name(Fault f) {
  switch (f) {
    case Fault::FalseExact:
      return "called exact, is not";
    case Fault::FalseApproximate:
      return "called approximate, is exact";
    case Fault::WindowDependent:
      return "depends on the execution window";
    case Fault::NotReverseMode:
      return "the window of the whole sequence is not BPTT";
    case Fault::FirstStep:
      return "the first step is not BPTT";
    case Fault::UnequalRules:
      return "two names of one rule differ";
    case Fault::LearnsFromLoss:
      return "learns through states without a signal";
    case Fault::BrokenError:
      return "internal error";
    case Fault::UntypedRefusal:
      return "error that is no refusal";
    case Fault::NotFinite:
      return "gradient not finite";
    case Fault::References:
      return "references disagree";
    default:
      return "crash";
  }
}

std::string to_string(const Finding& f) {
  return fmt::format("{}: {}, {}{}{}, draw {}{}{}", name(f.fault), f.rule, f.method,
                     f.leaf.empty() ? "" : ", leaf ", f.leaf, f.draw,
                     f.deviation > 0.0 ? fmt::format(", deviation {:.3g}", f.deviation) : "",
                     f.text.empty() ? "" : ": " + f.text);
}

std::string RunMethod::text() const {
  return fmt::format("{} {}{}", vjp == VjpMethod::SingleStep ? "single steps" : "windows of", window,
                     how == Parts  ? " in two calls"
                     : how == Host ? " by the host"
                                   : "");
}

std::string class_of(const Finding& f) {
  std::string text = f.text;
  if (f.fault == Fault::FalseExact || f.fault == Fault::NotReverseMode || f.fault == Fault::FirstStep)
    text = std::isfinite(f.deviation) ? "" : "where the reference is zero";
  if (f.fault == Fault::FalseApproximate) text = text.substr(0, text.find_first_of(";("));
  // Names of states and weights, numbers and shapes differ from model to model: words with digits go.
  std::string words, word;
  const auto end_word = [&] {
    const bool number =
        std::any_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
    words += number ? "_" : word;
    word.clear();
  };
  for (const char c : text) {
    if (c == ' ') end_word();
    (c == ' ' ? words : word) += c;
    if (words.size() > 60) break;
  }
  end_word();
  return fmt::format("{}, {}{}{}", name(f.fault),
                     f.run.vjp == VjpMethod::SingleStep ? "single steps" : "windows",
                     words.empty() ? "" : ": ", words);
}

JudgeOptions only(const Finding& f, const JudgeOptions& all) {
  JudgeOptions o = all;
  if (f.fault == Fault::FirstStep) {
    o.first_step.insert(o.first_step.end(), all.rules.begin(), all.rules.end());
    std::erase_if(o.first_step, [&](const RuleChoice& r) { return r.label != f.rule; });
    o.first_step.resize(std::min<std::size_t>(o.first_step.size(), 1));
    o.rules.clear();
  } else {
    o.first_step.clear();
  }
  std::erase_if(o.rules, [&](const RuleChoice& r) {
    const bool partner = f.fault == Fault::UnequalRules &&
                         std::any_of(all.rules.begin(), all.rules.end(), [&](const RuleChoice& own) {
                           return own.label == f.rule && own.same_as == r.label;
                         });
    return r.label != f.rule && !partner;
  });
  o.by_reverse_mode = f.fault == Fault::References && f.rule == "BPTT";
  o.by_forward_mode = f.fault == Fault::References && f.rule == "forward mode";
  o.differences = f.fault == Fault::References && f.rule == "differences";
  const bool single = f.run.vjp == VjpMethod::SingleStep;
  o.execution_windows.clear();
  o.windows.clear();
  o.whole_sequence = f.fault == Fault::NotReverseMode;
  if (single) o.execution_windows = {f.run.window};
  if (f.fault == Fault::WindowDependent) o.execution_windows = {1, f.run.window};
  o.in_parts = f.run.how == RunMethod::Parts;
  o.by_host = f.run.how == RunMethod::Host;
  if (!single && !o.whole_sequence) o.windows = {f.run.window};
  return o;
}

// Rules -----------------------------------------------------------------------------------------------------
namespace {

std::string text_of(const RuleOptions& o) {
  std::string out;
  for (const auto& [key, value] : o.items()) out += " " + key + "=" + etrace::to_string(value);
  return out;
}

// Beside what comparisons run a row with.
std::vector<RuleOptions> further_options(const std::string& row) {
  const RuleOptions composite{{"composite", true}};
  if (row == "D_RTRL" || row == "ThreeFactor") return {};
  if (row == "OSTLRecurrent" || row == "DNI") return {composite};
  if (row == "SnAp") return {{{"n", 1}}, {{"n", 3}}, {{"n", 6}}};
  if (row == "EProp")
    return {{{"kappa_filter_decay", 0.0}}, {{"kappa_filter_decay", 0.55}, {"composite", true}}};
  if (row == "ETraceConfig")
    return {{},
            {{"temporal_recursion", "scalar_leak"}, {"decay", 0.83}},
            {{"recurrence_scope", "coupled"}, {"trace_filter", "kappa"}, {"kappa", 0.45}},
            {{"temporal_recursion", "none"}},
            {{"recurrence_scope", "sparse_n"}, {"sparse_n", 2}}};
  return {};
}

std::string equal_rule(const std::string& label) {
  const std::map<std::string, std::string> equal{
      {"SnAp n=1", "OSTLRecurrent"},
      {"EProp kappa_filter_decay=0.0", "D_RTRL"},
      {"ETraceConfig", "D_RTRL"},
      {"DNI", "D_RTRL"},
      {"DNI composite=true", "D_RTRL composite=true"},
      {"ETraceConfig recurrence_scope=\"sparse_n\" sparse_n=2", "SnAp"}};
  const auto it = equal.find(label);
  return it == equal.end() ? "" : it->second;
}

}  // namespace

std::vector<RuleChoice> rule_choices() {
  std::vector<RuleChoice> out;
  for (const RuleRow* row : rule_rows()) {
    std::vector<RuleOptions> all = row->compared;
    for (const RuleOptions& o : further_options(row->name)) all.push_back(o);
    if (row->name == "ThreeFactor") all.push_back({{"modulator", 0.0}});
    for (const RuleOptions& o : all) {
      const std::string label = row->name + text_of(o);
      out.push_back({label, row->name, o, make_rule(row->name, o), equal_rule(label),
                     row->name == "ThreeFactor" && o.number("modulator") == 0.0});
    }
  }
  return out;
}

// Runs ------------------------------------------------------------------------------------------------------
namespace {

StepFunction loss_of_steps(bool windows) {
  return [windows](StepCall& model, ArraySpan slices) -> LossAndAux {
    std::vector<etrace::StepInput> args;
    for (const Array& a : slices.first(slices.size() - 1))
      args.push_back(windows ? etrace::StepInput(MultiStepData{a}) : etrace::StepInput(a));
    const Array error = square(model(args)[0] - slices.back());
    if (!windows) return {sum(error)};
    return {sum(reshape(error, {error.shape()[0], -1}), {1})};
  };
}

struct Deviation {
  double apart = 0.0, reference = 0.0;  // norms
  bool finite = true;
  double relative() const { return apart == 0.0 ? 0.0 : apart / reference; }
};
Deviation deviation(const Numbers& found, const Numbers& expected) {
  Deviation d;
  double apart = 0.0, size = 0.0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    d.finite = d.finite && std::isfinite(found[i]);
    apart += (found[i] - expected[i]) * (found[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  d.apart = std::sqrt(apart);
  d.reference = std::sqrt(size);
  return d;
}

constexpr double kExact = 1e-9;      // relative to the reference
constexpr double kRounding = 1e-12;  // relative to the sum of absolute values
constexpr double kDead = 1e-8;       // norms below count as zero

// What sums in another order may change of one leaf.
double rounding_of(const ReferenceGradient& g, std::size_t leaf) {
  return kRounding * g.magnitude[leaf] + 1e-14 * (1.0 + std::abs(g.loss));
}

class Judge {
 public:
  Judge(const Model& m, const JudgeOptions& o, const Tamper& tamper)
      : model_(m), o_(o), tamper_(tamper), reference_(m) {}

  Judgement run() {
    draw(0);
    if (!draws_[0].reference.finite()) {
      out_.not_finite = true;
      return out_;
    }
    compare_references();
    for (const RuleChoice& rule : o_.rules) {
      judge_rule(rule);
      judge_first_step(rule);
    }
    for (const RuleChoice& rule : o_.first_step)
      if (std::none_of(o_.rules.begin(), o_.rules.end(),
                       [&](const RuleChoice& other) { return other.label == rule.label; }))
        judge_first_step(rule);
    compare_equal_rules();
    return out_;
  }

 private:
  struct Drawn {
    ValueDraw values;
    ReferenceGradient reference;
  };
  using Gradient = std::vector<Numbers>;

  const Drawn& draw(std::size_t i) {
    while (draws_.size() <= i) {
      // The past may fade in few steps, beside which the rest of a gradient is large: later draws are short,
      // and some of them count the last step alone.
      const std::size_t n = draws_.size();
      const std::int64_t steps = n < 6 ? o_.steps : std::min<std::int64_t>(o_.steps, 4 + n % 2);
      ValueDraw v = draw_values(model_, steps, n);
      // A step without a loss hides what reaches no other loss, so later draws count all steps.
      const bool weighted = o_.weighted && n < 3, last = n >= 6 && n % 4 < 2;
      const Numbers weights{1.0, 0.5, 0.0, 1.5, 1.0, 0.7, 0.0, 0.4};
      for (std::int64_t t = 0; t < steps && (weighted || last); ++t)
        v.weights.push_back(last ? (t + 1 == steps ? 1.0 : 0.0)
                                 : weights[static_cast<std::size_t>(t) % weights.size()]);
      v.freeze = weighted && o_.freeze;
      ReferenceGradient g = reference_(v);
      draws_.push_back({std::move(v), std::move(g)});
    }
    return draws_[i];
  }

  void compare_references() {
    const Drawn& d = draws_[0];
    if (o_.by_reverse_mode) {
      const ReferenceGradient other = reverse_mode(model_, d.values);
      for (std::size_t i = 0; i < other.leaves.size(); ++i) {
        const Deviation apart = deviation(other.leaves[i], d.reference.leaves[i]);
        if (!apart.finite || apart.apart > kExact * apart.reference + rounding_of(d.reference, i))
          find({Fault::References, "BPTT", "against RTRL", leaf_name(i), "", {}, apart.relative(), 0});
      }
    }
    if (o_.by_forward_mode) compare_forward_mode(d);
    if (o_.differences) {
      const Difference found = difference_along(reference_, d.values, d.reference, 5);
      ++(found.differentiable() ? out_.differences : out_.kinks);
      if (found.contradicts())
        find({Fault::References, "differences", "against RTRL", "", "", {}, found.deviation(), 0});
    }
  }

  void compare_forward_mode(const Drawn& d) {
    try {
      const Difference found = forward_mode(model_, d.values, d.reference, 5);
      if (!(std::abs(found.found - found.expected) <= found.error + kExact * found.size))
        find({Fault::References, "forward mode", "against RTRL", "", "", {}, found.deviation(), 0});
    } catch (const NotSupportedError&) {  // custom_vjp: there is no forward mode
    }
  }

  // One graph per scope, whatever rules share it.
  const ETraceGraph& graph(const LearningRule& rule) {
    CompileOptions options;
    options.control_flow = o_.policy;
    rule.configure(options);
    const auto key =
        std::make_tuple(options.include_recurrent_mixing, options.sparse_n.value_or(0), options.composite);
    const auto it = graphs_.find(key);
    if (it != graphs_.end()) return it->second;
    return graphs_.emplace(key, compile_etrace_graph(model_, options)).first->second;
  }

  // Runs f; false if it refuses. What is no refusal is a finding.
  template <class F>
  bool attempt(const RuleChoice& rule, const std::optional<RunMethod>& run, const F& f) {
    const std::string method = run ? run->text() : "compile";
    const auto broken = [&](Fault fault, const std::string& what) {
      find({fault, rule.label, method, "", what, run.value_or(RunMethod{}), 0.0, 0});
      return false;
    };
    try {
      f();
      return true;
    } catch (const NotSupportedError& e) {
      return refuse(rule, method, e.what());
    } catch (const CompilationError& e) {
      // The compiler refuses models; a malformed program that it made itself is another matter.
      if (e.stage() == "compile" || e.stage() == "module_info") return refuse(rule, method, e.what());
      return broken(Fault::UntypedRefusal, e.what());
    } catch (const InternalError& e) {
      return broken(Fault::BrokenError, e.what());
    } catch (const Error& e) {
      return broken(Fault::UntypedRefusal, e.what());
    } catch (const std::exception& e) {
      return broken(Fault::BrokenError, e.what());
    }
  }
  bool refuse(const RuleChoice& rule, const std::string& method, const std::string& why) {
    ++out_.refused;
    out_.refusals.push_back(rule.label + ", " + method + ": " + why);
    return false;
  }
  void find(Finding f) { out_.findings.push_back(std::move(f)); }
  std::string leaf_name(std::size_t i) const {
    std::size_t at = 0;
    for (const InputRecord& in : model_.inputs)
      if (in.role == Role::Param && at++ == i)
        return etrace::to_string(ParamLeafId{in.path, in.leaf, etrace::to_string(in.leaf_key)});
    return "?";
  }

  // A learner of one method; draws run on it one after the other.
  class Run {
   public:
    Run(const Judge& judge, const ETraceGraph& graph, const RuleChoice& rule, const RunMethod& method)
        : judge_(judge),
          rule_(rule),
          method_(method),
          learner_(graph, *rule.rule,
                   {.vjp_method = method.vjp,
                    .backend = judge.o_.backend,
                    .execution_window = method.vjp == VjpMethod::SingleStep ? method.window : 1}),
          loss_(loss_of_steps(method.vjp == VjpMethod::MultiStep && method.window > 1)) {}

    Gradient operator()(const ValueDraw& d) {
      if (used_) {
        learner_.reset_state();
        ParamValues p = learner_.params();
        p.values = d.params;
        learner_.set_params(p);
        std::size_t at = 0;
        for (const InputRecord& in : judge_.model_.inputs)
          if (in.role == Role::Hidden || in.role == Role::Other)
            learner_.set_state(etrace::to_string(in.path), d.states[at++]);
      }
      used_ = true;
      std::vector<ParamValues> parts;
      if (method_.how == RunMethod::Host) {
        parts = by_host(d);
      } else {
        const std::int64_t cut = method_.how == RunMethod::Parts ? d.steps() / 2 : 0;
        if (cut > 0) parts.push_back(part(d, 0, cut));
        parts.push_back(part(d, cut, d.steps()));
      }
      Gradient out;
      for (ParamValues& g : parts) {
        if (judge_.tamper_) judge_.tamper_(rule_, method_, g);
        for (std::size_t i = 0; i < g.values.size(); ++i) add(out, i, g.values[i]);
      }
      return out;
    }

   private:
    static void add(Gradient& sum, std::size_t leaf, const Array& g) {
      const Numbers now = g.tensor().to_doubles();
      if (sum.size() <= leaf) sum.emplace_back(now.size(), 0.0);
      for (std::size_t k = 0; k < now.size(); ++k) sum[leaf][k] += now[k];
    }
    ParamValues part(const ValueDraw& d, std::int64_t begin, std::int64_t end) {
      SequenceOptions how{.freeze = d.freeze, .reduction = Reduction::Sum};
      if (method_.vjp == VjpMethod::MultiStep) how.chunk_size = method_.window;
      if (!d.weights.empty())
        how.mask =
            array(Numbers(d.weights.begin() + begin, d.weights.begin() + end), {end - begin}, Dtype::F64);
      Arrays sequences;
      for (const Array& a : d.sequences) sequences.push_back(slice_axis(a, 0, begin, end));
      return learner_.etrace_grad(sequences, loss_, how).grads;
    }
    std::vector<ParamValues> by_host(const ValueDraw& d) {
      std::vector<ParamValues> out;
      learner_.bind_step([](const Array& y, const Array& target) { return sum(square(y - target)); });
      for (std::int64_t t = 0; t < d.steps(); ++t) {
        Arrays now;
        for (const Array& a : d.sequences) now.push_back(squeeze(slice_axis(a, 0, t, t + 1), {0}));
        const ParamValues& g = learner_.step(ArraySpan(now).first(now.size() - 1), now.back()).grads;
        out.push_back({g.leaves, {}});
        for (const Array& a : g.values) out.back().values.push_back(a + 0.0);  // overwritten by the next
      }
      return out;
    }

    const Judge& judge_;
    const RuleChoice& rule_;
    RunMethod method_;
    Learner learner_;
    StepFunction loss_;
    bool used_ = false;
  };

  void judge_rule(const RuleChoice& rule) {
    const ETraceGraph* g = nullptr;
    std::vector<LeafExpectation> expected;
    if (!attempt(rule, {}, [&] {
          g = &graph(*rule.rule);
          expected = expected_gradients(*g, *rule.rule);
        }))
      return;
    std::optional<Gradient> first;
    std::vector<RunMethod> steps;
    for (const std::int64_t k : o_.execution_windows) steps.push_back({VjpMethod::SingleStep, k});
    if (o_.in_parts && o_.steps > 1 && !steps.empty())
      steps.push_back({VjpMethod::SingleStep, steps.back().window, RunMethod::Parts});
    if (o_.by_host && !o_.weighted) steps.push_back({VjpMethod::SingleStep, 1, RunMethod::Host});
    for (const RunMethod& method : steps) {
      attempt(rule, method, [&] {
        rule.rule->require(method.vjp);
        Run run(*this, *g, rule, method);
        const Gradient found = run(draws_[0].values);
        if (first) {
          compare_windows(rule, method, *first, found);
        } else {
          first = found;
          judge_leaves(rule, method, expected, found, run);
        }
      });
    }
    if (first) results_.push_back({rule.label, VjpMethod::SingleStep, *first});
    std::vector<std::int64_t> windows = o_.windows;
    if (o_.whole_sequence) windows.push_back(o_.steps);
    for (const std::int64_t k : windows) {
      const RunMethod method{VjpMethod::MultiStep, std::min(k, o_.steps)};
      attempt(rule, method, [&] {
        rule.rule->require(method.vjp);
        Run run(*this, *g, rule, method);
        const Gradient found = run(draws_[0].values);
        judge_leaves(rule, method, expected, found, run);
        if (k == o_.windows.front()) results_.push_back({rule.label, VjpMethod::MultiStep, found});
      });
    }
  }

  // Single steps and windows alike.
  void judge_first_step(const RuleChoice& rule) {
    if (!first_step_) {
      ValueDraw v = draw_values(model_, 1, 0);
      ReferenceGradient reference = reference_(v);
      first_step_ = {std::move(v), std::move(reference)};
    }
    for (const VjpMethod vjp : {VjpMethod::SingleStep, VjpMethod::MultiStep}) {
      const RunMethod method{vjp, 1};
      attempt(rule, method, [&] {
        rule.rule->require(vjp);
        const ETraceGraph& g = graph(*rule.rule);
        if (vjp == VjpMethod::SingleStep && !starts_as_bptt(rule, g)) return;
        const Gradient found = Run(*this, g, rule, method)(first_step_->values);
        for (std::size_t i = 0; i < found.size(); ++i) {
          const std::optional<double> apart = measure(found[i], *first_step_, i);
          out_.first_steps += apart ? 1 : 0;
          if (apart && !(*apart < kExact))
            find({Fault::FirstStep, rule.label, method.text(), leaf_name(i), "", method, *apart, 0});
        }
      });
    }
  }
  static bool starts_as_bptt(const RuleChoice& rule, const ETraceGraph& g) {
    const ETraceConfig* config = rule.rule->config();
    const bool random =
        config != nullptr && config->axes().trace_factorization == TraceFactorization::RandomProjection;
    return !random && rule.rule->bind(g)->own_step() != OwnStep::Signal;
  }

  void compare_windows(const RuleChoice& rule, const RunMethod& method, const Gradient& a,
                       const Gradient& b) {
    for (std::size_t i = 0; i < a.size(); ++i) {
      const Deviation d = deviation(b[i], a[i]);
      if (!d.finite || d.apart > kExact * d.reference + rounding_of(draws_[0].reference, i))
        find({Fault::WindowDependent, rule.label, method.text(), leaf_name(i), "", method, d.relative(), 0});
    }
  }

  // The deviation from the reference on one draw; none: both vanish, and nothing was tested.
  std::optional<double> measure(const Numbers& found, const Drawn& d, std::size_t leaf) const {
    const Deviation apart = deviation(found, d.reference.leaves[leaf]);
    if (!apart.finite) return HUGE_VAL;
    const double rounding = rounding_of(d.reference, leaf);
    if (apart.reference <= kDead) {
      if (apart.apart <= kDead + rounding) return std::nullopt;
      return HUGE_VAL;
    }
    return apart.apart <= rounding ? 0.0 : apart.relative();
  }

  void judge_leaves(const RuleChoice& rule, const RunMethod& method,
                    const std::vector<LeafExpectation>& expected, const Gradient& found, Run& run) {
    std::vector<std::size_t> open;       // called approximate, and exact so far
    Numbers largest(found.size(), 0.0);  // of their deviations
    const bool whole = method.vjp == VjpMethod::MultiStep && method.window >= o_.steps;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const ExpectedGradient& says =
          method.vjp == VjpMethod::SingleStep ? expected[i].single_step : expected[i].windows;
      const std::optional<double> apart = measure(found[i], draws_[0], i);
      if (!std::all_of(found[i].begin(), found[i].end(), [](double x) { return std::isfinite(x); })) {
        find({Fault::NotFinite, rule.label, method.text(), leaf_name(i), "", method, 0.0, 0});
        continue;
      }
      if (rule.no_signal) check_no_signal(rule, method, found, i);
      if (!apart) ++out_.dead;
      if (whole || says.expectation == Expectation::Exact) {
        if (apart) ++out_.exact;
        if (apart && !(*apart < kExact))
          find({whole ? Fault::NotReverseMode : Fault::FalseExact, rule.label, method.text(), leaf_name(i),
                says.reason, method, *apart, 0});
      } else if (says.expectation == Expectation::Approximate) {
        if (apart) ++out_.approximate;
        if (apart && *apart < kExact) open.push_back(i);
      } else if (apart) {
        ++(says.expectation == Expectation::PossiblyApproximate ? out_.possibly : out_.no_statement);
      }
    }
    for (int k = 1; k < o_.draws && !open.empty(); ++k) {
      const Drawn& d = draw(static_cast<std::size_t>(k));
      if (!d.reference.finite()) continue;
      const Gradient again = run(d.values);
      std::erase_if(open, [&](std::size_t i) {
        const std::optional<double> apart = measure(again[i], d, i);
        if (apart) largest[i] = std::max(largest[i], *apart);
        return apart && !(*apart < kExact);
      });
    }
    for (const std::size_t i : open)
      find({Fault::FalseApproximate, rule.label, method.text(), leaf_name(i),
            method.vjp == VjpMethod::SingleStep ? expected[i].single_step.reason : expected[i].windows.reason,
            method, largest[i], 0});
  }

  // Of a parameter with traces nothing is left but what passes no state.
  void check_no_signal(const RuleChoice& rule, const RunMethod& method, const Gradient& found,
                       std::size_t leaf) {
    if (!beside_) beside_ = reference_.beside_states(draws_[0].values);
    if (!is_traced(rule, leaf)) return;
    const Deviation apart = deviation(found[leaf], beside_->leaves[leaf]);
    if (apart.apart > kExact * apart.reference + rounding_of(draws_[0].reference, leaf))
      find({Fault::LearnsFromLoss, rule.label, method.text(), leaf_name(leaf), "", method, apart.apart, 0});
  }
  bool is_traced(const RuleChoice& rule, std::size_t leaf) {
    std::size_t at = 0;
    const ETraceGraph& g = graph(*rule.rule);
    for (const InputRecord& in : model_.inputs) {
      if (in.role != Role::Param || at++ != leaf) continue;
      for (const HiddenParamOpRelation* r : g.all_relations())
        for (const TrainableSource& t : r->trainables)
          for (const auto& [path, index] : t.leaves)
            if (path == in.path && index == in.leaf) return true;
    }
    return false;
  }

  void compare_equal_rules() {
    for (const RuleChoice& rule : o_.rules)
      for (const Result& a : results_)
        for (const Result& b : results_) {
          if (a.label != rule.label || b.label != rule.same_as || a.vjp != b.vjp) continue;
          for (std::size_t i = 0; i < a.gradient.size(); ++i) {
            const Deviation d = deviation(a.gradient[i], b.gradient[i]);
            if (!d.finite || d.apart > kExact * d.reference + rounding_of(draws_[0].reference, i))
              find({Fault::UnequalRules,
                    rule.label,
                    a.vjp == VjpMethod::SingleStep ? "single steps" : "windows",
                    leaf_name(i),
                    "not as " + rule.same_as,
                    {a.vjp, 2},
                    d.relative(),
                    0});
          }
        }
  }

  struct Result {
    std::string label;
    VjpMethod vjp;
    Gradient gradient;
  };
  const Model& model_;
  const JudgeOptions& o_;
  const Tamper& tamper_;
  DenseRtrl64 reference_;
  std::vector<Drawn> draws_;
  std::optional<Drawn> first_step_;
  std::map<std::tuple<bool, std::int64_t, bool>, ETraceGraph> graphs_;
  std::optional<ReferenceGradient> beside_;
  std::vector<Result> results_;
  Judgement out_;
};

}  // namespace

Judgement judge(const Model& m, const JudgeOptions& o, const Tamper& tamper) {
  return Judge(m, o, tamper).run();
}

}  // namespace etrace::testing
