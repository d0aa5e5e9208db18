// Pass 3: which weight reaches which hidden state through which operator.
//   weight leaves -processing-> operand -ETP operator-> y -tail-> exit values of hidden groups
// One relation per ETP equation. Start at find_hidden_param_op_relations_from_minfo.
#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <limits>

#include "compiler/composite_relations.h"
#include "compiler/explain_text.h"
#include "compiler/guard.h"
#include "compiler/left_out.h"
#include "compiler/pipeline.h"
#include "compiler/position_graph.h"
#include "compiler/program_between.h"
#include "compiler/program_index.h"
#include "compiler/trainable_source.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/module.h"

namespace etrace {

namespace {

// ETP operators inside bodies that stay opaque: refused or left out, by the policy.
class BodySearch {
 public:
  BodySearch(const ModuleInfo& info, Reporter& reporter, bool compat)
      : info_(info), reporter_(reporter), compat_(compat) {}

  void run() {
    for (const Eqn& eqn : info_.jaxpr().eqns)
      if (!is_etp(*eqn.prim) && !info_.is_descended(eqn)) enter(eqn);
  }

 private:
  void enter(const Eqn& eqn) {
    // The reference looks into loops and conditionals only.
    if (compat_ && !is_control_flow(eqn)) return;
    for (const JaxprPtr& body : bodies(eqn))
      for (const Eqn& inner : body->jaxpr.eqns) {
        if (is_etp(*inner.prim))
          found(inner, eqn);
        else
          enter(inner);
      }
  }

  // What an equation runs; derivative rules are not run by the step.
  static std::vector<JaxprPtr> bodies(const Eqn& eqn) {
    if (const JaxprPtr call = eqn.params.jaxpr_or_null("call_jaxpr")) return {call};
    return nested_jaxprs(eqn);
  }

  void found(const Eqn& etp, const Eqn& where) {
    const bool exclude = info_.control_flow.etp_in_control_flow == ControlFlowPolicy::EtpInside::Exclude;
    const std::string op(etp.prim->name()), outer(where.prim->name());
    const std::string message = fmt::format(
        "trainable operator {} stands inside a {} that could not be flattened (scan/while/cond and custom "
        "derivatives stay opaque), so its weight cannot be traced",
        op, outer);
    const std::string note =
        "move the operator out of the body, or leave it out of online learning with "
        "etp_in_control_flow='exclude'";
    reporter_.emit({DiagnosticKind::PRIMITIVE_INSIDE_CONTROL_FLOW,
                    exclude ? DiagnosticLevel::Warning : DiagnosticLevel::Error,
                    message,
                    op,
                    {},
                    {},
                    {{"body_of", outer}},
                    note,
                    etp.origin});
    if (!exclude) throw NotSupportedError("relations", message + "; " + note, etp.origin);
  }

  const ModuleInfo& info_;
  Reporter& reporter_;
  bool compat_;
};

// Forward reachability from an operator's output.
struct Reach {
  std::vector<std::size_t> hidden;    // indices into info.hidden, in order of meeting
  std::vector<std::size_t> blockers;  // mixing ETP equations that were met and not crossed
};

class RelationFinder {
 public:
  RelationFinder(const ModuleInfo& info, const std::vector<HiddenGroup>& groups, Reporter& reporter,
                 const CompileOptions& options)
      : info_(info),
        groups_(groups),
        reporter_(reporter),
        options_(options),
        compat_(options.compat == Compat::Braintrace),
        index_(info.jaxpr()),
        sources_(info, index_, compat_) {
    for (std::size_t i = 0; i < info.hidden.size(); ++i) hout_.insert_or_assign(info.hidden[i].outvar.id, i);
    for (const HiddenGroup& g : groups)
      for (const Var& v : g.hidden_outvars) group_of_.emplace(v.id, g.index);
    check_seams();
  }

  FoundRelations run() {
    BodySearch(info_, reporter_, compat_).run();
    try {
      for (std::size_t i = 0; i < info_.jaxpr().eqns.size(); ++i)
        if (is_etp(*info_.jaxpr().eqns[i].prim))
          if (auto r = relation(i)) found_.direct.push_back(std::move(*r));
    } catch (...) {
      reporter_.append(records_);
      throw;
    }
    for (std::size_t i = 0; i < included_.size(); ++i)
      name_left_out(left_out_, leaf_list(found_.direct[i]), found_.direct[i], records_[included_[i]]);
    reporter_.append(records_);
    return std::move(found_);
  }

