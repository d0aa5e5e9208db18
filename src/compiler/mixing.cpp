// Products, and those inside bodies: followed from the operands that carry hidden values; see the header.
#include "compiler/mixing.h"

#include <algorithm>
#include <utility>

#include "compiler/program_index.h"
#include "core/dataflow.h"
#include "etrace/axes.h"

namespace etrace {

bool sums_fully(const Eqn& eqn) {
  if (!(eqn.prim->spec.product || is_mixing_etp(eqn)) || !nested_jaxprs(eqn).empty()) return false;
  const AxisTable axes = axes_of(eqn);
  const Shape& x = aval_of(eqn.in[0]).shape;
  std::vector<bool> left(x.rank(), false);
  for (const auto& by_operand : axes.from[0]) {
    if (by_operand[0].kind == AxisSource::Any) return false;
    if (by_operand[0].kind == AxisSource::Along) left[by_operand[0].axis] = true;
  }
  for (std::size_t a = 0; a < x.rank(); ++a)
    if (!left[a] && x[a] > 1) return true;
  return false;
}

namespace {

bool holds_product(const Jaxpr& program, bool count_etp) {
  return std::any_of(program.eqns.begin(), program.eqns.end(), [&](const Eqn& e) {
    if (e.prim->spec.product || (count_etp && is_mixing_etp(e))) return true;
    const std::vector<JaxprPtr> nested = nested_jaxprs(e);
    return std::any_of(nested.begin(), nested.end(),
                       [&](const JaxprPtr& body) { return holds_product(body->jaxpr, count_etp); });
  });
}

// Follows hidden values until one is multiplied. Derivatives follow rules of their own, where there are any:
// in these every product counts, and so it does in bodies of which nothing is known.
struct Hidden {
  bool is = false;
};
struct Products : DataflowRules<Hidden> {
  bool count_etp;
  bool found = false;

  explicit Products(bool etp) : count_etp(etp) {}
  static bool reached(Hidden v) { return v.is; }
  static bool join(Hidden& into, Hidden more) {
    return !std::exchange(into.is, into.is || more.is) && into.is;
  }
  bool done() const { return found; }
  std::vector<Hidden> step(const Eqn& eqn, const std::vector<Hidden>&) {
    found = eqn.prim->spec.product || (count_etp && is_mixing_etp(eqn)) ||
            (!nested_jaxprs(eqn).empty() && !is_etp(*eqn.prim));
    return std::vector<Hidden>(eqn.out.size(), Hidden{true});
  }
  void enter(const Eqn& eqn) {
    const std::vector<BodyUse> uses = bodies_of(eqn);
    for (const JaxprPtr& body : nested_jaxprs(eqn))
      if (std::none_of(uses.begin(), uses.end(), [&](const BodyUse& u) { return u.body == body; }))
        found = found || holds_product(body->jaxpr, count_etp);
  }
};

}  // namespace

bool body_mixes(const Eqn& eqn, const std::vector<bool>& hidden, bool count_etp) {
  Products rules(count_etp);
  Dataflow<Products> flow(rules);
  for (std::size_t i = 0; i < hidden.size(); ++i)
    if (const Var* v = as_var(eqn.in[i]); v != nullptr && hidden[i]) flow.set(*v, {true});
  flow.run(Jaxpr{{}, {}, {eqn}, {}});
  return rules.found;
}

}  // namespace etrace
