// Whether numbers are finite, without a copy of them. Private.
#pragma once

#include <cmath>
#include <limits>

#include "etrace/tensor.h"

#pragma GCC visibility push(default)
namespace etrace {

// True for tensors of integers.
bool all_finite(const Tensor&);

// For texts: a NaN without the sign that arithmetic happens to leave on it.
inline double unsigned_nan(double x) { return std::isnan(x) ? std::numeric_limits<double>::quiet_NaN() : x; }

}  // namespace etrace
#pragma GCC visibility pop
