// Inlining of nested calls. Bodies are copied with fresh Vars at every call site: one body object may serve
// many calls.
#include "control/splice.h"
#include "etrace/control.h"
#include "etrace/transform.h"

namespace etrace {

namespace {

bool has_call(const Jaxpr& jaxpr) {
  for (const Eqn& eqn : jaxpr.eqns) {
    if (eqn.prim == &jit_p) return true;
    for (const JaxprPtr& nested : nested_jaxprs(eqn))
      if (has_call(nested->jaxpr)) return true;
  }
  return false;
}

bool has_nested_call(const Eqn& eqn) {
  for (const JaxprPtr& nested : nested_jaxprs(eqn))
    if (has_call(nested->jaxpr)) return true;
  return false;
}

Attr inline_attr(const Attr& attr) {
  if (const JaxprPtr* program = attr.jaxpr())
    return *program != nullptr && has_call((*program)->jaxpr) ? Attr(share(inline_calls(**program))) : attr;
  if (const Attr::List* items = attr.list_items()) {
    Attr::List out;
    for (const Attr& item : *items) out.push_back(inline_attr(item));
    return Attr::list(std::move(out));
  }
  return attr;
}

// Appends the equations, calls replaced by their bodies; `names` says what the results of calls stand for.
void inline_into(ClosedJaxpr& result, const std::vector<Eqn>& eqns, Renaming& names) {
  for (const Eqn& eqn : eqns) {
    if (eqn.prim == &jit_p) {
      std::vector<Eqn> body;
      const std::vector<Atom> outs = splice(*eqn.params.jaxpr("jaxpr"), names(eqn.in), result, body);
      inline_into(result, body, names);
      for (std::size_t i = 0; i < outs.size(); ++i) names.set(eqn.out[i], names(outs[i]));
      continue;
    }
    Eqn copy = eqn;
    copy.in = names(eqn.in);
    if (has_nested_call(eqn)) {
      Attr::Dict items;
      for (const auto& [key, value] : eqn.params.items()) items.emplace_back(key, inline_attr(value));
      copy.params = Params(std::move(items));
    }
    result.jaxpr.eqns.push_back(std::move(copy));
  }
}

}  // namespace

ClosedJaxpr inline_calls(const ClosedJaxpr& closed) {
  if (!has_call(closed.jaxpr)) return closed;
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, {}}, closed.consts};
  Renaming names;
  inline_into(result, closed.jaxpr.eqns, names);
  result.jaxpr.outs = names(closed.jaxpr.outs);
  return result;
}

namespace {

// Bodies of loops and branches, each on its own.
Eqn with_simple_bodies(const Eqn& eqn) {
  if (eqn.prim != &scan_p && eqn.prim != &while_p && eqn.prim != &cond_p) return eqn;
  Eqn out = eqn;
  for (const auto& [key, value] : eqn.params.items()) {
    if (const JaxprPtr* body = value.jaxpr()) out.params = out.params.with(key, share(simplify(**body)));
    if (const Attr::List* items = value.list_items()) {
      Attr::List bodies;
      for (const Attr& item : *items)
        bodies.push_back(item.jaxpr() != nullptr ? Attr(share(simplify(**item.jaxpr()))) : item);
      out.params = out.params.with(key, Attr::list(bodies));
    }
  }
  return out;
}

}  // namespace

ClosedJaxpr simplify(const ClosedJaxpr& closed) {
  ClosedJaxpr result = fold_constants(inline_calls(closed));
  for (Eqn& eqn : result.jaxpr.eqns) eqn = with_simple_bodies(eqn);
  return eliminate_dead_code(eliminate_common_subexpressions(result));
}

}  // namespace etrace
