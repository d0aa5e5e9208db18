// Losses of a task by forward passes; see the header.
#include "train/evaluator.h"

#include "etrace/loss.h"
#include "io/step_outputs.h"

namespace etrace::train {

namespace {

// The loss of a step, and the output for the accuracy.
StepFunction scored_step(const Task& task) {
  const auto loss = loss::find(task.spec().loss).function;
  return [loss](StepCall& model, ArraySpan slices) {
    const Array output = model(slices[0]);
    return LossAndAux{loss(output, slices[1]), {output}};
  };
}

// Inputs, then targets: one label per sample, or numbers like the output.
Avals slice_types(const Model& step, const Task& task) {
  const Aval input = argument_types(step).at(0), output = result_types(step).at(0);
  if (!has_accuracy(task)) return {input, output};
  return {input, {Dtype::I32, Shape{output.shape[0]}}};
}

}  // namespace

Evaluator::Evaluator(Module& module, const Model& step, const Task& task, const std::string& backend)
    : task_(&task), run_(step, scored_step(task), slice_types(step, task), backend) {
  run_.follow(module);
}

Evaluator::Evaluator(const ReadyModel& ready, const Task& task, const std::string& backend)
    : Evaluator(*ready.module, trace_step(*ready.module, ready.example).model, task, backend) {}

std::vector<Program> Evaluator::programs() const { return run_.programs(task_->spec().steps); }

Score Evaluator::operator()(const TaskBatch& batch) {
  const ScoreRun::Scores out = run_(Arrays{batch.inputs, batch.targets});

  const std::vector<double> losses = out.losses.to_doubles(), weights = batch.mask.tensor().to_doubles();
  double sum = 0.0, weight = 0.0;
  for (std::size_t t = 0; t < losses.size(); ++t) {
    sum += weights[t] * losses[t];
    weight += weights[t];
  }
  Score score{sum / weight};
  if (has_accuracy(*task_)) score.accuracy = accuracy(out.aux[0], batch);
  return score;
}

Score Evaluator::operator()(std::uint64_t first, std::int64_t count, std::int64_t batch_size) {
  Score total;
  const double part = 1.0 / static_cast<double>(count);
  for (std::int64_t i = 0; i < count; ++i) {
    const Score one = (*this)(task_->batch(first + static_cast<std::uint64_t>(i), batch_size));
    total.loss += part * one.loss;
    if (one.accuracy) total.accuracy = total.accuracy.value_or(0.0) + part * *one.accuracy;
  }
  return total;
}

}  // namespace etrace::train
