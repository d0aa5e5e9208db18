#include "learn/traces/interface.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/module.h"
#include "etrace/ops/elementwise.h"

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

bool holds_key(const InputRecord& in) {
  const std::optional<StateKind> kind = state_kind(in.type);
  return kind && (is_a(*kind, StateKind::Random) || is_a(*kind, StateKind::Key));
}

namespace {
// None: nothing says it.
std::optional<bool> counts_samples(const ETraceGraph& g, const InputRecord& in) {
  if (in.role == Role::Hidden) return g.module_info.batch_size.has_value();
  return in.per_sample;
}
}  // namespace

std::vector<bool> states_per_sample(const ETraceGraph& g) {
  std::vector<bool> out;
  for (const InputRecord& in : g.module_info.model.inputs)
    if (is_state(in.role)) out.push_back(counts_samples(g, in).value_or(false));
  return out;
}

namespace {
// Not where the step gives it back as it is, or not at all.
bool changes(const Model& m, std::size_t input) {
  const InputRecord& in = m.inputs[input];
  for (std::size_t i = 0; i < m.outputs.size(); ++i) {
    const OutputRecord& out = m.outputs[i];
    if (out.role != in.role || out.path != in.path || out.leaf != in.leaf) continue;
    const Var* const var = std::get_if<Var>(&m.program.jaxpr.outs[i]);
    return var == nullptr || *var != m.program.jaxpr.invars[input];
  }
  return false;
}
}  // namespace

void require_own_states(const ETraceGraph& g, std::int64_t samples) {
  const std::vector<InputRecord>& inputs = g.module_info.model.inputs;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const InputRecord& in = inputs[i];
    if (!is_state(in.role)) continue;
    const std::optional<bool> own = counts_samples(g, in);
    if (own.value_or(false)) continue;
    const Shape& shape = in.init.shape();
    if (!own && !shape.is_scalar() && shape[0] == samples)
      throw NotSupportedError(
          "mask",
          fmt::format(
              "a mask per sample: nothing says whether the leading axis of state {} counts samples, and "
              "its size {} is no proof. Give the states their batch by init_all_states(model, batch) or "
              "LearnerOptions::batch_size; in a model file say per_sample",
              state_leaf_name(in), samples));
    if (!holds_key(in) && changes(g.module_info.model, i))
      throw NotSupportedError(
          "mask",
          fmt::format("samples that stand still one by one (a mask per sample, with freeze): state {} "
                      "of type {} is one for all samples and would go on without them. Give each "
                      "sample an entry of its own, or let whole steps stand still (a mask [T])",
                      state_leaf_name(in), to_string(in.init.aval())));
  }
}

Dtype working_dtype(const ETraceGraph& g) {
  return g.hidden_groups.empty() ? Dtype::F32
                                 : g.hidden_groups.front().hidden_states.front().invar.aval.dtype;
}

Array kept_modulator(const ETraceGraph& g, const Array& m) {
  if (!m.defined()) return m;
  return m.is_weak() ? convert(m, working_dtype(g)) : Array(m.tensor().own());
}

Array standing_modulator(const ETraceGraph& g, const LearningRule& rule) {
  return rule.takes_modulator() ? kept_modulator(g, rule.standing_modulator()) : Array();
}

}  // namespace etrace
