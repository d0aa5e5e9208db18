// Products whose first operand repeats itself, as spikes of neurons that fire in most samples do: a common
// base and what deviates from it. The dense product within a bound of rounding, the same bits for any parts.
#include "ops/event_product.h"

#include <cmath>
#include <limits>

#include "etrace/ops/linalg.h"
#include "runtime/thread_pool.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace::testing::event_base {
namespace {

using Index = std::int64_t;

struct Spikes {
  Index rows, columns, depth;
  double off = 0.05;       // of A that deviates from the base
  bool by_columns = true;  // of A the columns have a base, else the rows
  double height = 1.0;
};

// A [M, K] of 0 and `height`: two thirds of its columns (or rows) mostly set, the others mostly not. B [K,
// N].
template <class T>
struct Operands {
  std::vector<T> a, b;
  explicit Operands(const Spikes& c) {
    Random r(5);
    for (Index i = 0; i < c.rows; ++i)
      for (Index k = 0; k < c.depth; ++k) {
        const bool base = (c.by_columns ? k : i) % 3 != 0;
        a.push_back((r.uniform(0, 1) < c.off) != base ? static_cast<T>(c.height) : T(0));
      }
    for (Index i = 0; i < c.depth * c.columns; ++i) b.push_back(static_cast<T>(r.uniform(-1, 1)));
  }
};

std::size_t at(Index i) { return static_cast<std::size_t>(i); }

// One chain of fused multiply-adds per element, on top of c: the dense product.
template <class T>
void chains(Index m, Index n, Index k, const T* a, Index a_row, Index a_depth, const T* b, Index b_row, T* c,
            Index c_row, bool accumulate) {
  for (Index i = 0; i < m; ++i)
    for (Index j = 0; j < n; ++j) {
      T sum = accumulate ? c[i * c_row + j] : T(0);
      for (Index l = 0; l < k; ++l) sum = std::fma(a[i * a_row + l * a_depth], b[l * b_row + j], sum);
      c[i * c_row + j] = sum;
    }
}
template <class T>
std::vector<T> dense(const Spikes& s, const Operands<T>& o) {
  std::vector<T> out(at(s.rows * s.columns));
  chains<T>(s.rows, s.columns, s.depth, o.a.data(), s.depth, 1, o.b.data(), s.columns, out.data(), s.columns,
            false);
  return out;
}

// The event product itself, in parts of so many rows; A as it is or stored transposed.
template <class T>
std::vector<T> events(const Spikes& s, const Operands<T>& o, Index part, bool turned,
                      bool accumulate = false) {
  using Product = EventProduct<T>;
  EXPECT_TRUE(Product::fits(s.rows, s.columns, s.depth, 1));
  std::vector<T> a = o.a, out(at(s.rows * s.columns), T(accumulate ? 2 : -7));
  if (turned)
    for (Index i = 0; i < s.rows; ++i)
      for (Index k = 0; k < s.depth; ++k) a[at(k * s.rows + i)] = o.a[at(i * s.depth + k)];
  const Index row = turned ? 1 : s.depth, step = turned ? s.rows : 1;
  std::vector<std::max_align_t> memory(Product::scratch_bytes() / sizeof(std::max_align_t) + 8);
  auto* scratch = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 63) / 64 * 64);
  for (Index first = 0; first < s.rows; first += part)
    Product::multiply({.rows = s.rows,
                       .columns = s.columns,
                       .depth = s.depth,
                       .a = {a.data(), row, step},
                       .b = o.b.data(),
                       .b_row = s.columns,
                       .c = out.data(),
                       .c_row = s.columns,
                       .first = first,
                       .last = std::min(s.rows, first + part),
                       .accumulate = accumulate},
                      scratch,
                      [&](Index m, Index n, Index k, const T* from_a, const T* from_b, T* to, bool add) {
                        chains(m, n, k, from_a, row, step, from_b, s.columns, to, s.columns, add);
                      });
  return out;
}

template <class T>
std::size_t differing_bits(const std::vector<T>& x, const std::vector<T>& y) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    n += x[i] != y[i] && !(std::isnan(x[i]) && std::isnan(y[i])) ? 1 : 0;
  return n;
}

// |found − exact| ≤ 2·depth·u·Σ_k (|base| + |deviation|)·|B[k,j]|, and either is at most the height.
template <class T>
void expect_within_rounding(const std::vector<T>& found, const Spikes& s, const Operands<T>& o, double start,
                            const std::string& what) {
  const double unit = static_cast<double>(s.depth) * std::numeric_limits<T>::epsilon();
  std::size_t outside = 0;
  for (Index i = 0; i < s.rows; ++i)
    for (Index j = 0; j < s.columns; ++j) {
      long double sum = start, size = start;
      for (Index k = 0; k < s.depth; ++k) {
        const long double b = o.b[at(k * s.columns + j)];
        sum += o.a[at(i * s.depth + k)] * b;
        size += 2 * s.height * std::abs(b);
      }
      const auto error = std::abs(static_cast<long double>(found[at(i * s.columns + j)]) - sum);
      if (!(error <= unit * size)) ++outside;
    }
  EXPECT_EQ(outside, 0U) << what;
}

std::string name(const Spikes& s) {
  return std::to_string(s.rows) + " × " + std::to_string(s.columns) + " × " + std::to_string(s.depth) +
         (s.by_columns ? " by columns" : " by rows");
}

