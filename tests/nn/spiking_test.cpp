// Surrogates, LIF neurons, exponential synapses and leaky readouts against plain C++.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numbers>

#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "support/errors.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using testing::f64;
using ::testing::HasSubstr;
using testing::message_of;
using testing::values;
using Vector = std::vector<double>;
namespace surrogate = nn::surrogate;

double H(double x) { return x >= 0.0 ? 1.0 : 0.0; }
double logistic_of(double x) { return 1.0 / (1.0 + std::exp(-x)); }
double density(double x, double mean, double s) {
  return std::exp(-(x - mean) * (x - mean) / (2 * s * s)) / (s * std::sqrt(2 * std::numbers::pi));
}

// Surrogates ------------------------------------------------------------------------------------------------

struct Case {
  const char* name;
  double (*formula)(double);
};
constexpr double kPi = std::numbers::pi;
const Case kCases[] = {
    {"arctan", [](double x) { return 0.5 / (1 + std::pow(kPi * x / 2, 2)); }},
    {"boxcar", [](double x) { return std::abs(x) <= 0.5 ? 1.0 : 0.0; }},
    {"erf", [](double x) { return std::exp(-x * x) / std::sqrt(kPi); }},
    {"gaussian", [](double x) { return 0.5 * density(x, 0, 0.5); }},
    {"inv_square", [](double x) { return 1 / std::pow(100 * std::abs(x) + 1, 2); }},
    {"leaky_relu", [](double x) { return x < 0 ? 0.1 : 1.0; }},
    {"log_tailed_relu", [](double x) { return x > 1   ? 1 / x
                                              : x > 0 ? 1.0
                                                      : 0.0; }},
    {"multi_gaussian",
     [](double x) {
       return 0.5 * (1.15 * density(x, 0, 0.5) - 0.15 * density(x, 0.5, 3) - 0.15 * density(x, -0.5, 3));
     }},
    {"nonzero_sign_log", [](double x) { return 1 / (1 + std::abs(x)); }},
    {"piecewise_exp", [](double x) { return 0.5 * std::exp(-std::abs(x)); }},
    {"piecewise_leaky_relu", [](double x) { return std::abs(x) <= 1 ? 0.5 : 0.01; }},
    {"piecewise_quadratic", [](double x) { return std::abs(x) <= 1 ? 1 - std::abs(x) : 0.0; }},
    {"q_pseudo_spike", [](double x) { return std::pow(1 + 2 * std::abs(x) / 3, -2); }},
    {"relu_grad", [](double x) { return std::max(0.3 - 0.3 * std::abs(x), 0.0); }},
    {"s2nn",
     [](double x) { return x < 0 ? 4 * logistic_of(4 * x) * (1 - logistic_of(4 * x)) : 1 / (x + 1); }},
    {"sigmoid", [](double x) { return 4 * logistic_of(4 * x) * (1 - logistic_of(4 * x)); }},
    {"slayer", [](double x) { return std::exp(-std::abs(x)); }},
    {"soft_sign", [](double x) { return 0.5 / std::pow(1 + std::abs(x), 2); }},
    {"squarewave_fourier",
     [](double x) { return 0.5 * (std::cos(2 * kPi * x / 8) + std::cos(3 * 2 * kPi * x / 8)); }},
};

TEST(Surrogate, EveryNameFollowsItsFormula) {
  const Vector points{-2.5, -1.0, -0.4, -0.01, 0.0, 0.3, 0.75, 1.0, 3.0};
  std::vector<std::string> named;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    named.emplace_back(c.name);
    const nn::Surrogate s = surrogate::by_name(c.name);
    Vector expected;
    for (const double x : points) expected.push_back(c.formula(x));
    EXPECT_EQ(testing::difference(s(f64(points)).tensor(), f64(expected).tensor(), 1e-14), std::nullopt);
    EXPECT_EQ(s(array(points)).dtype(), Dtype::F32);
  }
  EXPECT_EQ(surrogate::names(), named);
}

TEST(Surrogate, ParametersCount) {
  EXPECT_THAT(values(surrogate::relu_grad(0.5, 2.0)(f64({1.0}))), ElementsAre(0.5));
  EXPECT_THAT(values(surrogate::boxcar(2.0, 0.25)(f64({-2.0, 2.5}))), ElementsAre(0.25, 0.0));
  EXPECT_THAT(values(surrogate::piecewise_quadratic(2.0)(f64({0.25, 0.6}))), ElementsAre(1.0, 0.0));
  EXPECT_THAT(message_of<ValueError>([] { surrogate::squarewave_fourier(0); }), HasSubstr("0 terms"));
  EXPECT_THAT(message_of<ValueError>([] { surrogate::by_name("relu"); }),
              AllOf(HasSubstr("'relu'"), HasSubstr("relu_grad")));
}

