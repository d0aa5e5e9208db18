// What theory says about the gradient of a rule on a graph.
//
// A trace follows dh/dθ exactly if the influence of a parameter stays where the trace can see it:
//   - it enters through relations alone, on tails that preserve positions, not through a second weight;
//   - from step to step it stays in one group, at its position, and passes no product that the scope cuts;
//   - the result reads the states as they are after the step (single-step mode only).
// Whatever does not hold is a reason. Influence is followed through the equations of one step: an equation
// passes it from every operand to every floating result, so a gradient that is called approximate may be
// better than that, but one that is called exact must be.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "compiler/program_index.h"
#include "etrace/ops/elementwise.h"
#include "etrace/verify.h"
#include "learn/interface.h"

namespace etrace {

std::string_view name(Expectation e) {
  switch (e) {
    case Expectation::Exact:
      return "exact";
    case Expectation::Approximate:
      return "approximate";
    default:
      return "no statement";
  }
}

namespace {

// How influence came to a value; bits.
constexpr unsigned kDirect = 1, kThroughWeight = 2;  // by a trainable product on the way
using Reach = std::unordered_map<std::uint64_t, unsigned>;

unsigned at(const Reach& reach, const Atom& a) {
  const Var* v = as_var(a);
  const auto it = v == nullptr ? reach.end() : reach.find(v->id);
  return it == reach.end() ? 0 : it->second;
}

struct StateInfo {
  StatePath path;
  Var entry;
  Atom exit;
  const HiddenGroup* group;  // null: carried, but no hidden state
};

class Theory {
 public:
  Theory(const ETraceGraph& graph, const LearningRule& rule)
      : g_(graph), rule_(rule), program_(graph.module_info.jaxpr()) {
    const Model& model = g_.module_info.model;
    for (std::size_t i = 0; i < model.inputs.size(); ++i) {
      if (!is_state(model.inputs[i].role) || !is_floating(program_.invars[i].aval.dtype)) continue;
      for (std::size_t o = 0; o < model.outputs.size(); ++o)
        if (is_state(model.outputs[o].role) && model.outputs[o].path == model.inputs[i].path &&
            model.outputs[o].leaf == model.inputs[i].leaf)
          states_.push_back({model.inputs[i].path, program_.invars[i], program_.outs[o],
                             g_.hid_path_to_group(model.inputs[i].path)});
    }
    for (std::size_t o = 0; o < model.outputs.size(); ++o)
      if (model.outputs[o].role == Role::Out && is_floating(aval_of(program_.outs[o]).dtype))
        results_.push_back(program_.outs[o]);
    const std::unique_ptr<const BoundRule> bound = rule_.bind(g_);
    Arrays params;
    for (const ParamLeaf& l : param_leaves(g_.module_info))
      params.push_back(zeros_of(program_.invars[l.input].aval));
    traces_ = bound->traces(params, bound->initial(0));
    for (const StateInfo& s : states_) {
      const Var* v = as_var(s.exit);
      if (s.group != nullptr && v != nullptr) hidden_exits_.insert(v->id);
    }
  }

  LeafExpectation operator()(const ParamLeaf& leaf) const {
    if (g_.options.compat == Compat::Braintrace)
      return both(Expectation::NoStatement, "compat reproduces another system, with its deviations");
    const Uses uses = uses_of(leaf);
    const std::vector<std::size_t> outside = states_in(uses.outside);
    if (uses.relations.empty() && uses.composites.empty())
      return outside.empty() ? both(Expectation::Exact, "acts at its own step only: no state depends on it")
                             : untraced();
    for (const HiddenParamOpRelation* r : uses.relations)
      if (r->control_flow_context)
        return both(Expectation::NoStatement, "acts inside a loop that is traced inside");
    std::vector<std::string> reasons;
    if (!outside.empty())
      note(reasons, fmt::format("part of its influence reaches {} outside of its relations", names(outside)));
    std::vector<std::size_t> passed;  // states that it reaches without a trace there
    const std::vector<std::size_t> carriers = follow(uses, passed, reasons);
    const std::size_t edges = judge_transitions(uses, carriers, passed, reasons);
    if (!passed.empty())
      note(reasons, fmt::format("passes on to {}, where no trace of it is kept", names(passed)));
    judge_rule(leaf, edges, reasons);
    std::vector<std::string> single = reasons;
    judge_results(carriers, single);
    return {conclusion(uses, single), conclusion(uses, reasons)};
  }

