// The stages of `etrace check`. forward: outputs and final hidden states; bptt: losses and gradients of the
// summed loss, by reverse mode over the whole sequence.
#include "cli/reference_check.h"
#include "etrace/expected.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "cli/compare.h"
#include "cli/engine.h"
#include "cli/sequence.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/transform.h"
#include "io/step_outputs.h"

namespace etrace::cli {

namespace {

std::string key_of(const OutputRecord& r) { return to_string(r.path); }

// The model over a whole sequence, as one program.
//   inputs: parameters (in input order), arguments (leading axis time), targets if the loss is wanted
//   outputs: total loss if wanted, losses per step if wanted, the step's outputs stacked, final values of
//   states
struct SequenceProgram {
  ClosedJaxpr program;
  std::vector<std::size_t> params, args, states;  // indices into model.inputs
  std::vector<std::size_t> state_outputs;         // index into model.outputs of each state's new value
  bool with_loss;
};

SequenceProgram sequence_program(const Model& m, const ExpectedRun& run, bool with_loss) {
  SequenceProgram s;
  s.with_loss = with_loss;
  s.params = inputs_with(m, {Role::Param});
  s.args = inputs_with(m, {Role::Arg});
  s.states = inputs_with(m, {Role::Hidden, Role::Other});
  for (const std::size_t i : s.states) s.state_outputs.push_back(output_of_state(m, m.inputs[i]));
  if (run.args->size() != s.args.size())
    throw CompilationError("check", fmt::format("run {} has {} arguments, the model takes {}", run.id,
                                                run.args->size(), s.args.size()));
  Avals types;
  for (const std::size_t i : s.params) types.push_back(m.program.jaxpr.invars[i].aval);
  for (const Tensor& a : *run.args) types.push_back(a.aval());
  if (with_loss) types.push_back(run.targets.aval());

  s.program = make_jaxpr(
      [&](ArraySpan in) {
        const ArraySpan params = in.first(s.params.size()), args = in.subspan(s.params.size(), s.args.size());
        Arrays xs(args.begin(), args.end()), init;
        if (with_loss) xs.push_back(in.back());
        for (const std::size_t i : s.states) init.push_back(m.inputs[i].init);
        const auto step = [&](ArraySpan carry, ArraySpan x) -> ScanResult {
          Arrays operands(m.inputs.size());
          for (std::size_t k = 0; k < s.params.size(); ++k) operands[s.params[k]] = params[k];
          for (std::size_t k = 0; k < s.args.size(); ++k)
            operands[s.args[static_cast<std::size_t>(m.inputs[s.args[k]].index)]] =
                x[static_cast<std::size_t>(m.inputs[s.args[k]].index)];
          for (std::size_t k = 0; k < s.states.size(); ++k) operands[s.states[k]] = carry[k];
          const Arrays out = eval_jaxpr(m.program, operands);
          ScanResult r;
          for (const std::size_t i : s.state_outputs) r.carry.push_back(out[i]);
          const std::vector<std::size_t> ys = result_outputs(m);
          if (with_loss) r.ys.push_back(mean(square(out[ys.at(0)] - x.back())));
          for (const std::size_t i : ys) r.ys.push_back(out[i]);
          return r;
        };
        const ScanResult r = scan(step, init, xs);
        Arrays outs;
        if (with_loss) outs.push_back(sum(r.ys[0]));
        outs.insert(outs.end(), r.ys.begin(), r.ys.end());
        outs.insert(outs.end(), r.carry.begin(), r.carry.end());
        return outs;
      },
      types);
  return s;
}

Tensors sequence_arguments(const Model& m, const SequenceProgram& s, const ExpectedRun& run) {
  Tensors args;
  for (const std::size_t i : s.params) args.push_back(m.inputs[i].init);
  args.insert(args.end(), run.args->begin(), run.args->end());
  if (s.with_loss) args.push_back(run.targets);
  return args;
}

StageResult check_forward(const Model& m, const CheckOptions& options) {
  const ExpectedRun* run = reference_run(m);
  if (run == nullptr || (!run->outputs.defined() && !run->hidden)) return {{}, "the file carries no outputs"};
  const SequenceProgram s = sequence_program(m, *run, /*with_loss=*/false);
  const Tensors out = OnBackend(options.backend, "forward", s.program)(sequence_arguments(m, s, *run));
  const std::size_t num_ys = result_outputs(m).size();
  if (run->outputs.defined())
    if (auto d = difference("the output", out[0], run->outputs, tolerance(*run, 1e-10, out[0].dtype())))
      return {d, {}};
  if (!run->hidden) return {};
  for (const auto& [key, expected] : *run->hidden) {
    bool found = false;
    for (std::size_t k = 0; k < s.states.size(); ++k) {
      if (key_of(m.inputs[s.states[k]]) != key) continue;
      found = true;
      const Tensor& value = out[num_ys + k];
      if (auto d = difference("final state " + key, value, expected, tolerance(*run, 1e-10, value.dtype())))
        return {d, {}};
    }
    if (!found) return {"the file expects a state " + key + " that the model does not have", {}};
  }
  return {};
}

StageResult check_bptt(const Model& m, const CheckOptions& options) {
  const ExpectedRun* run = reference_run(m);
  if (run == nullptr || run->algorithm != "BPTT" || !run->grads) return {{}, "the file carries no BPTT run"};
  // LIMIT: reference runs are compared for the mean squared error only.
  if (run->loss != "mse") return {{}, "loss " + run->loss + " is not known"};
  const SequenceProgram s = sequence_program(m, *run, /*with_loss=*/true);
  Mask active(s.program.jaxpr.invars.size(), false);
  for (std::size_t k = 0; k < s.params.size(); ++k) active[k] = true;
  const ClosedJaxpr program = value_and_grad(s.program, active);
  const Tensors out = OnBackend(options.backend, "bptt", program)(sequence_arguments(m, s, *run));
  const std::size_t first_grad = s.program.jaxpr.outs.size();
  if (run->losses.defined())
    if (auto d = difference("the loss", out[1], run->losses, tolerance(*run, 1e-9, out[1].dtype())))
      return {d, {}};
  for (const auto& [key, leaves] : *run->grads)
    for (std::size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      bool found = false;
      for (std::size_t k = 0; k < s.params.size(); ++k) {
        const InputRecord& p = m.inputs[s.params[k]];
        if (key_of(p) != key || p.leaf != static_cast<std::int64_t>(leaf)) continue;
        found = true;
        const Tensor& grad = out[first_grad + k];
        const std::string what = fmt::format("the gradient of {} (leaf {})", key, leaf);
        if (auto d = difference(what, grad, leaves[leaf], tolerance(*run, 1e-9, grad.dtype())))
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
