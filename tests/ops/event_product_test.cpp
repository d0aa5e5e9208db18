// Products in which most of the first operand is zero: the bits of the dense product, which is one chain of
// fused multiply-adds in the order of k, also where the second operand is not finite.
#include <cmath>
#include <limits>

#include "etrace/ops/linalg.h"
#include "runtime/thread_pool.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

struct EventCase {
  std::int64_t rows, columns, depth;
  double rate;  // of A that is set
};

// A [M, K] with few entries that are not zero, among them −0; B [K, N].
template <class T>
struct EventOperands {
  std::vector<T> a, b;
  explicit EventOperands(const EventCase& c) {
    Random r(11);
    for (std::int64_t i = 0; i < c.rows * c.depth; ++i)
      a.push_back(static_cast<T>(r.uniform(0, 1) < c.rate ? r.uniform(-1, 1) : i % 3 == 0 ? -0.0 : 0.0));
    for (std::int64_t i = 0; i < c.depth * c.columns; ++i) b.push_back(static_cast<T>(r.uniform(-1, 1)));
  }
};

template <class T>
std::vector<T> chains(const EventCase& c, const EventOperands<T>& o) {
  std::vector<T> out;
  for (std::int64_t i = 0; i < c.rows; ++i)
    for (std::int64_t j = 0; j < c.columns; ++j) {
      T sum = 0;
      for (std::int64_t k = 0; k < c.depth; ++k)
        sum = std::fma(o.a[static_cast<std::size_t>(i * c.depth + k)],
                       o.b[static_cast<std::size_t>(k * c.columns + j)], sum);
      out.push_back(sum);
    }
  return out;
}

template <class T>
void expect_same_bits(const Array& found, const std::vector<T>& expected, const std::string& what) {
  const Tensor held = found.tensor();
  const auto y = held.data<T>();
  std::size_t different = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const bool both_nan = std::isnan(y[i]) && std::isnan(expected[i]);
    if (!both_nan && (y[i] != expected[i] || std::signbit(y[i]) != std::signbit(expected[i]))) ++different;
  }
  EXPECT_EQ(different, 0U) << what;
}

// A and B as they are and transposed.
template <class T>
void expect_chains(const EventCase& c, const EventOperands<T>& o, const std::string& what) {
  const std::vector<T> expected = chains(c, o);
  const Array a = Tensor::of(o.a, {c.rows, c.depth}), b = Tensor::of(o.b, {c.depth, c.columns});
  const Array at = Tensor(transpose(a).tensor()), bt = Tensor(transpose(b).tensor());
  expect_same_bits(dot_general(a, b, {{1}, {0}, {}, {}}), expected, what);
  expect_same_bits(dot_general(at, b, {{0}, {0}, {}, {}}), expected, what + ", A transposed");
  expect_same_bits(dot_general(a, bt, {{1}, {1}, {}, {}}), expected, what + ", B transposed");
  expect_same_bits(dot_general(at, bt, {{0}, {1}, {}, {}}), expected, what + ", both transposed");
}

const EventCase kEventCases[] = {{16, 64, 40, 0.1},  {70, 75, 300, 0.1},  {130, 200, 129, 0.02},
                                 {20, 64, 8, 0.2},   {16, 130, 256, 0.0}, {64, 128, 128, 0.6},
                                 {1, 128, 300, 0.1}, {33, 31, 50, 0.1}};

TEST(EventProduct, HasTheBitsOfTheDenseProduct) {
  for (const EventCase& c : kEventCases) {
    const std::string what = std::to_string(c.rows) + " × " + std::to_string(c.columns) + " × " +
                             std::to_string(c.depth) + " at " + std::to_string(c.rate);
    expect_chains(c, EventOperands<float>(c), what);
    expect_chains(c, EventOperands<double>(c), what + ", float64");
  }
}

// A row of B that no A reaches still makes 0·∞ = NaN, as in the dense product.
TEST(EventProduct, LosesNoInfinityAndNoNaN) {
  for (const float odd : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                          std::numeric_limits<float>::quiet_NaN()})
    for (const EventCase& c : {EventCase{70, 200, 300, 0.05}, EventCase{70, 200, 300, 0.0}}) {
      EventOperands<float> o(c);
      o.b[static_cast<std::size_t>(150 * c.columns + 3)] = odd;
      o.b[static_cast<std::size_t>(299 * c.columns + 199)] = odd;
      expect_chains(c, o, std::to_string(odd));
      EXPECT_TRUE(std::isnan(chains(c, o)[3]));
    }
}

TEST(EventProduct, HasTheSameBitsForAnyNumberOfThreads) {
  const EventCase c{260, 256, 400, 0.1};
  const EventOperands<float> o(c);
  for (const int threads : {1, 3}) {
    set_num_threads(threads);
    expect_chains(c, o, std::to_string(threads) + " threads");
  }
  set_num_threads(1);
}

TEST(EventProduct, RunsInEveryMatrixOfABatch) {
  const EventCase c{17, 65, 30, 0.1};
  const EventOperands<float> o(c);
  const Array a = Tensor::of(o.a, {c.rows, c.depth}), b = Tensor::of(o.b, {c.depth, c.columns});
  const Array two = stack(Arrays{a, a}), other = stack(Arrays{b, b});
  const Array y = dot_general(two, other, {{2}, {1}, {0}, {0}});
  std::vector<float> expected = chains(c, o);
  expected.insert(expected.end(), expected.begin(), expected.end());
  expect_same_bits(y, expected, "two matrices");
}

}  // namespace
}  // namespace etrace::testing
