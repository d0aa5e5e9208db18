// Counter-based random numbers: the key is a value (u32[2]), the same bits everywhere (Threefry-2x32).
#pragma once

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

extern const Primitive random_bits_p;   // operand: key u32[2]; params: bit_width (32), shape. -> u32[shape]
extern const Primitive random_split_p;  // operand: key u32[2]; params: shape -> u32[shape, 2]
extern const Primitive random_fold_in_p;  // operands: key u32[…, 2], number u32[…] -> a key of the same shape

namespace random {
Array key(std::uint64_t seed);                        // u32[2]
Array split(const Array& key, std::int64_t num = 2);  // u32[num, 2]
Array fold_in(const Array& key, const Array& data);   // a new key for an integer
Array bits(const Array& key, const Shape&);           // u32
Array uniform(const Array& key, const Shape&, Dtype = Dtype::F32, double low = 0.0, double high = 1.0);
Array normal(const Array& key, const Shape&, Dtype = Dtype::F32);
Array bernoulli(const Array& key, double p, const Shape&);
Array randint(const Array& key, const Shape&, std::int64_t low, std::int64_t high, Dtype = Dtype::I32);
Array permutation(const Array& key, std::int64_t n);  // i32[n]
}  // namespace random

}  // namespace etrace
#pragma GCC visibility pop
