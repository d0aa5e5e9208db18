#include "emit/prepare.h"

#include "control/splice.h"
#include "etrace/array.h"
#include "etrace/control.h"
#include "etrace/primitive.h"
#include "etrace/transform.h"

namespace etrace::emit {

namespace {

bool is_region(const Primitive* p) { return p == &scan_p || p == &while_p || p == &cond_p; }

bool is_expanded(const Eqn& eqn) {
  return !is_region(eqn.prim) && eqn.prim->spec.emit == nullptr && eqn.prim->spec.lower != nullptr;
}

ClosedJaxpr expanded(const ClosedJaxpr&);

Attr expanded_bodies(const Attr& attr) {
  if (const JaxprPtr* body = attr.jaxpr()) return Attr(share(prepare(**body)));
  const Attr::List* items = attr.list_items();
  if (items == nullptr) return attr;
  Attr::List out;
  for (const Attr& item : *items) out.push_back(expanded_bodies(item));
  return Attr::list(std::move(out));
}

void expand_into(ClosedJaxpr& result, const std::vector<Eqn>& eqns, Renaming& names, const Origin& origin) {
  for (const Eqn& eqn : eqns) {
    Eqn copy = eqn;
    copy.in = names(eqn.in);
    if (copy.origin.empty()) copy.origin = origin;
    if (is_region(eqn.prim)) {
      Attr::Dict items;
      for (const auto& [key, value] : eqn.params.items()) items.emplace_back(key, expanded_bodies(value));
      copy.params = Params(std::move(items));
    } else if (is_expanded(eqn)) {
      Avals in;
      for (const Atom& a : eqn.in) in.push_back(aval_of(a));
      const ClosedJaxpr body =
          make_jaxpr([&](ArraySpan x) { return eqn.prim->spec.lower(eqn.params, x); }, in);
      std::vector<Eqn> inner;
      const std::vector<Atom> outs = splice(body, copy.in, result, inner);
      expand_into(result, inner, names, copy.origin);
      for (std::size_t i = 0; i < outs.size(); ++i) names.set(eqn.out[i], names(outs[i]));
      continue;
    }
    result.jaxpr.eqns.push_back(std::move(copy));
  }
}

ClosedJaxpr expanded(const ClosedJaxpr& closed) {
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, {}}, closed.consts};
  Renaming names;
  expand_into(result, closed.jaxpr.eqns, names, {});
  result.jaxpr.outs = names(closed.jaxpr.outs);
  return result;
}

}  // namespace

ClosedJaxpr prepare(const ClosedJaxpr& closed) {
  const ClosedJaxpr flat = fold_constants(expanded(inline_calls(closed)));
  return eliminate_dead_code(eliminate_common_subexpressions(flat));
}

}  // namespace etrace::emit
