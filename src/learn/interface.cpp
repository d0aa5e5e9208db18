#include "learn/interface.h"

#include <algorithm>

#include "io/step_outputs.h"

namespace etrace {

Avals argument_types(const ETraceGraph& g) {
  const ModuleInfo& info = g.module_info;
  Avals out;
  for (std::size_t i = 0; i < info.model.inputs.size(); ++i) {
    if (info.model.inputs[i].role != Role::Arg) continue;
    const auto at = static_cast<std::size_t>(info.model.inputs[i].index);
    out.resize(std::max(out.size(), at + 1));
    out[at] = info.jaxpr().invars[i].aval;
  }
  return out;
}

Avals result_types(const ETraceGraph& g) {
  const ModuleInfo& info = g.module_info;
  Avals out;
  for (const std::size_t o : result_outputs(info.model)) out.push_back(aval_of(info.jaxpr().outs[o]));
  return out;
}

Avals state_types(const ETraceGraph& g) {
  const ModuleInfo& info = g.module_info;
  Avals out;
  for (std::size_t i = 0; i < info.model.inputs.size(); ++i)
    if (is_state(info.model.inputs[i].role)) out.push_back(info.jaxpr().invars[i].aval);
  return out;
}

std::vector<StatePath> state_paths(const ETraceGraph& g) {
  std::vector<StatePath> out;
  for (const InputRecord& in : g.module_info.model.inputs)
    if (is_state(in.role)) out.push_back(in.path);
  return out;
}

std::string state_leaf_name(const InputRecord& in) {
  const std::string key = to_string(in.leaf_key);
  return key.empty() ? to_string(in.path) : to_string(in.path) + "." + key;
}

Dtype working_dtype(const ETraceGraph& g) {
  return g.hidden_groups.empty() ? Dtype::F32
                                 : g.hidden_groups.front().hidden_states.front().invar.aval.dtype;
}

}  // namespace etrace
