// Programs on both engines.
#pragma once

#include <span>

#include "etrace/backend.h"
#include "etrace/ir.h"

namespace etrace::testing {

// With ports of made-up names.
Program as_program(const ClosedJaxpr&, const std::vector<Alias>& = {});
Tensors run_program(const Runnable&, const Program&, std::span<const Tensor> args);
// By emitted code; a failure to compile it fails the test (std::exception).
Tensors run_native(const Program&, std::span<const Tensor> args);
Tensors run_interpreter(const Program&, std::span<const Tensor> args);

// The same bits, where a NaN is a NaN: neither its sign nor its payload is promised by anyone.
bool same_bits(const Tensor&, const Tensor&);
// How far two results are apart, in units in the last place of f32 (f64); NaN equals NaN. Other types: 0 or
// infinite.
double ulps_apart(const Tensor&, const Tensor&);
// ‖a − b‖ / ‖b‖, NaN equals NaN, 0 for equal bits.
double distance(const Tensor& a, const Tensor& b);

// Emitted code of tests is kept in a folder of their own.
void use_test_cache();

}  // namespace etrace::testing
