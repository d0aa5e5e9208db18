#include "verify/step_influence.h"

#include <algorithm>

#include "compiler/mixing.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "etrace/ops/sparse.h"
#include "io/step_outputs.h"

namespace etrace {

InfluenceWays at(const Reach& reach, const Atom& a) {
  const Var* v = as_var(a);
  const auto it = v == nullptr ? reach.end() : reach.find(v->id);
  return it == reach.end() ? InfluenceWays{} : it->second;
}

namespace {

bool is_one_of(const Primitive* p, std::initializer_list<const Primitive*> list) {
  return std::find(list.begin(), list.end(), p) != list.end();
}
bool is_product(const Eqn& eqn) {
  return eqn.prim->spec.product || is_etp(*eqn.prim) || eqn.prim == &mul_p || eqn.prim == &div_p;
}
bool reads_some_entries(const Eqn& eqn) {
  return is_one_of(eqn.prim, {&etp_sp_mm_p, &etp_sp_mv_p, &sparse_product_p});
}
// Results hold entries of some operands, or of none.
bool puts_together(const Eqn& eqn) {
  return is_one_of(eqn.prim, {&concatenate_p, &stack_p, &pad_p, &dynamic_update_slice_p, &scatter_p});
}
// Is an influence on some entries only behind an equation? `reached`: by operand, and whether partly so.
bool is_partial_behind(const Eqn& eqn, const std::vector<const InfluenceWays*>& reached) {
  if (is_product(eqn) && !eqn.prim->spec.elementwise) return false;
  const auto is_whole = [](const InfluenceWays* w) { return w != nullptr && !w->partial; };
  if (!puts_together(eqn)) return std::none_of(reached.begin(), reached.end(), is_whole);
  if (!is_one_of(eqn.prim, {&concatenate_p, &stack_p})) return true;
  return !std::all_of(reached.begin(), reached.end(), is_whole);
}
}  // namespace

// Entries that are zero whatever the data are stay so from step to step.
void StepInfluence::find_facts(const ClosedJaxpr& step) {
  std::vector<std::pair<Var, Facts>> given;
  for (bool more = true; more;) {
    facts_.emplace(step.jaxpr, step.consts, given);
    more = false;
    for (const State& s : states_) {
      const Facts entry = facts_->of(s.entry), exit = facts_->of(s.exit);
      if ((entry.zeros || !exit.zeros) && (entry.alike || !exit.alike)) continue;
      Facts now = entry;
      now.zeros = entry.zeros || exit.zeros;
      now.alike = entry.alike || exit.alike;
      given.emplace_back(s.entry, now);
      more = true;
    }
  }
}

// As an operand of an equation with results of this size: smaller ones are spread.
bool StepInfluence::is_alike(const Atom& a, std::int64_t size) const {
  return aval_of(a).shape.size() < size || facts_->of(a).alike;
}

void StepInfluence::find_varying(const Model& model) {
  for (std::size_t i = 0; i < model.inputs.size(); ++i)
    if (model.inputs[i].role != Role::Param) varying_.insert(program_.invars[i].id);
  const auto is_copy_of = [&](const Atom& a, const Var& v) {
    return a == Atom(v) || std::any_of(program_.eqns.begin(), program_.eqns.end(), [&](const Eqn& eqn) {
             return eqn.prim == &copy_p && Atom(eqn.out[0]) == a && eqn.in[0] == Atom(v);
           });
  };
  for (const State& s : states_)
    if (is_copy_of(s.exit, s.entry)) varying_.erase(s.entry.id);
  for (const Eqn& eqn : program_.eqns)
    if (std::any_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) {
          const Var* v = as_var(a);
          return v != nullptr && varies(*v);
        }))
      for (const Var& v : eqn.out) varying_.insert(v.id);
}

// Do derivatives of an operand pass an equation whatever the values are? An estimate: products may meet a
// zero, and sums may cancel, but neither at all steps of all sequences.
Degree StepInfluence::passes(const Eqn& eqn, std::size_t operand) const {
  const bool body = !nested_jaxprs(eqn).empty() && !is_etp(*eqn.prim);
  const bool branch = eqn.prim == &select_n_p && aval_of(eqn.in[0]).shape.is_scalar();
  if (reads_some_entries(eqn) || body || branch || facts_->of(eqn.out[0]).decided) return Degree::Possibly;
  if (is_product(eqn))
    for (std::size_t i = 0; i < eqn.in.size(); ++i)
      if (i != operand && facts_->of(eqn.in[i]).zeros) return Degree::Possibly;
  return Degree::Surely;
}

// Is an influence the same on all entries behind an equation? What is spread is; sums leave it so, and
// functions of values that are alike themselves.
bool StepInfluence::is_alike_behind(const Eqn& eqn, const Reach& reach) const {
  const std::int64_t size = eqn.out[0].aval.shape.size();
  if (eqn.prim == &broadcast_in_dim_p && size > aval_of(eqn.in[0]).shape.size()) return true;
  const bool sums = is_one_of(eqn.prim, {&add_p, &sub_p, &neg_p, &copy_p, &convert_element_type_p});
  return eqn.prim->spec.elementwise && std::all_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) {
           const InfluenceWays ways = at(reach, a);
           const bool is_reached = ways.any() != Degree::Never;
           const bool spread = aval_of(a).shape.size() < size || (is_reached && ways.alike);
           return sums ? !is_reached || spread : is_alike(a, size);
         });
}

