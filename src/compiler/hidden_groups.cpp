// Pass 2: hidden states that are updated together, and the program that takes them from step t-1 to step t.
// A tracer follows one hidden state from step entry through the equations; the states whose exit value it
// reaches form a group with it. Start at find_hidden_groups_from_minfo.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "compiler/dropped_ways.h"
#include "compiler/guard.h"
#include "compiler/mixing.h"
#include "compiler/position_graph.h"
#include "compiler/program_index.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

namespace {

// Everything that one hidden state reaches within a step.
struct Tracer {
  std::size_t hidden;                // index into info.hidden
  std::vector<std::size_t> reached;  // hidden states whose exit value depends on it, in order of meeting
  VarIds derived;                    // Vars computed from it
  VarIds own;                        // those of them reached without passing a state's exit value
  std::vector<std::size_t> trace;    // equations on the way, in program order
};

class Walk {
 public:
  Walk(const ModuleInfo& info, Reporter& reporter, const CompileOptions& options)
      : info_(info), reporter_(reporter), options_(options), compat_(options.compat == Compat::Braintrace) {
    for (std::size_t i = 0; i < info.hidden.size(); ++i) {
      hin_.emplace(info.hidden[i].invar.id, i);
      hout_.insert_or_assign(info.hidden[i].outvar.id, i);
    }
  }

  // Tracers in order of first use.
  std::vector<Tracer> run() {
    for (std::size_t i = 0; i < info_.jaxpr().eqns.size(); ++i) visit(i);
    return std::move(tracers_);
  }

 private:
  bool diagonal_scope() const { return !options_.include_recurrent_mixing; }

  void visit(std::size_t index) {
    const Eqn& eqn = info_.jaxpr().eqns[index];
    if (info_.is_descended(eqn)) return;
    guard_control_flow(eqn, info_, reporter_);
    if (eqn.prim->spec.ends_derivatives) return;
    if (diagonal_scope() && is_boundary(eqn)) return;
    use_directly(eqn, index);
    use_indirectly(eqn, index);
  }

  bool is_boundary(const Eqn& eqn) {
    if (is_mixing_etp(eqn)) return true;
    if (eqn.prim->spec.product) return reads_hidden(eqn);
    if (!is_control_flow(eqn)) return false;
    std::vector<bool> hidden;
    for (const Atom& a : eqn.in) hidden.push_back(is_hidden(a));
    if (!body_mixes(eqn, hidden, /*count_etp=*/!compat_)) return false;
    const std::string op(eqn.prim->name());
    reporter_.emit(
        {DiagnosticKind::CONTROL_FLOW_RECURRENT_MIXING,
         DiagnosticLevel::Warning,
         fmt::format("the body of a {} mixes positions of a hidden state; its recurrence is cut here", op),
         op,
         {},
         {},
         {{"op_name", op}},
         "use a rule in coupled scope to keep it",
         eqn.origin});
    return true;
  }

