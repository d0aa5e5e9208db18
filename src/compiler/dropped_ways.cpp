// A group's transition takes the values that it does not compute for constants. Where such a constant depends
// on hidden states of the step before, that dependence is left out of the Jacobian D, and so of every trace.
// For each group: the constants that depend on them, the equations on the way there, and among these the ones
// that mix positions, which is why the way was cut. Start at find_dropped_ways.
#include "compiler/dropped_ways.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/explain_text.h"
#include "compiler/guard.h"
#include "compiler/mixing.h"
#include "compiler/trainable_source.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/primitive.h"

namespace etrace {

namespace {

using States = std::vector<bool>;  // by index into ModuleInfo::hidden; empty: none

bool some(const States& s) { return std::find(s.begin(), s.end(), true) != s.end(); }

void add(States& to, const States& more) {
  if (to.size() < more.size()) to.resize(more.size(), false);
  for (std::size_t i = 0; i < more.size(); ++i) to[i] = to[i] || more[i];
}

// For every Var, the hidden states of the step before that it depends on: by any way (`any`), and by ways
// that do not pass the new value of a state (`own`). Derivatives pass floating values only.
class PreviousStates {
 public:
  explicit PreviousStates(const ModuleInfo& info) {
    for (std::size_t i = 0; i < info.hidden.size(); ++i) {
      States self(info.hidden.size(), false);
      self[i] = true;
      any_[info.hidden[i].invar.id] = own_[info.hidden[i].invar.id] = self;
    }
    for (const Eqn& eqn : info.jaxpr().eqns) {
      if (eqn.prim->spec.ends_derivatives) continue;
      States any, own;
      for (const Atom& a : eqn.in) {
        add(any, look(any_, a));
        add(own, look(own_, a));
      }
      for (const Var& v : eqn.out) {
        if (!is_floating(v.aval.dtype)) continue;
        if (some(any)) any_[v.id] = any;
        if (some(own)) (info.hidden_of_outvar(v) == nullptr ? own_ : arriving_)[v.id] = own;
      }
    }
  }
  const States& any(const Atom& a) const { return look(any_, a); }
  const States& own(const Atom& a) const { return look(own_, a); }
  // What `own` would be for the new value of a state, which stands for itself.
  const States& arriving(const Atom& a) const { return look(arriving_, a); }

 private:
  using Table = std::unordered_map<std::uint64_t, States>;
  static const States& look(const Table& table, const Atom& a) {
    static const States none;
    const Var* v = as_var(a);
    const auto it = v == nullptr ? table.end() : table.find(v->id);
    return it == table.end() ? none : it->second;
  }
  Table any_, own_, arriving_;
};

class WaySearch {
 public:
  WaySearch(const ModuleInfo& info, const CompileOptions& options)
      : info_(info),
        compat_(options.compat == Compat::Braintrace),
        index_(info.jaxpr()),
        previous_(info),
        sources_(info, index_, compat_) {}

  std::vector<DroppedWay> of(const HiddenGroup& group) const {
    States members(info_.hidden.size(), false);
    for (std::size_t i = 0; i < info_.hidden.size(); ++i) members[i] = in_group(group, info_.hidden[i].path);
    // Equations on the way from such states to a constant of the transition, last first.
    VarIds needed;
    for (const Var& v : group.transition_jaxpr.constvars)
      if (some(states_in(v, members)) || (is_exit(group, v) && some(previous_.arriving(v))))
        needed.insert(v.id);
    const VarIds leaks = needed;
    std::vector<std::size_t> way, mixing;
    for (std::size_t i = needed.empty() ? 0 : info_.jaxpr().eqns.size(); i-- > 0;) {
      const Eqn& eqn = index_.eqn(i);
      if (eqn.prim->spec.ends_derivatives || !produces(eqn, needed)) continue;
      std::vector<bool> hidden;
      for (const Atom& a : eqn.in) {
        hidden.push_back(some(states_in(a, members)));
        if (hidden.back()) needed.insert(as_var(a)->id);
      }
      if (std::find(hidden.begin(), hidden.end(), true) == hidden.end()) continue;
      way.push_back(i);
      if (mixes(eqn, hidden)) mixing.push_back(i);
    }
    // Without a product it is the shapes that keep the states apart: the first equation stands for the way.
    if (mixing.empty() && !way.empty()) mixing.push_back(way.back());
    std::vector<DroppedWay> out;
    for (std::size_t k = mixing.size(); k-- > 0;) {
      const Eqn& eqn = index_.eqn(mixing[k]);
      out.push_back(describe(eqn, eqn.in, group, members));
    }
    if (out.empty())
      for (const Eqn& eqn : group.transition_jaxpr.eqns) {  // it may be the transition's own equation
        std::vector<Atom> read;
        for (const Atom& a : eqn.in)
          if (const Var* v = as_var(a); v != nullptr && leaks.contains(v->id)) read.push_back(a);
        if (!read.empty()) out.push_back(describe(eqn, read, group, members));
      }
    return out;
  }

