// Layers that have no parameters: pooling, flattening, containers.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/nn.h"
#include "etrace/transform.h"
#include "support/errors.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using namespace nn;
using ::testing::ElementsAre;
using testing::f64;
using ::testing::HasSubstr;
using testing::values;

// Windows one by one, over all axes of space at once.
struct PoolGeometry {
  Dims window, strides;
  std::vector<std::pair<std::int64_t, std::int64_t>> padding;
};
std::vector<double> by_windows(const Array& x, const PoolGeometry& g, bool is_max, bool count_padding) {
  const Shape shape = x.shape();  // [space…, 1]
  const std::vector<double> in = values(x);
  const std::size_t space = shape.rank() - 1;
  Dims out, first(space, 0);
  for (std::size_t a = 0; a < space; ++a)
    out.push_back((shape[a] + g.padding[a].first + g.padding[a].second - g.window[a]) / g.strides[a] + 1);
  std::vector<double> result;
  for (std::int64_t o = 0; o < Shape(out).size(); ++o) {
    double best = -1e300, total = 0.0, inside = 0.0;
    for (std::int64_t w = 0; w < Shape(g.window).size(); ++w) {
      std::int64_t flat = 0, rest_o = o, rest_w = w;
      bool in_x = true;
      std::int64_t scale = 1;
      for (std::size_t a = space; a-- > 0;) {
        const std::int64_t at = rest_o % out[a] * g.strides[a] + rest_w % g.window[a] - g.padding[a].first;
        rest_o /= out[a];
        rest_w /= g.window[a];
        in_x = in_x && at >= 0 && at < shape[a];
        flat += at * scale;
        scale *= shape[a];
      }
      if (!in_x) continue;
      const double v = in[static_cast<std::size_t>(flat)];
      best = std::max(best, v);
      total += v;
      inside += 1.0;
    }
    result.push_back(is_max ? best
                            : total / (count_padding ? static_cast<double>(Shape(g.window).size()) : inside));
  }
  return result;
}

TEST(Pool, EqualsWindowsOneByOne) {
  testing::Random random(1);
  const Array line = random.f64({7, 1}), plane = random.f64({5, 4, 1}), space = random.f64({3, 4, 2, 1});
  const PoolGeometry g1{{3}, {2}, {{1, 1}}}, g2{{2, 3}, {1, 2}, {{0, 1}, {1, 0}}},
      g3{{2, 2, 1}, {1, 2, 1}, {{0, 0}, {0, 0}, {0, 0}}};
  const auto check = [](Module& pool, const Array& x, const std::vector<double>& expected) {
    const Array y = pool(x);
    EXPECT_EQ(testing::difference(reshape(y, {-1}).tensor(), f64(expected).tensor(), 1e-14), std::nullopt);
    const Array both = pool(stack(Arrays{x, 2.0 * x}));
    EXPECT_EQ(testing::difference(both.tensor(), stack(Arrays{y, 2.0 * y}).tensor(), 1e-14), std::nullopt);
  };
  const auto options = [](const PoolGeometry& g, bool count = false) {
    return PoolOptions{.strides = g.strides, .padding = g.padding, .count_padding = count};
  };
  for (const bool count : {false, true}) {
    AvgPool1d a(g1.window, options(g1, count));
    check(a, line, by_windows(line, g1, false, count));
    AvgPool2d b(g2.window, options(g2, count));
    check(b, plane, by_windows(plane, g2, false, count));
    AvgPool3d c(g3.window, options(g3, count));
    check(c, space, by_windows(space, g3, false, count));
  }
  MaxPool1d a(g1.window, options(g1));
  check(a, line, by_windows(line, g1, true, false));
  MaxPool2d b(g2.window, options(g2));
  check(b, plane, by_windows(plane, g2, true, false));
  MaxPool3d c(g3.window, options(g3));
  check(c, space, by_windows(space, g3, true, false));
}

