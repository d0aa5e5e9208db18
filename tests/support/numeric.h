// Numbers for tests: seeded random tensors, comparison with a readable verdict, finite differences.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "etrace/array.h"
#include "etrace/ir.h"
#include "etrace/tensor.h"

namespace etrace::testing {

// The same numbers on every machine: only the engine of the standard library is used, not its distributions.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  double uniform(double low, double high);
  // Floating types get values in [low, high), bool 0/1, integers whole numbers in that range.
  Tensor tensor(const Aval&, double low = -1.0, double high = 1.0);
  Array f64(const Shape& shape, double low = -1.0, double high = 1.0) {
    return tensor({Dtype::F64, shape}, low, high);
  }

 private:
  std::mt19937_64 engine_;
};

// What differs and by how much; empty if nothing does. Types must be equal. Integers and booleans are
// compared exactly, floating values to `tolerance` times the larger of 1 and the largest expected magnitude;
// NaN equals NaN.
std::optional<std::string> difference(const Tensor& found, const Tensor& expected, double tolerance);
std::optional<std::string> difference(std::span<const Tensor> found, std::span<const Tensor> expected,
                                      double tolerance);
std::optional<std::string> difference(ArraySpan found, ArraySpan expected, double tolerance);

// Unit roundoff of the coarsest floating type among them: how exact a comparison can be.
double coarsest_roundoff(std::span<const Aval>);

using TensorFunction = std::function<Tensors(std::span<const Tensor>)>;

// d/dε f(x + ε·v) at ε = 0 by a central stencil of fourth order. Undefined entries of v leave x alone;
// entries of the result that are not floating are undefined.
Tensors directional_difference(const TensorFunction& f, std::span<const Tensor> x, std::span<const Tensor> v,
                               double step);

// Σ a·b over the defined floating entries, and the same of magnitudes.
struct InnerProduct {
  double value = 0.0, magnitude = 0.0;
};
InnerProduct inner(std::span<const Tensor> a, std::span<const Tensor> b);

// Tensors of one type, stacked along a new leading axis; `count` may be 0.
Tensor stack_tensors(std::span<const Tensor>, const Aval& each);

// x + factor·v; x itself where v is undefined.
Tensors moved(std::span<const Tensor> x, std::span<const Tensor> v, double factor);

}  // namespace etrace::testing
