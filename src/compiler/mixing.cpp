// Products inside bodies: followed from the operands that carry hidden values; see the header.
#include "compiler/mixing.h"

#include <algorithm>

#include "compiler/program_index.h"
#include "etrace/control.h"
#include "etrace/ops/linalg.h"
#include "ops/dot_dims.h"

namespace etrace {

bool is_plain_product(const Eqn& eqn) {
  return eqn.prim == &dot_general_p || eqn.prim == &conv_general_dilated_p;
}

bool sums_fully(const Eqn& eqn) {
  if (eqn.prim == &dot_general_p) {
    const Shape& x = aval_of(eqn.in[0]).shape;
    std::int64_t summed = 1;
    for (const std::int64_t axis : dot_dims(eqn.params).lhs_contract)
      summed *= x[static_cast<std::size_t>(axis)];
    return summed > 1;
  }
  static const Primitive* const full[] = {&etp_mm_p,  &etp_mv_p,      &etp_gmm_p,
                                          &etp_gmv_p, &etp_lora_mm_p, &etp_lora_mv_p};
  return std::find(std::begin(full), std::end(full), eqn.prim) != std::end(full) &&
         nested_jaxprs(eqn).empty() && aval_of(eqn.in[0]).shape.back() > 1;
}

namespace {

bool program_mixes(const Jaxpr& body, VarIds reached, bool count_etp) {
  for (const Eqn& eqn : body.eqns) {
    std::vector<bool> hidden;
    bool any = false;
    for (const Atom& a : eqn.in) {
      hidden.push_back(as_var(a) != nullptr && reached.contains(as_var(a)->id));
      any = any || hidden.back();
    }
    if (!any) continue;
    if (is_plain_product(eqn) || (count_etp && is_mixing_etp(eqn))) return true;
    if (!nested_jaxprs(eqn).empty() && !is_etp(*eqn.prim) && body_mixes(eqn, hidden, count_etp)) return true;
    for (const Var& v : eqn.out) reached.insert(v.id);
  }
  return false;
}

}  // namespace

// Input positions of each body that the given operand positions feed.
bool body_mixes(const Eqn& eqn, const std::vector<bool>& hidden, bool count_etp) {
  auto seeds = [&](const Jaxpr& body, std::size_t skip, std::size_t drop_until) {
    VarIds ids;
    for (std::size_t i = drop_until; i < hidden.size(); ++i)
      if (hidden[i] && i >= skip && i - skip < body.invars.size()) ids.insert(body.invars[i - skip].id);
    return ids;
  };
  // A loop's carry feeds itself: once reached at the end it is hidden at the start.
  auto loop_mixes = [&](const Jaxpr& body, VarIds ids, std::size_t first_carry, std::size_t num_carry) {
    for (;;) {
      if (program_mixes(body, ids, count_etp)) return true;
      VarIds all = ids;
      for (const Eqn& e : body.eqns)
        for (const Atom& a : e.in)
          if (const Var* v = as_var(a); v != nullptr && all.contains(v->id)) {
            for (const Var& o : e.out) all.insert(o.id);
            break;
          }
      const std::size_t before = ids.size();
      for (std::size_t i = 0; i < num_carry; ++i)
        if (const Var* v = as_var(body.outs[i]); v != nullptr && all.contains(v->id))
          ids.insert(body.invars[first_carry + i].id);
      if (ids.size() == before) return false;
    }
  };
  if (eqn.prim == &while_p) {
    const auto nc = static_cast<std::size_t>(eqn.params.integer("cond_nconsts")),
               nb = static_cast<std::size_t>(eqn.params.integer("body_nconsts"));
    const Jaxpr& body = eqn.params.jaxpr("body_jaxpr")->jaxpr;
    return loop_mixes(body, seeds(body, nc, nc), nb, body.outs.size());
  }
  if (eqn.prim == &scan_p) {
    const Jaxpr& body = eqn.params.jaxpr("jaxpr")->jaxpr;
    const auto nc = static_cast<std::size_t>(eqn.params.integer("num_consts")),
               nk = static_cast<std::size_t>(eqn.params.integer("num_carry"));
    return loop_mixes(body, seeds(body, 0, 0), nc, nk);
  }
  if (eqn.prim == &cond_p) {
    for (const JaxprPtr& branch : eqn.params.jaxprs("branches"))
      if (program_mixes(branch->jaxpr, seeds(branch->jaxpr, 1, 1), count_etp)) return true;
    return false;
  }
  for (const JaxprPtr& body : nested_jaxprs(eqn)) {
    if (body->jaxpr.invars.size() != eqn.in.size()) return true;  // its inputs are not ours: nothing is known
    if (program_mixes(body->jaxpr, seeds(body->jaxpr, 0, 0), count_etp)) return true;
  }
  return false;
}

}  // namespace etrace
