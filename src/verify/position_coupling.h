// Do positions of a hidden group act on each other, as far as a program says? Private to verify/.
#pragma once

#include "verify/step_influence.h"

namespace etrace {

// Do positions of the sources act on others of these results?
Degree positions_couple(const ETraceGraph&, const Jaxpr& program, const std::vector<Var>& sources,
                        const std::vector<Atom>& results, const HiddenGroup&);

}  // namespace etrace