 private:
  // The relations of a leaf, and what it reaches besides them.
  struct Uses {
    std::vector<const HiddenParamOpRelation*> relations, composites;
    Reach outside;
    bool traced_in(const HiddenGroup& group) const {
      const auto there = [&](const HiddenParamOpRelation* r) { return traces(*r, group); };
      return std::any_of(relations.begin(), relations.end(), there) ||
             std::any_of(composites.begin(), composites.end(), there);
    }
    // Is there a trace of what one operator gives to a group, directly or through others?
    static bool traced(const std::vector<const HiddenParamOpRelation*>& list, const HiddenParamOpRelation& of,
                       const HiddenGroup& group) {
      return std::any_of(list.begin(), list.end(), [&](const HiddenParamOpRelation* r) {
        return r->eqn_id == of.eqn_id && traces(*r, group);
      });
    }
  };

  static ExpectedGradient statement(Expectation e, const std::vector<std::string>& reasons) {
    return {e, fmt::format("{}", fmt::join(reasons, "; ")), reasons};
  }
  static LeafExpectation both(Expectation e, const std::string& why) {
    return {statement(e, {why}), statement(e, {why})};
  }
  static LeafExpectation untraced() {
    return {
        statement(Expectation::Approximate,
                  {"outside every relation: gets the gradient of its own step only"}),
        statement(Expectation::Approximate, {"outside every relation: credit ends where a window begins"})};
  }
  static void note(std::vector<std::string>& reasons, std::string reason) {
    if (std::find(reasons.begin(), reasons.end(), reason) == reasons.end())
      reasons.push_back(std::move(reason));
  }
  std::string text(std::size_t s) const { return to_string(states_[s].path); }
  std::string names(std::vector<std::size_t> states) const {
    std::sort(states.begin(), states.end());
    states.erase(std::unique(states.begin(), states.end()), states.end());
    std::vector<std::string> out;
    for (const std::size_t s : states) out.push_back(text(s));
    return short_list(out, 4);
  }

  ExpectedGradient conclusion(const Uses& uses, const std::vector<std::string>& reasons) const {
    if (!reasons.empty()) return statement(Expectation::Approximate, reasons);
    const LearningRule::Theory theory = rule_.theory(true);
    if (theory.statement == LearningRule::Theory::Unknown)
      return statement(Expectation::NoStatement, {theory.reason});
    return statement(Expectation::Exact,
                     {fmt::format("position-diagonal transition, {}, and all credit stays in its group",
                                  uses.composites.empty() ? "element-wise tail" : "a trace of every state")});
  }
  // Influence of some values on every other of the step.
  Reach spread(Reach reach, bool stop_at_hidden = false) const {
    if (stop_at_hidden)
      for (const std::uint64_t id : hidden_exits_) reach.erase(id);
    for (const Eqn& eqn : program_.eqns) pass(eqn, operands_reach(eqn, reach, {}), reach, stop_at_hidden);
    return reach;
  }
  static unsigned operands_reach(const Eqn& eqn, const Reach& reach, const std::vector<std::size_t>& skip) {
    unsigned bits = 0;
    for (std::size_t i = 0; i < eqn.in.size(); ++i)
      if (std::find(skip.begin(), skip.end(), i) == skip.end()) bits |= at(reach, eqn.in[i]);
    return bits;
  }
  void pass(const Eqn& eqn, unsigned bits, Reach& reach, bool stop_at_hidden) const {
    if (bits == 0 || eqn.prim == &stop_gradient_p) return;
    if (is_mixing_etp(eqn)) bits = kThroughWeight;
    for (const Var& v : eqn.out)
      if (is_floating(v.aval.dtype) && !(stop_at_hidden && hidden_exits_.contains(v.id))) reach[v.id] |= bits;
  }

  std::vector<std::size_t> states_in(const Reach& reach) const {
    std::vector<std::size_t> out;
    for (std::size_t s = 0; s < states_.size(); ++s)
      if (at(reach, states_[s].exit) != 0) out.push_back(s);
    return out;
  }

  static bool holds(const TrainableSource& t, const ParamLeaf& leaf) {
    return std::find(t.leaves.begin(), t.leaves.end(), std::pair(leaf.path, leaf.leaf)) != t.leaves.end();
  }