 private:
  void check_seams() const {
    for (const HiddenInfo& h : info_.hidden)
      if (!group_of_.contains(h.outvar.id))
        throw ValueError("relations", "hidden state " + to_string(h.path) +
                                          " has no group; pass the groups of this module");
    for (const HiddenGroup& g : groups_)
      for (std::size_t i = 0; i < g.hidden_outvars.size(); ++i)
        if (!hout_.contains(g.hidden_outvars[i].id))
          throw ValueError("relations", "group state " + to_string(g.hidden_paths[i]) +
                                            " is not a hidden state of this module");
  }

  std::optional<HiddenParamOpRelation> relation(std::size_t at) {
    const Eqn& eqn = index_.eqn(at);
    const EtpRules& rules = *etp_rules(*eqn.prim);
    HiddenParamOpRelation r;
    r.primitive = eqn.prim;
    r.eqn_id = eqn.id;
    r.eqn_params = eqn.params;
    r.operands = eqn.in;
    r.y_var = eqn.out[0];
    if (rules.x_operand)
      if (const Var* x = as_var(eqn.in[*rules.x_operand])) r.x_var = *x;
    if (eqn.out.size() > 1)
      emit(DiagnosticKind::MULTI_OUTPUT_PRIMITIVE_DETECTED, eqn,
           "the operator has several results; the first is traced", {}, {},
           {{"num_outvars", eqn.out.size()}, {"y_outvar_index", 0}});
    if (!resolve_trainables(eqn, rules, r)) return std::nullopt;
    r.fixed_operands = fixed_operands(r);

    const HiddenParamOpRelation base = r;
    const Reach reach = connected_states(r.y_var);
    std::vector<std::size_t> fitting = fitting_states(eqn, r, reach.hidden);
    if (fitting.empty()) {
      if (!add_composite(eqn, Ways::All, r)) report_excluded(at, r, reach);
      return std::nullopt;
    }
    const bool composite = add_composite(eqn, Ways::ThroughOthers, r);
    for (const std::size_t h : fitting) {
      const HiddenInfo& state = info_.hidden[h];
      r.connected_hidden_paths.push_back(state.path);
      r.path_classification.push_back(classify(r.y_var, state.outvar));
      const std::size_t g = group_of_.at(state.outvar.id);
      if (std::find(r.hidden_groups.begin(), r.hidden_groups.end(), g) == r.hidden_groups.end())
        r.hidden_groups.push_back(g);
      if (r.path_classification.back() == PathClassification::Mixed && !composite)
        emit(DiagnosticKind::RELATION_PARTIAL_PATH, eqn,
             fmt::format("{} hidden state {} directly and also through another trainable operator; only the "
                         "direct part is traced",
                         subject(r, "reaches", "reach"), to_string(state.path)),
             r.path(), {state.path}, {{"classification", "mixed"}},
             compat_ ? "" : "nothing, if the direct part is enough. " + remedies(Ways::ThroughOthers, base));
    }
    for (const std::size_t g : r.hidden_groups) {
      require_sample_each(eqn, r, groups_[g]);
      add_tail(eqn, r, groups_[g]);
    }
    included_.push_back(records_.size());
    report_included(eqn, r);
    return r;
  }

  // The parameters of a relation by name: "a.weight, a.bias"; and with a verb that fits their number.
  std::vector<std::string> leaf_list(const HiddenParamOpRelation& r) const {
    std::vector<std::string> names;
    for (const TrainableSource& t : r.trainables)
      for (std::string& name : info_.leaf_names(t))
        if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
    return names;
  }
  std::string leaves_of(const HiddenParamOpRelation& r) const { return join(leaf_list(r)); }
  std::string subject(const HiddenParamOpRelation& r, std::string_view one, std::string_view many) const {
    const std::vector<std::string> names = leaf_list(r);
    return fmt::format("{} {}", join(names), names.size() == 1 ? one : many);
  }

