// Labels of what a learner is given are looked at before anything runs: a program cannot refuse them, it
// would take a sample with a label that names no class for one without loss.
//
// cross_entropy and the metrics mark their labels in the recorded step function (ops/class_label.h). Labels
// that follow from the data alone are checked, as they are or computed from it; those that depend on the
// model's results, or stand in the body of a loop or branch of the step function, are not.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "etrace/plan.h"
#include "learn/run/sample_axis.h"

#pragma GCC visibility push(default)
namespace etrace {

class LabelCheck {
 public:
  explicit LabelCheck(const StepProgram&);
  ~LabelCheck();
  LabelCheck(LabelCheck&&) noexcept;
  LabelCheck& operator=(LabelCheck&&) noexcept;

  bool empty() const;  // there is nothing to look at

  // For who looks by other means: which slices are labels, as they are, of how many classes. None if there
  // are labels that are computed from slices.
  struct Slice {
    std::size_t slice;
    std::int64_t classes;
  };
  std::optional<std::vector<Slice>> slices() const;

  // ValueError in the name of `what` says label, step and number of classes. Sequences have time first;
  // weights are [T] or [T, B], and what has weight zero may hold any label. Looks at steps [begin, end), a
  // multiple of what the step function sees at once.
  void sequences(const char* what, ArraySpan sequences, const Array& weights, const SampleAxis&,
                 std::int64_t begin, std::int64_t end) const;
  // One step's slices, as the step function takes them. Allocates nothing where the labels are a slice as it
  // is.
  void step(const char* what, ArraySpan slices) const;

 private:
  struct Uses;
  std::unique_ptr<Uses> uses_;
};

}  // namespace etrace
#pragma GCC visibility pop
