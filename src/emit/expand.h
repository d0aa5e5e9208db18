// Operations that run as kernels of the library, in terms of those that have code: for targets that cannot
// call it. Their sums have another order than the kernel's.
#pragma once

#include "etrace/primitive.h"

namespace etrace::emit {

// The row's `lower`, or a formula of expand.cpp; null: there is none.
decltype(PrimitiveSpec::lower) expansion(const Primitive&);

}  // namespace etrace::emit
