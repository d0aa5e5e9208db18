#include "etrace/param_values.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/nearest.h"
#include "etrace/error.h"

namespace etrace {

std::string to_string(const ParamLeafId& id) {
  const std::string path = to_string(id.path);
  return id.key.empty() ? path : path + "." + id.key;
}

const Array& ParamValues::at(std::string_view name) const {
  const Array* by_path = nullptr;
  std::size_t same_path = 0;
  std::vector<std::string> known;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::string text = to_string(leaves[i]);
    if (text == name) return values[i];
    if (to_string(leaves[i].path) == name) {
      by_path = &values[i];
      ++same_path;
    }
    known.push_back(text);
  }
  if (same_path == 1) return *by_path;
  throw ValueError("parameters", same_path > 1 ? fmt::format("{} has {} leaves; name one of them: {}", name,
                                                             same_path, fmt::join(known, ", "))
                                               : no_such_name("parameter", name, known));
}

std::optional<Arrays> values_for(const std::vector<ParamLeafId>& leaves, const ParamValues& values) {
  if (values.leaves == leaves) return values.values;
  Arrays out(leaves.size());
  for (std::size_t i = 0; i < values.leaves.size(); ++i) {
    const auto at = std::find(leaves.begin(), leaves.end(), values.leaves[i]);
    if (at == leaves.end()) return std::nullopt;
    out[static_cast<std::size_t>(at - leaves.begin())] = values.values[i];
  }
  return out;
}

std::vector<ParamLeafId> param_leaf_ids(const Module& model) {
  std::vector<ParamLeafId> out;
  for (const StateEntry& e : states(model, StateKind::Param)) {
    const std::vector<std::string>& keys = e.state->leaf_keys();
    for (std::size_t i = 0; i < e.state->avals().size(); ++i)
      out.push_back({e.path, static_cast<std::int64_t>(i), keys.empty() ? "" : keys[i]});
  }
  return out;
}

ParamValues param_values(const Module& model) {
  ParamValues out{param_leaf_ids(model), {}};
  for (const StateEntry& e : states(model, StateKind::Param)) {
    const Arrays leaves = e.state->leaves();
    out.values.insert(out.values.end(), leaves.begin(), leaves.end());
  }
  return out;
}

void set_param_values(Module& model, const ParamValues& values) {
  for (const ParamLeafId& id : values.leaves) {
    const State* state = find_state(model, id.path);
    if (state == nullptr || state->kind() != StateKind::Param ||
        static_cast<std::size_t>(id.leaf) >= state->avals().size())
      throw ValueError("parameters", fmt::format("the model has no parameter {}", to_string(id)));
  }
  for (std::size_t i = 0; i < values.leaves.size(); ++i) {
    State& state = *find_state(model, values.leaves[i].path);
    Arrays leaves = state.leaves();
    leaves[static_cast<std::size_t>(values.leaves[i].leaf)] = values.values[i];
    state.set_leaves(leaves);
  }
}

}  // namespace etrace