const Spikes kSpikes[] = {{40, 64, 205},
                          {300, 64, 60},
                          {32, 70, 97},
                          {70, 130, 96, 0.05, false},
                          {270, 64, 100, 0.05, false},
                          {64, 64, 50, 0.1, true, 2.5},
                          {64, 64, 50, 0.1, false, 0.75}};

template <class T>
void expect_base_everywhere() {
  for (const Spikes& s : kSpikes) {
    const Operands<T> o(s);
    const std::vector<T> expected = dense(s, o), whole = events(s, o, s.rows, false);
    expect_within_rounding(whole, s, o, 0, name(s));
    expect_within_rounding(events(s, o, s.rows, false, true), s, o, 2, name(s) + ", added");
    EXPECT_GT(differing_bits(whole, expected), 0U) << name(s) << ": there was no base";
    // Neither the parts nor the way A is stored matter.
    for (const bool turned : {false, true})
      for (const Index part : {s.rows, Index{37}, Index{7}})
        EXPECT_EQ(differing_bits(events(s, o, part, turned), whole), 0U)
            << name(s) << " in parts of " << part << (turned ? ", turned" : "");
  }
}

TEST(EventBase, IsTheDenseProductWithinRounding) {
  expect_base_everywhere<float>();
  expect_base_everywhere<double>();
}

TEST(EventBase, HasTheSameBitsForAnyNumberOfThreads) {
  for (const Spikes& s : {Spikes{40, 256, 200}, Spikes{200, 100, 120}, Spikes{200, 128, 100, 0.05, false}}) {
    const Operands<float> o(s);
    const Array a = Tensor::of(o.a, {s.rows, s.depth}), b = Tensor::of(o.b, {s.depth, s.columns});
    const Array turned = Tensor(transpose(a).tensor());
    std::vector<float> first;
    for (const int threads : {1, 2, 5}) {
      set_num_threads(threads);
      for (const Array& y :
           {dot_general(a, b, {{1}, {0}, {}, {}}), dot_general(turned, b, {{0}, {0}, {}, {}})}) {
        const Tensor held = y.tensor();
        const std::vector<float> found(held.data<float>().begin(), held.data<float>().end());
        if (first.empty()) first = found;
        EXPECT_EQ(differing_bits(found, first), 0U) << name(s) << ", " << threads << " threads";
      }
    }
    EXPECT_GT(differing_bits(first, dense(s, o)), 0U) << name(s) << ": there was no base";
  }
  set_num_threads(1);
}

// Numbers that do not repeat, or not often enough, are multiplied as dense; so are such rows among others.
TEST(EventBase, NeedsValuesThatRepeat) {
  const Spikes s{70, 70, 200};
  Operands<float> real(s), half(s), mixed({70, 70, 200, 0.02, false});
  Random r(3);
  for (float& x : real.a) x = static_cast<float>(r.uniform(-1, 1));
  for (float& x : half.a) x = r.uniform(0, 1) < 0.5 ? 1.0F : 0.0F;
  for (Index i = 0; i < 10 * s.depth; ++i) mixed.a[at(i)] = static_cast<float>(r.uniform(-1, 1));
  for (const bool turned : {false, true})
    for (const Operands<float>* o : {&real, &half})
      EXPECT_EQ(differing_bits(events(s, *o, s.rows, turned), dense(s, *o)), 0U);
  const std::vector<float> found = events(s, mixed, s.rows, false), expected = dense(s, mixed);
  const std::vector<float> head(found.begin(), found.begin() + 10 * s.columns),
      expected_head(expected.begin(), expected.begin() + 10 * s.columns);
  EXPECT_EQ(differing_bits(head, expected_head), 0U);
  EXPECT_GT(differing_bits(found, expected), 0U);
}

TEST(EventBase, LosesNoInfinityAndNoNaNAndDoesNotOverflow) {
  const float kLargest = std::numeric_limits<float>::max();
  for (const float odd : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN(),
                          kLargest, -kLargest / 2}) {
    const Spikes s{64, 192, 150};
    Operands<float> o(s);
    for (const Index k : {3, 4, 149})
      for (const Index j : {1, 130}) o.b[at(k * s.columns + j)] = k == 4 ? -odd : odd;
    const std::vector<float> expected = dense(s, o), found = events(s, o, s.rows, false);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < found.size(); ++i)
      wrong += std::isfinite(found[i]) != std::isfinite(expected[i]) ||
                       std::isnan(found[i]) != std::isnan(expected[i])
                   ? 1
                   : 0;
    EXPECT_EQ(wrong, 0U) << odd;
  }
}

// What is infinite in A is no base, and a row of zeros among others gives zeros.
TEST(EventBase, CountsARowFromZeroWhereThatIsLess) {
  const Spikes s{64, 64, 96};
  Operands<float> o(s);
  for (Index k = 0; k < s.depth; ++k) o.a[at(5 * s.depth + k)] = 0.0F;
  const std::vector<float> found = events(s, o, s.rows, false);
  for (Index j = 0; j < s.columns; ++j) EXPECT_EQ(found[at(5 * s.columns + j)], 0.0F);
  for (const bool by_columns : {true, false}) {
    Operands<float> infinite({s.rows, s.columns, s.depth, 0.05, by_columns});
    for (float& x : infinite.a)
      if (x != 0) x = std::numeric_limits<float>::infinity();
    EXPECT_EQ(differing_bits(events(s, infinite, s.rows, false), dense(s, infinite)), 0U);
  }
}

}  // namespace
}  // namespace etrace::testing::event_base
