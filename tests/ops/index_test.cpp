// Reading and writing at positions that are values, and ordering: values worked out by hand, and errors.
#include <cmath>

#include "etrace/transform.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Array indices(const std::vector<double>& v, const Shape& shape) { return array(v, shape, Dtype::I32); }
Array at(int i) { return full({}, std::int64_t{i}, Dtype::I32); }

const Array kRows = array({{1, 2}, {3, 4}, {5, 6}});

// x[i] for each i, in the given mode.
Params row_gather(const Attr& mode, const Attr& fill = {}) {
  return {{"dimension_numbers", Attr::dict({{"offset_dims", Dims{1}},
                                            {"collapsed_slice_dims", Dims{0}},
                                            {"start_index_map", Dims{0}},
                                            {"operand_batching_dims", Dims{}},
                                            {"start_indices_batching_dims", Dims{}}})},
          {"slice_sizes", Dims{1, 2}},
          {"mode", mode},
          {"fill_value", fill}};
}

TEST(DynamicSlice, ClampsStarts) {
  const Array x = vec({1, 2, 3, 4});
  EXPECT_THAT(values(dynamic_slice(x, Arrays{at(1)}, {2})), ElementsAre(2, 3));
  EXPECT_THAT(values(dynamic_slice(x, Arrays{at(-5)}, {2})), ElementsAre(1, 2));
  EXPECT_THAT(values(dynamic_slice(x, Arrays{at(9)}, {2})), ElementsAre(3, 4));
  EXPECT_THAT(values(dynamic_update_slice(x, vec({8, 9}), Arrays{at(3)})), ElementsAre(1, 2, 8, 9));
  EXPECT_THAT(values(dynamic_index(kRows, at(2))), ElementsAre(5, 6));
  EXPECT_THAT(values(dynamic_index(kRows, at(1), -1)), ElementsAre(2, 4, 6));
}

TEST(DynamicSlice, ExplainsMisfits) {
  expect_error<ValueError>("does not fit", [] { dynamic_slice(vec({1, 2}), Arrays{at(0)}, {3}); });
  expect_error<ValueError>("one start for each axis", [] { dynamic_slice(kRows, Arrays{at(0)}, {1, 1}); });
  expect_error<TypeError>("integer scalars", [] { dynamic_slice(vec({1, 2}), Arrays{Array(1.0)}, {1}); });
  expect_error<ValueError>("does not fit", [] {
    dynamic_update_slice(vec({1}), vec({1, 2}), Arrays{at(0)});
  });
}

TEST(Gather, ModesOutOfRange) {
  const Array i = indices({-1, 2, 3}, {3, 1});
  EXPECT_THAT(values(bind1(gather_p, {kRows, i}, row_gather("clip"))), ElementsAre(1, 2, 5, 6, 5, 6));
  EXPECT_THAT(values(bind1(gather_p, {kRows, i}, row_gather("GatherScatterMode.FILL_OR_DROP", -7))),
              ElementsAre(-7, -7, 5, 6, -7, -7));
  EXPECT_THAT(values(bind1(gather_p, {kRows, i}, row_gather(0))), ElementsAre(1, 2, 5, 6, 5, 6));
  const Tensor filled = bind1(gather_p, {kRows, i}, row_gather(1)).tensor();
  EXPECT_TRUE(std::isnan(to_double(filled.at(0))));
  const Tensor whole = bind1(gather_p, {convert(kRows, Dtype::I32), i}, row_gather("fill")).tensor();
  EXPECT_EQ(to_int(whole.at(0)), std::numeric_limits<std::int32_t>::min());
  EXPECT_EQ(to_int(whole.at(2)), 5);
}

TEST(Gather, ExplainsMisfits) {
  expect_error<TypeError>("must be integers", [] {
    bind1(gather_p, {kRows, zeros({1, 1})}, row_gather("clip"));
  });
  expect_error<ValueError>("must have size 1", [] {
    bind1(gather_p, {kRows, indices({0, 0}, {1, 2})}, row_gather("clip"));
  });
  expect_error<CompilationError>("parameter 'mode' must be", [] {
    bind1(gather_p, {kRows, indices({0}, {1, 1})}, row_gather("wrap"));
  });
  expect_error<ValueError>("does not fit into the operand", [] {
    bind1(gather_p, {kRows, indices({0}, {1, 1})}, row_gather("clip").with("slice_sizes", Dims{1, 3}));
  });
  expect_error<CompilationError>("dimension_numbers", [] {
    bind1(gather_p, {kRows, indices({0}, {1, 1})}, row_gather("clip").without("dimension_numbers"));
  });
}

TEST(Take, WrapsOnceThenClips) {
  EXPECT_THAT(values(take(kRows, indices({-1, 0, 9, -9}, {4}))), ElementsAre(5, 6, 1, 2, 5, 6, 1, 2));
  EXPECT_THAT(values(take(kRows, indices({1}, {}), 1)), ElementsAre(2, 4, 6));
  EXPECT_EQ(take(kRows, indices({0, 1, 1, 0}, {2, 2}), 1).shape(), (Shape{3, 2, 2}));
  EXPECT_THAT(values(take_along_axis(kRows, indices({1, 0, -1}, {3, 1}), 1)), ElementsAre(2, 3, 6));
  expect_error<ValueError>("except along axis 1", [] { take_along_axis(kRows, indices({0}, {1, 1}), 1); });
}

