// Stochastic rounding to the 16 bits that traces are kept in.
#pragma once

#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

extern const Primitive stochastic_round_p;  // operands: x, key u32, place u32

// x as f16 or bf16: up with the probability that says what is cut off, decided by a hash of each number, its
// flat index, and a key u32[]. Without a key to the nearest.
Array stochastic_round(const Array& x, Dtype, const Array& key);

}  // namespace etrace
#pragma GCC visibility pop
