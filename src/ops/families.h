// Families of primitives, for analyses that treat the members of one alike.
#pragma once

#include "etrace/primitive.h"

namespace etrace {

// Each element of the result depends on the elements of the operands at the same place only.
bool is_elementwise(const Primitive&);

}  // namespace etrace
