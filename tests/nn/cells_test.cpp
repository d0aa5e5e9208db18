// LSTMCell and MiniGRU against their formulas in plain C++, and what they share with every cell.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "support/errors.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using Vector = std::vector<double>;

constexpr std::int64_t kIn = 3, kOut = 4, kSteps = 6;

// Biases that differ from zero, so that a forgotten one is seen.
nn::CellOptions options() { return {.bias_init = nn::init::normal(0.5), .dtype = Dtype::F64, .seed = 7}; }

double sigma(double x) { return 1.0 / (1.0 + std::exp(-x)); }

Vector joined(Vector a, const Vector& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Vector affine(const nn::Linear& layer, const Vector& x) {
  const Vector w = layer.weight.value("weight").tensor().to_doubles();
  Vector y = layer.weight.value("bias").tensor().to_doubles();
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * w[i * y.size() + j];
  return y;
}

// What a cell computes: the formula maps an input to the new h and keeps its states itself.
template <class Formula>
void expect_follows(Module& cell, Formula formula) {
  init_all_states(cell);
  testing::Random random(3);
  for (std::int64_t t = 0; t < kSteps; ++t) {
    const Array x = random.f64({kIn}, -2.0, 2.0);
    const Array expected = array(formula(x.tensor().to_doubles()), {kOut}, Dtype::F64);
    EXPECT_EQ(testing::difference(cell(x).tensor(), expected.tensor(), 1e-13), std::nullopt) << "step " << t;
  }
}

void expect_rows_of_a_batch(Module& cell) {
  testing::Random random(4);
  const Array x = random.f64({2, kIn}), x2 = random.f64({2, kIn});
  auto row = [](const Array& a, std::int64_t b) { return squeeze(slice_axis(a, 0, b, b + 1), {0}); };
  init_all_states(cell, 2);
  cell(x);
  const Array batched = cell(x2);
  for (std::int64_t b = 0; b < 2; ++b) {
    init_all_states(cell);
    cell(row(x, b));
    EXPECT_EQ(testing::difference(row(batched, b).tensor(), cell(row(x2, b)).tensor(), 1e-14), std::nullopt);
  }
}

std::vector<std::string> paths(const Module& module) {
  std::vector<std::string> found;
  for (const StateEntry& s : states(module)) found.push_back(to_string(s.path));
  return found;
}

TEST(LSTMCell, FollowsItsFormula) {
  nn::LSTMCell cell(kIn, kOut, options());
  Vector c(kOut), h(kOut);
  expect_follows(cell, [&](const Vector& x) {
    const Vector xh = joined(x, h);
    const Vector i = affine(cell.Wi, xh), g = affine(cell.Wg, xh), f = affine(cell.Wf, xh),
                 o = affine(cell.Wo, xh);
    for (std::size_t k = 0; k < h.size(); ++k) {
      c[k] = sigma(f[k] + 1.0) * c[k] + sigma(i[k]) * std::tanh(g[k]);
      h[k] = sigma(o[k]) * std::tanh(c[k]);
    }
    return h;
  });
  EXPECT_EQ(testing::difference(cell.c.value().tensor(), array(c, {kOut}, Dtype::F64).tensor(), 1e-13),
            std::nullopt);
}

TEST(LSTMCell, AFreshCellRemembers) {
  // Without weights: c decays by σ(1) in a step, not by ½.
  nn::LSTMCell cell(kIn, 1, {.weight_init = nn::init::zeros(), .dtype = Dtype::F64});
  cell.c.set(1.0);
  cell(zeros({kIn}, Dtype::F64));
  EXPECT_NEAR(cell.c.value().tensor().to_doubles()[0], sigma(1.0), 1e-15);
}

TEST(LSTMCell, ActivationAndPaths) {
  nn::CellOptions o = options();
  o.activation = relu;
  nn::LSTMCell cell(kIn, kOut, o);
  EXPECT_THAT(paths(cell), ElementsAre("Wf/weight", "Wg/weight", "Wi/weight", "Wo/weight", "c", "h"));
  cell.c.set(-1.0);
  const Array h = cell(zeros({kIn}, Dtype::F64));
  const Vector c = cell.c.value().tensor().to_doubles(), shown = h.tensor().to_doubles();
  for (std::size_t k = 0; k < c.size(); ++k) EXPECT_EQ(shown[k] > 0.0, c[k] > 0.0);
}

TEST(MiniGRU, FollowsItsFormula) {
  nn::MiniGRU cell(kIn, kOut, options());
  Vector h(kOut);
  expect_follows(cell, [&](const Vector& x) {
    const Vector z = affine(cell.W_z, joined(x, h)), candidate = affine(cell.W_x, x);
    for (std::size_t k = 0; k < h.size(); ++k) h[k] = (1.0 - sigma(z[k])) * h[k] + sigma(z[k]) * candidate[k];
    return h;
  });
  EXPECT_THAT(paths(cell), ElementsAre("W_x/weight", "W_z/weight", "h"));
  EXPECT_EQ(cell.W_x.in_size, kIn);
}

TEST(MiniGRU, ActivationOfTheCandidate) {
  nn::CellOptions o = options();
  o.activation = tanh;
  nn::MiniGRU cell(kIn, kOut, o);
  const Array h = cell(full({kIn}, 50.0, Dtype::F64));
  for (const double value : h.tensor().to_doubles()) EXPECT_LE(std::abs(value), 1.0);
}

TEST(FurtherCells, BatchMatchesRows) {
  nn::LSTMCell lstm(kIn, kOut, options());
  nn::MiniGRU mini(kIn, kOut, options());
  nn::LIFLayer lif(kIn, kOut, {.neuron = {.dtype = Dtype::F64}, .input_scale = 3.0});
  expect_rows_of_a_batch(lstm);
  expect_rows_of_a_batch(mini);
  expect_rows_of_a_batch(lif);
}

TEST(FurtherCells, WithoutBiases) {
  nn::LSTMCell lstm(kIn, kOut, {.bias_init = {}});
  nn::MiniGRU mini(kIn, kOut, {.bias_init = {}});
  EXPECT_FALSE(lstm.Wf.weight.has_leaf("bias"));
  EXPECT_EQ(mini(zeros({kIn})).tensor(), Tensor::zeros({Dtype::F32, {kOut}}));
}

TEST(FurtherCells, MissingBatchIsExplained) {
  nn::LSTMCell lstm(kIn, kOut);
  nn::MiniGRU mini(kIn, kOut);
  nn::LIFLayer lif(kIn, kOut);
  for (Module* cell : {static_cast<Module*>(&lstm), static_cast<Module*>(&mini), static_cast<Module*>(&lif)})
    EXPECT_THAT(message_of<ValueError>([&] {
                  (*cell)(zeros({2, kIn}));
                }),
                AllOf(HasSubstr("f32[2,3]"), HasSubstr("f32[4]"), HasSubstr("init_all_states")));
}

}  // namespace
}  // namespace etrace
