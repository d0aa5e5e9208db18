#include "learn/plan/own_steps.h"

#include <algorithm>
#include <unordered_map>

#include "compiler/program_index.h"
#include "etrace/etp.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

namespace {

using Place = OwnSteps::Place;
using LeafWays = OwnSteps::LeafWays;

class Finder {
 public:
  explicit Finder(const ETraceGraph& g) : g_(g), leaves_(param_leaves(g.module_info)) {}

  OwnSteps by_reference_formula() const { return all_by(Place::Signal, LeafWays::None); }

  OwnSteps by_reverse_mode() const {
    OwnSteps out = all_by(Place::Leaf, LeafWays::All);
    for (std::size_t r = 0; r < out.relations.size(); ++r)
      if (fits_the_pass(g_.hidden_param_op_relations[r])) out.relations[r] = Place::Cotangent;
    return out;
  }

  OwnSteps by_signal() const {
    OwnSteps out = all_by(Place::Signal, LeafWays::All);
    for (const HiddenParamOpRelation* r : g_.all_relations())
      for (const std::size_t i : leaves_of(*r)) out.leaves[i] = LeafWays::PastStates;
    return out;
  }

  // A leaf has its own step from one place, and so have all relations that share it.
  OwnSteps by_factors() const {
    OwnSteps out = by_signal();
    for (bool more = true; more;) {
      more = false;
      for (std::size_t r = 0; r < out.relations.size(); ++r) {
        const HiddenParamOpRelation& relation = g_.hidden_param_op_relations[r];
        const std::vector<std::size_t> leaves = leaves_of(relation);
        const bool shares = std::any_of(leaves.begin(), leaves.end(), [&](std::size_t i) {
          return out.leaves[i] == LeafWays::All || acts_beside_relations(i);
        });
        if (out.relations[r] == Place::Leaf || !(shares || factors_fall_short(relation))) continue;
        out.relations[r] = Place::Leaf;
        for (const std::size_t i : leaves) out.leaves[i] = LeafWays::All;
        more = true;
      }
    }
    return out;
  }

 private:
  OwnSteps all_by(Place place, LeafWays ways) const {
    return {std::vector(g_.hidden_param_op_relations.size(), place),
            std::vector(g_.composite_relations.size(), place), std::vector(leaves_.size(), ways)};
  }

