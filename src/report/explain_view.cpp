// Arranges a graph for showing; see the header.
#include "report/explain_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <unordered_set>

#include "compiler/credit.h"
#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "core/flow.h"

namespace etrace {

namespace {

// The binders "a:f32[3]" of a piece of printed text, in order.
std::vector<std::string> binder_names(std::string_view text) {
  std::vector<std::string> names;
  std::istringstream in{std::string(text)};
  for (std::string word; in >> word;)
    if (const std::size_t colon = word.find(':'); colon != std::string::npos)
      names.push_back(word.substr(0, colon));
  return names;
}

// An equation stands four spaces deep and starts with the name of a result; what its parameters spread over
// further lines is deeper or starts with a bracket.
bool starts_equation(const std::string& line) {
  return line.size() > 4 && line.compare(0, 4, "    ") == 0 &&
         ((line[4] >= 'a' && line[4] <= 'z') || line[4] == '=');
}

using Sources = std::vector<bool>;  // 2g: group g at t-1; 2g + 1: at t

// For each Var, which hidden values it depends on within the step. A new hidden value stands for itself: what
// it was made of does not count.
class HiddenSources {
 public:
  explicit HiddenSources(const ETraceGraph& graph) : width_(2 * graph.hidden_groups.size()) {
    std::unordered_map<std::uint64_t, std::size_t> now;
    for (const HiddenGroup& g : graph.hidden_groups) {
      for (const HiddenInfo& h : g.hidden_states) {
        set(h.invar, 2 * g.index);
        now.emplace(h.outvar.id, 2 * g.index + 1);
      }
    }
    for (const Eqn& eqn : graph.module_info.jaxpr().eqns) {
      Sources all;
      for (const Atom& a : eqn.in)
        if (const Var* v = as_var(a)) unite(all, of(*v));
      for (const Var& v : eqn.out) {
        if (const auto it = now.find(v.id); it != now.end())
          set(v, it->second);
        else if (!all.empty())
          sources_[v.id] = all;
      }
    }
  }

  std::vector<ExplainView::Read> reads(const Var& v) const {
    std::vector<ExplainView::Read> out;
    const Sources& s = of(v);
    for (std::size_t i = 0; i < s.size(); ++i)
      if (s[i]) out.push_back({i / 2, i % 2 == 0});
    return out;
  }

 private:
  const Sources& of(const Var& v) const {
    static const Sources none;
    const auto it = sources_.find(v.id);
    return it == sources_.end() ? none : it->second;
  }
  void set(const Var& v, std::size_t source) {
    Sources& s = sources_[v.id];
    s.resize(width_);
    s[source] = true;
  }
  void unite(Sources& into, const Sources& s) const {
    if (s.empty()) return;
    into.resize(width_);
    for (std::size_t i = 0; i < s.size(); ++i) into[i] = into[i] || s[i];
  }

  std::size_t width_;
  std::unordered_map<std::uint64_t, Sources> sources_;
};

std::vector<StatePath> paths_of(const TrainableSource& t) {
  std::vector<StatePath> out{t.path};
  for (const auto& [path, leaf] : t.leaves)
    if (std::find(out.begin(), out.end(), path) == out.end()) out.push_back(path);
  return out;
}

const CompilationRecord* record_of(const ETraceGraph& graph, const StatePath& path,
                                   std::optional<DiagnosticKind> kind) {
  for (const CompilationRecord& d : graph.diagnostics)
    if (d.kind == kind && d.weight_path == path) return &d;
  return nullptr;
}

}  // namespace

ProgramText::ProgramText(const Jaxpr& jaxpr) {
  std::istringstream in(to_string(jaxpr));
  std::getline(in, head);
  bool body = true;
  for (std::string line; std::getline(in, line);) {
    if (starts_equation(line)) {
      equations.push_back(line.substr(4));
    } else if (line.compare(0, 5, "  in ") == 0) {
      foot = line.substr(2);
      body = false;
    } else if (body && !equations.empty()) {
      equations.back() += "\n" + line.substr(std::min<std::size_t>(4, line.size()));
    }
  }
  if (jaxpr.eqns.empty()) {  // one line: "… let in (…) }"
    const std::size_t at = head.rfind(" in (");
    foot = head.substr(at + 1);
    head.resize(at);
  }
  ETRACE_CHECK(equations.size() == jaxpr.eqns.size());

  const auto assign = [&](const std::vector<Var>& vars, const std::vector<std::string>& names,
                          std::size_t first) {
    for (std::size_t i = 0; i < vars.size() && first + i < names.size(); ++i)
      names_.emplace(vars[i].id, names[first + i]);
  };
  const std::vector<std::string> inputs = binder_names(head);
  assign(jaxpr.constvars, inputs, 0);
  assign(jaxpr.invars, inputs, jaxpr.constvars.size());
  for (std::size_t i = 0; i < equations.size(); ++i)
    assign(jaxpr.eqns[i].out,
           binder_names(std::string_view(equations[i]).substr(0, equations[i].find(" = "))), 0);
}

const std::string& ProgramText::name_of(const Var& v) const {
  static const std::string unknown = "?";
  const auto it = names_.find(v.id);
  return it == names_.end() ? unknown : it->second;
}

std::vector<std::string> ExplainView::Weight::excluded_leaves() const {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < leaf_learned.size(); ++i)
    if (!leaf_learned[i]) names.push_back(leaf_text(info->path, info->leaf_keys[i]));
  return names;
}

