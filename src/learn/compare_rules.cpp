// compare_rules(): every rule beside BPTT, with its memory and its time. The forms of the result are in
// compare_text.cpp and compare_page.cpp.
#include "etrace/compare_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <exception>

#include "base/finite.h"
#include "etrace/error.h"
#include "learn/interface.h"
#include "learn/online_run.h"
#include "learn/verify_oracle.h"
#include "learn/verify_words.h"

namespace etrace {

std::vector<std::shared_ptr<const LearningRule>> rules_to_compare() {
  std::vector<std::shared_ptr<const LearningRule>> out;
  for (const RuleRow* row : rule_rows())
    for (const RuleOptions& o : row->compared) out.push_back(row->make(o));
  return out;
}

namespace {

using Doubles = std::vector<double>;

void append(Doubles& to, const Doubles& more) { to.insert(to.end(), more.begin(), more.end()); }

// BPTT, and which parameters it is compared on.
struct Judge {
  std::vector<ParamLeafId> ids;
  std::vector<std::size_t> leaves;  // that are judged
  std::vector<Doubles> reference;   // of each of them
  std::vector<Doubles> credit;      // of the last step's loss from lags below d + 1, all of them in one
  Doubles credit_all;
  std::optional<std::int64_t> horizon;

  Doubles picked(const Arrays& gradients) const {
    Doubles out;
    for (const std::size_t i : leaves) append(out, gradients[i].tensor().to_doubles());
    return out;
  }
};

double distance(const Doubles& a, const Doubles& b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// The smallest number of lags that holds the whole up to 10 %.
std::optional<std::int64_t> horizon_of(const std::vector<Doubles>& cumulated, const Doubles& all) {
  const double size = norm(all);
  if (size <= kAlive) return std::nullopt;
  for (std::size_t d = 0; d < cumulated.size(); ++d)
    if (distance(cumulated[d], all) <= 0.1 * size) return static_cast<std::int64_t>(d) + 1;
  return std::nullopt;
}

// Norm of the credit that comes from before the last step.
double earlier_credit(const Tensor& by_origin) {
  const std::int64_t steps = by_origin.shape()[0], size = by_origin.size() / std::max<std::int64_t>(steps, 1);
  const Doubles all = by_origin.to_doubles();
  return norm(std::span<const double>(all).first(static_cast<std::size_t>((steps - 1) * size)));
}

// Parameters that act through time; if there is none, all that have a gradient.
std::vector<std::size_t> through_time(const Tensors& by_origin, const SequenceOracle::Gradient& reference) {
  std::vector<std::size_t> out, alive;
  for (std::size_t i = 0; i < reference.values.size(); ++i) {
    if (!reference.values[i].defined() || norm(reference.values[i].to_doubles()) <= kAlive) continue;
    alive.push_back(i);
    if (by_origin[i].defined() && earlier_credit(by_origin[i]) > 0.0) out.push_back(i);
  }
  return out.empty() ? alive : out;
}

Judge judge_of(const ETraceGraph& graph, const SequenceOracle& oracle, std::int64_t steps,
               std::int64_t lags) {
  const SequenceOracle::Gradient reference = oracle.bptt();
  if (!std::isfinite(reference.loss))
    throw ValueError("rules", fmt::format("the loss over the sequence is {}, so nothing can be compared; use "
                                          "smaller inputs, fewer steps or other parameters",
                                          unsigned_nan(reference.loss)));
  const Tensors by_origin = oracle.last_step_by_origin();
  Judge j;
  j.ids = param_leaf_ids(graph.module_info);
  j.leaves = through_time(by_origin, reference);
  if (j.leaves.empty())
    throw ValueError("rules",
                     "the BPTT gradient of every parameter is zero, so nothing can be compared; give another "
                     "loss, other inputs or more steps");
  std::vector<Doubles> cumulated(static_cast<std::size_t>(steps));
  for (const std::size_t i : j.leaves) {
    j.reference.push_back(reference.values[i].to_doubles());
    const Doubles all = by_origin[i].to_doubles();
    const std::size_t size = all.size() / static_cast<std::size_t>(steps);
    Doubles sum(size, 0.0);
    for (std::size_t d = 0; d < cumulated.size(); ++d) {
      const std::size_t first = (cumulated.size() - 1 - d) * size;
      for (std::size_t k = 0; k < size; ++k) sum[k] += all[first + k];
      append(cumulated[d], sum);
    }
  }
  j.credit_all = cumulated.back();
  cumulated.resize(static_cast<std::size_t>(std::min(lags, steps)));
  j.credit = std::move(cumulated);
  j.horizon = horizon_of(j.credit, j.credit_all);
  return j;
}

// How far back the rule's own credit reaches. Inside of a window it is that of BPTT.
std::optional<std::int64_t> horizon_of(const Judge& j, const OnlineRun& online, std::int64_t window,
                                       std::int64_t steps) {
  const auto looked_at = static_cast<std::int64_t>(j.credit.size());
  std::vector<std::int64_t> horizons;
  const std::int64_t first = std::max<std::int64_t>(window, 1);
  for (std::int64_t d = first; d <= looked_at; ++d) horizons.push_back(d);
  if (horizons.empty() || horizons.back() < steps) horizons.push_back(steps);
  const std::vector<Arrays> found = online.last_step(horizons, window);
  std::vector<Doubles> cumulated(j.credit.begin(),
                                 j.credit.begin() + std::min<std::int64_t>(first - 1, looked_at));
  for (std::size_t k = 0; k < found.size(); ++k)
    if (horizons[k] <= looked_at) cumulated.push_back(j.picked(found[k]));
  return horizon_of(cumulated, j.picked(found.back()));
}

RuleComparison::Row measured(const Judge& j, const OnlineRun& online, const LearningRule& rule,
                             std::int64_t window, std::int64_t steps, const CompareOptions& o) {
  const OnlineRun::Timed run = online.timed(window, std::max(o.repeats, 1));
  RuleComparison::Row row;
  row.rule = rule.describe();
  row.window = window;
  row.traces = run.trace_bytes;
  row.working = online.working_bytes(window);
  row.seconds = run.seconds / static_cast<double>(steps);
  Doubles all;
  for (const Doubles& r : j.reference) append(all, r);
  row.agreement = agreement(std::span<const double>(j.picked(run.gradients)), std::span<const double>(all));
  row.lowest_cosine = std::numeric_limits<double>::infinity();
  for (std::size_t k = 0; k < j.leaves.size(); ++k) {
    const Doubles own = run.gradients[j.leaves[k]].tensor().to_doubles();
    const double c = agreement(std::span<const double>(own), std::span<const double>(j.reference[k])).cosine;
    const double cosine = std::isnan(c) ? 0.0 : c;  // no gradient at all is no direction
    if (cosine >= row.lowest_cosine) continue;
    row.lowest_cosine = cosine;
    row.lowest = to_string(j.ids[j.leaves[k]]);
  }
  if (o.lags > 0) row.horizon = horizon_of(j, online, window, steps);
  return row;
}

// Rows that nothing of the same memory or less comes before.
void mark_best(std::vector<RuleComparison::Row>& rows) {
  const auto closeness = [](const RuleComparison::Row& r) {
    return std::isnan(r.agreement.cosine) ? -1.0 : r.agreement.cosine;
  };
  for (RuleComparison::Row& row : rows)
    row.best = std::none_of(rows.begin(), rows.end(), [&](const RuleComparison::Row& other) {
      const bool no_worse = other.bytes() <= row.bytes() && closeness(other) >= closeness(row);
      const bool better = other.bytes() < row.bytes() || closeness(other) > closeness(row);
      return no_worse && better;
    });
}

class Comparison {
 public:
  Comparison(const Model& model, ArraySpan sequences, const StepFunction& f, const CompareOptions& o)
      : model_(model), sequences_(sequences), f_(f), o_(o), steps_(sequences[0].shape()[0]) {
    for (const std::int64_t k : o.windows) {
      if (k < 1) throw ValueError("rules", fmt::format("a window of {} steps; give 1 or more", k));
      if (k <= steps_) windows_.push_back(k);
    }
  }

  RuleComparison operator()(std::span<const std::shared_ptr<const LearningRule>> rules) {
    for (const auto& rule : rules) attempt(*rule, "", [&] { run(*rule); });
    if (out_.rows.empty() && first_error_ != nullptr) std::rethrow_exception(first_error_);
    if (out_.rows.empty()) throw ValueError("rules", "no rule was given, or no way to run it");
    mark_best(out_.rows);
    return std::move(out_);
  }

 private:
  template <class F>
  void attempt(const LearningRule& rule, const char* where, const F& f) {
    try {
      f();
    } catch (const NotSupportedError& e) {
      refuse(rule, where, e.message());
    } catch (const CompilationError& e) {
      refuse(rule, where, e.message());
    }
  }
  void refuse(const LearningRule& rule, const char* where, const std::string& why) {
    if (first_error_ == nullptr) first_error_ = std::current_exception();
    out_.refused.push_back({rule.describe(), where, why});
  }

  void run(const LearningRule& rule) {
    CompileOptions options;
    options.control_flow = o_.control_flow;
    options.compat = o_.compat;
    rule.configure(options);
    const ETraceGraph graph = compile_etrace_graph(model_, options);
    rule.bind(graph);  // it may refuse
    Avals slices;
    for (const Array& a : sequences_) slices.push_back({a.dtype(), a.shape().without(0)});
    const StepProgram step = StepProgram::trace(graph, f_, slices);
    if (!judge_) start(graph, step);
    const OnlineRun online(graph, rule, sequences_, f_, step, o_.backend);
    const auto add = [&](std::int64_t window) {
      out_.rows.push_back(measured(*judge_, online, rule, window, steps_, o_));
    };
    if (o_.single_step && allows(rule, VjpMethod::SingleStep, "single steps"))
      attempt(rule, "single steps", [&] { add(0); });
    if (!windows_.empty() && allows(rule, VjpMethod::MultiStep, "windows"))
      attempt(rule, "windows", [&] {
        for (const std::int64_t k : windows_) add(k);
      });
  }

  bool allows(const LearningRule& rule, VjpMethod method, const char* where) {
    try {
      rule.require(method);
      return true;
    } catch (const NotSupportedError& e) {  // says nothing about the model
      out_.refused.push_back({rule.describe(), where, e.message()});
      return false;
    }
  }

  void start(const ETraceGraph& graph, const StepProgram& step) {
    judge_ = judge_of(graph, SequenceOracle(model_, step, sequences_), steps_, o_.lags);
    out_.model = graph.module_info.model.name;
    out_.steps = steps_;
    out_.lags = std::min(o_.lags, steps_);
    out_.dtype = working_dtype(graph);
    out_.backend = o_.backend;
    for (const std::size_t i : judge_->leaves) out_.judged.push_back(to_string(judge_->ids[i]));
    out_.bptt_horizon = judge_->horizon;
  }

  const Model& model_;
  ArraySpan sequences_;
  const StepFunction& f_;
  const CompareOptions& o_;
  std::int64_t steps_;
  std::vector<std::int64_t> windows_;
  std::optional<Judge> judge_;
  RuleComparison out_;
  std::exception_ptr first_error_;
};

}  // namespace

std::vector<std::size_t> RuleComparison::frontier() const {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].best) out.push_back(i);
  std::sort(out.begin(), out.end(),
            [&](std::size_t a, std::size_t b) { return rows[a].bytes() < rows[b].bytes(); });
  return out;
}

RuleComparison compare_rules(const Model& model, std::span<const std::shared_ptr<const LearningRule>> rules,
                             ArraySpan sequences, const StepFunction& f, const CompareOptions& o) {
  check_sequences("rules", sequences);
  return Comparison(model, sequences, f, o)(rules);
}

}  // namespace etrace