  bool is_hidden(const Atom& a) const {
    const Var* v = as_var(a);
    return v != nullptr && (hin_.contains(v->id) || derived_by_.contains(v->id));
  }
  bool reads_hidden(const Eqn& eqn) const {
    return std::any_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) { return is_hidden(a); });
  }

  std::size_t tracer_of(std::size_t hidden) {
    const auto [it, fresh] = tracer_of_state_.emplace(hidden, tracers_.size());
    if (fresh) tracers_.push_back({hidden, {}, {}, {}, {}});
    return it->second;
  }

  void derive(std::size_t tracer, const Var& v) {
    if (tracers_[tracer].derived.insert(v.id).second) derived_by_[v.id].push_back(tracer);
  }

  void use_directly(const Eqn& eqn, std::size_t index) {
    std::vector<std::size_t> direct;  // with multiplicity
    for (const Atom& a : eqn.in)
      if (const Var* v = as_var(a))
        if (const auto it = hin_.find(v->id); it != hin_.end()) direct.push_back(it->second);
    if (compat_ && direct.size() >= 2)
      throw ValueError(
          "hidden_groups",
          fmt::format("equation '{}' reads two hidden states; stack them in one HiddenGroupState",
                      eqn.prim->name()),
          eqn.origin);
    for (std::size_t k = 0; k < direct.size(); ++k) {
      if (std::find(direct.begin(), direct.begin() + static_cast<std::ptrdiff_t>(k), direct[k]) !=
          direct.begin() + static_cast<std::ptrdiff_t>(k))
        continue;  // h * h uses h once
      const std::size_t index_of = tracer_of(direct[k]);
      Tracer& t = tracers_[index_of];
      t.trace.push_back(index);
      for (const Var& v : eqn.out) {
        const bool is_exit = add_reached(t, v);
        // The reference does not follow an exit value that comes straight from the state.
        if (compat_ && is_exit) continue;
        derive(index_of, v);
        if (!is_exit) t.own.insert(v.id);
      }
    }
  }

  // Tracers that one of the operands comes from, in order of creation.
  std::vector<std::size_t> readers(const Eqn& eqn) const {
    std::vector<std::size_t> found;
    for (const Atom& a : eqn.in)
      if (const Var* v = as_var(a))
        if (const auto it = derived_by_.find(v->id); it != derived_by_.end())
          found.insert(found.end(), it->second.begin(), it->second.end());
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
    return found;
  }

  void use_indirectly(const Eqn& eqn, std::size_t index) {
    for (const std::size_t reader : readers(eqn)) {
      Tracer& t = tracers_[reader];
      bool reads_own = false;
      for (const Atom& a : eqn.in)
        if (const Var* v = as_var(a))
          reads_own = reads_own || t.own.contains(v->id) || v->id == info_.hidden[t.hidden].invar.id;
      // From a state's new value into a mixing operator: that leads on to the next layer, not around the
      // loop.
      if (!compat_ && is_mixing_etp(eqn) && !reads_own) continue;
      if (t.trace.empty() || t.trace.back() != index) t.trace.push_back(index);
      for (const Var& v : eqn.out) {
        const bool is_exit = add_reached(t, v);
        derive(reader, v);
        if (reads_own && !is_exit) t.own.insert(v.id);
      }
    }
  }

  bool add_reached(Tracer& t, const Var& v) const {
    const auto it = hout_.find(v.id);
    if (it == hout_.end()) return false;
    if (std::find(t.reached.begin(), t.reached.end(), it->second) == t.reached.end())
      t.reached.push_back(it->second);
    return true;
  }

  const ModuleInfo& info_;
  Reporter& reporter_;
  const CompileOptions& options_;
  bool compat_;
  std::unordered_map<std::uint64_t, std::size_t> hin_, hout_;
  std::vector<Tracer> tracers_;
  std::unordered_map<std::size_t, std::size_t> tracer_of_state_;            // hidden state -> tracer
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> derived_by_;  // Var -> tracers it comes from
};

// The reference's idea of a layer: paths that part at an integer belong to different ones.
bool same_layer(const StatePath& a, const StatePath& b) {
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    if (a[i] == b[i]) continue;
    return !std::holds_alternative<std::int64_t>(a[i]) && !std::holds_alternative<std::int64_t>(b[i]);
  }
  return true;
}

struct Slice {
  std::size_t hidden;
  std::vector<std::size_t> keep;  // hidden states it stays connected to
  std::vector<std::size_t> eqns;  // what leads there, in program order
};

// The part of a tracer that matters to its group; empty keep: it reaches no state of its kind.
Slice slice_of(const Tracer& t, const ModuleInfo& info, bool compat) {
  Slice s{t.hidden, {}, {}};
  for (const std::size_t other : t.reached) {
    const HiddenInfo &a = info.hidden[t.hidden], &b = info.hidden[other];
    if (a.varshape == b.varshape && (!compat || same_layer(a.path, b.path))) s.keep.push_back(other);
  }
  VarIds needed;
  for (const std::size_t k : s.keep) needed.insert(info.hidden[k].outvar.id);
  for (std::size_t i = t.trace.size(); i-- > 0;) {
    const Eqn& eqn = info.jaxpr().eqns[t.trace[i]];
    if (std::none_of(eqn.out.begin(), eqn.out.end(), [&](const Var& v) { return needed.contains(v.id); }))
      continue;
    s.eqns.push_back(t.trace[i]);
    for (const Atom& a : eqn.in)
      if (const Var* v = as_var(a)) needed.insert(v->id);
  }
  std::reverse(s.eqns.begin(), s.eqns.end());
  return s;
}

