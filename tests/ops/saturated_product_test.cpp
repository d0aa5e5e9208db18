// Products with spikes of neurons that fire nearly always, or in most samples: each number is one chain of
// fused multiply-adds in the order of k, whatever else is in the operand and however many rows it has. So a
// step has the bits of a window, and a silent neuron has no part in a sum, however large its weights.
#include <cmath>

#include "etrace/ops/linalg.h"
#include "etrace/ops/shape.h"
#include "runtime/thread_pool.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

Array product(const Array& a, const Array& b) { return dot_general(a, b, {{1}, {0}, {}, {}}); }

TEST(SaturatedProduct, ASilentNeuronHasNoPart) {
  constexpr std::int64_t kNeurons = 64;
  for (const std::int64_t rows : {1, 2, 15, 16, 32, 128})
    for (const double large : {1e3, 1e5, 1e7, 1e9, 1e30}) {
      std::vector<float> x(static_cast<std::size_t>(rows * kNeurons), 1.0F),
          w(static_cast<std::size_t>(kNeurons * kNeurons), 0.1F);
      for (std::int64_t r = 0; r < rows; ++r) x[static_cast<std::size_t>(r * kNeurons + kNeurons - 1)] = 0.0F;
      for (std::int64_t j = 0; j < kNeurons; ++j)
        w[static_cast<std::size_t>((kNeurons - 1) * kNeurons + j)] = static_cast<float>(large);
      const Tensor y = product(Tensor::of(x, {rows, kNeurons}), Tensor::of(w, {kNeurons, kNeurons})).tensor();
      for (const float each : y.data<float>()) ASSERT_NEAR(each, 6.3F, 1e-5F) << rows << " rows, " << large;
    }
}

// [rows, depth] of 0 and `height`, nine tenths set: by neuron, or by sample.
template <class T>
std::vector<T> saturated(std::int64_t rows, std::int64_t depth, bool by_neuron, double height) {
  Random r(5);
  std::vector<T> out;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t k = 0; k < depth; ++k) {
      const bool usual = (by_neuron ? k : i) % 10 != 0;
      out.push_back((r.uniform(0, 1) < 0.05) != usual ? static_cast<T>(height) : T(0));
    }
  return out;
}

template <class T>
void expect_chains(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool by_neuron) {
  Random r(7);
  const std::vector<T> a = saturated<T>(rows, depth, by_neuron, 0.75);
  std::vector<T> b;
  for (std::int64_t i = 0; i < depth * columns; ++i) b.push_back(static_cast<T>(r.uniform(-1, 1)));
  std::vector<T> chains;
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      T sum = 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum = std::fma(a[static_cast<std::size_t>(i * depth + k)],
                       b[static_cast<std::size_t>(k * columns + j)], sum);
      chains.push_back(sum);
    }
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    EXPECT_TRUE(product(Tensor::of(a, {rows, depth}), Tensor::of(b, {depth, columns})).tensor() ==
                Tensor::of(chains, {rows, columns}))
        << rows << " × " << columns << " × " << depth << ", " << threads << " threads";
  }
  set_num_threads(1);
}

TEST(SaturatedProduct, IsOneChainPerNumber) {
  for (const bool by_neuron : {false, true})
    for (const std::int64_t rows : {1, 3, 16, 100}) {
      expect_chains<float>(rows, 130, 200, by_neuron);
      expect_chains<double>(rows, 130, 97, by_neuron);
    }
}

TEST(SaturatedProduct, AStepHasTheBitsOfAWindow) {
  constexpr std::int64_t kSteps = 8, kBatch = 4, kDepth = 128, kColumns = 96;
  const Array window =
      Tensor::of(saturated<float>(kSteps * kBatch, kDepth, true, 1.0), {kSteps * kBatch, kDepth});
  const Array weight = Random(3).tensor({Dtype::F32, {kDepth, kColumns}});
  const Array whole = product(window, weight);
  for (std::int64_t t = 0; t < kSteps; ++t)
    EXPECT_TRUE(product(slice_axis(window, 0, t * kBatch, (t + 1) * kBatch), weight).tensor() ==
                slice_axis(whole, 0, t * kBatch, (t + 1) * kBatch).tensor())
        << "step " << t;
}

}  // namespace
}  // namespace etrace::testing
