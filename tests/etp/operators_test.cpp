// The eligibility-trace operators: values against plain loops, gradients against finite differences, identity
// under vmap, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "etrace/etp.h"
#include "etrace/interp.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "support/numeric.h"
#include "support/values.h"

namespace etrace {
namespace {

using testing::expect_error;
using ::testing::HasSubstr;

Array draw(std::uint64_t seed, const Shape& shape, Dtype dtype = Dtype::F64) {
  return random::uniform(random::key(seed), shape, dtype, -1.0, 1.0);
}
Array ints(const std::vector<std::int32_t>& values, const Shape& shape) { return Tensor::of(values, shape); }

// Elements by index.
class View {
 public:
  explicit View(const Array& a) : shape_(a.shape()), values_(a.tensor().to_doubles()) {}
  double operator()(std::initializer_list<std::int64_t> index) const {
    std::int64_t flat = 0;
    std::size_t axis = 0;
    for (const std::int64_t i : index) flat = flat * shape_[axis++] + i;
    return values_.at(static_cast<std::size_t>(flat));
  }
  const std::vector<double>& values() const { return values_; }

 private:
  Shape shape_;
  std::vector<double> values_;
};

void expect_near(const Array& found, const Array& expected, double tolerance = 1e-12) {
  EXPECT_EQ(testing::difference(found.tensor(), expected.tensor(), tolerance), std::nullopt);
}

Array from(const Shape& shape, const std::function<double(const Dims&)>& f) {
  std::vector<double> values;
  const Dims strides = strides_of(shape);
  for (std::int64_t flat = 0; flat < shape.size(); ++flat) {
    Dims index;
    for (std::size_t a = 0; a < shape.rank(); ++a) index.push_back(flat / strides[a] % shape[a]);
    values.push_back(f(index));
  }
  return Tensor::of(values, shape);
}

// d/dx Σ c·f(x) for a fixed random c: reverse mode against central differences, for each operand of f.
void expect_gradients(const Function& f, const Arrays& x) {
  const Array c = draw(99, f(x)[0].shape());
  const ScalarFunction loss = [&](ArraySpan a) { return sum(f(a)[0] * c); };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const View got(grad(loss, {static_cast<int>(i)})(x)[0]);
    const std::vector<double> at = x[i].tensor().to_doubles();
    for (std::size_t e = 0; e < at.size(); ++e) {
      auto value = [&](double step) {
        std::vector<double> moved = at;
        moved[e] += step;
        Arrays y = x;
        y[i] = Tensor::of(moved, x[i].shape());
        return loss(y).item<double>();
      };
      EXPECT_NEAR(got.values()[e], (value(1e-5) - value(-1e-5)) / 2e-5, 1e-8)
          << "operand " << i << " element " << e;
    }
  }
}

// f mapped over its first argument: the recorded program holds `prim`, and the values are those of the loop.
void expect_promotion(const Primitive& prim, const std::function<Array(const Array&)>& f, const Array& xs) {
  const Function mapped = vmap([&](ArraySpan x) -> Arrays { return {f(x[0])}; });
  const ClosedJaxpr program = make_jaxpr(mapped, std::vector<Aval>{xs.aval()});
  ASSERT_EQ(program.jaxpr.eqns.size(), 1U) << to_string(program);
  EXPECT_EQ(program.jaxpr.eqns[0].prim, &prim) << to_string(program);
  Arrays rows;
  for (std::int64_t i = 0; i < xs.dim(0); ++i) rows.push_back(f(squeeze(slice_axis(xs, 0, i, i + 1), {0})));
  expect_near(mapped({&xs, 1})[0], stack(rows));
}

const WeightFn kSin = [](const Array& a) { return sin(a); };
const WeightFn kTanh = [](const Array& a) { return tanh(a); };

// Dense -----------------------------------------------------------------------------------------------------
TEST(EtpMatmul, BatchedWithBiasAndFunctions) {
  const Array x = draw(1, {3, 4}), w = draw(2, {4, 5}), b = draw(3, {5});
  const View X(x), W(w), B(b);
  auto product = [&](const Dims& i, bool functions) {
    double y = functions ? std::tanh(B({i[1]})) : 0.0;
    for (std::int64_t k = 0; k < 4; ++k)
      y += X({i[0], k}) * (functions ? std::sin(W({k, i[1]})) : W({k, i[1]}));
    return y;
  };
  expect_near(matmul(x, w), from({3, 5}, [&](const Dims& i) { return product(i, false); }));
  expect_near(matmul(x, w, b, {kSin, kTanh}), from({3, 5}, [&](const Dims& i) { return product(i, true); }));
}

TEST(EtpMatmul, VectorEqualsOneRow) {
  const Array x = draw(1, {4}), w = draw(2, {4, 5}), b = draw(3, {5});
  expect_near(matmul(x, w, b), squeeze(matmul(expand_dims(x, {0}), w, b), {0}));
}

TEST(EtpMatmul, Gradients) {
  const Function f = [](ArraySpan a) -> Arrays { return {matmul(a[0], a[1], a[2], {kSin, kTanh})}; };
  expect_gradients(f, {draw(1, {2, 3}), draw(2, {3, 2}), draw(3, {2})});
  expect_gradients(f, {draw(1, {3}), draw(2, {3, 2}), draw(3, {2})});
}

TEST(EtpMatmul, KeepsItsIdentityUnderDifferentiation) {
  const Array w = draw(2, {3, 2});
  const Function f = vjp([&](ArraySpan a) -> Arrays { return {matmul(a[0], w)}; });
  const ClosedJaxpr program = make_jaxpr(f, std::vector<Aval>{{Dtype::F64, {3}}, {Dtype::F64, {2}}});
  EXPECT_THAT(to_string(program), HasSubstr("etp_mv"));
}

TEST(EtpMatmul, IntegersAndBooleansAsData) {
  const Array w = draw(2, {3, 2}, Dtype::F32);
  const Array x = ints({1, 0, -2}, {3});
  expect_near(matmul(x, w), matmul(convert(x, Dtype::F32), w));
  const Array spikes = greater(x, 0);
  expect_near(matmul(spikes, w), matmul(convert(spikes, Dtype::F32), w));
  const Function tangent = jvp([&](ArraySpan a) -> Arrays { return {matmul(x, a[0])}; });
  expect_near(tangent(Arrays{w, w})[1], matmul(x, w), 1e-6);
}

TEST(EtpMatmul, VmapOverDataAloneGivesTheBatchedForm) {
  const Array w = draw(2, {3, 2}), b = draw(3, {2});
  expect_promotion(
      etp_mm_p,
      [&](const Array& x) {
        return matmul(x, w, b, {kSin, kTanh});
      },
      draw(1, {4, 3}));
}

TEST(EtpMatmul, VmapOverWeightsOrBatchesKeepsTheValues) {
  const Array x = draw(1, {3}), ws = draw(2, {4, 3, 2}), xs = draw(3, {4, 2, 3});
  const Arrays over_w = vmap([&](ArraySpan w) -> Arrays {
    return {matmul(x, w[0], {}, {kSin, {}})};
  })({&ws, 1});
  expect_near(over_w[0], einsum_plain("i,bio->bo", Arrays{x, sin(ws)}));
  const Array w = draw(4, {3, 2});
  const Arrays over_x = vmap([&](ArraySpan a) -> Arrays { return {matmul(a[0], w)}; })({&xs, 1});
  expect_near(over_x[0], einsum_plain("nbi,io->nbo", Arrays{xs, w}));
}

TEST(EtpMatmul, FunctionsMayHoldConstantsButNoTracedValues) {
  const Array x = draw(1, {3}), w = draw(2, {3, 2}), mask = draw(3, {3, 2});
  const WeightFn masked = [&](const Array& a) { return a * mask; };
  expect_near(matmul(x, w, {}, {masked, {}}), matmul(x, w * mask));
  expect_error<CompilationError>("weight_fn uses a traced value", [&] {
    make_jaxpr(
        [&](ArraySpan a) -> Arrays {
          return {matmul(x, w, {}, {[&](const Array& v) { return v * a[0]; }, {}})};
        },
        std::vector<Aval>{mask.aval()});
  });
}

TEST(EtpMatmul, FunctionsMayChangeTheShape) {
  const Array x = draw(1, {3}), w = draw(2, {2, 3}), b = draw(3, {1});
  const WeightFn turned = [](const Array&a) { return transpose(a); }, twice = [](const Array&a) {
    return concatenate(Arrays{a, a});
  };
  expect_near(matmul(x, w, b, {turned, twice}), matmul(x, transpose(w), concatenate(Arrays{b, b})));
}

TEST(EtpMatmul, Errors) {
  const Array w = draw(2, {3, 2});
  expect_error<ValueError>("einsum", [&] { matmul(draw(1, {2, 2, 3}), w); });
  expect_error<ValueError>("einsum", [&] { matmul(draw(1, {}), w); });
  expect_error<ValueError>("weight has shape [3,2], expected [4,any]", [&] { matmul(draw(1, {4}), w); });
  expect_error<ValueError>("expected [3,any]", [&] { matmul(draw(1, {3}), draw(1, {3})); });
  expect_error<ValueError>("bias has shape [3], expected [2]",
                           [&] { matmul(draw(1, {3}), w, draw(3, {3})); });
  expect_error<ValueError>(
      "weight has shape [], expected [3,any] (x f64[3], weight f64[3,2], by weight_fn f64[])", [&] {
        matmul(draw(1, {3}), w, {}, {[](const Array& a) { return sum(a); }, {}});
      });
  expect_error<TypeError>("must keep its element type", [&] {
    matmul(draw(1, {3}), w, {}, {[](const Array& a) { return convert(a, Dtype::F32); }, {}});
  });
  expect_error<TypeError>("bool", [&] { matmul(greater(draw(1, {3}), 0.0), greater(w, 0.0)); });
  expect_error<CompilationError>("x, weight, bias", [&] {
    bind1(etp_mm_p, {draw(1, {2, 3}), w}, {{"has_bias", true}});
  });
  expect_error<ValueError>("x has shape [3], expected [any,any]", [&] {
    bind1(etp_mm_p, {draw(1, {3}), w});
  });
}

// Grouped ---------------------------------------------------------------------------------------------------
TEST(EtpGroupedMatmul, EqualsOneProductPerGroup) {
  const Array x = draw(1, {2, 3, 4}), w = draw(2, {3, 4, 5}), b = draw(3, {3, 5});
  const View X(x), W(w), B(b);
  const Array want = from({2, 3, 5}, [&](const Dims& i) {
    double y = std::tanh(B({i[1], i[2]}));
    for (std::int64_t k = 0; k < 4; ++k) y += X({i[0], i[1], k}) * std::sin(W({i[1], k, i[2]}));
    return y;
  });
  expect_near(grouped_matmul(x, w, b, {kSin, kTanh}), want);
  const Array first = squeeze(slice_axis(x, 0, 0, 1), {0});
  expect_near(grouped_matmul(first, w, b, {kSin, kTanh}), squeeze(slice_axis(want, 0, 0, 1), {0}));
}

TEST(EtpGroupedMatmul, GradientsAndPromotion) {
  const Function f = [](ArraySpan a) -> Arrays { return {grouped_matmul(a[0], a[1], a[2], {kSin, kTanh})}; };
  expect_gradients(f, {draw(1, {2, 2, 3}), draw(2, {2, 3, 2}), draw(3, {2, 2})});
  const Array w = draw(2, {2, 3, 2});
  expect_promotion(
      etp_gmm_p, [&](const Array& x) { return grouped_matmul(x, w); }, draw(1, {4, 2, 3}));
}

TEST(EtpGroupedMatmul, Errors) {
  expect_error<ValueError>("weight has shape [3,4]", [] {
    grouped_matmul(draw(1, {2, 3}), draw(2, {3, 4}));
  });
  expect_error<ValueError>("[groups, features]", [] { grouped_matmul(draw(1, {3}), draw(2, {2, 3, 4})); });
  expect_error<ValueError>("expected [2,3]", [] { grouped_matmul(draw(1, {2, 4}), draw(2, {2, 3, 4})); });
}

// Embedding -------------------------------------------------------------------------------------------------
TEST(EtpEmbedding, LooksUpWrapsOnceAndMarksTheRest) {
  const Array table = draw(1, {4, 3});
  const View T(table);
  const View y(embedding(ints({2, -1, 4, -5, 0}, {5}), table, kSin));
  for (std::int64_t d = 0; d < 3; ++d) {
    EXPECT_DOUBLE_EQ(y({0, d}), std::sin(T({2, d})));
    EXPECT_DOUBLE_EQ(y({1, d}), std::sin(T({3, d})));
    EXPECT_TRUE(std::isnan(y({2, d})));
    EXPECT_TRUE(std::isnan(y({3, d})));
    EXPECT_DOUBLE_EQ(y({4, d}), std::sin(T({0, d})));
  }
  expect_near(embedding(ints({-2}, {}), table), squeeze(slice_axis(table, 0, 2, 3), {0}));
}

TEST(EtpEmbedding, RepeatedIndicesAddUpInTheGradient) {
  const Array indices = ints({1, 3, 1, -1}, {4});
  expect_gradients([&](ArraySpan a) -> Arrays { return {embedding(indices, a[0], kSin)}; },
                   {draw(1, {4, 2})});
  const Array out_of_range = ints({9, 1}, {2});
  const Array g =
      grad([&](ArraySpan a) { return sum(embedding(out_of_range, a[0])); })(Arrays{draw(1, {3, 2})})[0];
  expect_near(g, array({0, 0, 1, 1, 0, 0}, {3, 2}, Dtype::F64));
}

TEST(EtpEmbedding, PromotionAndRepresentation) {
  const Array table = draw(1, {4, 3});
  const Array indices = ints({1, 3, -4, 1}, {4});
  expect_promotion(
      etp_emb_p, [&](const Array& i) { return embedding(i, table, kTanh); }, indices);
  const Array rows = etp_rules(etp_emb_p)->x_representation({}, indices, avals_of(Arrays{indices, table}));
  expect_near(matmul(rows, table), embedding(indices, table));
}

TEST(EtpEmbedding, Errors) {
  const Array table = draw(1, {4, 3});
  expect_error<TypeError>("expected integers", [&] { embedding(draw(1, {2}), table); });
  expect_error<TypeError>("expected integers", [&] { embedding(draw(1, {2, 2}), table); });
  expect_error<NotSupportedError>("reshape", [&] { embedding(ints({1, 2}, {1, 2}), table); });
  expect_error<ValueError>("weight has shape [4]", [&] { embedding(ints({1, 2}, {2}), draw(1, {4})); });
}

// Einsum ----------------------------------------------------------------------------------------------------
TEST(EtpEinsum, Values) {
  const Array x = draw(1, {2, 3, 4}), w = draw(2, {4, 5}), heads = draw(3, {3, 4, 2});
  const View X(x), W(w), H(heads);
  expect_near(einsum("btk, kn -> btn", x, w, kSin), from({2, 3, 5}, [&](const Dims& i) {
                double y = 0.0;
                for (std::int64_t k = 0; k < 4; ++k) y += X({i[0], i[1], k}) * std::sin(W({k, i[2]}));
                return y;
              }));
  expect_near(einsum("bhd,hde->bhe", x, heads), from({2, 3, 2}, [&](const Dims& i) {
                double y = 0.0;
                for (std::int64_t k = 0; k < 4; ++k) y += X({i[0], i[1], k}) * H({i[1], k, i[2]});
                return y;
              }));
  const Array flat = draw(4, {2, 4});
  expect_near(einsum("bk,kn->bn", flat, w), matmul(flat, w));
  expect_gradients([](ArraySpan a) -> Arrays { return {einsum("btk,kn->bnt", a[0], a[1], kSin)}; },
                   {draw(1, {2, 2, 3}), draw(2, {3, 2})});
}

TEST(EtpEinsum, RefusedEquations) {
  const Array x = draw(1, {2, 3}), w = draw(2, {3, 4});
  for (const char* equation :
       {"bk,kn", "bk->b", "bk,kn,n->bn", "bK,Kn->bn", "b...,kn->bn", "bkk,kn->bn", "bk,bn->bn", "bk,kn->bz",
        "bk,kz->bk", "kb,kn->bn", ",kn->bn", "bk,->bk", "bk,kn->"})
    expect_error<ValueError>("the equation", [&] { einsum(equation, x, w); });
  expect_error<ValueError>("x has shape [2,3], expected [any,any,any]", [&] { einsum("btk,kn->btn", x, w); });
  expect_error<ValueError>("weight has shape [4,4], expected [3,any]", [&] {
    einsum("bk,kn->bn", x, draw(2, {4, 4}));
  });
}

// Element-wise ----------------------------------------------------------------------------------------------
TEST(EtpElementWise, Values) {
  const Array w = draw(1, {2, 3});
  expect_near(element_wise(w), w);
  expect_near(element_wise(w, kTanh), tanh(w));
  expect_gradients([](ArraySpan a) -> Arrays { return {element_wise(a[0], kTanh)}; }, {w});
  const Arrays ran = to_arrays(evaluate(
      make_jaxpr([](ArraySpan a) -> Arrays { return {element_wise(a[0])}; }, std::vector<Aval>{w.aval()}),
      Tensors{w.tensor()}));
  expect_near(ran[0], w);
  EXPECT_TRUE(etp_rules(etp_elemwise_p)->gradient_enabled);
  EXPECT_FALSE(etp_rules(etp_elemwise_p)->x_operand.has_value());
}

// Convolution -----------------------------------------------------------------------------------------------
TEST(EtpConv, KnownValues) {
  const Array x = array({1, 2, -1}, {1, 1, 3}, Dtype::F64), k = array({0.5, -1, 0.25}, {1, 1, 3}, Dtype::F64);
  expect_near(conv(x, k), array({-0.5, -1.75, 2}, {1, 1, 3}, Dtype::F64));
}

TEST(EtpConv, TwoDimensionsChannelLast) {
  const Array x = draw(1, {2, 5, 4, 3}), k = draw(2, {3, 2, 3, 2}), b = draw(3, {2});
  const View X(x), K(k), B(b);
  EtpConvOptions options;
  options.strides = {2, 1};
  options.explicit_padding = {{1, 2}, {0, 1}};
  options.rhs_dilation = {1, 2};
  options.layout = {"NHWC", "HWIO", "NHWC"};
  options.kernel_fn = kSin;
  options.bias_fn = kTanh;
  // padded 8 x 5, reach 3 x 3
  expect_near(conv(x, k, b, options), from({2, 3, 3, 2}, [&](const Dims& i) {
                double y = std::tanh(B({i[3]}));
                for (std::int64_t u = 0; u < 3; ++u)
                  for (std::int64_t v = 0; v < 2; ++v)
                    for (std::int64_t c = 0; c < 3; ++c) {
                      const std::int64_t row = i[1] * 2 + u - 1, col = i[2] + 2 * v;
                      if (row < 0 || row >= 5 || col < 0 || col >= 4) continue;
                      y += X({i[0], row, col, c}) * std::sin(K({u, v, c, i[3]}));
                    }
                return y;
              }));
}

TEST(EtpConv, BiasRankOneStandsOnTheChannelAxisEvenIfSpaceHasItsLength) {
  const Array x = zeros({1, 1, 2}, Dtype::F64), k = zeros({2, 1, 1}, Dtype::F64);
  const Array b = array({1, 2}, {2}, Dtype::F64);
  expect_near(conv(x, k, b), array({1, 1, 2, 2}, {1, 2, 2}, Dtype::F64));
  const Array per_place = array({1, 2}, {1, 2}, Dtype::F64);  // as given: along the last axis
  expect_near(conv(x, k, per_place), array({1, 2, 1, 2}, {1, 2, 2}, Dtype::F64));
}

TEST(EtpConv, PaddingStridesGroupsAndGradients) {
  const Array k = draw(2, {4, 1, 3}), b = draw(3, {4, 1});
  EtpConvOptions grouped;
  grouped.strides = {2};
  grouped.feature_group_count = 2;
  EXPECT_EQ(conv(draw(1, {3, 2, 7}), k, b, grouped).shape(), (Shape{3, 4, 4}));
  expect_gradients([&](ArraySpan a) -> Arrays { return {conv(a[0], a[1], a[2], grouped)}; },
                   {draw(1, {2, 2, 5}), k, b});
  EtpConvOptions valid;
  valid.padding = "VALID";
  EXPECT_EQ(conv(draw(1, {3, 1, 7}), k, {}, valid).shape(), (Shape{3, 4, 5}));
  EtpConvOptions dilated;
  dilated.rhs_dilation = {2};
  EXPECT_EQ(conv(draw(1, {3, 1, 8}), k, {}, dilated).shape(), (Shape{3, 4, 8}));
}

TEST(EtpConv, LayoutsInProgramsAreTriplesOrStrings) {
  const Array x = draw(1, {2, 5, 3}), k = draw(2, {3, 3, 4});
  const Attr triples =
      Attr::dict({{"lhs_spec", Dims{0, 2, 1}}, {"rhs_spec", Dims{2, 1, 0}}, {"out_spec", Dims{0, 2, 1}}});
  const Attr text = Attr::list({"NHC", "HIO", "NHC"});
  const Params rest{
      {"strides", Dims{1}}, {"padding", "SAME"}, {"lhs_dilation", nullptr}, {"rhs_dilation", nullptr}};
  EtpConvOptions options;
  options.layout = {"NHC", "HIO", "NHC"};
  const Array want = conv(x, k, {}, options);
  expect_near(bind1(etp_conv_p, {x, k}, rest.with("dimension_numbers", triples)), want);
  expect_near(bind1(etp_conv_p, {x, k}, rest.with("dimension_numbers", text)), want);
}

TEST(EtpConv, Errors) {
  const Array x = draw(1, {2, 3, 5}), k = draw(2, {4, 3, 3});
  auto with = [&](auto change) {
    EtpConvOptions options;
    change(options);
    return conv(x, k, {}, options);
  };
  expect_error<ValueError>("lhs_dilation", [&] { with([](auto& o) { o.lhs_dilation = {2}; }); });
  expect_error<ValueError>("expected SAME, VALID", [&] { with([](auto& o) { o.padding = "FULL"; }); });
  expect_error<ValueError>("strides has 2 entries", [&] { with([](auto& o) { o.strides = {1, 1}; }); });
  expect_error<ValueError>("must be positive", [&] { with([](auto& o) { o.strides = {0}; }); });
  expect_error<ValueError>("letter 'H'", [&] { with([](auto& o) { o.layout = {"NCH", "OIH", "NCX"}; }); });
  expect_error<NotSupportedError>("first axis", [&] {
    with([](auto& o) { o.layout = {"HCN", "OIH", "HCN"}; });
  });
  expect_error<ValueError>("x has 3 channels, expected 6",
                           [&] { with([](auto& o) { o.feature_group_count = 2; }); });
  expect_error<ValueError>("strides has 1 entries", [&] {
    conv(draw(1, {2, 3, 5, 5}), draw(2, {4, 3, 3, 3}));
  });
  expect_error<ValueError>("spatial axes", [&] { conv(draw(1, {3, 5}), draw(2, {4, 3})); });
  expect_error<ValueError>("bias has shape [5], expected [4]", [&] { conv(x, k, draw(3, {5})); });
  expect_error<ValueError>("does not broadcast", [&] { conv(x, k, draw(3, {3, 5})); });
}

// Sparse ----------------------------------------------------------------------------------------------------
TEST(EtpSparseMatmul, AllKindsEqualTheDenseProduct) {
  const SparsePattern patterns[] = {
      SparsePattern::csr(3, 4, {0, 2, 2, 5}, {0, 3, 1, 2, 3}),
      SparsePattern::csc(3, 4, {0, 1, 1, 3, 5}, {2, 0, 1, 0, 2}),
      SparsePattern::coo(3, 4, {2, 0, 2, 1, 2}, {1, 1, 1, 3, 0}),  // one place twice: they add up
  };
  const Array w = draw(2, {5}), b = draw(3, {4});
  for (const SparsePattern& s : patterns) {
    const View W(w);
    std::vector<double> dense(12, 0.0);
    for (std::size_t p = 0; p < 5; ++p)
      dense[static_cast<std::size_t>(s.row()[p] * 4 + s.col()[p])] += std::sin(W.values()[p]);
    const Array full_weight = array(dense, {3, 4}, Dtype::F64);
    for (const Shape& shape : {Shape{3}, Shape{2, 3}, Shape{0, 3}}) {
      const Array x = draw(1, shape);
      expect_near(sparse_matmul(x, w, s, b, {kSin, kTanh}), matmul(x, full_weight, b, {{}, kTanh}));
    }
    expect_gradients(
        [&](ArraySpan a) -> Arrays {
          return {sparse_matmul(a[0], a[1], s, a[2], {kSin, kTanh})};
        },
        {draw(1, {2, 3}), w, b});
    expect_promotion(
        etp_sp_mm_p, [&](const Array& x) { return sparse_matmul(x, w, s, b); }, draw(1, {4, 3}));
    EXPECT_EQ(SparsePattern::from_attr(s.to_attr()).to_attr(), s.to_attr());
  }
}

TEST(EtpSparseMatmul, AdjacencyIsTheTransposedPatternOfASquare) {
  const Params square{{"sparse_mat", SparsePattern::csr(3, 3, {0, 1, 2, 3}, {1, 2, 0}).to_attr()}};
  const auto adjacency = etp_rules(etp_sp_mv_p)->adjacency;
  EXPECT_EQ(adjacency(square, 3), (std::vector<bool>{0, 0, 1, 1, 0, 0, 0, 1, 0}));
  EXPECT_TRUE(adjacency(square, 4).empty());
  const Params oblong{{"sparse_mat", SparsePattern::coo(2, 3, {0}, {2}).to_attr()}};
  EXPECT_TRUE(adjacency(oblong, 3).empty());
  EXPECT_EQ(etp_rules(etp_mv_p)->adjacency({}, 2), std::vector<bool>(4, true));
  EXPECT_TRUE(etp_rules(etp_conv_p)->adjacency == nullptr);
}

TEST(EtpSparseMatmul, Errors) {
  const SparsePattern s = SparsePattern::csr(3, 4, {0, 2, 2, 3}, {0, 3, 1});
  expect_error<ValueError>("[batch, features]", [&] { sparse_matmul(draw(1, {2, 2, 3}), draw(2, {3}), s); });
  expect_error<ValueError>("weight has shape [1], expected [3]",
                           [&] { sparse_matmul(draw(1, {3}), draw(2, {1}), s); });
  expect_error<ValueError>("x has shape [4], expected [3]",
                           [&] { sparse_matmul(draw(1, {4}), draw(2, {3}), s); });
  expect_error<ValueError>("indptr falls", [] { SparsePattern::csr(2, 2, {0, 2, 1}, {0}); });
  expect_error<ValueError>("indptr has 2 entries", [] { SparsePattern::csr(2, 2, {0, 1}, {0}); });
  expect_error<ValueError>("begins with 1", [] { SparsePattern::csr(1, 2, {1, 1}, {0}); });
  expect_error<ValueError>("ends with 2", [] { SparsePattern::csr(1, 2, {0, 2}, {0}); });
  expect_error<ValueError>("indptr", [] { SparsePattern::csr(3, 2, {0, 9, 9, 1}, {0}); });
  expect_error<ValueError>("row 2", [] { SparsePattern::csc(2, 1, {0, 1}, {2}); });
  expect_error<ValueError>("2 row and 1 column", [] { SparsePattern::coo(2, 2, {0, 1}, {1}); });
  expect_error<ValueError>("rows -1", [] { SparsePattern::coo(-1, 2, {}, {}); });
  expect_error<ValueError>("rows -1", [] { SparsePattern::csr(-1, 2, {}, {}); });
  expect_error<CompilationError>("record", [] { SparsePattern::from_attr(Attr("csr")); });
  expect_error<CompilationError>("unknown kind", [] {
    SparsePattern::from_attr(Attr::dict({{"kind", "ell"}, {"shape", Dims{1, 1}}}));
  });
  expect_error<CompilationError>("row 4", [] {
    SparsePattern::from_attr(
        Attr::dict({{"kind", "coo"}, {"shape", Dims{1, 1}}, {"row", Dims{4}}, {"col", Dims{0}}}));
  });
}

// Low rank --------------------------------------------------------------------------------------------------
TEST(EtpLoraMatmul, ValuesGradientsPromotion) {
  const Array b = draw(2, {4, 2}), a = draw(3, {2, 3}), bias = draw(4, {3});
  const LoraOptions options{0.5, kTanh, kSin, kTanh};
  for (const Shape& shape : {Shape{4}, Shape{3, 4}}) {
    const Array x = draw(1, shape);
    expect_near(lora_matmul(x, b, a, bias, options),
                matmul(x, 0.5 * matmul_plain(tanh(b), sin(a)), bias, {{}, kTanh}));
    expect_near(lora_matmul(x, b, a), matmul(x, matmul_plain(b, a)));
    expect_gradients([&](ArraySpan v) -> Arrays { return {lora_matmul(v[0], v[1], v[2], v[3], options)}; },
                     {x, b, a, bias});
  }
  expect_promotion(
      etp_lora_mm_p, [&](const Array& x) { return lora_matmul(x, b, a, bias, options); }, draw(1, {5, 4}));
}

TEST(EtpLoraMatmul, Errors) {
  const Array b = draw(2, {4, 2}), a = draw(3, {2, 3});
  expect_error<ValueError>("fold the leading axes", [&] { lora_matmul(draw(1, {2, 2, 4}), b, a); });
  expect_error<ValueError>("lora_a has shape [3,3], expected [2,any]", [&] {
    lora_matmul(draw(1, {4}), b, draw(3, {3, 3}));
  });
  expect_error<ValueError>("lora_b has shape [4,2], expected [5,any]",
                           [&] { lora_matmul(draw(1, {5}), b, a); });
  expect_error<TypeError>("float32", [&] {
    lora_matmul(ints({1}, {1}), ints({1}, {1, 1}), ints({1}, {1, 1}));
  });
}

}  // namespace
}  // namespace etrace