  bool resolve_trainables(const Eqn& eqn, const EtpRules& rules, HiddenParamOpRelation& r) {
    const std::vector<Trainable> layout = rules.trainables(eqn.params);
    for (const Trainable& t : layout) {
      TrainableSource source;
      source.key = t.key;
      source.operand = t.operand;
      std::string ambiguous;
      if (!sources_.resolve(eqn.in[t.operand], source, ambiguous)) {
        emit(DiagnosticKind::TRAINABLE_INVAR_NOT_PARAMSTATE, eqn,
             fmt::format(
                 "operand '{}' of {} does not come from a parameter alone; it is a constant of the trace",
                 t.key, eqn.prim->name()),
             {}, {}, {{"key", t.key}, {"invar_index", t.operand}});
        continue;
      }
      if (!ambiguous.empty())
        emit(DiagnosticKind::PYTREE_WEIGHT_LEAF_AMBIGUOUS, eqn,
             "the leaf of parameter " + ambiguous + " could not be told; leaf 0 is assumed", source.path, {},
             {{"weight_var", t.key}});
      r.trainables.push_back(std::move(source));
    }
    if (!r.trainables.empty()) return true;
    if (report_changing_weight(eqn, layout[0])) return false;
    emit(DiagnosticKind::RELATION_EXCLUDED_NO_PARAMSTATE, eqn,
         fmt::format("{} has no trainable operand that comes from a parameter", eqn.prim->name()), {}, {},
         {{"trainable_var", layout[0].operand}, {"key", layout[0].key}},
         "pass the value of a ParamState, or use a plain product");
    return false;
  }

  // A weight that is a parameter together with what changes from step to step: a mask kept as a state, a
  // factor that is an argument.
  bool report_changing_weight(const Eqn& eqn, const Trainable& t) {
    const Var* operand = as_var(eqn.in[t.operand]);
    if (compat_ || operand == nullptr) return false;
    VarIds seen{operand->id};
    std::vector<Var> todo{*operand};
    std::optional<StatePath> parameter;
    std::vector<std::string> data;
    while (!todo.empty()) {
      const Var v = todo.back();
      todo.pop_back();
      if (const WeightInfo* w = info_.weight_of(v)) {
        if (!parameter) parameter = w->path;
      } else if (const std::size_t* p = index_.producer(v)) {
        for (const Atom& a : index_.eqn(*p).in)
          if (const Var* u = as_var(a); u != nullptr && seen.insert(u->id).second) todo.push_back(*u);
      } else {
        const std::vector<Var>& in = info_.jaxpr().invars;
        const auto at = static_cast<std::size_t>(std::find(in.begin(), in.end(), v) - in.begin());
        if (at == in.size()) continue;  // a constant
        const InputRecord& record = info_.model.inputs[at];
        data.push_back(record.role == Role::Arg ? fmt::format("argument {}", record.index)
                                                : "state " + to_string(record.path));
      }
    }
    if (!parameter || data.empty()) return false;
    std::sort(data.begin(), data.end());
    emit(
        DiagnosticKind::RELATION_EXCLUDED_NO_PARAMSTATE, eqn,
        fmt::format("operand '{}' of {} is made of parameter {} together with {}, which may change from step "
                    "to step; traces follow weights that are made of parameters and constants alone",
                    t.key, eqn.prim->name(), to_string(*parameter), join(data)),
        parameter, {}, {{"trainable_var", t.operand}, {"key", t.key}},
        "keep what multiplies the weight as a constant or as a parameter that is not updated (a frozen one "
        "can "
        "be set between steps), or multiply the operator's input or result by it");
    return true;
  }

  std::vector<bool> fixed_operands(const HiddenParamOpRelation& r) const {
    const std::vector<Var>& constants = info_.jaxpr().constvars;
    std::vector<bool> fixed;
    for (const Atom& a : r.operands) {
      const Var* v = as_var(a);
      fixed.push_back(v == nullptr || std::find(constants.begin(), constants.end(), *v) != constants.end());
    }
    for (const TrainableSource& t : r.trainables) fixed[t.operand] = true;
    return fixed;
  }

