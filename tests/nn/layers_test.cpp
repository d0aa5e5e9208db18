// Layers on their own: parameters, shapes, options, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/error.h"
#include "etrace/etp.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "support/errors.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

Array random_array(const Shape& shape, std::uint64_t seed = 5) {
  return random::normal(random::key(seed), shape, Dtype::F64);
}

TEST(Linear, ParametersAndValue) {
  nn::Linear layer(3, 2, {.bias_init = nn::init::constant(0.5), .dtype = Dtype::F64});
  EXPECT_THAT(layer.weight.leaf_keys(), ElementsAre("bias", "weight"));
  EXPECT_EQ(layer.weight.value("weight").shape(), (Shape{3, 2}));
  const Array x = random_array({3});
  const Array expected = matmul_plain(x, layer.weight.value("weight")) + 0.5;
  EXPECT_EQ(testing::difference(layer(x).tensor(), expected.tensor(), 1e-14), std::nullopt);
}

TEST(Linear, WithoutBias) {
  nn::Linear layer(3, 2, {.bias_init = {}});
  EXPECT_THAT(layer.weight.leaf_keys(), ElementsAre("weight"));
  EXPECT_EQ(layer(zeros({3})).tensor(), Tensor::zeros({Dtype::F32, {2}}));
}

TEST(Linear, LeadingAxesAreFolded) {
  nn::Linear layer(3, 2, {.dtype = Dtype::F64});
  const Array x = random_array({4, 5, 3});
  const Array y = layer(x);
  EXPECT_EQ(y.shape(), (Shape{4, 5, 2}));
  EXPECT_EQ(reshape(y, {-1, 2}).tensor(), layer(reshape(x, {-1, 3})).tensor());
}

TEST(Linear, MaskedWeightsDoNotCount) {
  nn::Linear layer(3, 2, {.mask = array({1, 0, 1}, Shape{3, 1}), .dtype = Dtype::F64});
  const Array y = layer(array({0, 7, 0}, Dtype::F64));
  EXPECT_THAT(y.tensor().to_doubles(), ElementsAre(0, 0));
  const Model model = trace_step(layer, random_array({3})).model;
  ASSERT_EQ(model.program.jaxpr.eqns.size(), 1U);
  EXPECT_TRUE(model.program.jaxpr.eqns[0].params.has("weight_fn"));
}

TEST(Linear, WrongSizesAreNamed) {
  nn::Linear layer(3, 2);
  EXPECT_THAT(message_of<ValueError>([&] { layer(zeros({4})); }),
              AllOf(HasSubstr("from 3 to 2"), HasSubstr("f32[4]")));
  EXPECT_THROW(layer(Array(1.0)), ValueError);
  EXPECT_THROW(nn::Linear(-1, 2), ValueError);
}

TEST(Linear, ValuesDependOnSeedAndPathOnly) {
  struct Net : Module {
    nn::Linear& a = child<nn::Linear>("a", 4, 4);
    nn::Linear& b = child<nn::Linear>("b", 4, 4);
    nn::Linear& c = child<nn::Linear>("c", 4, 4, nn::LinearOptions{.seed = 1});
  };
  struct Short : Module {
    nn::Linear& b = child<nn::Linear>("b", 4, 4);
    nn::Linear& c = child<nn::Linear>("c", 4, 4);
  };
  const Net net, again;
  const Short part;
  auto weight = [](const nn::Linear& l) { return l.weight.value("weight").tensor(); };
  EXPECT_EQ(weight(net.a), weight(again.a));
  EXPECT_FALSE(weight(net.a) == weight(net.b));
  EXPECT_EQ(weight(net.b), weight(part.b));
  EXPECT_FALSE(weight(net.c) == weight(part.c));
}

TEST(Cells, PathsAndGroupsOfEquations) {
  nn::GRUCell cell(3, 4);
  std::vector<std::string> found;
  for (const StateEntry& s : states(cell)) found.push_back(to_string(s.path));
  EXPECT_THAT(found, ElementsAre("Wh/weight", "Wr/weight", "Wz/weight", "h"));
  const Model model = trace_step(cell, zeros({3})).model;
  std::vector<std::string> names;
  for (const Eqn& e : model.program.jaxpr.eqns) names.emplace_back(e.prim->name());
  EXPECT_THAT(names, ElementsAre("concatenate", "etp_mv", "logistic", "etp_mv", "logistic", "mul",
                                 "concatenate", "etp_mv", "tanh", "sub", "mul", "mul", "add"));
  EXPECT_THAT(model.program.jaxpr.eqns[3].origin.module, ElementsAre("Wr"));
}

TEST(Cells, BatchMatchesRows) {
  nn::GRUCell gru(3, 4, {.dtype = Dtype::F64});
  nn::ValinaRNNCell rnn(3, 4, {.activation = tanh, .dtype = Dtype::F64});
  const Array x = random_array({2, 3});
  for (Module* cell : {static_cast<Module*>(&gru), static_cast<Module*>(&rnn)}) {
    init_all_states(*cell, 2);
    (*cell)(x);
    const Array batched = (*cell)(x * 0.5);
    for (std::int64_t b = 0; b < 2; ++b) {
      init_all_states(*cell);
      const Array row = squeeze(slice_axis(x, 0, b, b + 1), {0});
      (*cell)(row);
      const Array alone = (*cell)(row * 0.5);
      EXPECT_EQ(
          testing::difference(squeeze(slice_axis(batched, 0, b, b + 1), {0}).tensor(), alone.tensor(), 1e-14),
          std::nullopt);
    }
  }
}

TEST(Cells, MissingBatchIsExplained) {
  nn::GRUCell cell(3, 4);
  EXPECT_THAT(message_of<ValueError>([&] {
                cell(zeros({2, 3}));
              }),
              AllOf(HasSubstr("f32[2,3]"), HasSubstr("f32[4]"), HasSubstr("batch_size")));
  init_all_states(cell, 5);
  EXPECT_THROW(cell(zeros({2, 3})), ValueError);
}

}  // namespace
}  // namespace etrace