std::string ExplainView::Weight::why() const {
  if (record != nullptr) return record->message;
  return std::string(reason ? meaning(*reason) : kNoOperator);
}

std::string ExplainView::Weight::advice() const {
  if (record != nullptr) return record->note;
  return reason ? std::string() : std::string(kNoOperatorAdvice);
}

std::vector<std::string> ExplainView::Relation::keys_of(const ExplainView& view, std::size_t weight) const {
  std::vector<std::string> keys;
  for (const TrainableSource& t : info->trainables)
    for (const StatePath& p : paths_of(t))
      if (p == view.weights[weight].info->path) keys.push_back(t.key);
  return keys;
}

ExplainView::ExplainView(const ETraceGraph& g)
    : graph(g),
      report(g),
      program(g.module_info.jaxpr()),
      readouts(g.options.compat == Compat::None ? leaky_readouts(g) : std::vector<LeakyReadout>()),
      scopes(scope_costs(g)) {
  std::unordered_map<std::string, std::size_t> index_of_path;
  for (const WeightInfo& w : g.module_info.weights) {
    index_of_path.emplace(to_string(w.path), weights.size());
    weights.push_back({&w, {}, std::vector<bool>(w.invars.size(), false), std::nullopt, nullptr});
  }
  for (const CompilationReport::Excluded& e : report.excluded_weights) {
    Weight& w = weights[index_of_path.at(to_string(e.path))];
    w.reason = e.reason;
    if (e.reason) w.record = record_of(g, e.path, e.reason);
  }

  std::unordered_map<std::uint64_t, std::size_t> position;
  for (std::size_t i = 0; i < g.module_info.jaxpr().eqns.size(); ++i)
    position.emplace(g.module_info.jaxpr().eqns[i].id, i);
  relations_at.resize(g.module_info.jaxpr().eqns.size());
  const HiddenSources sources(g);
  const std::vector<const HiddenParamOpRelation*> all = g.all_relations();
  const std::vector<TraceWithoutSignal> silent = traces_without_signal(g);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const HiddenParamOpRelation& info = *all[i];
    Relation r{&info, std::nullopt, {}, relation_slots(g, info), {}};
    r.has_signal = std::none_of(silent.begin(), silent.end(),
                                [&](const TraceWithoutSignal& s) { return s.relation == i; });
    const auto& scan = info.control_flow_context;
    if (const auto it = position.find(scan ? scan->eqn_id : info.eqn_id); it != position.end())
      r.equation = it->second;
    if (info.x_var) {
      const Var* outer = scan ? scan->outer(*info.x_var) : nullptr;
      r.reads = sources.reads(outer != nullptr ? *outer : *info.x_var);
    }
    for (const TrainableSource& t : info.trainables)
      for (const StatePath& p : paths_of(t)) {
        const auto it = index_of_path.find(to_string(p));
        if (it == index_of_path.end()) continue;
        if (std::find(r.weights.begin(), r.weights.end(), it->second) != r.weights.end()) continue;
        r.weights.push_back(it->second);
        weights[it->second].relations.push_back(i);
      }
    if (r.has_signal)
      for (const TrainableSource& t : info.trainables) mark_learned(t, index_of_path);
    if (r.equation) relations_at[*r.equation].push_back(i);
    if (i == 0) number_bytes = static_cast<std::int64_t>(size_of(info.y_var.aval.dtype));
    relations.push_back(std::move(r));
  }
  memory = rules_alike(report.memory);
}

