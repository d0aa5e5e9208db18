// Creation and composed functions. Activations follow JAX, also in their derivatives at kinks.
#include "etrace/ops/numpy.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "etrace/error.h"
#include "ops/structure_common.h"

namespace etrace {

namespace {

using structure::normalize_axis, structure::to_dim, structure::to_index;

void require_rank(std::string_view op, const Array& x, std::size_t rank) {
  if (x.rank() < rank)
    throw ValueError(std::string(op),
                     "needs at least " + std::to_string(rank) + " axes but was given " + to_string(x.aval()));
}

// i and j of an n × m matrix, shaped to broadcast against each other.
struct MatrixIndex {
  Array row, column;
};
MatrixIndex matrix_index(std::int64_t n, std::int64_t m) {
  return {iota(Dtype::I32, {n, 1}, 0), iota(Dtype::I32, {1, m}, 1)};
}

Array zero_of(const Array& x) { return full({}, 0.0, x.dtype()); }

// x where keep(i, j) holds for the last two axes, else 0.
template <class Keep>
Array masked(std::string_view op, const Array& x, Keep keep) {
  require_rank(op, x, 2);
  const MatrixIndex at = matrix_index(x.dim(-2), x.dim(-1));
  return where(keep(at.row, at.column), x, zero_of(x));
}

}  // namespace

// Creation --------------------------------------------------------------------------------------------------
Array zeros(const Shape& shape, Dtype dtype) { return full(shape, 0.0, dtype); }
Array ones(const Shape& shape, Dtype dtype) { return full(shape, 1.0, dtype); }
Array zeros_like(const Array& x) { return full_like(x, 0.0); }
Array ones_like(const Array& x) { return full_like(x, 1.0); }

Array eye(std::int64_t n, Dtype dtype) {
  const MatrixIndex at = matrix_index(n, n);
  return convert(equal_to(at.row, at.column), dtype);
}

Array linspace(double start, double stop, std::int64_t n, Dtype dtype) {
  if (n < 0) throw ValueError("linspace", std::to_string(n) + " points; their number must not be negative");
  std::vector<double> points(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < points.size(); ++i) {
    const double t = n == 1 ? 0.0 : static_cast<double>(i) / static_cast<double>(n - 1);
    points[i] = start * (1.0 - t) + stop * t;  // exact at both ends
  }
  return array(points, dtype);
}

Array array(const std::vector<double>& values, const Shape& shape, Dtype dtype) {
  return convert(Array(Tensor::of(values, shape)), dtype);
}
Array array(const std::vector<double>& values, Dtype dtype) {
  return array(values, Shape{to_dim(values.size())}, dtype);
}
Array array(const std::vector<std::vector<double>>& rows, Dtype dtype) {
  std::vector<double> values;
  for (const auto& row : rows) {
    if (row.size() != rows[0].size())
      throw ValueError("array", "rows of " + std::to_string(rows[0].size()) + " and of " +
                                    std::to_string(row.size()) + " values; all must have the same length");
    values.insert(values.end(), row.begin(), row.end());
  }
  const auto columns = to_dim(rows.empty() ? 0 : rows[0].size());
  return array(values, Shape{to_dim(rows.size()), columns}, dtype);
}

// Activations -----------------------------------------------------------------------------------------------
// Written as a choice and not as a maximum: the derivative at 0 is 0, and NaN is passed on.
Array relu(const Array& x) { return where(less_equal(x, 0), zero_of(x), x); }
Array leaky_relu(const Array& x, double slope) { return where(greater_equal(x, 0), x, slope * x); }

Array elu(const Array& x, double alpha) {
  const Array positive = greater(x, 0);
  // The branch that is not taken must not overflow: its infinite derivative times 0 would be NaN.
  const Array negative_part = where(positive, zero_of(x), x);
  return where(positive, x, alpha * expm1(negative_part));
}

// x⁺ + log(1 + e^-|x|). A choice of formulas, each with all its derivatives: at 0 that of the left is right.
Array softplus(const Array& x) {
  const Array positive = greater(x, 0);
  return where(positive, x, zero_of(x)) + log1p(exp(where(positive, -x, x)));
}
Array silu(const Array& x) { return x * logistic(x); }

Array gelu(const Array& x) {  // the usual approximation by tanh
  const double root_two_over_pi = 0.79788456080286535588;
  return 0.5 * x * (1.0 + tanh(root_two_over_pi * (x + 0.044715 * (x * x * x))));
}

Array hard_sigmoid(const Array& x) { return clamp(0, x + 3, 6) / 6.0; }
Array l2_norm(const Array& x) { return sqrt(sum(x * x)); }

// Matrices --------------------------------------------------------------------------------------------------
Array diag(const Array& x) {
  if (x.rank() == 1) {
    const MatrixIndex at = matrix_index(x.dim(0), x.dim(0));
    return where(equal_to(at.row, at.column), x, zero_of(x));
  }
  if (x.rank() != 2)
    throw ValueError("diag", "takes a vector or a matrix but was given " + to_string(x.aval()));
  const std::int64_t n = std::min(x.dim(0), x.dim(1));
  const Array square = slice(x, {0, 0}, {n, n});
  return reduce_sum(masked("diag", square, [](const Array& i, const Array& j) { return equal_to(i, j); }),
                    {1});
}

Array trace(const Array& x) {
  if (x.rank() != 2) throw ValueError("trace", "takes a matrix but was given " + to_string(x.aval()));
  return sum(diag(x));
}

Array tril(const Array& x) {
  return masked("tril", x, [](const Array& i, const Array& j) { return less_equal(j, i); });
}
Array triu(const Array& x) {
  return masked("triu", x, [](const Array& i, const Array& j) { return less_equal(i, j); });
}

// Rearrangement ---------------------------------------------------------------------------------------------
Array roll(const Array& x, std::int64_t shift, int axis) {
  const int at = static_cast<int>(normalize_axis("roll", axis, x.rank()));
  const std::int64_t n = x.dim(at);
  if (n == 0) return x;
  const std::int64_t split_at = ((n - shift % n) % n + n) % n;  // what comes to the front
  if (split_at == 0) return x;
  return concatenate(std::array{slice_axis(x, at, split_at, n), slice_axis(x, at, 0, split_at)}, at);
}

Array flip(const Array& x, int axis) { return rev(x, {normalize_axis("flip", axis, x.rank())}); }

Array tile(const Array& x, const Dims& repeats) {
  // As many leading axes of size 1 as there are more repeats than axes, then one new axis in front of each.
  const std::size_t rank = std::max(x.rank(), repeats.size());
  Dims counts(rank - repeats.size(), 1), sizes(rank - x.rank(), 1);
  counts.insert(counts.end(), repeats.begin(), repeats.end());
  sizes.insert(sizes.end(), x.shape().begin(), x.shape().end());
  Dims spread, axes, joined;
  for (std::size_t i = 0; i < rank; ++i) {
    if (counts[i] < 0)
      throw ValueError("tile", std::to_string(counts[i]) + " repeats; the number must not be negative");
    spread.insert(spread.end(), {counts[i], sizes[i]});
    axes.push_back(to_dim(2 * i + 1));
    joined.push_back(counts[i] * sizes[i]);
  }
  return reshape(broadcast_in_dim(reshape(x, sizes), spread, axes), joined);
}

Array repeat(const Array& x, std::int64_t n, int axis) {
  if (n < 0) throw ValueError("repeat", std::to_string(n) + " repeats; the number must not be negative");
  const std::size_t at = to_index(normalize_axis("repeat", axis, x.rank()));
  Dims spread = x.shape().to_dims(), axes;
  spread.insert(spread.begin() + static_cast<std::ptrdiff_t>(at) + 1, n);
  for (std::size_t i = 0; i < x.rank(); ++i) axes.push_back(to_dim(i <= at ? i : i + 1));
  return reshape(broadcast_in_dim(x, spread, axes), x.shape().with(at, x.shape()[at] * n).to_dims());
}

}  // namespace etrace
