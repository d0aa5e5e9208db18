#include "emit/prepare.h"

#include "control/bodies.h"
#include "control/splice.h"
#include "emit/expand.h"
#include "etrace/array.h"
#include "etrace/control.h"
#include "etrace/emission.h"
#include "etrace/interp.h"
#include "etrace/primitive.h"
#include "etrace/simplify.h"
#include "etrace/transform.h"
#include "kernels/context.h"

namespace etrace::emit {

namespace {

bool is_region(const Primitive* p) { return p == &scan_p || p == &while_p || p == &cond_p; }

bool has_kernel(const Eqn& eqn, const Avals& in, const Avals& out, const Target& target) {
  if (target.has(nullptr)) return true;  // all of them
  if (target.has(*eqn.prim, nullptr)) return true;
  const etp_context anywhere = serial_context();
  return target.has(make_kernel(*eqn.prim, {eqn.params, in, out, anywhere}).named.get());
}

// How an operation is expanded; null: it has code of its own.
decltype(PrimitiveSpec::lower) expansion_for(const Eqn& eqn, const Target& target) {
  const PrimitiveSpec& row = eqn.prim->spec;
  if (is_region(eqn.prim)) return nullptr;
  if (row.emit == nullptr && row.lower != nullptr) return row.lower;
  Avals in, out;
  for (const Atom& a : eqn.in) in.push_back(aval_of(a));
  for (const Var& v : eqn.out) out.push_back(v.aval);
  if (row.emit != nullptr && !std::holds_alternative<KernelCode>(row.emit({eqn.params, in, out})))
    return nullptr;
  const auto formula = expansion(*eqn.prim);
  return formula != nullptr && !has_kernel(eqn, in, out, target) ? formula : nullptr;
}

void expand_into(ClosedJaxpr& result, const std::vector<Eqn>& eqns, Renaming& names, const Origin& origin,
                 const Target& target) {
  for (const Eqn& eqn : eqns) {
    const bool region = is_region(eqn.prim);
    Eqn copy =
        region ? with_bodies(eqn, [&](const ClosedJaxpr& body) { return prepare(body, target); }) : eqn;
    copy.in = names(eqn.in);
    if (copy.origin.empty()) copy.origin = origin;
    if (const auto formula = region ? nullptr : expansion_for(eqn, target)) {
      Avals in;
      for (const Atom& a : eqn.in) in.push_back(aval_of(a));
      const ClosedJaxpr body = make_jaxpr([&](ArraySpan x) { return formula(eqn.params, x); }, in);
      std::vector<Eqn> inner;
      const std::vector<Atom> outs = splice(body, copy.in, result, inner);
      expand_into(result, inner, names, copy.origin, target);
      for (std::size_t i = 0; i < outs.size(); ++i) names.set(eqn.out[i], names(outs[i]));
      continue;
    }
    result.jaxpr.eqns.push_back(std::move(copy));
  }
}

ClosedJaxpr expanded(const ClosedJaxpr& closed, const Target& target) {
  ClosedJaxpr result{{closed.jaxpr.constvars, closed.jaxpr.invars, {}, {}}, closed.consts};
  Renaming names;
  expand_into(result, closed.jaxpr.eqns, names, {}, target);
  result.jaxpr.outs = names(closed.jaxpr.outs);
  return result;
}

}  // namespace

ClosedJaxpr prepare(const ClosedJaxpr& closed, const Target& target) {
  const ClosedJaxpr flat = fold_constants(expanded(inline_calls(closed), target));
  const ClosedJaxpr lean = eliminate_dead_code(eliminate_common_subexpressions(flat));
  return target.fuses_late ? recompute_cheap(lean) : lean;
}

}  // namespace etrace::emit
