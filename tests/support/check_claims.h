// What a row claims of its results (etrace/axes.h, etrace/facts.h), or what is concluded from what it says,
// against what its results are.
#pragma once

#include "support/check_primitive.h"

namespace etrace::testing {

// Axes: other operands at an index of an axis, other results there alone.
// Facts: signs, finiteness and wholeness of results of the operands as they are, of the same with infinities,
// NaN and -0 among them, and without anything known of the operands.
std::vector<Failure> check_claims(const Primitive&, const PrimitiveSpec::Sample&, const std::string& label);

}  // namespace etrace::testing
