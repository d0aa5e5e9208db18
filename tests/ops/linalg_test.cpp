// Products: against plain loops over all indices, and what they say about operands that do not fit.
#include <map>

#include "etrace/transform.h"
#include "runtime/thread_pool.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace::testing {
namespace {

using ::testing::ElementsAre;

constexpr double kTight = 1e-12;

std::size_t index(std::int64_t i) { return static_cast<std::size_t>(i); }

// Σ over all assignments of sizes to letters: what an einsum means, term by term.
Tensor naive_einsum(const std::vector<std::string>& inputs, const std::string& output, ArraySpan operands) {
  std::map<char, std::int64_t> size, at;
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t a = 0; a < inputs[i].size(); ++a) size[inputs[i][a]] = operands[i].shape()[a];
  auto offset = [&](const std::string& labels) {
    std::int64_t flat = 0;
    for (const char c : labels) flat = flat * size[c] + at[c];
    return index(flat);
  };
  Dims shape;
  for (const char c : output) shape.push_back(size[c]);
  std::vector<double> y(index(Shape(shape).size()), 0.0);
  std::int64_t total = 1;
  for (const auto& [label, n] : size) total *= n;
  for (std::int64_t t = 0; t < total; ++t) {
    std::int64_t rest = t;
    for (const auto& [label, n] : size) {
      at[label] = rest % n;
      rest /= n;
    }
    double term = 1.0;
    for (std::size_t i = 0; i < inputs.size(); ++i)
      term *= operands[i].tensor().data<double>()[offset(inputs[i])];
    y[offset(output)] += term;
  }
  return Tensor::of(y, Shape(shape));
}

void expect_einsum(const std::vector<std::string>& inputs, const std::string& output, ArraySpan operands) {
  std::string equation;
  for (const std::string& labels : inputs) equation += (equation.empty() ? "" : ",") + labels;
  equation += "->" + output;
  const auto d =
      difference(einsum_plain(equation, operands).tensor(), naive_einsum(inputs, output, operands), kTight);
  EXPECT_FALSE(d.has_value()) << equation << ": " << *d;
}

TEST(DotGeneral, AgreesWithLoops) {
  Random r(3);
  expect_einsum({"ij", "jk"}, "ik", Arrays{r.f64({3, 5}), r.f64({5, 4})});
  expect_einsum({"ji", "kj"}, "ik", Arrays{r.f64({5, 3}), r.f64({4, 5})});
  expect_einsum({"bij", "bjk"}, "bik", Arrays{r.f64({2, 3, 5}), r.f64({2, 5, 4})});
  expect_einsum({"ibj", "jkb"}, "bik", Arrays{r.f64({3, 2, 5}), r.f64({5, 4, 2})});
  expect_einsum({"aibj", "jcai"}, "bc", Arrays{r.f64({2, 3, 4, 5}), r.f64({5, 6, 2, 3})});
  expect_einsum({"i", "i"}, "", Arrays{r.f64({7}), r.f64({7})});
  expect_einsum({"i", "j"}, "ij", Arrays{r.f64({3}), r.f64({4})});
  expect_einsum({"ij", "j"}, "i", Arrays{r.f64({97, 65}), r.f64({65})});
}

TEST(DotGeneral, EmptyAxes) {
  EXPECT_THAT(values(dot(zeros({2, 0}), zeros({0, 2}))), ElementsAre(0, 0, 0, 0));
  EXPECT_EQ(dot(zeros({0, 3}), zeros({3, 2})).shape(), (Shape{0, 2}));
}

TEST(DotGeneral, ResultTypes) {
  const Array a = vec({1, 2}, Dtype::I32), b = vec({3, 4}, Dtype::I32);
  EXPECT_EQ(dot(a, b).dtype(), Dtype::I32);
  EXPECT_EQ(dot(a, b).item<int>(), 11);
  EXPECT_EQ(dot(a, vec({0.5, 0.25})).item<double>(), 1.0);
  const Array big = vec({65536, 65536}, Dtype::I32);
  Params p{{"dimension_numbers", Attr::list({Attr::list({Dims{0}, Dims{0}}), Attr::list({Dims{}, Dims{}})})}};
  EXPECT_EQ(bind1(dot_general_p, {big, big}, p).item<double>(), 0.0);  // wraps around
  EXPECT_EQ(bind1(dot_general_p, {big, big}, p.with("preferred_element_type", "int64")).item<double>(),
            8589934592.0);
  // 2^24 + 1 is no float: with doubles inside, the difference survives.
  const Array x = vec({16777216, 1, -16777216}), one = vec({1, 1, 1});
  EXPECT_EQ(bind1(dot_general_p, {x, one}, p.with("preferred_element_type", "float64")).item<double>(), 1.0);
}

