#include "compiler/composite_relations.h"

#include <algorithm>

#include "compiler/position_graph.h"
#include "compiler/program_between.h"
#include "etp/common.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

namespace {

bool holds(const std::vector<Var>& vars, const Var& v) {
  return std::find(vars.begin(), vars.end(), v) != vars.end();
}

// States that a chain computes from y; the others of the group are constants of it.
std::vector<StatePath> states_behind(const Jaxpr& chain, const HiddenGroup& group) {
  std::vector<StatePath> out;
  for (std::size_t i = 0; i < chain.outs.size(); ++i)
    for (const Eqn& e : chain.eqns)
      if (holds(e.out, *as_var(chain.outs[i])) && !e.prim->spec.ends_derivatives)
        out.push_back(group.hidden_paths[i]);
  return out;
}

// A chain is differentiated for all samples at once, which takes it that each acts on itself alone.
std::string why_samples_meet(const HiddenParamOpRelation& r, const Jaxpr& chain, const HiddenGroup& group) {
  const Shape &y = r.y_var.aval.shape, positions = group.varshape();
  if (!etp_rules(*r.primitive)->batched || positions.is_scalar()) return {};
  const std::int64_t samples = group.batch_size.value_or(positions[0]);
  return y[0] == samples ? why_samples_mix(chain, chain.invars, samples) : std::string();
}

}  // namespace

bool add_chains(const ProgramIndex& index, const std::vector<HiddenGroup>& groups, Ways which,
                HiddenParamOpRelation& r) {
  for (const HiddenGroup& group : groups) {
    const auto passes = [&](const Var& v) {
      return std::none_of(groups.begin(), groups.end(), [&](const HiddenGroup& other) {
        return other.index != group.index && holds(other.hidden_outvars, v);
      });
    };
    const std::optional<Jaxpr> chain =
        which == Ways::All
            ? program_between(
                  index, r.y_var, group.hidden_outvars, [](const Eqn&) { return true; }, passes)
            : program_across(index, r.y_var, group.hidden_outvars, is_mixing_etp, passes);
    const std::vector<StatePath> states = chain ? states_behind(*chain, group) : std::vector<StatePath>();
    if (states.empty()) continue;
    for (const StatePath& path : states) {
      r.connected_hidden_paths.push_back(path);
      r.path_classification.push_back(PathClassification::AllThroughOtherEtp);
    }
    r.hidden_groups.push_back(group.index);
    r.tail_reasons.push_back(why_samples_meet(r, *chain, group));
    r.y_to_hidden_group_jaxprs.push_back(*chain);
  }
  return !r.hidden_groups.empty();
}

std::int64_t composite_trace_numbers(const HiddenParamOpRelation& r, const std::vector<HiddenGroup>& groups) {
  Avals in;
  for (const Atom& a : r.operands) in.push_back(aval_of(a));
  std::int64_t slots = 0, states = 0;
  for (const TrainableSource& t : r.trainables)
    slots += etp::trace_form(*r.primitive, r.eqn_params, t.key, in, r.y_var.aval, r.fixed_operands)
                 .anchors.slots.size();
  for (const std::size_t g : r.hidden_groups) states += groups[g].varshape().size() * groups[g].num_state();
  return slots * states;
}

}  // namespace etrace
