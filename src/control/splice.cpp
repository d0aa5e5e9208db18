#include "control/splice.h"

namespace etrace {

void lift_consts(const ClosedJaxpr& body, Renaming& names, ClosedJaxpr& into) {
  for (std::size_t i = 0; i < body.consts.size(); ++i) {
    const Var c = fresh_var(body.jaxpr.constvars[i].aval);
    into.jaxpr.constvars.push_back(c);
    into.consts.push_back(body.consts[i]);
    names.set(body.jaxpr.constvars[i], c);
  }
}

void splice_eqns(const Jaxpr& body, Renaming& names, std::vector<Eqn>& eqns) {
  for (const Eqn& eqn : body.eqns) {
    std::vector<Var> outs;
    for (const Var& v : eqn.out) {
      outs.push_back(fresh_var(v.aval));
    }
    Eqn copy = make_eqn(*eqn.prim, names(eqn.in), outs, eqn.params, eqn.origin);
    for (std::size_t i = 0; i < outs.size(); ++i) names.set(eqn.out[i], outs[i]);
    eqns.push_back(std::move(copy));
  }
}

std::vector<Atom> splice(const ClosedJaxpr& body, const std::vector<Atom>& args, ClosedJaxpr& into,
                         std::vector<Eqn>& eqns) {
  Renaming names;
  lift_consts(body, names, into);
  for (std::size_t i = 0; i < args.size(); ++i) names.set(body.jaxpr.invars[i], args[i]);
  splice_eqns(body.jaxpr, names, eqns);
  return names(body.jaxpr.outs);
}

}  // namespace etrace
