// Equations with other bodies.
#pragma once

#include <functional>

#include "etrace/ir.h"

namespace etrace {

// The same equation, every program among its parameters replaced.
Eqn with_bodies(Eqn, const std::function<ClosedJaxpr(const ClosedJaxpr&)>&);

}  // namespace etrace
