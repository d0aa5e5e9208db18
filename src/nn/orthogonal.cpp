// Q = H_1·H_2 … H_n·D, with H_k the reflection that takes a normal vector of length m − k + 1 to an axis, and
// D the signs that a QR factorisation with a positive diagonal has. These are the reflections of the QR
// factorisation of a normal m × n matrix, drawn one by one instead of computed (Stewart 1980), so only the
// product is left to do, 64 reflections at a time: H_1 … H_k = I − V·T·Vᵀ, two matrix products.
//
// Bits. A matrix product may fuse multiplication and addition or not, depending on the machine. So no product
// of two elements is ever rounded: elements of V have 24 bits, those they meet have 29, and both together fit
// the 53 of a double. What has more bits is cut into a head of 29 and a tail of 24, in a product of its own
// where the result is to be exact to a double. All else is sums in a fixed order, square roots and quotients.
#include "nn/orthogonal.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "etrace/ops/elementwise.h"
#include "etrace/random.h"
#include "kernels/context.h"
#include "kernels/matrix_product.h"

namespace etrace::nn {

namespace {

constexpr std::int64_t kReflections = 64;  // in one block

// The leading 29 bits of x (Veltkamp): what the large summand leaves of it. x − head has 24 bits or fewer.
double head_of(double x) {
  const double shifted = x * 16777217.0;  // 2^24 + 1
  return shifted - (shifted - x);
}

// Normal numbers of 24 bits by the polar method: (u, v) uniform in the unit disc, times √(−2 ln s / s) with
// s = u² + v². The logarithm is that of the runtime, whose bits are the same everywhere.
std::vector<float> normal_numbers(const Array& key, std::int64_t count) {
  std::vector<double> disc, radii;
  const std::int64_t pairs = (count + 1) / 2;
  disc.reserve(static_cast<std::size_t>(2 * pairs));
  radii.reserve(static_cast<std::size_t>(pairs));
  for (std::int64_t round = 0; static_cast<std::int64_t>(radii.size()) < pairs; ++round) {
    const std::int64_t missing = pairs - static_cast<std::int64_t>(radii.size());
    const Array words = random::bits(random::fold_in(key, round), {missing + missing / 3 + 8, 2});
    const Tensor tensor = words.tensor();
    const auto values = tensor.data<std::uint32_t>();
    for (std::size_t i = 0; i + 1 < values.size() && static_cast<std::int64_t>(radii.size()) < pairs;
         i += 2) {
      // Centres of 2^32 cells of (−1, 1): never 0.
      const double u = (static_cast<double>(values[i]) + 0.5) * 0x1p-31 - 1.0,
                   v = (static_cast<double>(values[i + 1]) + 0.5) * 0x1p-31 - 1.0, s = u * u + v * v;
      if (s >= 1.0) continue;
      disc.insert(disc.end(), {u, v});
      radii.push_back(s);
    }
  }
  const Tensor logs = log(Array(Tensor::of(radii, {pairs}))).tensor();
  const auto log_of = logs.data<double>();
  std::vector<float> numbers(disc.size());
  for (std::size_t i = 0; i < radii.size(); ++i) {
    const double stretch = std::sqrt(-2.0 * log_of[i] / radii[i]);
    numbers[2 * i] = static_cast<float>(disc[2 * i] * stretch);
    numbers[2 * i + 1] = static_cast<float>(disc[2 * i + 1] * stretch);
  }
  return numbers;
}

using Matrix = std::vector<double>;  // row-major

// f(begin, end) on stretches of [0, n), on all threads. No element's value depends on the cut.
template <class F>
void in_stretches(std::int64_t n, F&& f) {
  const etp_context context = default_context();
  const std::int64_t parts = context.threads;
  in_parts(context, parts, [&](int part) { f(n * part / parts, n * (part + 1) / parts); });
}

struct Sizes {
  std::int64_t rows, columns, depth;
};
struct Strides {  // as of etp_matrix_product
  std::int64_t a_row, a_depth, b_depth, b_column, c_row;
};
// C = A·B or C += A·B.
void multiply(const Sizes& n, const Strides& s, const double* a, const double* b, double* c,
              bool accumulate) {
  const etp_matrix_product product{ETP_F64,   n.rows,    n.columns,  n.depth, s.a_row,
                                   s.a_depth, s.b_depth, s.b_column, s.c_row, accumulate ? 1 : 0,
                                   0};
  const etp_context context = default_context();
  const std::size_t bytes = matrix_product_scratch(&product, context.threads);
  Tensor scratch = Tensor::uninitialized({Dtype::F64, {static_cast<std::int64_t>(bytes / 8 + 1)}});
  etrace::multiply(product, context, a, b, c, scratch.writable());
}

// The reflections of one block: column k of V [rows, count] is zero above row k.
struct Block {
  std::int64_t rows, count;
  Matrix v, t;                // T [count, count], upper triangle
  std::vector<double> signs;  // of D
};

// x becomes v = x + sign(x_1)·|x|·e_1, so that I − τ·v·vᵀ takes x to −sign(x_1)·|x|·e_1.
Block reflections(const float* x, std::int64_t rows, std::int64_t count) {
  Block b{rows,
          count,
          Matrix(static_cast<std::size_t>(rows * count)),
          Matrix(static_cast<std::size_t>(count * count)),
          {}};
  for (std::int64_t k = 0; k < count; ++k) {
    double squares = 0.0;
    for (std::int64_t i = k; i < rows; ++i) {
      const double value = *x++;
      squares += value * value;
      b.v[static_cast<std::size_t>(i * count + k)] = value;
    }
    double& first = b.v[static_cast<std::size_t>(k * count + k)];
    const double sign = first < 0.0 ? -1.0 : 1.0;
    first = static_cast<double>(static_cast<float>(first + sign * std::sqrt(squares)));
    b.signs.push_back(-sign);
  }
  Matrix gram(static_cast<std::size_t>(count * count));  // VᵀV
  multiply({count, count, rows}, {1, count, count, 1, count}, b.v.data(), b.v.data(), gram.data(), false);
  const auto at = [count](std::int64_t i, std::int64_t j) { return static_cast<std::size_t>(i * count + j); };
  for (std::int64_t k = 0; k < count; ++k) {
    const double tau = 2.0 / gram[at(k, k)];
    b.t[at(k, k)] = tau;
    for (std::int64_t i = 0; i < k; ++i) {  // T[:k, k] = −τ·T[:k, :k]·(Vᵀv_k)
      double sum = 0.0;
      for (std::int64_t j = i; j < k; ++j) sum += b.t[at(i, j)] * gram[at(j, k)];
      b.t[at(i, k)] = -tau * sum;
    }
  }
  return b;
}

// Q ← (I − V·T·Vᵀ)·Q for Q [b.rows, columns], whose rows lie `stride` apart.
void apply(const Block& b, double* q, std::int64_t columns, std::int64_t stride, bool fine) {
  const auto size = static_cast<std::size_t>(b.count * columns);
  Matrix w(size), y(size);
  const Sizes inward{b.count, columns, b.rows}, outward{b.rows, columns, b.count};
  if (fine) {
    Matrix head(static_cast<std::size_t>(b.rows * columns)), tail(head.size());
    for (std::int64_t i = 0; i < b.rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) {
        const double value = q[i * stride + j], front = head_of(value);
        head[static_cast<std::size_t>(i * columns + j)] = front;
        tail[static_cast<std::size_t>(i * columns + j)] = value - front;
      }
    const Strides strides{1, b.count, columns, 1, columns};
    multiply(inward, strides, b.v.data(), head.data(), w.data(), false);
    multiply(inward, strides, b.v.data(), tail.data(), w.data(), true);
  } else {  // q has heads only
    multiply(inward, {1, b.count, stride, 1, columns}, b.v.data(), q, w.data(), false);
  }
  in_stretches(columns, [&](std::int64_t begin, std::int64_t end) {  // y = −T·w
    for (std::int64_t i = 0; i < b.count; ++i) {
      double* const row = y.data() + i * columns;
      for (std::int64_t k = i; k < b.count; ++k) {
        const double factor = -b.t[static_cast<std::size_t>(i * b.count + k)];
        const double* const other = w.data() + k * columns;
        for (std::int64_t j = begin; j < end; ++j) row[j] += factor * other[j];
      }
    }
  });
  const Strides strides{b.count, 1, columns, 1, stride};
  for (std::size_t i = 0; i < size; ++i) {
    const double front = head_of(y[i]);
    w[i] = y[i] - front;
    y[i] = front;
  }
  multiply(outward, strides, b.v.data(), y.data(), q, true);
  if (fine) multiply(outward, strides, b.v.data(), w.data(), q, true);
}

}  // namespace

Tensor orthonormal_columns(const Array& key, std::int64_t rows, std::int64_t columns, Dtype precision) {
  const bool fine = precision == Dtype::F64;
  const Aval type{Dtype::F64, {rows, columns}};
  Tensor result = Tensor::zeros(type);
  if (columns == 0) return result;
  auto* const q = reinterpret_cast<double*>(result.writable());
  for (std::int64_t k = 0; k < columns; ++k) q[k * columns + k] = 1.0;
  const auto drawn = [&](std::int64_t k) { return k * rows - k * (k - 1) / 2; };  // before reflection k
  const std::vector<float> x = normal_numbers(key, drawn(columns));
  std::vector<double> signs(static_cast<std::size_t>(columns));
  for (std::int64_t k = (columns - 1) / kReflections * kReflections; k >= 0; k -= kReflections) {
    const Block b = reflections(x.data() + drawn(k), rows - k, std::min(kReflections, columns - k));
    std::copy(b.signs.begin(), b.signs.end(), signs.begin() + k);
    // Rows and columns before k are still those of the identity.
    apply(b, q + k * columns + k, columns - k, columns, fine);
    if (fine) continue;
    in_stretches(rows - k, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = k + begin; i < k + end; ++i)
        for (std::int64_t j = k; j < columns; ++j) q[i * columns + j] = head_of(q[i * columns + j]);
    });
  }
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) q[i * columns + j] *= signs[static_cast<std::size_t>(j)];
  return result;
}

}  // namespace etrace::nn