  // Breadth-first over consumers, mixing ETP equations not crossed. `expand(h)` says whether to go on behind
  // a state.
  template <class Expand>
  Reach search(const Var& from, const Expand& expand) const {
    Reach reach;
    VarIds seen{from.id};
    std::deque<Var> todo{from};
    while (!todo.empty()) {
      const Var v = todo.front();
      todo.pop_front();
      if (const auto it = hout_.find(v.id); it != hout_.end() && !expand(it->second, reach)) continue;
      for (const std::size_t i : index_.consumers(v)) {
        const Eqn& eqn = index_.eqn(i);
        if (is_mixing_etp(eqn)) {
          if (std::find(reach.blockers.begin(), reach.blockers.end(), i) == reach.blockers.end())
            reach.blockers.push_back(i);
          continue;
        }
        for (const Var& o : eqn.out)
          if (seen.insert(o.id).second) todo.push_back(o);
      }
    }
    return reach;
  }

  // States in the groups that y feeds directly; within a group also those reached through another member.
  Reach connected_states(const Var& y) const {
    const Reach direct = search(y, [](std::size_t h, Reach& r) {
      r.hidden.push_back(h);
      return false;
    });
    std::vector<std::size_t> homes;
    for (const std::size_t h : direct.hidden) homes.push_back(group_of_.at(info_.hidden[h].outvar.id));
    return search(y, [&](std::size_t h, Reach& r) {
      if (std::find(homes.begin(), homes.end(), group_of_.at(info_.hidden[h].outvar.id)) == homes.end())
        return false;
      r.hidden.push_back(h);
      return true;
    });
  }

  // Whether an operator's result has a place for each of the state's: the same shape, but for the samples.
  // One row for all samples is refused later, by require_sample_each.
  static bool is_of_shape(const Eqn& eqn, const Shape& y, const Shape& state) {
    if (y == state) return true;
    if (!etp_rules(*eqn.prim)->batched) return !state.is_scalar() && y == state.without(0);
    if (y == state.with_front(1)) return true;
    return y.rank() > 1 && y.rank() == state.rank() && y == state.without(0).with_front(1);
  }

  std::vector<std::size_t> fitting_states(const Eqn& eqn, const HiddenParamOpRelation& r,
                                          const std::vector<std::size_t>& states) {
    std::vector<std::size_t> fitting;
    for (const std::size_t h : states) {
      const HiddenInfo& state = info_.hidden[h];
      const Shape& shape = compat_ ? state.outvar.aval.shape : state.varshape;
      const Shape& y = r.y_var.aval.shape;
      if (compat_ ? numpy_broadcast_shapes(y, shape).has_value() : is_of_shape(eqn, y, shape)) {
        fitting.push_back(h);
        continue;
      }
      emit(DiagnosticKind::RELATION_EXCLUDED_SHAPE_MISMATCH, eqn,
           fmt::format("{}: the output {} of {} does not fit the shape {} of hidden state {}", leaves_of(r),
                       to_string(r.y_var.aval.shape), eqn.prim->name(), to_string(shape),
                       to_string(state.path)),
           r.path(), {state.path}, {{"y_shape", r.y_var.aval.shape}, {"hidden_shape", shape}},
           "give the operator's output the shape of the hidden state");
      if (!compat_)
        left_out_.push_back({leaf_list(r),
                             {state.path},
                             fmt::format("{} does not fit its shape {}", to_string(y), to_string(shape))});
    }
    return fitting;
  }

  // Samples have traces of their own, so one that a batched operator makes for all of them has no place.
  void require_sample_each(const Eqn& eqn, const HiddenParamOpRelation& r, const HiddenGroup& group) const {
    const Shape positions = group.varshape(), &y = r.y_var.aval.shape;
    if (!etp_rules(*eqn.prim)->batched || y.rank() != positions.rank() || y[0] != 1 || positions[0] == 1)
      return;
    throw CompilationError(
        "relations",
        fmt::format("{}: the result {} of {} is one sample, spread by broadcasting over the {} samples of "
                    "hidden state {} of type {}; give the operator a row per sample",
                    leaves_of(r), to_string(r.y_var.aval), eqn.prim->name(), positions[0],
                    to_string(group.hidden_paths.front()), to_string(group.hidden_invars.front().aval)),
        eqn.origin);
  }

