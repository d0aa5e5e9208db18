// Costs of the scopes: the model compiled in each, its traces counted; see the header.
#include "compiler/scopes.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "compiler/memory_table.h"
#include "etrace/compiler.h"
#include "etrace/error.h"

namespace etrace {

namespace {

// Does a group's Jacobian lack something of the recurrence?
bool leaves_out(const HiddenGroup& g) { return !g.dropped.empty() || (!g.is_diagonal_recurrence && !g.snap); }

CompileOptions in_scope(const ETraceGraph& graph, bool mixing) {
  CompileOptions o = graph.options;
  o.include_recurrent_mixing = mixing;
  o.include_hidden_perturb = false;
  o.sparse_n.reset();
  o.strict = false;
  return o;
}

std::string kept_by_neighbours(const ETraceGraph& graph) {
  std::int64_t most = 1;
  bool everything = true;
  for (const HiddenGroup& g : graph.hidden_groups) {
    const auto kept = g.snap ? static_cast<std::int64_t>(g.snap->num_neighbour()) : 1;
    most = std::max(most, kept);
    everything = everything && (kept >= g.sample_shape().size() || g.is_diagonal_recurrence);
  }
  return everything ? fmt::format("all of it: {} positions for each", grouped(most))
                    : fmt::format("what one step carries to other positions, {} at most", grouped(most));
}

}  // namespace

std::vector<ScopeCost> scope_costs(const ETraceGraph& graph) {
  if (std::none_of(graph.hidden_groups.begin(), graph.hidden_groups.end(), leaves_out)) return {};
  std::vector<ScopeCost> out;
  const auto add = [&](const char* scope, const CompileOptions& options, const auto& keeps) {
    ScopeCost cost{scope, {}};
    try {
      const ETraceGraph compiled = compile_etrace_graph(graph.module_info.model, options);
      cost.keeps = keeps(compiled);
      cost.memory = trace_memory(compiled);
    } catch (const Error& e) {
      cost.refused = e.message();
    }
    out.push_back(std::move(cost));
  };
  CompileOptions mixing = in_scope(graph, true);
  add("diagonal", in_scope(graph, false), [](const ETraceGraph&) { return "nothing of it"; });
  add("coupled", mixing, [](const ETraceGraph&) { return "each position's own share"; });
  mixing.composite = false;  // no such traces there
  mixing.sparse_n = 2;       // a position's trace also holds the positions that it reaches in one step
  add("snap2", mixing, kept_by_neighbours);
  return out;
}

std::string scopes_text(const std::vector<ScopeCost>& costs, const std::string& current) {
  const auto numbers = [](const ScopeCost& c) {
    std::vector<std::string> parts;
    for (const RulesAlike& a : rules_alike(c.memory))
      parts.push_back(fmt::format("{} with {} numbers", short_list(a.rules, 3), grouped(a.memory.total())));
    return parts.empty() ? std::string("no rule runs in it yet") : join(parts, "; ");
  };
  std::vector<std::string> parts;
  for (const ScopeCost& c : costs)
    if (c.scope != current && c.scope != "diagonal" && c.refused.empty())
      parts.push_back(fmt::format("{} ({}) keeps {}", c.scope, numbers(c), c.keeps));
  if (parts.empty()) return {};
  std::string out = "Of what is left out of the recurrence, scope " + join(parts, "; scope ") + ".";
  for (const ScopeCost& c : costs)
    if (c.scope == current) out += fmt::format(" Scope {} has {}.", c.scope, numbers(c));
  return out;
}

}  // namespace etrace
