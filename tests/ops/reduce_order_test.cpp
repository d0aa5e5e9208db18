// The order of sums and products, element by element as reduce_order.h and etp_fold.h describe it.
#include "ops/reduce_order.h"

#include <functional>

#include "etrace/ops/numpy.h"
#include "etrace/ops/reduce.h"
#include "runtime/etp_fold.h"
#include "runtime/thread_pool.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

TEST(ReduceOrder, ALineIsWhatLiesBehindEveryKeptAxis) {
  const auto expect = [](const Shape& shape, const Dims& axes, const Dims& chain, const Dims& line) {
    const ReduceOrder order = reduce_order(shape, axes);
    EXPECT_EQ(order.chain, chain);
    EXPECT_EQ(order.line, line);
    EXPECT_EQ(order.joins(), !chain.empty() || !line.empty());
  };
  expect({4, 3, 5}, {0, 1, 2}, {}, {0, 1, 2});
  expect({4, 3, 5}, {2}, {}, {2});
  expect({4, 3, 5}, {2, 0}, {0}, {2});
  expect({4, 3, 5}, {0, 1}, {0, 1}, {});
  expect({4, 1, 5}, {0, 2}, {}, {0, 2});  // a kept axis of size 1 keeps nothing apart
  expect({4, 3, 1}, {0, 2}, {0}, {});     // and a reduced one is no line
  expect({4, 3, 1}, {2}, {}, {});         // one element each
  expect({1, 1}, {0, 1}, {}, {});
  expect({0, 3}, {0}, {0}, {});
}

// Position by position, from the description alone.
double joined(const std::vector<double>& line, double total, double neutral,
              const std::function<double(double, double)>& join) {
  for (std::size_t start = 0; start < line.size(); start += ETP_FOLD_BLOCK) {
    std::vector<double> lane(ETP_FOLD_LANES, neutral);
    for (std::size_t i = start; i < std::min(line.size(), start + ETP_FOLD_BLOCK); ++i)
      lane[(i - start) % ETP_FOLD_LANES] = join(lane[(i - start) % ETP_FOLD_LANES], line[i]);
    for (std::size_t w = ETP_FOLD_LANES / 2; w > 0; w /= 2)
      for (std::size_t k = 0; k < w; ++k) lane[k] = join(lane[k], lane[k + w]);
    total = join(total, lane[0]);
  }
  return total;
}

struct Size {
  std::int64_t chain, kept, line;  // axes of the operand: the first and the last are reduced
};

TEST(ReduceOrder, SumsAndProductsKeepToIt) {
  const auto add = [](double a, double b) { return a + b; };
  const auto mul = [](double a, double b) { return a * b; };
  for (const auto& [chain, kept, line] :
       {Size{1, 3, 5}, Size{4, 3, 16}, Size{7, 5, 33}, Size{2, 2, 9000}, Size{33, 40, 1}, Size{3, 200, 50}}) {
    SCOPED_TRACE(std::to_string(chain) + " × " + std::to_string(kept) + " × " + std::to_string(line));
    const Array x = Random(3).f64({chain, kept, line}, 0.5, 1.5);
    const std::vector<double> all = values(x);
    for (const bool is_sum : {true, false}) {
      std::vector<double> expected;
      for (std::int64_t k = 0; k < kept; ++k) {
        double total = is_sum ? 0.0 : 1.0;
        for (std::int64_t c = 0; c < chain; ++c) {
          const auto first = all.begin() + (c * kept + k) * line;
          if (line == 1)
            total = is_sum ? total + *first : total * *first;
          else
            total = joined({first, first + line}, total, is_sum ? 0.0 : 1.0,
                           is_sum ? std::function<double(double, double)>(add) : mul);
        }
        expected.push_back(total);
      }
      for (const int threads : {1, 2, 5}) {
        set_num_threads(threads);
        const Array found = is_sum ? sum(x, {0, 2}) : prod(x, {0, 2});
        EXPECT_EQ(values(found), expected) << threads << " threads";
      }
    }
  }
  set_num_threads(1);
}

// A sum of one element is that element, also if it is −0; of several it begins with 0.
TEST(ReduceOrder, ASumOfOneIsTheElement) {
  const Array zeros = array({-0.0, -0.0}, {2, 1}, Dtype::F64);
  EXPECT_TRUE(std::signbit(values(sum(zeros, {1}))[0]));
  EXPECT_FALSE(std::signbit(values(sum(zeros, {0}))[0]));
  EXPECT_FALSE(std::signbit(values(sum(zeros, {0, 1}))[0]));
}

}  // namespace
}  // namespace etrace::testing