TEST(DotGeneral, DoesNotDependOnThreads) {
  Random r(9);
  const Array a = r.tensor({Dtype::F32, {130, 300}}), b = r.tensor({Dtype::F32, {300, 257}});
  set_num_threads(1);
  const Tensor one = dot(a, b).tensor();
  set_num_threads(3);
  EXPECT_EQ(dot(a, b).tensor(), one);
  EXPECT_EQ(transpose(dot(transpose(b), transpose(a))).tensor(), one);
  set_num_threads(1);
}

TEST(DotGeneral, ExplainsMisfits) {
  const Array m = array({{1, 2, 3}, {4, 5, 6}});
  expect_error<ValueError>("differ in size along their contracted axes 1 and 0", [&] { dot(m, m); });
  expect_error<TypeError>("does not compute on bool", [&] {
    const Array t = full({2}, true, Dtype::Bool);
    dot(t, t);
  });
  expect_error<ValueError>("must come in pairs", [&] { dot_general(m, m, {{1}, {}, {}, {}}); });
  expect_error<ValueError>("twice", [&] { dot_general(m, m, {{1, 1}, {1, 1}, {}, {}}); });
  expect_error<CompilationError>("[[lhs_contract, rhs_contract]", [&] { bind1(dot_general_p, {m, m}, {}); });
  expect_error<TypeError>("cannot hold", [&] {
    bind1(dot_general_p, {m, m},
          {{"dimension_numbers", Attr::list({Attr::list({Dims{1}, Dims{1}}), Attr::list({Dims{}, Dims{}})})},
           {"preferred_element_type", Dtype::I32}});
  });
}

TEST(Einsum, ManyOperandsDiagonalsAndSums) {
  Random r(4);
  expect_einsum({"ij", "jk", "kl"}, "il", Arrays{r.f64({2, 3}), r.f64({3, 4}), r.f64({4, 5})});
  expect_einsum({"i", "i", "i"}, "i", Arrays{r.f64({4}), r.f64({4}), r.f64({4})});
  expect_einsum({"ij", "kj", "j"}, "ki", Arrays{r.f64({2, 3}), r.f64({4, 3}), r.f64({3})});
  expect_einsum({"ii"}, "i", Arrays{r.f64({4, 4})});
  expect_einsum({"ii"}, "", Arrays{r.f64({4, 4})});
  expect_einsum({"iji"}, "ji", Arrays{r.f64({3, 2, 3})});
  expect_einsum({"iii"}, "i", Arrays{r.f64({3, 3, 3})});
  expect_einsum({"ijk"}, "kj", Arrays{r.f64({2, 3, 4})});
  expect_einsum({"ij", "kl"}, "jl", Arrays{r.f64({2, 3}), r.f64({4, 5})});
  expect_einsum({"ii", "ij"}, "j", Arrays{r.f64({3, 3}), r.f64({3, 4})});
}

TEST(Einsum, ImplicitResultAndEllipsis) {
  Random r(6);
  const Array a = r.f64({2, 3}), b = r.f64({3, 4}), c = r.f64({5, 2, 3});
  EXPECT_EQ(einsum_plain("ij,jk", Arrays{a, b}).tensor(), dot(a, b).tensor());
  EXPECT_EQ(einsum_plain("ba", Arrays{a}).tensor(), transpose(a).tensor());
  EXPECT_EQ(einsum_plain("...j,jk", Arrays{c, b}).shape(), (Shape{5, 2, 4}));
  EXPECT_EQ(einsum_plain("...i->i...", Arrays{c}).tensor(), moveaxis(c, -1, 0).tensor());
  EXPECT_EQ(einsum_plain("...ij,...jk->...ik", Arrays{c, b}).shape(), (Shape{5, 2, 4}));
  EXPECT_EQ(einsum_plain(" i j -> i ", Arrays{a}).tensor(), sum(a, {1}).tensor());
}

