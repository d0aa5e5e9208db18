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
// through the equations of one step (verify/step_influence.h). What is called exact must be so; what is
// called approximate loses a way that surely matters, which values have shown (verify/verify_witness.h), and
// what is called possibly approximate one of which values decide whether it does.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "compiler/program_between.h"
#include "compiler/readouts.h"
#include "etrace/config.h"
#include "etrace/verify.h"
#include "learn/plan/own_steps.h"
#include "learn/rules/readout_filter.h"
#include "learn/traces/interface.h"
#include "verify/position_coupling.h"
#include "verify/step_influence.h"
#include "verify/verify_witness.h"

namespace etrace {

std::string_view name(Expectation e) {
  switch (e) {
    case Expectation::Exact:
      return "exact";
    case Expectation::Approximate:
      return "approximate";
    case Expectation::PossiblyApproximate:
      return "possibly approximate";
    default:
      return "no statement";
  }
}

namespace {

using State = StepInfluence::State;

// Why a gradient is not exact, each reason once.
class ReasonList {
 public:
  void note(const std::string& reason, Degree degree) {
    if (degree == Degree::Never) return;
    if (std::find(texts_.begin(), texts_.end(), reason) == texts_.end()) texts_.push_back(reason);
    degree_ = std::max(degree_, degree);
  }
  bool empty() const { return texts_.empty(); }
  ExpectedGradient statement() const {
    return {degree_ == Degree::Surely ? Expectation::Approximate : Expectation::PossiblyApproximate,
            fmt::format("{}", fmt::join(texts_, "; ")), texts_};
  }

 private:
  std::vector<std::string> texts_;
  Degree degree_ = Degree::Never;
};

// States that a parameter reaches, or is lost in, and how surely; by their index.
using StateDegrees = std::vector<Degree>;

enum class Mode : std::uint8_t { SingleSteps, Windows };

class Theory {
 public:
  Theory(const ETraceGraph& graph, const LearningRule& rule)
      : g_(graph), rule_(rule), program_(graph.module_info.jaxpr()), influence_(graph) {
    const std::unique_ptr<const BoundRule> bound = rule_.bind(g_);
    own_step_ = bound->own_step();
    own_ = own_steps(g_, own_step_);
    Arrays params;
    for (const ParamLeaf& l : param_leaves(g_.module_info))
      params.push_back(zeros_of(program_.invars[l.input].aval));
    traces_ = bound->traces(params, bound->initial(0));
    estimates_ = starts_with_estimates(*bound);
    look_at_filter();
  }

