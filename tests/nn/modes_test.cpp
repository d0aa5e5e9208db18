// Layers that do one thing while the model trains and another while it is evaluated.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "etrace/learner.h"
#include "etrace/nn.h"
#include "etrace/random.h"
#include "support/errors.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using ::testing::HasSubstr;
using testing::values;

TEST(Dropout, KeepsTheMeanWhileTraining) {
  nn::Dropout drop({.keep = 0.8});
  const Array x = ones({200, 100});
  const Array y = drop(x), again = drop(x);
  EXPECT_FALSE(y.tensor() == again.tensor());
  std::size_t kept = 0;
  for (const double v : values(y)) {
    EXPECT_TRUE(v == 0.0 || std::abs(v - 1.25) < 1e-6);
    kept += v > 0.0 ? 1 : 0;
  }
  EXPECT_NEAR(static_cast<double>(kept) / 20000.0, 0.8, 0.02);
  drop.eval();
  EXPECT_EQ(drop(x).tensor(), x.tensor());
}

TEST(Dropout, LayersDrawApartAndSeedsCount) {
  struct Net : Module {
    explicit Net(std::uint64_t seed)
        : a(child<nn::Dropout>("a", nn::DropoutOptions{.seed = seed})),
          b(child<nn::Dropout>("b", nn::DropoutOptions{.seed = seed})) {}
    nn::Dropout &a, &b;
  };
  const Array x = ones({50});
  Net net(1), same(1), other(2);
  const Tensor first = net.a(x).tensor();
  EXPECT_FALSE(first == net.b(x).tensor());
  EXPECT_EQ(first, same.a(x).tensor());
  EXPECT_FALSE(first == other.a(x).tensor());
}

TEST(Dropout, OptionsAndInputsAreChecked) {
  EXPECT_THAT(testing::message_of<ValueError>([] { nn::Dropout({.keep = 0.0}); }), HasSubstr("probability"));
  nn::Dropout drop;
  EXPECT_THROW(drop(zeros({2}, Dtype::I32)), ValueError);
}

// Compiled before the mode changes: the program follows.
TEST(Dropout, InALearner) {
  struct Net : Module {
    nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 2, 30);
    nn::Dropout& drop = child<nn::Dropout>("drop");
    Array update(const Array& x) override { return drop(rnn(x)); }
  } net;
  Learner learner = compile(net, D_RTRL(), zeros({2}));
  const auto zeros_in = [&] {
    std::size_t n = 0;
    for (const double v : values(learner(ones({2})))) n += v == 0.0 ? 1 : 0;
    return n;
  };
  EXPECT_GT(zeros_in(), 3U);
  net.eval();
  EXPECT_EQ(zeros_in(), 0U);
}

TEST(BatchNorm, NormalisesTheBatchAndFollowsIt) {
  for (const bool channel_first : {false, true}) {
    const Shape in = channel_first ? Shape{2, 3} : Shape{3, 2};
    nn::BatchNorm norm(
        in, {.momentum = 0.9, .epsilon = 0.0, .channel_first = channel_first, .dtype = Dtype::F64});
    norm.weight->set("scale", array({1, 2}, Dtype::F64));
    norm.weight->set("bias", array({0, 5}, Dtype::F64));
    const Array x = random::normal(random::key(1), in.with_front(4), Dtype::F64) * 3.0 + 1.0;
    const Array y = norm(x);
    const Dims axes = channel_first ? Dims{0, 2} : Dims{0, 1};
    EXPECT_EQ(testing::difference(mean(y, axes).tensor(), testing::f64({0, 5}).tensor(), 1e-12),
              std::nullopt);
    EXPECT_EQ(testing::difference(variance(y, axes).tensor(), testing::f64({1, 4}).tensor(), 1e-12),
              std::nullopt);
    EXPECT_EQ(testing::difference(norm.running_mean.value().tensor(), (0.1 * mean(x, axes)).tensor(), 1e-14),
              std::nullopt);
    EXPECT_EQ(testing::difference(norm.running_variance.value().tensor(),
                                  (0.9 + 0.1 * variance(x, axes)).tensor(), 1e-14),
              std::nullopt);
    norm.eval();
    const Array before = norm.running_mean.value();
    const Array one = norm(slice_axis(x, 0, 0, 1));
    EXPECT_EQ(norm.running_mean.value().tensor(), before.tensor());
    const Array centred =
        slice_axis(x, 0, 0, 1) - broadcast_in_dim(before, in.with_front(1), {channel_first ? 1 : 2});
    const Array expected =
        centred /
            broadcast_in_dim(sqrt(norm.running_variance.value()), in.with_front(1), {channel_first ? 1 : 2}) *
            broadcast_in_dim(norm.weight->value("scale"), in.with_front(1), {channel_first ? 1 : 2}) +
        broadcast_in_dim(norm.weight->value("bias"), in.with_front(1), {channel_first ? 1 : 2});
    EXPECT_EQ(testing::difference(one.tensor(), expected.tensor(), 1e-12), std::nullopt);
  }
}

TEST(BatchNorm, NeedsABatch) {
  nn::BatchNorm norm(3);
  EXPECT_THAT(testing::message_of<ValueError>([&] { norm(zeros({3})); }), HasSubstr("a batch of them"));
  EXPECT_THROW(norm(zeros({2, 4})), ValueError);
  EXPECT_THROW(nn::BatchNorm(3, {.momentum = 1.0}), ValueError);
}

}  // namespace
}  // namespace etrace
