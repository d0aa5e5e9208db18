// Lean programs: passes that keep every result to the last bit, repeated until none changes anything.
#include "etrace/simplify.h"
#include "control/inline.h"
#include "etrace/control.h"
#include "etrace/transform.h"
#include "simplify/loop_rules.h"
#include "simplify/split_products.h"
#include "transform/dead_code.h"

namespace etrace {

namespace {

using Pass = SimplifyPass;

// Programs shrink from round to round; what is left after this many is correct, if not the smallest.
constexpr int kMaxRounds = 32;

using InPlace = bool (*)(ClosedJaxpr&);

bool has_bodies(const Primitive& p) {
  return &p == &scan_p || &p == &while_p || &p == &cond_p || &p == &tape_while_p;
}

// What `pass` makes of the programs in a parameter; the same parameter if it changes none.
bool map_programs_in(Attr&, InPlace pass);

// A pass on the bodies of loops and branches first, the inner ones before the outer, then on the whole.
bool everywhere(ClosedJaxpr& closed, InPlace pass) {
  bool changed = false;
  for (Eqn& eqn : closed.jaxpr.eqns) {
    if (!has_bodies(*eqn.prim)) continue;
    Attr::Dict items = eqn.params.items();
    bool own = false;
    for (auto& item : items) own = map_programs_in(item.second, pass) || own;
    if (own) eqn.params = Params(std::move(items));
    changed = changed || own;
  }
  return pass(closed) || changed;
}

bool map_programs_in(Attr& attr, InPlace pass) {
  if (const JaxprPtr* program = attr.jaxpr()) {
    ClosedJaxpr body = **program;
    if (!everywhere(body, pass)) return false;
    attr = share(std::move(body));
    return true;
  }
  if (attr.list_items() == nullptr) return false;
  Attr::List items = *attr.list_items();
  bool changed = false;
  for (Attr& item : items) changed = map_programs_in(item, pass) || changed;
  if (changed) attr = Attr::list(std::move(items));
  return changed;
}

bool inline_all(LeanJaxpr& lean) {
  ClosedJaxpr& c = lean.passed();
  if (!has_calls(c.jaxpr, Calls::All)) return false;
  c = inline_calls(c, Calls::All);
  return true;
}
bool rewrite_all(LeanJaxpr& lean) {
  return everywhere(
      lean.passed(),
      +[](ClosedJaxpr& p) { return rewrite(p, {.rules = &canonical_rules(), .fold_up_to = kFoldUpTo}); });
}
bool simplify_loops(LeanJaxpr& lean) {
  return everywhere(
      lean.passed(), +[](ClosedJaxpr& p) { return rewrite(p, {.rules = &loop_rules()}); });
}
bool prune_all(LeanJaxpr& lean) { return everywhere(lean.passed(), drop_dead_code); }
bool split_all(LeanJaxpr& lean) { return everywhere(lean.passed(), split_products); }

constexpr Pass kPasses[] = {
    {"inline", "calls become the equations of what they call", inline_all},
    {"rewrite",
     "one form for each movement of data, identities dropped, what is known evaluated, equal equations and "
     "constants merged",
     rewrite_all},
    {"loops",
     "what never changes is a constant of the body, computed before the loop; what is known outside is not "
     "handed out",
     simplify_loops},
    {"prune", "equations, results and carries that nobody reads go", prune_all},
    {"products",
     "a product with a concatenation becomes products with its parts; those with a step's data leave the "
     "loop",
     split_all},
};

}  // namespace

std::span<const SimplifyPass> simplify_passes() { return kPasses; }

LeanJaxpr simplify(ClosedJaxpr closed) {
  LeanJaxpr result(std::move(closed));
  bool changed = true;
  for (int round = 0; round < kMaxRounds && changed; ++round) {
    changed = false;
    for (const Pass& pass : kPasses) changed = pass.run(result) || changed;
#ifndef NDEBUG
    check(result.to_run());
#endif
  }
  return result;
}

}  // namespace etrace
