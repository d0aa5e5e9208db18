// What theory says about the gradient of a rule on a graph.
//
// The own step of a parameter is reverse mode, so an error can only come from the past: from what a trace
// says of a state that matters later, because a result or a state that matters reads it at the next step (a
// live one). A trace follows dh/dθ of such states exactly if the influence of the parameter stays where the
// trace can see it:
//   - it enters through relations alone, on tails that preserve positions, not through a second weight;
//   - from step to step it stays in one group, at its position, and passes no product that the scope cuts.
// Single steps use the group's transition for the current step as well, so there the second holds for states
// that the result of the same step reads, too. Whatever does not hold is a reason. Influence is followed
// through the equations of one step: an equation passes it from every operand to every floating result, so a
// gradient that is called approximate may be better than that, but one that is called exact must be.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "compiler/position_graph.h"
#include "compiler/program_index.h"
#include "etrace/config.h"
#include "etrace/ops/elementwise.h"
#include "etrace/verify.h"
#include "io/step_outputs.h"
#include "learn/interface.h"
#include "learn/own_steps.h"

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
  const HiddenGroup* group;              // null: carried, but no hidden state
  std::vector<std::size_t> next = {};    // states whose new value depends on the old one of this
  std::vector<std::size_t> beside = {};  // of these, in other groups and not through a new state of its own
  bool shown = false;                    // a result depends on its new value
  bool live = false;                     // a result, of this step or a later one, depends on its old value
};

enum class Mode : std::uint8_t { SingleSteps, Windows };

class Theory {
 public:
  Theory(const ETraceGraph& graph, const LearningRule& rule)
      : g_(graph), rule_(rule), program_(graph.module_info.jaxpr()) {
    const Model& model = g_.module_info.model;
    const std::vector<std::optional<std::size_t>> renewed = state_outputs(model);
    std::size_t next_state = 0;
    for (std::size_t i = 0; i < model.inputs.size(); ++i) {
      if (!is_state(model.inputs[i].role)) continue;
      const std::optional<std::size_t> o = renewed[next_state++];
      if (!is_floating(program_.invars[i].aval.dtype)) continue;
      states_.push_back({model.inputs[i].path, program_.invars[i],
                         o ? program_.outs[*o] : Atom(program_.invars[i]),
                         g_.hid_path_to_group(model.inputs[i].path)});
    }
    for (const std::size_t o : result_outputs(model))
      if (is_floating(aval_of(program_.outs[o]).dtype)) results_.push_back(program_.outs[o]);
    const std::unique_ptr<const BoundRule> bound = rule_.bind(g_);
    own_step_ = bound->own_step();
    own_ = own_steps(g_, own_step_);
    Arrays params;
    for (const ParamLeaf& l : param_leaves(g_.module_info))
      params.push_back(zeros_of(program_.invars[l.input].aval));
    traces_ = bound->traces(params, bound->initial(0));
    estimates_ = starts_with_estimates(*bound);
    follow_states();
  }

