// Activations against their formulas in plain C++, at points on both sides of every kink.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "etrace/nn.h"
#include "etrace/transform.h"
#include "support/errors.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using Vector = std::vector<double>;
const Vector kPoints{-7.0, -2.5, -1.0, -0.6, -0.2, 0.0, 0.3, 0.7, 1.0, 2.0, 6.5};

struct ActivationCase {
  std::string name;
  std::function<double(double)> formula;
  std::shared_ptr<Module> module;
  double kink = 0.0, other_kink = 0.0;  // where the derivative jumps
};

double phi(double x) { return 0.5 * (1.0 + std::erf(x / std::sqrt(2.0))); }
double soft(double x) { return std::log1p(std::exp(x)); }
double s(double x) { return 1.0 / (1.0 + std::exp(-x)); }

std::vector<ActivationCase> activation_cases() {
  using namespace nn;
  const auto is = [](auto module) { return std::static_pointer_cast<Module>(module); };
  return {
      {"celu", [](double x) { return x > 0 ? x : std::expm1(x); }, is(std::make_shared<CELU>())},
      {"elu", [](double x) { return x > 0 ? x : std::expm1(x); }, is(std::make_shared<ELU>())},
      {"gelu",
       [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); },
       is(std::make_shared<GELU>())},
      {"gelu_exact", [](double x) { return x * phi(x); }, is(std::make_shared<GELU>(false))},
      {"hard_shrink", [](double x) { return std::abs(x) > 0.5 ? x : 0; }, is(std::make_shared<HardShrink>()),
       0.5, -0.5},
      {"hard_sigmoid", [](double x) { return std::clamp(x + 3, 0.0, 6.0) / 6; },
       is(std::make_shared<HardSigmoid>())},
      {"hard_silu", [](double x) { return x * std::clamp(x + 3, 0.0, 6.0) / 6; },
       is(std::make_shared<HardSiLU>())},
      {"hard_tanh", [](double x) { return std::clamp(x, -1.0, 1.0); }, is(std::make_shared<HardTanh>()), -1.0,
       1.0},
      {"identity", [](double x) { return x; }, is(std::make_shared<Identity>())},
      {"leaky_relu", [](double x) { return x >= 0 ? x : 0.01 * x; }, is(std::make_shared<LeakyReLU>())},
      {"log_sigmoid", [](double x) { return std::log(s(x)); }, is(std::make_shared<LogSigmoid>())},
      {"mish", [](double x) { return x * std::tanh(soft(x)); }, is(std::make_shared<Mish>())},
      {"relu", [](double x) { return std::max(0.0, x); }, is(std::make_shared<ReLU>())},
      {"relu6", [](double x) { return std::clamp(x, 0.0, 6.0); }, is(std::make_shared<ReLU6>())},
      {"selu", [](double x) { return 1.0507009873554805 * (x > 0 ? x : 1.6732632423543772 * std::expm1(x)); },
       is(std::make_shared<SELU>())},
      {"sigmoid", s, is(std::make_shared<Sigmoid>())},
      {"silu", [](double x) { return x * s(x); }, is(std::make_shared<SiLU>())},
      {"soft_shrink", [](double x) { return x > 0.5    ? x - 0.5
                                            : x < -0.5 ? x + 0.5
                                                       : 0; },
       is(std::make_shared<SoftShrink>())},
      {"soft_sign", [](double x) { return x / (1 + std::abs(x)); }, is(std::make_shared<SoftSign>())},
      {"softplus", soft, is(std::make_shared<Softplus>())},
      {"sparse_plus", [](double x) { return x <= -1  ? 0
                                            : x >= 1 ? x
                                                     : (x + 1) * (x + 1) / 4; }, nullptr,
       -1.0, 1.0},
      {"sparse_sigmoid", [](double x) { return std::clamp((x + 1) / 2, 0.0, 1.0); }, nullptr, -1.0, 1.0},
      {"squareplus", [](double x) { return (x + std::sqrt(x * x + 4)) / 2; }, nullptr},
      {"tanh", [](double x) { return std::tanh(x); }, is(std::make_shared<Tanh>())},
      {"tanh_shrink", [](double x) { return x - std::tanh(x); }, is(std::make_shared<TanhShrink>())},
  };
}

