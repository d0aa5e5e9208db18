#include "learn/finite_guard.h"

#include <unordered_map>

#include "etrace/ops/numpy.h"
#include "etrace/ops/trace_window.h"

namespace etrace {

Array all_finite(ArraySpan arrays) {
  Array all;
  for (const Array& a : arrays) {
    if (!a.defined() || !is_floating(a.dtype()) || a.size() == 0) continue;
    // 0·v is 0 for every v, unless it is not finite.
    const Array one = equal_to(sum(a * full({}, 0.0, a.dtype())), full({}, 0.0, a.dtype()));
    all = all.defined() ? logical_and(all, one) : one;
  }
  return all.defined() ? all : full({}, true, Dtype::Bool);
}

Arrays if_finite(const Array& go, ArraySpan next, ArraySpan old) {
  Arrays out;
  for (std::size_t i = 0; i < next.size(); ++i) out.push_back(select_n(go, Arrays{old[i], next[i]}));
  return out;
}

namespace {

class Guards {
 public:
  explicit Guards(Jaxpr& j) : j_(j) {
    for (std::size_t i = 0; i < j_.eqns.size(); ++i) {
      for (const Var& v : j_.eqns[i].out) made_by_[v.id] = i;
      count_uses(j_.eqns[i].in);
    }
    count_uses(j_.outs);
  }

  void run() {
    std::vector<Eqn> kept;
    for (Eqn& eqn : j_.eqns) {
      for (Atom& a : eqn.in) a = renamed(a);
      if (!taken(eqn, kept)) kept.push_back(std::move(eqn));
    }
    for (Atom& a : j_.outs) a = renamed(a);
    j_.eqns = std::move(kept);
  }

 private:
  void count_uses(const std::vector<Atom>& atoms) {
    for (const Atom& a : atoms)
      if (const Var* v = as_var(a)) ++uses_[v->id];
  }
  Atom renamed(const Atom& a) const {
    const Var* v = as_var(a);
    const auto it = v == nullptr ? renamed_.end() : renamed_.find(v->id);
    return it == renamed_.end() ? a : Atom(it->second);
  }

  // select_n(go, old, new) with `new` from a pass that takes `old` as its trace, or as its gradient so far.
  bool taken(const Eqn& choice, std::vector<Eqn>& before) {
    if (choice.prim != &select_n_p || choice.in.size() != 3) return false;
    const Var *go = as_var(choice.in[0]), *old = as_var(choice.in[1]), *next = as_var(choice.in[2]);
    if (go == nullptr || old == nullptr || next == nullptr || go->aval != Aval{Dtype::Bool, {}}) return false;
    if (uses_[next->id] != 1) return false;
    for (Eqn& pass : before) {
      if (pass.prim != &trace_window_p || !guards(pass, *old, *next) || !told(pass, *go)) continue;
      renamed_.emplace(choice.out[0].id, *next);
      return true;
    }
    return false;
  }
  static bool guards(const Eqn& pass, const Var& old, const Var& next) {
    const auto is = [](const Atom& a, const Var& v) { return as_var(a) != nullptr && *as_var(a) == v; };
    if (pass.out[0] == next) return is(pass.in[0], old);
    return pass.out.size() > 1 && pass.out[1] == next && pass.params.boolean_or("has_total", false) &&
           is(pass.in.back(), old);
  }
  // The pass knows `go`, or can be told: it is known before the pass.
  bool told(Eqn& pass, const Var& go) {
    const bool has_total = pass.params.boolean_or("has_total", false);
    const auto place = pass.in.end() - (has_total ? 1 : 0);  // before the gradient so far
    if (pass.params.boolean_or("has_go", false)) {
      const Var* known = as_var(*(place - 1));
      return known != nullptr && *known == go;
    }
    const auto made = made_by_.find(go.id);
    if (made != made_by_.end() && made->second >= made_by_.at(pass.out[0].id)) return false;
    pass.in.insert(place, Atom(go));
    pass.params = pass.params.with("has_go", true);
    return true;
  }

  Jaxpr& j_;
  std::unordered_map<std::uint64_t, std::size_t> made_by_, uses_;
  std::unordered_map<std::uint64_t, Var> renamed_;
};

}  // namespace

ClosedJaxpr guard_passes(ClosedJaxpr program) {
  Guards(program.jaxpr).run();
  return program;
}

}  // namespace etrace
