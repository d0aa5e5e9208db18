#include "support/learning.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "support/numeric.h"

namespace etrace::testing {

// Sequences -------------------------------------------------------------------------------------------------
Arrays Sequence::all() const {
  Arrays out = args;
  out.push_back(targets);
  return out;
}

Sequence Sequence::part(std::int64_t begin, std::int64_t end) const {
  const auto cut = [&](const Array& a) { return a.defined() ? slice_axis(a, 0, begin, end) : a; };
  Sequence out{{}, cut(targets), cut(weights)};
  for (const Array& a : args) out.args.push_back(cut(a));
  return out;
}

Sequence draw_sequence(const Model& m, std::int64_t steps, std::uint64_t seed) {
  Random random(seed);
  Sequence out;
  const auto draw = [&](const Aval& a) {
    const bool whole = is_integer(a.dtype);
    return Array(random.tensor({a.dtype, a.shape.with_front(steps)}, whole ? 0.0 : -1.0, whole ? 3.0 : 1.0));
  };
  for (std::size_t i = 0; i < m.inputs.size(); ++i)
    if (m.inputs[i].role == Role::Arg) out.args.push_back(draw(m.program.jaxpr.invars[i].aval));
  out.targets = draw(m.program.out_avals()[0]);
  return out;
}

StepFunction squared_error(std::int64_t window) {
  return [window](StepCall& model, ArraySpan slices) -> LossAndAux {
    std::vector<etrace::StepInput> args;
    for (const Array& a : slices.first(slices.size() - 1))
      args.push_back(window == 1 ? etrace::StepInput(a) : etrace::StepInput(MultiStepData{a}));
    const Array error = square(model(args)[0] - slices.back());
    if (window == 1) return {sum(error)};
    return {sum(reshape(error, {error.shape()[0], -1}), {1})};
  };
}

// Reverse mode through everything ---------------------------------------------------------------------------
namespace {
bool carried(Role role) { return role == Role::Hidden || role == Role::Other; }
}  // namespace

Arrays initial_states(const Model& m) {
  Arrays out;
  for (const InputRecord& in : m.inputs)
    if (carried(in.role)) out.push_back(in.init);
  return out;
}

ParamValues initial_params(const Model& m) {
  ParamValues out;
  for (const InputRecord& in : m.inputs) {
    if (in.role != Role::Param) continue;
    out.leaves.push_back({in.path, in.leaf, etrace::to_string(in.leaf_key)});
    out.values.push_back(in.init);
  }
  return out;
}

namespace {

// One step of the model's program: new states, and the first result.
ScanResult model_step(const Model& m, ArraySpan args, ArraySpan states, ArraySpan params) {
  Arrays in;
  std::size_t arg = 0, state = 0, param = 0;
  for (const InputRecord& r : m.inputs)
    in.push_back(r.role == Role::Arg     ? args[arg++]
                 : r.role == Role::Param ? params[param++]
                                         : states[state++]);
  const Arrays out = eval_jaxpr(m.program, in);
  ScanResult result;
  for (const InputRecord& r : m.inputs) {
    if (!carried(r.role)) continue;
    for (std::size_t o = 0; o < m.outputs.size(); ++o)
      if (carried(m.outputs[o].role) && m.outputs[o].path == r.path && m.outputs[o].leaf == r.leaf)
        result.carry.push_back(out[o]);
  }
  for (std::size_t o = 0; o < m.outputs.size(); ++o)
    if (m.outputs[o].role == Role::Out && m.outputs[o].index == 0) result.ys.push_back(out[o]);
  return result;
}

}  // namespace

Bptt bptt(const Model& m, const Sequence& s) {
  return bptt(m, s, initial_params(m).values, initial_states(m));
}

Bptt bptt(const Model& m, const Sequence& s, ArraySpan params, ArraySpan states) {
  const Dtype dtype = s.targets.dtype();
  const Array weights = s.weights.defined() ? convert(s.weights, dtype) : full({s.length()}, 1.0, dtype);
  Arrays xs = s.all();
  xs.push_back(weights);
  // (params) -> (Σ weight·loss, losses, states at the end)
  const ClosedJaxpr program = make_jaxpr(
      [&](ArraySpan w) {
        const ScanResult r = scan(
            [&](ArraySpan carry, ArraySpan now) -> ScanResult {
              ScanResult step = model_step(m, now.first(s.args.size()), carry, w);
              const Array loss = sum(square(step.ys[0] - now[s.args.size()]));
              return {step.carry, {loss * now.back(), loss}};
            },
            Arrays(states.begin(), states.end()), xs);
        Arrays out{sum(r.ys[0]), r.ys[1]};
        out.insert(out.end(), r.carry.begin(), r.carry.end());
        return out;
      },
      avals_of(params));
  const Arrays out = to_arrays(evaluate(value_and_grad(program), to_tensors(params)));
  Bptt result;
  result.losses = out[1];
  result.states.assign(out.begin() + 2, out.end() - static_cast<std::ptrdiff_t>(params.size()));
  result.grads.leaves = initial_params(m).leaves;
  result.grads.values.assign(out.end() - static_cast<std::ptrdiff_t>(params.size()), out.end());
  return result;
}

VjpMethod method_of(const LearningRule& rule) {
  return dynamic_cast<const InWindows*>(&rule) != nullptr ? VjpMethod::MultiStep : VjpMethod::SingleStep;
}

std::shared_ptr<const LearningRule> telling_rule(const RuleRow& row) {
  RuleOptions o;
  if (row.name == "pp_prop") o = {{"decay_or_rank", 0.8}};
  if (row.name == "EProp")
    o = {{"kappa_filter_decay", 0.7}, {"feedback", "random"}, {"random_feedback_key", 5}};
  if (row.name == "ThreeFactor") o = {{"modulator", 0.5}};
  if (row.name == "ETraceConfig")
    o = {{"temporal_recursion", "scalar_leak"}, {"decay", 0.8}, {"trace_filter", "kappa"}, {"kappa", 0.5}};
  return make_rule(row.name, o);
}

std::vector<const RuleRow*> rows_that_run(VjpMethod method) {
  std::vector<const RuleRow*> out;
  for (const RuleRow* row : rule_rows()) try {
      telling_rule(*row)->require(method);
      out.push_back(row);
    } catch (const NotSupportedError&) {
    }
  return out;
}

// Learners --------------------------------------------------------------------------------------------------
Learner make_learner(const Model& m, const LearningRule& rule, Compat compat, std::int64_t window) {
  CompileOptions options;
  options.compat = compat;
  return make_learner(m, rule, options, window);
}

Learner make_learner(const Model& m, const LearningRule& rule, CompileOptions options, std::int64_t window) {
  rule.configure(options);
  return {compile_etrace_graph(m, options),
          rule,
          {.vjp_method = method_of(rule), .compat = options.compat, .execution_window = window}};
}

ParamValues online(Learner& learner, const Sequence& s, std::int64_t window, bool freeze) {
  SequenceOptions how{.mask = s.weights, .freeze = freeze, .reduction = Reduction::Sum};
  if (window == 0) return learner.etrace_grad(s.all(), squared_error(), how).grads;
  ParamValues total;
  const std::int64_t whole = s.length() / window * window;
  for (const auto& [begin, end] : {std::pair(std::int64_t{0}, whole), std::pair(whole, s.length())}) {
    if (begin == end) continue;
    const Sequence part = s.part(begin, end);
    how.mask = part.weights;
    how.chunk_size = std::min(window, end - begin);
    const ParamValues g = learner.etrace_grad(part.all(), squared_error(*how.chunk_size), how).grads;
    total = total.leaves.empty() ? g : sum_of(total, g);
  }
  return total;
}

Arrays states_of(const Learner& learner) {
  Arrays out;
  for (const std::string& name : learner.state_names()) out.push_back(learner.state(name));
  return out;
}

Arrays traces_of(const Learner& learner) {
  Arrays out;
  for (const EligibilityTrace& t : learner.etraces()) out.push_back(t.value);
  return out;
}

ParamValues sum_of(const ParamValues& a, const ParamValues& b) {
  ParamValues out = a;
  for (std::size_t i = 0; i < out.values.size(); ++i) out.values[i] = a.values[i] + b.values[i];
  return out;
}

// Comparison ------------------------------------------------------------------------------------------------
double norm(const Array& a) {
  double total = 0.0;
  for (const double v : a.tensor().to_doubles()) total += v * v;
  return std::sqrt(total);
}

double cosine(const Array& a, const Array& b) {
  const std::vector<double> x = a.tensor().to_doubles(), y = b.tensor().to_doubles();
  double product = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) product += x[i] * y[i];
  return product / (norm(a) * norm(b));
}