  Uses uses_of(const ParamLeaf& leaf) const {
    Uses uses;
    std::unordered_map<std::uint64_t, std::vector<std::size_t>> own;  // equation -> operands of this leaf
    const auto add = [&](const std::vector<HiddenParamOpRelation>& all,
                         std::vector<const HiddenParamOpRelation*>& used) {
      for (const HiddenParamOpRelation& r : all) {
        std::vector<std::size_t> operands;
        for (const TrainableSource& t : r.trainables)
          if (holds(t, leaf)) operands.push_back(t.operand);
        if (operands.empty()) continue;
        used.push_back(&r);
        own[r.eqn_id] = operands;
      }
    };
    add(g_.hidden_param_op_relations, uses.relations);
    add(g_.composite_relations, uses.composites);
    uses.outside[program_.invars[leaf.input].id] = kDirect;
    for (const Eqn& eqn : program_.eqns) {
      const auto it = own.find(eqn.id);
      const std::vector<std::size_t> skip = it == own.end() ? std::vector<std::size_t>{} : it->second;
      pass(eqn, operands_reach(eqn, uses.outside, skip), uses.outside, false);
    }
    return uses;
  }

  static bool traces(const HiddenParamOpRelation& r, const HiddenGroup& group) {
    return std::find(r.hidden_groups.begin(), r.hidden_groups.end(), group.index) != r.hidden_groups.end();
  }

  static void judge_tails(const HiddenParamOpRelation& r, std::vector<std::string>& reasons) {
    for (std::size_t k = 0; k < r.tail_reasons.size(); ++k)
      if (!r.tail_reasons[k].empty())
        note(reasons, fmt::format("the tail into group {} does not preserve positions ({})",
                                  r.hidden_groups[k], r.tail_reasons[k]));
  }

  // A composite relation has traces of all states that it reaches, but for what a state of one group hands on
  // to another.
  void follow_chains(const Uses& uses, const HiddenParamOpRelation& r, std::vector<bool>& reached,
                     std::vector<std::size_t>& passed, std::vector<std::string>& reasons) const {
    judge_tails(r, reasons);
    for (const std::size_t s : states_in(spread({{r.y_var.id, kDirect}}))) {
      reached[s] = true;
      if (states_[s].group == nullptr) continue;
      const HiddenGroup& group = *states_[s].group;
      if (!traces(r, group) && !Uses::traced(uses.relations, r, group)) passed.push_back(s);
      const Var* exit = as_var(states_[s].exit);
      if (exit == nullptr) continue;
      for (const std::size_t next : states_in(spread({{exit->id, kDirect}})))
        if (states_[next].group != nullptr && states_[next].group != states_[s].group)
          note(reasons, fmt::format("{} hands it on to {} within a step, and that part has no trace", text(s),
                                    text(next)));
    }
  }

  // From the operators to the states of the same step, and on from step to step: all states that come to
  // depend on the parameter.
  std::vector<std::size_t> follow(const Uses& uses, std::vector<std::size_t>& passed,
                                  std::vector<std::string>& reasons) const {
    std::vector<bool> reached(states_.size(), false);
    for (const std::size_t s : states_in(uses.outside)) reached[s] = true;
    for (const HiddenParamOpRelation* r : uses.composites) follow_chains(uses, *r, reached, passed, reasons);
    for (const HiddenParamOpRelation* r : uses.relations) {
      judge_tails(*r, reasons);
      const Reach reach = spread({{r->y_var.id, kDirect}});
      for (const std::size_t s : states_in(reach)) {
        reached[s] = true;
        if (states_[s].group == nullptr) continue;  // matters only if something reads it: judge_transitions
        if (Uses::traced(uses.composites, *r, *states_[s].group)) continue;
        if (!traces(*r, *states_[s].group))
          passed.push_back(s);
        else if ((at(reach, states_[s].exit) & kThroughWeight) != 0)
          note(reasons,
               fmt::format("reaches {} through another weight as well, and that part has no trace", text(s)));
      }
    }
    std::vector<std::size_t> out;
    for (std::size_t s = 0; s < reached.size(); ++s)
      if (reached[s]) out.push_back(s);
    for (std::size_t i = 0; i < out.size(); ++i)
      for (const std::size_t next : states_in(spread({{states_[out[i]].entry.id, kDirect}})))
        if (!reached[next]) {
          reached[next] = true;
          out.push_back(next);
        }
    return out;
  }

