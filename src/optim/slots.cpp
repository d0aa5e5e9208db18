#include "optim/slots.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"

namespace etrace::optim {

namespace {
std::string slot_name(const std::string& state_name) { return "optimizer/" + state_name; }
}  // namespace

OptimizerPorts::OptimizerPorts(const Optimizer& optimizer, std::span<const ParamLeafId> leaves,
                               std::span<const Port> params) {
  Arrays values;
  for (const Port& p : params) values.push_back(zeros_of(p.aval));
  const Arrays state = optimizer.init(values, leaves);
  const std::vector<std::string> names = optimizer.state_names(leaves);
  for (std::size_t i = 0; i < state.size(); ++i)
    slots.push_back({slot_name(names[i]), PortRole::OptimizerSlot, state[i].aval()});
  for (const std::string& name : optimizer.hyperparameter_names(leaves))
    hyper.push_back(
        {fmt::format("{}/{}", optimizer.name(), name), PortRole::Hyperparameter, {Dtype::F64, {}}});
}

void use_slots(Session& session, const Optimizer& optimizer, std::span<const ParamLeafId> leaves) {
  const auto& stored = optimizer.stored_state();
  if (session.uses(stored.get())) return;
  const std::vector<std::string> known = optimizer.state_names(optimizer.leaves());
  std::vector<Session::Part> parts;
  for (const std::string& name : optimizer.state_names(leaves)) {
    const auto it = std::find(known.begin(), known.end(), name);
    if (it == known.end())
      throw ValueError("optimizer",
                       fmt::format("the optimiser is bound to another model: it holds no state {}", name));
    parts.push_back(
        {PortRole::OptimizerSlot, slot_name(name), &(*stored)[static_cast<std::size_t>(it - known.begin())]});
  }
  session.use(stored, parts);
}

}  // namespace etrace::optim
