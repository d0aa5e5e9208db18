// Five layers of different kinds in one network: it explains, verifies and trains.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/nn.h"
#include "etrace/random.h"
#include "etrace/summary.h"
#include "etrace/verify.h"

namespace etrace {
namespace {

// Convolution, normalisation, spiking image, spiking layer, readout.
struct MixedNet : Module {
  explicit MixedNet(Dtype dtype)
      : norm(child<nn::GroupNorm>("norm", Shape{6, 6, 1}, nn::GroupNormOptions{.groups = 1, .dtype = dtype})),
        conv(child<nn::Conv2d>("conv", Shape{6, 6, 1}, 3, Dims{3},
                               nn::ConvLayerOptions{.bias_init = nn::init::zeros(), .dtype = dtype})),
        image(child<nn::LIF>("image", nn::Size{6, 6, 3}, nn::LIFOptions{.R = 4.0, .dtype = dtype})),
        hidden_layer(child<nn::LIFLayer>(
            "hidden_layer", 27, 12, nn::LIFLayerOptions{.neuron = {.dtype = dtype}, .input_scale = 2.0})),
        out(child<nn::LeakyRateReadout>("out", 12, 2,
                                        nn::LeakyRateReadoutOptions{.tau = 10.0, .dtype = dtype})) {}
  Array update(const Array& x) override {
    const Array pooled = pool(image(conv(norm(x))));
    return out(hidden_layer(flat(pooled)));
  }
  nn::GroupNorm& norm;
  nn::Conv2d& conv;
  nn::LIF& image;
  nn::AvgPool2d& pool = child<nn::AvgPool2d>("pool", Dims{2});
  nn::Flatten& flat = child<nn::Flatten>("flat", Shape{3, 3, 3});
  nn::LIFLayer& hidden_layer;
  nn::LeakyRateReadout& out;
};

// A bright left or right half, noisy.
struct Halves {
  Array x, y;
};
Halves halves(std::uint64_t seed, std::int64_t steps, std::int64_t batch, Dtype dtype) {
  const Array side = random::randint(random::key(seed), {batch}, 0, 2);
  const Array column = iota(Dtype::I32, {steps, batch, 6, 6, 1}, 3);
  const Array right = convert(greater(column, 2), Dtype::I32);
  const Array bright = equal_to(right, broadcast_in_dim(side, column.shape(), {1}));
  const Array noise = random::uniform(random::fold_in(random::key(seed), 1), column.shape(), dtype, 0.0, 0.5);
  return {convert(bright, dtype) + noise, broadcast_in_dim(side, {steps, batch}, {1})};
}

TEST(MixedNetwork, Explains) {
  MixedNet net(Dtype::F32);
  init_all_states(net, 2);
  const ETraceGraph graph = compile_etrace_graph(net, zeros({2, 6, 6, 1}));
  EXPECT_EQ(graph.hidden_groups.size(), 3U);
  std::vector<std::string> online;
  for (const HiddenParamOpRelation& r : graph.hidden_param_op_relations)
    online.push_back(to_string(r.path()));
  EXPECT_THAT(online, ::testing::IsSupersetOf({"conv/weight", "hidden_layer/syn/weight", "out/W"}));
  EXPECT_THAT(graph.explain(), ::testing::HasSubstr("conv/weight"));
  EXPECT_THAT(summary(net, zeros({2, 6, 6, 1})).to_string(), ::testing::HasSubstr("nn::GroupNorm"));
}

TEST(MixedNetwork, Verifies) {
  MixedNet net(Dtype::F64);
  init_all_states(net, 2);
  const Halves data = halves(1, 6, 2, Dtype::F64);
  const VerifyReport report =
      verify(net, D_RTRL(), data.x, data.y, loss::cross_entropy, {.windows = {2}, .lags = 0});
  EXPECT_TRUE(report.met()) << report.to_string();
  bool readout = false;
  for (const VerifyReport::Leaf& leaf : report.leaves)
    if (to_string(leaf.id) == "out/W") {
      readout = true;
      EXPECT_TRUE(leaf.alive);
      EXPECT_LT(leaf.measures.at(0).deviation, 1e-10);
    }
  EXPECT_TRUE(readout);
}

TEST(MixedNetwork, Trains) {
  MixedNet net(Dtype::F32);
  Learner learner = compile(net, D_RTRL(), zeros({8, 6, 6, 1}), {.batch_size = 8});
  optim::Adam adam(net, 1e-2);
  double first = 0.0, last = 0.0;
  for (std::uint64_t i = 0; i < 25; ++i) {
    const Halves data = halves(i, 8, 8, Dtype::F32);
    learner.reset_state();
    learner.reset_model_state();
    const SequenceGradient result = learner.etrace_grad(data.x, data.y, loss::cross_entropy);
    adam.update(result.grads);
    if (i < 3) first += result.loss / 3;
    if (i >= 22) last += result.loss / 3;
  }
  EXPECT_LT(last, 0.6 * first);
}

}  // namespace
}  // namespace etrace
