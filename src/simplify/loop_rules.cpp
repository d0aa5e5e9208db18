#include "simplify/loop_rules.h"

#include "etrace/ops/shape.h"

namespace etrace {

const RuleTable& loop_rules() {
  static const RuleTable table = [] {
    RuleTable t;
    add_scan_rules(t);
    add_while_rules(t);
    add_cond_rules(t);
    return t;
  }();
  return table;
}

void lift_constants(Rewriter& rw, ClosedJaxpr& body, Invariants& operands) {
  for (std::size_t i = 0; i < body.consts.size(); ++i)
    operands.add(body.jaxpr.constvars[i], rw.constant(body.consts[i]));
  body.jaxpr.constvars.clear();
  body.consts.clear();
}

std::unordered_set<std::uint64_t> vars_read(const Jaxpr& jaxpr) {
  std::unordered_set<std::uint64_t> read;
  const auto mark = [&](const std::vector<Atom>& atoms) {
    for (const Atom& a : atoms)
      if (const Var* v = as_var(a)) read.insert(v->id);
  };
  for (const Eqn& eqn : jaxpr.eqns) mark(eqn.in);
  mark(jaxpr.outs);
  return read;
}

bool tidy(const Rewriter& rw, Jaxpr& body, Invariants& operands) {
  const std::unordered_set<std::uint64_t> read = vars_read(body);
  Invariants kept;
  Renaming names;
  std::vector<Eqn> uniform;
  std::unordered_map<std::uint64_t, Var> first;  // by the Var outside
  for (std::size_t i = 0; i < operands.inner.size(); ++i) {
    const Var& inner = operands.inner[i];
    if (!read.contains(inner.id)) continue;
    if (const auto value = rw.uniform(operands.outer[i])) {
      if (inner.aval.shape.is_scalar())
        names.set(inner, *value);
      else
        uniform.push_back(make_eqn(broadcast_in_dim_p, {*value}, {inner},
                                   {{"shape", inner.aval.shape}, {"broadcast_dimensions", Dims{}}}));
      continue;
    }
    const auto [it, fresh] = first.try_emplace(std::get<Var>(operands.outer[i]).id, inner);
    if (fresh)
      kept.add(inner, operands.outer[i]);
    else
      names.set(inner, it->second);
  }
  if (kept.inner.size() == operands.inner.size()) return false;
  for (Eqn& eqn : body.eqns) eqn.in = names(eqn.in);
  body.outs = names(body.outs);
  body.eqns.insert(body.eqns.begin(), uniform.begin(), uniform.end());
  operands = std::move(kept);
  return true;
}

std::vector<Atom> write_body(Rewriter& rw, const Jaxpr& body, Renaming& names) {
  for (Eqn eqn : body.eqns) {
    eqn.in = names(eqn.in);
    const std::vector<Atom> out = rw.write_copy(eqn);
    for (std::size_t i = 0; i < out.size(); ++i) names.set(eqn.out[i], out[i]);
  }
  return names(body.outs);
}

UniformInBody::UniformInBody(const Jaxpr& body) {
  for (const Eqn& eqn : body.eqns)
    if (eqn.prim == &broadcast_in_dim_p)
      if (const auto* value = std::get_if<Literal>(&eqn.in[0])) values_.emplace(eqn.out[0].id, *value);
}

std::optional<Literal> UniformInBody::operator()(const Atom& a) const {
  const Var* v = as_var(a);
  if (v == nullptr) return std::get<Literal>(a);
  const auto it = values_.find(v->id);
  return it == values_.end() ? std::nullopt : std::optional(it->second);
}

}  // namespace etrace
