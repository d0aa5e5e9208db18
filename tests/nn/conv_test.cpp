// Convolutions of drawn sizes, layouts, strides, dilations, paddings and groups against sums one by one.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "etrace/nn.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using testing::f64;
using testing::values;
using Place = std::map<char, std::int64_t>;  // by the letters of a layout

// The sizes of an array by letters, and where an element lies.
struct Lettered {
  std::string letters;
  Shape shape;
  std::size_t at(const Place& p) const {
    std::int64_t flat = 0;
    for (std::size_t a = 0; a < letters.size(); ++a) flat = flat * shape[a] + p.at(letters[a]);
    return static_cast<std::size_t>(flat);
  }
  std::int64_t size(char letter) const { return shape[letters.find(letter)]; }
  // f(place) for every element, in order.
  template <class F>
  void each(F f) const {
    for (std::int64_t flat = 0; flat < shape.size(); ++flat) {
      Place p;
      std::int64_t rest = flat;
      for (std::size_t a = letters.size(); a-- > 0; rest /= shape[a]) p[letters[a]] = rest % shape[a];
      f(p);
    }
  }
};

struct DrawnConv {
  std::string x_letters, kernel_letters, y_letters, space;  // space: in the order of the kernel
  Place in, kernel, strides, dilation, before, after;       // by letters of space
  std::int64_t groups = 1, in_channels = 1, out_channels = 1;
  bool same = false;
};

class Drawn {
 public:
  explicit Drawn(unsigned seed) : engine_(seed) {}
  std::int64_t from(std::int64_t low, std::int64_t high) {
    return low + static_cast<std::int64_t>(engine_() % static_cast<std::uint64_t>(high - low + 1));
  }
  std::string mixed(std::string letters) {
    for (std::size_t i = letters.size(); i > 1; --i)
      std::swap(letters[i - 1], letters[static_cast<std::size_t>(from(0, static_cast<std::int64_t>(i) - 1))]);
    return letters;
  }

 private:
  std::mt19937_64 engine_;
};

DrawnConv draw_conv(Drawn& d) {
  DrawnConv c;
  const std::string letters = std::string("DHW").substr(static_cast<std::size_t>(d.from(0, 2)));
  c.x_letters = "N" + d.mixed(letters + "C");
  c.kernel_letters = d.mixed(letters + "IO");
  c.y_letters = "N" + d.mixed(letters + "C");
  for (const char l : c.kernel_letters)
    if (letters.find(l) != std::string::npos) c.space += l;
  c.groups = d.from(1, 2);
  c.in_channels = c.groups * d.from(1, 2);
  c.out_channels = c.groups * d.from(1, 2);
  c.same = d.from(0, 2) == 0;
  for (const char l : letters) {
    c.in[l] = d.from(4, 6);
    c.kernel[l] = d.from(1, 3);
    c.strides[l] = d.from(1, 2);
    c.dilation[l] = d.from(1, 2);
    const std::int64_t reach = (c.kernel[l] - 1) * c.dilation[l] + 1, s = c.strides[l];
    const std::int64_t missing = std::max<std::int64_t>((c.in[l] + s - 1) / s * s - s + reach - c.in[l], 0);
    c.before[l] = c.same ? missing / 2 : d.from(0, 2);
    c.after[l] = c.same ? missing - missing / 2 : d.from(0, 1);
  }
  return c;
}

std::vector<double> sums_one_by_one(const DrawnConv& c, const Lettered& x, const Lettered& k,
                                    const Lettered& y, const std::vector<double>& xs,
                                    const std::vector<double>& ks, const std::vector<double>& bias) {
  std::vector<double> out;
  y.each([&](const Place& to) {
    const std::int64_t group = to.at('C') / (c.out_channels / c.groups);
    double sum = bias[static_cast<std::size_t>(to.at('C'))];
    k.each([&](Place w) {
      if (w.at('O') != to.at('C')) return;
      Place from{{'N', to.at('N')}, {'C', group * (c.in_channels / c.groups) + w.at('I')}};
      for (const char l : c.space) {
        from[l] = to.at(l) * c.strides.at(l) + w.at(l) * c.dilation.at(l) - c.before.at(l);
        if (from[l] < 0 || from[l] >= c.in.at(l)) return;
      }
      sum += ks[k.at(w)] * xs[x.at(from)];
    });
    out.push_back(sum);
  });
  return out;
}

Dims by_letters(const std::string& letters, const Place& p) {
  Dims out;
  for (const char l : letters) out.push_back(p.at(l));
  return out;
}

