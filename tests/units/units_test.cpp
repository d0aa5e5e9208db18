// Units and quantities: dimension algebra, text, literals, arithmetic, operators, states, and a network with
// units against the same network without.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "etrace/compiler.h"
#include "etrace/interp.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "etrace/units.h"
#include "support/errors.h"
#include "support/values.h"

namespace etrace {
namespace {

using namespace units::literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::values;
using testing::vec;

Array draw(std::uint64_t seed, const Shape& shape) {
  return random::uniform(random::key(seed), shape, Dtype::F64, -1.0, 1.0);
}
// The number of a bare quantity, in double precision.
double number(const Quantity& q, const Unit& unit) { return to_double(*q.to(unit).splat()); }

// Rational, Unit ---------------------------------------------------------------------------------------
static_assert(Rational(2, 4) == Rational(1, 2));
static_assert(Rational(1, -2) == Rational(-1, 2));
static_assert(Rational(1, 2) + Rational(1, 3) == Rational(5, 6));
static_assert(Rational(1, 2) / Rational(3, 4) == Rational(2, 3));
static_assert(units::nS * units::mV == units::pA);
static_assert(units::MOhm * units::nA == units::mV);
static_assert(units::one / units::ms == units::kHz);
static_assert(units::pF * units::GOhm == units::ms);
static_assert(units::mV != units::V && units::mV.same_dimension(units::V));
static_assert(pow(pow(units::mV, {1, 2}), 2) == units::mV);
static_assert(pow(pow(units::nS, {2, 3}), {3, 2}) == units::nS);

TEST(Rational, RefusesWhatIsNoSmallFraction) {
  EXPECT_THAT(message_of<ValueError>([] { Rational(1, 0); }), HasSubstr("1/0"));
  EXPECT_THAT(message_of<ValueError>([] { Rational(1 << 30) * Rational(1 << 30); }),
              HasSubstr("small fraction"));
}

TEST(Unit, TextDependsOnTheValueOnly) {
  EXPECT_EQ(to_string(units::one), "1");
  EXPECT_EQ(to_string(units::mV / units::V), "10^-3");
  EXPECT_EQ(to_string(units::mV), "mV");
  EXPECT_EQ(to_string(units::nS * units::mV), "pA");
  EXPECT_EQ(to_string(units::MOhm), "MOhm");
  EXPECT_EQ(to_string(units::ohm), "ohm");
  EXPECT_EQ(to_string(units::one / units::ms), "kHz");
  EXPECT_EQ(to_string(units::pA * units::ms), "fC");
  EXPECT_EQ(to_string(units::mM), "mM");
  EXPECT_EQ(to_string(units::kg), "kg");
  EXPECT_EQ(to_string(units::minute), "6·10^1 s");
  EXPECT_EQ(to_string(units::V.scaled(1)), "10^1 V");
}

TEST(Unit, TextOfPowersAndProducts) {
  EXPECT_EQ(to_string(units::nS / pow(units::cm, 2)), "nS/cm²");
  EXPECT_EQ(to_string(units::uF / pow(units::cm, 2)), "uF/cm²");
  EXPECT_EQ(to_string(units::mV / units::ms), "V/s");
  EXPECT_EQ(to_string(units::pA / units::ms), "nA/s");
  EXPECT_EQ(to_string(units::m / units::s), "m/s");
  EXPECT_EQ(to_string(units::pF / pow(units::um, 2)), "F/m²");
  EXPECT_EQ(to_string(units::mV * units::ms), "mV·ms");
  EXPECT_EQ(to_string(units::ohm * units::cm), "ohm·cm");
  EXPECT_EQ(to_string(pow(units::ms, -2)), "1/ms²");
  EXPECT_EQ(to_string(pow(units::um, 3)), "um³");
  EXPECT_EQ(to_string(pow(units::mV, {1, 2})), "mV^(1/2)");
  EXPECT_EQ(to_string(units::kg * units::m * units::kelvin), "kg·m·K") << "three base units";
  EXPECT_EQ(to_string(units::mol * units::ms / (units::kelvin * units::cd)), "10^-3 s·mol/(K·cd)");
}

// Literals, numbers ------------------------------------------------------------------------------------
TEST(Quantity, LiteralsAreBareNumbers) {
  EXPECT_EQ((5.0_mV).unit(), units::mV);
  EXPECT_EQ((10_ms).unit(), units::ms);
  EXPECT_TRUE((10_ms).mantissa().is_weak());
  EXPECT_EQ(number(20_Hz, units::Hz), 20.0);
  EXPECT_EQ(to_string(-65.5_mV), "-65.5 mV");
  EXPECT_EQ(to_string(3_pA / 2), "1.5 pA") << "integers are real numbers";
  EXPECT_EQ(to_string(-65.0 * units::mV), "-65 mV");
  EXPECT_EQ(to_string(1.0 / units::ms), "1 kHz");
  EXPECT_EQ(to_string(100_uF), "100 uF");
  EXPECT_EQ(to_string(zeros({4}) * units::nS), "f32[4] in nS");
  EXPECT_EQ(to_string(Quantity(zeros({4}))), "f32[4]");
  EXPECT_EQ(to_string(Quantity()), "undefined");
}

TEST(Quantity, ConstantsKeepDoublePrecision) {
  const Quantity decay = exp(-0.1_ms / 7.3_ms);
  ASSERT_TRUE(decay.mantissa().is_weak());
  EXPECT_EQ(number(decay, {}), std::exp(-0.1 / 7.3));
  EXPECT_EQ(number(65_mV, units::V), 0.065) << "rounded once";
  EXPECT_EQ(number(0.3_V, units::mV), 0.3 * 1000.0);
  EXPECT_EQ(number(1 - decay, {}), 1 - std::exp(-0.1 / 7.3));
  EXPECT_EQ(number(maximum(0.1_mV, 0_V), units::mV), 0.1);
  EXPECT_EQ(number(square(0.1_mV), pow(units::mV, 2)), 0.1 * 0.1);
  const Array v = vec({0.0}, Dtype::F64);
  EXPECT_THAT(values((v * units::mV - 0.1_mV).mantissa()), ElementsAre(-0.1));
}

TEST(Quantity, IntegerArraysBecomeFloats) {
  const Quantity q = Array(Tensor::of(std::vector<std::int32_t>{1, 2}, {2})) * units::mV;
  EXPECT_EQ(q.dtype(), Dtype::F32);
  EXPECT_THAT(values((q / 2_mV).decimal()), ElementsAre(0.5, 1.0));
}

// Arithmetic -------------------------------------------------------------------------------------------
TEST(Quantity, SumsTakeTheScaleOfTheLeft) {
  EXPECT_EQ(to_string(1_mV + 1_V), "1001 mV");
  EXPECT_EQ(to_string(1_V - 500_mV), "0.5 V");
  EXPECT_EQ(to_string(7_ms % 2_ms), "1 ms");
  const Quantity v = vec({1, 2}, Dtype::F64) * units::mV, e = vec({1, 1}, Dtype::F64) * units::V;
  EXPECT_THAT(values((v + e).to(units::mV)), ElementsAre(1001, 1002));
  EXPECT_EQ((e - v).unit(), units::V);
  EXPECT_THAT(values((v + 0.5_V).mantissa()), ElementsAre(501, 502));
  EXPECT_THAT(values(maximum(v, 0.0015_V).mantissa()), ElementsAre(1.5, 2));
  EXPECT_THAT(values(minimum(v, 0.0015_V).mantissa()), ElementsAre(1, 1.5));
  EXPECT_THAT(values(clip(v, 0_V, 1.5_mV).mantissa()), ElementsAre(1, 1.5));
  EXPECT_THAT(values(where(vec({1, 0}), v, e).mantissa()), ElementsAre(1, 1000));
  EXPECT_THAT(values(concatenate(Quantities{v, e}).mantissa()), ElementsAre(1, 2, 1000, 1000));
  EXPECT_EQ(stack(Quantities{v, e}).shape(), (Shape{2, 2}));
}

TEST(Quantity, ProductsComposeUnits) {
  EXPECT_EQ(to_string(2_nS * 10_mV), "20 pA");
  EXPECT_EQ(to_string(6_pA / 2_mV), "3 nS");
  EXPECT_EQ(to_string(2 * 3_mV), "6 mV");
  EXPECT_EQ(to_string(20_Hz * 5_ms), "0.1") << "no dimension: a plain number at once";
  EXPECT_EQ(to_string(1_mV / 1_V), "0.001");
  EXPECT_EQ(to_string(1 / 4_ms), "0.25 kHz");
  EXPECT_THAT(values((vec({20}, Dtype::F64) * units::Hz * 5_ms).decimal()), ElementsAre(0.1));
  EXPECT_EQ(to_string(dot(ones({2}) * units::nS, ones({2}) * units::mV)), "2 pA");
  EXPECT_EQ(outer(ones({2}) * units::nS, ones({3}) * units::mV).unit(), units::pA);
  EXPECT_EQ(matmul_plain(ones({2}), ones({2, 3}) * units::mV).unit(), units::mV);
}

TEST(Quantity, PowersHaveRationalExponents) {
  EXPECT_EQ(to_string(square(3_mV)), "9 mV²");
  EXPECT_EQ(to_string(sqrt(9_mV)), "3 mV^(1/2)");
  EXPECT_EQ(to_string(square(sqrt(9_mV))), "9 mV");
  EXPECT_EQ(to_string(cbrt(pow(2_um, 3))), "2 um");
  EXPECT_EQ(to_string(rsqrt(pow(4_ms, -2))), "4 ms");
  const Quantity v = vec({1, 4}, Dtype::F64) * units::mV;
  EXPECT_THAT(values(sqrt(v).mantissa()), ElementsAre(1, 2));
  EXPECT_EQ(pow(v, {3, 2}).unit(), pow(units::mV, {3, 2}));
  EXPECT_THAT(values(pow(v, {3, 2}).mantissa()), ElementsAre(1, 8));
  EXPECT_THAT(values(pow(v, -1).mantissa()), ElementsAre(1, 0.25));
  EXPECT_EQ(variance(v).unit(), pow(units::mV, 2));
  EXPECT_EQ(sqrt(variance(v)).unit(), units::mV);
}

TEST(Quantity, ComparisonsConvertScales) {
  EXPECT_TRUE((1_mV < 1_V).item<bool>());
  EXPECT_FALSE((1001_mV <= 1_V).item<bool>());
  EXPECT_TRUE((1_V >= 1000_mV).item<bool>());
  EXPECT_TRUE((2_V > 1000_mV).item<bool>());
  const Quantity v = vec({1, 2}) * units::mV;
  EXPECT_THAT(values(v > 0.0015_V), ElementsAre(0, 1));
  EXPECT_THAT(values(equal_to(v, 0.002_V)), ElementsAre(0, 1));
  EXPECT_THAT(values(not_equal_to(v, 0.002_V)), ElementsAre(1, 0));
}

TEST(Quantity, FunctionsThatKeepTheUnit) {
  const Quantity v = array({{-1, 2}, {3, -4}}, Dtype::F64) * units::mV;
  EXPECT_EQ(to_string(sum(v)), "0 mV");
  EXPECT_THAT(values(mean(v, {0}).to(units::mV)), ElementsAre(1, -1));
  EXPECT_THAT(values(max(v, {1}).to(units::mV)), ElementsAre(2, 3));
  EXPECT_THAT(values(min(v, {1}).to(units::mV)), ElementsAre(-1, -4));
  EXPECT_THAT(values(cumsum(v, 0).to(units::mV)), ElementsAre(-1, 2, 2, -2));
  EXPECT_THAT(values(abs(v).to(units::mV)), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(relu(v).to(units::mV)), ElementsAre(0, 2, 3, 0));
  EXPECT_THAT(values(sign(v).decimal()), ElementsAre(-1, 1, 1, -1));
  EXPECT_THAT(values(reshape(transpose(v), {4}).to(units::mV)), ElementsAre(-1, 3, 2, -4));
  EXPECT_THAT(values(take(v, 1).to(units::mV)), ElementsAre(3, -4));
  EXPECT_THAT(values(slice_axis(v, 0, 0, 1).to(units::mV)), ElementsAre(-1, 2));
  EXPECT_THAT(values(slice(v, {1, 0}, {2, 1}).to(units::mV)), ElementsAre(3));
  EXPECT_EQ(expand_dims(squeeze(slice_axis(v, 0, 0, 1), {0}), {1}).shape(), (Shape{2, 1}));
  EXPECT_EQ(broadcast_to(1_mV, {3}).shape(), Shape{3});
  EXPECT_EQ(zeros_like(v).unit(), units::mV);
  EXPECT_EQ(convert(v, Dtype::F32).dtype(), Dtype::F32);
  EXPECT_EQ(stop_gradient(v).unit(), units::mV);
  EXPECT_THAT(values(map_mantissa(v, [](const Array& a) { return flip(a, 0); }).to(units::mV)),
              ElementsAre(3, -4, -1, 2));
}

TEST(Quantity, FunctionsOfPlainNumbers) {
  const Quantity x = vec({0.3}, Dtype::F64) * units::mV / (1_mV);
  EXPECT_NEAR(tanh(x).decimal().item<double>(), std::tanh(0.3), 1e-14);
  EXPECT_NEAR(logistic(x).decimal().item<double>(), 1 / (1 + std::exp(-0.3)), 1e-14);
  EXPECT_EQ(number(logistic(300_uV / 1_mV), {}), 1 / (1 + std::exp(-0.3)));
  EXPECT_EQ(number(log(Quantity(2.0)), {}), std::log(2.0));
  EXPECT_THAT(values(heaviside_surrogate(x, 1.0 - abs(x))), ElementsAre(1));
}

// Errors -----------------------------------------------------------------------------------------------
TEST(UnitError, NamesBothUnitsAndTheOperation) {
  EXPECT_THAT(message_of<UnitError>([] { 1_mV + 1_nS; }),
              AllOf(HasSubstr("[add]"), HasSubstr("in mV"), HasSubstr("in nS"), HasSubstr("same dimension")));
  EXPECT_THAT(message_of<UnitError>([] { 1_mV - 1.0; }),
              AllOf(HasSubstr("[sub]"), HasSubstr("in mV"), HasSubstr("a plain number")));
  EXPECT_THAT(message_of<UnitError>([] { static_cast<void>(1_ms < 1_pA); }),
              AllOf(HasSubstr("[less]"), HasSubstr("in ms"), HasSubstr("in pA")));
  EXPECT_THAT(message_of<UnitError>([] { where(true, 1_ms, 1_Hz); }),
              AllOf(HasSubstr("[where]"), HasSubstr("in ms"), HasSubstr("in Hz")));
  EXPECT_THAT(message_of<UnitError>([] {
                concatenate(Quantities{ones({1}) * units::V, ones({1}) * units::A});
              }),
              AllOf(HasSubstr("[concatenate]"), HasSubstr("in V"), HasSubstr("in A")));
  EXPECT_THAT(message_of<UnitError>([] { exp(1_mV); }),
              AllOf(HasSubstr("[exp]"), HasSubstr("plain number"), HasSubstr("1 mV")));
  EXPECT_THAT(message_of<UnitError>([] { (1_mV).to(units::nS); }),
              AllOf(HasSubstr("in mV"), HasSubstr("in nS")));
  EXPECT_THAT(message_of<UnitError>([] { (1_mV).decimal(); }),
              AllOf(HasSubstr("in mV"), HasSubstr("plain number")));
  EXPECT_THROW(1_mV + 1_nS, ValueError);
}

// Programs ---------------------------------------------------------------------------------------------
std::size_t equations(const Function& f, std::size_t arguments) {
  return make_jaxpr(f, Avals(arguments, {Dtype::F32, {3}})).jaxpr.eqns.size();
}

TEST(UnitProgram, AScaleConversionIsOneEquation) {
  const auto with = [](const Unit& a, const Unit& b) {
    return equations([&](ArraySpan x) -> Arrays { return {(x[0] * a + x[1] * b).mantissa()}; }, 2);
  };
  EXPECT_EQ(with(units::mV, units::mV), 1U);
  EXPECT_EQ(with(units::mV, units::V), 2U);
  EXPECT_EQ(with(units::mV, units::nA * units::MOhm), 1U);
  const auto plain = [](const Unit& b) {
    return equations([&](ArraySpan x) -> Arrays { return {((x[0] * units::mV) / (x[1] * b)).decimal()}; }, 2);
  };
  EXPECT_EQ(plain(units::mV), 1U);
  EXPECT_EQ(plain(units::V), 2U);
}

// Where real scale factors enter in models as they are written.
TEST(UnitProgram, MixedScalesOfAMembraneEquation) {
  const auto f64 = [](double v) { return vec({v}, Dtype::F64); };
  const Quantity v = f64(0.2) * units::mV, g = f64(0.5) * units::mS, big_g = f64(0.5) * units::S,
                 e = f64(3.5) * units::V;
  EXPECT_THAT(values((v + 1_ohm * (f64(3) * units::mA)).mantissa()), ElementsAre(0.2 + 3));
  EXPECT_EQ((g * 1_V).unit(), units::mA);
  EXPECT_THAT(values((f64(1) * units::mA + big_g * 1_V).mantissa()), ElementsAre(1 + 0.5 * 1000));
  EXPECT_EQ((g * (e - v)).unit(), units::mA);
  EXPECT_THAT(values((g * (e - v)).mantissa()), ElementsAre(0.5 * (3.5 - 0.2 * 1e-3)));
  EXPECT_EQ((big_g * (5_mV - v)).unit(), units::mA);
  EXPECT_THAT(values((big_g * (5_mV - v)).mantissa()), ElementsAre(0.5 * (5 - 0.2)));
  EXPECT_THAT(values((f64(20) * units::Hz * 1_ms).decimal()), ElementsAre(20 * 1e-3));
}

// One exponential Euler step of τ dV/dt = −V + R·g·(E − V), E in volts: V + dt·φ(J·dt)·f with J = −(1 +
// R·g)/τ.
TEST(UnitProgram, ConductanceStepWithMixedScales) {
  const Quantity v = vec({0.2}, Dtype::F64) * units::mV, g = 0.5_mS, e = 3.5_V, r = 1_ohm, tau = 5_ms,
                 dt = 1_ms;
  const Quantity drift = (-v + r * (g * (e - v))) / tau, slope = -(1 + r * g) / tau;
  const Quantity next = v + dt * drift * expm1(slope * dt) / (slope * dt);
  EXPECT_NEAR(next.to(units::mV).item<double>(), 0.4809356267, 1e-10);
}

// Operators --------------------------------------------------------------------------------------------
// y in `unit` equals the numbers of the operator on mantissas.
void expect_value(const Quantity& y, const Array& numbers, const Unit& unit) {
  EXPECT_EQ(y.unit(), unit) << to_string(y.unit());
  EXPECT_EQ(y.to(unit).tensor(), numbers.tensor());
}

const WeightFn kTanh = [](const Array& a) { return tanh(a); };

TEST(UnitOperators, Products) {
  const Array x = draw(1, {2, 3}), w = draw(2, {3, 4}), b = draw(3, {4});
  const Quantity qx = x * units::mV, qw = w * units::nS, qb = b * units::pA;
  expect_value(matmul(qx, qw), matmul(x, w), units::pA);
  expect_value(matmul(qx, qw, qb, {kTanh, kTanh}), matmul(x, w, b, {kTanh, kTanh}), units::pA);
  expect_value(matmul(x, qw), matmul(x, w), units::nS);
  expect_value(einsum("bi,io->bo", qx, qw), einsum("bi,io->bo", x, w), units::pA);
  const Array gx = draw(4, {2, 2, 3}), gw = draw(5, {2, 3, 4}), gb = draw(6, {2, 4});
  expect_value(grouped_matmul(gx * units::mV, gw * units::nS, gb * units::pA), grouped_matmul(gx, gw, gb),
               units::pA);
  const SparsePattern pattern = SparsePattern::coo(3, 4, {0, 1, 2, 2}, {1, 3, 0, 2});
  const Array data = draw(7, {4});
  expect_value(sparse_matmul(qx, data * units::nS, pattern, qb), sparse_matmul(x, data, pattern, b),
               units::pA);
  const Array la = draw(8, {3, 2}), lb = draw(9, {2, 4});
  expect_value(lora_matmul(qx, la * units::nS, Quantity(lb), qb, {.alpha = 2.0}),
               lora_matmul(x, la, lb, b, {.alpha = 2.0}), units::pA);
  expect_value(lora_matmul(qx, la * units::nS, lb * units::GOhm), lora_matmul(x, la, lb), units::mV);
  const Array image = draw(10, {2, 3, 5}), kernel = draw(11, {4, 3, 3}), channel = draw(12, {4});
  expect_value(conv(image * units::mV, kernel * units::nS, channel * units::pA), conv(image, kernel, channel),
               units::pA);
}

TEST(UnitOperators, WeightsAlone) {
  const Array w = draw(1, {5, 3}), index = Tensor::of(std::vector<std::int32_t>{4, 0}, {2});
  expect_value(element_wise(w * units::ms, kTanh), element_wise(w, kTanh), units::ms);
  expect_value(embedding(index, w * units::mV), embedding(index, w), units::mV);
}

TEST(UnitOperators, BiasIsConverted) {
  const Array x = draw(1, {3}), w = draw(2, {3, 4}), b = draw(3, {4});
  const Quantity y = matmul(x * units::V, w * units::S, b * units::mA);
  expect_value(y, matmul(x, w, b * 1e-3), units::A);
  EXPECT_THAT(message_of<UnitError>([&] { matmul(x * units::mV, w * units::nS, b * units::mV); }),
              AllOf(HasSubstr("[matmul]"), HasSubstr("in mV"), HasSubstr("in pA")));
  EXPECT_THAT(message_of<UnitError>([&] { matmul(x * units::mV, Quantity(w), b); }),
              AllOf(HasSubstr("a plain number"), HasSubstr("in mV")));
}

TEST(UnitOperators, WithoutDimensionTheScaleIsApplied) {
  const Array x = draw(1, {3}), w = draw(2, {3, 4}), b = draw(3, {4});
  const Quantity y = matmul(x * units::mV, w / units::V, b);
  EXPECT_EQ(y.unit(), units::one);
  EXPECT_EQ(y.decimal().tensor(), (matmul(x, w, b * 1e3) * 1e-3).tensor());
}

// States -----------------------------------------------------------------------------------------------
struct Cell : Module {
  QuantityState v = with_unit(hidden("V", Shape{2}, Dtype::F64), units::mV);
  ParamState& p = param("w", NamedArrays{{"weight", draw(1, {2, 2})}, {"bias", draw(2, {2})}});
  QuantityState weight = with_unit(p, "weight", units::nS), bias = with_unit(p, "bias", units::pA);
  HiddenTreeState& tree = hidden_tree("tree", {{"v", zeros({2}, Dtype::F64)}, {"i", zeros({2}, Dtype::F64)}});
  QuantityState tree_v = with_unit(tree, "v", units::mV), tree_i = with_unit(tree, "i", units::nA);
};

TEST(QuantityState, ConvertsToItsOwnScale) {
  Cell cell;
  cell.v.set(vec({1, 2}, Dtype::F64) * units::V);
  EXPECT_THAT(values(cell.v.state().value()), ElementsAre(1000, 2000));
  EXPECT_THAT(values(cell.v.value().to(units::V)), ElementsAre(1, 2));
  cell.v.set(-65_mV);
  EXPECT_THAT(values(cell.v.state().value()), ElementsAre(-65, -65));
}

TEST(QuantityState, LeavesHaveTheirOwnUnits) {
  Cell cell;
  EXPECT_EQ(cell.weight.value().unit(), units::nS);
  EXPECT_EQ(cell.bias.value().unit(), units::pA);
  cell.bias.set(1_nA);
  EXPECT_THAT(values(cell.p.value("bias")), ElementsAre(1000, 1000));
  cell.tree_v.set(vec({1, 2}, Dtype::F64) * units::V);
  cell.tree_i.set(vec({3, 4}, Dtype::F64) * units::pA);
  EXPECT_THAT(values(cell.tree.value()), ElementsAre(1000, 0.003, 2000, 0.004));
  EXPECT_EQ(cell.tree_i.value().unit(), units::nA);
}

TEST(QuantityState, RefusesAnotherDimension) {
  Cell cell;
  EXPECT_THAT(message_of<UnitError>([&] { cell.v.set(1_nS); }),
              AllOf(HasSubstr("HiddenState 'V'"), HasSubstr("in mV"), HasSubstr("in nS")));
  EXPECT_THAT(message_of<UnitError>([&] { cell.v.set(Quantity(1.0)); }), HasSubstr("a plain number"));
  EXPECT_THAT(message_of<UnitError>([&] { cell.weight.set(1_mV); }),
              AllOf(HasSubstr("ParamState 'w' leaf 'weight'"), HasSubstr("in nS")));
  EXPECT_THAT(message_of<ValueError>([&] { with_unit(cell.p, units::nS); }), HasSubstr("bias, weight"));
  EXPECT_THAT(message_of<ValueError>([&] { with_unit(cell.p, "gain", units::nS); }),
              HasSubstr("no such leaf"));
}

TEST(QuantityState, GradientsHaveTheParametersUnit) {
  Cell cell;
  const Quantity g = cell.weight.gradient(ones({2, 2}, Dtype::F64));
  EXPECT_EQ(g.unit(), units::nS);
  cell.weight.set(cell.weight.value() - 0.1 * g);
  EXPECT_EQ(cell.p.value("weight").tensor(), (draw(1, {2, 2}) - 0.1).tensor());
  EXPECT_THAT(message_of<ValueError>([&] { cell.weight.gradient(ones({2})); }), HasSubstr("f64[2,2]"));
  EXPECT_THAT(message_of<TypeError>([&] { cell.v.gradient(ones({2})); }), HasSubstr("no parameter"));
}

// A network --------------------------------------------------------------------------------------------
// Leaky integrate-and-fire neurons with a conductance-based exponential synapse, recurrent:
//   g ← e^{-dt/τ_s} g + [x, z]·W      V ← V + dt/C · (g_L (E_L − V) + g (E_e − V)) − z (V_th − E_L)
constexpr std::int64_t kIn = 3, kNeurons = 5;
const Array kWeight = random::uniform(random::key(7), {kIn + kNeurons, kNeurons}, Dtype::F64, 0.0, 4.0);
constexpr double kDt = 0.1, kTauSyn = 5.3, kCapacity = 200.0, kLeak = 10.0, kRest = -65.0, kThreshold = -50.0,
                 kExcitatory = 0.0;

struct LifWithUnits : Module {
  QuantityState w = with_unit(param("w", kWeight), units::nS);
  QuantityState v = with_unit(hidden("V", full({kNeurons}, kRest, Dtype::F64)), units::mV);
  QuantityState g = with_unit(hidden("g", {kNeurons}, Dtype::F64), units::nS);
  const Quantity dt = kDt * units::ms, tau_syn = kTauSyn * units::ms, capacity = kCapacity * units::pF,
                 leak = kLeak * units::nS, rest = kRest * units::mV, threshold = kThreshold * units::mV,
                 excitatory = kExcitatory * units::mV;

