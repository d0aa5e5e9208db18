// Whether numbers are finite, without a copy of them. Private.
#pragma once

#include "etrace/tensor.h"

#pragma GCC visibility push(default)
namespace etrace {

// True for tensors of integers.
bool all_finite(const Tensor&);

}  // namespace etrace
#pragma GCC visibility pop
