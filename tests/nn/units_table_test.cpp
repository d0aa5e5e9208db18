// What every layer makes of an input with a unit: keeps it, wants numbers, wants one of its own, multiplies
// it by that of its weights, or does not see it.
#include <gtest/gtest.h>

#include "etrace/nn.h"
#include "etrace/random.h"
#include "etrace/units.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using units::mA;
using units::mS;
using units::mV;

Array some(const Shape& shape) { return random::uniform(random::key(3), shape, Dtype::F64, 0.1, 1.0); }
void expect_same(const Array& a, const Array& b) {
  EXPECT_EQ(testing::difference(a.tensor(), b.tensor(), 1e-12), std::nullopt);
}

// Each call on a module of its own, so that states do not matter.
template <class M, class... Args>
struct Made {
  std::tuple<Args...> args;
  std::shared_ptr<M> operator()() const {
    return std::apply([](const auto&... a) { return std::make_shared<M>(a...); }, args);
  }
};
template <class M, class... Args>
Made<M, Args...> of(Args... args) {
  return {std::tuple<Args...>(args...)};
}

template <class Make>
void keeps(const Make& make, const Shape& in) {
  SCOPED_TRACE(typeid(*make()).name());
  const Array x = some(in);
  const Quantity y = (*make())(x * mV);
  EXPECT_EQ(y.unit(), mV);
  expect_same(y.mantissa(), (*make())(x));
}
template <class Make>
void wants(const Make& make, const Shape& in, const Unit& unit) {
  SCOPED_TRACE(typeid(*make()).name());
  const Array x = some(in);
  const Quantity plain = (*make())(x), scaled = (*make())(Quantity(1e3 * x, unit.scaled(-3)));
  expect_same(scaled.mantissa(), plain.mantissa());
  EXPECT_THROW((*make())(x * (units::kg * unit)), UnitError);
}
template <class Make>
void wants_numbers(const Make& make, const Shape& in) {
  wants(make, in, {});
}
template <class Make>
void weighs(const Make& make, const Shape& in) {
  SCOPED_TRACE(typeid(*make()).name());
  const Array x = some(in);
  const Quantity y = (*make())(x * mV);
  EXPECT_EQ(y.unit(), mV * mS);
  expect_same(y.mantissa(), (*make())(x));
}

TEST(UnitsTable, Keep) {
  using namespace nn;
  keeps(of<Identity>(), {6});
  keeps(of<ReLU>(), {6});
  keeps(of<LeakyReLU>(), {6});
  keeps(of<PReLU>(6, PReLUOptions{.dtype = Dtype::F64}), {6});
  keeps(of<Dropout>(), {6});
  keeps(of<Flatten>(Shape{3, 2}), {3, 2});
  keeps(of<Unflatten>(Shape{3, 2}), {6});
  keeps(of<ScaledWSLinear>(6, 2, ScaledWSLinearOptions{.dtype = Dtype::F64}), {6});
  keeps(of<AvgPool1d>(Dims{2}), {4, 1});
  keeps(of<AvgPool2d>(Dims{2}), {4, 4, 1});
  keeps(of<AvgPool3d>(Dims{2}), {2, 2, 2, 1});
  keeps(of<MaxPool1d>(Dims{2}), {4, 1});
  keeps(of<MaxPool2d>(Dims{2}), {4, 4, 1});
  keeps(of<MaxPool3d>(Dims{2}), {2, 2, 2, 1});
  keeps(of<AdaptiveAvgPool1d>(Dims{3}), {4, 1});
  keeps(of<AdaptiveAvgPool2d>(Dims{3}), {4, 4, 1});
  keeps(of<AdaptiveAvgPool3d>(Dims{1}), {2, 2, 2, 1});
  keeps(of<AdaptiveMaxPool1d>(Dims{3}), {4, 1});
  keeps(of<AdaptiveMaxPool2d>(Dims{3}), {4, 4, 1});
  keeps(of<AdaptiveMaxPool3d>(Dims{1}), {2, 2, 2, 1});
}

