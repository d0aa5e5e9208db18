// States outside of a trace: kinds, leaves, checks, batches.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "etrace/error.h"
#include "etrace/module.h"
#include "etrace/ops/numpy.h"
#include "support/errors.h"

namespace etrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

std::vector<double> values(const Array& a) { return a.tensor().to_doubles(); }
Array f64(const std::vector<double>& v) { return array(v, Dtype::F64); }

// A hidden state is one array: named ones would make a state of another kind.
static_assert(!std::is_constructible_v<HiddenState, NamedArrays>);

TEST(State, KindsFormATree) {
  EXPECT_TRUE(is_a(StateKind::Param, StateKind::LongTerm));
  EXPECT_TRUE(is_a(StateKind::HiddenTree, StateKind::ShortTerm));
  EXPECT_TRUE(is_a(StateKind::HiddenTree, StateKind::Any));
  EXPECT_FALSE(is_a(StateKind::Hidden, StateKind::HiddenGroup));
  EXPECT_FALSE(is_a(StateKind::Param, StateKind::ShortTerm));
  EXPECT_EQ(ParamState(zeros({2})).type(), "ParamState");
  EXPECT_EQ(HiddenTreeState({{"v", zeros({2})}}).type(), "HiddenTreeState");
  EXPECT_EQ(LongTermState(zeros({2})).type(), "LongTermState");
  EXPECT_EQ(ShortTermState(zeros({2})).type(), "ShortTermState");
}

TEST(State, LeavesAreInAlphabeticalOrder) {
  ParamState p({{"weight", f64({1, 2})}, {"bias", f64({3})}});
  EXPECT_THAT(p.leaf_keys(), ElementsAre("bias", "weight"));
  EXPECT_THAT(values(p.leaves()[0]), ElementsAre(3));
  EXPECT_THAT(values(p.value("weight")), ElementsAre(1, 2));
  p.set("bias", f64({7}));
  EXPECT_THAT(values(p.value("bias")), ElementsAre(7));
  EXPECT_TRUE(p.has_leaf("bias"));
  EXPECT_FALSE(p.has_leaf("gain"));
  EXPECT_THAT(message_of<TypeError>([&] { static_cast<void>(p.value()); }), HasSubstr("'bias', 'weight'"));
  EXPECT_THAT(message_of<ValueError>([&] { static_cast<void>(p.value("gain")); }),
              HasSubstr("'bias', 'weight'"));
  EXPECT_THROW(ParamState({{"w", f64({1})}, {"w", f64({1})}}), ValueError);
  EXPECT_THROW(ParamState(NamedArrays{}), ValueError);
  EXPECT_THROW(ParamState{Array()}, TypeError);
}

TEST(State, SetKeepsTheType) {
  HiddenState h(f64({0, 0, 0}));
  h.set(f64({1, 2, 3}));
  EXPECT_THAT(values(h.value()), ElementsAre(1, 2, 3));
  h.set(2.5);  // a bare number fills
  EXPECT_THAT(values(h.value()), ElementsAre(2.5, 2.5, 2.5));
  EXPECT_EQ(h.value().aval(), (Aval{Dtype::F64, {3}}));
  EXPECT_THAT(message_of<ValueError>([&] {
                h.set(zeros({2, 3}, Dtype::F64));
              }),
              ::testing::AllOf(HasSubstr("f64[3]"), HasSubstr("f64[2,3]"), HasSubstr("init_all_states")));
  EXPECT_THAT(message_of<ValueError>([&] { h.set(f64({1})); }), HasSubstr("keeps its shape"));
  EXPECT_THAT(message_of<TypeError>([&] { h.set(zeros({3})); }), HasSubstr("f32[3]"));
  EXPECT_THROW(h.set_leaves(Arrays{}), ValueError);
}

TEST(State, TracedValuesStayOutside) {
  HiddenState h(f64({0}));
  const Aval type = h.value().aval();
  auto leak = [&](ArraySpan x) {
    h.set(x[0]);
    return Arrays{x[0]};
  };
  EXPECT_THAT(message_of<NotSupportedError>([&] { static_cast<void>(make_jaxpr(leak, Avals{type})); }),
              HasSubstr("trace_step"));
  EXPECT_FALSE(h.value().is_tracer());
}

