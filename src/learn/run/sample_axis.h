// Which sequences have an entry per sample behind the axis of time: those of which sample b reaches the
// states and the loss of sample b alone. It is followed through the program; a size that agrees is no proof.
#pragma once

#include <optional>

#include "etrace/graph.h"
#include "etrace/plan.h"

namespace etrace {

// Which steps count, or samples of steps: those with a weight that is not zero, of weights [T] or [T, B].
class StepWeights {
 public:
  explicit StepWeights(const Array& weights)
      : samples_(weights.rank() == 2 ? static_cast<std::size_t>(weights.shape()[1]) : 1),
        values_(weights.tensor().to_doubles()) {}

  std::size_t samples() const { return samples_; }
  bool counts(std::size_t step) const {
    for (std::size_t b = 0; b < samples_; ++b)
      if (values_[step * samples_ + b] != 0.0) return true;
    return false;
  }
  // Entry `position` of the `size` entries of a step, one or several per sample.
  bool counts(std::size_t step, std::size_t position, std::size_t size) const {
    return values_[step * samples_ + position / (size / samples_)] != 0.0;
  }

 private:
  std::size_t samples_;
  std::vector<double> values_;
};

class SampleAxis {
 public:
  // Of the slices of a step function, or without one of the model's arguments.
  SampleAxis(const ETraceGraph& graph, std::int64_t samples, const StepProgram* step = nullptr)
      : graph_(graph), samples_(samples), step_(step) {}

  // Empty: the slice has. It says otherwise why that is not known. Looks once per slice, when it is asked.
  const std::string& why_not(std::size_t slice) const;
  // The same of what a program makes of slices that are given by their places among its inputs.
  std::string why_not(const ClosedJaxpr& program, std::span<const std::size_t> slices) const;

 private:
  bool in_windows() const { return step_ != nullptr && step_->window.has_value(); }
  std::string found(std::size_t slice) const;
  ClosedJaxpr whole_step() const;

  const ETraceGraph& graph_;
  std::int64_t samples_;
  const StepProgram* step_;
  mutable std::vector<std::optional<std::string>> known_;
};

}  // namespace etrace
