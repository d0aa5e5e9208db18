// Elementwise operations: values at edges, promotion, broadcasting, derivatives at kinks, errors.
// Rules at ordinary points are the business of the property suite.
#include "etrace/ops/elementwise.h"

#include <cmath>

#include "etrace/interp.h"
#include "etrace/transform.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

using ::testing::DoubleEq;
using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pointwise;

Array column(const std::vector<double>& v) {
  return array(v, {static_cast<std::int64_t>(v.size()), 1}, Dtype::F64);
}
Array f32(const std::vector<double>& v) { return array(v, Dtype::F32); }
Array i32(const std::vector<std::int32_t>& v) { return Tensor::of(v, {static_cast<std::int64_t>(v.size())}); }
Array i64(const std::vector<std::int64_t>& v) { return Tensor::of(v, {static_cast<std::int64_t>(v.size())}); }
Array u32(const std::vector<std::uint32_t>& v) {
  return Tensor::of(v, {static_cast<std::int64_t>(v.size())});
}

// d f(x…)/dx_argnum of the sum over all elements.
std::vector<double> derivative(const std::function<Array(ArraySpan)>& f, const Arrays& x, int argnum = 0) {
  return values(grad([&](ArraySpan a) { return sum(f(a)); }, {argnum})(x)[0]);
}

// The message must name the operation as its stage and hold a phrase.
template <class E, class F>
void expect_error_in(F f, const std::string& stage, const std::string& phrase) {
  try {
    f();
    ADD_FAILURE() << "no error; expected one about: " << phrase;
  } catch (const E& e) {
    EXPECT_EQ(e.stage(), stage);
    EXPECT_THAT(e.message(), HasSubstr(phrase));
  }
}

// Values ----------------------------------------------------------------------------------------------------
TEST(Elementwise, FunctionsOfOneOperand) {
  const Array x = f64({0.5});
  const std::vector<std::pair<Array, double>> cases{{exp(x), 1.6487212707001282},
                                                    {exp2(x), 1.4142135623730951},
                                                    {log(x), -0.6931471805599453},
                                                    {log1p(x), 0.4054651081081644},
                                                    {expm1(x), 0.6487212707001282},
                                                    {sin(x), 0.479425538604203},
                                                    {cos(x), 0.8775825618903728},
                                                    {tan(x), 0.5463024898437905},
                                                    {asin(x), 0.5235987755982989},
                                                    {acos(x), 1.0471975511965979},
                                                    {atan(x), 0.4636476090008061},
                                                    {sinh(x), 0.5210953054937474},
                                                    {cosh(x), 1.1276259652063807},
                                                    {tanh(x), 0.46211715726000973},
                                                    {asinh(x), 0.48121182505960347},
                                                    {acosh(x + 1.0), 0.9624236501192069},
                                                    {atanh(x), 0.5493061443340549},
                                                    {logistic(x), 0.6224593312018546},
                                                    {erf(x), 0.5204998778130465},
                                                    {erfc(x), 0.4795001221869535},
                                                    {erf_inv(x), 0.4769362762044699},
                                                    {lgamma(x), 0.5723649429247001},
                                                    {digamma(x), -1.9635100260214235},
                                                    {sqrt(x), 0.7071067811865476},
                                                    {rsqrt(x), 1.4142135623730951},
                                                    {cbrt(x), 0.7937005259840998},
                                                    {square(x), 0.25},
                                                    {neg(x), -0.5},
                                                    {integer_pow(x, -3), 8.0}};
  for (std::size_t i = 0; i < cases.size(); ++i)
    EXPECT_NEAR(values(cases[i].first)[0], cases[i].second, 1e-15 * std::max(1.0, std::abs(cases[i].second)))
        << "case " << i;
}

TEST(Elementwise, PolygammaAtOne) {
  auto at_one = [](double m) {
    return bind1(polygamma_p, {full({}, m, Dtype::F64), full({}, 1.0, Dtype::F64)}).item<double>();
  };
  EXPECT_NEAR(at_one(0), -0.5772156649015329, 1e-14);
  EXPECT_NEAR(at_one(1), 1.6449340668482264, 1e-14);   // π²/6
  EXPECT_NEAR(at_one(2), -2.4041138063191886, 1e-13);  // -2ζ(3)
  EXPECT_NEAR(at_one(3), 6.493939402266829, 1e-12);    // π⁴/15
}

