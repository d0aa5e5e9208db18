// Layers without a state of their own, one row each: results by hand, shapes, batches, element types, errors,
// and gradients where the layer drives leaky units h ← 0.7 h + tanh(layer(x)), for which D-RTRL is exact.
#include <gmock/gmock.h>

#include "etrace/nn.h"
#include "nn/gradients.h"
#include "support/errors.h"
#include "support/numeric.h"

namespace etrace {
namespace {

using testing::Batch;
using Values = std::vector<double>;

enum class What {
  Map,
  Lookup,       // of whole numbers
  Convolution,  // without a batch, theory does not see that its gradient is exact
  Joined,       // parameters reach parts of the hidden state: not learned online
  OfBatches,    // samples of a batch act on each other; by hand: two samples
};

struct LayerRow {
  std::string name;
  std::function<std::shared_ptr<Module>(Dtype)> make;
  Shape in, out;                                       // of a sample
  std::vector<std::pair<std::string, Values>> params;  // by the text of their leaf
  Values x, y;                                         // by hand, with those parameters
  What what = What::Map;
};

template <class Layer, class... Args>
std::function<std::shared_ptr<Module>(Dtype)> made(Args... args) {
  return [=](Dtype dtype) {
    auto all = std::tuple(args...);
    return std::apply(
        [&](auto&... a) {
          const auto set_type = [&](auto& option) {
            if constexpr (requires { option.dtype = dtype; }) option.dtype = dtype;
          };
          (set_type(a), ...);
          return std::static_pointer_cast<Module>(std::make_shared<Layer>(a...));
        },
        all);
  };
}

const nn::Initializer kSome = nn::init::normal(0.5);
const double kRoot = std::sqrt(0.5);

SparsePattern some_pattern() { return SparsePattern::coo(3, 2, {0, 1, 2, 2}, {1, 0, 0, 1}); }

struct LoRABeside : nn::LoRA {
  explicit LoRABeside(const nn::LoRAOptions& o) : LoRA(3, 2, 2, o) {
    base<nn::Linear>(3, 2, nn::LinearOptions{.bias_init = kSome, .dtype = o.dtype});
  }
};
struct ResidualLinear : nn::Residual {
  explicit ResidualLinear(const nn::LinearOptions& o) { add<nn::Linear>(2, 2, o); }
};
template <nn::Joined kHow>
struct TwoBranches : nn::Parallel {
  explicit TwoBranches(const nn::LinearOptions& o) : Parallel(kHow) {
    add<nn::Linear>(2, 2, o);
    add<nn::OneToOne>(2, nn::OneToOneOptions{.dtype = o.dtype});
  }
};
std::vector<LayerRow> layer_rows() {
  using namespace nn;
  const Values w32{1, 2, 3, 4, 5, 6};
  return {
      {"Linear",
       made<Linear>(3, 2, LinearOptions{.bias_init = kSome}),
       {3},
       {2},
       {{"weight.weight", w32}, {"weight.bias", {0.5, -0.5}}},
       {1, 0, -2},
       {-8.5, -10.5}},
      {"Linear with mask",
       made<Linear>(3, 2, LinearOptions{.mask = array({1, 0, 1}, Shape{3, 1})}),
       {3},
       {2},
       {{"weight.weight", w32}, {"weight.bias", {0, 0}}},
       {1, 7, -2},
       {-9, -10}},
      {"SignedWLinear",
       made<SignedWLinear>(3, 2, SignedWLinearOptions{.sign = array({1, 1, -1}, Shape{3, 1})}),
       {3},
       {2},
       {{"weight", {1, -2, 3, 4, -5, 6}}},
       {1, 1, 1},
       {-1, 0}},
      {"ScaledWSLinear",
       made<ScaledWSLinear>(3, 2, ScaledWSLinearOptions{.bias_init = kSome}),
       {3},
       {2},
       {{"weight.weight", {1, 2, 3, -1, 2, 0}}, {"weight.gain", {2, 1}}, {"weight.bias", {0, 1}}},
       {1, 1, -1},
       {2 * (-kRoot + kRoot), 1 + 0.7715167498104596 - 0.6172133998483676 + 0.15430334996209192}},
      {"SparseLinear",
       made<SparseLinear>(some_pattern(), SparseLinearOptions{.bias_init = kSome}),
       {3},
       {2},
       {{"weight.weight", {1, 2, 3, 4}}, {"weight.bias", {0.5, 0}}},
       {1, 2, 3},
       {4 + 9 + 0.5, 1 + 12}},
      {"LoRA",
       made<LoRA>(3, 2, 2, LoRAOptions{}),
       {3},
       {2},
       {{"weight.lora_a", w32}, {"weight.lora_b", {1, 0, -1, 2}}},
       {1, 1, 0},
       {-1, 6}},
      {"LoRA beside a Linear",
       made<LoRABeside>(LoRAOptions{}),
       {3},
       {2},
       {{"weight.lora_a", w32},
        {"weight.lora_b", {1, 0, -1, 2}},
        {"base_module/weight.weight", w32},
        {"base_module/weight.bias", {1, 1}}},
       {1, 1, 0},
       {-1 + 4 + 1, 6 + 6 + 1}},
      {"GroupedLinear",
       made<GroupedLinear>(2, 2, 1, GroupedLinearOptions{.bias_init = kSome}),
       {2, 2},
       {2, 1},
       {{"weight.weight", {1, 2, 3, 4}}, {"weight.bias", {0, 1}}},
       {1, 1, 2, -1},
       {3, 3}},
      {"AllToAll",
       made<AllToAll>(3, 2, AllToAllOptions{.bias_init = kSome, .include_self = false}),
       {3},
       {2},
       {{"weight.weight", w32}, {"weight.bias", {0, 1}}},
       {1, 1, 1},
       {8, 9}},
      {"AllToAll with one weight",
       made<AllToAll>(3, 3, AllToAllOptions{.bias_init = kSome, .include_self = false, .one_weight = true}),
       {3},
       {3},
       {{"weight.weight", {2}}, {"weight.bias", {0, 0, 1}}},
       {1, 2, 3},
       {10, 8, 7}},
      {"OneToOne",
       made<OneToOne>(3, OneToOneOptions{.bias_init = kSome}),
       {3},
       {3},
       {{"weight.weight", {1, 2, 3}}, {"weight.bias", {1, 0, 0}}},
       {1, -1, 2},
       {2, -2, 6}},
      {"Embedding",
       made<Embedding>(3, 2, EmbeddingOptions{}),
       {},
       {2},
       {{"weight", w32}},
       {1},
       {3, 4},
       What::Lookup},
      {"Conv1d",
       made<Conv1d>(Shape{3, 1}, 1, Dims{3}, ConvLayerOptions{.bias_init = kSome}),
       {3, 1},
       {3, 1},
       {{"weight.weight", {0.5, -1, 0.25}}, {"weight.bias", {1}}},
       {1, 2, -1},
       {0.5, -0.75, 3},
       What::Convolution},
      {"Conv1d, strides, dilation, padding",
       made<Conv1d>(Shape{5, 1}, 1, Dims{2},
                    ConvLayerOptions{.strides = {2}, .padding = Padding::Pairs{{1, 0}}, .dilation = {2}}),
       {5, 1},
       {2, 1},
       {{"weight.weight", {1, 10}}},
       {1, 2, 3, 4, 5},
       {20, 42},
       What::Convolution},
      {"Conv1d, groups, channels first",
       made<Conv1d>(Shape{2, 2}, 2, Dims{1},
                    ConvLayerOptions{.groups = 2, .bias_init = kSome, .channel_first = true}),
       {2, 2},
       {2, 2},
       {{"weight.weight", {2, 3}}, {"weight.bias", {0, 1}}},
       {1, 2, 3, 4},
       {2, 4, 10, 13},
       What::Convolution},
      {"Conv2d",
       made<Conv2d>(Shape{2, 2, 1}, 1, Dims{2, 2}, ConvLayerOptions{.padding = "VALID"}),
       {2, 2, 1},
       {1, 1, 1},
       {{"weight.weight", {1, 2, 3, 4}}},
       {1, 0, 1, 1},
       {8},
       What::Convolution},
      {"Conv2d, its own layout, standardised",
       made<Conv2d>(
           Shape{1, 2, 2}, 1, Dims{1, 2},
           ConvLayerOptions{.padding = "VALID", .standardize = true, .layout = {"NCHW", "OIHW", "NHWC"}}),
       {1, 2, 2},
       {2, 1, 1},
       {{"weight.weight", {1, 3}}},
       {1, 2, 4, 4},
       {kRoot, 0},
       What::Convolution},
      {"Conv3d",
       made<Conv3d>(Shape{1, 1, 2, 1}, 2, Dims{1, 1, 2}, ConvLayerOptions{.padding = 0}),
       {1, 1, 2, 1},
       {1, 1, 1, 2},
       {{"weight.weight", {1, 2, 3, 4}}},
       {1, 10},
       {31, 42},
       What::Convolution},
      {"LayerNorm",
       made<LayerNorm>(Shape{2, 2}, NormOptions{.epsilon = 0.0}),
       {2, 2},
       {2, 2},
       {{"weight.scale", {1, 2}}, {"weight.bias", {0, 1}}},
       {1, 3, -2, 2},
       {-1, 3, -1, 3}},
      {"RMSNorm",
       made<RMSNorm>(2, NormOptions{.epsilon = 0.0}),
       {2},
       {2},
       {{"weight.scale", {1, 2}}},
       {1, 7},
       {0.2, 2.8}},
      {"GroupNorm",
       made<GroupNorm>(Shape{2, 2}, GroupNormOptions{.groups = 2, .epsilon = 0.0}),
       {2, 2},
       {2, 2},
       {{"weight.scale", {1, 2}}, {"weight.bias", {0, 1}}},
       {1, 4, 3, 8},
       {-1, -1, 1, 3}},
      {"GroupNorm, channels first",
       made<GroupNorm>(Shape{2, 2}, GroupNormOptions{.groups = 1, .epsilon = 0.0, .channel_first = true}),
       {2, 2},
       {2, 2},
       {{"weight.scale", {1, 2}}, {"weight.bias", {0, 1}}},
       {1, 1, 3, 3},
       {-1, -1, 3, 3}},
      {"BatchNorm",
       made<BatchNorm>(Shape{2}, BatchNormOptions{.epsilon = 0.0}),
       {2},
       {2},
       {{"weight.scale", {1, 2}}, {"weight.bias", {0, 1}}},
       {1, 4, 3, 8},
       {-1, -1, 1, 3},
       What::OfBatches},
      {"BatchNorm, channels first",
       made<BatchNorm>(Shape{2, 1}, BatchNormOptions{.epsilon = 0.0, .channel_first = true}),
       {2, 1},
       {2, 1},
       {{"weight.scale", {1, 2}}, {"weight.bias", {0, 1}}},
       {1, 4, 3, 8},
       {-1, -1, 1, 3},
       What::OfBatches},
      {"PReLU",
       made<PReLU>(Shape{2, 2}, PReLUOptions{}),
       {2, 2},
       {2, 2},
       {{"slope", {0.5}}},
       {1, -2, -4, 3},
       {1, -1, -2, 3}},
      {"Residual",
       made<ResidualLinear>(LinearOptions{}),
       {2},
       {2},
       {{"layers/0/weight.weight", {1, 2, 3, 4}}, {"layers/0/weight.bias", {0, 0}}},
       {1, 1},
       {5, 7}},
      {"Parallel, sum",
       made<TwoBranches<Joined::Sum>>(LinearOptions{}),
       {2},
       {2},
       {{"branches/0/weight.weight", {1, 2, 3, 4}},
        {"branches/0/weight.bias", {0, 0}},
        {"branches/1/weight.weight", {10, 20}}},
       {1, 1},
       {14, 26}},
      {"Parallel, joined",
       made<TwoBranches<Joined::Concatenated>>(LinearOptions{}),
       {2},
       {4},
       {{"branches/0/weight.weight", {1, 2, 3, 4}},
        {"branches/0/weight.bias", {0, 0}},
        {"branches/1/weight.weight", {10, 20}}},
       {1, 1},
       {4, 6, 10, 20},
       What::Joined},
  };
}

void set_leaf(Module& module, const std::string& name, const Values& values) {
  ParamValues all = param_values(module);
  for (std::size_t i = 0; i < all.leaves.size(); ++i)
    if (to_string(all.leaves[i]) == name) {
      const Aval type = all.values[i].aval();
      all.values[i] = array(values, type.shape, type.dtype);
      set_param_values(module, all);
      return;
    }
  ADD_FAILURE() << "there is no parameter " << name;
}

TEST(LayerTable, ByHand) {
  for (const LayerRow& row : layer_rows()) {
    SCOPED_TRACE(row.name);
    const auto layer = row.make(Dtype::F64);
    for (const auto& [name, values] : row.params) set_leaf(*layer, name, values);
    EXPECT_EQ(row.params.size(), param_leaf_ids(*layer).size()) << "a parameter has no value by hand";
    const Batch samples = row.what == What::OfBatches ? Batch(2) : Batch();
    const Array x = array(row.x, testing::with_batch(row.in, samples),
                          row.what == What::Lookup ? Dtype::I32 : Dtype::F64);
    const Array y = array(row.y, testing::with_batch(row.out, samples), Dtype::F64);
    EXPECT_EQ(testing::difference((*layer)(x).tensor(), y.tensor(), 1e-12), std::nullopt);
  }
}

TEST(LayerTable, ABatchIsItsRows) {
  for (const LayerRow& row : layer_rows())
    for (const Dtype dtype : {Dtype::F32, Dtype::F64}) {
      SCOPED_TRACE(row.name);
      const auto layer = row.make(dtype);
      Array x = testing::draw_inputs({.in = row.in, .batch = 3, .indices = row.what == What::Lookup}, 1);
      x = squeeze(row.what == What::Lookup ? x : convert(x, dtype), {0});
      const Array y = (*layer)(x);
      EXPECT_EQ(y.dtype(), dtype);
      ASSERT_EQ(y.shape(), row.out.with_front(3));
      if (row.what == What::OfBatches) continue;
      for (std::int64_t b = 0; b < 3; ++b)
        EXPECT_EQ(testing::difference((*layer)(dynamic_index(x, b)).tensor(), dynamic_index(y, b).tensor(),
                                      dtype == Dtype::F64 ? 1e-13 : 1e-5),
                  std::nullopt);
    }
}

TEST(LayerTable, WrongShapesAreNamed) {
  using ::testing::AllOf;
  using ::testing::HasSubstr;
  for (const LayerRow& row : layer_rows()) {
    if (row.what == What::Lookup) continue;  // any shape of indices is fine
    SCOPED_TRACE(row.name);
    const auto layer = row.make(Dtype::F32);
    const Shape wrong = row.in.with(row.in.rank() - 1, row.in.back() + 4);
    EXPECT_THAT(testing::message_of<ValueError>([&] { (*layer)(zeros(wrong)); }),
                AllOf(HasSubstr("f32" + to_string(wrong)), HasSubstr("expected")));
    EXPECT_THROW((*layer)(zeros({})), ValueError);
  }
}

struct LeakyUnits : Module {
  LeakyUnits(std::shared_ptr<Module> l, const Shape& out)
      : layer(child<Holder>("layer", std::move(l))), h(hidden("h", out, Dtype::F64)) {}
  Array update(const Array& x) override {
    const Array y = layer(x);
    const Array kept = 0.7 * h.value();
    h.set(kept + tanh(y));
    return h.value();
  }
  struct Holder : Module {
    explicit Holder(std::shared_ptr<Module> l) : inner(std::move(l)) { share("inner", *inner); }
    Array update(const Array& x) override { return (*inner)(x); }
    std::shared_ptr<Module> inner;
  };
  Holder& layer;
  HiddenState& h;
};

TEST(LayerTable, GradientsAreExact) {
  for (const LayerRow& row : layer_rows()) {
    if (row.what == What::Joined) continue;
    for (const Batch batch : {Batch(), Batch(3)}) {
      if (row.what == What::OfBatches && !batch) continue;
      SCOPED_TRACE(row.name + (batch ? " with a batch" : ""));
      LeakyUnits units(row.make(Dtype::F64), row.out);
      testing::expect_exact_gradients(units, {.in = row.in,
                                              .batch = batch,
                                              .must_be_known = batch || row.what != What::Convolution,
                                              .indices = row.what == What::Lookup});
    }
  }
}

}  // namespace
}  // namespace etrace