  LeafExpectation operator()(std::size_t index, const ParamLeaf& leaf) const {
    if (g_.options.compat == Compat::Braintrace)
      return both(Expectation::NoStatement, "compat reproduces another system, with its deviations");
    const Uses uses = uses_of(leaf);
    const StateDegrees reached = reached_by(uses);
    Degree past = Degree::Never, somewhere = Degree::Never;
    for (std::size_t s = 0; s < reached.size(); ++s) {
      raise_to(past, std::min(reached[s], states()[s].live));
      raise_to(somewhere, reached[s]);
    }
    if (uses.relations.empty() && uses.composites.empty()) {
      const Degree lost = estimates_ ? somewhere : past;
      if (lost != Degree::Never) return untraced(lost);
      return both(Expectation::Exact, somewhere == Degree::Never
                                          ? "acts at its own step only: no state depends on it"
                                          : kOwnStepOnly);
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
    std::int64_t size = 0;  // of the leaf
    bool traced_in(const HiddenGroup& group) const {
      const auto there = [&](const HiddenParamOpRelation* r) { return traces(*r, group); };
      return std::any_of(relations.begin(), relations.end(), there) ||
             std::any_of(composites.begin(), composites.end(), there);
    }
    // Does a tail into the group move or couple positions?
    bool sums_rows_in(const HiddenGroup& group) const {
      for (const auto* list : {&relations, &composites})
        for (const HiddenParamOpRelation* r : *list)
          for (std::size_t k = 0; k < r->tail_reasons.size(); ++k)
            if (r->hidden_groups[k] == group.index && !r->tail_reasons[k].empty()) return true;
      return false;
    }
    // Does it act on states by an operator? A sparse matrix may have no entry where it matters, and sums over
    // positions may cancel what acts on all alike, as a norm does.
    Degree enters(const HiddenParamOpRelation& r) const {
      const bool sparse = r.primitive == &etp_sp_mm_p || r.primitive == &etp_sp_mv_p;
      const bool sums = std::any_of(r.tail_reasons.begin(), r.tail_reasons.end(),
                                    [](const std::string& why) { return !why.empty(); });
      return sparse || (sums && is_shared(r)) ? Degree::Possibly : Degree::Surely;
    }
    bool is_shared(const HiddenParamOpRelation& r) const { return size < r.y_var.aval.shape.size(); }
    // Is there a trace of what one operator gives to a group, directly or through others?
    static bool traced(const std::vector<const HiddenParamOpRelation*>& list, const HiddenParamOpRelation& of,
                       const HiddenGroup& group) {
      return std::any_of(list.begin(), list.end(), [&](const HiddenParamOpRelation* r) {
        return r->eqn_id == of.eqn_id && traces(*r, group);
      });
    }
  };

  static ExpectedGradient exact(const std::string& why) { return {Expectation::Exact, why, {why}}; }
  static LeafExpectation both(Expectation e, const std::string& why) {
    return {{e, why, {why}}, {e, why, {why}}};
  }
  static LeafExpectation untraced(Degree lost) {
    ReasonList step, window;
    step.note("outside every relation: gets the gradient of its own step only", lost);
    window.note("outside every relation: credit ends where a window begins", lost);
    return {step.statement(), window.statement()};
  }
  const std::vector<State>& states() const { return influence_.states(); }
  std::string text(std::size_t s) const { return to_string(states()[s].path); }
  // States that are lost: one reason for all of them.
  void note_states(const char* format, const StateDegrees& lost, ReasonList& reasons) const {
    std::vector<std::string> names;
    Degree most = Degree::Never;
    for (std::size_t s = 0; s < lost.size(); ++s) {
      if (lost[s] != Degree::Never) names.push_back(text(s));
      raise_to(most, lost[s]);
    }
    reasons.note(fmt::format(fmt::runtime(format), short_list(names, 4)), most);
  }

  ExpectedGradient judged(std::size_t index, const ParamLeaf& leaf, const Uses& uses,
                          const StateDegrees& reached, Degree past, Mode mode) const {
    ReasonList reasons;
    StateDegrees passed(states().size(), Degree::Never);  // that it reaches without a trace there
    judge_entries(uses, passed, reasons);
    const Degree carried = judge_transitions(uses, reached, mode, passed, reasons);
    const Degree filtered = meets_filter(uses, reached, mode);
    if (filtered != Degree::Never && stands_for_readouts_) leave_to_filter(passed, filtered, reasons);
    note_states("passes on to {}, where no trace of it is kept", passed, reasons);
    if (mode == Mode::SingleSteps) judge_own_step(index, uses, reasons);
    const LearningRule::Theory theory =
        (without_filter_ ? *without_filter_ : rule_).theory(carried != Degree::Never);
    if (theory.statement == LearningRule::Theory::Unknown && reasons.empty())
      return {Expectation::NoStatement, theory.reason, {theory.reason}};
    if (reasons.empty() && nothing_is_met(index, uses, reached, past, mode)) return exact(kOwnStepOnly);
    if (theory.statement == LearningRule::Theory::Approximate)
      reasons.note(theory.reason, degree_of_rule(uses, reached, mode));
    if (!stands_for_readouts_) reasons.note("a low-pass filter of the trace takes its place", filtered);
    judge_types(leaf, past, reasons);
    if (!reasons.empty()) return reasons.statement();
    return exact(past != Degree::Never
                     ? fmt::format("position-diagonal transition, {}, and all credit stays in its group",
                                   uses.composites.empty() ? "element-wise tail" : "a trace of every state")
                     : kOwnStepOnly);
  }
  // What a rule does to traces matters if a signal meets them. Filters of what never changes may add up to
  // it.
  Degree degree_of_rule(const Uses& uses, const StateDegrees& reached, Mode mode) const {
    Degree most = Degree::Possibly;
    const auto is_constant = [&](const HiddenParamOpRelation* r) {
      return r->x_var && !influence_.varies(*r->x_var);
    };
    if (!uses.relations.empty() && std::all_of(uses.relations.begin(), uses.relations.end(), is_constant))
      return most;
    for (std::size_t s = 0; s < reached.size(); ++s) raise_to(most, meets_trace(s, uses, reached, mode));
    return most;
  }
  // Does a signal meet a trace of the parameter in this state?
  Degree meets_trace(std::size_t s, const Uses& uses, const StateDegrees& reached, Mode mode) const {
    const HiddenGroup* group = states()[s].group;
    if (group == nullptr || !uses.traced_in(*group)) return Degree::Never;
    return std::min({reached[s], matters(s, mode), is_told(s, uses) ? Degree::Surely : Degree::Possibly});
  }
  // Does its trace get something from a relation, at once or from a state of its group that it reads? Row
  // sums may be zero.
  bool is_told(std::size_t state, const Uses& uses) const {
    const HiddenGroup& group = *states()[state].group;
    if (uses.sums_rows_in(group)) return false;
    const auto tells = [&](const HiddenParamOpRelation& r, bool composite) {
      if (!traces(r, group) || uses.enters(r) != Degree::Surely) return false;
      const Reach reach = influence_.from(r.y_var);
      return std::any_of(states().begin(), states().end(), [&](const State& s) {
        const InfluenceWays ways = at(reach, s.exit);
        return s.group == &group && (&s == &states()[state] || s.next[state] == Degree::Surely) &&
               (composite ? ways.any() : ways.direct) == Degree::Surely;
      });
    };
    return std::any_of(uses.relations.begin(), uses.relations.end(),
                       [&](const HiddenParamOpRelation* r) { return tells(*r, false); }) ||
           std::any_of(uses.composites.begin(), uses.composites.end(),
                       [&](const HiddenParamOpRelation* r) { return tells(*r, true); });
  }

  // Do signals meet nothing but zeros where the parameter has a past, whatever the rule makes of its traces?
  bool nothing_is_met(std::size_t index, const Uses& uses, const StateDegrees& reached, Degree past,
                      Mode mode) const {
    if (estimates_) return false;
    const ETraceConfig* config = rule_.config();
    const bool whole = own_step_ != OwnStep::Signal && own_.leaves[index] == OwnSteps::LeafWays::All;
    const auto is_traced = [&](std::size_t s) {
      return states()[s].group != nullptr && uses.traced_in(*states()[s].group);
    };
    // A factor may be shared by all states of a group.
    const bool by_state =
        config != nullptr && config->axes().trace_factorization != TraceFactorization::RandomProjection;
    bool met = false;
    for (std::size_t s = 0; s < states().size(); ++s) {
      const Degree signal = whole && !by_state ? states()[s].live : matters(s, mode);
      if (!by_state && is_traced(s) && signal != Degree::Never) return false;
      met = met || (reached[s] != Degree::Never && matters(s, mode) != Degree::Never &&
                    (own_step_ == OwnStep::Signal || is_traced(s)));
    }
    if (!met) return true;
    return past == Degree::Never && own_step_ == OwnStep::Factors && whole && config != nullptr &&
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

  // The filter behind the traces, which belongs to some states only, and the rule as it were without.
  void look_at_filter() {
    const auto* configured = dynamic_cast<const ConfiguredRule*>(&rule_);
    if (configured == nullptr) return;
    ETraceAxes axes = configured->config()->axes();
    filter_ = readout_filter(g_, axes.kappa, configured->settings());
    stands_for_readouts_ = filter_.kappa && !axes.kappa;
    if (!axes.kappa) return;
    axes.trace_filter = TraceFilter::None;
    axes.kappa = {};
    without_filter_.emplace(configured->name(), ETraceConfig(axes), configured->settings());
  }
  // Does a signal meet a filtered trace of the parameter?
  Degree meets_filter(const Uses& uses, const StateDegrees& reached, Mode mode) const {
    Degree most = Degree::Never;
    if (filter_.kappa.value_or(0.0) == 0.0 || (mode == Mode::Windows && !filter_.at_entry)) return most;
    for (std::size_t s = 0; s < states().size(); ++s)
      if (std::find(filter_.unfiltered.begin(), filter_.unfiltered.end(), text(s)) ==
          filter_.unfiltered.end())
        raise_to(most, meets_trace(s, uses, reached, mode));
    return most;
  }
  // What leaky readouts keep is what the filter stands for. It is exactly that if all goes there by a layer's
  // signal alone.
  void leave_to_filter(StateDegrees& passed, Degree filtered, ReasonList& reasons) const {
    std::vector<std::string> kept;
    for (const LeakyReadout& r : leaky_readouts(g_))
      for (const StatePath& p : g_.hidden_groups[r.group].hidden_paths) kept.push_back(to_string(p));
    for (std::size_t s = 0; s < passed.size(); ++s)
      if (std::find(kept.begin(), kept.end(), text(s)) != kept.end()) passed[s] = Degree::Never;
    reasons.note(fmt::format("a filter of the trace stands for what {} {}, which may be less or more",
                             short_list(kept, 4), kept.size() == 1 ? "keeps" : "keep"),
                 std::min(filtered, Degree::Possibly));
  }

  Degree matters(std::size_t s, Mode mode) const {
    return mode == Mode::SingleSteps ? std::max(states()[s].live, states()[s].shown) : states()[s].live;
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
    uses.size = program_.invars[leaf.input].aval.shape.size();
    uses.outside = influence_.from_input(program_.invars[leaf.input], own);
    return uses;
  }

  static bool traces(const HiddenParamOpRelation& r, const HiddenGroup& group) {
    return std::find(r.hidden_groups.begin(), r.hidden_groups.end(), group.index) != r.hidden_groups.end();
  }

  // All states that come to depend on the parameter, in one step or later.
  StateDegrees reached_by(const Uses& uses) const {
    StateDegrees out = influence_.on_states(uses.outside);
    for (const auto* list : {&uses.relations, &uses.composites})
      for (const HiddenParamOpRelation* r : *list) {
        const StateDegrees more = influence_.on_states(influence_.from(r->y_var));
        for (std::size_t s = 0; s < out.size(); ++s) raise_to(out[s], std::min(more[s], uses.enters(*r)));
      }
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t from = 0; from < out.size(); ++from)
        for (std::size_t to = 0; to < out.size(); ++to)
          if (const Degree d = std::min(out[from], states()[from].next[to]); d > out[to]) {
            out[to] = d;
            changed = true;
          }
    }
    return out;
  }
  // Into states that matter, a parameter must enter by what its traces are told.
  void judge_entries(const Uses& uses, StateDegrees& passed, ReasonList& reasons) const {
    StateDegrees outside = influence_.on_states(uses.outside);
    for (std::size_t s = 0; s < outside.size(); ++s) outside[s] = std::min(outside[s], states()[s].live);
    note_states("part of its influence reaches {} outside of its relations", outside, reasons);
    for (const HiddenParamOpRelation* r : uses.composites) judge_chains(uses, *r, passed, reasons);
    for (const HiddenParamOpRelation* r : uses.relations) {
      const Reach reach = influence_.from(r->y_var);
      for (std::size_t s = 0; s < states().size(); ++s) {
        const InfluenceWays ways = at(reach, states()[s].exit);
        const Degree lost = std::min({ways.any(), states()[s].live, uses.enters(*r)});
        if (lost == Degree::Never || states()[s].group == nullptr) continue;  // the latter: judge_transitions
        const HiddenGroup& group = *states()[s].group;
        judge_tail(uses, *r, s, lost, reasons);
        const bool chained = Uses::traced(uses.composites, *r, group);
        if (!traces(*r, group))
          raise_to(passed[s], chained ? std::min(ways.direct, lost) : lost);
        else if (!chained)
          reasons.note(through_weight(s), std::min(ways.through_weight, lost));
      }
    }
  }
  std::string through_weight(std::size_t s) const {
    return fmt::format("reaches {} through another weight as well, and that part has no trace", text(s));
  }

