// Neurons against closed forms, hand-made traces and accurate integration.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "etrace/interp.h"
#include "etrace/nn.h"
#include "etrace/transform.h"
#include "etrace/units.h"
#include "support/errors.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using testing::f64;
using ::testing::HasSubstr;
using testing::values;
using Vector = std::vector<double>;
using namespace etrace::units::literals;

constexpr Dtype kNeuronReal = Dtype::F64;
Array drive(double current) { return full({1}, current, kNeuronReal); }
double only(const State& s) { return values(s.value())[0]; }

// ∂ of new state `out` with respect to input `in` of the traced step (0: the current, then states), each
// neuron by itself.
Vector slopes(const Model& model, std::size_t out, std::size_t in, const Arrays& at) {
  const auto f = grad([&](ArraySpan a) {
    Arrays args = at;
    args[in] = a[0];
    return sum(eval_jaxpr(model.program, args)[out]);
  });
  return values(f(Arrays{at[in]})[0]);
}
double slope(const Model& model, std::size_t out, std::size_t in, const Arrays& at) {
  return slopes(model, out, in, at)[0];
}

TEST(Integrate, PhiIsAccurateEverywhere) {
  EXPECT_NEAR(nn::expm1_ratio(f64({-0.2})).item<double>(), 0.9063462346, 1e-10);
  EXPECT_NEAR(nn::expm1_ratio(f64({-1e-5})).item<double>(), 0.9999950000, 1e-10);
  EXPECT_EQ(nn::expm1_ratio(f64({0.0})).item<double>(), 1.0);
  const auto d1 = [](ArraySpan x) { return sum(nn::expm1_ratio(x[0])); };
  const auto d2 = [&](ArraySpan x) { return sum(grad(d1)(x)[0]); };
  for (const double z : {-8.0, -0.4, -0.051, -0.049, -1e-3, -1e-9, 0.0, 1e-8, 0.02, 0.3, 2.0}) {
    // Σ z^n/(n+1)! and its derivatives, summed far enough.
    double p = 0.0, first = 0.0, second = 0.0, factorial = 1.0;
    for (int n = 0; n < 60; ++n) {
      factorial *= n + 1;
      p += std::pow(z, n) / factorial;
      if (n > 0) first += n * std::pow(z, n - 1) / factorial;
      if (n > 1) second += n * (n - 1) * std::pow(z, n - 2) / factorial;
    }
    EXPECT_NEAR(nn::expm1_ratio(f64({z})).item<double>(), p, 1e-14) << z;
    EXPECT_NEAR(grad(d1)(Arrays{f64({z})})[0].item<double>(), first, 1e-12) << z;
    EXPECT_NEAR(grad(d2)(Arrays{f64({z})})[0].item<double>(), second, 1e-9) << z;
    EXPECT_NEAR(nn::expm1_ratio(full({1}, z, Dtype::F32)).item<double>(), p, 1e-6 * std::max(1.0, p)) << z;
  }
}

// φ'(z) = (e^z − φ(z))/z in long double, far from 0 where nothing cancels.
TEST(Integrate, SlopesOfPhiInBothPrecisions) {
  const auto phi = [](ArraySpan x) { return sum(nn::expm1_ratio(x[0])); };
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    for (const double z :
         {-1e6, -3000.0, -90.0, -12.0, -1.5, -1.01, -0.99, -0.3, 0.15, 0.25, 0.9, 1.1, 8.0, 40.0}) {
      long double expected = 0.0L;
      if (std::abs(z) < 2.0) {
        long double term = 0.5L;  // (n + 1)/(n + 2)!·z^n
        for (int n = 0; n < 60; term *= z * (n + 2) / ((n + 1.0L) * (n + 3)), ++n) expected += term;
      } else {
        expected = (std::exp(static_cast<long double>(z)) - std::expm1(static_cast<long double>(z)) / z) / z;
      }
      const double found = grad(phi)(Arrays{full({1}, z, dtype)})[0].item<double>();
      EXPECT_NEAR(found / static_cast<double>(expected), 1.0, dtype == Dtype::F64 ? 2e-15 : 1e-6) << z;
    }
}

