// Inlining of nested calls. Bodies are cloned with fresh Vars at every call site: one body object may serve many calls.
#include <unordered_map>

#include "control/body.h"
#include "etrace/control.h"

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

class Inliner {
 public:
  ClosedJaxpr run(const ClosedJaxpr& closed) {
    result_.jaxpr.constvars = closed.jaxpr.constvars;
    result_.consts = closed.consts;
    result_.jaxpr.invars = closed.jaxpr.invars;
    std::unordered_map<std::uint64_t, Atom> names;
    splice(closed.jaxpr, names, /*fresh=*/false);
    for (const Atom& a : closed.jaxpr.outs) result_.jaxpr.outs.push_back(lookup(names, a));
    return std::move(result_);
  }

 private:
  using Names = std::unordered_map<std::uint64_t, Atom>;

  static Atom lookup(const Names& names, const Atom& a) {
    const Var* v = as_var(a);
    if (v == nullptr) return a;
    const auto it = names.find(v->id);
    return it == names.end() ? a : it->second;
  }

  // Appends the equations of a body; `fresh` renames what it defines.
  void splice(const Jaxpr& body, Names& names, bool fresh) {
    for (const Eqn& eqn : body.eqns) {
      std::vector<Atom> in;
      for (const Atom& a : eqn.in) in.push_back(lookup(names, a));
      if (eqn.prim == &jit_p) {
        splice_call(*eqn.params.jaxpr("jaxpr"), in, eqn.out, names);
        continue;
      }
      Eqn copy = eqn;
      copy.in = std::move(in);
      bool nested = false;
      for (const JaxprPtr& p : nested_jaxprs(eqn)) nested = nested || has_call(p->jaxpr);
      if (nested) {
        Attr::Dict items;
        for (const auto& [key, value] : eqn.params.items()) items.emplace_back(key, inline_attr(value));
        copy.params = Params(std::move(items));
      }
      if (fresh) {
        copy.id = make_eqn(*eqn.prim, {}, {}).id;
        for (Var& v : copy.out) {
          const Var renamed = fresh_var(v.aval);
          names.insert_or_assign(v.id, renamed);
          v = renamed;
        }
      }
      result_.jaxpr.eqns.push_back(std::move(copy));
    }
  }

  void splice_call(const ClosedJaxpr& body, const std::vector<Atom>& args, const std::vector<Var>& outs, Names& names) {
    Names inner;
    for (std::size_t i = 0; i < body.consts.size(); ++i) {
      const Var c = fresh_var(body.jaxpr.constvars[i].aval);
      result_.jaxpr.constvars.push_back(c);
      result_.consts.push_back(body.consts[i]);
      inner.emplace(body.jaxpr.constvars[i].id, c);
    }
    for (std::size_t i = 0; i < args.size(); ++i) inner.emplace(body.jaxpr.invars[i].id, args[i]);
    splice(body.jaxpr, inner, /*fresh=*/true);
    for (std::size_t i = 0; i < outs.size(); ++i) names.insert_or_assign(outs[i].id, lookup(inner, body.jaxpr.outs[i]));
  }

  ClosedJaxpr result_;
};

}  // namespace

ClosedJaxpr inline_calls(const ClosedJaxpr& closed) { return has_call(closed.jaxpr) ? Inliner().run(closed) : closed; }

ClosedJaxpr simplify(const ClosedJaxpr& closed) {
  return eliminate_dead_code(eliminate_common_subexpressions(fold_constants(inline_calls(closed))));
}

}  // namespace etrace