  void judge_tail(const Uses& uses, const HiddenParamOpRelation& r, std::size_t state, Degree lost,
                  ReasonList& reasons) const {
    const HiddenGroup& group = *states()[state].group;
    for (std::size_t k = 0; k < r.tail_reasons.size(); ++k) {
      if (r.hidden_groups[k] != group.index || r.tail_reasons[k].empty()) continue;
      const Jaxpr& tail = r.y_to_hidden_group_jaxprs[k];
      const bool chain = r.path_classification.front() == PathClassification::AllThroughOtherEtp;
      Degree coupled = positions_couple(g_, tail, tail.invars, {states()[state].exit}, group);
      if (chain) coupled = Degree::Possibly;
      // A trace with row sums is right for what acts on all positions alike.
      if (uses.is_shared(r)) coupled = std::min(coupled, Degree::Possibly);
      reasons.note(fmt::format("the tail into group {} does not preserve positions ({})", group.index,
                               r.tail_reasons[k]),
                   std::min(lost, coupled));
    }
  }

  // A composite relation has traces of all states that it reaches, but for what a state of one group hands on
  // to another. Beside a relation of the same operator it stands for the ways through other weights alone.
  void judge_chains(const Uses& uses, const HiddenParamOpRelation& r, StateDegrees& passed,
                    ReasonList& reasons) const {
    const bool beside =
        std::any_of(uses.relations.begin(), uses.relations.end(),
                    [&](const HiddenParamOpRelation* other) { return other->eqn_id == r.eqn_id; });
    const Reach reach = influence_.from(r.y_var);
    for (std::size_t s = 0; s < states().size(); ++s) {
      const InfluenceWays ways = at(reach, states()[s].exit);
      if (ways.any() == Degree::Never || states()[s].group == nullptr) continue;
      const HiddenGroup& group = *states()[s].group;
      const Degree here = std::min(beside ? ways.through_weight : ways.any(), uses.enters(r));
      if (const Degree lost = std::min(here, states()[s].live); lost != Degree::Never) {
        judge_tail(uses, r, s, lost, reasons);
        if (!traces(r, group) && !Uses::traced(uses.relations, r, group)) raise_to(passed[s], lost);
      }
      const Var* exit = as_var(states()[s].exit);
      if (exit == nullptr) continue;
      const Reach on = influence_.from(*exit);
      for (std::size_t next = 0; next < states().size(); ++next) {
        if (states()[next].group == nullptr || states()[next].group == states()[s].group) continue;
        const InfluenceWays further = at(on, states()[next].exit);
        const Degree handed = std::max(std::min(here, further.any()),
                                       std::min({ways.any(), further.through_weight, uses.enters(r)}));
        reasons.note(fmt::format("{} hands it on to {} within a step, and that part has no trace", text(s),
                                 text(next)),
                     std::min(handed, states()[next].live));
      }
    }
  }