// x' = r·x grows by e^(dt·r): with its derivative exact as long as their products are numbers, and finite
// beyond.
TEST(Integrate, GrowthAndItsDerivativeAreFinite) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    for (const double z : {1.0, 30.0, 43.0, 90.0, 1e4}) {
      const auto step = [&](ArraySpan x) {
        return sum(nn::exp_euler([&](const Array& v) { return z * v; }, x[0], 1.0));
      };
      const Arrays at{full({1}, 1.5, dtype)};
      const double value = step(at).item<double>(), slope = grad(step)(at)[0].item<double>();
      EXPECT_TRUE(std::isfinite(value) && std::isfinite(slope)) << z;
      if (z < (dtype == Dtype::F64 ? 354.0 : 44.0)) {
        const double tolerance = dtype == Dtype::F64 ? 1e-13 : 2e-5;  // e^z has z times the rounding of z
        EXPECT_NEAR(value / (1.5 * std::exp(z)), 1.0, tolerance) << z;
        EXPECT_NEAR(slope / std::exp(z), 1.0, tolerance) << z;
      }
    }
}

TEST(Integrate, OrdersOfTheMethods) {
  // x' = −x² from 1: x(t) = 1/(1 + t); the error at t = 1 falls with dt^order.
  const nn::Drift f = [](const Array& x) { return -square(x); };
  const auto error = [&](nn::Method m, int steps) {
    Array x = f64({1.0});
    for (int i = 0; i < steps; ++i) x = nn::integrate(m, f, x, 1.0 / steps);
    return std::abs(x.item<double>() - 0.5);
  };
  EXPECT_NEAR(std::log2(error(nn::Method::Euler, 64) / error(nn::Method::Euler, 128)), 1.0, 0.1);
  EXPECT_NEAR(std::log2(error(nn::Method::ExpEuler, 64) / error(nn::Method::ExpEuler, 128)), 2.0, 0.1);
  EXPECT_NEAR(std::log2(error(nn::Method::RK4, 16) / error(nn::Method::RK4, 32)), 4.0, 0.3);
  // Exact where f is linear.
  const nn::Drift linear = [](const Array& x) { return 3.0 - 2.0 * x; };
  EXPECT_NEAR(nn::exp_euler(linear, f64({0.0}), 5.0).item<double>(), 1.5 * (1 - std::exp(-10.0)), 1e-14);
  EXPECT_THROW(nn::euler([](ArraySpan) { return Arrays{}; }, {f64({1.0})}, 0.1), ValueError);
  EXPECT_THROW(nn::euler(nn::Drift([](const Array& x) { return x; }), zeros({1}, Dtype::I32), 0.1),
               ValueError);
}

TEST(LIF, GoldenValues) {
  nn::LIF neuron(1, {.tau = 20.0, .dtype = kNeuronReal});
  Vector v;
  for (int t = 0; t < 11; ++t) {
    neuron(drive(3.0));
    v.push_back(only(neuron.V));
  }
  EXPECT_NEAR(v[0], 0.1463117265, 1e-10);
  EXPECT_NEAR(v[1], 0.2854877459, 1e-10);
  EXPECT_NEAR(v[7], 0.9890398619, 1e-10);
  EXPECT_NEAR(v[8], 1.0871155451, 1e-10);
  EXPECT_NEAR(v[9], 0.2291785964, 1e-10);
  EXPECT_NEAR(v[10], 0.3643131508, 1e-10);
  const Model model = trace_step(neuron, drive(0.0)).model;
  EXPECT_NEAR(slope(model, 1, 0, {drive(0.0), drive(0.7)}), 0.0487705755, 1e-10);
  EXPECT_NEAR(slope(model, 1, 1, {drive(0.0), drive(0.7)}), 0.7514712454, 1e-10);
}

TEST(LIF, DetachedResetHasNoGradient) {
  nn::LIF neuron(1, {.tau = 20.0, .detached = true, .dtype = kNeuronReal});
  const Model model = trace_step(neuron, drive(0.0)).model;
  EXPECT_NEAR(slope(model, 1, 1, {drive(0.0), drive(0.7)}), std::exp(-0.05), 1e-14);
}

