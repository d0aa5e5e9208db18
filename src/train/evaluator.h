// A model over sequences of a task, forward only: loss and accuracy without traces and gradients.
#pragma once

#include <vector>

#include "etrace/models.h"
#include "etrace/tasks.h"
#include "etrace/train.h"
#include "learn/run/score_run.h"

#pragma GCC visibility push(default)
namespace etrace::train {

std::string loss_text(double);  // "0.0581", "1.6e-05", "2.5e+10"
// "on 16 batches never trained on: loss 0.0581, accuracy 0.9912\n"
std::string score_line(const Score&, std::int64_t batches);

// Whether batches of the task can be right or wrong.
inline bool has_accuracy(const Task& task) { return task.spec().loss == "cross_entropy"; }

// The step of a model that is evaluated: nothing is dropped out.
Model evaluating(Model step);

class Evaluator {
 public:
  // Sequences start from the states that the model has now; its parameters are those of the moment of a call.
  // Model and task must outlive it.
  Evaluator(const ReadyModel&, const Task&, const std::string& backend);
  // The same with the step as it was traced before.
  Evaluator(Module&, const Model& step, const Task&, const std::string& backend);

  // Batches of as many samples as the model was made for; ValueError otherwise.
  Score operator()(const TaskBatch&);
  // The mean over batches [first, first + count) of the task.
  Score operator()(std::uint64_t first, std::int64_t count, std::int64_t batch_size);

  std::vector<Program> programs() const;  // what it runs, as recorded
  std::vector<Program> compiled() const { return run_.compiled(); }

 private:
  std::vector<double> step_losses(const ScoreRun::Scores&, const TaskBatch&) const;

  const Task* task_;
  ScoreRun run_;
};

}  // namespace etrace::train
#pragma GCC visibility pop