TEST(Scatter, AddsRepeatedAndKeepsTheLast) {
  const Array x = vec({1, 1, 1}), i = indices({0, 2, 0}, {3}), u = vec({10, 20, 30});
  EXPECT_THAT(values(scatter_add(x, i, u)), ElementsAre(41, 1, 21));
  EXPECT_THAT(values(scatter_set(x, i, u)), ElementsAre(30, 1, 20));
  EXPECT_THAT(values(scatter_add(x, indices({-1, 3, -4}, {3}), u)),
              ElementsAre(1, 1, 11));  // 3 and -4 are dropped
  EXPECT_THAT(values(scatter_set(kRows, indices({1}, {1}), reshape(vec({7, 8, 9}), {3, 1}), 1)),
              ElementsAre(1, 7, 3, 8, 5, 9));
}

TEST(Scatter, DerivativeFollowsTheLastWriter) {
  // y = x with positions 0, 2, 0 overwritten: updates 1 and 2 survive, x keeps position 1 only.
  auto f = [](ArraySpan a) { return sum(scatter_set(a[0], indices({0, 2, 0}, {3}), a[1]) * vec({1, 2, 3})); };
  const Arrays g = grad(f, {0, 1})(Arrays{vec({1, 1, 1}), vec({10, 20, 30})});
  EXPECT_THAT(values(g[0]), ElementsAre(0, 2, 0));
  EXPECT_THAT(values(g[1]), ElementsAre(0, 3, 1));
}

TEST(Scatter, ExplainsMisfits) {
  const Params p{{"dimension_numbers", Attr::dict({{"update_window_dims", Dims{}},
                                                   {"inserted_window_dims", Dims{0}},
                                                   {"scatter_dims_to_operand_dims", Dims{0}}})},
                 {"mode", "clip"}};
  const Array x = vec({1, 2, 3}), i = indices({0, 1}, {2, 1});
  EXPECT_THAT(values(bind1(scatter_p, {x, i, vec({8, 9})}, p)), ElementsAre(8, 9, 3));
  expect_error<ValueError>("must have the shape [2]", [&] { bind1(scatter_p, {x, i, vec({8})}, p); });
  expect_error<TypeError>("element type of the operand", [&] { bind1(scatter_add_p, {x, i, arange(2)}, p); });
  expect_error<TypeError>("does not compute on bool", [&] {
    const Array b = full({3}, true, Dtype::Bool);
    bind1(scatter_add_p, {b, i, full({2}, true, Dtype::Bool)}, p);
  });
}

TEST(Sort, IsStableWithNaNLast) {
  EXPECT_THAT(values(sort(vec({3, 1, 2}))), ElementsAre(1, 2, 3));
  EXPECT_THAT(values(sort(kRows, 0)), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(values(argsort(vec({2, 1, 2, 1}))), ElementsAre(1, 3, 0, 2));
  EXPECT_THAT(values(argsort(vec({kNaN, 1, -0.0, 0.0}))), ElementsAre(2, 3, 1, 0));
  EXPECT_THAT(values(sort(zeros({0}))), IsEmpty());
  const Arrays both = bind_primitive(sort_p, {vec({1, 0, 1, 0}), vec({4, 3, 2, 1}), arange(4)},
                                     {{"dimension", 0}, {"is_stable", false}, {"num_keys", 2}});
  EXPECT_THAT(values(both[2]), ElementsAre(3, 1, 2, 0));
}

TEST(Sort, ExplainsMisfits) {
  expect_error<ValueError>("num_keys is 2, but there are 1", [] {
    bind1(sort_p, {kRows}, {{"dimension", 0}, {"num_keys", 2}});
  });
  expect_error<ValueError>("must have one shape", [] {
    bind_primitive(sort_p, {vec({1}), vec({1, 2})}, {{"dimension", 0}});
  });
}

TEST(ArgMax, FirstOfEqualsAndNaNWins) {
  EXPECT_EQ(argmax(vec({1, 3, 3})).item<int>(), 1);
  EXPECT_EQ(argmin(vec({2, 1, 1})).item<int>(), 1);
  EXPECT_EQ(argmax(vec({1, kNaN, 3, kNaN})).item<int>(), 1);
  EXPECT_EQ(argmin(vec({1, kNaN, 0})).item<int>(), 1);
  EXPECT_THAT(values(argmax(kRows, 0)), ElementsAre(2, 2));
  EXPECT_EQ(argmax(kRows).dtype(), Dtype::I32);
  expect_error<ValueError>("is empty", [] { argmax(zeros({2, 0}), 1); });
  expect_error<ValueError>("takes one axis", [] {
    bind1(argmax_p, {kRows}, {{"axes", Dims{0, 1}}, {"index_dtype", Dtype::I32}});
  });
  expect_error<TypeError>("must be an integer type", [] {
    bind1(argmax_p, {kRows}, {{"axes", Dims{0}}, {"index_dtype", Dtype::F32}});
  });
}

TEST(OneHot, MarksThePosition) {
  EXPECT_THAT(values(one_hot(indices({1, 3}, {2}), 3)), ElementsAre(0, 1, 0, 0, 0, 0));
}

}  // namespace
}  // namespace etrace::testing