TEST(LIF, ConductancesAreExponentialEuler) {
  nn::LIF neuron(1, {.tau = 10.0, .V_th = 100.0, .dtype = kNeuronReal});
  neuron.V.set(drive(0.2));
  const nn::SynapticCurrent coba = nn::SynapticCurrent::coba(5.0);
  neuron.step(neuron.spikes(), coba(drive(0.5)));
  EXPECT_NEAR(only(neuron.V), 0.4042949679, 1e-10);
  // g mS, E 3.5 V and V in mV: the current is in µA, of which 1000 are one mA.
  nn::LIF small(1, {.tau = 5.0, .V_th = 100.0, .dtype = kNeuronReal});
  small.V.set(drive(0.2));
  small.step(small.spikes(), nn::SynapticCurrent::coba(3.5_V, 1e-3)(drive(0.5)));
  EXPECT_NEAR(only(small.V), 0.4809356267, 1e-10);
}

TEST(LIF, RefractoryNeuronsWait) {
  nn::LIF neuron(1, {.tau = 20.0, .tau_ref = 3.0, .dtype = kNeuronReal});
  Vector v, s;
  for (int t = 0; t < 14; ++t) {
    s.push_back(values(neuron(drive(3.0)))[0]);
    v.push_back(only(neuron.V));
  }
  EXPECT_EQ(s[8], 1.0);  // as without a period
  const double kept = 1.0871155451 - 1.0;
  EXPECT_NEAR(v[9], kept, 1e-10);  // 1 and 2 ms after the spike
  EXPECT_NEAR(v[10], kept, 1e-10);
  EXPECT_NEAR(v[11], std::exp(-0.05) * kept + (1 - std::exp(-0.05)) * 3.0, 1e-9);  // 3 ms
  nn::LIFRef five(1, {.dtype = kNeuronReal});
  EXPECT_EQ(five.since->value().dtype(), Dtype::I32);
  EXPECT_EQ(values(convert(five.since->value(), kNeuronReal))[0], 5.0);  // steps
}

// How many steps V is held after the first spike.
int held_steps(nn::LIF& neuron, Dtype dtype) {
  init_all_states(neuron);
  int held = 0;
  for (bool after = false; held < 1000;) {
    const bool spikes = neuron(full({1}, 50.0, dtype)).item<double>() > 0.0;
    if (after && neuron.V.value().item<double>() != 0.0) return held;
    if (after) ++held;
    after = after || spikes;
  }
  return held;
}

// The period is the fewest steps that last as long, whatever the element type and however dt rounds.
TEST(LIF, RefractoryPeriodsAreWholeSteps) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    for (const double dt : {0.1, 0.2, 0.25, 0.3, 0.05, 0.01})
      for (const double period : {0.5, 1.0, 2.0, 3.0, 5.0}) {
        const int steps = static_cast<int>(std::ceil(period / dt - 1e-9));
        const nn::LIFOptions options{
            .tau = 10.0, .dt = dt, .reset = nn::Reset::Hard, .tau_ref = period, .dtype = dtype};
        nn::LIF one(1, options);
        EXPECT_EQ(held_steps(one, dtype), steps - 1) << name(dtype) << " " << dt << " " << period;
        nn::LIFOptions each = options;
        each.tau_ref = full({1}, period, dtype);
        nn::LIF of_an_array(1, each);
        EXPECT_EQ(held_steps(of_an_array, dtype), steps - 1) << name(dtype) << " " << dt << " " << period;
      }
}

