// A model over sequences of a task, forward only: loss and accuracy without traces and gradients.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cli/engine.h"
#include "etrace/models.h"
#include "etrace/tasks.h"

namespace etrace::cli {

struct Score {
  double loss = 0.0;
  std::optional<double> accuracy = {};  // none: the task has no labels
};

// Whether batches of the task can be right or wrong.
inline bool has_accuracy(const Task& task) { return task.spec().loss == "cross_entropy"; }

class Evaluator {
 public:
  // Sequences start from the states that the model has now; its parameters are those of the moment of a call.
  // Model and task must outlive it.
  Evaluator(const ReadyModel&, const Task&, std::string backend);

  Score operator()(const TaskBatch&);
  // The mean over batches [first, first + count) of the task.
  Score operator()(std::uint64_t first, std::int64_t count, std::int64_t batch_size);

 private:
  ClosedJaxpr sequence_program(const TaskBatch&) const;

  const Module* module_;
  const Task* task_;
  Model step_;
  std::vector<std::size_t> params_, args_, states_;  // inputs of the step
  std::vector<std::size_t> new_states_;              // its outputs, one per state
  std::string backend_;
  std::unique_ptr<OnBackend> run_;  // of the size of the last batch
  std::int64_t batch_size_ = 0;
};

}  // namespace etrace::cli
