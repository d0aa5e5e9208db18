// Comparing numbers with what a file expects.
#pragma once

#include <optional>
#include <string>

#include "etrace/expected.h"
#include "etrace/model_io.h"

namespace etrace::cli {

struct Tolerance {
  double rtol, atol;
};
// The run's own, else the one for its element type: `for_f64`, or 2e-5 for narrower floats.
Tolerance tolerance(const ExpectedRun& run, double for_f64, Dtype dtype);

// The worst deviation in words; empty if every element is within |found - expected| ≤ atol + rtol·|expected|.
std::optional<std::string> difference(const std::string& what, const Tensor& found, const Tensor& expected,
                                      const Tolerance&);

}  // namespace etrace::cli
