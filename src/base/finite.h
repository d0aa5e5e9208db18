// Whether numbers are finite, without a copy of them. Private.
#pragma once

#include <string>

#include "etrace/tensor.h"

#pragma GCC visibility push(default)
namespace etrace {

// True for tensors of integers.
bool all_finite(const Tensor&);
// "nan" whatever its sign, "inf", "-inf", else the number.
std::string not_finite_text(double);

}  // namespace etrace
#pragma GCC visibility pop
