// The type checker. A program is well formed iff every Var is defined once and before its use, and every
// equation has the results that its primitive's own rule gives for the operands. Start with Checker::program.
#include <unordered_map>
#include <unordered_set>

#include "core/print.h"
#include "etrace/ir.h"
#include "etrace/primitive.h"

namespace etrace {

namespace {

std::string types(const Avals& avals) {
  std::string text = "(";
  for (std::size_t i = 0; i < avals.size(); ++i) text += (i != 0 ? ", " : "") + to_string(avals[i]);
  return text + ")";
}

class Checker {
 public:
  void closed(const ClosedJaxpr& c, const std::string& place) {
    if (c.consts.size() != c.jaxpr.constvars.size())
      fail(place + ".consts", std::to_string(c.consts.size()) + " values are given for " +
                                  std::to_string(c.jaxpr.constvars.size()) + " constvars; give one for each");
    for (std::size_t i = 0; i < c.consts.size(); ++i) {
      const std::string at = place + ".consts[" + std::to_string(i) + "]";
      if (!c.consts[i].defined()) fail(at, "the value is undefined");
      if (!(c.consts[i].aval() == c.jaxpr.constvars[i].aval))
        fail(at, "the value is " + to_string(c.consts[i].aval()) + " but its constvar is " +
                     to_string(c.jaxpr.constvars[i].aval));
    }
    program(c.jaxpr, place);
  }

  void program(const Jaxpr& jaxpr, const std::string& place) {
    Scope scope;
    define(scope, jaxpr.constvars, place + ".constvars");
    define(scope, jaxpr.invars, place + ".invars");
    for (std::size_t i = 0; i < jaxpr.eqns.size(); ++i) {
      const Eqn& eqn = jaxpr.eqns[i];
      const std::string at = place + ".eqns[" + std::to_string(i) + "]";
      const Origin outer = origin_;
      if (!eqn.origin.empty()) origin_ = eqn.origin;
      for (const auto& [key, value] : eqn.params.items()) nested(value, at + ".params." + key);
      try {
        equation(scope, eqn);
      } catch (const NotSupportedError& e) {
        throw NotSupportedError("check", explain(jaxpr, i, at, e.message()), origin_);
      } catch (const InternalError&) {
        throw;
      } catch (const Error& e) {
        fail(explain(jaxpr, i, at, e.message()));
      } catch (const std::exception& e) {
        // Absurd parameters (a count near 2^63) can make a rule ask for more memory than there can be.
        fail(explain(jaxpr, i, at, std::string("the typing rule failed: ") + e.what()));
      }
      origin_ = outer;
    }
    for (std::size_t i = 0; i < jaxpr.outs.size(); ++i)
      if (const std::string fault = fault_of_use(scope, jaxpr.outs[i]); !fault.empty())
        fail(place + ".outvars[" + std::to_string(i) + "]", fault);
  }

 private:
  using Scope = std::unordered_map<std::uint64_t, Aval>;

  [[noreturn]] void fail(std::string message) const {
    throw CompilationError("check", std::move(message), origin_);
  }
  [[noreturn]] void fail(const std::string& place, const std::string& message) const {
    fail(place + ": " + message);
  }

  static std::string explain(const Jaxpr& jaxpr, std::size_t i, const std::string& at,
                             const std::string& fault) {
    const Eqn& eqn = jaxpr.eqns[i];
    const std::string prim = eqn.prim == nullptr ? "" : " (" + std::string(eqn.prim->name()) + ")";
    return at + prim + ": " + fault + "\nnear:" + excerpt(jaxpr, i);
  }

  void define(Scope& scope, const std::vector<Var>& vars, const std::string& place) const {
    for (std::size_t i = 0; i < vars.size(); ++i)
      if (!scope.emplace(vars[i].id, vars[i].aval).second)
        fail(place + "[" + std::to_string(i) + "]",
             "the variable is defined twice; every variable has one definition");
  }

  static std::string fault_of_use(const Scope& scope, const Atom& a) {
    const Var* v = as_var(a);
    if (v == nullptr) return {};
    const auto it = scope.find(v->id);
    if (it == scope.end())
      return "the variable is used before its definition, or is never defined in this program";
    if (!(it->second == v->aval))
      return "the variable is used as " + to_string(v->aval) + " but defined as " + to_string(it->second);
    return {};
  }

  // Errors of this function get their place and surroundings from the caller.
  static void equation(Scope& scope, const Eqn& eqn) {
    if (eqn.prim == nullptr) throw CompilationError("check", "the equation has no primitive");
    Avals in;
    for (std::size_t i = 0; i < eqn.in.size(); ++i) {
      if (const std::string fault = fault_of_use(scope, eqn.in[i]); !fault.empty())
        throw CompilationError("check", "operand " + std::to_string(i) + ": " + fault);
      in.push_back(aval_of(eqn.in[i]));
    }
    const Avals expected = abstract_eval(*eqn.prim, eqn.params, in);
    Avals found;
    for (const Var& v : eqn.out) found.push_back(v.aval);
    if (found.size() != expected.size())
      throw CompilationError("check", "found " + std::to_string(found.size()) + " results, expected " +
                                          std::to_string(expected.size()) + ": " + types(expected));
    if (found != expected)
      throw CompilationError("check", "found results of type " + types(found) + ", expected " +
                                          types(expected) + " for operands of type " + types(in));
    for (std::size_t i = 0; i < eqn.out.size(); ++i)
      if (!scope.emplace(eqn.out[i].id, eqn.out[i].aval).second)
        throw CompilationError("check", "result " + std::to_string(i) +
                                            " is already defined; every variable has one definition");
  }

  void nested(const Attr& attr, const std::string& place) {
    if (const JaxprPtr* j = attr.jaxpr()) {
      if (checked_.insert(j->get()).second) closed(**j, place + ".jaxpr");
    } else if (const Attr::List* list = attr.list_items()) {
      for (std::size_t i = 0; i < list->size(); ++i)
        nested((*list)[i], place + "[" + std::to_string(i) + "]");
    } else if (const Attr::Dict* dict = attr.dict_items()) {
      for (const auto& [key, value] : *dict) nested(value, place + "." + key);
    }
  }

  Origin origin_;  // of the innermost equation around the current place that has one
  std::unordered_set<const ClosedJaxpr*> checked_;  // programs are shared: each is checked once
};

}  // namespace

void check(const Jaxpr& jaxpr) { Checker().program(jaxpr, "jaxpr"); }
void check(const ClosedJaxpr& program) { Checker().closed(program, "jaxpr"); }

}  // namespace etrace
