// Losses of a task by forward passes; see the header.
#include "train/evaluator.h"

#include <fmt/format.h>

#include <cmath>

#include "base/finite.h"
#include "etrace/loss.h"
#include "etrace/ops/numpy.h"
#include "io/step_outputs.h"
#include "train/padding.h"

namespace etrace::train {

namespace {

// The loss of a step, and the output for the accuracy. Slices: inputs, targets, and where samples stand
// still.
StepFunction scored_step(const Task& task) {
  const auto loss = loss::find(task.spec().loss).function;
  return [loss, padded = task.has_padding()](StepCall& model, ArraySpan slices) {
    const Array output = padded ? model({slices[0], slices[2]})[0] : model(slices[0]);
    return LossAndAux{loss(output, slices[1]), {output}};
  };
}

// Inputs, then targets: one label per sample, or numbers like the output.
Avals slice_types(const Model& step, const Task& task) {
  const Aval input = argument_types(step).at(0), output = result_types(step).at(0);
  Avals out{input, output};
  if (has_accuracy(task)) out[1] = {Dtype::I32, Shape{output.shape[0]}};
  if (task.has_padding()) out.push_back({task.spec().dtype, Shape{output.shape[0]}});
  return out;
}

Model scored_model(const Model& step, const Task& task) {
  return evaluating(
      task.has_padding() ? with_padding(step, result_types(step).at(0).shape[0], task.spec().dtype) : step);
}

}  // namespace

Model evaluating(Model step) {
  for (InputRecord& in : step.inputs)
    if (is_state(in.role) && state_kind(in.type) == StateKind::Mode)
      in.init = full({}, false, Dtype::Bool).tensor();
  return step;
}

std::string loss_text(double loss) {
  const bool plain = loss == 0.0 || (std::abs(loss) >= 1e-3 && loss < 1e4);
  return plain ? fmt::format("{:.4f}", loss) : fmt::format("{:.1e}", unsigned_nan(loss));
}

std::string score_line(const Score& score, std::int64_t batches) {
  return fmt::format("on {} {} never trained on: loss {}{}\n", batches, batches == 1 ? "batch" : "batches",
                     loss_text(score.loss),
                     score.accuracy ? fmt::format(", accuracy {:.4f}", *score.accuracy) : std::string());
}

Evaluator::Evaluator(Module& module, const Model& step, const Task& task, const std::string& backend)
    : task_(&task), run_(scored_model(step, task), scored_step(task), slice_types(step, task), backend) {
  run_.follow(module);
}

Evaluator::Evaluator(const ReadyModel& ready, const Task& task, const std::string& backend)
    : Evaluator(*ready.module, trace_step(*ready.module, ready.example).model, task, backend) {}

std::vector<Program> Evaluator::programs() const { return run_.programs(task_->spec().steps); }

// The loss of each step over the samples that count.
std::vector<double> Evaluator::step_losses(const ScoreRun::Scores& out, const TaskBatch& batch) const {
  const std::int64_t size = batch.inputs.dim(1), counted = batch.samples.value_or(size);
  if (counted == size) return out.losses.to_doubles();
  const auto loss = loss::find(task_->spec().loss).function;
  const auto of_step = [&](const Array& a, std::int64_t t) {
    return squeeze(slice_axis(slice_axis(a, 0, t, t + 1), 1, 0, counted), {0});
  };
  std::vector<double> losses;
  for (std::int64_t t = 0; t < batch.inputs.dim(0); ++t)
    losses.push_back(loss(of_step(out.aux[0], t), of_step(batch.targets, t)).item<double>());
  return losses;
}

Score Evaluator::operator()(const TaskBatch& batch) {
  Arrays sequences{batch.inputs, batch.targets};
  if (task_->has_padding()) sequences.push_back(batch.active);
  const ScoreRun::Scores out = run_(sequences);
  const std::vector<double> losses = step_losses(out, batch), weights = batch.mask.tensor().to_doubles();
  double sum = 0.0, weight = 0.0;
  for (std::size_t t = 0; t < losses.size(); ++t) {
    if (weights[t] == 0.0) continue;
    sum += weights[t] * losses[t];
    weight += weights[t];
  }
  Score score{sum / weight};
  if (has_accuracy(*task_)) score.accuracy = accuracy(out.aux[0], batch);
  return score;
}

Score Evaluator::operator()(std::uint64_t first, std::int64_t count, std::int64_t batch_size) {
  Score total;
  double samples = 0.0;
  for (std::int64_t i = 0; i < count; ++i) {
    const TaskBatch batch = task_->batch(first + static_cast<std::uint64_t>(i), batch_size);
    const Score one = (*this)(batch);
    const auto n = static_cast<double>(batch.samples.value_or(batch_size));
    samples += n;
    total.loss += n * one.loss;
    if (one.accuracy) total.accuracy = total.accuracy.value_or(0.0) + n * *one.accuracy;
  }
  total.loss /= samples;
  if (total.accuracy) *total.accuracy /= samples;
  return total;
}

}  // namespace etrace::train
