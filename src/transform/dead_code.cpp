#include "transform/dead_code.h"

#include <algorithm>
#include <unordered_set>

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

bool drop_dead_code(ClosedJaxpr& closed) {
  Jaxpr& j = closed.jaxpr;
  VarSet live;
  mark(live, j.outs);
  bool changed = false;
  std::vector<Eqn> kept;  // backwards
  for (std::size_t i = j.eqns.size(); i-- > 0;) {
    Eqn& eqn = j.eqns[i];
    Mask used;
    for (const Var& v : eqn.out) used.push_back(live.contains(v.id));
    const auto num_used = static_cast<std::size_t>(std::count(used.begin(), used.end(), true));
    if (num_used == 0) {
      changed = true;
      continue;
    }
    if (eqn.prim->spec.prune != nullptr && num_used < used.size()) {
      kept.push_back(eqn.prim->spec.prune(eqn, used));
      changed = changed || kept.back().out.size() < eqn.out.size();
    } else {
      kept.push_back(std::move(eqn));
    }
    mark(live, kept.back().in);
  }
  j.eqns.assign(std::make_move_iterator(kept.rbegin()), std::make_move_iterator(kept.rend()));
  drop_unused_consts(closed, live);
  return changed;
}

ClosedJaxpr eliminate_dead_code(const ClosedJaxpr& closed) {
  ClosedJaxpr result = closed;
  drop_dead_code(result);
  return result;
}

ClosedJaxpr eliminate_dead_code(const ClosedJaxpr& closed, const Mask& used_out) {
  ClosedJaxpr smaller = closed;
  smaller.jaxpr.outs.clear();
  for (std::size_t i = 0; i < used_out.size(); ++i)
    if (used_out[i]) smaller.jaxpr.outs.push_back(closed.jaxpr.outs[i]);
  return eliminate_dead_code(smaller);
}

}  // namespace etrace
