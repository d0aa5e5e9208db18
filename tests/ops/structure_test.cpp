// Operations that move data: values worked out by hand, and what they say about operands that do not fit.
// That their rules agree with each other is the business of tests/property.
#include <algorithm>
#include <numeric>

#include "support/numeric.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const Array kMatrix = array({{1, 2, 3}, {4, 5, 6}});

TEST(BroadcastInDim, PlacesAxesAndRepeats) {
  EXPECT_THAT(values(broadcast_in_dim(vec({1, 2}), {2, 3}, {0})), ElementsAre(1, 1, 1, 2, 2, 2));
  EXPECT_THAT(values(broadcast_in_dim(vec({1, 2}), {3, 2}, {1})), ElementsAre(1, 2, 1, 2, 1, 2));
  EXPECT_THAT(values(broadcast_in_dim(Array(7.0), {2}, {})), ElementsAre(7, 7));
  EXPECT_THAT(values(broadcast_to(reshape(vec({1, 2}), {2, 1}), {2, 2, 2})),
              ElementsAre(1, 1, 2, 2, 1, 1, 2, 2));
  EXPECT_THAT(values(broadcast_to(Array(1.0), {0, 3})), IsEmpty());
}

TEST(BroadcastInDim, RepeatsPiecesOfAnySize) {
  for (const std::int64_t width : {1, 2, 3, 700, 2048, 5000})
    for (const std::int64_t times : {1, 2, 5, 300}) {
      const Array x = Random(1).tensor({Dtype::F32, {3, width}});
      const std::vector<double> from = values(x), to = values(broadcast_in_dim(x, {3, times, width}, {0, 2}));
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < to.size(); ++i) {
        const auto w = static_cast<std::size_t>(width), row = i / (w * static_cast<std::size_t>(times));
        wrong += to[i] == from[row * w + i % w] ? 0 : 1;
      }
      EXPECT_EQ(wrong, 0U) << times << " times " << width;
    }
}

TEST(BroadcastInDim, OfEqualElementsStaysSymbolic) {
  const Array big = broadcast_to(Array(2.0), {1 << 20, 1 << 20});  // 4 TB if it were made
  ASSERT_TRUE(big.splat().has_value());
  EXPECT_EQ(transpose(reshape(big, {1 << 10, -1})).shape(), (Shape{1LL << 30, 1 << 10}));
}

TEST(BroadcastInDim, ExplainsMisfits) {
  expect_error<ValueError>("sizes must agree or be 1", [] { broadcast_in_dim(vec({1, 2}), {3}, {0}); });
  expect_error<ValueError>("must ascend", [] { broadcast_in_dim(kMatrix, {3, 2}, {1, 0}); });
  expect_error<ValueError>("one axis for each axis", [] { broadcast_in_dim(kMatrix, {2, 3}, {0}); });
  expect_error<ValueError>("cannot be broadcast to [2,2]", [] { broadcast_to(kMatrix, {2, 2}); });
}