void ExplainView::mark_learned(const TrainableSource& t,
                               const std::unordered_map<std::string, std::size_t>& index_of_path) {
  auto leaves = t.leaves;
  if (leaves.empty()) leaves.emplace_back(t.path, t.leaf);
  for (const auto& [path, leaf] : leaves)
    if (const auto it = index_of_path.find(to_string(path)); it != index_of_path.end()) {
      std::vector<bool>& learned = weights[it->second].leaf_learned;
      if (static_cast<std::size_t>(leaf) < learned.size()) learned[static_cast<std::size_t>(leaf)] = true;
    }
}

std::size_t ExplainView::num_leaves() const {
  std::size_t n = 0;
  for (const Weight& w : weights) n += w.leaf_learned.size();
  return n;
}

std::size_t ExplainView::num_learned() const {
  std::size_t n = 0;
  for (const Weight& w : weights)
    n += static_cast<std::size_t>(std::count(w.leaf_learned.begin(), w.leaf_learned.end(), true));
  return n;
}

namespace {

std::string dropped_words(const std::vector<const DroppedWay*>& ways) {
  if (!std::all_of(ways.begin(), ways.end(), [](const DroppedWay* way) { return is_product(*way); }))
    return "part of the recurrence is";
  return ways.size() == 1 ? "the recurrent product is" : "the recurrent products are";
}

}  // namespace

std::string ExplainView::summary() const {
  if (weights.empty()) return "The model has no parameters.";
  std::string text =
      fmt::format("{} of {} {} learned online", num_learned(), counted(num_leaves(), "parameter"),
                  num_learned() == 1 || num_leaves() == 1 ? "is" : "are");
  if (!relations.empty())
    text += fmt::format(", through {}, into {}", counted(relations.size(), "operator"),
                        counted(graph.hidden_groups.size(), "hidden group"));
  text += ".";
  if (report.warnings + report.errors > 0)
    text += fmt::format(" {}{}{}.", report.warnings > 0 ? counted(report.warnings, "warning") : "",
                        report.warnings > 0 && report.errors > 0 ? ", " : "",
                        report.errors > 0 ? counted(report.errors, "error") : "");
  if (const auto ways = dropped(); !ways.empty())
    text += fmt::format(
        " In scope {} {} left out: no trace follows what the hidden states pass on to the next step through "
        "{}.",
        scope_name(graph.options), dropped_words(ways), operators_text(ways, 4));
  return text;
}

std::string ExplainView::leaf_name(const StatePath& path, std::int64_t leaf) const {
  return graph.module_info.leaf_name(path, leaf);
}

std::string ExplainView::source_text(const TrainableSource& t) const {
  return join(graph.module_info.leaf_names(t));
}

std::vector<std::string> ExplainView::Relation::leaves(const ExplainView& view) const {
  std::vector<std::string> names;
  for (const TrainableSource& t : info->trainables)
    for (std::string& name : view.graph.module_info.leaf_names(t))
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
  return names;
}

std::vector<const DroppedWay*> ExplainView::dropped() const {
  std::vector<const DroppedWay*> out;
  for (const HiddenGroup& g : graph.hidden_groups)
    for (const DroppedWay& way : g.dropped) out.push_back(&way);
  return out;
}

bool ExplainView::recurs(const HiddenGroup& g) {
  const Jaxpr& t = g.transition_jaxpr;
  const Reached reached = forward(t, ids_of(t.invars));
  return std::any_of(t.outs.begin(), t.outs.end(), [&](const Atom& a) { return reached.holds(a); });
}

std::string ExplainView::recurrence(const HiddenGroup& g) const {
  std::string text;
  if (!recurs(g))
    text =
        g.dropped.empty() ? "nothing of the step before comes back" : "nothing of the step before is traced";
  else if (g.is_diagonal_recurrence)
    text = g.dropped.empty() ? "each position depends on itself alone"
                             : "of the step before, each position's own value is traced";
  else
    text = "positions depend on each other" + (g.mixing_reason.empty() ? "" : " (" + g.mixing_reason + ")");
  if (!g.dropped.empty()) text += "; the rest of the recurrence is left out";
  for (const LeakyReadout& r : readouts)
    if (r.group == g.index)
      text += "; a leaky readout" + (r.decay ? fmt::format(" that keeps {:.4g} of itself", *r.decay)
                                             : fmt::format(" without one known decay: {}", r.unknown));
  if (g.snap)
    text += fmt::format("; SnAp-{} keeps {} for each, itself included{}", g.snap->n,
                        counted(g.snap->num_neighbour(), "position"),
                        g.snap->conservative ? "; all are assumed connected: " + g.snap->reason : "");
  if (g.descent) text += fmt::format("; advanced {} times per step inside a loop", g.descent->scan.length);
  return text;
}

}  // namespace etrace