double relative_deviation(const Array& found, const Array& expected) {
  const std::vector<double> a = found.tensor().to_doubles(), b = expected.tensor().to_doubles();
  if (found.shape() != expected.shape()) return HUGE_VAL;
  double apart = 0.0, size = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return apart == 0.0 ? 0.0 : std::sqrt(apart / size);
}

namespace {

template <class F>
void for_leaves(const ParamValues& found, const ParamValues& expected, const std::vector<std::string>& names,
                const F& f) {
  ASSERT_EQ(found.leaves, expected.leaves);
  std::size_t used = 0;
  for (std::size_t i = 0; i < found.leaves.size(); ++i) {
    const std::string name = to_string(found.leaves[i]);
    if (!names.empty() && std::find(names.begin(), names.end(), name) == names.end()) continue;
    ++used;
    EXPECT_GT(norm(expected.values[i]), 1e-8) << "the reference gradient of " << name << " is dead";
    f(name, relative_deviation(found.values[i], expected.values[i]));
  }
  EXPECT_EQ(used, names.empty() ? found.leaves.size() : names.size()) << "a leaf is not there";
}

}  // namespace

double largest_deviation(const ParamValues& found, const ParamValues& expected,
                         const std::vector<std::string>& names) {
  double worst = 0.0;
  for_leaves(found, expected, names,
             [&](const std::string&, double deviation) { worst = std::max(worst, deviation); });
  return worst;
}