  // Every way from an old state to a new one that matters must lie in the transition of one group that has a
  // trace of the parameter. What lies behind a state without one is lost already. Whether there are any.
  Degree judge_transitions(const Uses& uses, const StateDegrees& reached, Mode mode, StateDegrees& passed,
                           ReasonList& reasons) const {
    Degree carried = Degree::Never;
    for (std::size_t from = 0; from < states().size(); ++from) {
      if (reached[from] == Degree::Never) continue;
      const State& a = states()[from];
      if (a.group == nullptr) {
        reasons.note(fmt::format("{} carries it from step to step but is no hidden state", text(from)),
                     std::min(reached[from], a.live));
        continue;
      }
      for (std::size_t to = 0; to < states().size(); ++to)
        raise_to(carried, std::min({reached[from], a.next[to], matters(to, mode)}));
      if (!uses.traced_in(*a.group)) continue;
      for (std::size_t to = 0; to < states().size(); ++to) {
        if (states()[to].group == nullptr || states()[to].group == a.group) continue;
        raise_to(passed[to], std::min({reached[from], a.next[to], states()[to].live}));
        // The signal of a single step comes to the group's new states only.
        if (mode == Mode::SingleSteps)
          raise_to(passed[to], std::min({reached[from], a.beside[to], states()[to].shown}));
      }
      judge_group(from, reached[from], mode, reasons);
    }
    return carried;
  }

