// What each recurrence scope would keep of a model's recurrence, and what that costs. Private to compiler/
// and learn/.
#pragma once

#include <functional>

#include "etrace/graph.h"

namespace etrace {

struct ScopeCost {
  std::string scope;  // "diagonal", "coupled", "snap2"
  std::string keeps;  // of what the diagonal scope leaves out, in words
  std::int64_t d_rtrl = 0;
  std::optional<std::int64_t> pp_prop;  // none: the factorised rule has no such scope
  std::string refused;                  // why this model cannot be compiled so; empty: it can
};
// Empty if the scope of the graph leaves nothing out. The model is compiled once more for each scope.
std::vector<ScopeCost> scope_costs(const ETraceGraph&);

// For a reader who has just been told what is left out: what the other scopes keep. `runs` says which rules
// run in a scope. Empty if there is nothing to tell.
std::string scopes_text(const std::vector<ScopeCost>&, const std::string& current,
                        const std::function<std::string(const std::string& scope)>& runs);

}  // namespace etrace
