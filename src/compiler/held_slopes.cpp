#include "compiler/held_slopes.h"

#include <algorithm>
#include <unordered_set>

#include "control/bodies.h"
#include "control/loops.h"
#include "etrace/control.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

ClosedJaxpr hold_slopes(const ClosedJaxpr& in) {
  ClosedJaxpr out{{in.jaxpr.constvars, in.jaxpr.invars, {}, in.jaxpr.outs}, in.consts};
  std::unordered_set<std::uint64_t> held;
  for (const Eqn& eqn : in.jaxpr.eqns) {
    if (eqn.prim->spec.ends_derivatives) held.insert(eqn.out[0].id);
    Eqn copy = control_flow(eqn) != ControlFlow::None
                   ? with_bodies(eqn, [](const ClosedJaxpr& body) { return hold_slopes(body); })
                   : eqn;
    const Var* slope = eqn.prim == &heaviside_surrogate_gradient_p ? as_var(eqn.in[1]) : nullptr;
    if (slope != nullptr && !held.contains(slope->id)) {
      const Var constant = fresh_var(slope->aval);
      out.jaxpr.eqns.push_back(make_eqn(stop_gradient_p, {*slope}, {constant}, {}, eqn.origin));
      copy.in[1] = constant;
    }
    out.jaxpr.eqns.push_back(std::move(copy));
  }
  return out;
}

}  // namespace etrace