TEST(Activations, FollowTheirFormulas) {
  const Array x = array(kPoints, Dtype::F64);
  for (const ActivationCase& c : activation_cases()) {
    SCOPED_TRACE(c.name);
    Vector expected;
    for (const double p : kPoints) expected.push_back(c.formula(p));
    const Array y = nn::activation(c.name)(x);
    EXPECT_EQ(testing::difference(y.tensor(), array(expected, Dtype::F64).tensor(), 1e-13), std::nullopt);
    if (c.module != nullptr) {
      EXPECT_EQ((*c.module)(x).tensor(), y.tensor());
    }
  }
}

TEST(Activations, DerivativesAreThoseOfTheFormulas) {
  for (const ActivationCase& c : activation_cases()) {
    SCOPED_TRACE(c.name);
    for (const double p : kPoints) {
      if (p == 0.0 || p == c.kink || p == c.other_kink) continue;
      const Array x = full({1}, p, Dtype::F64);
      const Array slope = grad([&](ArraySpan a) { return sum(nn::activation(c.name)(a[0])); })(Arrays{x})[0];
      const double h = 1e-6;
      EXPECT_NEAR(slope.item<double>(), (c.formula(p + h) - c.formula(p - h)) / (2 * h), 1e-8) << "at " << p;
    }
  }
}

TEST(Activations, OfWholeAxes) {
  const Array x = array({{1.0, 2.0, 4.0}, {0.0, 0.0, 0.0}}, Dtype::F64);
  EXPECT_EQ(nn::Softmax()(x).tensor(), softmax(x).tensor());
  EXPECT_EQ(nn::LogSoftmax(0)(x).tensor(), log_softmax(x, 0).tensor());
  EXPECT_EQ(nn::Softmin()(x).tensor(), softmax(-x).tensor());
  EXPECT_EQ(testing::difference(nn::standardize(array({-1, 0.5, 2, 0.5}, Dtype::F64)).tensor(),
                                array({-1.4142072770, 0, 1.4142072770, 0}, Dtype::F64).tensor(), 1e-9),
            std::nullopt);
  const Array gated = nn::glu(array({1, -2, 0, 3}, Dtype::F64));
  EXPECT_EQ(testing::difference(gated.tensor(), array({0.5, -2 * s(3)}, Dtype::F64).tensor(), 1e-14),
            std::nullopt);
  EXPECT_THROW(nn::glu(x), ValueError);
  EXPECT_EQ(nn::GLU(0)(x).tensor(), (0.5 * slice_axis(x, 0, 0, 1)).tensor());
  EXPECT_EQ(nn::Threshold(1.5, 9.0)(x).tensor().to_doubles(), (Vector{9, 2, 4, 9, 9, 9}));
}

TEST(Activations, NoOverflow) {
  const Array far = array({-800.0, 800.0}, Dtype::F64);
  for (const std::string& name : nn::activation_names()) {
    const Array y = nn::activation(name)(far);
    EXPECT_TRUE(all(is_finite(y)).item<bool>()) << name;
    const Array slope = grad([&](ArraySpan a) { return sum(nn::activation(name)(a[0])); })(Arrays{far})[0];
    EXPECT_TRUE(all(is_finite(slope)).item<bool>()) << name;
  }
}

TEST(Activations, ByName) {
  for (const std::string& name : nn::activation_names())
    EXPECT_EQ(nn::activation(name)(zeros({3})).shape(), (Shape{3})) << name;
  EXPECT_THAT(testing::message_of<ValueError>([] { nn::activation("tahn"); }),
              ::testing::AllOf(::testing::HasSubstr("tahn"), ::testing::HasSubstr("tanh")));
  EXPECT_EQ(nn::Lambda("relu")(array({-1, 2})).tensor().to_doubles(), (Vector{0, 2}));
}

}  // namespace
}  // namespace etrace
