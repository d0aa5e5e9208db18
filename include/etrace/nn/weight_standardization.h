// ŵ = (w − μ)·s    μ, v: mean and variance over all axes but the last    s = 1/√max(v·n, ε)
#pragma once

#include "etrace/array.h"

#pragma GCC visibility push(default)
namespace etrace::nn {

// n is the number of weights per output, so that every output gets weights of mean 0 and sum of squares 1.
Array weight_standardization(const Array& w, double epsilon = 1e-4);

}  // namespace etrace::nn
#pragma GCC visibility pop