TEST(LIF, RefractoryPeriodsThatAreRefused) {
  using testing::message_of;
  EXPECT_THAT(message_of<ValueError>([] { nn::LIF(1, {.tau_ref = -1.0}); }),
              ::testing::AllOf(HasSubstr("LIF"), HasSubstr("tau_ref = -1"), HasSubstr("0 or more")));
  EXPECT_THAT(message_of<ValueError>([] { nn::LIF(1, {.dt = 1e-9, .tau_ref = 5.0}); }),
              HasSubstr("less than 2^31 steps"));
  EXPECT_THAT(message_of<ValueError>([] { nn::LIF(1, {.tau_ref = nn::learned(2.0)}); }),
              ::testing::AllOf(HasSubstr("tau_ref cannot be learned"), HasSubstr("no derivative")));
}

TEST(LIF, ConstantsPerNeuronAndInUnits) {
  const Array tau = array({5, 10, 20}, kNeuronReal);
  nn::LIF each(3, {.tau = tau, .V_th = array({1, 2, 3}, kNeuronReal), .dtype = kNeuronReal});
  const Vector spikes = values(each(full({3}, 8.0, kNeuronReal)));
  const Vector v = values(each.V.value());
  for (std::size_t k = 0; k < 3; ++k) {
    const double t = 5.0 * (1 << k), expected = 8.0 * (1 - std::exp(-1.0 / t));
    EXPECT_NEAR(v[k], expected, 1e-14);
    EXPECT_EQ(spikes[k], expected >= static_cast<double>(k + 1) ? 1.0 : 0.0);
  }
  nn::LIF volts(2, {.tau = 20_ms,
                    .dt = 100_us,
                    .R = 10_MOhm,
                    .V_th = -50_mV,
                    .V_reset = -65_mV,
                    .V_rest = -0.065_V,
                    .dtype = kNeuronReal});
  volts(full({2}, 2.0, kNeuronReal) * units::nA);  // 20 mV above rest
  EXPECT_NEAR(values(volts.V.value())[1], -65.0 + 20.0 * (1 - std::exp(-0.005)), 1e-12);
  EXPECT_THROW(nn::LIF(2, {.tau = 5_mV}), UnitError);
  EXPECT_THROW(nn::LIF(2, {.tau = array({1, 2, 3})}), ValueError);
  EXPECT_THROW(volts(full({2}, 1.0, kNeuronReal) * units::mV), UnitError);
}

TEST(LIF, PopulationsMayBeImages) {
  nn::LIF image({4, 3, 2}, {.dtype = kNeuronReal});
  EXPECT_EQ(image(zeros({4, 3, 2}, kNeuronReal)).shape(), (Shape{4, 3, 2}));
  EXPECT_THAT(testing::message_of<ValueError>([&] {
                image(zeros({4, 3}, kNeuronReal));
              }),
              HasSubstr("[4,3,2]"));
}

TEST(ALIF, GoldenValues) {
  nn::ALIF neuron(1, {.dtype = kNeuronReal});
  const Model model = trace_step(neuron, drive(0.0)).model;
  const Arrays at{drive(0.5), drive(1.2), drive(0.5)};
  EXPECT_NEAR(slope(model, 1, 1, at), 0.6099544110, 1e-10);
  EXPECT_NEAR(slope(model, 1, 2, at), 0.0208776342, 1e-10);
  EXPECT_NEAR(slope(model, 2, 1, at), 0.2524627076, 1e-10);
  EXPECT_NEAR(slope(model, 2, 2, at), 0.9648035630, 1e-10);
  neuron.V.set(drive(1.2));
  neuron.a.set(drive(0.5));
  neuron(drive(0.5));
  EXPECT_NEAR(only(neuron.V), 0.2543807741, 1e-10);
  EXPECT_NEAR(only(neuron.a), 1.4850747506, 1e-10);
}