void expect_gradients(const ParamValues& found, const ParamValues& expected, double tolerance,
                      const std::vector<std::string>& names) {
  for_leaves(found, expected, names, [&](const std::string& name, double deviation) {
    EXPECT_LE(deviation, tolerance) << "gradient of " << name;
  });
}

// Rules that are wrong on purpose ---------------------------------------------------------------------------
namespace {

Arrays zeros_for(ArraySpan values) {
  Arrays out;
  for (const Array& a : values) out.push_back(zeros_of(a.aval()));
  return out;
}

class Forgetful : public BoundRule {
 public:
  Forgetful(std::unique_ptr<const BoundRule> rule, ForgetfulRule::What what)
      : rule_(std::move(rule)), what_(what) {}
  std::vector<TraceSlot> slots() const override { return rule_->slots(); }
  std::vector<EligibilityTrace> traces(ArraySpan params, ArraySpan memory) const override {
    return rule_->traces(params, memory);
  }
  Arrays keep(const StepData& d) const override { return rule_->keep(d); }
  Advanced advance(const WindowData& w, ArraySpan memory, const Signals& signals) const override {
    if (what_ == ForgetfulRule::Trace) return rule_->advance(w, zeros_for(memory), signals);
    WindowData without = w;
    without.jacobians = zeros_for(w.jacobians);
    return rule_->advance(without, memory, signals);
  }
  OwnStep own_step() const override { return rule_->own_step(); }
  Arrays contract(const WindowData& w, ArraySpan memory, ArraySpan signal) const override {
    return rule_->contract(w, memory, signal);
  }

 private:
  std::unique_ptr<const BoundRule> rule_;
  ForgetfulRule::What what_;
};

}  // namespace

std::unique_ptr<const BoundRule> ForgetfulRule::bind(const ETraceGraph& g) const {
  return std::make_unique<Forgetful>(D_RTRL::bind(g), what_);
}

}  // namespace etrace::testing