TEST(Reshape, KeepsRowMajorOrder) {
  EXPECT_THAT(values(reshape(kMatrix, {3, 2})), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(reshape(kMatrix, {-1, 2}).shape(), (Shape{3, 2}));
  EXPECT_EQ(squeeze(reshape(kMatrix, {1, 6, 1}), {0, -1}).shape(), (Shape{6}));
  EXPECT_EQ(expand_dims(kMatrix, {0, -1}).shape(), (Shape{1, 2, 3, 1}));
}

TEST(Reshape, ExplainsMisfits) {
  expect_error<ValueError>("has 6 elements", [] { reshape(kMatrix, {4}); });
  expect_error<ValueError>("more than one axis open", [] { reshape(kMatrix, {-1, -1}); });
  expect_error<ValueError>("no size of the open axis", [] { reshape(kMatrix, {4, -1}); });
  expect_error<ValueError>("only axes of size 1", [] { squeeze(kMatrix, {1}); });
  expect_error<ValueError>("named twice", [] { expand_dims(kMatrix, {0, -4}); });
  expect_error<NotSupportedError>("write a transpose", [] {
    bind1(reshape_p, {kMatrix}, {{"new_sizes", Dims{6}}, {"dimensions", Dims{1, 0}}});
  });
}

TEST(Transpose, PermutesAxes) {
  EXPECT_THAT(values(transpose(kMatrix)), ElementsAre(1, 4, 2, 5, 3, 6));
  const Array cube = reshape(arange(24), {2, 3, 4});
  const Tensor moved = moveaxis(cube, 0, -1).tensor();
  EXPECT_EQ(moved.shape(), (Shape{3, 4, 2}));
  EXPECT_EQ(to_int(moved.at(1 * 8 + 2 * 2 + 1)), 1 * 12 + 1 * 4 + 2);
  EXPECT_THAT(values(rev(kMatrix, {1})), ElementsAre(3, 2, 1, 6, 5, 4));
  EXPECT_THAT(values(rev(kMatrix, {0, 1})), ElementsAre(6, 5, 4, 3, 2, 1));
}

TEST(Transpose, LargeMatricesGoInTiles) {
  const std::int64_t rows = 67, columns = 131;
  const Tensor t = transpose(reshape(arange(rows * columns), {rows, columns})).tensor();
  for (std::int64_t i = 0; i < columns; ++i)
    for (std::int64_t j = 0; j < rows; ++j) ASSERT_EQ(to_int(t.at(i * rows + j)), j * columns + i);
}

TEST(Transpose, ExplainsMisfits) {
  expect_error<ValueError>("must name every axis", [] { transpose(kMatrix, {0}); });
  expect_error<ValueError>("named twice", [] { transpose(kMatrix, {0, 0}); });
  expect_error<ValueError>("axis 2 is out of range for rank 2; use -2 … 1", [] { moveaxis(kMatrix, 2, 0); });
  expect_error<ValueError>("a scalar has no axes", [] { rev(Array(1.0), {0}); });
}

TEST(Concatenate, JoinsStacksAndSplits) {
  EXPECT_THAT(values(concatenate(Arrays{vec({1, 2}), vec({3})})), ElementsAre(1, 2, 3));
  EXPECT_THAT(values(concatenate(Arrays{kMatrix, reshape(vec({7, 8}), {2, 1})}, -1)),
              ElementsAre(1, 2, 3, 7, 4, 5, 6, 8));
  EXPECT_THAT(values(stack(Arrays{vec({1, 2}), vec({3, 4})}, 1)), ElementsAre(1, 3, 2, 4));
  const Arrays parts = split(kMatrix, {1, 0, 2}, 1);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_THAT(values(parts[0]), ElementsAre(1, 4));
  EXPECT_EQ(parts[1].shape(), (Shape{2, 0}));
  EXPECT_THAT(values(parts[2]), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(values(bind_primitive(split_p, {kMatrix}, {{"sizes", Dims{1, 1}}, {"axis", 0}})[1]),
              ElementsAre(4, 5, 6));
}

TEST(Concatenate, PartsInBraces) {
  const Array x = array({{1, 2}, {3, 4}}), s = array({{5}, {6}});
  EXPECT_EQ(concatenate({x, s}, -1).tensor().to_doubles(), (std::vector<double>{1, 2, 5, 3, 4, 6}));
  EXPECT_EQ(concatenate({x, 2.0 * x}).shape(), (Shape{4, 2}));
  EXPECT_EQ(stack({x, x, x}, -1).shape(), (Shape{2, 2, 3}));
}

TEST(Concatenate, ExplainsMisfits) {
  expect_error<ValueError>("must agree in every axis but 0", [] {
    concatenate(Arrays{kMatrix, reshape(vec({1, 2}), {1, 2})});
  });
  expect_error<TypeError>("differ in element type", [] { concatenate(Arrays{vec({1}), arange(2)}); });
  expect_error<ValueError>("must have one shape", [] { stack(Arrays{vec({1}), vec({1, 2})}); });
  expect_error<ValueError>("add up to 4", [] { split(kMatrix, {2, 2}, 1); });
  expect_error<ValueError>("at least one array", [] { concatenate(Arrays{}); });
}

TEST(Pad, BordersInteriorAndCropping) {
  EXPECT_THAT(values(pad(vec({1, 2}), 9.0, {{1, 2, 0}})), ElementsAre(9, 1, 2, 9, 9));
  EXPECT_THAT(values(pad(vec({1, 2, 3}), 0.0, {{0, 0, 1}})), ElementsAre(1, 0, 2, 0, 3));
  EXPECT_THAT(values(pad(vec({1, 2, 3}), 0.0, {{-1, 1, 0}})), ElementsAre(2, 3, 0));
  EXPECT_THAT(values(pad(vec({1, 2, 3}), 0.0, {{-1, -1, 2}})), ElementsAre(0, 0, 2, 0, 0));
  EXPECT_THAT(values(pad(zeros({0}), 5.0, {{1, 1, 7}})), ElementsAre(5, 5));
  expect_error<ValueError>("crops more than", [] { pad(vec({1}), 0.0, {{-2, 0, 0}}); });
  expect_error<ValueError>("interior padding must not be negative", [] {
    pad(vec({1, 2}), 0.0, {{0, 0, -1}});
  });
  expect_error<ValueError>("[low, high, interior] for every axis", [] { pad(kMatrix, 0.0, {{1, 0, 0}}); });
}

TEST(Slice, TakesRanges) {
  EXPECT_THAT(values(slice(kMatrix, {0, 1}, {2, 3})), ElementsAre(2, 3, 5, 6));
  EXPECT_THAT(values(slice(kMatrix, {0, 0}, {2, 3}, {1, 2})), ElementsAre(1, 3, 4, 6));
  EXPECT_THAT(values(slice_axis(kMatrix, -1, 2, 2)), IsEmpty());
  expect_error<ValueError>("does not lie within axis 1", [] { slice(kMatrix, {0, 1}, {2, 4}); });
  expect_error<ValueError>("must be positive", [] { slice(kMatrix, {0, 0}, {2, 3}, {1, 0}); });
}

TEST(Iota, CountsAlongOneAxis) {
  EXPECT_THAT(values(arange(3)), ElementsAre(0, 1, 2));
  EXPECT_THAT(values(iota(Dtype::F64, {2, 2}, 0)), ElementsAre(0, 0, 1, 1));
  EXPECT_THAT(values(iota(Dtype::F32, {2, 2}, -1)), ElementsAre(0, 1, 0, 1));
  expect_error<TypeError>("does not compute on bool", [] { arange(2, Dtype::Bool); });
}

TEST(Structure, HalfPrecisionMoves) {
  const Array half = convert(kMatrix, Dtype::BF16);
  EXPECT_THAT(values(transpose(half)), ElementsAre(1, 4, 2, 5, 3, 6));
  EXPECT_THAT(values(pad(slice(half, {0, 0}, {1, 2}), 0.0, {{0, 0, 0}, {1, 0, 0}})), ElementsAre(0, 1, 2));
}

// Element by element, for shapes that take every form of the copying loops: pairs, tiles, long lines.
TEST(Transpose, EveryOrderOfManyShapes) {
  const std::vector<Dims> shapes{{5, 2, 3}, {70, 2, 2}, {2, 2, 70}, {33, 4},   {4, 33},    {3, 90},
                                 {90, 3},   {40, 35},   {2, 9, 17}, {1, 6, 1}, {17, 2, 9}, {300, 2, 150}};
  for (const Dtype dtype : {Dtype::Bool, Dtype::F32, Dtype::F64})
    for (const Dims& shape : shapes) {
      const Array x = Random(7).tensor({dtype, shape});
      const std::vector<double> from = x.tensor().to_doubles();
      Dims order(shape.size());
      std::iota(order.begin(), order.end(), 0);
      do {
        const std::vector<double> to = transpose(x, order).tensor().to_doubles();
        Dims strides = strides_of(shape), sizes;
        for (const std::int64_t a : order) sizes.push_back(shape[static_cast<std::size_t>(a)]);
        const Dims out = strides_of(sizes);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < to.size(); ++i) {
          std::int64_t at = 0;
          for (std::size_t a = 0; a < order.size(); ++a)
            at += static_cast<std::int64_t>(i) / out[a] % sizes[a] *
                  strides[static_cast<std::size_t>(order[a])];
          wrong += to[i] == from[static_cast<std::size_t>(at)] ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0U) << to_string(x.aval());
      } while (std::next_permutation(order.begin(), order.end()));
    }
}

TEST(Stack, OneOrTwoElementsInTurn) {
  for (const Dtype dtype : {Dtype::F32, Dtype::F64})
    for (const std::size_t operands : {1U, 2U, 3U, 4U, 5U})
      for (const std::int64_t width : {1, 2, 3}) {
        Arrays x;
        for (std::size_t k = 0; k < operands; ++k) x.push_back(Random(k).tensor({dtype, {37, width}}));
        const std::vector<double> y = concatenate(x, 1).tensor().to_doubles();
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < y.size(); ++i) {
          const std::size_t w = static_cast<std::size_t>(width), row = i / (operands * w),
                            at = i % (operands * w);
          wrong += y[i] == x[at / w].tensor().to_doubles()[row * w + at % w] ? 0 : 1;
        }
        EXPECT_EQ(wrong, 0U) << operands << " operands of width " << width;
      }
}

}  // namespace
}  // namespace etrace::testing