TEST(Surrogate, SpikesStepAndTheirDerivativeIsTheSurrogate) {
  const Array x = f64({-1.5, -0.2, 0.0, 0.4});
  for (const std::string& name : surrogate::names()) {
    SCOPED_TRACE(name);
    const nn::Surrogate s = surrogate::by_name(name);
    EXPECT_THAT(values(nn::spike(x, s)), ElementsAre(0, 0, 1, 1));
    const auto gradient = grad([&](ArraySpan a) { return sum(nn::spike(a[0], s)); });
    EXPECT_EQ(testing::difference(gradient(Arrays{x})[0].tensor(), s(x).tensor(), 1e-15), std::nullopt);
  }
}

// Neurons ---------------------------------------------------------------------------------------------------

TEST(LIF, FollowsItsFormulaForEveryReset) {
  for (const nn::Reset reset : {nn::Reset::Soft, nn::Reset::Hard}) {
    nn::LIF neurons(3, {.tau = 8.0,
                        .dt = 0.5,
                        .R = 2.0,
                        .V_th = 1.5,
                        .V_reset = 0.25,
                        .V_rest = 0.5,
                        .reset = reset,
                        .dtype = Dtype::F64});
    EXPECT_THAT(values(neurons.V.value()), ElementsAre(0.5, 0.5, 0.5));
    Vector v(3, 0.5);
    double spikes = 0.0;
    const double decay = std::exp(-0.5 / 8.0);
    testing::Random random(1);
    for (int t = 0; t < 40; ++t) {
      const Array current = random.f64({3}, 0.0, 2.0);
      const Vector in = values(current), out = values(neurons(current)), found = values(neurons.V.value());
      for (std::size_t k = 0; k < v.size(); ++k) {
        const double fired = H(v[k] - 1.5);
        const double after = v[k] - fired * (reset == nn::Reset::Soft ? 1.25 : v[k] - 0.25);
        v[k] = decay * after + (1 - decay) * (0.5 + 2.0 * in[k]);
        EXPECT_NEAR(found[k], v[k], 1e-12);
        EXPECT_EQ(out[k], H(v[k] - 1.5));
        spikes += out[k];
      }
    }
    EXPECT_GT(spikes, 3.0);
  }
}

TEST(LIF, JacobianHoldsTheReset) {
  // Soft: e^(−dt/τ)(1 − s(v̂)). Hard: sg(V) − V_reset in place of the distance.
  const double v = 1.2, reset = -0.5, v_hat = (v - 1.0) / 1.5, s = std::max(0.3 - 0.3 * v_hat, 0.0) / 1.5;
  for (const nn::Reset kind : {nn::Reset::Soft, nn::Reset::Hard}) {
    nn::LIF neuron(1, {.V_reset = reset, .reset = kind, .dtype = Dtype::F64});
    const Model model = trace_step(neuron, zeros({1}, Dtype::F64)).model;
    const auto gradient = grad([&](ArraySpan a) {
      return sum(eval_jaxpr(model.program, Arrays{zeros({1}, Dtype::F64), a[0]})[1]);
    });
    const double distance = kind == nn::Reset::Soft ? 1.5 : v - reset;
    EXPECT_NEAR(values(gradient(Arrays{f64({v})})[0])[0], std::exp(-0.2) * (1 - distance * s), 1e-14);
  }
}

TEST(LIF, BadOptionsAreNamed) {
  EXPECT_THAT(message_of<ValueError>([] { nn::LIF(2, {.tau = 0.0}); }),
              AllOf(HasSubstr("LIF"), HasSubstr("positive")));
  EXPECT_THAT(message_of<ValueError>([] { nn::LIF(2, {.dt = -1.0}); }), HasSubstr("dt = -1"));
  EXPECT_THAT(message_of<ValueError>([] { nn::LIF(2, {.V_th = -1.0}); }), HasSubstr("threshold"));
  EXPECT_THAT(message_of<ValueError>([] { nn::LIF(2, {.surrogate = {}}); }), HasSubstr("relu_grad"));
  EXPECT_THAT(message_of<ValueError>([] { nn::LIFLayer(2, 2, {.tau_syn = -3.0}); }), HasSubstr("LIFLayer"));
  EXPECT_NO_THROW(nn::LIFLayer(2, 2, {.synapse = nn::Synapse::Delta, .tau_syn = -3.0}));
}

// Synapses and readouts -------------------------------------------------------------------------------------

TEST(Expon, FollowsItsFormula) {
  nn::Expon synapse(2, {.tau = 4.0, .dt = 0.5, .dtype = Dtype::F64});
  synapse(f64({1.0, 2.0}));
  const Vector g = values(synapse(f64({0.5, 0.0})));
  EXPECT_NEAR(g[0], std::exp(-0.125) + 0.5, 1e-15);
  EXPECT_NEAR(g[1], 2.0 * std::exp(-0.125), 1e-15);
  EXPECT_THAT(message_of<ValueError>([] { nn::Expon(2, {.tau = 0.0}); }), HasSubstr("Expon"));
}

