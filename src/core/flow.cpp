#include "core/flow.h"

#include <algorithm>

#include "etrace/primitive.h"

namespace etrace {

VarIds ids_of(const std::vector<Var>& vars) {
  VarIds out;
  for (const Var& v : vars) out.insert(v.id);
  return out;
}
VarIds ids_of(const std::vector<Atom>& atoms) {
  VarIds out;
  for (const Atom& a : atoms)
    if (const Var* v = as_var(a)) out.insert(v->id);
  return out;
}

bool reads(const Eqn& eqn, const VarIds& ids) {
  return std::any_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) { return holds(ids, a); });
}
bool makes(const Eqn& eqn, const VarIds& ids) {
  return std::any_of(eqn.out.begin(), eqn.out.end(), [&](const Var& v) { return ids.contains(v.id); });
}

bool Following::lets_in(const Eqn& eqn) const {
  return !(by == By::Derivative && eqn.prim->spec.ends_derivatives) && (enters == nullptr || enters(eqn));
}
bool Following::counts(const Var& v) const { return by == By::Value || is_floating(v.aval.dtype); }

Reached forward(const Jaxpr& program, VarIds from, const Following& how) {
  Reached out{std::move(from), {}};
  VarIds handing_on = out.values;
  for (std::size_t i = 0; i < program.eqns.size(); ++i) {
    const Eqn& eqn = program.eqns[i];
    if (!reads(eqn, handing_on) || !how.lets_in(eqn)) continue;
    out.eqns.push_back(i);
    for (const Var& v : eqn.out) {
      if (!how.counts(v)) continue;
      out.values.insert(v.id);
      if (how.passes == nullptr || how.passes(v)) handing_on.insert(v.id);
    }
  }
  return out;
}

Reached backward(const Jaxpr& program, VarIds of, const Following& how) {
  Reached out{std::move(of), {}};
  for (std::size_t i = program.eqns.size(); i-- > 0;) {
    const Eqn& eqn = program.eqns[i];
    if (!makes(eqn, out.values) || !how.lets_in(eqn)) continue;
    out.eqns.push_back(i);
    for (const Atom& a : eqn.in)
      if (const Var* v = as_var(a); v != nullptr && how.counts(*v)) out.values.insert(v->id);
  }
  std::reverse(out.eqns.begin(), out.eqns.end());
  return out;
}

std::vector<std::size_t> between(const Jaxpr& program, const VarIds& from, const VarIds& to,
                                 const Following& how) {
  const std::vector<std::size_t> after = forward(program, from, how).eqns;
  Following among = how;
  std::unordered_set<const Eqn*> reached;
  for (const std::size_t i : after) reached.insert(&program.eqns[i]);
  among.enters = [&](const Eqn& eqn) { return reached.contains(&eqn); };
  return backward(program, to, among).eqns;
}

ProgramIndex::ProgramIndex(const Jaxpr& jaxpr) : jaxpr_(&jaxpr) {
  for (std::size_t i = 0; i < jaxpr.eqns.size(); ++i) {
    for (const Var& v : jaxpr.eqns[i].out) producer_.emplace(v.id, i);
    for (const Atom& a : jaxpr.eqns[i].in)
      if (const Var* v = as_var(a)) consumers_[v->id].push_back(i);
  }
  for (const Atom& a : jaxpr.outs)
    if (const Var* v = as_var(a)) ++results_[v->id];
}
const std::size_t* ProgramIndex::producer(const Var& v) const {
  const auto it = producer_.find(v.id);
  return it == producer_.end() ? nullptr : &it->second;
}
const Eqn* ProgramIndex::maker(const Atom& a) const {
  const Var* v = as_var(a);
  const std::size_t* at = v == nullptr ? nullptr : producer(*v);
  return at == nullptr ? nullptr : &jaxpr_->eqns[*at];
}
const std::vector<std::size_t>& ProgramIndex::consumers(const Var& v) const {
  static const std::vector<std::size_t> none;
  const auto it = consumers_.find(v.id);
  return it == consumers_.end() ? none : it->second;
}
std::size_t ProgramIndex::uses(const Var& v) const {
  const auto it = results_.find(v.id);
  return consumers(v).size() + (it == results_.end() ? 0 : it->second);
}

}  // namespace etrace