TEST(Gif, FollowsItsEquations) {
  nn::Gif neuron(1, {.a = 0.005, .A1 = 0.4, .A2 = -0.3, .dtype = kNeuronReal});
  double v = -70, i1 = 0, i2 = 0, th = -50;
  double count = 0.0;
  for (int t = 0; t < 200; ++t) {
    const double in = 2.0 + 0.5 * std::sin(0.1 * t);
    const double s = v >= th ? 1.0 : 0.0;
    const double start = v - s * (th + 70);
    if (s > 0) {
      i1 = 0.0 * i1 + 0.4;
      i2 = 1.0 * i2 - 0.3;
    }
    i1 *= std::exp(-0.2);
    i2 *= std::exp(-0.02);
    const double raised = s > 0 ? std::max(-60.0, th) : th;
    const double goal = -50 + 0.005 / 0.01 * (start + 70);
    v = std::exp(-1 / 20.0) * start + (1 - std::exp(-1 / 20.0)) * (-70 + 20 * (in + i1 + i2));
    th = goal + (raised - goal) * std::exp(-0.01);
    count += values(neuron(drive(in)))[0];
    EXPECT_NEAR(only(neuron.V), v, 1e-9);
    EXPECT_NEAR(only(neuron.V_th), th, 1e-9);
    EXPECT_NEAR(only(neuron.I1), i1, 1e-12);
    EXPECT_NEAR(only(neuron.I2), i2, 1e-12);
  }
  EXPECT_GT(count, 2.0);
}

// Accurate integration
// ---------------------------------------------------------------------------------------

// Spike times of a system of two variables by Runge-Kutta with a step of 1 µs; reset is applied where v
// reaches the threshold.
template <class F, class R>
Vector spike_times(double v, double w, double threshold, double until, F f, R reset) {
  Vector times;
  const double h = 1e-3;
  for (double t = 0; t < until; t += h) {
    const auto [a1, b1] = f(v, w);
    const auto [a2, b2] = f(v + h / 2 * a1, w + h / 2 * b1);
    const auto [a3, b3] = f(v + h / 2 * a2, w + h / 2 * b2);
    const auto [a4, b4] = f(v + h * a3, w + h * b3);
    v += h / 6 * (a1 + 2 * a2 + 2 * a3 + a4);
    w += h / 6 * (b1 + 2 * b2 + 2 * b3 + b4);
    if (v >= threshold || !(v == v)) {
      times.push_back(t + h);
      reset(v, w);
    }
  }
  return times;
}

// Spike times of every neuron of a population under constant currents, by the compiled step.
std::vector<Vector> spike_times_of(nn::Neuron& neurons, const Vector& currents, double until) {
  std::vector<Vector> times(currents.size());
  init_all_states(neurons);
  const Model model = trace_step(neurons, f64(currents)).model;
  const Executable step(model.program);
  Tensors state;
  for (const InputRecord& r : model.inputs) state.push_back(r.init);
  state[0] = f64(currents).tensor();
  const auto steps = static_cast<int>(until / neurons.dt());
  for (int t = 0; t < steps; ++t) {
    const Tensors out = step(state);
    std::copy(out.begin() + 1, out.end(), state.begin() + 1);
    const auto spikes = out[0].data<double>();
    for (std::size_t k = 0; k < times.size(); ++k)
      if (spikes[k] > 0.5) times[k].push_back((t + 1) * neurons.dt());
  }
  return times;
}

void expect_times(const Vector& found, const Vector& expected, double tolerance) {
  ASSERT_EQ(found.size(), expected.size());
  ASSERT_GE(found.size(), 3U);
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_NEAR(found[i], expected[i], tolerance) << "spike " << i;
}

// V(t) = R·I·(1 − e^(−t/τ)) reaches V_th after τ·ln(R·I/(R·I − V_th)); from there on that is the period, with
// the refractory time on top.
TEST(LIF, SpikeTimesAreThoseOfTheClosedForm) {
  const Vector currents{1.2, 2.0, 5.0};
  for (const double refractory : {0.0, 2.0}) {
    nn::LIF neurons(
        3, {.tau = 10.0, .dt = 0.01, .reset = nn::Reset::Hard, .tau_ref = refractory, .dtype = kNeuronReal});
    const std::vector<Vector> all = spike_times_of(neurons, currents, 80);
    for (std::size_t k = 0; k < currents.size(); ++k) {
      const double rise = 10.0 * std::log(currents[k] / (currents[k] - 1.0));
      Vector expected;
      for (double t = rise; t < 80.0; t += rise + refractory) expected.push_back(t);
      ASSERT_EQ(all[k].size(), expected.size()) << currents[k];
      for (std::size_t i = 0; i < expected.size(); ++i)  // a spike waits for the end of its step
        EXPECT_NEAR(all[k][i], expected[i], 0.02 * static_cast<double>(i + 1)) << "spike " << i;
    }
  }
}

