#include "io/step_outputs.h"

#include <algorithm>

namespace etrace {

namespace {

std::optional<std::size_t> new_value(const Model& m, const InputRecord& state) {
  for (std::size_t o = 0; o < m.outputs.size(); ++o) {
    const OutputRecord& out = m.outputs[o];
    if (out.role == state.role && out.path == state.path && out.leaf == state.leaf) return o;
  }
  return std::nullopt;
}

}  // namespace

std::string state_leaf_name(const InputRecord& in) {
  const std::string key = to_string(in.leaf_key);
  return key.empty() ? to_string(in.path) : to_string(in.path) + "." + key;
}

Avals argument_types(const Model& m) {
  Avals out;
  for (std::size_t i = 0; i < m.inputs.size(); ++i) {
    if (m.inputs[i].role != Role::Arg) continue;
    const auto at = static_cast<std::size_t>(m.inputs[i].index);
    out.resize(std::max(out.size(), at + 1));
    out[at] = m.program.jaxpr.invars[i].aval;
  }
  return out;
}

Avals result_types(const Model& m) {
  Avals out;
  for (const std::size_t o : result_outputs(m)) out.push_back(aval_of(m.program.jaxpr.outs[o]));
  return out;
}

std::vector<std::size_t> result_outputs(const Model& m) {
  std::vector<std::size_t> out;
  for (std::size_t o = 0; o < m.outputs.size(); ++o)
    if (m.outputs[o].role == Role::Out) out.push_back(o);
  std::stable_sort(out.begin(), out.end(),
                   [&](std::size_t a, std::size_t b) { return m.outputs[a].index < m.outputs[b].index; });
  return out;
}

std::vector<std::optional<std::size_t>> state_outputs(const Model& m) {
  std::vector<std::optional<std::size_t>> out;
  for (const InputRecord& in : m.inputs)
    if (is_state(in.role)) out.push_back(new_value(m, in));
  return out;
}

Arrays results_of(const Model& m, ArraySpan outputs) {
  Arrays out;
  for (const std::size_t o : result_outputs(m)) out.push_back(outputs[o]);
  return out;
}

Arrays new_states_of(const Model& m, ArraySpan old_states, ArraySpan outputs) {
  Arrays out;
  for (const std::optional<std::size_t> o : state_outputs(m))
    out.push_back(o ? outputs[*o] : old_states[out.size()]);
  return out;
}

}  // namespace etrace
