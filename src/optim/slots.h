// An optimiser's ports: what it remembers, and what may change between updates. A session keeps the former.
#pragma once

#include "etrace/optim.h"
#include "session/session.h"

namespace etrace::optim {

struct OptimizerPorts {
  std::vector<Port> slots, hyper;
  OptimizerPorts(const Optimizer&, std::span<const ParamLeafId> leaves, std::span<const Port> params);
};

// The slots of this optimiser, under the names of these parameters, are the session's to go on with; those of
// another one go back to it. ValueError if it has no state for one of them.
void use_slots(Session&, const Optimizer&, std::span<const ParamLeafId> leaves);

}  // namespace etrace::optim