TEST(AdEx, SpikeTimesFollowAccurateIntegration) {
  const auto f = [](double v, double w) {
    const double up = 3.48 * std::exp(std::min((v + 59.9) / 3.48, 60.0));
    return std::pair((-(v + 65) + up - w + 65.0) / 10, ((v + 65) - w) / 30);
  };
  const auto reset = [](double& v, double& w) {
    v = -68;
    w += 1;
  };
  const Vector expected = spike_times(-65, 0, -30, 60, f, reset);
  for (const nn::Method m : {nn::Method::ExpEuler, nn::Method::RK4}) {
    nn::AdEx neuron(1, {.dt = 0.02, .method = m, .dtype = kNeuronReal});
    expect_times(spike_times_of(neuron, {65.0}, 60)[0], expected, 0.5);
  }
}

// Between rest and threshold, and with sharp upswings: derivatives in float64 are those of finite
// differences, those in float32 the same and finite, also where the upswing of one step would overflow.
void expect_right_slopes(const nn::AdExOptions& options) {
  constexpr double kWidth = 1e-6;
  Vector potentials;
  for (double v = -75.0; v < -30.2; v += 0.37) potentials.push_back(v);
  const auto n = static_cast<std::int64_t>(potentials.size());
  const auto model_of = [&](Dtype dtype) {
    nn::AdExOptions o = options;
    o.dtype = dtype;
    nn::AdEx neurons(n, o);
    return trace_step(neurons, full({n}, 60.0, dtype)).model;
  };
  const Model wide = model_of(Dtype::F64), narrow = model_of(Dtype::F32);
  const auto at = [&](Dtype dtype, double shift = 0.0) {
    return Arrays{full({n}, 60.0, dtype), convert(f64(potentials) + shift, dtype), full({n}, 2.0, dtype)};
  };
  const auto next = [&](double shift) { return values(eval_jaxpr(wide.program, at(Dtype::F64, shift))[1]); };
  const Vector below = next(-kWidth), above = next(kWidth);
  for (const std::size_t in : {0U, 1U, 2U}) {
    const Vector expected = slopes(wide, 1, in, at(Dtype::F64)),
                 found = slopes(narrow, 1, in, at(Dtype::F32));
    for (std::size_t i = 0; i < potentials.size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "V " << potentials[i] << ", input " << in);
      if (below[i] < -30.0 && above[i] >= -30.0) continue;  // where V begins to be cut at the threshold
      const double difference = (above[i] - below[i]) / (2 * kWidth);
      if (in == 1) {
        EXPECT_NEAR(expected[i], difference, 1e-4 * (1 + std::abs(difference)));
      }
      EXPECT_NEAR(found[i], expected[i], 1e-3 * (1 + std::abs(expected[i])));
    }
  }
}

TEST(AdEx, DerivativesAreFiniteAndRight) {
  for (const double delta_T : {3.48, 0.5, 0.05})
    for (const nn::Method method : {nn::Method::ExpEuler, nn::Method::Euler, nn::Method::RK4}) {
      SCOPED_TRACE(::testing::Message() << "delta_T " << delta_T << ", method " << static_cast<int>(method));
      expect_right_slopes({.dt = 0.5, .delta_T = delta_T, .detached = true, .method = method});
    }
}

struct Pattern {
  const char* name;
  double a, b, c, d, current;
};