TEST(Pool, AdaptiveWindows) {
  const Array x = array({1, 2, 3, 4, 5, 6, 7}, Shape{7, 1}, Dtype::F64);
  // 7 entries in 3 windows: [0, 3), [2, 5), [4, 7)
  EXPECT_THAT(values(AdaptiveAvgPool1d({3})(x)), ElementsAre(2, 4, 6));
  EXPECT_THAT(values(AdaptiveMaxPool1d({3})(x)), ElementsAre(3, 5, 7));
  // 7 in 2: [0, 4), [3, 7); 5 in 2, unequal distances: [0, 3), [2, 5)
  EXPECT_THAT(values(AdaptiveMaxPool1d({2})(x)), ElementsAre(4, 7));
  EXPECT_THAT(values(AdaptiveAvgPool1d({5})(x)),
              ElementsAre(1.5, 2.5, 4, 5.5, 6.5));  // lengths 2, 2, 3, 2, 2
  EXPECT_EQ(AdaptiveAvgPool2d({1, 2})(zeros({3, 3, 4, 5})).shape(), (Shape{3, 1, 2, 5}));
  EXPECT_EQ(AdaptiveMaxPool2d({2}, true)(zeros({5, 4, 4})).shape(), (Shape{5, 2, 2}));
  EXPECT_EQ(AdaptiveAvgPool3d({2})(zeros({4, 4, 4, 1})).shape(), (Shape{2, 2, 2, 1}));
  EXPECT_EQ(AdaptiveMaxPool3d({2})(zeros({4, 4, 4, 1})).shape(), (Shape{2, 2, 2, 1}));
}

TEST(Pool, ChannelsFirstAndGradients) {
  testing::Random random(2);
  const Array x = random.f64({2, 5, 4});
  const Array first = MaxPool1d({2}, {.channel_first = true})(transpose(x, {0, 2, 1}));
  EXPECT_EQ(transpose(first, {0, 2, 1}).tensor(), MaxPool1d({2})(x).tensor());
  // Each maximum passes its cotangent to one entry.
  const Array slope = grad([](ArraySpan a) { return sum(MaxPool1d({2})(a[0])); })(Arrays{x})[0];
  EXPECT_EQ(sum(slope).item<double>(), 2.0 * 2 * 4);
}

TEST(Pool, WrongInputsAreNamed) {
  EXPECT_THAT(testing::message_of<ValueError>([] { MaxPool2d({2})(zeros({4})); }),
              ::testing::AllOf(HasSubstr("MaxPool2d"), HasSubstr("f32[4]")));
  EXPECT_THAT(testing::message_of<ValueError>([] {
                AvgPool1d({5})(zeros({3, 2}));
              }),
              HasSubstr("window of 5"));
  EXPECT_THROW(AvgPool2d({2, 2, 2}), ValueError);
  EXPECT_THROW(AvgPool2d({0}), ValueError);
  EXPECT_THROW(AvgPool1d({2}, {.padding = {{2, 0}}}), ValueError);
}

TEST(Shapes, FlattenAndBack) {
  Flatten flatten(Shape{2, 3});
  Unflatten unflatten(Shape{2, 3});
  const Array x = testing::Random(1).f64({4, 2, 3});
  EXPECT_EQ(flatten(x).shape(), (Shape{4, 6}));
  EXPECT_EQ(unflatten(flatten(x)).tensor(), x.tensor());
  EXPECT_EQ(flatten(zeros({2, 3})).shape(), (Shape{6}));
  EXPECT_EQ(flatten.out_size(), 6);
  EXPECT_THAT(testing::message_of<ValueError>([&] { flatten(zeros({3, 2})); }), HasSubstr("[…,2,3]"));
  EXPECT_THROW(unflatten(zeros({5})), ValueError);
}

TEST(Containers, OneAfterTheOther) {
  nn::Sequential net;
  net.add<Linear>(2, 3, LinearOptions{.weight_init = init::ones()});
  net.add<ReLU>();
  net.add<Lambda>([](const Array& x) { return 2.0 * x; });
  EXPECT_THAT(values(net(array({1, -3}))), ElementsAre(0, 0, 0));
  EXPECT_THAT(values(net(array({1, 3}))), ElementsAre(8, 8, 8));
}