// By the recurrence ψ_m(x + 1) = ψ_m(x) + (-1)^m m!/x^(m+1), upwards from below 0.
TEST(Elementwise, PolygammaBelowZero) {
  const auto at = [](double m, double x) {
    return bind1(polygamma_p, {full({}, m, Dtype::F64), full({}, x, Dtype::F64)}).item<double>();
  };
  for (const double x : {-0.5, -0.25, -1.75, -7.1}) {
    double factorial = 1.0;
    for (int m = 1; m <= 4; ++m) {
      factorial *= m;
      double expected = at(m, x + 10.0);
      for (int k = 0; k < 10; ++k) expected -= (m % 2 == 0 ? factorial : -factorial) / std::pow(x + k, m + 1);
      EXPECT_NEAR(at(m, x), expected, 1e-11 * std::abs(expected)) << m << " at " << x;
    }
  }
  EXPECT_NEAR(at(1, -0.5), 8.9348022005446793, 1e-13);  // π²/2 + 4
  EXPECT_EQ(at(1, 0.0), kInf);
  EXPECT_EQ(at(1, -3.0), kInf);
  EXPECT_TRUE(std::isnan(at(2, -3.0)));
}

TEST(Elementwise, SignsAndRounding) {
  EXPECT_THAT(values(sign(f64({-2, -0.0, 0, 3}))), ElementsAre(-1, 0, 0, 1));
  EXPECT_TRUE(std::isnan(values(sign(f64({kNaN})))[0]));
  EXPECT_TRUE(std::signbit(values(sign(f64({-0.0})))[0]));
  EXPECT_THAT(values(round(f64({0.5, 1.5, 2.5, -0.5, -1.5, 2.4}))), ElementsAre(0, 2, 2, 0, -2, 2));
  EXPECT_THAT(values(bind1(round_p, {f64({0.5, 2.5, -0.5})}, {{"rounding_method", 0}})),
              ElementsAre(1, 3, -1));
  EXPECT_THAT(values(floor(f32({-1.5, 1.5}))), ElementsAre(-2, 1));
  EXPECT_THAT(values(ceil(f32({-1.5, 1.5}))), ElementsAre(-1, 2));
  EXPECT_THAT(values(abs(f64({-2.5, 2.5}))), ElementsAre(2.5, 2.5));
  EXPECT_THAT(values(is_finite(f32({1, kInf, -kInf, kNaN}))), ElementsAre(1, 0, 0, 0));
}

TEST(Elementwise, MaximaPassNanOn) {
  for (const Array& y : {maximum(f64({kNaN, 1}), f64({1, kNaN})), minimum(f64({kNaN, 1}), f64({1, kNaN})),
                         clamp(0.0, f64({kNaN, kNaN}), 1.0)})
    EXPECT_THAT(values(is_finite(y)), ElementsAre(0, 0));
  EXPECT_THAT(values(maximum(f64({1, 4}), f64({2, 3}))), ElementsAre(2, 4));
  EXPECT_THAT(values(minimum(f64({1, 4}), f64({2, 3}))), ElementsAre(1, 3));
  EXPECT_THAT(values(clamp(-1, f64({-5, 0.5, 5}), 2)), ElementsAre(-1, 0.5, 2));
}

TEST(Elementwise, ComparisonsWithNan) {
  const Array a = f64({1, 2, kNaN}), b = f64({2, 2, 1});
  EXPECT_THAT(values(equal_to(a, b)), ElementsAre(0, 1, 0));
  EXPECT_THAT(values(not_equal_to(a, b)), ElementsAre(1, 0, 1));
  EXPECT_THAT(values(a < b), ElementsAre(1, 0, 0));
  EXPECT_THAT(values(a <= b), ElementsAre(1, 1, 0));
  EXPECT_THAT(values(a > b), ElementsAre(0, 0, 0));
  EXPECT_THAT(values(a >= b), ElementsAre(0, 1, 0));
}

TEST(Elementwise, PowersAtTheEdges) {
  EXPECT_THAT(values(pow(f64({0, 0, 2, -2}), f64({0, 2, -1, 3}))), ElementsAre(1, 0, 0.5, -8));
  EXPECT_THAT(values(pow(f64({-2, 0}), i32({3, 0}))), ElementsAre(-8, 1));
  EXPECT_THAT(values(integer_pow(i32({-3, 2}), 3)), ElementsAre(-27, 8));
  EXPECT_THAT(values(integer_pow(f64({0, 2}), 0)), ElementsAre(1, 1));
  EXPECT_THAT(values(integer_pow(f64({2}), 10)), ElementsAre(1024));
}

