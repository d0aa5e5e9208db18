#include "train/whole_sequence.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"

namespace etrace::train {

WholeSequence::WholeSequence(Module& module, const Model& traced, StepFunction step, std::string backend)
    : module_(&module),
      model_(std::make_unique<const Model>(traced)),
      plan_(*model_),
      step_(std::move(step)),
      backend_(std::move(backend)) {}

void WholeSequence::prepare(ArraySpan sequences) {
  const std::int64_t steps = sequences[0].dim(0);
  if (run_ && steps == steps_) return;
  Avals slices;
  for (const Array& a : sequences) slices.push_back({a.dtype(), a.shape().without(0)});
  const StepProgram step = StepProgram::trace(*model_, step_, slices);
  num_aux_ = step.num_aux();
  steps_ = steps;
  run_.emplace(find_backend(backend_),
               lean(plan_.bptt(step, slices, SequenceForm{.steps = steps, .weighted = true})));
}

WholeSequence::Result WholeSequence::operator()(ArraySpan sequences, const Array& mask) {
  prepare(sequences);
  ProgramRun& run = *run_;
  const ParamValues values = param_values(*module_);
  for (const ModelPlan::Start& p : plan_.params())
    run.set(PortRole::Param, p.port.name, values.at(p.port.name).tensor());
  for (const ModelPlan::Start& s : plan_.states()) run.set(PortRole::State, s.port.name, s.value);
  for (std::size_t i = 0; i < sequences.size(); ++i)
    run.set(PortRole::Slice, fmt::format("slice{}", i), sequences[i].tensor());
  const Array weights = convert(mask, Dtype::F64) / sum(convert(mask, Dtype::F64));
  run.set(PortRole::Weight, "weights", weights.tensor());
  run();
  Result out;
  const std::vector<double> losses = run.result(PortRole::Loss, "losses").to_doubles(),
                            each = weights.tensor().to_doubles();
  for (std::size_t t = 0; t < losses.size(); ++t)
    if (each[t] != 0.0) out.loss += each[t] * losses[t];
  for (std::size_t i = 0; i < num_aux_; ++i)
    out.aux.push_back(run.result(PortRole::Aux, fmt::format("aux{}", i)));
  for (std::size_t i = 0; i < values.leaves.size(); ++i) {
    const std::string name = to_string(values.leaves[i]);
    out.grads.leaves.push_back(values.leaves[i]);
    const bool learned = is_floating(values.values[i].dtype()) &&
                         std::any_of(plan_.params().begin(), plan_.params().end(),
                                     [&](const ModelPlan::Start& p) { return p.port.name == name; });
    out.grads.values.push_back(learned ? Array(run.result(PortRole::Gradient, name)) : Array());
  }
  return out;
}

}  // namespace etrace::train
