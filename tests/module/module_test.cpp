// The tree of modules: names, order, sharing, batches, calls.
#include "etrace/module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/error.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

std::vector<std::string> paths(const Module& module, StateKind kind = StateKind::Any) {
  std::vector<std::string> out;
  for (const StateEntry& entry : states(module, kind)) out.push_back(to_string(entry.path));
  return out;
}

struct Leaf : Module {
  explicit Leaf(double scale = 1.0) : factor(scale) {}
  HiddenState& h = hidden("h", {2});
  ParamState& w = param("w", zeros({2}));
  double factor;
  Array update(const Array& x) override { return x * factor; }
};

struct Mixed : Module {
  Leaf& zebra = child<Leaf>("zebra");
  ShortTermState& middle = short_term("middle", zeros({}));
  Leaf& apple = child<Leaf>("apple");
  LongTermState& mean = long_term("kept", zeros({2}));
};

TEST(Module, StatesByAscendingName) {
  const Mixed m;
  EXPECT_THAT(paths(m), ElementsAre("apple/h", "apple/w", "kept", "middle", "zebra/h", "zebra/w"));
  EXPECT_THAT(paths(m, StateKind::Hidden), ElementsAre("apple/h", "zebra/h"));
  EXPECT_THAT(paths(m, StateKind::Param), ElementsAre("apple/w", "zebra/w"));
  EXPECT_THAT(paths(m, StateKind::ShortTerm), ElementsAre("apple/h", "middle", "zebra/h"));
  EXPECT_THAT(paths(m, StateKind::LongTerm), ElementsAre("apple/w", "kept", "zebra/w"));
  EXPECT_EQ(find_state(m, {"apple", "w"}), &m.apple.w);
  EXPECT_EQ(find_state(m, {"apple"}), nullptr);
}

// The options of a layer in braces, behind its other arguments; as an object of any kind they pass as before.
TEST(Module, OptionsInBraces) {
  struct Net : Module {
    nn::Dropout& first = child<nn::Dropout>("first", {.seed = 3});
    nn::LIF& neurons = child<nn::LIF>("neurons", 4, {.V_rest = 0.25});
    nn::Linear& dense = child<nn::Linear>("dense", 3, 4, {.bias_init = {}});
    nn::LoRA& low = child<nn::LoRA>("low", 3, 2, 4, {.dtype = Dtype::F64});
    nn::LIF& image = child<nn::LIF>("image", nn::Size{2, 3}, {});
    const nn::LIFOptions fixed{.V_rest = 0.5};
    nn::LIFOptions own{.V_rest = 0.75};
    nn::LIF& of_fixed = child<nn::LIF>("of_fixed", 1, fixed);
    nn::LIF& of_own = child<nn::LIF>("of_own", 1, own);
  } net;
  const auto start = [](const nn::LIF& l) { return l.V.value().tensor().to_doubles()[0]; };
  EXPECT_EQ(start(net.neurons), 0.25);
  EXPECT_EQ(start(net.of_fixed), 0.5);
  EXPECT_EQ(start(net.of_own), 0.75);
  EXPECT_FALSE(net.dense.weight.has_leaf("bias"));
  EXPECT_EQ(net.low.weight.avals()[0].dtype, Dtype::F64);
  EXPECT_EQ(net.image.size(), (Shape{2, 3}));
  Sequential layers;
  EXPECT_EQ(start(layers.add<nn::LIF>(2, {.V_rest = 0.125})), 0.125);
  nn::Parallel branches;
  EXPECT_FALSE(branches.add<nn::Linear>(3, 4, {.bias_init = {}}).weight.has_leaf("bias"));
}

TEST(Module, ListsHaveIntegerPaths) {
  Sequential net;
  net.add<Leaf>(2.0);
  net.add<Leaf>(3.0);
  const auto all = states(net, StateKind::Hidden);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].path, (StatePath{"layers", std::int64_t{1}, "h"}));
  EXPECT_EQ(net(Array(ones({2}))).tensor().to_doubles(), (std::vector<double>{6, 6}));
  EXPECT_THROW(net.layers[2], ValueError);
}

