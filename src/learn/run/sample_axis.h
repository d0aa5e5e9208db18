// Which sequences have an entry per sample behind the axis of time: those of which sample b reaches the
// states and the loss of sample b alone. It is followed through the program; a size that agrees is no proof.
#pragma once

#include <optional>

#include "etrace/graph.h"
#include "etrace/plan.h"

namespace etrace {

class SampleAxis {
 public:
  // Of the slices of a step function, or without one of the model's arguments.
  SampleAxis(const ETraceGraph& graph, std::int64_t samples, const StepProgram* step = nullptr)
      : graph_(graph), samples_(samples), step_(step) {}

  // Empty: the slice has. It says otherwise why that is not known. Looks once per slice, when it is asked.
  const std::string& why_not(std::size_t slice) const;

 private:
  std::string found(std::size_t slice) const;
  static bool reaches_states(const Jaxpr& whole, const Var& slice);
  std::vector<std::size_t> own_states(std::size_t num_inputs) const;
  ClosedJaxpr whole_step() const;

  const ETraceGraph& graph_;
  std::int64_t samples_;
  const StepProgram* step_;
  mutable std::vector<std::optional<std::string>> known_;
};

}  // namespace etrace
