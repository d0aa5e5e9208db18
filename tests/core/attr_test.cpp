// Parameters: one representation per value, and getters that say what is wrong.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "etrace/ir.h"

namespace etrace {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

template <class F>
std::string message_of(F f) {
  try {
    f();
  } catch (const CompilationError& e) {
    return e.message();
  }
  return "no error";
}

JaxprPtr identity(const Aval& aval) {
  const Var x = fresh_var(aval);
  return share({{{}, {x}, {}, {x}}, {}});
}

TEST(Attr, ListOfIntegersIsDims) {
  const Attr a = Attr::list({1, 2, 3});
  ASSERT_NE(a.ints(), nullptr);
  EXPECT_EQ(*a.ints(), (Dims{1, 2, 3}));
  EXPECT_EQ(a, Attr(Dims{1, 2, 3}));
  EXPECT_EQ(Attr::list({}), Attr(Dims{}));
  EXPECT_EQ(Attr(Shape{2, 3}), Attr(Dims{2, 3}));
}

// Long lists of integers have 32 bits a number, if that is enough; who asks for their values sees no
// difference.
TEST(Attr, LongListOfSmallIntegersIsATable) {
  Dims values(Attr::kShortList + 1);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<std::int64_t>(i) - 3;
  const Attr a(values);
  ASSERT_NE(a.table(), nullptr);
  EXPECT_EQ(a.ints(), nullptr);
  const auto table = std::make_shared<const Table>(values.begin(), values.end());
  EXPECT_EQ(a, Attr(table));
  EXPECT_EQ(a, Attr::list({values.begin(), values.end()}));
  EXPECT_EQ(Attr(table).table()->get(), table.get());  // shared, not copied
  EXPECT_EQ(Params({{"list", a}}).dims("list"), values);
  EXPECT_THAT(to_string(a), StartsWith("[-3,-2,-1,0,1,"));

  Dims other = values, wide = values;
  other.back() += 1;
  wide.back() = std::int64_t{1} << 31U;  // one beyond 32 bits
  EXPECT_FALSE(a == Attr(other));
  EXPECT_EQ(Attr(wide).table(), nullptr);
  ASSERT_NE(Attr(wide).ints(), nullptr);
  EXPECT_EQ(*Attr(wide).ints(), wide);
}

TEST(Attr, ShortTableIsDims) {
  EXPECT_EQ(Attr(std::make_shared<const Table>(Table{4, -1})), Attr(Dims{4, -1}));
  EXPECT_EQ(Attr(std::shared_ptr<const Table>()), Attr(Dims{}));
  const Dims just_short(Attr::kShortList, 7);
  EXPECT_NE(Attr(just_short).ints(), nullptr);
}

TEST(Attr, MixedListStaysList) {
  const Attr a = Attr::list({1, 2.5, "x"});
  EXPECT_EQ(a.ints(), nullptr);
  ASSERT_NE(a.list_items(), nullptr);
  EXPECT_EQ(a.list_items()->size(), 3U);
  EXPECT_FALSE(Attr::list({true, false}) == Attr(Dims{1, 0}));
}

TEST(Attr, DictIsSortedAndHasNoDoubles) {
  const Attr a = Attr::dict({{"b", 1}, {"a", 2}});
  EXPECT_EQ(a.dict_items()->front().first, "a");
  EXPECT_EQ(a, Attr::dict({{"a", 2}, {"b", 1}}));
  EXPECT_THAT(message_of([] { Attr::dict({{"a", 1}, {"a", 2}}); }), HasSubstr("'a' is given twice"));
}

TEST(Attr, KindsDiffer) {
  EXPECT_FALSE(Attr(1) == Attr(1.0));
  EXPECT_FALSE(Attr(true) == Attr(1));
  EXPECT_FALSE(Attr(nullptr) == Attr(0));
  EXPECT_FALSE(Attr("1") == Attr(1));
  EXPECT_EQ(Attr(Dtype::F32), Attr("float32"));
}

TEST(Attr, NumbersCompareByBits) {
  EXPECT_EQ(Attr(kNan), Attr(-kNan));
  EXPECT_FALSE(Attr(0.0) == Attr(-0.0));
}

TEST(Attr, ProgramsCompareUpToRenaming) {
  const Aval v{Dtype::F32, {3}};
  EXPECT_EQ(Attr(identity(v)), Attr(identity(v)));
  EXPECT_FALSE(Attr(identity(v)) == Attr(identity({Dtype::F64, {3}})));
  EXPECT_TRUE(Attr(JaxprPtr()).is_null());
}

TEST(Params, FindWithWithout) {
  const Params p{{"b", 1}, {"a", nullptr}};
  EXPECT_EQ(p.items().front().first, "a");
  EXPECT_NE(p.find("a"), nullptr);
  EXPECT_FALSE(p.has("a"));
  EXPECT_TRUE(p.has("b"));
  EXPECT_EQ(p.find("c"), nullptr);
  EXPECT_EQ(p.with("aa", 3).integer("aa"), 3);
  EXPECT_EQ(p.with("b", 3).integer("b"), 3);
  EXPECT_EQ(p.with("b", 3).items().size(), 2U);
  EXPECT_EQ(p.without("b"), Params({{"a", nullptr}}));
  EXPECT_EQ(p.without("zz"), p);
  EXPECT_THAT(message_of([] { Params{{"a", 1}, {"a", 1}}; }), HasSubstr("given twice"));
}

TEST(Params, Getters) {
  const Params p{{"i", 3},          {"b", true},    {"d", 2.5},    {"s", "text"},
                 {"t", Dtype::F64}, {"n", nullptr}, {"l", Dims{1}}};
  EXPECT_EQ(p.integer("i"), 3);
  EXPECT_EQ(p.integer_or("n", 7), 7);
  EXPECT_EQ(p.integer_or("none", 7), 7);
  EXPECT_TRUE(p.boolean_or("b", false));
  EXPECT_FALSE(p.boolean_or("none", false));
  EXPECT_EQ(p.number_or("d", 0), 2.5);
  EXPECT_EQ(p.number_or("i", 0), 3.0);
  EXPECT_EQ(p.text("s"), "text");
  EXPECT_EQ(p.text_or("none", "x"), "x");
  EXPECT_EQ(p.dtype("t"), Dtype::F64);
  EXPECT_EQ(p.dims("l"), (Dims{1}));
  EXPECT_EQ(p.dims_or("n", {4}), (Dims{4}));
  EXPECT_EQ(p.jaxpr_or_null("n"), nullptr);
}

TEST(Params, ErrorsNameParameterFoundAndExpected) {
  const Params p{{"s", "text"}, {"i", 3}, {"n", nullptr}};
  EXPECT_EQ(message_of([&] { p.integer("s"); }), "the parameter 's' is a text, expected an integer");
  EXPECT_EQ(message_of([&] { p.integer("x"); }), "the parameter 'x' is missing, expected an integer");
  EXPECT_EQ(message_of([&] { p.integer("n"); }), "the parameter 'n' is null, expected an integer");
  EXPECT_THAT(message_of([&] { p.integer_or("s", 1); }), HasSubstr("expected an integer"));
  EXPECT_THAT(message_of([&] { p.boolean_or("i", true); }), HasSubstr("expected a bool"));
  EXPECT_THAT(message_of([&] { p.number_or("s", 1); }), HasSubstr("expected a number"));
  EXPECT_THAT(message_of([&] { p.text("i"); }), HasSubstr("expected a text"));
  EXPECT_THAT(message_of([&] { p.dtype("s"); }), HasSubstr("expected an element type"));
  EXPECT_THAT(message_of([&] { p.dims("i"); }), HasSubstr("expected a list of integers"));
  EXPECT_THAT(message_of([&] { p.jaxpr("n"); }), HasSubstr("expected a program"));
  EXPECT_THAT(message_of([&] { p.jaxpr_or_null("i"); }), HasSubstr("expected a program or null"));
  EXPECT_THAT(message_of([&] { p.jaxprs("i"); }), HasSubstr("expected a list of programs"));
}

TEST(Params, ListsOfPrograms) {
  const JaxprPtr f = identity({Dtype::F32, {}});
  const Params p{{"branches", Attr::list({f, f})}, {"none", Attr::list({})}, {"mixed", Attr::list({f, 1})}};
  EXPECT_EQ(p.jaxprs("branches").size(), 2U);
  EXPECT_TRUE(p.jaxprs("none").empty());
  EXPECT_THAT(message_of([&] { p.jaxprs("mixed"); }),
              HasSubstr("'mixed' is a list, expected a list of programs"));
}

}  // namespace
}  // namespace etrace
