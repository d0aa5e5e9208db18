// Array: concrete numbers, symbolic constants, weak numbers, and operations that run at once.
#include "etrace/array.h"

#include <gtest/gtest.h>

#include <sstream>
#include <type_traits>

#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/numpy.h"
#include "etrace/primitive.h"
#include "support/values.h"

namespace etrace {
namespace {

using testing::expect_error;

// The value of a condition is not known while tracing, so an array must not decide a C++ branch.
static_assert(!std::is_constructible_v<bool, Array>);
static_assert(!std::is_convertible_v<Array, bool>);

TEST(Array, UndefinedIsNoValue) {
  const Array a;
  EXPECT_FALSE(a.defined());
  EXPECT_FALSE(a.is_tracer());
  EXPECT_FALSE(a.is_weak());
  EXPECT_FALSE(a.splat().has_value());
  EXPECT_THROW(a.aval(), TypeError);
  EXPECT_THROW(a.tensor(), TypeError);
  EXPECT_THROW(neg(a), TypeError);
  EXPECT_THROW((void)Array(Tensor{}), TypeError);
}

TEST(Array, CppNumbersHaveATypeOfTheirOwnWhenAlone) {
  EXPECT_EQ(Array(1.5).aval(), (Aval{Dtype::F32, {}}));
  EXPECT_EQ(Array(1.5F).aval(), (Aval{Dtype::F32, {}}));
  EXPECT_EQ(Array(2).aval(), (Aval{Dtype::I32, {}}));
  EXPECT_EQ(Array(std::int64_t{2}).aval(), (Aval{Dtype::I32, {}}));
  EXPECT_EQ(Array(true).aval(), (Aval{Dtype::Bool, {}}));
  EXPECT_TRUE(Array(1.5).is_weak());
  EXPECT_FALSE(Array(Tensor::full({Dtype::F32, {}}, 1.5)).is_weak());
  EXPECT_FALSE(full({}, 1.5, Dtype::F32).is_weak());
}

TEST(Array, CppNumbersAdaptToWhatTheyMeet) {
  const Array x = Tensor::of(std::vector<double>{1.0, 2.0}, {2});
  EXPECT_EQ((1.0 - x).dtype(), Dtype::F64);
  EXPECT_EQ((x * 2).dtype(), Dtype::F64);
  const Array i = Tensor::of(std::vector<std::int64_t>{1, 2}, {2});
  EXPECT_EQ((i + 1).dtype(), Dtype::I64);
  EXPECT_EQ((1.0 - x).tensor().to_doubles(), (std::vector<double>{0.0, -1.0}));
}

TEST(Array, OperationsOnConcreteArraysRunAtOnce) {
  const Array x = Tensor::of(std::vector<float>{1, 2, 3}, {3});
  const Array y = x * x + x;
  EXPECT_FALSE(y.is_tracer());
  EXPECT_EQ(y.tensor().to_doubles(), (std::vector<double>{2, 6, 12}));
}

TEST(Array, SplatStaysSymbolicUntilAskedFor) {
  const Array z = full({1 << 20, 1 << 20}, 0.25, Dtype::F64);  // eight terabytes if it were dense
  ASSERT_TRUE(z.splat().has_value());
  EXPECT_EQ(to_double(*z.splat()), 0.25);
  const Array small = full({2, 3}, 0.25, Dtype::F64);
  EXPECT_EQ(small.tensor().to_doubles(), std::vector<double>(6, 0.25));
}

TEST(Array, SplatIsRoundedToItsType) {
  EXPECT_EQ(to_double(*full({}, 0.1, Dtype::F32).splat()), static_cast<double>(0.1F));
  EXPECT_EQ(to_double(*full({}, 0.1, Dtype::F64).splat()), 0.1);
  EXPECT_TRUE(std::get<bool>(*full({}, 2.0, Dtype::Bool).splat()));
  EXPECT_EQ(std::get<std::int64_t>(*full({}, 7.0, Dtype::I32).splat()), 7);
}

TEST(Array, ScalarTensorsAreSplats) {
  EXPECT_EQ(to_double(*Array(Tensor::full({Dtype::F32, {}}, 3.0)).splat()), 3.0);
  EXPECT_FALSE(Array(Tensor::full({Dtype::F32, {1}}, 3.0)).splat().has_value());
}

TEST(Array, LikeAndInstantiate) {
  const Array x = Tensor::of(std::vector<double>{1, 2}, {2});
  EXPECT_EQ(full_like(x, 3.0).aval(), x.aval());
  EXPECT_EQ(instantiate(x, {Dtype::F32, {}}).rep(), x.rep());
  const Array zero = instantiate({}, {Dtype::I32, {4}});
  EXPECT_EQ(zero.aval(), (Aval{Dtype::I32, {4}}));
  EXPECT_EQ(zero.tensor().to_doubles(), std::vector<double>(4, 0.0));
}

TEST(Array, DimCountsFromBothEnds) {
  const Array x = full({2, 3, 5}, 0.0, Dtype::F32);
  EXPECT_EQ(x.dim(0), 2);
  EXPECT_EQ(x.dim(-1), 5);
  EXPECT_EQ(x.dim(-3), 2);
  EXPECT_THROW((void)x.dim(3), ValueError);
  EXPECT_THROW((void)x.dim(-4), ValueError);
}

TEST(Array, ItemIsTheOnlyElement) {
  EXPECT_EQ(Array(Tensor::full({Dtype::I64, {1, 1}}, std::int64_t{41})).item<int>(), 41);
  EXPECT_EQ(Array(2.5).item<double>(), 2.5);
  EXPECT_THROW((void)full({2}, 0.0, Dtype::F32).item<float>(), ValueError);
}

TEST(Array, ConvertsBetweenTensorsAndArrays) {
  const Tensors t{Tensor::zeros({Dtype::F32, {2}}), Tensor::zeros({Dtype::I32, {}})};
  EXPECT_EQ(to_tensors(to_arrays(t)), t);
  EXPECT_EQ(avals_of(to_arrays(t)), (Avals{{Dtype::F32, {2}}, {Dtype::I32, {}}}));
  EXPECT_THROW(avals_of(Arrays{Array()}), TypeError);
}

TEST(Bind, RefusesUndefinedOperandsAndNamesTheOperation) {
  expect_error<TypeError>("[tanh]", [] { bind_primitive(tanh_p, {Array()}); });
}

TEST(Bind, TypingErrorsNameTheOperation) {
  const Array x = full({2}, 0.0, Dtype::F32), y = full({3}, 0.0, Dtype::F32), z = full({2}, 0.0, Dtype::F64);
  EXPECT_THROW(bind_primitive(add_p, {x, y}), Error);
  EXPECT_THROW(bind_primitive(add_p, {x, z}), Error);
  EXPECT_THROW(bind_primitive(add_p, {x}), Error);
  for (const char* phrase : {"[add]", "[2]", "[3]"})
    expect_error<Error>(phrase, [&] { bind_primitive(add_p, {x, y}); });
}

std::string printed(const Array& a) {
  std::ostringstream out;
  out << a;
  return out.str();
}

TEST(ArrayText, ShowsTypeShapeAndValues) {
  EXPECT_EQ(printed(Array(1.5)), "f32[] 1.5");
  EXPECT_EQ(printed(Array(true)), "bool[] true");
  EXPECT_EQ(printed(array({{0.5, 1.0}, {2.0, -3.0}}, Dtype::F64)), "f64[2,2] [[0.5, 1], [2, -3]]");
  EXPECT_EQ(printed(Tensor::of(std::vector<std::int32_t>{7, -8}, {2})), "i32[2] [7, -8]");
  EXPECT_EQ(printed(convert(array({0.1, 1e10}), Dtype::BF16)), "bf16[2] [0.100098, 9.99922e+09]");
  EXPECT_EQ(printed(array({NAN, -INFINITY}, Dtype::F64)), "f64[2] [nan, -inf]");
  EXPECT_EQ(printed(zeros({2})), printed(Tensor::zeros({Dtype::F32, {2}})));
  EXPECT_EQ(printed(zeros({0, 3})), "f32[0,3] []");
  EXPECT_EQ(printed(Array{}), "undefined array");
}

TEST(ArrayText, LargeArraysAreAbbreviated) {
  std::vector<std::int64_t> numbers(700);
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  EXPECT_EQ(printed(Tensor::of(numbers, {700})), "i64[700] [0, 1, 2, …, 697, 698, 699]");
  EXPECT_EQ(printed(Tensor::of(numbers, {7, 100})),
            "i64[7,100] [[0, 1, 2, …, 97, 98, 99], [100, 101, 102, …, 197, 198, 199], …, "
            "[500, 501, 502, …, 597, 598, 599], [600, 601, 602, …, 697, 698, 699]]");
  // No memory is taken for a constant.
  EXPECT_EQ(printed(zeros({1 << 20, 1 << 20})), "f32[1048576,1048576] (all 0)");
}

TEST(ArrayText, OfARecordedValueIsItsType) {
  std::string text;
  make_jaxpr(
      [&](ArraySpan in) {
        text = printed(in[0]);
        return Arrays{in[0]};
      },
      Avals{{Dtype::F32, {3}}});
  EXPECT_EQ(text, "f32[3] (a value of the program that is being recorded)");
}

}  // namespace
}  // namespace etrace