// Integers --------------------------------------------------------------------------------------------------
constexpr std::int32_t kMin32 = std::numeric_limits<std::int32_t>::min(),
                       kMax32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMin64 = std::numeric_limits<std::int64_t>::min();

TEST(Integers, DivisionNeverTraps) {
  EXPECT_THAT(values(div(i32({7, -7, kMin32, 5}), i32({2, 2, -1, 0}))), ElementsAre(3, -3, kMin32, -1));
  EXPECT_THAT(values(rem(i32({7, -7, kMin32, 5}), i32({2, 2, -1, 0}))), ElementsAre(1, -1, 0, 5));
  const Array big = div(i64({kMin64, 1}), i64({-1, 0}));
  EXPECT_EQ(big.tensor().data<std::int64_t>()[0], kMin64);
  EXPECT_EQ(big.tensor().data<std::int64_t>()[1], -1);
  EXPECT_THAT(values(div(u32({7, 7}), u32({2, 0}))), ElementsAre(3, 4294967295.0));
  EXPECT_THAT(values(rem(u32({7, 7}), u32({4, 0}))), ElementsAre(3, 7));
}

TEST(Integers, ArithmeticWrapsAround) {
  EXPECT_THAT(values(add(i32({kMax32}), i32({1}))), ElementsAre(kMin32));
  EXPECT_THAT(values(sub(i32({kMin32}), i32({1}))), ElementsAre(kMax32));
  EXPECT_THAT(values(mul(i32({65536}), i32({65536}))), ElementsAre(0));
  EXPECT_THAT(values(neg(i32({kMin32}))), ElementsAre(kMin32));
  EXPECT_THAT(values(abs(i32({kMin32, -3}))), ElementsAre(kMin32, 3));
  EXPECT_THAT(values(neg(u32({1}))), ElementsAre(4294967295.0));
  EXPECT_THAT(values(square(i32({65536}))), ElementsAre(0));
}

TEST(Integers, ShiftsPastTheWidth) {
  EXPECT_THAT(values(shift_left(i32({1, 1, 1, 1}), i32({4, 31, 32, -1}))), ElementsAre(16, kMin32, 0, 0));
  EXPECT_THAT(values(shift_right_logical(i32({-1, -1, -1}), i32({28, 32, 99}))), ElementsAre(15, 0, 0));
  EXPECT_THAT(values(shift_right_arithmetic(i32({-8, -8, 8}), i32({1, 40, 40}))), ElementsAre(-4, -1, 0));
  EXPECT_THAT(values(shift_left(i64({1}), i64({40}))), ElementsAre(1099511627776.0));
  EXPECT_THAT(values(shift_right_logical(u32({0x80000000U}), u32({31}))), ElementsAre(1));
}

TEST(Integers, BitwiseLogic) {
  EXPECT_THAT(values(logical_and(i32({12}), i32({10}))), ElementsAre(8));
  EXPECT_THAT(values(logical_or(i32({12}), i32({10}))), ElementsAre(14));
  EXPECT_THAT(values(logical_xor(i32({12}), i32({10}))), ElementsAre(6));
  EXPECT_THAT(values(logical_not(i32({0, 5}))), ElementsAre(-1, -6));
  const Array t = less(f64({0, 1}), 0.5);
  EXPECT_THAT(values(logical_not(t)), ElementsAre(0, 1));
  EXPECT_EQ(logical_and(t, t).dtype(), Dtype::Bool);
}

