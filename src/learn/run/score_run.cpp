#include "learn/run/score_run.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"
#include "learn/run/parts.h"

namespace etrace {

namespace {
constexpr std::int64_t kWindow = 32;  // steps of a program
}  // namespace

ScoreRun::ScoreRun(Model model, const StepFunction& f, std::span<const Aval> slices,
                   const std::string& backend)
    : model_(std::make_unique<const Model>(std::move(model))),
      plan_(*model_),
      slices_(slices.begin(), slices.end()),
      step_(StepProgram::trace(*model_, f, slices)),
      backend_(find_backend(backend)),
      session_(backend_.memory()) {
  for (const auto* list : {&plan_.params(), &plan_.states()})
    for (const ModelPlan::Start& s : *list) session_.add(s.port.role, s.port.name, s.value);
}

void ScoreRun::follow(Module& module) {
  const std::vector<StateEntry> held = states(module, StateKind::Param);
  for (const InputRecord& in : model_->inputs) {
    if (in.role != Role::Param) continue;
    const auto it =
        std::find_if(held.begin(), held.end(), [&](const StateEntry& e) { return e.path == in.path; });
    if (it == held.end())
      throw ValueError("score", fmt::format("the module has no parameter {}", to_string(in.path)));
    session_.attach(PortRole::Param, to_string(ParamLeafId{in.path, in.leaf, to_string(in.leaf_key)}),
                    it->state->shared_from_this(), it->state->leaf(static_cast<std::size_t>(in.leaf)));
  }
}

Program ScoreRun::program(std::int64_t steps) const {
  SequenceForm form;
  if (steps > 1) form.steps = steps;
  return plan_.forward(step_, slices_, form);
}

std::vector<Program> ScoreRun::programs(std::int64_t length) const {
  std::vector<std::int64_t> lengths = window_lengths(length, kWindow);
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  std::vector<Program> out;
  for (const std::int64_t steps : lengths) out.push_back(program(steps));
  return out;
}

std::vector<Program> ScoreRun::compiled() const {
  std::vector<Program> out;
  for (const Bound& b : launches_) out.push_back(b.launch.program());
  return out;
}

Launch& ScoreRun::launch(std::int64_t steps) {
  for (Bound& b : launches_)
    if (b.steps == steps) return b.launch;
  Program p = lean(program(steps));
  std::shared_ptr<const Runnable> code = backend_.compile(p);
  return launches_.emplace_back(Bound{steps, Launch(session_, std::move(p), std::move(code))}).launch;
}

ScoreRun::Scores ScoreRun::operator()(ArraySpan sequences) {
  if (sequences.size() != slices_.size())
    throw ValueError("score",
                     fmt::format("{} sequences, but a step takes {}", sequences.size(), slices_.size()));
  const std::int64_t length = sequences[0].rank() == 0 ? 0 : sequences[0].shape()[0];
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Aval wanted{slices_[i].dtype, slices_[i].shape.with_front(length)};
    if (length < 1 || sequences[i].aval() != wanted)
      throw ValueError("score", fmt::format("sequence {} has type {}, expected {} with at least one step", i,
                                            to_string(sequences[i].aval()), to_string(wanted)));
  }
  for (const ModelPlan::Start& s : plan_.states()) session_.set(PortRole::State, s.port.name, s.value);
  Tensors data;
  for (const Array& a : sequences) data.push_back(a.tensor());
  Scores out;
  out.aux.resize(step_.num_aux());
  std::int64_t begin = 0;
  for (const std::int64_t steps : window_lengths(length, kWindow)) {
    Launch& l = launch(steps);
    for (std::size_t i = 0; i < data.size(); ++i)
      l.give(l.argument(PortRole::Slice, fmt::format("slice{}", i)),
             data[i].bytes() + bytes_before(data[i].aval(), length, begin));
    take_part(l, l.result(PortRole::Loss, "losses"), steps, out.losses, length, begin);
    for (std::size_t i = 0; i < out.aux.size(); ++i)
      take_part(l, l.result(PortRole::Aux, fmt::format("aux{}", i)), steps, out.aux[i], length, begin);
    l.run();
    begin += steps;
  }
  return out;
}

}  // namespace etrace
