// Losses against their formulas, their gradients against finite differences, and what they refuse.
#include "etrace/loss.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "etrace/interp.h"
#include "etrace/transform.h"
#include "support/errors.h"
#include "support/functions.h"
#include "support/values.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;
using testing::Random;
using testing::values;
using testing::vec;

constexpr double kExact = 1e-12;

Array ints(const std::vector<double>& v, const Shape& shape) { return array(v, shape, Dtype::I32); }

using LossFunction = std::function<Array(const Array&, const Array&)>;

// The gradient in the prediction, in a random direction.
void expect_gradient(const LossFunction& loss, const Array& prediction, const Array& target) {
  const auto f = [&](ArraySpan a) { return loss(a[0], target); };
  const Array g = grad(f)(Arrays{prediction})[0];
  const Tensors at{prediction.tensor()}, along{Random(5).tensor(prediction.aval())};
  const Tensors slope = testing::directional_difference(
      [&](std::span<const Tensor> x) { return to_tensors(Arrays{f(to_arrays(x))}); }, at, along, 1e-4);
  const Tensors found{g.tensor()};
  EXPECT_NEAR(testing::inner(found, along).value, slope[0].to_doubles()[0], 1e-8);
}

TEST(Loss, Mse) {
  const Array p = array({1, 2, 3, 4}, {2, 2}, Dtype::F64), t = array({0, 2, 5, 4.5}, {2, 2}, Dtype::F64);
  EXPECT_NEAR(loss::mse(p, t).item<double>(), (1 + 0 + 4 + 0.25) / 4, kExact);
  EXPECT_EQ(loss::mse(p, t).shape(), Shape{});
  expect_gradient(loss::mse, p, t);
  // The prediction decides the type; whole-number targets are fine.
  EXPECT_EQ(loss::mse(convert(p, Dtype::F32), t).dtype(), Dtype::F32);
  EXPECT_NEAR(loss::mse(p, ints({0, 2, 5, 4}, {2, 2})).item<double>(), 5.0 / 4, kExact);
  EXPECT_NEAR(loss::mse(array({3.0}, {}, Dtype::F64), array({1.0}, {}, Dtype::F64)).item<double>(), 4.0,
              kExact);
}

double log_softmax_at(const std::vector<double>& x, std::size_t c) {
  double z = 0.0;
  for (const double v : x) z += std::exp(v);
  return x[c] - std::log(z);
}

TEST(Loss, CrossEntropyOfLabelsAndDistributions) {
  const std::vector<double> a{0.3, -1.2, 2.0}, b{1.0, 0.5, -0.5};
  const Array logits = array({a, b}, Dtype::F64);
  const double by_hand = -(log_softmax_at(a, 2) + log_softmax_at(b, 0)) / 2;
  const Array labels = ints({2, 0}, {2});
  EXPECT_NEAR(loss::cross_entropy(logits, labels).item<double>(), by_hand, kExact);
  EXPECT_NEAR(loss::cross_entropy(logits, one_hot(labels, 3, Dtype::F64)).item<double>(), by_hand, kExact);
  const Array soft = array({{0.2, 0.3, 0.5}, {0.0, 1.0, 0.0}}, Dtype::F64);
  EXPECT_NEAR(loss::cross_entropy(logits, soft).item<double>(),
              -(0.2 * log_softmax_at(a, 0) + 0.3 * log_softmax_at(a, 1) + 0.5 * log_softmax_at(a, 2) +
                log_softmax_at(b, 1)) /
                  2,
              kExact);
  expect_gradient(loss::cross_entropy, logits, labels);
  expect_gradient(loss::cross_entropy, logits, soft);
  // One sample without a batch axis.
  EXPECT_NEAR(loss::cross_entropy(vec(a, Dtype::F64), ints({1}, {})).item<double>(), -log_softmax_at(a, 1),
              kExact);
}

TEST(Loss, CrossEntropyStaysFinite) {
  const auto f = [](ArraySpan a) { return loss::cross_entropy(a[0], ints({1}, {1})); };
  const Function with_gradient = value_and_grad(f);
  const Arrays large = with_gradient(Arrays{array({1e4, -1e4, 0}, {1, 3}, Dtype::F32)});
  EXPECT_FLOAT_EQ(large[0].item<float>(), 2e4F);
  EXPECT_EQ(values(large[1]), (std::vector<double>{1, -1, 0}));
  // A class that is ruled out by a logit of −∞ and is not the target.
  const Arrays masked = with_gradient(Arrays{array({-INFINITY, 0, 0}, {1, 3}, Dtype::F64)});
  EXPECT_NEAR(masked[0].item<double>(), std::log(2.0), kExact);
  EXPECT_EQ(values(masked[1]), (std::vector<double>{0, -0.5, 0.5}));
}