// Conversions -----------------------------------------------------------------------------------------------
TEST(Convert, FloatsToIntegersSaturate) {
  const Array x = f64({2.9, -2.9, 1e20, -1e20, kInf, -kInf, kNaN});
  EXPECT_THAT(values(convert(x, Dtype::I32)), ElementsAre(2, -2, kMax32, kMin32, kMax32, kMin32, 0));
  EXPECT_THAT(values(convert(x, Dtype::U32)), ElementsAre(2, 0, 4294967295.0, 0, 4294967295.0, 0, 0));
  const Array wide = convert(x, Dtype::I64);
  EXPECT_EQ(wide.tensor().data<std::int64_t>()[2], std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(wide.tensor().data<std::int64_t>()[3], kMin64);
  EXPECT_THAT(values(convert(f32({2147483648.0, -2147483648.0}), Dtype::I32)), ElementsAre(kMax32, kMin32));
  EXPECT_THAT(values(convert(f64({0, 0.1, kNaN}), Dtype::Bool)), ElementsAre(0, 1, 1));
}

TEST(Convert, IntegersKeepTheirLowBits) {
  EXPECT_THAT(values(convert(i64({4294967297, -1}), Dtype::I32)), ElementsAre(1, -1));
  EXPECT_THAT(values(convert(i32({-1}), Dtype::U32)), ElementsAre(4294967295.0));
  EXPECT_THAT(values(convert(i32({2, 0}), Dtype::Bool)), ElementsAre(1, 0));
}

TEST(Convert, HalfTypesRoundToNearestEven) {
  for (const Dtype t : {Dtype::F16, Dtype::BF16})
    EXPECT_THAT(values(convert(convert(f32({1, -2.5, 0, 0.5}), t), Dtype::F32)),
                ElementsAre(1, -2.5, 0, 0.5));
  EXPECT_THAT(values(convert(f32({1.00048828125, 70000}), Dtype::F16)),
              ElementsAre(1, kInf));                                             // 1 + 2^-11: a tie
  EXPECT_THAT(values(convert(f32({1.00390625}), Dtype::BF16)), ElementsAre(1));  // 1 + 2^-8: a tie
}

TEST(Convert, BitsStay) {
  EXPECT_THAT(values(bitcast(f32({1, -0.0}), Dtype::U32)), ElementsAre(0x3f800000, 2147483648.0));
  EXPECT_THAT(values(bitcast(u32({0x3f800000U}), Dtype::F32)), ElementsAre(1));
  expect_error_in<TypeError>([] { bitcast(f32({1}), Dtype::I64); }, "bitcast_convert_type", "same width");
}

// Promotion -------------------------------------------------------------------------------------------------
TEST(Promotion, NumbersAdaptToArrays) {
  EXPECT_EQ((f64({1}) * 2.0).dtype(), Dtype::F64);
  EXPECT_EQ((2 - f32({1})).dtype(), Dtype::F32);
  EXPECT_EQ((i64({1}) + 1).dtype(), Dtype::I64);
  EXPECT_EQ((u32({1}) + 1).dtype(), Dtype::U32);
  EXPECT_EQ((i32({1}) + 1.5).dtype(), Dtype::F32);
  EXPECT_THAT(values(i32({1}) + 1.5), ElementsAre(2.5));
  EXPECT_EQ(add(1, 2).dtype(), Dtype::I32);
  EXPECT_EQ(add(1, 2.0).dtype(), Dtype::F32);
  // No detour through a narrower type.
  EXPECT_EQ(values(f64({0}) + 0.1)[0], 0.1);
}

TEST(Promotion, ArraysMeetInTheWiderType) {
  EXPECT_EQ((f32({1}) + f64({1})).dtype(), Dtype::F64);
  EXPECT_EQ((i32({1}) + i64({1})).dtype(), Dtype::I64);
  EXPECT_EQ((i32({1}) + f32({1})).dtype(), Dtype::F32);
  EXPECT_EQ((i32({1}) + u32({1})).dtype(), Dtype::I64);
  EXPECT_EQ((less(f32({1}), 2) * f32({3})).dtype(), Dtype::F32);
  EXPECT_EQ(exp(i32({0})).dtype(), Dtype::F32);
  EXPECT_EQ(div(i32({7}), 2).dtype(), Dtype::I32);
}

// Broadcasting ----------------------------------------------------------------------------------------------
TEST(Broadcasting, LikeNumpy) {
  const Array row = f64({1, 2, 3}), tall = column({10, 20}),
              matrix = array({{1, 2, 3}, {4, 5, 6}}, Dtype::F64);
  EXPECT_THAT(values(matrix + row), ElementsAre(2, 4, 6, 5, 7, 9));
  EXPECT_THAT(values(row + matrix), ElementsAre(2, 4, 6, 5, 7, 9));
  EXPECT_THAT(values(matrix * tall), ElementsAre(10, 20, 30, 80, 100, 120));
  EXPECT_THAT(values(tall - row), ElementsAre(9, 8, 7, 19, 18, 17));
  EXPECT_EQ((tall - row).shape(), (Shape{2, 3}));
  EXPECT_EQ((zeros({0, 3}, Dtype::F64) + row).shape(), (Shape{0, 3}));
  EXPECT_EQ((zeros({3, 1, 2}) + zeros({1, 4, 2})).shape(), (Shape{3, 4, 2}));
}

TEST(Broadcasting, AxesThatAlternate) {
  const Array a = reshape(arange(6, Dtype::F64), {3, 1, 2, 1}),
              b = reshape(arange(8, Dtype::F64), {1, 2, 1, 4});
  const Array y = a * 10.0 + b;
  ASSERT_EQ(y.shape(), (Shape{3, 2, 2, 4}));
  const std::vector<double> v = values(y);
  for (std::size_t i = 0; i < 3; ++i)
    for (std::size_t j = 0; j < 2; ++j)
      for (std::size_t k = 0; k < 2; ++k)
        for (std::size_t l = 0; l < 4; ++l)
          EXPECT_EQ(v[((i * 2 + j) * 2 + k) * 4 + l], static_cast<double>(10 * (i * 2 + k) + (j * 4 + l)));
}

TEST(Broadcasting, ProgramsStaySmall) {
  const Avals in{{Dtype::F32, {4, 3}}, {Dtype::F32, {3}}, {Dtype::F32, {}}, {Dtype::F32, {4, 1}}};
  const auto equations = [&](const Function& f) { return make_jaxpr(f, in).jaxpr.eqns.size(); };
  EXPECT_EQ(equations([](ArraySpan x) { return Arrays{x[0] * 2.0}; }), 1U);
  EXPECT_EQ(equations([](ArraySpan x) { return Arrays{x[0] * x[2]}; }), 1U);
  EXPECT_EQ(equations([](ArraySpan x) { return Arrays{x[0] * x[3]}; }), 1U);
  EXPECT_EQ(equations([](ArraySpan x) { return Arrays{x[0] * x[1]}; }), 2U);
  EXPECT_EQ(equations([](ArraySpan x) { return Arrays{where(x[0] > 0.0, x[0], 0.0)}; }), 2U);
}

TEST(Select, ChoosesByBoolIndexAndScalar) {
  const Array a = f64({1, 2, 3}), b = f64({10, 20, 30}), c = f64({100, 200, 300});
  EXPECT_THAT(values(where(a > 1.5, a, b)), ElementsAre(10, 2, 3));
  EXPECT_THAT(values(where(Array(true), a, b)), ElementsAre(1, 2, 3));
  EXPECT_THAT(values(where(i32({0, 2, 0}), a, b)), ElementsAre(10, 2, 30));
  EXPECT_THAT(values(select_n(i32({2, 0, 1}), std::array{a, b, c})), ElementsAre(100, 2, 30));
  EXPECT_THAT(values(select_n(i32({-5, 7, 1}), std::array{a, b, c})), ElementsAre(1, 200, 30));
  EXPECT_THAT(values(select_n(full({}, std::int64_t{2}, Dtype::I32), std::array{a, b, c})),
              ElementsAre(100, 200, 300));
  EXPECT_THAT(values(select_n(i32({0, 1}), std::array{array({{1, 2}, {3, 4}}, Dtype::F64)})),
              ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(values(where(a > 1.5, column({1, 2}), 0)), ElementsAre(0, 1, 1, 0, 2, 2));
}

// Derivatives at special points -----------------------------------------------------------------------------
TEST(Derivatives, MaximaShareTies) {
  const Arrays x{f64({1, 2, 3}), f64({2, 2, 2})};
  auto max_of = [](ArraySpan a) { return maximum(a[0], a[1]); };
  auto min_of = [](ArraySpan a) { return minimum(a[0], a[1]); };
  EXPECT_THAT(derivative(max_of, x, 0), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(derivative(max_of, x, 1), ElementsAre(1, 0.5, 0));
  EXPECT_THAT(derivative(min_of, x, 0), ElementsAre(1, 0.5, 0));
  EXPECT_THAT(derivative(min_of, x, 1), ElementsAre(0, 0.5, 1));
}

TEST(Derivatives, PowersOfZero) {
  const Arrays x{f64({0, 0, 0, 2}), f64({0, 1, 2, 0})};
  auto power = [](ArraySpan a) { return pow(a[0], a[1]); };
  EXPECT_THAT(derivative(power, x, 0), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(derivative(power, x, 1), ElementsAre(0, 0, 0, DoubleNear(std::log(2.0), 1e-15)));
  EXPECT_THAT(derivative([](ArraySpan a) { return pow(a[0], 2.0); }, {f64({0, 3})}), ElementsAre(0, 6));
  // With an integer exponent also at negative bases.
  EXPECT_THAT(derivative(
                  [](ArraySpan a) {
                    return pow(a[0], i32({3, 0, 1}));
                  },
                  {f64({-2, 0, 0})}),
              ElementsAre(12, 0, 1));
}

TEST(Derivatives, DigammaBelowZero) {
  EXPECT_THAT(derivative([](ArraySpan a) { return digamma(a[0]); }, {f64({-0.5})}),
              ElementsAre(DoubleNear(8.9348022005446793, 1e-13)));
}

TEST(Derivatives, AbsAndStepFunctions) {
  // As JAX has it: a weight of zero under a function of |w| is not dead.
  EXPECT_THAT(derivative([](ArraySpan a) { return abs(a[0]); }, {f64({-2, 0, 2})}), ElementsAre(-1, 1, 1));
  for (auto f : {floor, ceil, round, sign})
    EXPECT_THAT(derivative([f](ArraySpan a) { return f(a[0]) + 0.0 * a[0]; }, {f64({0.3})}), ElementsAre(0));
}

TEST(Derivatives, ClampAndItsBounds) {
  const Arrays x{full({}, -1.0, Dtype::F64), f64({-5, 0.5, 5, 6}), full({}, 2.0, Dtype::F64)};
  auto clamped = [](ArraySpan a) { return clamp(a[0], a[1], a[2]); };
  EXPECT_THAT(derivative(clamped, x, 0), ElementsAre(1));
  EXPECT_THAT(derivative(clamped, x, 1), ElementsAre(0, 1, 0, 0));
  EXPECT_THAT(derivative(clamped, x, 2), ElementsAre(2));
}

TEST(Derivatives, StopGradientHidesItsOperand) {
  EXPECT_THAT(derivative([](ArraySpan a) { return stop_gradient(a[0]) * a[0]; }, {f64({3})}), ElementsAre(3));
}

TEST(Derivatives, SurrogateOfTheStep) {
  const Array x = f64({-0.5, 0, 0.5}), s = f64({0.1, 0.2, 0.3});
  EXPECT_THAT(values(heaviside_surrogate(x, s)), ElementsAre(0, 1, 1));
  auto spike = [](ArraySpan a) { return heaviside_surrogate(a[0], a[1]); };
  EXPECT_THAT(derivative(spike, {x, s}, 0), ElementsAre(0.1, 0.2, 0.3));
  EXPECT_THAT(derivative(spike, {x, s}, 1), ElementsAre(0, 0, 0));
  // As spiking models write it, with and without a mark that the slope is none of the spike's values.
  auto marked = [](ArraySpan a) { return heaviside_surrogate(a[0], 1.0 - abs(stop_gradient(a[0]))); };
  auto bare = [](ArraySpan a) { return heaviside_surrogate(a[0], 1.0 - abs(a[0])); };
  EXPECT_THAT(derivative(marked, {x}), ElementsAre(0.5, 1, 0.5));
  EXPECT_THAT(derivative(bare, {x}), ElementsAre(0.5, 1, 0.5));
}

TEST(Derivatives, CotangentsAreSummedOverBroadcastAxes) {
  const Arrays x{array({{1, 2, 3}, {4, 5, 6}}, Dtype::F64), column({2, 3}), f64({1, 1, 1}),
                 full({}, 5.0, Dtype::F64)};
  auto f = [](ArraySpan a) { return a[0] * a[1] * a[3] + a[2] - a[1]; };
  EXPECT_THAT(derivative(f, x, 1), ElementsAre(27, 72));
  EXPECT_THAT(derivative(f, x, 2), ElementsAre(2, 2, 2));
  EXPECT_THAT(derivative(f, x, 3), ElementsAre(57));
}

TEST(Derivatives, OfHigherOrder) {
  auto third = grad([](ArraySpan a) {
    return grad([](ArraySpan b) { return grad([](ArraySpan c) { return tanh(c[0]); })(b)[0]; })(a)[0];
  });
  const double x = 0.3, t = std::tanh(x), s = 1 - t * t;
  EXPECT_NEAR(third(Arrays{full({}, x, Dtype::F64)})[0].item<double>(), -2 * s * (s - 2 * t * t), 1e-14);
  auto trigamma = grad([](ArraySpan a) { return grad([](ArraySpan b) { return lgamma(b[0]); })(a)[0]; });
  EXPECT_NEAR(trigamma(Arrays{full({}, 1.0, Dtype::F64)})[0].item<double>(), 1.6449340668482264, 1e-13);
}

// Kernels ---------------------------------------------------------------------------------------------------
TEST(Kernels, EveryLengthAndInPlace) {
  // Chains through the interpreter reuse storage; lengths around the vector width meet every tail.
  for (std::int64_t n = 0; n < 70; ++n) {
    const ClosedJaxpr program = make_jaxpr(
        [](ArraySpan x) {
          const Array a = x[0] * 2.0 + 1.0;
          return Arrays{where(a > 4.0, maximum(-a, 3.0 - a), tanh(exp(-a)) / a)};
        },
        Avals{{Dtype::F32, {n}}});
    std::vector<float> x;
    for (std::int64_t i = 0; i < n; ++i) x.push_back(static_cast<float>(i) * 0.1F);
    const Tensor y = evaluate(program, Tensors{Tensor::of(x, {n})})[0];
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float a = x[i] * 2.0F + 1.0F;
      const double expected = a > 4.0F ? 3.0 - a : std::tanh(std::exp(-static_cast<double>(a))) / a;
      EXPECT_NEAR(y.data<float>()[i], expected, 1e-6) << "element " << i << " of " << n;
    }
  }
}

// Errors ----------------------------------------------------------------------------------------------------
TEST(ElementwiseErrors, NameTheOperationAndTheTypes) {
  expect_error_in<ValueError>(
      [] {
        add(f32({1, 2}), f32({1, 2, 3}));
      },
      "add", "[2] and [3] do not broadcast");
  expect_error_in<ValueError>(
      [] {
        bind1(mul_p, {zeros({2, 3}), zeros({3})});
      },
      "mul", "f32[2,3], f32[3] do not broadcast");
  expect_error_in<TypeError>([] { bind1(add_p, {f32({1}), f64({1})}); }, "add", "different element types");
  expect_error_in<TypeError>([] { bind1(exp_p, {i32({1})}); }, "exp", "cannot compute on i32[1]");
  expect_error_in<TypeError>([] { exp(convert(f32({1}), Dtype::BF16)); }, "exp", "cannot compute on bf16[1]");
  expect_error_in<TypeError>([] { neg(less(f32({1}), 2)); }, "neg", "cannot compute on bool[1]");
  expect_error_in<TypeError>([] { logical_and(f32({1}), f32({1})); }, "and", "it takes bool, integers");
  expect_error_in<TypeError>([] { add(Array(), f32({1})); }, "add", "undefined");
  expect_error_in<CompilationError>([] { bind1(add_p, {f32({1})}); }, "add", "takes 2 operands but 1");
  expect_error_in<ValueError>([] { integer_pow(i32({2}), -1); }, "integer_pow", "negative power -1");
  expect_error_in<CompilationError>(
      [] {
        bind1(round_p, {f32({1})}, {{"rounding_method", 7}});
      },
      "round", "rounding_method");
}

TEST(ElementwiseErrors, Select) {
  const Array a = f32({1, 2});
  expect_error_in<TypeError>(
      [&] {
        select_n(f32({0, 1}), std::array{a, a});
      },
      "select_n", "must be bool or i32");
  expect_error_in<CompilationError>(
      [&] {
        select_n(less(a, 1), std::array{a, a, a});
      },
      "select_n", "2 cases but 3");
  expect_error_in<ValueError>([&] { select_n(less(a, 1), Arrays{}); }, "select_n", "at least one");
  expect_error_in<TypeError>(
      [&] {
        bind1(select_n_p, {less(a, 1), a, f64({1, 2})});
      },
      "select_n", "different element types");
  expect_error_in<TypeError>([&] { bind1(pow_p, {i32({2}), i32({2})}); }, "pow", "cannot compute on i32[1]");
}

}  // namespace
}  // namespace etrace::testing