TEST(Einsum, ExplainsMisfits) {
  const Array a = zeros({2, 3});
  expect_error<ValueError>("has 2 operands, but got 1", [&] { einsum_plain("ij,jk", Arrays{a}); });
  expect_error<ValueError>("names 1 axes of operand 0", [&] { einsum_plain("i", Arrays{a}); });
  expect_error<ValueError>("has the sizes 3 and 2", [&] { einsum_plain("ij,jk", Arrays{a, a}); });
  expect_error<ValueError>("no operand has it", [&] { einsum_plain("ij->k", Arrays{a}); });
  expect_error<ValueError>("twice in the result", [&] { einsum_plain("ij->ii", Arrays{a}); });
  expect_error<ValueError>("axes are named by letters", [&] { einsum_plain("i1", Arrays{a}); });
  expect_error<ValueError>("occurs twice in an operand", [&] { einsum_plain("ii", Arrays{a}); });
}

TEST(Matmul, FollowsNumpy) {
  Random r(8);
  EXPECT_EQ(matmul_plain(r.f64({3}), r.f64({3})).shape(), (Shape{}));
  EXPECT_EQ(matmul_plain(r.f64({3}), r.f64({3, 4})).shape(), (Shape{4}));
  EXPECT_EQ(matmul_plain(r.f64({2, 3}), r.f64({3})).shape(), (Shape{2}));
  EXPECT_EQ(matmul_plain(r.f64({5, 1, 2, 3}), r.f64({4, 3, 6})).shape(), (Shape{5, 4, 2, 6}));
  EXPECT_THAT(values(outer(vec({1, 2}), vec({3, 4}))), ElementsAre(3, 4, 6, 8));
  expect_error<ValueError>("use * to scale", [] { matmul_plain(Array(1.0), vec({1})); });
}

// The definition, tap by tap, for axes in the usual order.
Tensor naive_conv(const Array& x, const Array& w, const ConvOptions& o, const Shape& out) {
  const Shape &xs = x.shape(), &ws = w.shape();
  const std::size_t spatial = xs.rank() - 2;
  const Dims x_strides = strides_of(xs), w_strides = strides_of(ws), y_strides = strides_of(out);
  const std::int64_t groups = o.feature_group_count * o.batch_group_count, per_group = out[1] / groups;
  std::vector<double> y(index(out.size()), 0.0);
  for (std::int64_t flat = 0; flat < out.size(); ++flat)
    for (std::int64_t tap = 0; tap < ws.size() / std::max<std::int64_t>(1, ws[0]); ++tap) {
      auto y_at = [&](std::size_t a) { return flat / y_strides[a] % out[a]; };
      auto w_at = [&](std::size_t a) { return tap / w_strides[a] % ws[a]; };
      const std::int64_t group = y_at(1) / per_group;
      const std::int64_t image = o.batch_group_count > 1 ? group * out[0] + y_at(0) : y_at(0);
      const std::int64_t channel = o.feature_group_count > 1 ? group * ws[1] + w_at(1) : w_at(1);
      std::int64_t from = image * x_strides[0] + channel * x_strides[1];
      bool seen = true;
      for (std::size_t d = 0; d < spatial; ++d) {
        const std::int64_t at =
            y_at(d + 2) * o.strides[d] - o.padding[d].first + w_at(d + 2) * o.rhs_dilation[d];
        seen = seen && at >= 0 && at % o.lhs_dilation[d] == 0 && at / o.lhs_dilation[d] < xs[d + 2];
        from += at / o.lhs_dilation[d] * x_strides[d + 2];
      }
      if (seen)
        y[index(flat)] += x.tensor().data<double>()[index(from)] *
                          w.tensor().data<double>()[index(y_at(1) * w_strides[0] + tap)];
    }
  return Tensor::of(y, out);
}

