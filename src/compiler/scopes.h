// What each recurrence scope would keep of a model's recurrence, and what that costs. Private to compiler/
// and learn/.
#pragma once

#include <string>
#include <vector>

#include "etrace/graph.h"
#include "etrace/trace_memory.h"

namespace etrace {

struct ScopeCost {
  std::string scope;                     // "diagonal", "coupled", "snap2"
  std::string keeps;                     // of what the diagonal scope leaves out, in words
  std::vector<TraceMemory> memory = {};  // of the rules that run in it
  std::string refused = {};              // why this model cannot be compiled so; empty: it can
};
// Empty if the scope of the graph leaves nothing out. The model is compiled once more for each scope.
std::vector<ScopeCost> scope_costs(const ETraceGraph&);

// For a reader who has just been told what is left out: what the other scopes keep, and for which rules.
// Empty if there is nothing to tell.
std::string scopes_text(const std::vector<ScopeCost>&, const std::string& current);

}  // namespace etrace