  void report_excluded(std::size_t at, const HiddenParamOpRelation& r, const Reach& reach) {
    const Eqn& eqn = index_.eqn(at);
    const std::vector<std::size_t>& blockers = reach.blockers;
    const bool misfit = !compat_ && !reach.hidden.empty();  // of which a record says more
    // A blocker only explains the exclusion if something hidden lies behind it.
    const std::vector<StatePath> behind =
        blockers.empty() ? std::vector<StatePath>() : reached_hidden(r.y_var);
    const bool blocked = !blockers.empty() && (compat_ || !behind.empty());
    if (!blocked) {
      const std::string elsewhere = compat_ ? "" : traced_elsewhere(at, r);
      emit(DiagnosticKind::RELATION_EXCLUDED_NON_TEMPORAL, eqn,
           fmt::format("{} no hidden state{} (through {}), so there is no eligibility trace",
                       subject(r, "reaches", "reach"), misfit ? " of a shape that fits" : "",
                       eqn.prim->name()) +
               (elsewhere.empty() ? "" : fmt::format(" of this use; {}", elsewhere)),
           r.path(), {}, {},
           misfit ? "give the operator's output the shape of the hidden state"
           : elsewhere.empty()
               ? advice_unless_kept(r.y_var,
                                    "nothing, for a readout: the gradient of the current step, which it "
                                    "gets, is all there is")
               : "nothing: what this use adds is the gradient of the current step, which it gets");
      return;
    }
    Attr::List primitives, paths;
    std::string names;
    for (const std::size_t b : blockers) {
      const Eqn& blocker = index_.eqn(b);
      TrainableSource source;
      std::string ambiguous;
      const std::vector<Trainable> layout = etp_rules(*blocker.prim)->trainables(blocker.params);
      const bool known = sources_.resolve(blocker.in[layout[0].operand], source, ambiguous);
      primitives.emplace_back(std::string(blocker.prim->name()));
      paths.push_back(known ? Attr(to_string(source.path)) : Attr());
      names += (names.empty() ? "" : ", ") + std::string(blocker.prim->name()) +
               (known ? " of " + to_string(source.path) : "");
    }
    if (!compat_) left_out_.push_back({leaf_list(r), behind, "only through " + names});
    emit(DiagnosticKind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT, eqn,
         fmt::format("{} hidden states only through another trainable ETP primitive ({}), so there is no "
                     "eligibility trace",
                     subject(r, "reaches", "reach"), names),
         r.path(), {},
         {{"blocking_primitives", Attr::list(primitives)}, {"blocking_weight_paths", Attr::list(paths)}},
         compat_
             ? "nothing, if the gradient of the current step is enough; to trace it, let its output reach "
               "a hidden state without another weight"
             : "nothing, if the gradient of the current step is enough. " + remedies(Ways::All, r));
  }

  // Other uses of an operator's parameters that are traced: "w is traced through etp_mm into h".
  std::string traced_elsewhere(std::size_t at, const HiddenParamOpRelation& r) const {
    std::string out;
    for (std::size_t i = 0; i < info_.jaxpr().eqns.size(); ++i) {
      const Eqn& other = index_.eqn(i);
      if (i == at || !is_etp(*other.prim)) continue;
      std::vector<std::string> shared;
      for (const Trainable& t : etp_rules(*other.prim)->trainables(other.params)) {
        TrainableSource source;
        std::string ambiguous;
        if (!sources_.resolve(other.in[t.operand], source, ambiguous)) continue;
        const std::vector<std::string> here = leaf_list(r);
        for (std::string& name : info_.leaf_names(source))
          if (std::find(here.begin(), here.end(), name) != here.end()) shared.push_back(std::move(name));
      }
      std::vector<StatePath> states;
      if (!shared.empty())
        for (const std::size_t h : connected_states(other.out[0]).hidden)
          if (numpy_broadcast_shapes(other.out[0].aval.shape, info_.hidden[h].varshape))
            states.push_back(info_.hidden[h].path);
      if (!states.empty())
        out += fmt::format("{}{} {} traced through {} into {}", out.empty() ? "" : ", ", join(shared),
                           shared.size() == 1 ? "is" : "are", other.prim->name(), path_list(states));
    }
    return out;
  }

