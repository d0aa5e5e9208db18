#include "compiler/program_between.h"

#include <algorithm>

#include "etrace/ops/elementwise.h"

namespace etrace {

namespace {

using Filter = std::function<bool(const Eqn&)>;
using VarFilter = std::function<bool(const Var&)>;

// Positions of the equations that a value influences, in program order.
std::vector<std::size_t> influenced(const ProgramIndex& index, const Var& from, const Filter& enters,
                                    const VarFilter& passes) {
  VarIds reached{from.id};
  std::vector<std::size_t> out;
  std::vector<Var> todo{from};
  while (!todo.empty()) {
    const Var v = todo.back();
    todo.pop_back();
    for (const std::size_t i : index.consumers(v)) {
      const Eqn& e = index.eqn(i);
      if (!enters(e)) continue;
      out.push_back(i);
      for (const Var& o : e.out)
        if (reached.insert(o.id).second && passes(o)) todo.push_back(o);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

// Of these, the ones that the results need.
std::vector<std::size_t> needed_for(const ProgramIndex& index, const std::vector<std::size_t>& forward,
                                    const std::vector<Var>& to) {
  VarIds needed;
  for (const Var& v : to) needed.insert(v.id);
  std::vector<std::size_t> out;
  for (std::size_t k = forward.size(); k-- > 0;) {
    const Eqn& e = index.eqn(forward[k]);
    if (std::none_of(e.out.begin(), e.out.end(), [&](const Var& v) { return needed.contains(v.id); }))
      continue;
    out.push_back(forward[k]);
    for (const Atom& a : e.in)
      if (const Var* v = as_var(a)) needed.insert(v->id);
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

Jaxpr program_between(const ProgramIndex& index, const Var& from, const std::vector<Var>& to,
                      const Filter& enters, const VarFilter& passes) {
  Jaxpr out;
  out.invars = {from};
  VarIds known{from.id};
  std::unordered_map<std::uint64_t, Var> detached;
  const auto need = [&](const Atom& a) {
    const Var* v = as_var(a);
    if (v != nullptr && known.insert(v->id).second) out.constvars.push_back(*v);
  };
  for (const std::size_t i : needed_for(index, influenced(index, from, enters, passes), to)) {
    Eqn e = index.eqn(i);
    for (Atom& a : e.in) {
      need(a);
      if (const Var* v = as_var(a); v != nullptr && detached.contains(v->id)) a = detached.at(v->id);
    }
    for (const Var& v : e.out) known.insert(v.id);
    out.eqns.push_back(e);
    for (const Var& v : e.out) {
      if (passes(v)) continue;
      const Var held = fresh_var(v.aval);
      out.eqns.push_back(make_eqn(stop_gradient_p, {v}, {held}, {}, e.origin));
      detached.emplace(v.id, held);
    }
  }
  for (const Var& v : to) {
    need(v);
    out.outs.emplace_back(v);
  }
  return out;
}

}  // namespace etrace
