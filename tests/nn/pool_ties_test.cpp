// Maxima of windows with equal entries: the first in row-major order has the whole derivative, as in PyTorch
// and Flax, in reverse and forward mode and under vmap. A NaN is the maximum of its window.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "etrace/nn.h"
#include "etrace/transform.h"
#include "support/values.h"

namespace etrace {
namespace {

using testing::kNaN;
using testing::values;

struct TiesCase {
  bool channel_first, adaptive;
  Dims sizes, window, strides, out;  // of two axes of space
  std::vector<std::pair<std::int64_t, std::int64_t>> padding;
};

constexpr std::int64_t kChannels = 2;

TiesCase drawn_ties(std::mt19937& random) {
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  TiesCase c{draw(0, 1) == 1, draw(0, 2) == 0, {}, {}, {}, {}, {}};
  for (int axis = 0; axis < 2; ++axis) {
    c.window.push_back(draw(1, 3));
    c.strides.push_back(draw(1, 3));
    c.sizes.push_back(draw(c.window.back(), 6));
    c.out.push_back(draw(1, c.sizes.back()));
    c.padding.emplace_back(draw(0, c.window.back() - 1), draw(0, c.window.back() - 1));
  }
  return c;
}

// Along one axis: where each window begins and ends in what is not padding.
std::vector<std::pair<std::int64_t, std::int64_t>> windows(const TiesCase& c, std::size_t axis) {
  std::vector<std::pair<std::int64_t, std::int64_t>> all;
  const std::int64_t n = c.sizes[axis], m = c.out[axis];
  if (c.adaptive) {
    for (std::int64_t i = 0; i < m; ++i) all.emplace_back(i * n / m, ((i + 1) * n + m - 1) / m);
    return all;
  }
  const auto [before, after] = c.padding[axis];
  for (std::int64_t i = 0; i + c.window[axis] <= n + before + after; i += c.strides[axis])
    all.emplace_back(std::max<std::int64_t>(i - before, 0), std::min(i + c.window[axis] - before, n));
  return all;
}

// Per output, in order: where in x its maximum is.
std::vector<std::size_t> first_of_largest(const TiesCase& c, const std::vector<double>& x) {
  const auto place = [&](std::int64_t channel, std::int64_t row, std::int64_t column) {
    return static_cast<std::size_t>(c.channel_first ? (channel * c.sizes[0] + row) * c.sizes[1] + column
                                                    : (row * c.sizes[1] + column) * kChannels + channel);
  };
  const auto rows = windows(c, 0), columns = windows(c, 1);
  const auto outputs = rows.size() * columns.size();
  std::vector<std::size_t> found(outputs * kChannels);
  for (std::size_t k = 0; k < found.size(); ++k) {
    const std::size_t channel = c.channel_first ? k / outputs : k % kChannels,
                      output = c.channel_first ? k % outputs : k / kChannels;
    const auto [top, bottom] = rows[output / columns.size()];
    const auto [left, right] = columns[output % columns.size()];
    const auto at = [&](std::int64_t i, std::int64_t j) {
      return place(static_cast<std::int64_t>(channel), i, j);
    };
    std::size_t best = at(top, left);
    for (std::int64_t i = top; i < bottom; ++i)
      for (std::int64_t j = left; j < right; ++j)
        if (const double v = x[at(i, j)]; v > x[best] || (std::isnan(v) && !std::isnan(x[best])))
          best = at(i, j);
    found[k] = best;
  }
  return found;
}

Function pool_of(const TiesCase& c) {
  return [c](ArraySpan x) -> Arrays {
    if (c.adaptive) {
      nn::AdaptiveMaxPool2d pool(c.out, c.channel_first);
      return {pool(x[0])};
    }
    nn::MaxPool2d pool(c.window,
                       {.strides = c.strides, .padding = c.padding, .channel_first = c.channel_first});
    return {pool(x[0])};
  };
}

// Few numbers, so that most windows have equal ones.
std::vector<double> few_numbers(std::mt19937& random, std::size_t count, bool with_nan) {
  std::vector<double> out;
  for (std::size_t i = 0; i < count; ++i) {
    const int v = std::uniform_int_distribution<int>(-1, 2)(random);
    out.push_back(with_nan && std::uniform_int_distribution<int>(0, 5)(random) == 0 ? kNaN : v);
  }
  return out;
}

void expect_first(const TiesCase& c, Dtype dtype, std::mt19937& random, bool with_nan) {
  const Shape shape =
      c.channel_first ? Shape{kChannels, c.sizes[0], c.sizes[1]} : Shape{c.sizes[0], c.sizes[1], kChannels};
  const auto count = static_cast<std::size_t>(shape.size());
  const std::vector<double> x = few_numbers(random, count, with_nan);
  const std::vector<std::size_t> winners = first_of_largest(c, x);
  const Array input = array(x, shape, dtype);
  const Array y = pool_of(c)(Arrays{input})[0];
  std::vector<double> cts, gradient(count, 0.0), tangents, tangent_of_y;
  for (std::size_t k = 0; k < winners.size(); ++k) cts.push_back(1.0 + static_cast<double>(k));
  for (std::size_t i = 0; i < count; ++i) tangents.push_back(100.0 + static_cast<double>(i));
  for (std::size_t k = 0; k < winners.size(); ++k) {
    const double expected = x[winners[k]], found = values(y)[k];
    EXPECT_TRUE(found == expected || (std::isnan(found) && std::isnan(expected)))
        << found << " is not " << expected;
    gradient[winners[k]] += cts[k];
    tangent_of_y.push_back(tangents[winners[k]]);
  }
  if (!is_floating(dtype)) return;
  const Array ct = array(cts, y.shape(), dtype), dx = array(tangents, shape, dtype);
  EXPECT_EQ(values(vjp(pool_of(c))(Arrays{input, ct})[1]), gradient);
  EXPECT_EQ(values(jvp(pool_of(c))(Arrays{input, dx})[1]), tangent_of_y);
  const Function pull = [&](ArraySpan a) { return Arrays{vjp(pool_of(c))(a)[1]}; };
  const Array many = vmap(pull)(Arrays{stack({input, input}), stack({ct, 2.0 * ct})})[0];
  for (std::size_t i = 0; i < count; ++i) EXPECT_EQ(values(many)[count + i], 2.0 * gradient[i]);
}

TEST(MaxPool, TheFirstOfEqualEntriesHasTheDerivative) {
  std::mt19937 random(5);
  for (int k = 0; k < 60 && !::testing::Test::HasFailure(); ++k) {
    const TiesCase c = drawn_ties(random);
    SCOPED_TRACE(k);
    for (const Dtype dtype : {Dtype::F32, Dtype::F64, Dtype::I32, Dtype::I64})
      expect_first(c, dtype, random, is_floating(dtype) && k % 3 == 0);
  }
}

}  // namespace
}  // namespace etrace
