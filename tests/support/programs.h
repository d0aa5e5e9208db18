// Programs as text, run on numbers that show every difference: NaN, both zeros, infinities, denormals.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <string_view>

#include "etrace/interp.h"
#include "etrace/ir.h"
#include "support/numeric.h"

namespace etrace::testing {

// A tensor of that type; a third of the floating elements are special.
Tensor hostile_tensor(Random&, const Aval&);
Tensors hostile_inputs(const ClosedJaxpr&, std::uint64_t seed);

// Element by element the same bits; a NaN equals any NaN. Empty if so, else what differs.
std::string bit_difference(const Tensors& found, const Tensors& expected);

// Both programs are well formed, take the same inputs, and give the same bits on hostile inputs.
void expect_same_bits(const ClosedJaxpr& found, const ClosedJaxpr& expected, std::uint64_t seed = 1);

// Equations, those of bodies included.
std::size_t equations_in(const ClosedJaxpr&);

}  // namespace etrace::testing