TEST(Loss, LabelsInAFloatingTypeAreNamed) {
  EXPECT_THAT(message_of<ValueError>([] {
                loss::cross_entropy(zeros({4, 2}, Dtype::F32), zeros({4}, Dtype::F32));
              }),
              AllOf(HasSubstr("f32[4]"), HasSubstr("labels are whole numbers")));
}

TEST(Loss, LabelsOfARecordedProgram) {
  const ClosedJaxpr program =
      make_jaxpr([](ArraySpan a) -> Arrays { return {loss::cross_entropy(a[0], a[1])}; },
                 Avals{{Dtype::F64, {2, 3}}, {Dtype::I32, {2}}});
  const Array logits = array({{0.3, -1.2, 2.0}, {1.0, 0.5, -0.5}}, Dtype::F64);
  const auto run = [&](const Array& labels) {
    return evaluate(program, Tensors{logits.tensor(), labels.tensor()})[0].to_doubles()[0];
  };
  EXPECT_EQ(run(ints({2, 0}, {2})), loss::cross_entropy(logits, ints({2, 0}, {2})).item<double>());
  EXPECT_NEAR(run(ints({7, 0}, {2})), -log_softmax_at({1.0, 0.5, -0.5}, 0) / 2, kExact);
}

TEST(Loss, BinaryCrossEntropy) {
  const Array x = vec({-2.0, 0.0, 0.7}, Dtype::F64), t = vec({0.0, 1.0, 0.25}, Dtype::F64);
  const auto one = [](double logit, double target) {
    const double p = 1 / (1 + std::exp(-logit));
    return -target * std::log(p) - (1 - target) * std::log(1 - p);
  };
  EXPECT_NEAR(loss::binary_cross_entropy(x, t).item<double>(), (one(-2, 0) + one(0, 1) + one(0.7, 0.25)) / 3,
              kExact);
  const Array g = grad([&](ArraySpan a) { return loss::binary_cross_entropy(a[0], t); })(Arrays{x})[0];
  const Array expected = (logistic(x) - t) / 3.0;  // also at 0
  testing::expect_same(Arrays{g}, Arrays{expected});
  EXPECT_FLOAT_EQ(loss::binary_cross_entropy(vec({200.0, -200.0}), vec({0.0, 1.0})).item<float>(), 200.0F);
  EXPECT_FLOAT_EQ(loss::binary_cross_entropy(vec({200.0, -200.0}), vec({1.0, 0.0})).item<float>(), 0.0F);
}

TEST(Loss, Cosine) {
  Random random(3);
  const Array p = random.f64({4, 5}), t = random.f64({4, 5});
  double by_hand = 0.0;
  const std::vector<double> a = values(p), b = values(t);
  for (std::size_t r = 0; r < 4; ++r) {
    double pt = 0, pp = 0, tt = 0;
    for (std::size_t i = 5 * r; i < 5 * r + 5; ++i) {
      pt += a[i] * b[i];
      pp += a[i] * a[i];
      tt += b[i] * b[i];
    }
    by_hand += (1 - pt / std::sqrt(pp * tt)) / 4;
  }
  EXPECT_NEAR(loss::cosine(p, t).item<double>(), by_hand, kExact);
  EXPECT_NEAR(loss::cosine(3.0 * t, t).item<double>(), 0.0, kExact);
  EXPECT_NEAR(loss::cosine(-t, t).item<double>(), 2.0, kExact);
  expect_gradient(loss::cosine, p, t);
}

TEST(Loss, CosineOfAZeroVector) {
  const Array zero = vec({0, 0}, Dtype::F64), t = vec({3, 4}, Dtype::F64);
  const Function gradients = value_and_grad([](ArraySpan a) { return loss::cosine(a[0], a[1]); }, {0, 1});
  const Arrays out = gradients(Arrays{zero, t});
  EXPECT_EQ(out[0].item<double>(), 1.0);
  testing::expect_same(Arrays{out[1], out[2]}, Arrays{t / -5.0, zero});
  const Arrays both = gradients(Arrays{zero, zero});
  EXPECT_EQ(both[0].item<double>(), 1.0);
  EXPECT_EQ(values(both[1]), (std::vector<double>{0, 0}));
}