TEST(UnitsTable, DoNotSee) {
  const Array x = some({4, 2});
  const auto check = [&](auto norm) { expect_same(norm(x * mV), norm(x)); };
  const nn::NormOptions options{.dtype = Dtype::F64};
  check(nn::LayerNorm(2, options));
  check(nn::RMSNorm(2, options));
  check(nn::GroupNorm(Shape{4, 2}, nn::GroupNormOptions{.groups = 1, .dtype = Dtype::F64}));
}

TEST(UnitsTable, Weigh) {
  using namespace nn;
  constexpr Dtype kF64 = Dtype::F64;
  weighs(of<Linear>(3, 2, LinearOptions{.unit = mS, .dtype = kF64}), {3});
  weighs(of<SignedWLinear>(3, 2, SignedWLinearOptions{.unit = mS, .dtype = kF64}), {3});
  weighs(of<SparseLinear>(connect::all_to_all(3, 2), SparseLinearOptions{.unit = mS, .dtype = kF64}), {3});
  weighs(of<LoRA>(3, 2, 2, LoRAOptions{.unit = mS, .dtype = kF64}), {3});
  weighs(of<GroupedLinear>(2, 3, 2, GroupedLinearOptions{.unit = mS, .dtype = kF64}), {2, 3});
  weighs(of<AllToAll>(3, 2, AllToAllOptions{.unit = mS, .dtype = kF64}), {3});
  weighs(of<OneToOne>(3, OneToOneOptions{.unit = mS, .dtype = kF64}), {3});
  const ConvLayerOptions conv{.unit = mS, .dtype = kF64};
  weighs(of<Conv1d>(Shape{4, 1}, 2, Dims{3}, conv), {4, 1});
  weighs(of<Conv2d>(Shape{4, 4, 1}, 2, Dims{3}, conv), {4, 4, 1});
  weighs(of<Conv3d>(Shape{2, 2, 2, 1}, 2, Dims{3}, conv), {2, 2, 2, 1});
  // Indices and spikes have none.
  Embedding table(3, 2, {.unit = mS});
  EXPECT_EQ(table(Quantity(array({0, 2}, Dtype::I32))).unit(), mS);
  DelayedLinear late(connect::all_to_all(3, 2), 2.0, {.unit = mS, .dtype = kF64});
  EXPECT_EQ(late(Quantity(some({3}))).unit(), mS);
  EXPECT_THROW(late(some({3}) * mV), UnitError);
}