 private:
  static bool in_group(const HiddenGroup& g, const StatePath& path) {
    return std::find(g.hidden_paths.begin(), g.hidden_paths.end(), path) != g.hidden_paths.end();
  }
  static bool is_exit(const HiddenGroup& g, const Var& v) {
    return std::find(g.hidden_outvars.begin(), g.hidden_outvars.end(), v) != g.hidden_outvars.end();
  }
  static bool produces(const Eqn& eqn, const VarIds& needed) {
    return std::any_of(eqn.out.begin(), eqn.out.end(), [&](const Var& v) { return needed.contains(v.id); });
  }

  // Previous states whose influence on a group's new ones belongs into its transition: its own by any way. Of
  // others only what has not become a new state yet; the rest is a layer below, which acts within the step.
  States states_in(const Atom& a, const States& members) const {
    States out = previous_.own(a);
    States within = previous_.any(a);
    for (std::size_t i = 0; i < within.size(); ++i) within[i] = within[i] && members[i];
    add(out, within);
    return out;
  }

  bool mixes(const Eqn& eqn, const std::vector<bool>& hidden) const {
    return is_mixing_etp(eqn) || eqn.prim->spec.product ||
           (is_control_flow(eqn) && body_mixes(eqn, hidden, !compat_));
  }

  // `read` are the operands by which the way enters.
  DroppedWay describe(const Eqn& eqn, const std::vector<Atom>& read, const HiddenGroup& group,
                      const States& members) const {
    DroppedWay way;
    way.eqn_id = eqn.id;
    way.primitive = eqn.prim;
    way.origin = eqn.origin;
    way.weight_path = weight_of(eqn, members);
    States from, own;
    for (const Atom& a : read) {
      add(from, states_in(a, members));
      add(own, previous_.own(a));
    }
    way.kept_when_coupled = eqn.prim->spec.product || some(own);
    for (std::size_t i = 0; i < from.size(); ++i) {
      if (!from[i]) continue;
      way.from.push_back(info_.hidden[i].path);
      way.kept_when_coupled = way.kept_when_coupled && info_.hidden[i].varshape == group.varshape();
    }
    way.to = reached_states(eqn, group, true);
    if (way.to.empty()) way.to = reached_states(eqn, group, false);
    return way;
  }

  // The parameter that the equation multiplies hidden values by.
  std::optional<StatePath> weight_of(const Eqn& eqn, const States& members) const {
    if (const EtpRules* rules = etp_rules(*eqn.prim)) {
      for (const Trainable& t : rules->trainables(eqn.params))
        if (auto path = parameter_behind(eqn.in[t.operand])) return path;
    } else if (eqn.prim->spec.product) {
      for (const Atom& a : eqn.in)
        if (!some(states_in(a, members)))
          if (auto path = parameter_behind(a)) return path;
    }
    return std::nullopt;
  }
  std::optional<StatePath> parameter_behind(const Atom& a) const {
    TrainableSource source;
    std::string ambiguous;
    return sources_.resolve(a, source, ambiguous) ? std::optional(source.path) : std::nullopt;
  }

