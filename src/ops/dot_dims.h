// The dimension numbers of dot_general as its parameter holds them: [[lhs_contract, rhs_contract],
// [lhs_batch, rhs_batch]].
#pragma once

#include "etrace/ir.h"
#include "etrace/ops/linalg.h"

namespace etrace {

DotDims dot_dims(const Params&);  // CompilationError if the parameter has another form
Attr dot_attr(const DotDims&);

}  // namespace etrace