  Array spike(const Quantity& potential) const {
    const Quantity x = (potential - threshold) / (threshold - rest);
    return heaviside_surrogate(x, relu(1.0 - abs(x)));
  }
  Array update(const Array& x) override {
    const Quantity v0 = v.value();
    const Array z = spike(v0);
    g.set(exp(-dt / tau_syn) * g.value() + matmul(concatenate(Arrays{x, z}), w.value()));
    const Quantity current = leak * (rest - v0) + g.value() * (excitatory - v0);
    v.set(v0 + dt / capacity * current - z * (threshold - rest));
    return spike(v.value());
  }
};

struct LifPlain : Module {
  ParamState& w = param("w", kWeight);
  HiddenState& v = hidden("V", full({kNeurons}, kRest, Dtype::F64));
  HiddenState& g = hidden("g", {kNeurons}, Dtype::F64);

  static Array spike(const Array& potential) {
    const Array x = (potential - kThreshold) / (kThreshold - kRest);
    return heaviside_surrogate(x, relu(1.0 - abs(x)));
  }
  Array update(const Array& x) override {
    const Array v0 = v.value();
    const Array z = spike(v0);
    g.set(std::exp(-kDt / kTauSyn) * g.value() + matmul(concatenate(Arrays{x, z}), w.value()));
    const Array current = kLeak * (kRest - v0) + g.value() * (kExcitatory - v0);
    v.set(v0 + kDt / kCapacity * current - z * (kThreshold - kRest));
    return spike(v.value());
  }
};

TEST(UnitNetwork, GivesTheNumbersOfTheNetworkWithoutUnits) {
  LifWithUnits with;
  LifPlain plain;
  init_all_states(with);
  init_all_states(plain);
  double spikes = 0;
  for (std::uint64_t t = 0; t < 50; ++t) {
    const Array x = convert(
        random::bernoulli(random::fold_in(random::key(3), static_cast<int>(t)), 0.5, {kIn}), Dtype::F64);
    const Array z = with(x);
    ASSERT_EQ(z.tensor(), plain(x).tensor()) << "step " << t;
    ASSERT_EQ(with.v.state().value().tensor(), plain.v.value().tensor()) << "step " << t;
    ASSERT_EQ(with.g.state().value().tensor(), plain.g.value().tensor()) << "step " << t;
    spikes += sum(z).item<double>();
  }
  EXPECT_GT(spikes, 10) << "a network that does not fire shows little";
}

TEST(UnitNetwork, IsTheSameProgram) {
  LifWithUnits with;
  LifPlain plain;
  const Array x = zeros({kIn}, Dtype::F64);
  const Model a = trace_step(with, x).model, b = trace_step(plain, x).model;
  EXPECT_EQ(to_string(a.program), to_string(b.program));
}

TEST(UnitNetwork, CompilesToTheSameGraph) {
  LifWithUnits with;
  LifPlain plain;
  const Array x = zeros({kIn}, Dtype::F64);
  const ETraceGraph a = compile_etrace_graph(with, x), b = compile_etrace_graph(plain, x);
  ASSERT_EQ(b.hidden_groups.size(), 1U);
  ASSERT_EQ(b.hidden_param_op_relations.size(), 1U);
  ASSERT_EQ(a.hidden_groups.size(), b.hidden_groups.size());
  EXPECT_EQ(a.hidden_groups[0].hidden_paths, b.hidden_groups[0].hidden_paths);
  EXPECT_EQ(to_string(a.hidden_groups[0].transition_jaxpr), to_string(b.hidden_groups[0].transition_jaxpr));
  ASSERT_EQ(a.hidden_param_op_relations.size(), b.hidden_param_op_relations.size());
  const HiddenParamOpRelation &r = a.hidden_param_op_relations[0], &s = b.hidden_param_op_relations[0];
  EXPECT_EQ(r.primitive, s.primitive);
  EXPECT_EQ(r.path(), s.path());
  EXPECT_EQ(r.hidden_groups, s.hidden_groups);
  EXPECT_EQ(r.path_classification, s.path_classification);
  EXPECT_EQ(a.explain(), b.explain());
}

TEST(UnitNetwork, AForgottenDrivingForceIsRefused) {
  struct Wrong : LifWithUnits {
    Array update(const Array&) override {
      v.set(v.value() + dt / capacity * g.value());  // the conductance taken for a current
      return v.value().to(units::mV);
    }
  } wrong;
  EXPECT_THAT(message_of<UnitError>([&] { trace_step(wrong, zeros({kIn}, Dtype::F64)); }),
              AllOf(HasSubstr("[add]"), HasSubstr("in mV"), HasSubstr("a plain number")));
}

}  // namespace
}  // namespace etrace
