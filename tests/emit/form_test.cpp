// Row-major numbers as forms, and back to indices: against plain counting.
#include <gtest/gtest.h>
#include <rapidcheck/gtest.h>

#include "emit/form.h"

namespace etrace::emit {
namespace {

// Every position of the axes.
template <class F>
void for_positions(const Dims& sizes, const F& f) {
  Dims at(sizes.size(), 0);
  for (;;) {
    f(at);
    std::size_t a = sizes.size();
    while (a > 0 && ++at[a - 1] == sizes[a - 1]) at[--a] = 0;
    if (a == 0) return;
  }
}
Index value_at(const Form& f, const Dims& at) {
  Index sum = f.first;
  for (std::size_t a = 0; a < at.size(); ++a) sum += f.step[a] * at[a];
  return sum;
}

// The indices name the element that the form names.
void expect_decoded(const Form& flat, const Dims& axes, const Dims& sizes) {
  const Decoded d = decode(flat, {axes, {}}, sizes);
  ASSERT_EQ(d.result, Decoded::Done);
  const Dims strides = row_major(sizes);
  for_positions(axes, [&](const Dims& at) {
    Index number = 0;
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const Index index = value_at(d.indices[i], at);
      EXPECT_GE(index, 0);
      EXPECT_LT(index, sizes[i]);
      number += index * strides[i];
    }
    EXPECT_EQ(number, value_at(flat, at));
  });
}

TEST(EmitForm, IndicesOfViews) {
  expect_decoded({0, {12, 4, 1}, {}}, {2, 3, 4}, {2, 3, 4});  // as it is
  expect_decoded({0, {1, 4}, {}}, {4, 3}, {3, 4});            // transposed
  expect_decoded({11, {-4, -1}, {}}, {3, 4}, {3, 4});         // backwards
  expect_decoded({5, {8, 2}, {}}, {2, 2}, {4, 4});            // every other one
  expect_decoded({0, {0, 1}, {}}, {5, 4}, {4});               // repeated
}

TEST(EmitForm, AnAxisOverSeveralIndicesIsSplit) {
  const Decoded d = decode({0, {1}, {}}, {{24}, {}}, {4, 6});
  EXPECT_EQ(d.result, Decoded::Split);
  EXPECT_EQ(d.inner, 6);
  EXPECT_EQ(decode({0, {1}, {}}, {{9}, {}}, {4, 6}).result, Decoded::No);  // not whole rows
  EXPECT_EQ(decode({3, {1}, {}}, {{6}, {}}, {4, 6}).result, Decoded::No);  // across the end of a row
  EXPECT_EQ(decode({0, {7}, {}}, {{3}, {}}, {4, 6}).result, Decoded::No);  // a diagonal
}

TEST(EmitForm, PiecesThatInterleaveNeverMeet) {
  EXPECT_TRUE(never_meet({0, {96, 1}, {}}, {48, {96, 1}, {}}, {32, 48}));   // halves of every row
  EXPECT_FALSE(never_meet({0, {96, 1}, {}}, {47, {96, 1}, {}}, {32, 48}));  // one element in common
  EXPECT_TRUE(never_meet({0, {2}, {}}, {1, {2}, {}}, {50}));
  EXPECT_FALSE(never_meet({0, {2}, {}}, {4, {2}, {}}, {50}));
  EXPECT_TRUE(never_meet({0, {1}, {}}, {50, {2}, {}}, {50}));
  EXPECT_FALSE(never_meet({0, {1}, {{0, 5}}}, {50, {1}, {}}, {50}));  // at unknown times
}

RC_GTEST_PROP(EmitFormProperty, SplittingAnAxisKeepsTheNumbers, ()) {
  const Index outer = *rc::gen::inRange<Index>(1, 5), inner = *rc::gen::inRange<Index>(1, 5);
  Form f{*rc::gen::inRange<Index>(-9, 9),
         {*rc::gen::inRange<Index>(-9, 9), *rc::gen::inRange<Index>(-9, 9)},
         {}};
  Form split = f;
  split_axis(split, 0, inner);
  for_positions({outer, inner, 3}, [&](const Dims& at) {
    RC_ASSERT(value_at(split, at) == value_at(f, {at[0] * inner + at[1], at[2]}));
  });
}

// Whatever decode() says is right: permutations, slices and reversals of axes of a random array.
RC_GTEST_PROP(EmitFormProperty, DecodedIndicesNameTheSameElement, ()) {
  const auto rank = *rc::gen::inRange<std::size_t>(1, 4);
  Dims sizes, axes, step;
  for (std::size_t i = 0; i < rank; ++i) sizes.push_back(*rc::gen::inRange<Index>(1, 5));
  const Dims strides = row_major(sizes);
  Index first = 0;
  for (std::size_t i = rank; i-- > 0;) {
    const Index by = *rc::gen::inRange<Index>(1, 3), most = (sizes[i] - 1) / by + 1;
    const bool back = *rc::gen::arbitrary<bool>();
    axes.push_back(most);
    step.push_back(back ? -by * strides[i] : by * strides[i]);
    if (back) first += (most - 1) * by * strides[i];
  }
  const Form flat{first, step, {}};
  const Decoded d = decode(flat, {axes, {}}, sizes);
  RC_ASSERT(d.result == Decoded::Done);
  for_positions(axes, [&](const Dims& at) {
    Index number = 0;
    for (std::size_t i = 0; i < rank; ++i) {
      const Index index = value_at(d.indices[i], at);
      RC_ASSERT(index >= 0 && index < sizes[i]);
      number += index * strides[i];
    }
    RC_ASSERT(number == value_at(flat, at));
  });
}

}  // namespace
}  // namespace etrace::emit
