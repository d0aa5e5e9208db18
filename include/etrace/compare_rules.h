// Which rule fits a model? Rules run side by side on the model, in single steps and in windows, over several
// draws of parameters and sequences, and what matters for choosing is measured: memory, time, how close the
// gradient of each parameter comes to BPTT in direction and size, and how far back credit reaches. `etrace
// rules MODEL` prints it; docs/choosing-a-rule.md reads such tables.
//
//   const RuleComparison c = compare_rules(model, rules_to_compare(), {xs, ys}, step);
//   std::cout << c.to_string();
#pragma once

#include "etrace/verify.h"

#pragma GCC visibility push(default)
namespace etrace {

// Every rule of the table, with the options that its row names for comparisons.
std::vector<std::shared_ptr<const LearningRule>> rules_to_compare();

// One draw: the model with its parameters and states, and sequences with time first.
struct ModelDraw {
  Model model;
  Arrays sequences;
};

struct RuleComparison {
  struct Parameter {
    std::string name;
    double cosine = 0.0;  // means over the draws in which it has a gradient; NaN: it has none in any
    double norm_ratio = 0.0;
    std::optional<std::int64_t> horizon;  // the median; none: more than looked at
  };
  // Every parameter counts alike, whatever the size of its gradient.
  struct Row {
    std::string rule;          // with its options, and what the graph decides
    std::int64_t window = 0;   // 0: single steps
    std::int64_t traces = 0;   // bytes that are kept from step to step, whatever the length of the sequence
    std::int64_t working = 0;  // bytes that one window needs beside (single steps: one step)
    double seconds = 0.0;      // per step, forward, traces and gradient
    int draws = 0;             // that were measured
    std::vector<Parameter> parameters;    // those that are judged
    double cosine = 0.0;                  // direction: mean over parameters and draws
    double deviation = 0.0;               // of that mean, from draw to draw
    double lowest_cosine = 0.0;           // of a parameter, mean over the draws
    std::string lowest;                   // the parameter that has it
    double norm_ratio = 0.0;              // size: median over parameters and draws
    std::optional<std::int64_t> horizon;  // steps back that hold 90 % of the last step's credit: the median
    bool has_horizon = false;             // false: not measured; true without a horizon: more than looked at
    bool best = false;  // nothing with at most its memory is as close to BPTT: RuleComparison::Distance
    std::int64_t bytes() const { return traces + working; }
  };
  struct Refused {
    std::string rule;
    std::string where;  // "single steps", "windows", "windows of 8 steps"; empty: anywhere
    std::string reason;
  };
  struct LeftOut {
    std::string parameter;
    std::string reason;
  };
  std::string model;
  std::int64_t steps = 0, lags = 0;
  int draws = 1;
  Dtype dtype = Dtype::F64;
  std::string backend;
  std::vector<std::string> judged;  // parameters whose credit passes through time, without those of readouts
  std::vector<LeftOut> left_out;
  std::optional<std::int64_t> bptt_horizon;  // the median over judged parameters and draws
  std::vector<Row> rows;                     // as they were measured: what costs little first
  std::vector<Refused> refused;              // by the rule or for the model
  std::vector<Refused> not_measured;         // for want of time, or because another row says it all

  // How far a row is from BPTT; 0 is BPTT itself. Direction is what learning lives on; a factor of e in size
  // or horizon counts as much as a tenth of a cosine.
  struct Distance {
    double direction;  // 1 − cosine
    double size;       // |ln norm ratio|
    double horizon;    // |ln of the rule's horizon over BPTT's|; 0 where it is not measured
    double total() const { return direction + 0.1 * size + 0.1 * horizon; }
  };
  Distance distance(const Row&) const;
  std::vector<std::size_t> frontier() const;  // rows that are best for their memory, memory ascending
  std::string to_string() const;              // at most 100 columns
  std::string to_markdown() const;            // the table, with the best in bold
  std::string to_json() const;                // everything ("format": "etrace.rules")
  std::string to_html() const;                // one page with the frontier plotted, which loads nothing
};

struct CompareOptions {
  bool single_step = true;
  // Steps of the windows of multi-step runs. Those beyond the sequence are left out.
  std::vector<std::int64_t> windows = {1, 8, 32};
  std::int64_t lags = 32;  // steps back that the loss of the last step is followed; 0: not at all
  int repeats = 3;         // runs that are timed; the quickest counts
  // For everything. What would not be done by then is not begun, and listed; rules that cost little come
  // first.
  std::optional<double> seconds = {};
  Compat compat = Compat::None;
  ControlFlowPolicy control_flow = {};
  std::string backend = "interpreter";
  // Called when the table can begin (no rows yet), and with each row, which is the last one then.
  std::function<void(const RuleComparison&)> on_row = {};
};

// Sequences and step function as in verify(). Draws must have one and the same program. A rule that cannot
// run is listed with its reason; if none can, the error of the first one is thrown. ValueError for a window
// below 1, a loss that is not finite, no draw, and draws of different shapes.
RuleComparison compare_rules(std::span<const ModelDraw>,
                             std::span<const std::shared_ptr<const LearningRule>> rules, const StepFunction&,
                             const CompareOptions& = {});
RuleComparison compare_rules(const Model&, std::span<const std::shared_ptr<const LearningRule>> rules,
                             ArraySpan sequences, const StepFunction&, const CompareOptions& = {});

}  // namespace etrace
#pragma GCC visibility pop