TEST(LeakyRateReadout, FollowsItsFormulaBatchedAndNot) {
  nn::LeakyRateReadout readout(3, 2, {.tau = 10.0, .dtype = Dtype::F64, .seed = 2});
  EXPECT_EQ(readout.W.value().shape(), (Shape{3, 2}));
  const Vector w = values(readout.W.value());
  testing::Random random(5);
  const Array x = random.f64({2, 3});
  const Vector in = values(x);
  init_all_states(readout, 2);
  readout(x);
  const Vector out = values(readout(x));
  ASSERT_EQ(out.size(), 4U);
  for (std::size_t b = 0; b < 2; ++b)
    for (std::size_t j = 0; j < 2; ++j) {
      double y = 0.0;
      for (std::size_t i = 0; i < 3; ++i) y += in[b * 3 + i] * w[i * 2 + j];
      EXPECT_NEAR(out[b * 2 + j], (1.0 + std::exp(-0.1)) * y, 1e-14);
    }
  init_all_states(readout);
  EXPECT_EQ(readout(squeeze(slice_axis(x, 0, 0, 1), {0})).shape(), (Shape{2}));
  EXPECT_THROW(readout(x), ValueError);  // a batch where the state has none
  EXPECT_THROW(readout(zeros({5}, Dtype::F64)), ValueError);
}

// Layers ----------------------------------------------------------------------------------------------------

// s = H(V − 1); g ← e^(−1/10) g + [x, s]W + b; V ← e^(−1/5)(V − s) + (1 − e^(−1/5)) g, or V ← … + [x, s]W +
// b.
TEST(LIFLayer, FollowsItsFormulaForEverySynapse) {
  constexpr std::size_t kIn = 4, kOut = 5;
  for (const nn::Synapse synapse : {nn::Synapse::Delta, nn::Synapse::Expon}) {
    nn::LIFLayer layer(kIn, kOut,
                       {.neuron = {.dtype = Dtype::F64},
                        .synapse = synapse,
                        .bias_init = nn::init::normal(0.05),
                        .seed = 3});
    const Vector w = values(layer.syn.weight.value("weight")), b = values(layer.syn.weight.value("bias"));
    Vector v(kOut), g(kOut);
    double count = 0.0;
    testing::Random random(6);
    for (int t = 0; t < 30; ++t) {
      const Array x = random.f64({kIn}, 0.0, 1.0);
      Vector in = values(x), y = b;
      for (const double u : v) in.push_back(H(u - 1.0));
      for (std::size_t i = 0; i < in.size(); ++i)
        for (std::size_t j = 0; j < kOut; ++j) y[j] += in[i] * w[i * kOut + j];
      const Vector spikes = values(layer(x)), found = values(layer.V.value());
      for (std::size_t j = 0; j < kOut; ++j) {
        g[j] = std::exp(-0.1) * g[j] + y[j];
        const double drive = synapse == nn::Synapse::Delta ? y[j] : (1 - std::exp(-0.2)) * g[j];
        v[j] = std::exp(-0.2) * (v[j] - in[kIn + j]) + drive;
        EXPECT_NEAR(found[j], v[j], 1e-11);
        EXPECT_EQ(spikes[j], H(v[j] - 1.0));
        count += spikes[j];
      }
    }
    EXPECT_GT(count, 5.0);
    EXPECT_EQ(layer.g == nullptr, synapse == nn::Synapse::Delta);
    if (layer.g != nullptr) {
      EXPECT_EQ(testing::difference(layer.g->value().tensor(), f64(g).tensor(), 1e-11), std::nullopt);
    }
  }
}

TEST(LIFLayer, BlocksOfTheWeightHaveTheirOwnFan) {
  const nn::LIFLayer layer(50, 200, {.input_scale = 3.0, .recurrent_scale = 0.5});
  const Array w = layer.syn.weight.value("weight");
  auto spread = [&](std::int64_t from, std::int64_t to) {
    return variance(slice_axis(w, 0, from, to)).item<double>();
  };
  EXPECT_NEAR(spread(0, 50) / (9.0 * 2.0 / 50), 1.0, 0.05);
  EXPECT_NEAR(spread(50, 250) / (0.25 * 2.0 / 200), 1.0, 0.05);
  const nn::LIFLayer custom(
      2, 3, {.input_init = nn::init::constant(1.0), .recurrent_init = nn::init::zeros(), .bias_init = {}});
  EXPECT_THAT(values(custom.syn.weight.value("weight")),
              ElementsAre(1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0));
  EXPECT_FALSE(custom.syn.weight.has_leaf("bias"));
}

// With its own initial values the layer neither is silent nor fires all the time on sparse input.
TEST(LIFLayer, IsAliveOnSparseSpikes) {
  for (const nn::Synapse synapse : {nn::Synapse::Delta, nn::Synapse::Expon}) {
    nn::LIFLayer layer(100, 64, {.synapse = synapse});
    double rate = 0.0;
    for (int t = 0; t < 100; ++t) {
      const Array x = convert(random::bernoulli(random::fold_in(random::key(1), t), 0.1, {100}), Dtype::F32);
      rate += mean(layer(x)).item<double>() / 100.0;
    }
    EXPECT_GT(rate, 0.01);
    EXPECT_LT(rate, 0.5);
  }
}

}  // namespace
}  // namespace etrace
