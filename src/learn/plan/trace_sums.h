// Gradients of passes over traces, and the sums they go into.
#pragma once

#include "etrace/ir.h"

#pragma GCC visibility push(default)
namespace etrace {

// Where the gradient of a pass is only added to something that is known before the pass, the pass adds it:
// while it is near, and in place. The same bits. Also in loops.
ClosedJaxpr sum_in_passes(ClosedJaxpr);

}  // namespace etrace
#pragma GCC visibility pop