  // What the Jacobian of its own group says of a state.
  void judge_group(std::size_t from, Degree reached, Mode mode, ReasonList& reasons) const {
    const State& a = states()[from];
    const HiddenGroup& group = *a.group;
    std::vector<Atom> to;
    Degree lost = Degree::Never;
    for (std::size_t s = 0; s < states().size(); ++s) {
      const Degree d = std::min({reached, a.next[s], matters(s, mode)});
      if (states()[s].group != a.group || d == Degree::Never) continue;
      to.push_back(states()[s].exit);
      raise_to(lost, d);
    }
    if (to.empty()) return;
    if (!group.is_diagonal_recurrence) {
      const std::string why = group.mixing_reason.empty() ? "" : " (" + group.mixing_reason + ")";
      const Degree coupled =
          std::min(lost, positions_couple(g_, group.transition_jaxpr, {a.entry}, to, group));
      if (!group.snap)
        reasons.note(fmt::format("positions of group {} depend on each other{}", group.index, why), coupled);
      else if (!is_closed(*group.snap))
        reasons.note(fmt::format("SnAp-{} keeps {} of the positions that depend on each one of group {}",
                                 group.snap->n, group.snap->num_neighbour(), group.index),
                     coupled);
    }
    const Degree dropped = lost_ways(a, to);
    if (dropped == Degree::Never) return;
    std::vector<const DroppedWay*> ways;
    for (const DroppedWay& way : group.dropped)
      if (std::find(way.from.begin(), way.from.end(), a.path) != way.from.end()) ways.push_back(&way);
    reasons.note(fmt::format("{} comes back through {}, which scope {} leaves out", to_string(a.path),
                             ways.empty() ? "other values" : operators_text(ways, 4), scope_name(g_.options)),
                 std::min(lost, dropped));
  }
  // Does a constant of the group's transition depend on the state, and one of these new values on it?
  Degree lost_ways(const State& from, const std::vector<Atom>& to) const {
    const Reach reach = influence_.from(from.entry);
    const std::vector<Var>& constants = from.group->transition_jaxpr.constvars;
    Degree most = Degree::Never;
    const auto look_at = [&](const Atom& a) {
      const Degree d = at(reach, a).any();
      if (d != Degree::Never && std::find(constants.begin(), constants.end(), *as_var(a)) != constants.end())
        raise_to(most, d);
    };
    for (const Atom& a : to) look_at(a);
    for (const Eqn* eqn : derivative_ways(from.group->transition_jaxpr, to))
      for (const Atom& a : eqn->in) look_at(a);
    return most;
  }

