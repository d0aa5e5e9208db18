// Products with a constant matrix that is diagonal by value. Private to compiler/.
#pragma once

#include "etrace/compiler.h"

namespace etrace {

// Turns h·C into h·diag(C), element by element, where C depends on nothing but constants and holds zeros
// beside its diagonal: the product then keeps positions apart, and every scope keeps it. Only what is not
// finite behaves differently: 0·inf no longer spreads. A record for each.
ClosedJaxpr keep_diagonal_products(ClosedJaxpr, Reporter&);

}  // namespace etrace