  LeafExpectation operator()(std::size_t index, const ParamLeaf& leaf) const {
    if (g_.options.compat == Compat::Braintrace)
      return both(Expectation::NoStatement, "compat reproduces another system, with its deviations");
    const Uses uses = uses_of(leaf);
    const std::vector<std::size_t> reached = reached_by(uses);
    const bool past =
        std::any_of(reached.begin(), reached.end(), [&](std::size_t s) { return states_[s].live; });
    if (uses.relations.empty() && uses.composites.empty()) {
      if (past || (estimates_ && !reached.empty())) return untraced();
      return both(Expectation::Exact,
                  reached.empty() ? "acts at its own step only: no state depends on it" : kOwnStepOnly);
    }
    for (const HiddenParamOpRelation* r : uses.relations)
      if (r->control_flow_context)
        return both(Expectation::NoStatement, "acts inside a loop that is traced inside");
    return {judged(index, leaf, uses, reached, past, Mode::SingleSteps),
            judged(index, leaf, uses, reached, past, Mode::Windows)};
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

  ExpectedGradient judged(std::size_t index, const ParamLeaf& leaf, const Uses& uses,
                          const std::vector<std::size_t>& reached, bool past, Mode mode) const {
    std::vector<std::string> reasons;
    std::vector<std::size_t> passed;  // states that it reaches without a trace there
    judge_entries(uses, passed, reasons);
    const bool carried = judge_transitions(uses, reached, mode, passed, reasons);
    if (!passed.empty())
      note(reasons, fmt::format("passes on to {}, where no trace of it is kept", names(passed)));
    if (mode == Mode::SingleSteps) judge_own_step(index, uses, reasons);
    const LearningRule::Theory theory = rule_.theory(carried);
    if (theory.statement == LearningRule::Theory::Unknown && reasons.empty())
      return statement(Expectation::NoStatement, {theory.reason});
    if (reasons.empty() && nothing_is_met(index, uses, reached, past, mode))
      return statement(Expectation::Exact, {kOwnStepOnly});
    if (theory.statement == LearningRule::Theory::Approximate) note(reasons, theory.reason);
    if (past) judge_types(leaf, reasons);
    if (!reasons.empty()) return statement(Expectation::Approximate, reasons);
    return statement(
        Expectation::Exact,
        {past ? fmt::format("position-diagonal transition, {}, and all credit stays in its group",
                            uses.composites.empty() ? "element-wise tail" : "a trace of every state")
              : kOwnStepOnly});
  }

  // Do signals meet nothing but zeros where the parameter has a past, whatever the rule makes of its traces?
  bool nothing_is_met(std::size_t index, const Uses& uses, const std::vector<std::size_t>& reached, bool past,
                      Mode mode) const {
    if (estimates_) return false;
    const ETraceConfig* config = rule_.config();
    const bool whole = own_step_ != OwnStep::Signal && own_.leaves[index] == OwnSteps::LeafWays::All;
    const auto is_traced = [&](const StateInfo& s) { return s.group != nullptr && uses.traced_in(*s.group); };
    // A factor may be shared by all states of a group.
    const bool by_state =
        config != nullptr && config->axes().trace_factorization != TraceFactorization::RandomProjection;
    for (std::size_t s = 0; s < states_.size() && !by_state; ++s)
      if (is_traced(states_[s]) && (whole ? states_[s].live : matters(s, mode))) return false;
    if (std::none_of(reached.begin(), reached.end(), [&](std::size_t s) {
          return matters(s, mode) && (own_step_ == OwnStep::Signal || is_traced(states_[s]));
        }))
      return true;
    return !past && own_step_ == OwnStep::Factors && whole && config != nullptr &&
           config->axes().temporal_recursion.f() != TemporalRecursion::ScalarLeak;
  }
  // Does a synthesizer speak for what comes after a window? One whose parameters start at zero does not yet.
  bool starts_with_estimates(const BoundRule& bound) const {
    if (rule_.config() == nullptr || rule_.config()->axes().learning_signal != LearningSignal::Bootstrapped)
      return false;
    const std::vector<TraceSlot> slots = bound.slots();
    const Arrays values = bound.initial(0);
    bool parameters = false;
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].role != PortRole::RuleParam) continue;
      parameters = true;
      for (const double v : values[i].tensor().to_doubles())
        if (v != 0.0) return true;
    }
    return !parameters;
  }

  // Influence of some values on every other of the step.
  Reach spread(Reach reach, const std::vector<Var>& stops = {}) const {
    for (const Eqn& eqn : program_.eqns) pass(eqn, operands_reach(eqn, reach, {}), reach, stops);
    return reach;
  }
  static unsigned operands_reach(const Eqn& eqn, const Reach& reach, const std::vector<std::size_t>& skip) {
    unsigned bits = 0;
    for (std::size_t i = 0; i < eqn.in.size(); ++i)
      if (std::find(skip.begin(), skip.end(), i) == skip.end()) bits |= at(reach, eqn.in[i]);
    return bits;
  }
  static void pass(const Eqn& eqn, unsigned bits, Reach& reach, const std::vector<Var>& stops) {
    if (bits == 0 || eqn.prim == &stop_gradient_p) return;
    if (is_mixing_etp(eqn)) bits = kThroughWeight;
    for (const Var& v : eqn.out)
      if (is_floating(v.aval.dtype) && std::find(stops.begin(), stops.end(), v) == stops.end())
        reach[v.id] |= bits;
  }

  std::vector<std::size_t> states_in(const Reach& reach) const {
    std::vector<std::size_t> out;
    for (std::size_t s = 0; s < states_.size(); ++s)
      if (at(reach, states_[s].exit) != 0) out.push_back(s);
    return out;
  }

  // What every state does to the others and to the results.
  void follow_states() {
    const auto reads = [&](const Reach& reach) {
      return std::any_of(results_.begin(), results_.end(), [&](const Atom& r) { return at(reach, r) != 0; });
    };
    for (StateInfo& s : states_) {
      const Reach from_old = spread({{s.entry.id, kDirect}});
      s.next = states_in(from_old);
      s.live = reads(from_old);
      if (const Var* exit = as_var(s.exit)) s.shown = reads(spread({{exit->id, kDirect}}));
      if (s.group == nullptr) continue;
      for (const std::size_t other : states_in(spread({{s.entry.id, kDirect}}, s.group->hidden_outvars)))
        if (states_[other].group != nullptr && states_[other].group != s.group) s.beside.push_back(other);
    }
    for (bool more = true; more;) {
      more = false;
      for (StateInfo& s : states_)
        if (!s.live &&
            std::any_of(s.next.begin(), s.next.end(), [&](std::size_t n) { return states_[n].live; }))
          s.live = more = true;
    }
  }
  bool matters(std::size_t s, Mode mode) const {
    return states_[s].live || (mode == Mode::SingleSteps && states_[s].shown);
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
      pass(eqn, operands_reach(eqn, uses.outside, skip), uses.outside, {});
    }
    return uses;
  }

  static bool traces(const HiddenParamOpRelation& r, const HiddenGroup& group) {
    return std::find(r.hidden_groups.begin(), r.hidden_groups.end(), group.index) != r.hidden_groups.end();
  }

  // All states that come to depend on the parameter, in one step or later.
  std::vector<std::size_t> reached_by(const Uses& uses) const {
    std::vector<std::size_t> out = states_in(uses.outside);
    const auto add = [&](const std::vector<std::size_t>& more) {
      for (const std::size_t s : more)
        if (std::find(out.begin(), out.end(), s) == out.end()) out.push_back(s);
    };
    for (const auto* list : {&uses.relations, &uses.composites})
      for (const HiddenParamOpRelation* r : *list) add(states_in(spread({{r->y_var.id, kDirect}})));
    for (std::size_t i = 0; i < out.size(); ++i) add(states_[out[i]].next);
    return out;
  }

  // Into states that matter, a parameter must enter by what its traces are told.
  void judge_entries(const Uses& uses, std::vector<std::size_t>& passed,
                     std::vector<std::string>& reasons) const {
    std::vector<std::size_t> outside;
    for (const std::size_t s : states_in(uses.outside))
      if (states_[s].live) outside.push_back(s);
    if (!outside.empty())
      note(reasons, fmt::format("part of its influence reaches {} outside of its relations", names(outside)));
    for (const HiddenParamOpRelation* r : uses.composites) judge_chains(uses, *r, passed, reasons);
    for (const HiddenParamOpRelation* r : uses.relations) {
      const Reach reach = spread({{r->y_var.id, kDirect}});
      for (const std::size_t s : states_in(reach)) {
        if (!states_[s].live || states_[s].group == nullptr) continue;  // no hidden state: judge_transitions
        const HiddenGroup& group = *states_[s].group;
        judge_tail(*r, s, reasons);
        if (Uses::traced(uses.composites, *r, group)) continue;
        if (!traces(*r, group))
          passed.push_back(s);
        else if ((at(reach, states_[s].exit) & kThroughWeight) != 0)
          note(reasons, through_weight(s));
      }
    }
  }
  std::string through_weight(std::size_t s) const {
    return fmt::format("reaches {} through another weight as well, and that part has no trace", text(s));
  }

  void judge_tail(const HiddenParamOpRelation& r, std::size_t state,
                  std::vector<std::string>& reasons) const {
    const HiddenGroup& group = *states_[state].group;
    for (std::size_t k = 0; k < r.tail_reasons.size(); ++k) {
      if (r.hidden_groups[k] != group.index || r.tail_reasons[k].empty()) continue;
      const Jaxpr& tail = r.y_to_hidden_group_jaxprs[k];
      const bool chain = r.path_classification.front() == PathClassification::AllThroughOtherEtp;
      if (!chain && keeps_positions(tail, tail.invars, {states_[state].exit}, group)) continue;
      note(reasons, fmt::format("the tail into group {} does not preserve positions ({})", group.index,
                                r.tail_reasons[k]));
    }
  }

  // Does every position of the sources act on the same position of these results alone?
  static bool keeps_positions(const Jaxpr& program, const std::vector<Var>& sources,
                              const std::vector<Atom>& results, const HiddenGroup& group) {
    if (group.varshape().size() == 1) return true;
    return sweep_positions(leading_to(program, results), sources, group.varshape(), Compat::None)
        .preserving();
  }
  // The part of a program that these of its results need.
  static Jaxpr leading_to(const Jaxpr& program, const std::vector<Atom>& results) {
    Jaxpr part = program;
    part.outs = results;
    part.eqns.clear();
    std::unordered_set<std::uint64_t> needed;
    const auto need = [&](const std::vector<Atom>& atoms) {
      for (const Atom& a : atoms)
        if (const Var* v = as_var(a)) needed.insert(v->id);
    };
    need(results);
    for (auto eqn = program.eqns.rbegin(); eqn != program.eqns.rend(); ++eqn) {
      if (std::none_of(eqn->out.begin(), eqn->out.end(), [&](const Var& v) { return needed.contains(v.id); }))
        continue;
      need(eqn->in);
      part.eqns.insert(part.eqns.begin(), *eqn);
    }
    return part;
  }

  // A composite relation has traces of all states that it reaches, but for what a state of one group hands on
  // to another.
  void judge_chains(const Uses& uses, const HiddenParamOpRelation& r, std::vector<std::size_t>& passed,
                    std::vector<std::string>& reasons) const {
    for (const std::size_t s : states_in(spread({{r.y_var.id, kDirect}}))) {
      if (states_[s].group == nullptr) continue;
      const HiddenGroup& group = *states_[s].group;
      if (states_[s].live) {
        judge_tail(r, s, reasons);
        if (!traces(r, group) && !Uses::traced(uses.relations, r, group)) passed.push_back(s);
      }
      const Var* exit = as_var(states_[s].exit);
      if (exit == nullptr) continue;
      for (const std::size_t next : states_in(spread({{exit->id, kDirect}})))
        if (states_[next].live && states_[next].group != nullptr && states_[next].group != states_[s].group)
          note(reasons, fmt::format("{} hands it on to {} within a step, and that part has no trace", text(s),
                                    text(next)));
    }
  }

  // Every way from an old state to a new one that matters must lie in the transition of one group that has a
  // trace of the parameter. What lies behind a state without one is lost already. Whether there are any.
  bool judge_transitions(const Uses& uses, const std::vector<std::size_t>& reached, Mode mode,
                         std::vector<std::size_t>& passed, std::vector<std::string>& reasons) const {
    bool carried = false;
    for (const std::size_t from : reached) {
      const StateInfo& a = states_[from];
      if (a.group == nullptr) {
        if (a.live)
          note(reasons, fmt::format("{} carries it from step to step but is no hidden state", text(from)));
        continue;
      }
      for (const std::size_t to : a.next) carried = carried || matters(to, mode);
      if (!uses.traced_in(*a.group)) continue;
      for (const std::size_t to : a.next)
        if (states_[to].group != a.group && states_[to].group != nullptr && states_[to].live)
          passed.push_back(to);
      // The signal of a single step comes to the group's new states only.
      for (const std::size_t to : a.beside)
        if (mode == Mode::SingleSteps && states_[to].shown) passed.push_back(to);
      judge_group(from, mode, reasons);
    }
    return carried;
  }

  // What the Jacobian of its own group says of a state.
  void judge_group(std::size_t from, Mode mode, std::vector<std::string>& reasons) const {
    const StateInfo& a = states_[from];
    const HiddenGroup& group = *a.group;
    std::vector<Atom> to;
    for (const std::size_t s : a.next)
      if (states_[s].group == a.group && matters(s, mode)) to.push_back(states_[s].exit);
    if (to.empty()) return;
    if (!group.is_diagonal_recurrence && !keeps_positions(group.transition_jaxpr, {a.entry}, to, group)) {
      const std::string why = group.mixing_reason.empty() ? "" : " (" + group.mixing_reason + ")";
      if (!group.snap)
        note(reasons, fmt::format("positions of group {} depend on each other{}", group.index, why));
      else if (!is_closed(*group.snap))
        note(reasons, fmt::format("SnAp-{} keeps {} of the positions that depend on each one of group {}",
                                  group.snap->n, group.snap->num_neighbour(), group.index));
    }
    if (!loses_ways(a, to)) return;
    std::vector<const DroppedWay*> ways;
    for (const DroppedWay& way : group.dropped)
      if (std::find(way.from.begin(), way.from.end(), a.path) != way.from.end()) ways.push_back(&way);
    note(reasons,
         fmt::format("{} comes back through {}, which scope {} leaves out", to_string(a.path),
                     ways.empty() ? "other values" : operators_text(ways, 4), scope_name(g_.options)));
  }
  // Does a constant of the group's transition depend on the state, and one of these new values on it?
  bool loses_ways(const StateInfo& from, const std::vector<Atom>& to) const {
    const Reach reach = spread({{from.entry.id, kDirect}});
    const Jaxpr part = leading_to(from.group->transition_jaxpr, to);
    const auto leaks = [&](const Atom& a) {
      const std::vector<Var>& constants = from.group->transition_jaxpr.constvars;
      return at(reach, a) != 0 &&
             std::find(constants.begin(), constants.end(), *as_var(a)) != constants.end();
    };
    return std::any_of(to.begin(), to.end(), leaks) ||
           std::any_of(part.eqns.begin(), part.eqns.end(), [&](const Eqn& eqn) {
             return eqn.prim != &stop_gradient_p && std::any_of(eqn.in.begin(), eqn.in.end(), leaks);
           });
  }

  // Where the signal meets what the step adds to factors, other ways into states are not counted.
  void judge_own_step(std::size_t index, const Uses& uses, std::vector<std::string>& reasons) const {
    if (own_step_ != OwnStep::Factors || own_.leaves[index] == OwnSteps::LeafWays::All) return;
    for (const std::size_t s : states_in(uses.outside))
      if (states_[s].shown)
        note(reasons, fmt::format("part of its influence reaches {} outside of its relations", text(s)));
    for (const HiddenParamOpRelation* r : uses.relations) {
      const Reach reach = spread({{r->y_var.id, kDirect}});
      for (const std::size_t s : states_in(reach))
        if (states_[s].shown && (at(reach, states_[s].exit) & kThroughWeight) != 0)
          note(reasons, through_weight(s));
    }
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

  void judge_types(const ParamLeaf& leaf, std::vector<std::string>& reasons) const {
    for (const EligibilityTrace& t : traces_)
      if (std::find(t.params.begin(), t.params.end(), leaf.path) != t.params.end() &&
          size_of(t.value.dtype()) < size_of(working_dtype(g_)))
        note(reasons, fmt::format("its trace is kept in {}", name(t.value.dtype())));
  }

  static constexpr const char* kOwnStepOnly =
      "acts at its own step only: nothing later reads what depends on it";
  const ETraceGraph& g_;
  const LearningRule& rule_;
  const Jaxpr& program_;
  std::vector<StateInfo> states_;         // floating ones
  std::vector<Atom> results_;             // floating ones
  std::vector<EligibilityTrace> traces_;  // for their types
  OwnStep own_step_ = OwnStep::ReverseMode;
  OwnSteps own_;
  bool estimates_ = false;
};

}  // namespace

std::vector<LeafExpectation> expected_gradients(const ETraceGraph& graph, const LearningRule& rule) {
  const Theory theory(graph, rule);
  std::vector<LeafExpectation> out;
  for (const ParamLeaf& leaf : param_leaves(graph.module_info)) out.push_back(theory(out.size(), leaf));
  return out;
}

}  // namespace etrace
