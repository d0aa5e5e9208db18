// The scan over a sequence; see the header.
#include "cli/evaluator.h"

#include <algorithm>

#include "cli/sequence.h"
#include "etrace/control.h"
#include "etrace/loss.h"
#include "etrace/param_values.h"

namespace etrace::cli {

Evaluator::Evaluator(const ReadyModel& ready, const Task& task, std::string backend)
    : module_(ready.module.get()),
      task_(&task),
      step_(trace_step(*ready.module, ready.example).model),
      params_(inputs_with(step_, {Role::Param})),
      args_(inputs_with(step_, {Role::Arg})),
      states_(inputs_with(step_, {Role::Hidden, Role::Other})),
      backend_(std::move(backend)) {
  for (const std::size_t i : states_) new_states_.push_back(output_of_state(step_, step_.inputs[i]));
}

// Inputs: the parameters that the step uses, xs [T, B, I], targets. Outputs: losses [T], outputs [T, B, O].
ClosedJaxpr Evaluator::sequence_program(const TaskBatch& batch) const {
  Avals types;
  for (const std::size_t i : params_) types.push_back(step_.program.jaxpr.invars[i].aval);
  types.push_back(batch.inputs.aval());
  types.push_back(batch.targets.aval());
  const auto loss = loss::find(task_->spec().loss).function;
  return make_jaxpr(
      [&](ArraySpan in) {
        Arrays init;
        for (const std::size_t i : states_) init.push_back(step_.inputs[i].init);
        const auto step = [&](ArraySpan states, ArraySpan slices) -> ScanResult {
          Arrays operands(step_.inputs.size());
          for (std::size_t k = 0; k < params_.size(); ++k) operands[params_[k]] = in[k];
          for (std::size_t k = 0; k < states_.size(); ++k) operands[states_[k]] = states[k];
          operands[args_.front()] = slices[0];
          const Arrays out = eval_jaxpr(step_.program, operands);
          ScanResult result;
          for (const std::size_t i : new_states_) result.carry.push_back(out[i]);
          result.ys = {loss(out[0], slices[1]), out[0]};
          return result;
        };
        return scan(step, init, {in[params_.size()], in[params_.size() + 1]}).ys;
      },
      types);
}

Score Evaluator::operator()(const TaskBatch& batch) {
  if (run_ == nullptr || batch.inputs.dim(1) != batch_size_) {
    run_ = std::make_unique<OnBackend>(backend_, "score", sequence_program(batch));
    batch_size_ = batch.inputs.dim(1);
  }
  const ParamValues values = param_values(*module_);
  Tensors in;
  for (const std::size_t i : params_) {
    const auto is_it = [&](const ParamLeafId& id) {
      return id.path == step_.inputs[i].path && id.leaf == step_.inputs[i].leaf;
    };
    const auto at = std::find_if(values.leaves.begin(), values.leaves.end(), is_it) - values.leaves.begin();
    in.push_back(values.values.at(static_cast<std::size_t>(at)).tensor());
  }
  in.push_back(batch.inputs.tensor());
  in.push_back(batch.targets.tensor());
  const Tensors out = (*run_)(in);

  const std::vector<double> losses = out[0].to_doubles(), weights = batch.mask.tensor().to_doubles();
  double sum = 0.0, weight = 0.0;
  for (std::size_t t = 0; t < losses.size(); ++t) {
    sum += weights[t] * losses[t];
    weight += weights[t];
  }
  Score score{sum / weight};
  if (has_accuracy(*task_)) score.accuracy = accuracy(out[1], batch);
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

}  // namespace etrace::cli
