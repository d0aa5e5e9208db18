// Orthonormal columns, uniformly distributed, with the same bits on every machine.
#pragma once

#include "etrace/array.h"

namespace etrace::nn {

// [rows, columns] of f64, rows ≥ columns, exact to the roundoff of `precision` (F32 takes half the time).
Tensor orthonormal_columns(const Array& key, std::int64_t rows, std::int64_t columns, Dtype precision);

}  // namespace etrace::nn
