// Costs of the scopes: the model compiled in each, its traces counted; see the header.
#include "compiler/scopes.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/dropped_ways.h"
#include "compiler/explain_text.h"
#include "compiler/position_graph.h"
#include "compiler/trace_memory.h"
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

void count(const ETraceGraph& graph, const std::vector<std::int64_t>& widths, ScopeCost& cost) {
  std::int64_t factorised = 0;
  for (const RelationMemory& m : trace_memory(graph, widths)) {
    cost.d_rtrl += m.d_rtrl;
    factorised += m.pp_prop();
  }
  if (widths.empty()) cost.pp_prop = factorised;
}

// In scope snap2 a position's trace also holds the positions that it reaches in one step.
ScopeCost snap2(const ETraceGraph& coupled, const CompileOptions& options) {
  ScopeCost cost{"snap2", {}, 0, {}, {}};
  std::vector<std::int64_t> widths;
  std::int64_t most = 1;
  bool everything = true;
  for (const HiddenGroup& g : coupled.hidden_groups) {
    const std::int64_t kept = neighbours_kept(g, 2, options);
    widths.push_back(kept * g.num_state());
    most = std::max(most, kept);
    everything = everything && (kept >= g.sample_shape().size() || g.is_diagonal_recurrence);
  }
  cost.keeps = everything
                   ? fmt::format("all of it: {} positions for each", grouped(most))
                   : fmt::format("what one step carries to other positions, {} at most", grouped(most));
  count(coupled, widths, cost);
  return cost;
}

}  // namespace

std::vector<ScopeCost> scope_costs(const ETraceGraph& graph) {
  if (std::none_of(graph.hidden_groups.begin(), graph.hidden_groups.end(), leaves_out)) return {};
  std::vector<ScopeCost> out;
  ScopeCost diagonal{"diagonal", "nothing of it", 0, {}, {}};
  count(compile_etrace_graph(graph.module_info.model, in_scope(graph, false)), {}, diagonal);
  out.push_back(std::move(diagonal));
  ScopeCost coupled{"coupled", "each position's own share", 0, {}, {}};
  const CompileOptions mixing = in_scope(graph, true);
  try {
    const ETraceGraph whole = compile_etrace_graph(graph.module_info.model, mixing);
    count(whole, {}, coupled);
    out.push_back(std::move(coupled));
    out.push_back(snap2(whole, mixing));
  } catch (const Error& e) {
    coupled.refused = e.message();
    out.push_back(std::move(coupled));
  }
  return out;
}

std::string scopes_text(const std::vector<ScopeCost>& costs, const std::string& current,
                        const std::function<std::string(const std::string& scope)>& runs) {
  std::vector<std::string> parts;
  for (const ScopeCost& c : costs)
    if (c.scope != current && c.scope != "diagonal" && c.refused.empty())
      parts.push_back(fmt::format("{} ({}) keeps {}, for {} numbers of trace", c.scope, runs(c.scope),
                                  c.keeps, grouped(c.d_rtrl)));
  if (parts.empty()) return {};
  std::string out = "Of what is left out of the recurrence, scope " + join(parts, "; scope ") + ".";
  for (const ScopeCost& c : costs)
    if (c.scope == current) out += fmt::format(" Scope {} has {}.", c.scope, grouped(c.d_rtrl));
  return out;
}

}  // namespace etrace