  std::vector<std::size_t> leaves_of(const HiddenParamOpRelation& r) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < leaves_.size(); ++i)
      for (const TrainableSource& t : r.trainables)
        for (const auto& [path, leaf] : t.leaves)
          if (path == leaves_[i].path && leaf == leaves_[i].leaf) out.push_back(i);
    return out;
  }

  // A pass takes one cotangent per position of the trace, in the step's own program: not where the tail
  // spreads y over the samples, and not inside a loop that is traced inside.
  bool fits_the_pass(const HiddenParamOpRelation& r) const {
    const HiddenGroup& group = g_.hidden_groups[r.hidden_groups.front()];
    return !r.control_flow_context && r.y_var.aval.shape.size() == group.varshape().size() &&
           single_result(r);
  }
  bool single_result(const HiddenParamOpRelation& r) const {
    for (const Eqn& eqn : g_.module_info.jaxpr().eqns)
      if (eqn.id == r.eqn_id) return eqn.out.size() == 1;
    return false;
  }

  // What the step adds to the factors is not all of ∂h/∂y, or is counted for one group and again for another.
  bool factors_fall_short(const HiddenParamOpRelation& r) const {
    return r.hidden_groups.size() > 1 || leaves_the_tail(r) ||
           std::any_of(r.tail_reasons.begin(), r.tail_reasons.end(),
                       [](const std::string& reason) { return !reason.empty(); });
  }

  // Ways on which y acts on a value, as bits. The factors follow y to the states of the relation's group,
  // past its other states, but not across an operator; the signal to a state counts what that state does to
  // others, but not to those of its own group.
  enum Way : unsigned { Tail = 1, Across = 2, PastState = 4, PastStateAcross = 8 };

  // Does y act on a hidden state by a way that neither follows?
  bool leaves_the_tail(const HiddenParamOpRelation& r) const {
    if (r.control_flow_context) return false;  // y is a value of the loop's body
    std::unordered_map<std::uint64_t, unsigned> ways{{r.y_var.id, Tail}};
    for (const Eqn& eqn : g_.module_info.jaxpr().eqns) {
      unsigned in = 0;
      for (const Atom& a : eqn.in)
        if (const auto it = as_var(a) == nullptr ? ways.end() : ways.find(as_var(a)->id); it != ways.end())
          in |= it->second;
      if (in == 0 || eqn.prim == &stop_gradient_p) continue;
      if (is_mixing_etp(eqn))
        in = ((in & (Tail | Across)) != 0 ? Across : 0U) |
             ((in & (PastState | PastStateAcross)) != 0 ? PastStateAcross : 0U);
      for (const Var& v : eqn.out) {
        if (!is_floating(v.aval.dtype)) continue;
        ways[v.id] = in;
        const HiddenGroup* group = group_with_exit(v);
        if (group == nullptr) continue;
        const bool own =
            std::find(r.hidden_groups.begin(), r.hidden_groups.end(), group->index) != r.hidden_groups.end();
        if ((in & (own ? Across | PastStateAcross : Tail | Across)) != 0) return true;
        ways[v.id] = (in & PastStateAcross) | PastState;
      }
    }
    return false;
  }

  // Does a parameter act on a hidden state beside the relations, by a use that has none or by another operand
  // of an operator?
  bool acts_beside_relations(std::size_t leaf) const {
    VarIds reached{g_.module_info.jaxpr().invars[leaves_[leaf].input].id};
    for (const Eqn& eqn : g_.module_info.jaxpr().eqns) {
      const HiddenParamOpRelation* relation = relation_of(eqn);
      bool beside = false, inside = false;
      for (std::size_t k = 0; k < eqn.in.size(); ++k)
        if (const Var* v = as_var(eqn.in[k]); v != nullptr && reached.contains(v->id))
          (relation != nullptr && trains(*relation, k, leaf) ? inside : beside) = true;
      if ((!beside && !inside) || eqn.prim == &stop_gradient_p) continue;
      for (std::size_t k = beside ? 0 : 1; k < eqn.out.size(); ++k) {  // a relation has the first result
        if (!is_floating(eqn.out[k].aval.dtype)) continue;
        if (group_with_exit(eqn.out[k]) != nullptr) return true;
        reached.insert(eqn.out[k].id);
      }
    }
    return false;
  }
  const HiddenParamOpRelation* relation_of(const Eqn& eqn) const {
    for (const HiddenParamOpRelation& r : g_.hidden_param_op_relations)
      if (r.eqn_id == eqn.id) return &r;
    return nullptr;
  }
  bool trains(const HiddenParamOpRelation& r, std::size_t operand, std::size_t leaf) const {
    return std::any_of(r.trainables.begin(), r.trainables.end(), [&](const TrainableSource& t) {
      return t.operand == operand && std::any_of(t.leaves.begin(), t.leaves.end(), [&](const auto& l) {
               return l.first == leaves_[leaf].path && l.second == leaves_[leaf].leaf;
             });
    });
  }
  const HiddenGroup* group_with_exit(const Var& v) const {
    for (const HiddenGroup& group : g_.hidden_groups)
      if (std::find(group.hidden_outvars.begin(), group.hidden_outvars.end(), v) !=
          group.hidden_outvars.end())
        return &group;
    return nullptr;
  }

  const ETraceGraph& g_;
  std::vector<ParamLeaf> leaves_;
};

}  // namespace

OwnSteps own_steps(const ETraceGraph& g, OwnStep by) {
  const Finder find(g);
  if (g.options.compat == Compat::Braintrace) return find.by_reference_formula();
  switch (by) {
    case OwnStep::ReverseMode:
      return find.by_reverse_mode();
    case OwnStep::Factors:
      return find.by_factors();
    case OwnStep::Signal:
      break;
  }
  return find.by_signal();
}

}  // namespace etrace
