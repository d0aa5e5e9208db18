// The fused multiply-add.
#pragma once

#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

extern const Primitive fma_p;  // operands: a, b, c

Array fma(const Array& a, const Array& b, const Array& c);  // a·b + c, rounded once; one element type

}  // namespace etrace
#pragma GCC visibility pop
