// CompilationReport: what a reader wants to know about a graph, in five lists.
#include <fmt/format.h>

#include <algorithm>

#include "compiler/credit.h"
#include "compiler/explain_text.h"
#include "compiler/memory_table.h"
#include "etrace/graph.h"
#include "etrace/module.h"

namespace etrace {

namespace {

bool is_exclusion(DiagnosticKind k) {
  switch (k) {
    case DiagnosticKind::RELATION_EXCLUDED_NO_PARAMSTATE:
    case DiagnosticKind::RELATION_EXCLUDED_NON_TEMPORAL:
    case DiagnosticKind::RELATION_EXCLUDED_SHAPE_MISMATCH:
    case DiagnosticKind::RELATION_EXCLUDED_WEIGHT_TO_WEIGHT:
    case DiagnosticKind::RELATION_EXCLUDED_SLICED_WEIGHT:
    case DiagnosticKind::TRACE_WITHOUT_SIGNAL:
      return true;
    default:
      return false;
  }
}

// Relations whose traces meet a signal.
std::vector<const HiddenParamOpRelation*> relations_that_learn(const ETraceGraph& graph) {
  std::vector<const HiddenParamOpRelation*> out = graph.all_relations();
  for (const TraceWithoutSignal& silent : traces_without_signal(graph)) out[silent.relation] = nullptr;
  std::erase(out, nullptr);
  return out;
}

// Whether one of these traces a leaf.
bool is_learned(const std::vector<const HiddenParamOpRelation*>& relations, const StatePath& path,
                std::int64_t leaf) {
  for (const HiddenParamOpRelation* r : relations)
    for (const TrainableSource& t : r->trainables) {
      if (t.leaves.empty() && t.path == path && t.leaf == leaf) return true;
      if (std::find(t.leaves.begin(), t.leaves.end(), std::pair(path, leaf)) != t.leaves.end()) return true;
    }
  return false;
}

std::optional<DiagnosticKind> exclusion_of(const ETraceGraph& graph, const StatePath& path) {
  for (const CompilationRecord& d : graph.diagnostics)
    if (is_exclusion(d.kind) && d.weight_path == path) return d.kind;
  return std::nullopt;
}

// States that a step reads and writes without belonging to a group; statistics over a training run are no
// such state.
std::vector<StatePath> states_outside_groups(const ETraceGraph& graph) {
  std::vector<StatePath> out;
  for (const InputRecord& in : graph.module_info.model.inputs) {
    if (in.role != Role::Hidden && in.role != Role::Other) continue;
    const std::optional<StateKind> kind = state_kind(in.type);
    if (kind && is_a(*kind, StateKind::LongTerm)) continue;
    if (graph.hid_path_to_group(in.path) != nullptr) continue;
    if (std::find(out.begin(), out.end(), in.path) == out.end()) out.push_back(in.path);
  }
  return out;
}

}  // namespace

CompilationReport::CompilationReport(const ETraceGraph& graph)
    : dynamic_states(states_outside_groups(graph)), diagnostics(graph.diagnostics) {
  for (const HiddenGroup& g : graph.hidden_groups) hidden_groups.emplace_back(g.index, g.hidden_paths);
  const std::vector<const HiddenParamOpRelation*> all = graph.all_relations(),
                                                  learn = relations_that_learn(graph);
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (std::find(learn.begin(), learn.end(), all[i]) == learn.end()) continue;
    for (const TrainableSource& t : all[i]->trainables)
      etrace_weights.push_back({t.path, t.key, all[i]->hidden_groups, join(graph.module_info.leaf_names(t)),
                                i >= graph.hidden_param_op_relations.size()});
  }
  for (const WeightInfo& w : graph.module_info.weights) {
    std::vector<std::string> leaves;
    for (std::size_t i = 0; i < w.invars.size(); ++i)
      if (const auto leaf = static_cast<std::int64_t>(i); !is_learned(learn, w.path, leaf))
        leaves.push_back(graph.module_info.leaf_name(w.path, leaf));
    if (!leaves.empty()) excluded_weights.push_back({w.path, exclusion_of(graph, w.path), join(leaves)});
  }
  for (const HiddenParamOpRelation* r : all) {
    std::vector<std::string> names;
    for (const TrainableSource& t : r->trainables) names.push_back(join(graph.module_info.leaf_names(t)));
    relations.push_back(join(names));
  }
  if (!relations.empty()) memory = trace_memory(graph);
  for (const CompilationRecord& d : diagnostics) {
    warnings += d.level == DiagnosticLevel::Warning;
    errors += d.level == DiagnosticLevel::Error;
  }
}

std::string CompilationReport::to_string(int level) const {
  using etrace::to_string;
  std::string text;
  const auto section = [&](std::string_view title, const auto& list, const auto& line) {
    if (list.empty()) return;
    text += fmt::format("{}{}\n", text.empty() ? "" : "\n", title);
    for (const auto& item : list) text += fmt::format("  {}\n", line(item));
  };
  section("The hidden groups are:", hidden_groups,
          [](const auto& g) { return fmt::format("group {}: {}", g.first, path_list(g.second)); });
  section("Carried from step to step, in no group:", dynamic_states,
          [](const StatePath& p) { return to_string(p); });
  section("Weights that are learned online:", etrace_weights, [](const Weight& w) {
    return fmt::format("{} -> {}{}", w.name, group_list(w.groups),
                       w.composite ? ", through other weights" : "");
  });
  section("Weights that are not:", excluded_weights, [](const Excluded& w) {
    return fmt::format("{}: {}", w.name, w.reason ? meaning(*w.reason) : std::string_view(kNoOperator));
  });
  section("Numbers kept from step to step:", rules_alike(memory), [](const RulesAlike& a) {
    return fmt::format("{}: {}", join(a.rules), grouped(a.memory.total()));
  });
  if (level < 2) return text;
  std::vector<CompilationRecord> serious;
  for (const CompilationRecord& d : diagnostics)
    if (d.level != DiagnosticLevel::Info || level > 2) serious.push_back(d);
  section(level > 2 ? "Records:" : "Warnings and errors:", serious,
          [](const CompilationRecord& d) { return to_string(d); });
  return text;
}

}  // namespace etrace