  // What helps a weight behind other weights, and what it costs.
  std::string remedies(Ways which, HiddenParamOpRelation r) const {
    const std::int64_t numbers =
        add_chains(index_, groups_, which, r) ? composite_trace_numbers(r, groups_) : 0;
    return fmt::format(
        "Windows (vjp_method multi-step) carry its credit inside each window without a trace; the rule "
        "option composite=true traces it, with {} numbers: one per state and slot",
        grouped(numbers));
  }

  // A relation by way of other operators, if it is wanted and there is such a way.
  bool add_composite(const Eqn& eqn, Ways which, HiddenParamOpRelation r) {
    if (!options_.composite || !add_chains(index_, groups_, which, r)) return false;
    report_included(eqn, r);
    report_meeting_samples(eqn, r);
    found_.composite.push_back(std::move(r));
    return true;
  }

  // States that keep what y makes for later steps and are not hidden: the ring of a delay, say. No trace
  // leads through them. Ways end at hidden states, whose traces go on.
  std::string kept_states(const Var& y) const {
    const auto passes = [&](const Var& v) { return !hout_.contains(v.id); };
    const Reached reached = forward(info_.jaxpr(), {y.id}, {By::Derivative, {}, passes});
    std::string kept;
    for (std::size_t i = 0; i < info_.model.outputs.size(); ++i) {
      const OutputRecord& out = info_.model.outputs[i];
      const std::optional<StateKind> kind = state_kind(out.type);
      if (reached.holds(info_.jaxpr().outs[i]) && out.role == Role::Other && kind &&
          is_a(*kind, StateKind::ShortTerm))
        kept += (kept.empty() ? "" : ", ") + to_string(out.path);
    }
    return kept;
  }
  std::string advice_unless_kept(const Var& y, std::string advice) const {
    const std::string kept = kept_states(y);
    if (kept.empty()) return advice;
    return fmt::format(
        "later steps read {}, through which no trace leads; keep such values in hidden states (a delay: "
        "nn::DelayMemory::Hidden)",
        kept);
  }

  // Hidden states that any way leads to, other operators crossed, each way up to the first one.
  std::vector<StatePath> reached_hidden(const Var& y) const {
    const auto passes = [&](const Var& v) { return !hout_.contains(v.id); };
    const VarIds reached = forward(info_.jaxpr(), {y.id}, {By::Value, {}, passes}).values;
    std::vector<StatePath> out;
    for (const HiddenInfo& h : info_.hidden)
      if (reached.contains(h.outvar.id)) out.push_back(h.path);
    return out;
  }

  // Does another mixing operator lie between y and the state? Whether a direct way exists too was settled
  // before.
  PathClassification classify(const Var& y, const Var& hout) const {
    const std::vector<std::size_t> way = between(info_.jaxpr(), {y.id}, {hout.id});
    return std::any_of(way.begin(), way.end(), [&](std::size_t i) { return is_mixing_etp(index_.eqn(i)); })
               ? PathClassification::Mixed
               : PathClassification::AllDirect;
  }

  // The program from y to the group's exit values: what y influences without crossing a mixing operator. All
  // else is constant.
  void add_tail(const Eqn& eqn, HiddenParamOpRelation& r, const HiddenGroup& group) {
    Jaxpr tail = program_between(
        index_, r.y_var, group.hidden_outvars, [](const Eqn& e) { return !is_mixing_etp(e); },
        [](const Var&) { return true; });
    const PositionSweep sweep = sweep_positions(tail, tail.invars, group.varshape(), Compat::None);
    r.tail_reasons.push_back(sweep.preserving()     ? std::string()
                             : sweep.reason.empty() ? std::string("it mixes positions")
                                                    : sweep.reason);
    if (!compat_ && !r.tail_reasons.back().empty())
      emit(DiagnosticKind::TRANSITION_TAIL_BOUNDED, eqn,
           fmt::format("the way from {} to group {} moves or mixes positions: {}. The trace uses row sums "
                       "there, which is an approximation",
                       leaves_of(r), group.index, r.tail_reasons.back()),
           r.path(), group.hidden_paths, {{"reason", r.tail_reasons.back()}},
           advice_unless_kept(r.y_var, "apply the operation that moves positions before the operator"));
    else if (const std::string kept = compat_ ? "" : kept_states(r.y_var); !kept.empty())
      emit(DiagnosticKind::TRANSITION_TAIL_BOUNDED, eqn,
           fmt::format("the trace of {} in group {} holds what acts within the step: {} keeps more for later "
                       "steps",
                       leaves_of(r), group.index, kept),
           r.path(), group.hidden_paths, {{"reason", kept + " is no hidden state"}},
           advice_unless_kept(r.y_var, ""));
    r.y_to_hidden_group_jaxprs.push_back(std::move(tail));
  }

