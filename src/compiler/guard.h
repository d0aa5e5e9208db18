// What an opaque body (one that stays in the program) may touch.
#pragma once

#include "etrace/compiler.h"

namespace etrace {

bool is_control_flow(const Eqn&);  // scan, while, cond

// Refuses weights that enter an opaque body (NotSupportedError, after an error record); reports hidden states
// that one produces, or refuses them if the policy says so. Descended scans pass.
void guard_control_flow(const Eqn&, const ModuleInfo&, Reporter&);

}  // namespace etrace
