// Dead-code elimination, common-subexpression elimination, constant folding.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "etrace/error.h"
#include "etrace/transform.h"

namespace etrace {

namespace {

using VarSet = std::unordered_set<std::uint64_t>;

void mark(VarSet& set, const std::vector<Atom>& atoms) {
  for (const Atom& a : atoms)
    if (const Var* v = as_var(a)) set.insert(v->id);
}

// Drops constvars that nobody reads, together with their values.
void drop_unused_consts(ClosedJaxpr& closed, const VarSet& live) {
  std::vector<Var> vars;
  Tensors values;
  for (std::size_t i = 0; i < closed.jaxpr.constvars.size(); ++i) {
    if (!live.contains(closed.jaxpr.constvars[i].id)) continue;
    vars.push_back(closed.jaxpr.constvars[i]);
    values.push_back(closed.consts[i]);
  }
  closed.jaxpr.constvars = std::move(vars);
  closed.consts = std::move(values);
}

}  // namespace

ClosedJaxpr eliminate_dead_code(const ClosedJaxpr& closed) {
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, closed.jaxpr.outs}, closed.consts};
  VarSet live;
  mark(live, result.jaxpr.outs);
  std::vector<Eqn> kept;  // backwards
  for (std::size_t i = closed.jaxpr.eqns.size(); i-- > 0;) {
    const Eqn& eqn = closed.jaxpr.eqns[i];
    Mask used;
    for (const Var& v : eqn.out) used.push_back(live.contains(v.id));
    const auto num_used = static_cast<std::size_t>(std::count(used.begin(), used.end(), true));
    if (num_used == 0) continue;
    const bool prunable = eqn.prim->spec.prune != nullptr && num_used < used.size();
    kept.push_back(prunable ? eqn.prim->spec.prune(eqn, used) : eqn);
    mark(live, kept.back().in);
  }
  result.jaxpr.eqns.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  drop_unused_consts(result, live);
  return result;
}

ClosedJaxpr eliminate_dead_code(const ClosedJaxpr& closed, const Mask& used_out) {
  ClosedJaxpr smaller = closed;
  smaller.jaxpr.outs.clear();
  for (std::size_t i = 0; i < used_out.size(); ++i)
    if (used_out[i]) smaller.jaxpr.outs.push_back(closed.jaxpr.outs[i]);
  return eliminate_dead_code(smaller);
}

namespace {

class Substitution {
 public:
  void replace(const Var& from, const Atom& to) { map_.insert_or_assign(from.id, to); }
  Atom apply(const Atom& a) const {
    const Var* v = as_var(a);
    if (v == nullptr) return a;
    const auto it = map_.find(v->id);
    return it == map_.end() ? a : it->second;
  }
  void apply_all(std::vector<Atom>& atoms) const {
    for (Atom& a : atoms) a = apply(a);
  }

 private:
  std::unordered_map<std::uint64_t, Atom> map_;
};

bool same_atom(const Atom& a, const Atom& b) {
  const Var *va = as_var(a), *vb = as_var(b);
  if ((va != nullptr) != (vb != nullptr)) return false;
  return va != nullptr ? *va == *vb : std::get<Literal>(a) == std::get<Literal>(b);
}

bool same_computation(const Eqn& a, const Eqn& b) {
  if (a.prim != b.prim || a.in.size() != b.in.size()) return false;
  for (std::size_t i = 0; i < a.in.size(); ++i)
    if (!same_atom(a.in[i], b.in[i])) return false;
  return a.params == b.params;
}

std::size_t operand_hash(const Eqn& eqn) {
  std::size_t h = std::hash<const void*>()(eqn.prim);
  for (const Atom& a : eqn.in) {
    const Var* v = as_var(a);
    h = h * 1099511628211U +
        (v != nullptr ? v->id : std::hash<double>()(to_double(std::get<Literal>(a).value)));
  }
  return h;
}

}  // namespace

ClosedJaxpr eliminate_common_subexpressions(const ClosedJaxpr& closed) {
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, closed.jaxpr.outs}, closed.consts};
  Substitution same;
  std::unordered_map<std::size_t, std::vector<std::size_t>> seen;  // hash -> positions in result
  for (Eqn eqn : closed.jaxpr.eqns) {
    same.apply_all(eqn.in);
    std::vector<std::size_t>& candidates = seen[operand_hash(eqn)];
    const Eqn* twin = nullptr;
    for (const std::size_t i : candidates)
      if (same_computation(result.jaxpr.eqns[i], eqn)) twin = &result.jaxpr.eqns[i];
    if (twin != nullptr) {
      for (std::size_t i = 0; i < eqn.out.size(); ++i) same.replace(eqn.out[i], twin->out[i]);
      continue;
    }
    candidates.push_back(result.jaxpr.eqns.size());
    result.jaxpr.eqns.push_back(std::move(eqn));
  }
  same.apply_all(result.jaxpr.outs);
  return result;
}

ClosedJaxpr fold_constants(const ClosedJaxpr& closed, std::int64_t max_elements) {
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, closed.jaxpr.outs}, closed.consts};
  std::unordered_map<std::uint64_t, Array> known;
  for (std::size_t i = 0; i < closed.consts.size(); ++i)
    known.emplace(closed.jaxpr.constvars[i].id, closed.consts[i]);
  Substitution folded;
  for (const Eqn& eqn : closed.jaxpr.eqns) {
    Arrays in;
    for (const Atom& a : eqn.in) {
      if (const auto* l = std::get_if<Literal>(&a))
        in.push_back(full({}, l->value, l->dtype));
      else if (const auto it = known.find(std::get<Var>(a).id); it != known.end())
        in.push_back(it->second);
    }
    std::int64_t size = 0;
    for (const Var& v : eqn.out) size += v.aval.shape.size();
    if (in.size() != eqn.in.size() || size > max_elements) {
      result.jaxpr.eqns.push_back(eqn);
      folded.apply_all(result.jaxpr.eqns.back().in);
      continue;
    }
    const Arrays out = bind_primitive(*eqn.prim, in, eqn.params);
    for (std::size_t i = 0; i < out.size(); ++i) {
      known.emplace(eqn.out[i].id, out[i]);
      if (out[i].shape().is_scalar()) {
        folded.replace(eqn.out[i], Literal{out[i].dtype(), out[i].tensor().at(0)});
      } else {
        result.jaxpr.constvars.push_back(eqn.out[i]);
        result.consts.push_back(out[i].tensor());
      }
    }
  }
  folded.apply_all(result.jaxpr.outs);
  return eliminate_dead_code(result);
}

}  // namespace etrace
