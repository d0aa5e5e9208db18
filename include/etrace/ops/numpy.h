// Creation and the composed functions that one expects of a NumPy-like library; no primitives of their own.
#pragma once

#include <vector>

#include "etrace/array.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"

#pragma GCC visibility push(default)
namespace etrace {

Array zeros(const Shape&, Dtype = Dtype::F32);
Array ones(const Shape&, Dtype = Dtype::F32);
Array zeros_like(const Array&);
Array ones_like(const Array&);
Array eye(std::int64_t n, Dtype = Dtype::F32);
Array linspace(double start, double stop, std::int64_t n, Dtype = Dtype::F32);
Array array(const std::vector<double>& values, const Shape&, Dtype = Dtype::F32);
Array array(const std::vector<double>& values, Dtype = Dtype::F32);
Array array(const std::vector<std::vector<double>>& rows, Dtype = Dtype::F32);
// Braces in braces are rows, also rows of one number: array({{5}, {6}}).
inline Array array(std::initializer_list<std::initializer_list<double>> rows, Dtype dtype = Dtype::F32) {
  return array(std::vector<std::vector<double>>(rows.begin(), rows.end()), dtype);
}

Array relu(const Array&);
Array leaky_relu(const Array&, double slope = 0.01);
Array elu(const Array&, double alpha = 1.0);
Array softplus(const Array&);
Array silu(const Array&);
Array gelu(const Array&);
Array hard_sigmoid(const Array&);
Array l2_norm(const Array&);
Array diag(const Array&);  // vector -> matrix, matrix -> its diagonal
Array trace(const Array&);
Array tril(const Array&);
Array triu(const Array&);
Array roll(const Array&, std::int64_t shift, int axis);
Array flip(const Array&, int axis);
Array tile(const Array&, const Dims& repeats);
Array repeat(const Array&, std::int64_t n, int axis);

}  // namespace etrace
#pragma GCC visibility pop
