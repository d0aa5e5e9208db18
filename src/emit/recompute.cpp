// Values that cost an operation or two and are made of what lies in memory anyway are made anew by each of
// their readers: kept for the second reader, each would be an array. The same operations, so the same bits.
#include <algorithm>
#include <unordered_map>

#include "emit/prepare.h"
#include "etrace/emission.h"
#include "etrace/ops/elementwise.h"
#include "etrace/primitive.h"
#include "etrace/transform.h"

namespace etrace::emit {

namespace {

constexpr int kMostDeep = 2;  // equations of a value
constexpr int kMostCost = 2;  // of each, in additions

class Recomputing {
 public:
  explicit Recomputing(const ClosedJaxpr& closed) : closed_(closed) {
    for (const Var& v : closed.jaxpr.constvars) depth_[v.id] = 0;
    for (const Var& v : closed.jaxpr.invars) depth_[v.id] = 0;
    for (const Eqn& e : closed.jaxpr.eqns) {
      for (const Atom& a : e.in)
        if (const Var* v = as_var(a)) ++readers_[v->id];
      // What becomes a result as soon as it is known to be finite lies in memory until then.
      const Var* next =
          e.prim == &select_n_p && aval_of(e.in[0]).shape.is_scalar() ? as_var(e.in.back()) : nullptr;
      if (next != nullptr && std::find(closed.jaxpr.outs.begin(), closed.jaxpr.outs.end(), Atom(e.out[0])) !=
                                 closed.jaxpr.outs.end())
        depth_[next->id] = 0;
    }
  }

  ClosedJaxpr run() {
    ClosedJaxpr out = closed_;
    out.jaxpr.eqns.clear();
    for (const Eqn& e : closed_.jaxpr.eqns) {
      Eqn own = e;
      for (Atom& a : own.in) a = anew(a, out.jaxpr.eqns);
      note(e);
      out.jaxpr.eqns.push_back(std::move(own));
    }
    return eliminate_dead_code(out);
  }

 private:
  void note(const Eqn& e) {
    if (e.out.size() != 1 || !is_cheap(e)) return;
    int depth = 0;
    for (const Atom& a : e.in)
      if (const Var* v = as_var(a)) {
        const auto it = depth_.find(v->id);
        if (it == depth_.end()) return;
        depth = std::max(depth, it->second);
      }
    if (depth >= kMostDeep) return;
    depth_[e.out[0].id] = depth + 1;
    made_by_[e.out[0].id] = &e;
  }
  static bool is_cheap(const Eqn& e) {
    if (!e.prim->spec.elementwise || e.prim->spec.emit == nullptr || e.out[0].aval.shape.size() < 2)
      return false;
    Avals in;
    std::size_t arrays = 0;
    for (const Atom& a : e.in) {
      in.push_back(aval_of(a));
      arrays += in.back().shape.size() > 1 ? 1 : 0;
      if (in.back().shape.size() > 1 && in.back().shape != e.out[0].aval.shape) return false;
    }
    const Avals types{e.out[0].aval};
    const Emission code = e.prim->spec.emit({e.params, in, types});
    const auto* map = std::get_if<MapCode>(&static_cast<const Emission::variant&>(code));
    return arrays == 1 && map != nullptr && map->reads.empty() && map->cost <= kMostCost;
  }

  Atom anew(const Atom& a, std::vector<Eqn>& before) {
    const Var* v = as_var(a);
    if (v == nullptr) return a;
    const auto made = made_by_.find(v->id);
    if (made == made_by_.end() || readers_[v->id] < 2) return a;
    return copied(*made->second, before);
  }
  Atom copied(const Eqn& e, std::vector<Eqn>& before) {
    Eqn copy = e;
    for (Atom& a : copy.in)
      if (const Var* v = as_var(a); v != nullptr && made_by_.contains(v->id))
        a = copied(*made_by_.at(v->id), before);
    copy.out[0] = fresh_var(e.out[0].aval);
    before.push_back(copy);
    return copy.out[0];
  }

  const ClosedJaxpr& closed_;
  std::unordered_map<std::uint64_t, int> depth_, readers_;
  std::unordered_map<std::uint64_t, const Eqn*> made_by_;
};

}  // namespace

ClosedJaxpr recompute_cheap(const ClosedJaxpr& closed) { return Recomputing(closed).run(); }

}  // namespace etrace::emit