TEST(Conv, AgreesWithLoops) {
  Random r(7);
  auto check = [&](const Shape& x_shape, const Shape& w_shape, ConvOptions o, const Shape& expected) {
    const Array x = r.f64(x_shape), w = r.f64(w_shape);
    const Tensor y = conv_general_dilated(x, w, o).tensor();
    ASSERT_EQ(y.shape(), expected);
    const std::size_t spatial = x_shape.rank() - 2;
    for (Dims* list : {&o.strides, &o.lhs_dilation, &o.rhs_dilation})
      if (list->empty()) list->assign(spatial, 1);
    if (o.padding.empty()) o.padding.assign(spatial, {0, 0});
    const auto d = difference(y, naive_conv(x, w, o, expected), kTight);
    EXPECT_FALSE(d.has_value()) << to_string(x_shape) << " " << to_string(w_shape) << ": " << *d;
  };
  check({2, 3, 9}, {4, 3, 3}, {}, {2, 4, 7});
  check({2, 3, 9}, {4, 3, 3}, {.strides = {2}, .padding = {{1, 2}}}, {2, 4, 5});
  check({1, 2, 7, 6}, {3, 2, 3, 2}, {.strides = {2, 1}, .padding = {{1, 1}, {0, 1}}}, {1, 3, 4, 6});
  check({1, 2, 5}, {2, 2, 3}, {.padding = {{2, 3}}, .lhs_dilation = {3}, .rhs_dilation = {2}}, {1, 2, 14});
  check({1, 2, 8}, {2, 2, 3}, {.padding = {{-2, -1}}}, {1, 2, 3});
  check({2, 6, 8}, {4, 3, 3}, {.feature_group_count = 2}, {2, 4, 6});
  check({6, 2, 8}, {6, 2, 3}, {.batch_group_count = 3}, {2, 6, 6});
  check({1, 1, 4, 3, 5}, {2, 1, 2, 2, 2}, {.strides = {1, 1, 2}}, {1, 2, 3, 2, 2});
  check({1, 1, 2}, {1, 1, 5}, {}, {1, 1, 0});
  check({3, 2}, {4, 2}, {}, {3, 4});
  check({1, 9, 400}, {2, 9, 5}, {}, {1, 2, 396});  // more than one stretch of patches
}

TEST(Conv, AnyOrderOfAxes) {
  Random r(2);
  const Array x = r.f64({2, 3, 6, 5}), w = r.f64({4, 3, 2, 3});
  const Tensor usual = conv_general_dilated(x, w, {}).tensor();
  ConvOptions o;
  o.lhs_spec = o.out_spec = {0, 3, 1, 2};
  o.rhs_spec = {3, 2, 0, 1};
  const Array y = conv_general_dilated(transpose(x, {0, 2, 3, 1}), transpose(w, {2, 3, 1, 0}), o);
  EXPECT_EQ(transpose(y, {0, 3, 1, 2}).tensor(), usual);
}

TEST(Conv, SamePaddingKeepsTheSize) {
  EXPECT_THAT(same_padding({5, 6}, {3, 4}, {1, 1}, {1, 1}), ElementsAre(std::pair(1, 1), std::pair(1, 2)));
  EXPECT_THAT(same_padding({7}, {3}, {2}, {2}), ElementsAre(std::pair(2, 2)));
  EXPECT_THAT(same_padding({4}, {1}, {3}, {}), ElementsAre(std::pair(0, 0)));
}

TEST(Conv, ExplainsMisfits) {
  const Array x = zeros({2, 3, 9}), w = zeros({4, 3, 3});
  expect_error<ValueError>("has 3 features, but kernel", [&] {
    conv_general_dilated(x, zeros({4, 2, 3}), {});
  });
  expect_error<ValueError>("must have the same rank", [&] { conv_general_dilated(x, zeros({4, 3}), {}); });
  expect_error<ValueError>("must be positive", [&] { conv_general_dilated(x, w, {.strides = {0}}); });
  expect_error<ValueError>("one entry for each", [&] { conv_general_dilated(x, w, {.strides = {1, 1}}); });
  expect_error<ValueError>("the groups must divide", [&] {
    conv_general_dilated(x, zeros({4, 1, 3}), {.feature_group_count = 3});
  });
  expect_error<TypeError>("does not compute on bool", [&] {
    conv_general_dilated(convert(x, Dtype::Bool), convert(w, Dtype::Bool), {});
  });
}

}  // namespace
}  // namespace etrace::testing