  // States of the group that depend on the equation's results; `first` ends each way at the first new state.
  std::vector<StatePath> reached_states(const Eqn& eqn, const HiddenGroup& group, bool first) const {
    const auto passes = [&](const Var& v) { return !first || info_.hidden_of_outvar(v) == nullptr; };
    VarIds from, arrived;
    for (const Var& v : eqn.out)
      if (is_floating(v.aval.dtype)) (passes(v) ? from : arrived).insert(v.id);
    Reached reached = forward(info_.jaxpr(), std::move(from), {By::Derivative, {}, passes});
    reached.values.merge(arrived);
    std::vector<StatePath> out;
    for (std::size_t i = 0; i < group.hidden_outvars.size(); ++i)
      if (reached.holds(group.hidden_outvars[i])) out.push_back(group.hidden_paths[i]);
    return out;
  }

  const ModuleInfo& info_;
  bool compat_;
  ProgramIndex index_;
  PreviousStates previous_;
  SourceSearch sources_;
};

Attr path_attr(const std::vector<StatePath>& paths) {
  Attr::List names;
  for (const StatePath& p : paths) names.emplace_back(to_string(p));
  return Attr::list(names);
}

}  // namespace

std::string scope_name(const CompileOptions& o) {
  if (o.sparse_n) return fmt::format("snap{}", *o.sparse_n);
  return o.include_recurrent_mixing ? "coupled" : "diagonal";
}

namespace {
bool is_plain(const DroppedWay& way) { return way.primitive->spec.product; }
}  // namespace

bool is_product(const DroppedWay& way) { return is_plain(way) || is_etp(*way.primitive); }

std::string operators_text(const std::vector<const DroppedWay*>& ways, std::size_t most) {
  std::vector<std::pair<std::string, std::vector<std::string>>> kinds;  // operator -> weights
  for (const DroppedWay* way : ways) {
    const std::string op = (is_plain(*way) ? "plain " : "") + std::string(way->primitive->name());
    auto it = std::find_if(kinds.begin(), kinds.end(), [&](const auto& k) { return k.first == op; });
    if (it == kinds.end()) it = kinds.insert(it, {op, {}});
    if (!way->weight_path) continue;
    std::string weight = to_string(*way->weight_path);
    if (std::find(it->second.begin(), it->second.end(), weight) == it->second.end())
      it->second.push_back(std::move(weight));
  }
  std::vector<std::string> parts;
  for (const auto& [op, weights] : kinds)
    parts.push_back(weights.empty() ? op : op + " of " + short_list(weights, most));
  return join(parts, "; ");
}

std::string operator_text(const DroppedWay& way) { return operators_text({&way}, 1); }

void find_dropped_ways(const ModuleInfo& info, std::vector<HiddenGroup>& groups,
                       const CompileOptions& options) {
  const WaySearch search(info, options);
  for (HiddenGroup& g : groups) g.dropped = search.of(g);
}

void report_dropped_ways(const HiddenGroup& group, const CompileOptions& options, Reporter& reporter) {
  if (options.compat == Compat::Braintrace) return;
  for (const DroppedWay& way : group.dropped) {
    std::vector<StatePath> states = way.from;
    for (const StatePath& p : way.to)
      if (std::find(states.begin(), states.end(), p) == states.end()) states.push_back(p);
    reporter.emit({DiagnosticKind::RECURRENCE_DROPPED,
                   DiagnosticLevel::Info,
                   fmt::format("{} at t-1 acts on {} at t through {}; in scope {} the transition of group {} "
                               "leaves that out, so no trace follows it",
                               path_list(way.from), path_list(way.to), operator_text(way),
                               scope_name(options), group.index),
                   std::string(way.primitive->name()),
                   way.weight_path,
                   std::move(states),
                   {{"group", group.index},
                    {"from", path_attr(way.from)},
                    {"to", path_attr(way.to)},
                    {"trainable", is_etp(*way.primitive)}},
                   !options.include_recurrent_mixing && way.kept_when_coupled
                       ? "a rule in coupled scope keeps each position's own share of it"
                       : "",
                   way.origin});
  }
}

}  // namespace etrace
