// Counts for the compiler's reports: every rule of the table bound to the graph, its slots added up.
#include <optional>

#include "etrace/compiler.h"
#include "etrace/error.h"
#include "etrace/graph.h"
#include "etrace/learning_rule.h"
#include "etrace/trace_memory.h"

namespace etrace {

namespace {

bool runs_in_scope_of(const LearningRule& rule, const ETraceGraph& graph) {
  CompileOptions o = graph.options;
  o.include_recurrent_mixing = false;
  o.sparse_n.reset();
  rule.configure(o);
  return o.include_recurrent_mixing == graph.options.include_recurrent_mixing &&
         o.sparse_n.has_value() == graph.options.sparse_n.has_value();  // SnAp of any order
}

TraceMemory memory_of(const BoundRule& rule, std::string name, std::size_t relations) {
  TraceMemory m{std::move(name), std::vector<std::int64_t>(relations, 0)};
  for (const TraceSlot& s : rule.slots())
    if (s.role == PortRole::Trace) (s.relation ? m.relations[*s.relation] : m.shared) += s.aval.shape.size();
  return m;
}

std::vector<TraceMemory> memory_of_rules(const ETraceGraph& graph) {
  std::vector<TraceMemory> out;
  for (const RuleRow* row : rule_rows()) {
    try {
      const auto rule = row->make({});
      if (runs_in_scope_of(*rule, graph))
        out.push_back(memory_of(*rule->bind(graph), row->name, graph.all_relations().size()));
    } catch (const NotSupportedError&) {  // not on this graph, and a compilation would say why
    } catch (const CompilationError&) {
    }
  }
  return out;
}

const RegisterTraceMemory counter(memory_of_rules);

}  // namespace

}  // namespace etrace
