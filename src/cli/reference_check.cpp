// The stages of `etrace check`. forward: outputs and final hidden states; bptt: losses and gradients of the
// summed loss, by reverse mode over the whole sequence.
#include "cli/reference_check.h"
#include "etrace/expected.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/compare.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/plan.h"
#include "io/step_outputs.h"
#include "session/program_run.h"
#include "train/sequence.h"

namespace etrace::cli {

namespace {

std::string key_of(const OutputRecord& r) { return to_string(r.path); }

// A program of the model over the whole sequence that the file carries.
ProgramRun bound(const ModelPlan& plan, const CheckOptions& options, Program p) {
  ProgramRun run(find_backend(options.backend), lean(std::move(p)));
  for (const auto* list : {&plan.params(), &plan.states()})
    for (const ModelPlan::Start& s : *list) run.set(s.port.role, s.port.name, s.value);
  return run;
}

void require_arguments(const Model& m, const ExpectedRun& run) {
  const std::size_t wanted = argument_types(m).size();
  if (run.args->size() != wanted)
    throw CompilationError("check", fmt::format("run {} has {} arguments, the model takes {}", run.id,
                                                run.args->size(), wanted));
}

std::int64_t steps_of(const ExpectedRun& run) { return run.args->at(0).shape()[0]; }

StageResult check_forward(const Model& m, const CheckOptions& options) {
  const ExpectedRun* expected = train::reference_run(m);
  if (expected == nullptr || (!expected->outputs.defined() && !expected->hidden))
    return {{}, "the file carries no outputs"};
  require_arguments(m, *expected);
  const ModelPlan plan(m);
  ProgramRun run = bound(plan, options, plan.forward(steps_of(*expected)));
  for (std::size_t i = 0; i < expected->args->size(); ++i)
    run.set(PortRole::Arg, fmt::format("arg{}", i), (*expected->args)[i]);
  run();
  if (expected->outputs.defined()) {
    const Tensor out = run.result(PortRole::Result, "result0");
    if (auto d = difference("the output", out, expected->outputs, tolerance(*expected, 1e-10, out.dtype())))
      return {d, {}};
  }
  if (!expected->hidden) return {};
  for (const auto& [key, value] : *expected->hidden) {
    bool found = false;
    for (const InputRecord& state : m.inputs) {
      if (!is_state(state.role) || key_of(state) != key) continue;
      found = true;
      const Tensor last = run.result(PortRole::State, state_leaf_name(state));
      if (auto d = difference("final state " + key, last, value, tolerance(*expected, 1e-10, last.dtype())))
        return {d, {}};
    }
    if (!found) return {"the file expects a state " + key + " that the model does not have", {}};
  }
  return {};
}

// The mean squared error of the first result.
StepFunction squared_error(std::size_t arguments) {
  return [arguments](StepCall& model, ArraySpan s) {
    const std::vector<StepInput> args(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(arguments));
    return LossAndAux{mean(square(model(args).at(0) - s.back()))};
  };
}

StageResult check_bptt(const Model& m, const CheckOptions& options) {
  const ExpectedRun* expected = train::reference_run(m);
  if (expected == nullptr || expected->algorithm != "BPTT" || !expected->grads)
    return {{}, "the file carries no BPTT run"};
  // LIMIT: reference runs are compared for the mean squared error only.
  if (expected->loss != "mse") return {{}, "loss " + expected->loss + " is not known"};
  require_arguments(m, *expected);
  Tensors data = *expected->args;
  data.push_back(expected->targets);
  Avals slices;
  for (const Tensor& t : data) slices.push_back({t.dtype(), t.shape().without(0)});
  const StepProgram step = StepProgram::trace(m, squared_error(expected->args->size()), slices);
  const ModelPlan plan(m);
  ProgramRun run = bound(plan, options, plan.bptt(step, slices, {.steps = steps_of(*expected)}));
  for (std::size_t i = 0; i < data.size(); ++i) run.set(PortRole::Slice, fmt::format("slice{}", i), data[i]);
  run();
  if (expected->losses.defined()) {
    const Tensor losses = run.result(PortRole::Loss, "losses");
    if (auto d = difference("the loss", losses, expected->losses, tolerance(*expected, 1e-9, losses.dtype())))
      return {d, {}};
  }
  for (const auto& [key, leaves] : *expected->grads)
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      bool found = false;
      for (const InputRecord& p : m.inputs) {
        if (p.role != Role::Param || key_of(p) != key || p.leaf != static_cast<std::int64_t>(leaf)) continue;
        found = true;
        const Tensor grad =
            run.result(PortRole::Gradient, to_string(ParamLeafId{p.path, p.leaf, to_string(p.leaf_key)}));
        const std::string what = fmt::format("the gradient of {} (leaf {})", key, leaf);
        if (auto d = difference(what, grad, leaves[leaf], tolerance(*expected, 1e-9, grad.dtype())))
          return {d, {}};
      }
      if (!found)
        return {fmt::format("the file expects a gradient of {} (leaf {}) that the model does not have", key,
                            leaf),
                {}};
    }
  return {};
}

}  // namespace

std::string_view name(Stage s) {
  constexpr std::array<std::string_view, 4> names{"forward", "bptt", "graph", "learn"};
  return names[static_cast<std::size_t>(s)];
}

StageResult run_stage(const Model& m, Stage stage, const CheckOptions& options) {
  switch (stage) {
    case Stage::Forward:
      return check_forward(m, options);
    case Stage::Bptt:
      return check_bptt(m, options);
    case Stage::Graph:
      return check_graph(m, options);
    case Stage::Learn:
      break;
  }
  return check_learn(m, options);
}

}  // namespace etrace::cli