TEST(UnitsTable, WantNumbers) {
  using namespace nn;
  const CellOptions cell{.dtype = Dtype::F64};
  wants_numbers(of<VanillaRNNCell>(3, 4, cell), {3});
  wants_numbers(of<GRUCell>(3, 4, cell), {3});
  wants_numbers(of<CFNCell>(3, 4, cell), {3});
  wants_numbers(of<MGUCell>(3, 4, cell), {3});
  wants_numbers(of<LSTMCell>(3, 4, cell), {3});
  wants_numbers(of<URLSTMCell>(3, 4, cell), {3});
  wants_numbers(of<MinimalRNNCell>(3, 4, cell), {3});
  wants_numbers(of<MiniGRU>(3, 4, cell), {3});
  wants_numbers(of<MiniLSTM>(3, 4, cell), {3});
  wants_numbers(of<LRUCell>(3, 4, LRUOptions{.dtype = Dtype::F64}), {3});
  const ConvCellOptions conv{.dtype = Dtype::F64};
  wants_numbers(of<ConvRNNCell>(Shape{4, 2}, 3, Dims{3}, conv), {4, 2});
  wants_numbers(of<ConvGRUCell>(Shape{4, 2}, 3, Dims{3}, conv), {4, 2});
  wants_numbers(of<ConvLSTMCell>(Shape{4, 2}, 3, Dims{3}, conv), {4, 2});
  wants_numbers(of<LeakyRateReadout>(3, 2, LeakyRateReadoutOptions{.dtype = Dtype::F64}), {3});
  wants_numbers(of<LeakySpikeReadout>(3, 2, LeakySpikeReadoutOptions{.dtype = Dtype::F64}), {3});
  wants_numbers(of<LIFLayer>(3, 2, LIFLayerOptions{.neuron = {.dtype = Dtype::F64}}), {3});
  wants_numbers(of<STD>(3, STDOptions{.dtype = Dtype::F64}), {3});
  wants_numbers(of<STP>(3, STPOptions{.dtype = Dtype::F64}), {3});
  wants_numbers(of<AMPA>(3, ReceptorOptions{.dtype = Dtype::F64}), {3});
  wants_numbers(of<GABAa>(3, ReceptorOptions{.dtype = Dtype::F64}), {3});
  wants_numbers(of<NMDA>(3, NMDAOptions{.dtype = Dtype::F64}), {3});
  wants_numbers(of<BatchNorm>(2, BatchNormOptions{.dtype = Dtype::F64}), {4, 2});
  const auto activations = [](auto... made) { (wants_numbers(made, {6}), ...); };
  activations(of<Lambda>("tanh"), of<CELU>(), of<ELU>(), of<GELU>(), of<GLU>(), of<HardShrink>(),
              of<HardSigmoid>(), of<HardSiLU>(), of<HardTanh>(), of<LogSigmoid>(), of<LogSoftmax>(),
              of<Mish>(), of<ReLU6>(), of<SELU>(), of<Sigmoid>(), of<SiLU>(), of<Softmax>(), of<Softmin>(),
              of<Softplus>(), of<SoftShrink>(), of<SoftSign>(), of<Tanh>(), of<TanhShrink>(),
              of<Threshold>(0.5, 0.1));
  Residual residual;
  residual.add<Linear>(2, 2, LinearOptions{.dtype = Dtype::F64});
  Parallel parallel;
  parallel.add<Linear>(2, 2, LinearOptions{.dtype = Dtype::F64});
  AlignPost post(SynapticCurrent::cuba());
  post.connect<Linear>(2, 2, LinearOptions{.dtype = Dtype::F64});
  AlignPre pre(SynapticCurrent::cuba());
  pre.connect<Linear>(2, 2, LinearOptions{.dtype = Dtype::F64});
  pre.synapse<Expon>(2, ExponOptions{.dtype = Dtype::F64});
  const Array x = some({2});
  expect_same(residual(Quantity(x)), residual(x));
  expect_same(parallel(Quantity(x)), parallel(x));
  expect_same(post(Quantity(x)), post(x));
  EXPECT_THROW(residual(x * mV), UnitError);
  EXPECT_THROW(parallel(x * mV), UnitError);
  EXPECT_THROW(post(x * mV), UnitError);
  EXPECT_THROW(pre(x * mV), UnitError);
}

TEST(UnitsTable, WantOneOfTheirOwn) {
  using namespace nn;
  wants(of<IF>(3, LIFOptions{.dtype = Dtype::F64}), {3}, mA);
  wants(of<LIF>(3, LIFOptions{.dtype = Dtype::F64}), {3}, mA);
  wants(of<LIFRef>(3, LIFOptions{.dtype = Dtype::F64}), {3}, mA);
  wants(of<ALIF>(3, ALIFOptions{.dtype = Dtype::F64}), {3}, mA);
  wants(of<Gif>(3, GifOptions{.dtype = Dtype::F64}), {3}, mA);
  wants(of<CurrentGif>(3, CurrentGifOptions{.dtype = Dtype::F64}), {3}, mA);
  wants(of<AdEx>(3, AdExOptions{.dtype = Dtype::F64}), {3}, mA);
  wants(of<Izhikevich>(3, IzhikevichOptions{.dtype = Dtype::F64}), {3}, mV / units::ms);
  wants(of<HodgkinHuxley>(3, HodgkinHuxleyOptions{.dtype = Dtype::F64}), {3},
        units::uA / (units::cm * units::cm));
  wants(of<Expon>(3, ExponOptions{.dtype = Dtype::F64}), {3}, mS);
  wants(of<Alpha>(3, AlphaOptions{.unit = mA, .dtype = Dtype::F64}), {3}, mA);
  wants(of<DualExpon>(3, DualExponOptions{.dtype = Dtype::F64}), {3}, mS);
  wants(of<Delay>(3, 1.0, DelayOptions{.unit = mV, .dtype = Dtype::F64}), {3}, mV);
  EXPECT_EQ(Expon(3)(zeros({3}) * units::S).unit(), mS);
  EXPECT_EQ(Delay(3, 1.0, {.unit = mV})(zeros({3}) * units::V).unit(), mV);
}

}  // namespace
}  // namespace etrace
