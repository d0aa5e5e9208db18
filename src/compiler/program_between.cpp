#include "compiler/program_between.h"

#include <algorithm>

#include "etrace/ops/elementwise.h"

namespace etrace {

namespace {

using Filter = std::function<bool(const Eqn&)>;
using VarFilter = std::function<bool(const Var&)>;

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
  for (const std::size_t i : between(index.jaxpr(), {from.id}, ids_of(to), {By::Value, enters, passes})) {
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

namespace {

// Two copies of the equations behind a value: one with all of its influence, up to the crossings, and one
// with what has come through a crossing.
class AcrossCopy {
 public:
  AcrossCopy(const ProgramIndex& index, const Var& from, const Filter& crosses, const VarFilter& passes)
      : crosses_(crosses), passes_(passes) {
    out_.invars = {from};
    known_.insert(from.id);
    reached_.insert(from.id);
    for (const std::size_t i : forward(index.jaxpr(), {from.id}, {By::Value, {}, passes}).eqns)
      add(index.eqn(i));
  }

  std::optional<Jaxpr> to(const std::vector<Var>& results) {
    const bool any =
        std::any_of(results.begin(), results.end(), [&](const Var& v) { return across_.contains(v.id); });
    if (!any) return std::nullopt;
    for (const Var& v : results) {
      if (!across_.contains(v.id)) need(v);
      out_.outs.emplace_back(across_.contains(v.id) ? across_.at(v.id) : held(v, {}));
    }
    return std::move(out_);
  }

 private:
  void need(const Atom& a) {
    const Var* v = as_var(a);
    if (v != nullptr && known_.insert(v->id).second) out_.constvars.push_back(*v);
  }
  // A value of the program without its influence.
  Var held(const Var& v, const Origin& origin) {
    if (!reached_.contains(v.id)) return v;
    const auto it = held_.find(v.id);
    if (it != held_.end()) return it->second;
    const Var out = fresh_var(v.aval);
    out_.eqns.push_back(make_eqn(stop_gradient_p, {v}, {out}, {}, origin));
    held_.emplace(v.id, out);
    return out;
  }
  // As the others see it: with all of its influence, unless it does not pass that on.
  Var whole(const Var& v, const Origin& origin) { return passes_(v) ? v : held(v, origin); }

  void add(const Eqn& eqn) {
    Eqn all = eqn, across = eqn;
    bool is_across = false;
    for (std::size_t k = 0; k < eqn.in.size(); ++k) {
      const Var* v = as_var(eqn.in[k]);
      if (v == nullptr) continue;
      need(*v);
      all.in[k] = whole(*v, eqn.origin);
      const auto it = across_.find(v->id);
      is_across = is_across || it != across_.end();
      across.in[k] = it != across_.end() ? it->second : held(*v, eqn.origin);
    }
    for (const Var& v : eqn.out) {
      known_.insert(v.id);
      reached_.insert(v.id);
    }
    out_.eqns.push_back(std::move(all));
    if (crosses_(eqn)) {
      for (const Var& v : eqn.out)
        if (passes_(v)) across_.emplace(v.id, v);
      return;
    }
    if (!is_across) return;
    for (Var& v : across.out) {
      const Var copy = fresh_var(v.aval);
      if (passes_(v)) across_.emplace(v.id, copy);
      v = copy;
    }
    out_.eqns.push_back(std::move(across));
  }

  const Filter& crosses_;
  const VarFilter& passes_;
  Jaxpr out_;
  VarIds known_, reached_;
  std::unordered_map<std::uint64_t, Var> across_, held_;
};

}  // namespace

std::optional<Jaxpr> program_across(const ProgramIndex& index, const Var& from, const std::vector<Var>& to,
                                    const Filter& crosses, const VarFilter& passes) {
  std::optional<Jaxpr> whole = AcrossCopy(index, from, crosses, passes).to(to);
  if (!whole) return std::nullopt;
  Jaxpr lean{{}, whole->invars, {}, whole->outs};
  const Reached needed = backward(*whole, ids_of(whole->outs));
  for (const std::size_t i : needed.eqns) lean.eqns.push_back(whole->eqns[i]);
  for (const Var& v : whole->constvars)
    if (needed.holds(v)) lean.constvars.push_back(v);
  return lean;
}

std::vector<const Eqn*> derivative_ways(const Jaxpr& program, const std::vector<Atom>& results) {
  VarIds of;
  for (const Atom& a : results)
    if (is_floating(aval_of(a).dtype)) of.merge(ids_of(std::vector<Atom>{a}));
  std::vector<const Eqn*> out;
  for (const std::size_t i : backward(program, std::move(of), {By::Derivative}).eqns)
    out.push_back(&program.eqns[i]);
  return out;
}

}  // namespace etrace