TEST(Module, ElementsOfAListAreOrderedByNumber) {
  ModuleList list;
  for (int i = 0; i < 11; ++i) list.add<Leaf>();
  const auto all = states(list, StateKind::Hidden);
  EXPECT_EQ(all[2].path[0], PathPart(std::int64_t{2}));
  EXPECT_EQ(all[10].path[0], PathPart(std::int64_t{10}));
}

TEST(Module, SharedModulesAppearOnce) {
  struct Tied : Module {
    Leaf& second = child<Leaf>("second");
    Leaf& first = share("first", second);
  };
  const Tied m;
  EXPECT_EQ(&m.first, &m.second);
  EXPECT_THAT(paths(m), ElementsAre("first/h", "first/w"));

  struct TiedWeight : Module {
    Leaf& leaf = child<Leaf>("leaf");
    ParamState& w = share("again", leaf.w);
  };
  const TiedWeight tied;
  EXPECT_EQ(&tied.w, &tied.leaf.w);
  EXPECT_THAT(paths(tied), ElementsAre("again", "leaf/h"));

  struct Stray : Module {
    explicit Stray(Leaf& leaf) { share("leaf", leaf); }
  };
  Leaf on_the_stack;
  EXPECT_THAT(message_of<ValueError>([&] { Stray{on_the_stack}; }), HasSubstr("child()"));
}

TEST(Module, NamesAreUnique) {
  struct Inner : Module {
    HiddenState& a = hidden("x", {1});
    ParamState& b = param("x", zeros({1}));
  };
  struct Outer : Module {
    Inner& inner = child<Inner>("inner");
  };
  EXPECT_THAT(message_of<CompilationError>([] { Outer{}; }),
              AllOf(HasSubstr("inner/x (HiddenState)"), HasSubstr("inner/x (ParamState)")));
  struct Empty : Module {
    HiddenState& a = hidden("", {1});
  };
  EXPECT_THROW(Empty{}, ValueError);
  struct Slash : Module {
    HiddenState& a = hidden("a/b", {1});
  };
  EXPECT_THROW(Slash{}, ValueError);
}

TEST(Module, BatchesAndResets) {
  Mixed m;
  init_all_states(m, 3);
  EXPECT_EQ(m.apple.h.value().shape(), (Shape{3, 2}));
  EXPECT_EQ(m.middle.value().shape(), (Shape{3}));
  EXPECT_EQ(m.mean.value().shape(), (Shape{2}));
  EXPECT_EQ(m.apple.w.value().shape(), (Shape{2}));
  m.apple.h.set(1.0);
  m.mean.set(1.0);
  reset_all_states(m);
  EXPECT_EQ(m.apple.h.value().tensor(), Tensor::zeros({Dtype::F32, {3, 2}}));
  EXPECT_EQ(m.mean.value().tensor().to_doubles()[0], 1.0);
  init_all_states(m);
  EXPECT_EQ(m.apple.h.value().shape(), (Shape{2}));
}

TEST(Module, CallsSayWhatIsMissing) {
  Mixed none;
  EXPECT_THAT(message_of<NotSupportedError>([&] { none(Array(1.0)); }), HasSubstr("update()"));
  Leaf one;
  EXPECT_THROW(one(Arrays{Array(1.0), Array(2.0)}), ValueError);
  struct Two : Module {
    Arrays update_all(ArraySpan x) override { return {x[0], x[0]}; }
  };
  Two two;
  EXPECT_EQ(two(Arrays{Array(1.0)}).size(), 2U);
  EXPECT_THAT(message_of<ValueError>([&] { two(Array(1.0)); }), HasSubstr("2 results"));
}

TEST(Module, EagerStepsMoveTheStates) {
  struct Counter : Module {
    HiddenState& n = hidden("n", {1}, Dtype::F64);
    Array update(const Array& x) override {
      n.set(n.value() + x);
      return n.value();
    }
  };
  Counter c;
  for (int i = 0; i < 3; ++i) c(full({1}, 2.0, Dtype::F64));
  EXPECT_EQ(c.n.value().item<double>(), 6.0);
}

}  // namespace
}  // namespace etrace