TEST(Containers, WhatDoesNotFitIsNamed) {
  Residual residual;
  residual.add<Linear>(2, 3);
  EXPECT_THAT(testing::message_of<ValueError>([&] { residual(zeros({2})); }),
              ::testing::AllOf(HasSubstr("f32[3]"), HasSubstr("f32[2]")));
  Parallel parallel;
  EXPECT_THROW(parallel(zeros({2})), ValueError);
  parallel.add<Linear>(2, 3);
  parallel.add<Linear>(2, 4);
  EXPECT_THAT(testing::message_of<ValueError>([&] { parallel(zeros({2})); }), HasSubstr("f32[4]"));
}

// Options that cannot be -----------------------------------------------------------------------------------
TEST(Conv, OptionsAreChecked) {
  EXPECT_THAT(testing::message_of<ValueError>([] {
                Conv2d(Shape{4, 3}, 2, {3});
              }),
              HasSubstr("2 axes of space"));
  EXPECT_THAT(testing::message_of<ValueError>([] {
                Conv1d(Shape{4, 3}, 2, {3}, {.groups = 2});
              }),
              HasSubstr("2 groups"));
  EXPECT_THROW(Conv1d(Shape{4, 3}, 2, {3, 3}), ValueError);
  EXPECT_THROW(Conv1d(Shape{4, 3}, 2, {3}, {.strides = {0}}), ValueError);
  EXPECT_THROW(Conv1d(Shape{4, 3}, 2, {3}, {.padding = "HALF"}), ValueError);
  EXPECT_THROW(Conv2d(Shape{4, 4, 3}, 2, {3}, {.padding = Padding::Pairs{{1, 1}, {1, 1}, {1, 1}}}),
               ValueError);
  EXPECT_THROW(Conv1d(Shape{4, 3}, 2, {3}, {.layout = {"NHC", "HIO"}}), ValueError);
  EXPECT_THROW(Conv1d(Shape{4, 3}, 2, {3}, {.input_dilation = {2}}), ValueError);  // with padding SAME
  EXPECT_EQ(Conv1d(Shape{4, 3}, 2, {3}, {.padding = 2, .input_dilation = {2}}).out_size(), (Shape{9, 2}));
  EXPECT_EQ(Conv2d(Shape{8, 7, 3}, 5, {4, 3}, {.strides = {2}}).out_size(), (Shape{4, 4, 5}));
  EXPECT_EQ(Conv3d(Shape{3, 4, 5, 6}, 5, {2}, {.padding = "VALID", .channel_first = true}).out_size(),
            (Shape{5, 3, 4, 5}));
}

TEST(Conv, FansOfTheKernel) {
  const auto spread = [](const Conv& c) { return variance(c.weight.value("weight")).item<double>(); };
  const ConvLayerOptions kaiming{.weight_init = init::kaiming_normal()};
  ConvLayerOptions other = kaiming;
  other.layout = {"NCHW", "OIHW", "NCHW"};
  EXPECT_NEAR(spread(Conv2d(Shape{9, 9, 20}, 60, {3}, kaiming)) / (2.0 / 180), 1.0, 0.05);
  EXPECT_NEAR(spread(Conv2d(Shape{20, 9, 9}, 60, {3}, other)) / (2.0 / 180), 1.0, 0.05);
}

TEST(Embedding, WantsWholeNumbers) {
  Embedding table(3, 2);
  EXPECT_THAT(testing::message_of<TypeError>([&] { table(zeros({2})); }), HasSubstr("whole numbers"));
  EXPECT_EQ(table(zeros({4, 5}, Dtype::I32)).shape(), (Shape{4, 5, 2}));
}

TEST(WeightLayers, Units) {
  Linear layer(2, 1, {.weight_init = init::ones(), .bias_init = init::constant(1.0), .unit = units::mS});
  const Quantity current = layer(array({2, 3}) * units::mV);
  EXPECT_EQ(current.to(units::uA).item<double>(), 6.0);
  EXPECT_THROW(current.to(units::mV), UnitError);
  EXPECT_EQ(layer(array({2, 3})).item<double>(), 6.0);
}

}  // namespace
}  // namespace etrace
