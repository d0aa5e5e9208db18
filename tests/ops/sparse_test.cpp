// Products with a sparse matrix: against plain loops, for any order of the entries, and the same bits for any
// number of threads.
#include "etrace/ops/sparse.h"

#include <random>

#include "etrace/etp.h"
#include "ops/sparse_lines.h"
#include "runtime/thread_pool.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

struct DrawnEntries {
  Dims row, col;
  SparseEntries entries(std::int64_t rows, std::int64_t cols) const { return {row, col, rows, cols}; }
};
DrawnEntries draw_entries(std::int64_t rows, std::int64_t cols, std::int64_t count, bool by_column) {
  std::mt19937_64 r(5);
  DrawnEntries out;
  for (std::int64_t p = 0; p < count; ++p) {
    out.row.push_back(static_cast<std::int64_t>(r() % static_cast<std::uint64_t>(rows)));
    out.col.push_back(by_column ? p * cols / count
                                : static_cast<std::int64_t>(r() % static_cast<std::uint64_t>(cols)));
  }
  return out;
}

void expect_products(std::int64_t batch, std::int64_t count, bool by_column) {
  const std::int64_t rows = 70, cols = 33;
  const DrawnEntries d = draw_entries(rows, cols, count, by_column);
  Random r(7);
  const Array x = r.f64({batch, rows}), w = r.f64({count}), y = r.f64({batch, cols});
  std::vector<double> product(static_cast<std::size_t>(batch * cols), 0.0),
      gradient(static_cast<std::size_t>(count), 0.0);
  const std::vector<double> xs = values(x), ws = values(w), ys = values(y);
  const auto at2 = [](std::int64_t b, std::int64_t n, std::int64_t i) {
    return static_cast<std::size_t>(b * n + i);
  };
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t p = 0; p < count; ++p) {
      const auto at = static_cast<std::size_t>(p);
      product[at2(b, cols, d.col[at])] += xs[at2(b, rows, d.row[at])] * ws[at];
      gradient[at] += xs[at2(b, rows, d.row[at])] * ys[at2(b, cols, d.col[at])];
    }
  const SparseEntries e = d.entries(rows, cols);
  const auto first = difference(sparse_product(x, w, e).tensor(), Tensor::of(product, {batch, cols}), 1e-12);
  EXPECT_FALSE(first.has_value()) << *first;
  const auto second = difference(sparse_gradient(x, y, e).tensor(), Tensor::of(gradient, {count}), 1e-12);
  EXPECT_FALSE(second.has_value()) << *second;
}

TEST(SparseProduct, AgreesWithLoops) {
  for (const std::int64_t batch : {1, 2, 9, 40})
    for (const bool by_column : {true, false}) expect_products(batch, 900, by_column);
}

TEST(SparseProduct, HasTheSameBitsForAnyNumberOfThreads) {
  const std::int64_t rows = 900, cols = 700, count = 150000;
  for (const bool by_column : {true, false})
    for (const std::int64_t batch : {1, 3}) {
      const SparseEntries e = draw_entries(rows, cols, count, by_column).entries(rows, cols);
      Random r(3);
      const Array x = r.f64({batch, rows}), w = r.f64({count});
      const auto both = [&](int threads) {
        set_num_threads(threads);
        const Array y = sparse_product(x, w, e);
        return Tensors{y.tensor(), sparse_gradient(x, y, e).tensor()};
      };
      const Tensors one = both(1), three = both(3);
      set_num_threads(1);
      EXPECT_EQ(difference(one[0], three[0], 0.0), std::nullopt);
      EXPECT_EQ(difference(one[1], three[1], 0.0), std::nullopt);
    }
}

TEST(SparseProduct, RefusesWhatDoesNotFit) {
  const SparseEntries e{Dims{0, 1}, Dims{0, 2}, 2, 3};
  expect_error<ValueError>("expected [samples, 2]", [&] { sparse_product(zeros({1, 3}), zeros({2}), e); });
  expect_error<ValueError>("one for each of 2", [&] { sparse_product(zeros({1, 2}), zeros({3}), e); });
  expect_error<ValueError>("as many samples", [&] { sparse_gradient(zeros({1, 2}), zeros({2, 3}), e); });
  expect_error<TypeError>("both be float32", [&] {
    sparse_product(convert(zeros({1, 2}), Dtype::I32), convert(zeros({2}), Dtype::I32), e);
  });
  const SparseEntries beyond{Dims{0, 2}, Dims{0, 2}, 2, 3};
  expect_error<CompilationError>("entry 1 has row 2", [&] {
    sparse_product(zeros({1, 2}), zeros({2}), beyond);
  });
}

TEST(SparsePattern, CopiesShareTheirLists) {
  const SparsePattern p = SparsePattern::csr(2, 3, {0, 1, 2}, {2, 0});
  const SparsePattern copy = p, again = SparsePattern::from_attr(p.to_attr());
  EXPECT_EQ(&copy.row(), &p.row());
  EXPECT_EQ(&again.row(), &p.row());
  EXPECT_EQ(&again.col(), &p.col());
  EXPECT_EQ(sizeof(p.row()[0]), 4U);
}

// Long lists stand once in memory: the equation, the pattern and kernels that walk them in order share them.
TEST(SparsePattern, LongListsStandOnce) {
  Dims row(200), col(200);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<std::int64_t>(i * 7 % 30);
    col[i] = static_cast<std::int64_t>(i / 10);
  }
  const SparsePattern p = SparsePattern::coo(30, 20, row, col);
  const Params record(*p.to_attr().dict_items());
  EXPECT_EQ(record.find("row")->table()->get(), &p.row());
  EXPECT_EQ(sparse_lines(p.entries().col, p.entries().row, 20)->other.data(), p.row().data());
  // Out of order they are sorted into a copy.
  EXPECT_NE(sparse_lines(p.entries().row, p.entries().col, 30)->other.data(), p.col().data());
  EXPECT_EQ(Dims(p.row().begin(), p.row().end()), row);
}

TEST(SparsePattern, RefusesIndicesBeyond32Bits) {
  const std::int64_t far = std::int64_t{1} << 31U;
  expect_error<ValueError>("2147483648 does not fit in 32 bits", [&] {
    SparsePattern::coo(2, 2, {0, far}, {0, 1});
  });
  expect_error<CompilationError>("does not fit in 32 bits", [&] {
    SparsePattern::from_attr(
        Attr::dict({{"kind", "coo"}, {"shape", Dims{2, 2}}, {"row", Dims{0, far}}, {"col", Dims{0, 1}}}));
  });
}

}  // namespace
}  // namespace etrace::testing