  // Every way from a state at t-1 to a state at t must lie in the transition of one group that has a trace of
  // the parameter. What lies behind a state without one is lost already. How many ways there are.
  std::size_t judge_transitions(const Uses& uses, const std::vector<std::size_t>& carriers,
                                std::vector<std::size_t>& passed, std::vector<std::string>& reasons) const {
    std::size_t count = 0;
    for (const std::size_t from : carriers) {
      const StateInfo& a = states_[from];
      const Reach reach = spread({{a.entry.id, kDirect}});
      const bool read =
          std::any_of(results_.begin(), results_.end(), [&](const Atom& r) { return at(reach, r) != 0; });
      const std::vector<std::size_t> next = states_in(reach);
      count += next.size();
      if (a.group == nullptr) {
        if (read || !next.empty())
          note(reasons, fmt::format("{} carries it from step to step but is no hidden state", text(from)));
        continue;
      }
      if (!uses.traced_in(*a.group)) continue;
      for (const std::size_t to : next) {
        if (states_[to].group == a.group)
          judge_group(*a.group, reasons);
        else if (states_[to].group != nullptr)
          passed.push_back(to);
      }
      judge_dropped(a, reasons);
    }
    return count;
  }

  // What the scope has cut out of the group's transition.
  void judge_dropped(const StateInfo& from, std::vector<std::string>& reasons) const {
    std::vector<const DroppedWay*> ways;
    for (const DroppedWay& way : from.group->dropped)
      if (std::find(way.from.begin(), way.from.end(), from.path) != way.from.end()) ways.push_back(&way);
    if (!ways.empty())
      note(reasons, fmt::format("{} comes back through {}, which scope {} leaves out", to_string(from.path),
                                operators_text(ways, 4), scope_name(g_.options)));
  }

  static void judge_group(const HiddenGroup& group, std::vector<std::string>& reasons) {
    if (group.is_diagonal_recurrence) return;
    const std::string why = group.mixing_reason.empty() ? "" : " (" + group.mixing_reason + ")";
    if (!group.snap)
      note(reasons, fmt::format("positions of group {} depend on each other{}", group.index, why));
    else if (!is_closed(*group.snap))
      note(reasons, fmt::format("SnAp-{} keeps {} of the positions that depend on each one of group {}",
                                group.snap->n, group.snap->num_neighbour(), group.index));
  }
  // Does nothing that is kept act on something that is not?
  static bool is_closed(const PositionPattern& p) {
    for (std::size_t i = 0; i < p.neighbours.size(); ++i)
      for (const std::int64_t j : p.neighbours[i])
        for (const std::int64_t k : p.neighbours[static_cast<std::size_t>(j)])
          if (std::find(p.neighbours[i].begin(), p.neighbours[i].end(), k) == p.neighbours[i].end())
            return false;
    return true;
  }

  void judge_rule(const ParamLeaf& leaf, std::size_t edges, std::vector<std::string>& reasons) const {
    const LearningRule::Theory theory = rule_.theory(edges > 0);
    if (theory.statement == LearningRule::Theory::Approximate) note(reasons, theory.reason);
    for (const EligibilityTrace& t : traces_)
      if (std::find(t.params.begin(), t.params.end(), leaf.path) != t.params.end() &&
          size_of(t.value.dtype()) < size_of(working_dtype(g_)))
        note(reasons, fmt::format("its trace is kept in {}", name(t.value.dtype())));
  }

  void judge_results(const std::vector<std::size_t>& carriers, std::vector<std::string>& reasons) const {
    for (const std::size_t s : carriers) {
      const Reach reach = spread({{states_[s].entry.id, kDirect}}, true);
      for (const Atom& r : results_)
        if (at(reach, r) != 0)
          note(reasons, fmt::format("the result reads {} as it was before the step", text(s)));
    }
  }

  const ETraceGraph& g_;
  const LearningRule& rule_;
  const Jaxpr& program_;
  std::vector<StateInfo> states_;  // floating ones
  std::vector<Atom> results_;      // floating ones
  std::unordered_set<std::uint64_t> hidden_exits_;
  std::vector<EligibilityTrace> traces_;  // for their types
};

}  // namespace

std::vector<LeafExpectation> expected_gradients(const ETraceGraph& graph, const LearningRule& rule) {
  const Theory theory(graph, rule);
  std::vector<LeafExpectation> out;
  for (const ParamLeaf& leaf : param_leaves(graph.module_info)) out.push_back(theory(leaf));
  return out;
}

}  // namespace etrace
