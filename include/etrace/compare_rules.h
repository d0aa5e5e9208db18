// Which rule fits a model? Rules run side by side on the model and a sequence, in single steps and in
// windows, and what matters for choosing is measured: memory, time, how close the gradient comes to BPTT, and
// how far back credit reaches. `etrace rules MODEL` prints it; docs/choosing-a-rule.md reads such tables.
//
//   const RuleComparison c = compare_rules(model, rules_to_compare(), {xs, ys}, step);
//   std::cout << c.to_string();
#pragma once

#include "etrace/verify.h"

#pragma GCC visibility push(default)
namespace etrace {

// Every rule of the table, with the options that its row names for comparisons.
std::vector<std::shared_ptr<const LearningRule>> rules_to_compare();

struct CompareOptions {
  bool single_step = true;
  // Steps of the windows of multi-step runs. Those beyond the sequence are left out.
  std::vector<std::int64_t> windows = {1, 8, 32};
  std::int64_t lags = 32;  // steps back that the loss of the last step is followed; 0: not at all
  int repeats = 3;         // runs that are timed; the quickest counts
  Compat compat = Compat::None;
  ControlFlowPolicy control_flow = {};
  std::string backend = "interpreter";
};

struct RuleComparison {
  struct Row {
    std::string rule;          // with its options
    std::int64_t window = 0;   // 0: single steps
    std::int64_t traces = 0;   // bytes that are kept from step to step, whatever the length of the sequence
    std::int64_t working = 0;  // bytes that one window needs beside (single steps: one step)
    double seconds = 0.0;      // per step, forward, traces and gradient
    Agreement agreement;       // with BPTT, over all parameters that are judged
    double lowest_cosine = 0.0;
    std::string lowest;  // the parameter that has it
    std::optional<std::int64_t>
        horizon;        // steps back that hold 90 % of its credit; none: more than looked at
    bool best = false;  // nothing with at most its memory comes closer to BPTT
    std::int64_t bytes() const { return traces + working; }
  };
  struct Refused {
    std::string rule;
    std::string where;  // "single steps", "windows"; empty: anywhere
    std::string reason;
  };
  std::string model;
  std::int64_t steps = 0, lags = 0;
  Dtype dtype = Dtype::F64;
  std::string backend;
  // Parameters whose credit passes through time; what acts on its own step only is exact under every rule.
  std::vector<std::string> judged;
  std::optional<std::int64_t> bptt_horizon;
  std::vector<Row> rows;
  std::vector<Refused> refused;

  std::vector<std::size_t> frontier() const;  // rows that are best for their memory, memory ascending
  std::string to_string() const;              // at most 100 columns
  std::string to_json() const;                // everything ("format": "etrace.rules")
  std::string to_html() const;                // one page with the frontier plotted, which loads nothing
};

// Sequences and step function as in verify(). A rule that cannot run is listed with its reason; if none can,
// the error of the first one is thrown. ValueError for a window below 1 and a loss that is not finite.
RuleComparison compare_rules(const Model&, std::span<const std::shared_ptr<const LearningRule>> rules,
                             ArraySpan sequences, const StepFunction&, const CompareOptions& = {});

}  // namespace etrace
#pragma GCC visibility pop