// Disjoint sets over hidden states, each labelled by its smallest member.
class Union {
 public:
  explicit Union(std::size_t n) : parent_(n) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t find(std::size_t i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  void unite(std::size_t a, std::size_t b) {
    a = find(a);
    b = find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

// Equations in program order as a program from the group's entry values to its exit values; the rest are
// constants.
Jaxpr transition_program(const HiddenGroup& group, const std::vector<std::size_t>& eqns,
                         const Jaxpr& program) {
  Jaxpr t;
  t.invars = group.hidden_invars;
  VarIds known;
  for (const Var& v : t.invars) known.insert(v.id);
  auto need = [&](const Atom& a) {
    const Var* v = as_var(a);
    if (v != nullptr && known.insert(v->id).second) t.constvars.push_back(*v);
  };
  for (const std::size_t i : eqns) {
    const Eqn& eqn = program.eqns[i];
    for (const Atom& a : eqn.in) need(a);
    for (const Var& v : eqn.out) known.insert(v.id);
    t.eqns.push_back(eqn);
  }
  for (const Var& v : group.hidden_outvars) {
    need(v);  // a state that is computed outside is a constant of the transition
    t.outs.emplace_back(v);
  }
  return t;
}

// The states of a group stand side by side in one array.
void require_one_type(const std::vector<std::size_t>& members, const ModuleInfo& info) {
  const HiddenInfo& first = info.hidden[members.front()];
  for (const std::size_t m : members) {
    const HiddenInfo& other = info.hidden[m];
    if (other.invar.aval.dtype == first.invar.aval.dtype) continue;
    throw CompilationError(
        "hidden_groups",
        fmt::format(
            "hidden states {} ({}) and {} ({}) act on each other within a step and so form one group, "
            "whose states must have one element type; convert one of them",
            to_string(first.path), to_string(first.invar.aval), to_string(other.path),
            to_string(other.invar.aval)));
  }
}

HiddenGroup make_group(std::size_t index, const std::vector<std::size_t>& members, const ModuleInfo& info) {
  HiddenGroup g;
  g.index = index;
  for (const std::size_t m : members) {
    const HiddenInfo& h = info.hidden[m];
    g.hidden_paths.push_back(h.path);
    g.hidden_states.push_back(h);
    g.hidden_invars.push_back(h.invar);
    g.hidden_outvars.push_back(h.outvar);
  }
  const Shape positions = g.varshape();
  if (info.batch_size && !positions.is_scalar() && positions[0] == *info.batch_size)
    g.batch_size = info.batch_size;
  return g;
}

void analyse_positions(HiddenGroup& group, Reporter& reporter, const CompileOptions& options) {
  if (options.compat == Compat::Braintrace) {
    group.is_diagonal_recurrence = !options.include_recurrent_mixing;
  } else {
    const PositionSweep sweep =
        sweep_positions(group.transition_jaxpr, group.hidden_invars, group.varshape(), options.compat);
    group.is_diagonal_recurrence = sweep.preserving();
    group.mixing_reason = sweep.mixing != nullptr
                              ? fmt::format("'{}' mixes positions", sweep.mixing->prim->name())
                              : sweep.reason;
    if (!group.is_diagonal_recurrence && !options.include_recurrent_mixing)
      reporter.emit({DiagnosticKind::TRANSITION_MIXES_POSITIONS,
                     DiagnosticLevel::Info,
                     fmt::format("the transition of group {} couples positions: {}. The per-position blocks "
                                 "of its Jacobian are used",
                                 group.index, group.mixing_reason),
                     {},
                     {},
                     group.hidden_paths,
                     {{"reason", group.mixing_reason}},
                     "a rule in coupled or sparse scope keeps more of it",
                     {}});
  }
  if (!options.sparse_n || *options.sparse_n < 2) return;
  group.snap = position_pattern(group, *options.sparse_n, options);
  const PositionPattern& p = *group.snap;
  if (p.conservative)
    reporter.emit(
        {DiagnosticKind::SNAP_PATTERN_CONSERVATIVE,
         DiagnosticLevel::Warning,
         fmt::format("group {}: all positions are taken to influence each other: {}", group.index, p.reason),
         {},
         {},
         group.hidden_paths,
         {{"num_neighbour", p.num_neighbour()}, {"num_position", p.neighbours.size()}, {"sparse_n", p.n}},
         {},
         {}});
  else if (p.degenerate())
    reporter.emit(
        {DiagnosticKind::SNAP_PATTERN_DEGENERATE,
         DiagnosticLevel::Info,
         fmt::format(
             "group {}: no position influences another, so SnAp keeps K=1 and equals the diagonal rule",
             group.index),
         {},
         {},
         group.hidden_paths,
         {{"sparse_n", p.n}},
         {},
         {}});
}

}  // namespace

std::vector<HiddenGroup> find_hidden_groups_from_minfo(const ModuleInfo& info, Reporter& reporter,
                                                       const CompileOptions& options) {
  std::vector<HiddenGroup> groups = find_groups(info, reporter, options);
  for (const HiddenGroup& g : groups) report_dropped_ways(g, options, reporter);
  return groups;
}

std::vector<HiddenGroup> find_groups(const ModuleInfo& info, Reporter& reporter,
                                     const CompileOptions& options) {
  const bool compat = options.compat == Compat::Braintrace;
  const std::vector<Tracer> tracers = Walk(info, reporter, options).run();
  Union sets(info.hidden.size());
  std::vector<std::vector<std::size_t>> eqns(info.hidden.size());  // of each state's slice
  std::vector<bool> connected(info.hidden.size(), false);
  for (const Tracer& t : tracers) {
    Slice s = slice_of(t, info, compat);
    if (s.keep.empty()) continue;
    connected[t.hidden] = true;
    for (const std::size_t k : s.keep) {
      connected[k] = true;
      sets.unite(t.hidden, k);
    }
    eqns[t.hidden] = std::move(s.eqns);
  }

  std::map<std::size_t, std::vector<std::size_t>> members;  // by first member: compiled order
  for (std::size_t i = 0; i < info.hidden.size(); ++i)
    if (connected[i]) members[sets.find(i)].push_back(i);

  std::vector<HiddenGroup> groups;
  for (const auto& [first, states] : members) {
    require_one_type(states, info);
    HiddenGroup g = make_group(groups.size(), states, info);
    std::vector<std::size_t> all;
    for (const std::size_t m : states) all.insert(all.end(), eqns[m].begin(), eqns[m].end());
    std::sort(all.begin(), all.end());
    all.erase(std::unique(all.begin(), all.end()), all.end());
    g.transition_jaxpr = transition_program(g, all, info.jaxpr());
    analyse_positions(g, reporter, options);
    if (states.size() > 1)
      reporter.emit(
          {DiagnosticKind::HIDDEN_GROUP_MERGED,
           DiagnosticLevel::Info,
           fmt::format("{} hidden states are updated together and form group {}", states.size(), g.index),
           {},
           {},
           g.hidden_paths,
           {},
           {},
           {}});
    groups.push_back(std::move(g));
  }
  VarIds descended;  // states of scans that are traced inside get their groups there
  if (!info.descended_scans.empty())
    for (const Eqn& e : info.jaxpr().eqns)
      if (info.is_descended(e))
        for (const Var& v : e.out) descended.insert(v.id);
  // States without a recurrence of their own: the Jacobian is exactly zero.
  for (std::size_t i = 0; i < info.hidden.size(); ++i) {
    if (connected[i] || descended.contains(info.hidden[i].outvar.id)) continue;
    HiddenGroup g = make_group(groups.size(), {i}, info);
    g.transition_jaxpr = transition_program(g, {}, info.jaxpr());
    groups.push_back(std::move(g));
  }
  find_dropped_ways(info, groups, options);
  return groups;
}

}  // namespace etrace