TEST(Conv, EqualsSumsOneByOneInAnyLayout) {
  Drawn d(7);
  testing::Random random(8);
  std::set<std::size_t> dimensions;
  for (int i = 0; i < 30; ++i) {
    const DrawnConv c = draw_conv(d);
    SCOPED_TRACE(c.x_letters + " " + c.kernel_letters + " " + c.y_letters + ", case " + std::to_string(i));
    dimensions.insert(c.space.size());
    Place sample = c.in;
    sample['C'] = c.in_channels;
    nn::Padding::Pairs pairs;
    for (const char l : c.space) pairs.emplace_back(c.before.at(l), c.after.at(l));
    nn::Conv conv(Shape(by_letters(c.x_letters.substr(1), sample)), c.out_channels,
                  by_letters(c.space, c.kernel),
                  {.strides = by_letters(c.space, c.strides),
                   .padding = c.same ? nn::Padding("SAME") : nn::Padding(pairs),
                   .dilation = by_letters(c.space, c.dilation),
                   .groups = c.groups,
                   .bias_init = nn::init::normal(),
                   .layout = {c.x_letters, c.kernel_letters, c.y_letters},
                   .dtype = Dtype::F64});
    const Array x = random.f64(conv.in_size.with_front(2));
    const Array y = conv(x);
    ASSERT_EQ(y.shape(), conv.out_size().with_front(2));
    const Array kernel = conv.weight.value("weight");
    const std::vector<double> expected = sums_one_by_one(
        c, {c.x_letters, x.shape()}, {c.kernel_letters, kernel.shape()}, {c.y_letters, y.shape()}, values(x),
        values(kernel), values(conv.weight.value("bias")));
    EXPECT_EQ(testing::difference(reshape(y, {-1}).tensor(), f64(expected).tensor(), 1e-12), std::nullopt);
    EXPECT_EQ(testing::difference(conv(dynamic_index(x, 1)).tensor(), dynamic_index(y, 1).tensor(), 1e-13),
              std::nullopt);
  }
  EXPECT_EQ(dimensions.size(), 3U);
}

// Entry i of n outputs over m inputs is of [⌊i·m/n⌋, ⌈(i + 1)·m/n⌉).
template <class F>
double adaptive_entry(const std::vector<double>& x, const Dims& in, const Dims& out, std::int64_t flat, F f) {
  double result = f.start, count = 0.0;
  Dims low(3), high(3);
  for (std::size_t a = 3; a-- > 0; flat /= out[a]) {
    const std::int64_t i = flat % out[a];
    low[a] = i * in[a] / out[a];
    high[a] = ((i + 1) * in[a] + out[a] - 1) / out[a];
  }
  for (std::int64_t i = low[0]; i < high[0]; ++i)
    for (std::int64_t j = low[1]; j < high[1]; ++j)
      for (std::int64_t k = low[2]; k < high[2]; ++k) {
        result = f(result, x[static_cast<std::size_t>((i * in[1] + j) * in[2] + k)]);
        count += 1.0;
      }
  return f.mean ? result / count : result;
}
struct Largest {
  double start = -1e300;
  bool mean = false;
  double operator()(double a, double b) const { return std::max(a, b); }
};
struct Mean {
  double start = 0.0;
  bool mean = true;
  double operator()(double a, double b) const { return a + b; }
};

TEST(Pool, AdaptiveInOneToThreeDimensions) {
  testing::Random random(9);
  const auto check = [&](Module& pool, std::size_t space, const Dims& in, const Dims& out, auto f) {
    Dims shape(in.end() - static_cast<std::ptrdiff_t>(space), in.end());
    shape.push_back(1);
    const Array x = random.f64(Shape(shape));
    std::vector<double> expected;
    for (std::int64_t i = 0; i < Shape(out).size(); ++i)
      expected.push_back(adaptive_entry(values(x), in, out, i, f));
    EXPECT_EQ(testing::difference(reshape(pool(x), {-1}).tensor(), f64(expected).tensor(), 1e-14),
              std::nullopt);
  };
  nn::AdaptiveAvgPool1d a1({3});
  check(a1, 1, {1, 1, 7}, {1, 1, 3}, Mean{});
  nn::AdaptiveMaxPool1d m1({5});
  check(m1, 1, {1, 1, 7}, {1, 1, 5}, Largest{});
  nn::AdaptiveAvgPool2d a2({3, 2});
  check(a2, 2, {1, 5, 7}, {1, 3, 2}, Mean{});
  nn::AdaptiveMaxPool2d m2({2, 4});
  check(m2, 2, {1, 5, 7}, {1, 2, 4}, Largest{});
  nn::AdaptiveAvgPool3d a3({2, 3, 1});
  check(a3, 3, {3, 5, 4}, {2, 3, 1}, Mean{});
  nn::AdaptiveMaxPool3d m3({2, 2, 3});
  check(m3, 3, {3, 5, 4}, {2, 2, 3}, Largest{});
}

}  // namespace
}  // namespace etrace
