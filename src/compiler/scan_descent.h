// Long loops are not unrolled but traced inside: groups and relations are found in the loop's body, and every
// value that the trace needs leaves the loop stacked over its steps.
#pragma once

#include "etrace/compiler.h"

namespace etrace {

struct DescendedScans {
  std::vector<HiddenGroup> groups;               // indices count from 0; the graph builder shifts them
  std::vector<HiddenParamOpRelation> relations;  // hidden_groups are indices into `groups`
  std::vector<Var> stacked;                      // outer Vars of every value that the trace needs
};

// Rewrites the module's program in place and names the descended equations in info.descended_scans.
DescendedScans descend_scans(ModuleInfo& info, Reporter&, const CompileOptions&);

}  // namespace etrace
