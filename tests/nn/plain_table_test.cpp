// Modules without parameters, one row each, behind leaky units h ← 0.7·h + W·x: D-RTRL is exact for W,
// whatever the module does with h within a step. Batches, element types, errors. What each computes:
// activations_test, shapes_test, modes_test.
#include <gmock/gmock.h>

#include "etrace/nn.h"
#include "nn/gradients.h"
#include "support/errors.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using testing::Batch;

struct PlainRow {
  std::string name;
  std::function<std::shared_ptr<Module>()> make;
  Shape in = {6}, out = {6};  // of a sample
  bool any_shape = true;
  bool random = false;
};

template <class M, class... Args>
std::function<std::shared_ptr<Module>()> plain(Args... args) {
  return [=] { return std::static_pointer_cast<Module>(std::make_shared<M>(args...)); };
}

std::vector<PlainRow> plain_rows() {
  using namespace nn;
  const Shape line{6, 2}, plane{4, 4, 2}, space{4, 2, 2, 2};
  return {
      {"Identity", plain<Identity>()},
      {"Lambda", plain<Lambda>("softplus")},
      {"CELU", plain<CELU>(0.7)},
      {"ELU", plain<ELU>(1.3)},
      {"GELU", plain<GELU>()},
      {"GELU, exact", plain<GELU>(false)},
      {"GLU", plain<GLU>(), {6}, {3}},
      {"HardShrink", plain<HardShrink>()},
      {"HardSigmoid", plain<HardSigmoid>()},
      {"HardSiLU", plain<HardSiLU>()},
      {"HardTanh", plain<HardTanh>()},
      {"LeakyReLU", plain<LeakyReLU>(0.2)},
      {"LogSigmoid", plain<LogSigmoid>()},
      {"LogSoftmax", plain<LogSoftmax>()},
      {"Mish", plain<Mish>()},
      {"ReLU", plain<ReLU>()},
      {"ReLU6", plain<ReLU6>()},
      {"SELU", plain<SELU>()},
      {"Sigmoid", plain<Sigmoid>()},
      {"SiLU", plain<SiLU>()},
      {"Softmax", plain<Softmax>()},
      {"Softmin", plain<Softmin>()},
      {"Softplus", plain<Softplus>()},
      {"SoftShrink", plain<SoftShrink>(0.1)},
      {"SoftSign", plain<SoftSign>()},
      {"Tanh", plain<Tanh>()},
      {"TanhShrink", plain<TanhShrink>()},
      {"Threshold", plain<Threshold>(0.1, 0.5)},
      {"AvgPool1d", plain<AvgPool1d>(Dims{2}), line, {3, 2}, false},
      {"AvgPool2d", plain<AvgPool2d>(Dims{2, 3}, PoolOptions{.strides = {2, 1}}), plane, {2, 2, 2}, false},
      {"AvgPool3d", plain<AvgPool3d>(Dims{2}), space, {2, 1, 1, 2}, false},
      {"MaxPool1d", plain<MaxPool1d>(Dims{3}, PoolOptions{.strides = {1}}), line, {4, 2}, false},
      {"MaxPool2d",
       plain<MaxPool2d>(Dims{2}, PoolOptions{.padding = {{1, 1}, {0, 0}}, .channel_first = true}),
       {2, 4, 4},
       {2, 3, 2},
       false},
      {"MaxPool3d", plain<MaxPool3d>(Dims{2}), space, {2, 1, 1, 2}, false},
      {"AdaptiveAvgPool1d", plain<AdaptiveAvgPool1d>(Dims{4}), line, {4, 2}, false},
      {"AdaptiveAvgPool2d", plain<AdaptiveAvgPool2d>(Dims{3, 1}), plane, {3, 1, 2}, false},
      {"AdaptiveAvgPool3d", plain<AdaptiveAvgPool3d>(Dims{3, 2, 1}), space, {3, 2, 1, 2}, false},
      {"AdaptiveMaxPool1d", plain<AdaptiveMaxPool1d>(Dims{4}), line, {4, 2}, false},
      {"AdaptiveMaxPool2d", plain<AdaptiveMaxPool2d>(Dims{3}, true), {2, 4, 4}, {2, 3, 3}, false},
      {"AdaptiveMaxPool3d", plain<AdaptiveMaxPool3d>(Dims{3, 1, 2}), space, {3, 1, 2, 2}, false},
      {"Flatten", plain<Flatten>(Shape{3, 2}), {3, 2}, {6}, false},
      {"Unflatten", plain<Unflatten>(Shape{3, 2}), {6}, {3, 2}, false},
      {"Dropout", plain<Dropout>(DropoutOptions{.keep = 0.7}), {6}, {6}, true, true},
  };
}

struct UnitsBefore : Module {
  UnitsBefore(const PlainRow& row, Dtype dtype)
      : in(child<nn::Linear>("in", 3, row.in.size(),
                             nn::LinearOptions{.bias_init = nn::init::normal(0.2), .dtype = dtype})),
        image(child<nn::Unflatten>("image", row.in)),
        h(hidden("h", {row.in.size()}, dtype)),
        then(row.make()) {
    share("then", *then);
  }
  Array update(const Array& x) override {
    const Array kept = 0.7 * h.value();
    h.set(kept + in(x));
    return (*then)(image(h.value()));
  }
  nn::Linear& in;
  nn::Unflatten& image;
  HiddenState& h;
  std::shared_ptr<Module> then;
};

TEST(PlainTable, GradientsAreExact) {
  for (const PlainRow& row : plain_rows())
    for (const Batch batch : {Batch(), Batch(2)}) {
      if (!batch && row.any_shape) continue;  // one axis more is no other case
      SCOPED_TRACE(row.name + (batch ? " with a batch" : ""));
      UnitsBefore net(row, Dtype::F64);
      testing::expect_exact_gradients(net, {.in = {3}, .batch = batch, .low = -2.0, .high = 2.0});
    }
}

TEST(PlainTable, ABatchIsItsRows) {
  for (const PlainRow& row : plain_rows())
    for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
      SCOPED_TRACE(row.name);
      const auto module = row.make();
      const Array x = convert(squeeze(testing::draw_inputs({.in = row.in, .batch = 3}, 1), {0}), dtype);
      const Array y = (*module)(x);
      EXPECT_EQ(y.aval(), (Aval{dtype, row.out.with_front(3)}));
      for (std::int64_t b = 0; !row.random && b < 3; ++b)
        EXPECT_EQ(testing::difference((*module)(dynamic_index(x, b)).tensor(), dynamic_index(y, b).tensor(),
                                      dtype == Dtype::F64 ? 1e-13 : 1e-5),
                  std::nullopt);
    }
}

TEST(PlainTable, WrongShapesAreNamed) {
  for (const PlainRow& row : plain_rows()) {
    if (row.any_shape) continue;
    SCOPED_TRACE(row.name);
    const auto module = row.make();
    EXPECT_THAT(testing::message_of<ValueError>([&] { (*module)(zeros({7})); }),
                ::testing::AllOf(::testing::HasSubstr("f32[7]"), ::testing::HasSubstr("expected")));
  }
}

}  // namespace
}  // namespace etrace
