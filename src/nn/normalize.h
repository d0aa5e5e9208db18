// What the normalising layers share.
#pragma once

#include "etrace/module.h"

namespace etrace::nn {

// The leaves of scale (ones) and bias (zeros).
NamedArrays scale_and_bias(const Shape& shape, bool scale, bool bias, Dtype dtype);
// y ⊙ scale + bias with what `weight` has of them (null: nothing), spread over a sample of shape `sample`
// with their axes at `axes`. Spread before element_wise, which gives every position a trace of its own.
Array scaled_and_shifted(const Array& y, const ParamState* weight, const Shape& sample, const Dims& axes);
// The last `count` axes of `rank`.
Dims last_axes(std::size_t rank, std::size_t count);
// (x − mean)/√(variance + ε) over these axes.
Array normalized(const Array& x, const Dims& axes, double epsilon);

}  // namespace etrace::nn
