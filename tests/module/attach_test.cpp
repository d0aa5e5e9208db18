// Trees that are put together from outside: places, replacement and removal, and initial values by place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/error.h"
#include "etrace/module.h"
#include "etrace/nn.h"
#include "etrace/ops/numpy.h"
#include "etrace/param_values.h"
#include "etrace/random.h"
#include "support/errors.h"

namespace etrace::attach_test {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

struct Node : Module {
  Array update(const Array& x) override { return x * 2.0; }
};
struct Leaf : Module {
  HiddenState& h = hidden("h", {2});
  Array update(const Array& x) override {
    h.set(h.value() + x);
    return h.value();
  }
};

std::vector<std::string> paths(const Module& module) {
  std::vector<std::string> out;
  for (const StateEntry& entry : states(module)) out.push_back(to_string(entry.path));
  return out;
}
std::shared_ptr<nn::Linear> linear() { return std::make_shared<nn::Linear>(3, 3); }
std::vector<double> weights(const nn::Linear& l) { return l.weight.value("weight").tensor().to_doubles(); }

TEST(Attach, GivesThePathsOfMembersThatWereMade) {
  Node root;
  const auto middle = std::make_shared<Node>();
  root.attach("middle", middle);
  middle->attach("leaf", std::make_shared<Leaf>());
  middle->attach("w", std::make_shared<ParamState>(zeros({2})));
  EXPECT_THAT(paths(root), ElementsAre("middle/leaf/h", "middle/w"));
  EXPECT_THAT(middle->members()[0].module->place(), ElementsAre("middle", "leaf"));
  EXPECT_EQ(middle->members()[1].state->name_in_owner(), "w");
}

TEST(Attach, EquationsCarryThePlace) {
  struct Net : Module {
    std::shared_ptr<Leaf> leaf = std::make_shared<Leaf>();
    std::shared_ptr<ModuleDict> parts = std::make_shared<ModuleDict>();
    Net() {
      parts->attach("first", leaf);
      attach("parts", parts);
    }
    Array update(const Array& x) override { return (*leaf)(x); }
  } net;
  const TracedStep step = trace_step(net, Array(ones({2})));
  EXPECT_EQ(to_string(step.model.program.jaxpr.eqns.at(0).origin), "parts.first");
}

TEST(Attach, WhoIsAttachedTwiceKeepsItsFirstPlace) {
  Node root;
  const auto leaf = linear();
  root.attach("b", leaf);
  root.attach("a", leaf);
  EXPECT_THAT(leaf->place(), ElementsAre("b"));
  EXPECT_THAT(paths(root), ElementsAre("a/weight"));  // the walk goes by ascending name
  root.detach("b");
  EXPECT_THAT(paths(root), ElementsAre("a/weight"));
  Node other;
  other.attach("new", leaf);
  EXPECT_THAT(leaf->place(), ElementsAre("new"));
}

TEST(Attach, ReplacesAndTakesAway) {
  Node root;
  root.attach("x", std::make_shared<Leaf>());
  root.replace("x", std::make_shared<ParamState>(zeros({1})));
  EXPECT_THAT(paths(root), ElementsAre("x"));
  root.replace("y", std::make_shared<Leaf>());
  EXPECT_THAT(paths(root), ElementsAre("x", "y/h"));
  root.detach("x");
  EXPECT_THAT(paths(root), ElementsAre("y/h"));
  ModuleList list;
  list.append(linear());
  list.append(linear());
  const auto other = linear();
  list.replace(std::int64_t{0}, other);
  EXPECT_EQ(&list[0], other.get());
  EXPECT_THAT(message_of<ValueError>([&] { list.detach(std::int64_t{0}); }), HasSubstr("only the last"));
  list.detach(std::int64_t{1});
  EXPECT_EQ(list.size(), 1U);
}

// A recording gives all states that it has met their values back, so they must still be there.
TEST(Attach, ARecordedStepKeepsItsMembers) {
  struct Root : Node {
    std::shared_ptr<HiddenState> other = std::make_shared<HiddenState>(zeros({2}));
    Array update(const Array& x) override {
      replace("x", other);
      return x;
    }
  } root;
  root.attach("x", std::make_shared<HiddenState>(zeros({2})));
  EXPECT_THAT(message_of<ValueError>([&] { trace_step(root, Array(ones({2}))); }),
              HasSubstr("x cannot be replaced or taken away while a step is recorded"));
  root.detach("x");
}

TEST(Attach, RefusesByName) {
  struct Made : Module {
    Leaf& leaf = child<Leaf>("leaf");
  } made;
  EXPECT_THAT(message_of<NotSupportedError>([&] { made.detach("leaf"); }),
              AllOf(HasSubstr("leaf"), HasSubstr("part of its module")));
  EXPECT_THAT(message_of<NotSupportedError>([&] { made.replace("leaf", std::make_shared<Leaf>()); }),
              HasSubstr("part of its module"));
  EXPECT_THAT(message_of<CompilationError>([&] { made.attach("leaf", std::make_shared<Leaf>()); }),
              HasSubstr("is taken"));
  EXPECT_THAT(message_of<ValueError>([&] { made.detach("gone"); }),
              AllOf(HasSubstr("gone"), HasSubstr("leaf")));
  EXPECT_THAT(message_of<ValueError>([&] { made.attach("a/b", std::make_shared<Leaf>()); }),
              HasSubstr("'/'"));
  EXPECT_THAT(message_of<ValueError>([&] { made.attach("x", std::shared_ptr<Module>()); }),
              HasSubstr("nothing was given"));
  const auto outer = std::make_shared<Node>(), inner = std::make_shared<Node>();
  outer->attach("inner", inner);
  EXPECT_THAT(message_of<ValueError>([&] { inner->attach("outer", outer); }), HasSubstr("hold itself"));
  EXPECT_THAT(message_of<ValueError>([&] { inner->attach("me", inner); }), HasSubstr("hold itself"));
  ModuleList list;
  EXPECT_THAT(message_of<ValueError>([&] { list.attach("x", std::make_shared<Leaf>()); }),
              HasSubstr("a list of 0 modules"));
  EXPECT_THAT(message_of<ValueError>([&] { list.attach(std::int64_t{1}, std::make_shared<Leaf>()); }),
              HasSubstr("expected a module at 0"));
  ModuleDict dict;
  EXPECT_THAT(message_of<ValueError>([&] { dict.attach("x", std::make_shared<ParamState>(zeros({1}))); }),
              HasSubstr("a dictionary of modules"));
}

// What cannot be attached leaves everything as it was.
TEST(Attach, ReplacementThatIsRefusedChangesNothing) {
  const auto root = std::make_shared<Node>();
  root->attach("x", std::make_shared<Leaf>());
  EXPECT_THROW(root->replace("x", root), ValueError);
  EXPECT_THAT(paths(*root), ElementsAre("x/h"));
}

TEST(Attach, TheModeIsThatOfTheTree) {
  Node root;
  const auto leaf = std::make_shared<Leaf>();
  root.attach("leaf", leaf);
  root.eval();
  EXPECT_FALSE(leaf->is_training());
  root.detach("leaf");
  EXPECT_FALSE(leaf->is_training());
  root.train();
  EXPECT_FALSE(leaf->is_training());
}

// Initial values by place -----------------------------------------------------------------------------------
struct Twin : Module {
  nn::GRUCell& rnn = child<nn::GRUCell>("rnn", 3, 4);
  Sequential& more = child<Sequential>("more");
  Twin() {
    more.add<nn::Linear>(4, 4);
    more.add<nn::Linear>(4, 4);
  }
};

void expect_same_values(const Module& a, const Module& b) {
  const ParamValues x = param_values(a), y = param_values(b);
  ASSERT_EQ(x.leaves, y.leaves);
  for (std::size_t i = 0; i < x.values.size(); ++i)
    EXPECT_EQ(x.values[i].tensor(), y.values[i].tensor()) << to_string(x.leaves[i]);
}

// In whatever order the tree is put together, from the leaves or from the root.
TEST(InitialValues, FollowFromThePathAlone) {
  const Twin made;
  Node bottom_up, top_down;
  for (const bool up : {true, false}) {
    Node& root = up ? bottom_up : top_down;
    const auto more = std::make_shared<Node>();
    const auto layers = std::make_shared<ModuleList>();
    const auto fill = [&] {
      layers->append(std::make_shared<nn::Linear>(4, 4));
      layers->append(std::make_shared<nn::Linear>(4, 4));
    };
    if (up) fill();
    if (up) more->attach("layers", layers);
    root.attach("more", more);
    if (!up) more->attach("layers", layers);
    if (!up) fill();
    root.attach("rnn", std::make_shared<nn::GRUCell>(3, 4));
    expect_same_values(made, root);
  }
}

TEST(InitialValues, EqualLayersDiffer) {
  Node root;
  const auto a = linear(), b = linear();
  root.attach("a", a);
  root.attach("b", b);
  EXPECT_NE(weights(*a), weights(*b));
  struct TwoLists : Module {
    Sequential& first = child<Sequential>("first");
    Sequential& second = child<Sequential>("second");
  } lists;
  EXPECT_NE(weights(lists.first.add<nn::Linear>(3, 3)), weights(lists.second.add<nn::Linear>(3, 3)));
}

TEST(InitialValues, StayOnceTheyAreReadOrSet) {
  Node root;
  const auto read = linear(), set = linear(), traced = linear();
  const std::vector<double> alone = weights(*read);
  set->weight.set("weight", ones({3, 3}));
  trace_step(*traced, Array(ones({1, 3})));
  root.attach("read", read);
  root.attach("set", set);
  root.attach("traced", traced);
  EXPECT_EQ(weights(*read), alone);
  EXPECT_EQ(weights(*traced), alone);
  EXPECT_EQ(weights(*set), std::vector<double>(9, 1.0));
  EXPECT_EQ(set->weight.value("bias").shape(), (Shape{3}));
}

TEST(InitialValues, NoiseDiffersToo) {
  Node root;
  const auto a = std::make_shared<nn::Dropout>(), b = std::make_shared<nn::Dropout>();
  root.attach("a", a);
  root.attach("b", b);
  EXPECT_NE(a->key.value().tensor(), b->key.value().tensor());
}

// Every layer whose values are drawn: alone and then attached, as a child from the start.
template <class Layer, class... Args>
void expect_by_place(const Args&... args) {
  struct Made : Module {
    explicit Made(const Args&... a) { child<Layer>("x", a...); }
  };
  const Made made(args...);
  Node root;
  const auto alone = std::make_shared<Layer>(args...);
  root.attach("x", alone);
  expect_same_values(made, root);
  Node other;
  other.attach("y", std::make_shared<Layer>(args...));
  const ParamValues x = param_values(root), y = param_values(other);
  bool differ = false;
  for (std::size_t i = 0; i < x.values.size(); ++i)
    differ = differ || x.values[i].tensor() != y.values[i].tensor();
  EXPECT_TRUE(differ) << typeid(Layer).name();
}

TEST(InitialValues, OfEveryLayerThatDraws) {
  const SparsePattern pattern = SparsePattern::coo(3, 2, {0, 1, 2, 2}, {1, 0, 0, 1});
  expect_by_place<nn::Linear>(3, 2);
  expect_by_place<nn::SignedWLinear>(3, 2);
  expect_by_place<nn::ScaledWSLinear>(3, 2);
  expect_by_place<nn::GroupedLinear>(2, 3, 2);
  expect_by_place<nn::SparseLinear>(pattern);
  expect_by_place<nn::LoRA>(3, 2, 2);
  expect_by_place<nn::Embedding>(3, 2);
  expect_by_place<nn::AllToAll>(3, 2);
  expect_by_place<nn::OneToOne>(Shape{3}, nn::OneToOneOptions{.weight_init = nn::init::normal()});
  expect_by_place<nn::Conv1d>(Shape{5, 2}, 3, Dims{3});
  expect_by_place<nn::LeakyRateReadout>(3, 2, nn::LeakyRateReadoutOptions{.dt = 1.0});
  expect_by_place<nn::LeakySpikeReadout>(3, 2, nn::LeakySpikeReadoutOptions{.dt = 1.0});
  expect_by_place<nn::DelayedLinear>(pattern, 1.0, nn::DelayedLinearOptions{.dt = 1.0});
  expect_by_place<nn::LRUCell>(3, 4);
  expect_by_place<nn::URLSTMCell>(3, 4);
  expect_by_place<nn::GRUCell>(3, 4);
}

TEST(InitialValues, AnInitialiserKeepsToOneType) {
  bool first = true;
  const nn::Initializer changing = [&first](const Array&, const Shape& shape, Dtype) {
    return full(shape, 1.0, std::exchange(first, false) ? Dtype::F32 : Dtype::F64);
  };
  Node root;
  const auto layer = std::make_shared<nn::Embedding>(3, 2, nn::EmbeddingOptions{.weight_init = changing});
  root.attach("table", layer);
  EXPECT_THAT(message_of<ValueError>([&] { layer->weight.value(); }),
              AllOf(HasSubstr("table"), HasSubstr("keep to one type")));
}

}  // namespace
}  // namespace etrace::attach_test
