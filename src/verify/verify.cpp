// verify(): a rule beside BPTT, step by step, in windows, and lag by lag. The references are in
// verify_oracle.cpp, what theory expects in verify_expect.cpp, the forms of the report in verify_text.cpp and
// verify_page.cpp.
#include "etrace/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/finite.h"
#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "compiler/scopes.h"
#include "control/as_written.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/run/online_run.h"
#include "learn/traces/interface.h"
#include "verify/verify_oracle.h"
#include "verify/verify_way.h"
#include "verify/verify_words.h"

namespace etrace {

std::string_view name(Verdict v) {
  switch (v) {
    case Verdict::Met:
      return "met";
    case Verdict::Broken:
      return "broken";
    case Verdict::NotAlive:
      return "not alive";
    default:
      return "measured";
  }
}

namespace {

using Vector = std::vector<double>;
Vector minus(const Vector& a, const Vector& b) {
  Vector out(a.size());
  for (std::size_t i = 0; i < a.size(); ++i) out[i] = a[i] - b[i];
  return out;
}

// Credit of one leaf, cumulated: entry d-1 is the gradient from lags below d.
struct Cumulated {
  std::vector<Vector> bptt, online;
  Vector bptt_all, online_all;
};

// The smallest horizon that holds the whole up to 10 %.
std::optional<std::int64_t> horizon_of(const std::vector<Vector>& cumulated, const Vector& all) {
  if (norm(all) <= kAlive) return std::nullopt;
  for (std::size_t d = 0; d < cumulated.size(); ++d)
    if (norm(minus(cumulated[d], all)) <= 0.1 * norm(all)) return static_cast<std::int64_t>(d) + 1;
  return std::nullopt;
}

void set_credit(VerifyReport::Leaf& leaf, const Cumulated& c) {
  const Vector none(c.bptt_all.size(), 0.0);
  for (std::size_t d = 0; d < c.bptt.size(); ++d) {
    const Vector b = minus(c.bptt[d], d == 0 ? none : c.bptt[d - 1]),
                 o = minus(c.online[d], d == 0 ? none : c.online[d - 1]);
    leaf.credit.push_back({static_cast<std::int64_t>(d), norm(b), norm(o), agreement(o, b).cosine});
  }
  leaf.bptt_horizon = horizon_of(c.bptt, c.bptt_all);
  leaf.online_horizon = horizon_of(c.online, c.online_all);
}

// [T, …] by step -> cumulated from the last step backwards.
std::vector<Vector> cumulate_backwards(const Tensor& by_origin) {
  const std::int64_t steps = by_origin.shape()[0], size = by_origin.size() / steps;
  const Vector all = by_origin.to_doubles();
  std::vector<Vector> out;
  Vector sum(static_cast<std::size_t>(size), 0.0);
  for (std::int64_t t = steps - 1; t >= 0; --t) {
    for (std::int64_t i = 0; i < size; ++i)
      sum[static_cast<std::size_t>(i)] += all[static_cast<std::size_t>(t * size + i)];
    out.push_back(sum);
  }
  return out;
}

// `window`: 0 for single steps, 1 for a rule that runs in windows only.
void measure_credit(VerifyReport& report, const SequenceOracle& oracle, const OnlineRun& online,
                    std::int64_t lags, std::int64_t window) {
  const std::int64_t count = std::min(lags, report.steps);
  std::vector<std::int64_t> horizons;
  for (std::int64_t d = 1; d <= count; ++d) horizons.push_back(d);
  if (count < report.steps) horizons.push_back(report.steps);
  const std::vector<Arrays> found = online.last_step(horizons, window);
  const Tensors by_origin = oracle.last_step_by_origin();
  for (std::size_t i = 0; i < report.leaves.size(); ++i) {
    if (!by_origin[i].defined()) continue;
    Cumulated c;
    c.bptt = cumulate_backwards(by_origin[i]);
    c.bptt_all = c.bptt.back();
    c.bptt.resize(static_cast<std::size_t>(count));
    for (const Arrays& g : found) c.online.push_back(g[i].tensor().to_doubles());
    c.online_all = c.online.back();
    c.online.resize(static_cast<std::size_t>(count));
    set_credit(report.leaves[i], c);
  }
}

Verdict judge(const VerifyReport::Leaf& leaf, const VerifyReport::Measure& m) {
  if (!leaf.alive) {
    // A gradient out of nothing is wrong whatever theory says about the rest.
    const bool also_zero = std::isfinite(m.deviation) && m.deviation * leaf.norm <= kAlive;
    return also_zero || m.expected != Expectation::Exact ? Verdict::NotAlive : Verdict::Broken;
  }
  if (m.expected != Expectation::Exact) return Verdict::Measured;
  return m.deviation < leaf.tolerance ? Verdict::Met : Verdict::Broken;
}

void measure(VerifyReport& report, std::int64_t window, const Arrays& gradients,
             const SequenceOracle::Gradient& reference) {
  for (std::size_t i = 0; i < report.leaves.size(); ++i) {
    VerifyReport::Leaf& leaf = report.leaves[i];
    if (!reference.values[i].defined()) continue;
    VerifyReport::Measure m;
    static_cast<Agreement&>(m) = agreement(gradients[i].tensor(), reference.values[i]);
    m.window = window;
    m.expected = window == 0              ? leaf.expected.single_step.expectation
                 : window >= report.steps ? Expectation::Exact  // reverse mode, whatever the rule
                                          : leaf.expected.windows.expectation;
    m.verdict = judge(leaf, m);
    leaf.measures.push_back(m);
  }
}

std::vector<std::int64_t> window_lengths(const VerifyOptions& o, std::int64_t steps) {
  for (const std::int64_t k : o.windows)
    if (k < 1 || k > steps)
      throw ValueError(
          "verify", fmt::format("a window of {} steps in a sequence of {}; give 1 to {}", k, steps, steps));
  std::vector<std::int64_t> out = o.windows;
  if (out.empty())
    out = {1, std::min<std::int64_t>(2, steps), std::min<std::int64_t>(5, steps),
           std::max<std::int64_t>(1, steps / 2), steps};
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

void check_finite(const VerifyReport& r) {
  std::string found;
  if (!std::isfinite(r.loss)) found = fmt::format("the loss over the sequence is {}", unsigned_nan(r.loss));
  for (const VerifyReport::Leaf& leaf : r.leaves)
    if (found.empty() && !std::isfinite(leaf.norm))
      found = fmt::format("the BPTT gradient of {} is not finite", to_string(leaf.id));
  if (!found.empty())
    throw ValueError(
        "verify",
        found + ", so nothing can be compared; use smaller inputs, fewer steps or other parameters");
}

}  // namespace

bool VerifyReport::met() const { return failures().empty(); }

namespace {

LeafExpectation under_compat() {
  const std::string why =
      "compat reproduces the decisions of the reference system, known faults included, and theory does not "
      "speak of those";
  const ExpectedGradient none{Expectation::NoStatement, why, {why}};
  return {none, none};
}

// Everything that is known before the rule has run.
VerifyReport start_report(const ETraceGraph& graph, const LearningRule& rule,
                          const std::vector<LeafWay>& ways, const SequenceOracle::Gradient& reference) {
  VerifyReport report;
  report.model = graph.module_info.model.name;
  report.rule = rule.describe_on(graph);
  report.dtype = working_dtype(graph);
  report.tolerance = exact_below(report.dtype);
  report.oracle_tolerance = differences_below(report.dtype).value_or(0.0);
  report.loss = reference.loss;
  report.scopes = scopes_text(scope_costs(graph), scope_name(graph.options));
  const std::vector<ParamLeafId> ids = param_leaf_ids(graph.module_info);
  const std::vector<LeafExpectation> expected = expected_gradients(graph, rule);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    VerifyReport::Leaf leaf;
    leaf.id = ids[i];
    leaf.expected = graph.options.compat == Compat::None ? expected[i] : under_compat();
    leaf.dtype = ways[i].narrowest;
    leaf.tolerance = exact_below(leaf.dtype);
    leaf.oracle_tolerance = differences_below(leaf.dtype).value_or(0.0);
    leaf.differences_exempt = ways[i].differences_exempt;
    report.surrogate = report.surrogate || !leaf.differences_exempt.empty();
    if (reference.values[i].defined()) {
      leaf.shape = reference.values[i].shape();
      leaf.norm = norm(reference.values[i].to_doubles());
    }
    leaf.alive = leaf.norm > kAlive;
    report.leaves.push_back(std::move(leaf));
  }
  check_finite(report);
  return report;
}

// The reference against the function itself, where it is smooth, and the program that learns against the
// reference.
void check_reference(VerifyReport& report, const SequenceOracle& written,
                     const SequenceOracle::Gradient& reference, const SequenceOracle::Gradient& recorded) {
  ProgramRun forward = written.forward();
  for (std::size_t i = 0; i < report.leaves.size(); ++i) {
    if (!reference.values[i].defined()) continue;
    VerifyReport::Leaf& leaf = report.leaves[i];
    const std::vector<double> found = recorded.values[i].to_doubles();
    if (leaf.alive || norm(found) > kAlive)
      leaf.as_recorded = agreement(found, reference.values[i].to_doubles()).deviation;
    if (leaf.differences_exempt.empty())
      leaf.slope = written.slope_deviation(forward, reference, i, leaf.dtype);
  }
}

void check_oracle(VerifyReport& report, const SequenceOracle& oracle,
                  const SequenceOracle::Gradient& reference, const VerifyOptions& o) {
  if (o.finite_differences) {
    std::vector<Dtype> types;
    for (const VerifyReport::Leaf& leaf : report.leaves) types.push_back(leaf.dtype);
    const std::vector<double> found = oracle.finite_differences(reference, types);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (reference.values[i].defined()) report.leaves[i].finite_differences = found[i];
  }
  if (o.full_rtrl) {
    const Tensors found = oracle.full_rtrl(o.max_influence);
    for (std::size_t i = 0; i < found.size(); ++i)
      if (found[i].defined()) report.leaves[i].full_rtrl = agreement(reference.values[i], found[i]).deviation;
  }
}

}  // namespace

namespace {

// Whether the rule is measured this way: as asked for, or as it can.
bool runs(const LearningRule& rule, VjpMethod method, const std::optional<VjpMethod>& asked) {
  if (asked && *asked != method) return false;
  if (asked) rule.require(method);
  try {
    rule.require(method);
    return true;
  } catch (const NotSupportedError&) {
    return false;
  }
}

StepProgram step_without_calls(const Model& model, const StepFunction& f, std::span<const Aval> slices) {
  const AsWritten scope;
  return StepProgram::trace(model, f, slices);
}

}  // namespace

VerifyReport verify(const Model& model, const LearningRule& rule, ArraySpan sequences, const StepFunction& f,
                    const VerifyOptions& o) {
  check_sequences("verify", sequences);
  const std::int64_t steps = sequences[0].shape()[0];
  const std::vector<std::int64_t> windows = window_lengths(o, steps);
  const bool single = runs(rule, VjpMethod::SingleStep, o.method),
             multi = runs(rule, VjpMethod::MultiStep, o.method);
  CompileOptions options;
  options.control_flow = o.control_flow;
  options.compat = o.compat;
  rule.configure(options);
  const ETraceGraph graph = compile_etrace_graph(model, options);
  Avals slices;
  for (const Array& a : sequences) slices.push_back({a.dtype(), a.shape().without(0)});
  const std::uint64_t calls = recorded_calls();
  const StepProgram step = StepProgram::trace(graph, f, slices);
  const Model& model_as_written = o.as_written != nullptr ? *o.as_written : model;
  const StepProgram step_as_written =
      recorded_calls() == calls ? step : step_without_calls(model_as_written, f, slices);

  const SequenceOracle written(model_as_written, step_as_written, sequences, SequenceOracle::Form::AsWritten),
      oracle(model, step, sequences);
  const SequenceOracle::Gradient reference = written.bptt();
  VerifyReport report =
      start_report(graph, rule, ways_of_parameters(model_as_written, step_as_written), reference);
  report.steps = steps;
  check_reference(report, written, reference, oracle.bptt());
  check_oracle(report, written, reference, o);
  const OnlineRun online(graph, rule, sequences, f, step, o.backend);
  if (single) measure(report, 0, online.single_step(), reference);
  for (const std::int64_t k : windows)
    if (multi) measure(report, k, online.windows(k), reference);
  if (o.lags > 0) measure_credit(report, oracle, online, o.lags, single ? 0 : 1);
  return report;
}

VerifyReport verify(Module& module, const LearningRule& rule, const Array& inputs, const Array& targets,
                    const Loss& loss, const VerifyOptions& o) {
  check_sequences("verify", Arrays{inputs, targets});
  const Aval example{inputs.dtype(), inputs.shape().without(0)};
  const auto record = [&] { return trace_step(module, std::span<const Aval>(&example, 1)).model; };
  const std::uint64_t calls = recorded_calls();
  const Model model = record();
  VerifyOptions options = o;
  std::optional<Model> as_written;
  if (recorded_calls() != calls) {
    const AsWritten scope;
    options.as_written = &as_written.emplace(record());
  }
  return verify(model, rule, Arrays{inputs, targets}, step_function(loss), options);
}

}  // namespace etrace
