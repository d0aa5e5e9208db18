// The geometry of a convolution, and its kernel. Private to ops/.
#pragma once

#include <utility>

#include "etrace/ops/linalg.h"
#include "etrace/primitive.h"

namespace etrace {

// ConvOptions with every list filled in and checked against the ranks. CompilationError, ValueError.
ConvOptions conv_options(const Params& params, std::size_t rank);
Params conv_params(const ConvOptions&);

// Sizes along the spatial axes of an array whose axes are named by a spec (batch, feature, spatial…).
Dims spatial_sizes(const Shape&, const Dims& spec);
// (n - 1)·dilation + 1: the room that n entries take with gaps between them.
std::int64_t dilated_size(std::int64_t n, std::int64_t dilation);
Dims conv_spatial_output(const ConvOptions&, const Shape& lhs, const Shape& rhs);

Kernel conv_kernel(const KernelRequest&);

}  // namespace etrace