TEST(Izhikevich, PublishedPatterns) {
  // Parameters of the published figure; spike times against accurate integration, and what the names say. All
  // in one population, whose constants differ.
  const std::vector<Pattern> patterns{{"regular spiking", 0.02, 0.2, -65, 8, 10},
                                      {"intrinsically bursting", 0.02, 0.2, -55, 4, 10},
                                      {"chattering", 0.02, 0.2, -50, 2, 10},
                                      {"fast spiking", 0.1, 0.2, -65, 2, 10},
                                      {"low-threshold spiking", 0.02, 0.25, -65, 2, 10}};
  const auto each = [&](double Pattern::*field) {
    Vector column;
    for (const Pattern& p : patterns) column.push_back(p.*field);
    return column;
  };
  nn::Izhikevich neurons(5, {.a = f64(each(&Pattern::a)),
                             .b = f64(each(&Pattern::b)),
                             .c = f64(each(&Pattern::c)),
                             .d = f64(each(&Pattern::d)),
                             .dt = 0.02,
                             .dtype = kNeuronReal});
  const std::vector<Vector> all = spike_times_of(neurons, each(&Pattern::current), 100);
  for (std::size_t k = 0; k < patterns.size(); ++k) {
    const Pattern& p = patterns[k];
    SCOPED_TRACE(p.name);
    const auto f = [&](double v, double u) {
      return std::pair(0.04 * v * v + 5 * v + 140 - u + p.current, p.a * (p.b * v - u));
    };
    const auto reset = [&](double& v, double& u) {
      v = p.c;
      u += p.d;
    };
    const Vector& found = all[k];
    expect_times(found, spike_times(p.c, p.b * p.c, 30, 100, f, reset), 2.0);
    const double first = found[1] - found[0], last = found.back() - found[found.size() - 2];
    if (p.d == 8) {
      EXPECT_GT(last, 1.1 * first);  // adapts
    }
    if (p.a == 0.1) {
      EXPECT_LT(last, 12.0);  // fires on at a high rate
    }
    if (p.c > -60) {
      EXPECT_LT(first, 6.0);  // a burst at the start
    }
  }
}

TEST(HodgkinHuxley, RateAndRest) {
  // Without current it stays at rest; at 10 µA/cm² it fires some 68 times a second (the published f-I curve).
  nn::HodgkinHuxley neuron(1, {.dt = 0.05, .dtype = kNeuronReal});
  for (int t = 0; t < 400; ++t) neuron(drive(0.0));
  EXPECT_NEAR(only(neuron.V), -65.0, 0.1);
  for (const nn::Method m : {nn::Method::ExpEuler, nn::Method::RK4}) {
    nn::HodgkinHuxley driven(1, {.dt = 0.02, .method = m, .dtype = kNeuronReal});
    const Vector times = spike_times_of(driven, {10.0}, 80)[0];
    ASSERT_GE(times.size(), 5U);
    const double period = (times.back() - times[1]) / static_cast<double>(times.size() - 2);
    EXPECT_NEAR(1000.0 / period, 68.3, 1.0);
    for (std::size_t i = 1; i < times.size(); ++i) EXPECT_GT(times[i] - times[i - 1], 10.0);  // one step each
  }
  nn::HodgkinHuxley units_too(1, {.dt = 0.05, .dtype = kNeuronReal});
  units_too(full({1}, 1e-2, kNeuronReal) * (units::mA / (units::cm * units::cm)));
  nn::HodgkinHuxley bare(1, {.dt = 0.05, .dtype = kNeuronReal});
  bare(drive(10.0));
  EXPECT_NEAR(only(units_too.V), only(bare.V), 1e-12);
}

TEST(Neurons, OptionsAreChecked) {
  EXPECT_THROW(nn::ALIF(2, {.tau_a = 0.0}), ValueError);
  EXPECT_THROW(nn::Gif(2, {.V_reset = -40.0}), ValueError);
  EXPECT_THROW(nn::AdEx(2, {.delta_T = -1.0}), ValueError);
  EXPECT_THROW(nn::Izhikevich(2, {.surrogate = {}}), ValueError);
  EXPECT_THROW(nn::HodgkinHuxley(2, {.surrogate_width = 0.0}), ValueError);
  EXPECT_THROW(nn::LIF(2, {.dt = array({1, 2})}), ValueError);
  EXPECT_THROW(nn::LIF(2, {.dtype = Dtype::I32}), ValueError);
}

}  // namespace
}  // namespace etrace