TEST(Loss, Huber) {
  const Array p = vec({0.5, 3.0, -2.0, 1.0}, Dtype::F64), t = vec({0, 0, 0, 0}, Dtype::F64);
  EXPECT_NEAR(loss::huber(p, t).item<double>(), (0.125 + 2.5 + 1.5 + 0.5) / 4, kExact);
  EXPECT_NEAR(loss::huber(p, t, 2.0).item<double>(), (0.125 + 4.0 + 2.0 + 0.5) / 4, kExact);
  const Array g = grad([&](ArraySpan a) { return loss::huber(a[0], t); })(Arrays{p})[0];
  EXPECT_EQ(values(g), (std::vector<double>{0.125, 0.25, -0.25, 0.25}));
  EXPECT_THAT(message_of<ValueError>([&] { loss::huber(p, t, 0.0); }), HasSubstr("delta is 0"));
}

TEST(Loss, EveryOneRecordsAsItRuns) {
  Random random(8);
  const Array p = random.f64({3, 4}), t = random.f64({3, 4}, 0.0, 1.0);
  for (const loss::Entry& entry : loss::all()) {
    SCOPED_TRACE(entry.name);
    const ClosedJaxpr program = make_jaxpr(
        [&](ArraySpan a) -> Arrays { return {entry.function(a[0], a[1])}; }, Avals{p.aval(), t.aval()});
    EXPECT_EQ(evaluate(program, Tensors{p.tensor(), t.tensor()})[0], entry.function(p, t).tensor());
    expect_gradient(entry.function, p, t);
  }
}

TEST(Loss, RefusesWhatDoesNotFit) {
  const Array p = zeros({3, 4}), column = zeros({3, 1});
  for (const loss::Entry& entry : loss::all()) {
    SCOPED_TRACE(entry.name);
    EXPECT_THAT(message_of<ValueError>([&] { entry.function(p, column); }),
                AllOf(HasSubstr(entry.name), HasSubstr("f32[3,4]"), HasSubstr("f32[3,1]")));
    EXPECT_THAT(message_of<TypeError>([&] {
                  entry.function(zeros({3, 4}, Dtype::I32), p);
                }),
                AllOf(HasSubstr("i32[3,4]"), HasSubstr("expected f32 or f64")));
    EXPECT_THAT(message_of<TypeError>([&] { entry.function(p, Array()); }), HasSubstr("undefined"));
    EXPECT_THAT(message_of<ValueError>([&] {
                  entry.function(zeros({0, 4}), zeros({0, 4}));
                }),
                HasSubstr("no element"));
  }
  EXPECT_THAT(message_of<ValueError>([&] { loss::cosine(zeros({}), zeros({})); }), HasSubstr("last axis"));
  EXPECT_THAT(message_of<ValueError>([&] { loss::cross_entropy(zeros({}), zeros({})); }),
              HasSubstr("last axis"));
  EXPECT_THAT(message_of<ValueError>([&] { loss::cross_entropy(p, zeros({4}, Dtype::I32)); }),
              AllOf(HasSubstr("f32[3,4]"), HasSubstr("i32[4]"), HasSubstr("without their last axis")));
  EXPECT_THAT(message_of<ValueError>([&] {
                loss::cross_entropy(p, ints({0, 4, 1}, {3}));
              }),
              AllOf(HasSubstr("label 4 at position 1"), HasSubstr("4 classes")));
  EXPECT_THAT(message_of<TypeError>([&] { loss::cross_entropy(p, zeros({3}, Dtype::Bool)); }),
              HasSubstr("bool[3]"));
}

TEST(Loss, ByName) {
  EXPECT_EQ(loss::find("mse").name, "mse");
  const auto all = loss::all();
  EXPECT_TRUE(
      std::is_sorted(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.name < b.name; }));
  EXPECT_THAT(message_of<ValueError>([] { loss::find("l2"); }),
              AllOf(HasSubstr("'l2'"), HasSubstr("cross_entropy, huber, mse")));
}

}  // namespace
}  // namespace etrace