void StepInfluence::pass(const Eqn& eqn, const std::vector<std::size_t>& skip, const std::vector<Var>& stops,
                         Reach& reach) const {
  if (eqn.prim->spec.ends_derivatives) return;
  InfluenceWays ways;
  std::vector<InfluenceWays> operands(eqn.in.size());
  std::vector<const InfluenceWays*> reached(eqn.in.size(), nullptr);
  const bool takes_out = !eqn.prim->spec.product && facts_->of(eqn.out[0]).shows == Shows::Part;
  for (std::size_t i = 0; i < eqn.in.size(); ++i) {
    if (std::find(skip.begin(), skip.end(), i) != skip.end()) continue;
    const InfluenceWays operand = operands[i] = at(reach, eqn.in[i]);
    if (operand.any() == Degree::Never) continue;
    reached[i] = &operands[i];
    const Degree most = takes_out && operand.partial ? Degree::Possibly : passes(eqn, i);
    raise_to(ways.direct, std::min(operand.direct, most));
    raise_to(ways.through_weight, std::min(operand.through_weight, most));
  }
  if (ways.any() == Degree::Never) return;
  ways.alike = is_alike_behind(eqn, reach);
  ways.partial = is_partial_behind(eqn, reached);
  // x − mean(x), exp(x) / sum(exp(x)): nothing is left of what is alike.
  const auto is_reached = [&](const Atom& a) { return at(reach, a).any() != Degree::Never; };
  if (ways.alike && is_one_of(eqn.prim, {&sub_p, &div_p}) && is_reached(eqn.in[0]) && is_reached(eqn.in[1])) {
    ways.direct = std::min(ways.direct, Degree::Possibly);
    ways.through_weight = std::min(ways.through_weight, Degree::Possibly);
  }
  if (is_mixing_etp(eqn)) ways = {Degree::Never, ways.any(), ways.alike, ways.partial};
  for (const Var& v : eqn.out) {
    if (!is_floating(v.aval.dtype) || std::find(stops.begin(), stops.end(), v) != stops.end()) continue;
    InfluenceWays& now = reach[v.id];
    raise_to(now.direct, ways.direct);
    raise_to(now.through_weight, ways.through_weight);
    now.alike = ways.alike;
    now.partial = ways.partial;
  }
}

StepInfluence::StepInfluence(const ETraceGraph& g) : program_(g.module_info.jaxpr()) {
  const Model& model = g.module_info.model;
  const std::vector<std::optional<std::size_t>> renewed = state_outputs(model);
  std::size_t next_state = 0;
  for (std::size_t i = 0; i < model.inputs.size(); ++i) {
    if (!is_state(model.inputs[i].role)) continue;
    const std::optional<std::size_t> o = renewed[next_state++];
    if (!is_floating(program_.invars[i].aval.dtype)) continue;
    states_.push_back({model.inputs[i].path, program_.invars[i],
                       o ? program_.outs[*o] : Atom(program_.invars[i]),
                       g.hid_path_to_group(model.inputs[i].path)});
  }
  for (const std::size_t o : result_outputs(model))
    if (is_floating(aval_of(program_.outs[o]).dtype)) results_.push_back(program_.outs[o]);
  find_facts(g.module_info.closed_jaxpr);
  find_varying(model);
  follow_states();
}

Reach StepInfluence::from(const Var& v, const std::vector<Var>& stops) const {
  Reach reach{{v.id, {Degree::Surely, Degree::Never}}};
  for (const Eqn& eqn : program_.eqns) pass(eqn, {}, stops, reach);
  return reach;
}

Reach StepInfluence::from_input(
    const Var& v, const std::unordered_map<std::uint64_t, std::vector<std::size_t>>& except) const {
  Reach reach{{v.id, {Degree::Surely, Degree::Never}}};
  for (const Eqn& eqn : program_.eqns) {
    const auto it = except.find(eqn.id);
    pass(eqn, it == except.end() ? std::vector<std::size_t>{} : it->second, {}, reach);
  }
  return reach;
}

std::vector<Degree> StepInfluence::on_states(const Reach& reach) const {
  std::vector<Degree> out;
  for (const State& s : states_) out.push_back(at(reach, s.exit).any());
  return out;
}

Degree StepInfluence::on_results(const Reach& reach) const {
  Degree out = Degree::Never;
  for (const Atom& r : results_) raise_to(out, at(reach, r).any());
  return out;
}

// What every state does to the others and to the results.
void StepInfluence::follow_states() {
  for (State& s : states_) {
    const Reach from_old = from(s.entry);
    s.next = on_states(from_old);
    s.live = on_results(from_old);
    if (const Var* exit = as_var(s.exit)) s.shown = on_results(from(*exit));
    s.beside.assign(states_.size(), Degree::Never);
    if (s.group == nullptr) continue;
    const std::vector<Degree> beside = on_states(from(s.entry, s.group->hidden_outvars));
    for (std::size_t other = 0; other < states_.size(); ++other)
      if (states_[other].group != nullptr && states_[other].group != s.group) s.beside[other] = beside[other];
  }
  for (bool more = true; more;) {
    more = false;
    for (State& s : states_)
      for (std::size_t n = 0; n < states_.size(); ++n)
        if (const Degree by_next = std::min(s.next[n], states_[n].live); by_next > s.live) {
          s.live = by_next;
          more = true;
        }
  }
}

}  // namespace etrace
