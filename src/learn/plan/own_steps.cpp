#include "learn/plan/own_steps.h"

#include <algorithm>

#include "compiler/program_index.h"
#include "etrace/etp.h"

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
        const bool shares = std::any_of(leaves.begin(), leaves.end(),
                                        [&](std::size_t i) { return out.leaves[i] == LeafWays::All; });
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

  // What the step adds to the factors is not ∂h/∂θ, or is counted for one group and again for another.
  bool factors_fall_short(const HiddenParamOpRelation& r) const {
    return r.hidden_groups.size() > 1 || feeds_untraced_group(r) ||
           std::any_of(r.tail_reasons.begin(), r.tail_reasons.end(),
                       [](const std::string& reason) { return !reason.empty(); });
  }
  // Does y act on a hidden state of a group for which the relation has no factors, and not through states of
  // its own group, whose signal counts that?
  bool feeds_untraced_group(const HiddenParamOpRelation& r) const {
    if (r.control_flow_context) return false;  // y is a value of the loop's body
    VarIds reached{r.y_var.id};
    for (const Eqn& eqn : g_.module_info.jaxpr().eqns) {
      const auto is_reached = [&](const Atom& a) {
        const Var* v = as_var(a);
        return v != nullptr && reached.contains(v->id);
      };
      if (is_mixing_etp(eqn) || std::none_of(eqn.in.begin(), eqn.in.end(), is_reached)) continue;
      for (const Var& v : eqn.out) {
        const HiddenGroup* group = group_with_exit(v);
        if (group == nullptr)
          reached.insert(v.id);
        else if (std::find(r.hidden_groups.begin(), r.hidden_groups.end(), group->index) ==
                 r.hidden_groups.end())
          return true;
      }
    }
    return false;
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