TEST(HiddenGroupState, ComponentsByIndex) {
  HiddenGroupState s(array({{1, 2}, {3, 4}, {5, 6}}, Dtype::F64));
  EXPECT_EQ(s.num_state(), 2);
  EXPECT_EQ(s.varshape(), (Shape{3}));
  EXPECT_THAT(values(s.get_value(1)), ElementsAre(2, 4, 6));
  s.set_value(0, f64({7, 8, 9}));
  EXPECT_THAT(values(s.value()), ElementsAre(7, 2, 8, 4, 9, 6));
  s.set_value(1, 0.0);
  EXPECT_THAT(values(s.value()), ElementsAre(7, 0, 8, 0, 9, 0));
  s.set_values(Arrays{f64({1, 1, 1}), f64({2, 2, 2})});
  EXPECT_THAT(values(s.value()), ElementsAre(1, 2, 1, 2, 1, 2));
  EXPECT_THROW(static_cast<void>(s.get_value(2)), ValueError);
  EXPECT_THROW(s.set_value(-1, 0.0), ValueError);
  EXPECT_THROW(s.set_value(0, f64({1})), ValueError);
  EXPECT_THROW(s.set_values(Arrays{f64({1, 1, 1})}), ValueError);
  EXPECT_THROW(HiddenGroupState(f64({1, 2})), ValueError);
}

TEST(HiddenTreeState, ComponentsByNameInGivenOrder) {
  HiddenTreeState s({{"v", f64({1, 2})}, {"a", f64({3, 4})}});
  EXPECT_THAT(s.names(), ElementsAre("v", "a"));
  EXPECT_THAT(values(s.value()), ElementsAre(1, 3, 2, 4));
  EXPECT_THAT(values(s.get_value("a")), ElementsAre(3, 4));
  s.set_value("v", f64({5, 6}));
  EXPECT_THAT(values(s.value()), ElementsAre(5, 3, 6, 4));
  EXPECT_THAT(values(s.get_value(0)), ElementsAre(5, 6));
  EXPECT_THAT(message_of<ValueError>([&] { static_cast<void>(s.get_value("w")); }), HasSubstr("'v', 'a'"));
  EXPECT_THAT(message_of<ValueError>([] {
                HiddenTreeState({{"v", f64({1})}, {"a", f64({1, 2})}});
              }),
              ::testing::AllOf(HasSubstr("'v'"), HasSubstr("'a'")));
  EXPECT_THROW(HiddenTreeState({{"v", f64({1})}, {"v", f64({1})}}), ValueError);
  EXPECT_THROW(HiddenTreeState(NamedArrays{}), ValueError);
  EXPECT_THROW(HiddenTreeState({{"v", Array(1.0)}}), ValueError);
}

TEST(ShortTermState, InitialValueReturns) {
  HiddenState h(f64({1, 2}));
  h.set(f64({8, 9}));
  h.reset();
  EXPECT_THAT(values(h.value()), ElementsAre(1, 2));
  h.init(2);
  EXPECT_EQ(h.value().shape(), (Shape{2, 2}));
  EXPECT_THAT(values(h.value()), ElementsAre(1, 2, 1, 2));
  h.set(0.0);
  h.reset();  // keeps the batch
  EXPECT_THAT(values(h.value()), ElementsAre(1, 2, 1, 2));
  h.init(std::nullopt);
  EXPECT_EQ(h.value().shape(), (Shape{2}));
  EXPECT_THROW(h.init(-1), ValueError);

  ShortTermState counter(full({}, std::int64_t{0}, Dtype::I32), false);
  counter.init(3);
  EXPECT_EQ(counter.value().shape(), Shape{});
  ShortTermState pair({{"b", f64({1})}, {"a", f64({2})}});
  pair.init(2);
  EXPECT_EQ(pair.value("a").shape(), (Shape{2, 1}));
}

}  // namespace
}  // namespace etrace
