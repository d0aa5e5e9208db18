// Inlining of nested calls. Bodies are copied with fresh Vars at every call site: one body object may serve
// many calls.
#include "control/inline.h"

#include "control/bodies.h"
#include "control/loops.h"
#include "control/splice.h"
#include "etrace/control.h"
#include "etrace/transform.h"

namespace etrace {

namespace {

// The body of a call of these kinds, or null.
JaxprPtr callee(const Eqn& eqn, Calls which) {
  if (eqn.prim == &jit_p) return eqn.params.jaxpr("jaxpr");
  return has_own_derivative(eqn) && which == Calls::All ? eqn.params.jaxpr("call_jaxpr") : nullptr;
}

}  // namespace

bool has_calls(const Jaxpr& jaxpr, Calls which) {
  for (const Eqn& eqn : jaxpr.eqns) {
    if (callee(eqn, which) != nullptr) return true;
    for (const JaxprPtr& nested : nested_jaxprs(eqn))
      if (has_calls(nested->jaxpr, which)) return true;
  }
  return false;
}

namespace {

bool has_nested_call(const Eqn& eqn, Calls which) {
  for (const JaxprPtr& nested : nested_jaxprs(eqn))
    if (has_calls(nested->jaxpr, which)) return true;
  return false;
}

// Appends the equations, calls replaced by their bodies; `names` says what the results of calls stand for.
void inline_into(ClosedJaxpr& result, const std::vector<Eqn>& eqns, Renaming& names, Calls which) {
  for (const Eqn& eqn : eqns) {
    if (const JaxprPtr called = callee(eqn, which)) {
      std::vector<Eqn> body;
      const std::vector<Atom> outs = splice(*called, names(eqn.in), result, body);
      inline_into(result, body, names, which);
      for (std::size_t i = 0; i < outs.size(); ++i) names.set(eqn.out[i], names(outs[i]));
      continue;
    }
    Eqn copy = has_nested_call(eqn, which)
                   ? with_bodies(eqn, [which](const ClosedJaxpr& body) { return inline_calls(body, which); })
                   : eqn;
    copy.in = names(eqn.in);
    result.jaxpr.eqns.push_back(std::move(copy));
  }
}

}  // namespace

ClosedJaxpr inline_calls(const ClosedJaxpr& closed) { return inline_calls(closed, Calls::Jit); }

ClosedJaxpr inline_calls(const ClosedJaxpr& closed, Calls which) {
  if (!has_calls(closed.jaxpr, which)) return closed;
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, {}}, closed.consts};
  Renaming names;
  inline_into(result, closed.jaxpr.eqns, names, which);
  result.jaxpr.outs = names(closed.jaxpr.outs);
  return result;
}

}  // namespace etrace
