// A rule on one sequence, as verify() and compare_rules() look at it. Private to learn/.
#pragma once

#include "etrace/learner.h"

namespace etrace {

// ValueError unless there are sequences, all of the same length.
void check_sequences(const char* stage, ArraySpan sequences);

// Steps [begin, end) of every sequence.
Arrays steps_of(ArraySpan sequences, std::int64_t begin, std::int64_t end);

class OnlineRun {
 public:
  // All must outlive it.
  OnlineRun(const ETraceGraph&, const LearningRule&, ArraySpan sequences, const StepFunction&,
            const StepProgram&, std::string backend);

  // From now on with the parameters and states of this model, which has the graph's program, and on these
  // sequences, which must outlive it. What was compiled stays.
  void start_from(const Model&, ArraySpan sequences);

  // Gradients per parameter leaf, of the loss summed over the sequence.
  Arrays single_step() const;
  Arrays windows(std::int64_t window) const;
  // The same again and again: seconds of the quickest of so many runs, after one that compiles.
  struct Timed {
    Arrays gradients;
    double seconds = 0.0;
    std::int64_t trace_bytes = 0;
  };
  Timed timed(std::int64_t window, int repeats) const;  // window 0: single steps
  // What one window needs beside the traces (of single steps: one step), by the interpreter's plan.
  std::int64_t working_bytes(std::int64_t window) const;

  // Seconds of one step in single steps, or of a window of one, without what is made once.
  double seconds_of_one_step(std::int64_t window) const;

  // Gradient of the loss of the last step if the traces were empty `horizon` steps before the end, so that
  // only credit of lags below it is there. One entry per horizon. In windows: the last window ends with the
  // last step, and horizons are at least its length.
  std::vector<Arrays> last_step(const std::vector<std::int64_t>& horizons, std::int64_t window = 0) const;

 private:
  std::int64_t steps() const { return sequences_[0].shape()[0]; }
  Learner& at_start(std::int64_t window) const;  // single steps (0) or windows; traces empty
  SequenceGradient gradient(Learner&, std::int64_t window, ArraySpan sequences, const SequenceOptions&) const;
  StepFunction function(std::int64_t window) const { return window > 1 ? in_windows_ : f_; }

  const ETraceGraph& graph_;
  const LearningRule& rule_;
  ArraySpan sequences_;
  const StepFunction& f_;
  const StepProgram& step_;
  std::string backend_;
  StepFunction in_windows_;
  Arrays params_;  // to start from: per parameter leaf
  std::vector<std::pair<std::string, Array>> states_;
  mutable std::optional<Learner> single_, multi_;
};

}  // namespace etrace
