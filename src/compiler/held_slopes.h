// Slopes of spikes as constants to differentiation, in the form that all analyses know. Private to compiler/.
#pragma once

#include "etrace/ir.h"

namespace etrace {

// A spike's second operand acts on its derivative alone. Programs that say so by stop_gradient and programs
// that leave it to the operation become the same program, at any depth of loops and branches.
ClosedJaxpr hold_slopes(const ClosedJaxpr&);

}  // namespace etrace
