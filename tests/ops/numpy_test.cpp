// Creation and composed functions.
#include "etrace/ops/numpy.h"

#include <cmath>

#include "etrace/transform.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

const Array kTable = array({{1, 2, 3}, {4, 5, 6}}, Dtype::F64);

std::vector<double> slope(Array (*f)(const Array&), const Array& x) {
  return values(grad([&](ArraySpan a) { return sum(f(a[0])); })(Arrays{x})[0]);
}

TEST(Creation, Arrays) {
  EXPECT_THAT(values(zeros({2})), ElementsAre(0, 0));
  EXPECT_THAT(values(ones({2}, Dtype::I32)), ElementsAre(1, 1));
  EXPECT_EQ(ones_like(kTable).aval(), kTable.aval());
  EXPECT_EQ(zeros_like(kTable).aval(), kTable.aval());
  EXPECT_THAT(values(eye(2)), ElementsAre(1, 0, 0, 1));
  EXPECT_EQ(eye(3, Dtype::F64).dtype(), Dtype::F64);
  EXPECT_THAT(values(linspace(0, 1, 5, Dtype::F64)), ElementsAre(0, 0.25, 0.5, 0.75, 1));
  EXPECT_THAT(values(linspace(3, 4, 1)), ElementsAre(3));
  EXPECT_EQ(linspace(0, 1, 0).shape(), (Shape{0}));
  EXPECT_EQ(kTable.shape(), (Shape{2, 3}));
  EXPECT_EQ(array(std::vector<double>{}).shape(), (Shape{0}));
  EXPECT_THROW(array({{1, 2}, {3}}), ValueError);
  EXPECT_THROW(array({1, 2, 3}, Shape{2}), ValueError);
  EXPECT_THROW(linspace(0, 1, -1), ValueError);
}

TEST(Activations, Values) {
  const Array x = f64({-2, 0, 2});
  EXPECT_THAT(values(relu(x)), ElementsAre(0, 0, 2));
  EXPECT_THAT(values(leaky_relu(x, 0.1)), ElementsAre(-0.2, 0, 2));
  EXPECT_THAT(values(elu(x)), ElementsAre(DoubleNear(std::expm1(-2), 1e-15), 0, 2));
  EXPECT_THAT(values(softplus(x)),
              ElementsAre(DoubleNear(0.1269280110429726, 1e-15), DoubleNear(std::log(2.0), 1e-15),
                          DoubleNear(2.1269280110429727, 1e-15)));
  EXPECT_THAT(values(silu(x)),
              ElementsAre(DoubleNear(-0.2384058440442351, 1e-15), 0, DoubleNear(1.7615941559557649, 1e-15)));
  EXPECT_THAT(values(gelu(x)),
              ElementsAre(DoubleNear(-0.04540230591222738, 1e-14), 0, DoubleNear(1.9545976940877726, 1e-14)));
  EXPECT_THAT(values(hard_sigmoid(f64({-4, 0, 1.5, 4}))), ElementsAre(0, 0.5, 0.75, 1));
  EXPECT_EQ(l2_norm(f64({3, 4})).item<double>(), 5);
  EXPECT_TRUE(std::isnan(values(relu(f64({std::nan("")})))[0]));
  EXPECT_EQ(values(softplus(f64({1000})))[0], 1000);
}

TEST(Activations, DerivativesAtKinksAndFarOut) {
  const Array x = f64({-2, 0, 2});
  EXPECT_THAT(slope(relu, x), ElementsAre(0, 0, 1));
  EXPECT_THAT(slope([](const Array& a) { return leaky_relu(a, 0.1); }, x), ElementsAre(0.1, 1, 1));
  EXPECT_THAT(slope([](const Array& a) { return elu(a); }, f64({0, 1000})), ElementsAre(1, 1));
  EXPECT_THAT(slope(softplus, f64({-800, 0, 800})), ElementsAre(0, 0.5, 1));
  EXPECT_THAT(slope(hard_sigmoid, f64({-4, 0, 4})), ElementsAre(0, DoubleNear(1.0 / 6, 1e-16), 0));
}

TEST(Matrices, DiagonalsAndTriangles) {
  EXPECT_THAT(values(diag(f64({1, 2}))), ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(values(diag(kTable)), ElementsAre(1, 5));
  EXPECT_EQ(trace(kTable).item<double>(), 6);
  EXPECT_THAT(values(tril(kTable)), ElementsAre(1, 0, 0, 4, 5, 0));
  EXPECT_THAT(values(triu(kTable)), ElementsAre(1, 2, 3, 0, 5, 6));
  EXPECT_EQ(tril(zeros({4, 3, 3})).shape(), (Shape{4, 3, 3}));
  EXPECT_THAT(slope(diag, kTable), ElementsAre(1, 0, 0, 0, 1, 0));
  EXPECT_THROW(diag(zeros({2, 2, 2})), ValueError);
  EXPECT_THROW(tril(zeros({2})), ValueError);
  EXPECT_THROW(trace(zeros({2})), ValueError);
}

TEST(Rearrangement, RollFlipTileRepeat) {
  const Array x = f64({1, 2, 3});
  EXPECT_THAT(values(roll(x, 1, 0)), ElementsAre(3, 1, 2));
  EXPECT_THAT(values(roll(x, -1, 0)), ElementsAre(2, 3, 1));
  EXPECT_THAT(values(roll(x, 7, -1)), ElementsAre(3, 1, 2));
  EXPECT_THAT(values(roll(x, 3, 0)), ElementsAre(1, 2, 3));
  EXPECT_THAT(values(roll(kTable, 1, 1)), ElementsAre(3, 1, 2, 6, 4, 5));
  EXPECT_EQ(roll(zeros({0}), 2, 0).shape(), (Shape{0}));
  EXPECT_THAT(values(flip(kTable, 0)), ElementsAre(4, 5, 6, 1, 2, 3));
  EXPECT_THAT(values(flip(kTable, -1)), ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(values(tile(f64({1, 2}), {2})), ElementsAre(1, 2, 1, 2));
  EXPECT_THAT(values(tile(f64({1, 2}), {2, 1})), ElementsAre(1, 2, 1, 2));
  EXPECT_EQ(tile(f64({1, 2}), {2, 1}).shape(), (Shape{2, 2}));
  EXPECT_THAT(values(tile(kTable, {2})), ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
  EXPECT_EQ(tile(kTable, {0, 1}).shape(), (Shape{0, 3}));
  EXPECT_THAT(values(repeat(f64({1, 2}), 2, 0)), ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(values(repeat(kTable, 2, 0)), ElementsAre(1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6));
  EXPECT_THROW(roll(x, 1, 1), ValueError);
  EXPECT_THROW(tile(x, {-1}), ValueError);
  EXPECT_THROW(repeat(x, -1, 0), ValueError);
}

}  // namespace
}  // namespace etrace::testing