  void report_included(const Eqn& eqn, const HiddenParamOpRelation& r) {
    Dims groups;
    for (const std::size_t g : r.hidden_groups) groups.push_back(static_cast<std::int64_t>(g));
    const bool composite = r.path_classification.front() == PathClassification::AllThroughOtherEtp;
    emit(DiagnosticKind::RELATION_INCLUDED, eqn,
         fmt::format("{} traced through {} into {}", subject(r, "is", "are"), eqn.prim->name(),
                     path_list(r.connected_hidden_paths)) +
             (composite ? fmt::format(" by way of other trainable operators: a composite relation, whose "
                                      "traces hold {} numbers",
                                      grouped(composite_trace_numbers(r, groups_)))
                        : std::string()),
         r.path(), r.connected_hidden_paths,
         {{"hidden_group_indices", groups}, {"path_classification", Attr::dict(classification_attr(r))}});
  }

  void report_meeting_samples(const Eqn& eqn, const HiddenParamOpRelation& r) {
    for (std::size_t k = 0; k < r.tail_reasons.size(); ++k)
      if (!r.tail_reasons[k].empty())
        emit(DiagnosticKind::TRANSITION_TAIL_BOUNDED, eqn,
             fmt::format("samples may act on each other on the way from {} to group {}: {}. The trace takes "
                         "it that they do not, which is an approximation",
                         leaves_of(r), r.hidden_groups[k], r.tail_reasons[k]),
             r.path(), groups_[r.hidden_groups[k]].hidden_paths, {{"reason", r.tail_reasons[k]}},
             "let operations act on each sample alone");
  }

  void emit(DiagnosticKind kind, const Eqn& eqn, std::string message, std::optional<StatePath> weight,
            std::vector<StatePath> hidden, Attr::Dict context, std::string note = {}) {
    // The reference warns of every readout.
    const bool warns = compat_ && kind == DiagnosticKind::RELATION_EXCLUDED_NON_TEMPORAL;
    records_.push_back({kind, warns ? DiagnosticLevel::Warning : usual_level(kind), std::move(message),
                        std::string(eqn.prim->name()), std::move(weight), std::move(hidden),
                        std::move(context), std::move(note), eqn.origin});
  }

  const ModuleInfo& info_;
  const std::vector<HiddenGroup>& groups_;
  Reporter& reporter_;
  const CompileOptions& options_;
  bool compat_;
  ProgramIndex index_;
  SourceSearch sources_;
  FoundRelations found_;
  std::vector<CompilationRecord> records_;  // until all relations are found
  std::vector<std::size_t> included_;       // parallel to found_.direct: its record
  std::vector<LeftOutWay> left_out_;
  std::unordered_map<std::uint64_t, std::size_t> hout_;      // exit Var -> index into info.hidden
  std::unordered_map<std::uint64_t, std::size_t> group_of_;  // exit Var -> group
};

}  // namespace

std::string_view name(PathClassification c) {
  switch (c) {
    case PathClassification::AllDirect:
      return "all_direct";
    case PathClassification::AllThroughOtherEtp:
      return "all_through_other_etp";
    case PathClassification::Mixed:
      break;
  }
  return "mixed";
}

const TrainableSource* HiddenParamOpRelation::trainable(std::string_view key) const {
  for (const TrainableSource& t : trainables)
    if (t.key == key) return &t;
  return nullptr;
}

std::vector<HiddenParamOpRelation> find_hidden_param_op_relations_from_minfo(
    const ModuleInfo& info, const std::vector<HiddenGroup>& groups, Reporter& reporter,
    const CompileOptions& options) {
  return find_relations(info, groups, reporter, options).direct;
}

FoundRelations find_relations(const ModuleInfo& info, const std::vector<HiddenGroup>& groups,
                              Reporter& reporter, const CompileOptions& options) {
  return RelationFinder(info, groups, reporter, options).run();
}

}  // namespace etrace