  // Where the signal meets what the step adds to factors, other ways into states are not counted.
  void judge_own_step(std::size_t index, const Uses& uses, ReasonList& reasons) const {
    if (own_step_ != OwnStep::Factors || own_.leaves[index] == OwnSteps::LeafWays::All) return;
    const auto is_signalled = [&](std::size_t s) { return states()[s].group != nullptr; };
    const StateDegrees outside = influence_.on_states(uses.outside);
    for (std::size_t s = 0; s < states().size(); ++s)
      if (is_signalled(s))
        reasons.note(fmt::format("part of its influence reaches {} outside of its relations", text(s)),
                     std::min(outside[s], states()[s].shown));
    for (const HiddenParamOpRelation* r : uses.relations) {
      const Reach reach = influence_.from(r->y_var);
      for (std::size_t s = 0; s < states().size(); ++s)
        if (is_signalled(s))
          reasons.note(through_weight(s), std::min({at(reach, states()[s].exit).through_weight,
                                                    states()[s].shown, uses.enters(*r)}));
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

  void judge_types(const ParamLeaf& leaf, Degree past, ReasonList& reasons) const {
    for (const EligibilityTrace& t : traces_)
      if (std::find(t.params.begin(), t.params.end(), leaf.path) != t.params.end() &&
          size_of(t.value.dtype()) < size_of(working_dtype(g_)))
        reasons.note(
            fmt::format("its trace is kept in {}{}", name(t.value.dtype()),
                        size_of(t.value.dtype()) == 2 ? ", right on average (rounded stochastically)" : ""),
            past);
  }

  static constexpr const char* kOwnStepOnly =
      "acts at its own step only: nothing later reads what depends on it";
  const ETraceGraph& g_;
  const LearningRule& rule_;
  const Jaxpr& program_;
  StepInfluence influence_;
  std::vector<EligibilityTrace> traces_;  // for their types
  OwnStep own_step_ = OwnStep::ReverseMode;
  OwnSteps own_;
  bool estimates_ = false;
  ReadoutFilter filter_{};
  bool stands_for_readouts_ = false;  // the filter is that of the readouts, as the graph says them
  std::optional<ConfiguredRule> without_filter_;
};

}  // namespace

std::vector<LeafExpectation> expected_gradients(const ETraceGraph& graph, const LearningRule& rule) {
  const Theory theory(graph, rule);
  std::vector<LeafExpectation> out;
  for (const ParamLeaf& leaf : param_leaves(graph.module_info)) out.push_back(theory(out.size(), leaf));
  keep_what_is_seen(graph, rule, out);
  return out;
}

}  // namespace etrace
