// What dot_general and partial_dot share: dimension numbers as their parameter holds them, [[lhs_contract,
// rhs_contract], [lhs_batch, rhs_batch]], and the kernel.
#pragma once

#include <optional>

#include "etrace/ir.h"
#include "etrace/ops/linalg.h"
#include "etrace/primitive.h"

namespace etrace {

DotDims dot_dims(const Params&);  // CompilationError if the parameter has another form
Attr dot_attr(const DotDims&);

// Entries of the one contracted axis: k < depth of lhs_start + k and rhs_start + k.
struct DotStretch {
  std::int64_t lhs_start = 0, rhs_start = 0, depth = 0;
};
// Contracted axes in the order of the sum. A third operand is where the sums begin.
Kernel dot_kernel(const KernelRequest&, const DotDims&, const std::optional<DotStretch>&);

}  // namespace etrace
