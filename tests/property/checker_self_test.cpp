// The checker must notice wrong rules: each row here is wrong in one way, and the property that covers it
// must say so.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "etrace/axes.h"
#include "etrace/facts.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "support/check_primitive.h"
#include "support/numeric.h"

namespace etrace::testing {
namespace {

// Parts of rows ---------------------------------------------------------------------------------------------
Avals same_type(const Params&, std::span<const Aval> in) { return {in[0]}; }

template <auto F>
Kernel map_kernel(const KernelRequest& r) {
  const std::int64_t n = r.x(0).shape.size();
  return {.run =
              [n](const KernelArgs& a) {
                const auto* x = static_cast<const double*>(a.in[0]);
                auto* y = static_cast<double*>(a.out[0]);
                for (std::int64_t i = 0; i < n; ++i) y[i] = F(x[i]);
              },
          .in_place = {{0, 0}}};
}
constexpr auto kSquare = [](double x) { return x * x; };
constexpr auto kTriple = [](double x) { return 3.0 * x; };

std::vector<PrimitiveSpec::Sample> vectors(std::uint64_t seed) {
  Random random(seed);
  return {{{random.f64({5}, 0.5, 2.0)}, {}}, {{random.f64({2, 3}, 0.5, 2.0)}, {}}};
}

template <const Primitive& P>
Arrays elementwise_batch(const Params&, ArraySpan x, const std::vector<bool>&, std::int64_t) {
  return bind_primitive(P, x);
}

// Rows ------------------------------------------------------------------------------------------------------
extern const Primitive right_p, triple_p, wrong_jvp_p, wrong_second_p, wrong_transpose_p, wrong_batch_p,
    wrong_abstract_p, wrong_lower_p, wrong_lower_type_p, wrong_in_place_p, wrong_bounds_p,
    wrong_tangent_type_p, wrong_axes_p, wrong_facts_p, no_jvp_p, no_batch_p, no_samples_p, throwing_p;

Arrays square_jvp(const Params&, ArraySpan x, ArraySpan, ArraySpan dx) { return {2.0 * x[0] * dx[0]}; }

const Primitive wrong_axes_p{{
    .name = "test_wrong_axes",
    .doc = "x, the other way round",
    .abstract = same_type,
    .lower = [](const Params&, ArraySpan x) -> Arrays { return {rev(x[0], {0})}; },
    .axes = [](const EmitRequest& q) { return AxisTable::aligned(q); },
    .samples = vectors,
}};
const Primitive wrong_facts_p{{
    .name = "test_wrong_facts",
    .doc = "-x",
    .abstract = same_type,
    .lower = [](const Params&, ArraySpan x) -> Arrays { return {-x[0]}; },
    .facts = [](const FactRequest& q) { return q.x(0); },
    .samples = vectors,
}};

const Primitive right_p{{
    .name = "test_right",
    .doc = "x²",
    .abstract = same_type,
    .kernel = map_kernel<kSquare>,
    .lower = [](const Params&, ArraySpan x) -> Arrays { return {x[0] * x[0]}; },
    .jvp = square_jvp,
    .batch = elementwise_batch<right_p>,
    .samples = vectors,
}};
const Primitive triple_p{{
    .name = "test_triple",
    .doc = "3x, linear",
    .abstract = same_type,
    .kernel = map_kernel<kTriple>,
    .jvp = [](const Params&, ArraySpan, ArraySpan, ArraySpan dx) { return bind_primitive(triple_p, dx); },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan,
                    std::span<const Aval>) { return bind_primitive(triple_p, ct); },
    .batch = elementwise_batch<triple_p>,
    .samples = vectors,
}};
const Primitive wrong_jvp_p{{
    .name = "test_wrong_jvp",
    .doc = "x² with the derivative of x²/2",
    .abstract = same_type,
    .kernel = map_kernel<kSquare>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays { return {x[0] * dx[0]}; },
    .batch = elementwise_batch<wrong_jvp_p>,
    .samples = vectors,
}};
const Primitive wrong_second_p{{
    .name = "test_wrong_second",
    .doc = "x² whose derivative cannot be differentiated again",
    .abstract = same_type,
    .kernel = map_kernel<kSquare>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return {stop_gradient(2.0 * x[0]) * dx[0]};
    },
    .batch = elementwise_batch<wrong_second_p>,
    .samples = vectors,
}};
const Primitive wrong_transpose_p{{
    .name = "test_wrong_transpose",
    .doc = "3x with the transpose of 2x",
    .abstract = same_type,
    .kernel = map_kernel<kTriple>,
    .jvp = [](const Params&, ArraySpan, ArraySpan,
              ArraySpan dx) { return bind_primitive(wrong_transpose_p, dx); },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan, std::span<const Aval>) -> Arrays {
      return {2.0 * ct[0]};
    },
    .batch = elementwise_batch<wrong_transpose_p>,
    .samples = vectors,
}};
const Primitive wrong_batch_p{{
    .name = "test_wrong_batch",
    .doc = "x², whose batched form gives every sample the result of the first",
    .abstract = same_type,
    .kernel = map_kernel<kSquare>,
    .jvp = square_jvp,
    .batch = [](const Params&, ArraySpan x, const std::vector<bool>&, std::int64_t n) -> Arrays {
      if (n == 0) return bind_primitive(wrong_batch_p, x);
      const Array first = slice_axis(x[0], 0, 0, 1);
      return {broadcast_to(bind1(wrong_batch_p, {first}), x[0].shape())};
    },
    .samples = vectors,
}};
const Primitive wrong_abstract_p{{
    .name = "test_wrong_abstract",
    .doc = "x², typed one element too long",
    .abstract = [](const Params&, std::span<const Aval> in) -> Avals {
      return {{in[0].dtype, in[0].shape.with(0, in[0].shape[0] + 1)}};
    },
    .kernel = map_kernel<kSquare>,
    .jvp = square_jvp,
    .batch = elementwise_batch<wrong_abstract_p>,
    .samples = vectors,
}};
const Primitive wrong_lower_p{{
    .name = "test_wrong_lower",
    .doc = "x² that lowers to x³",
    .abstract = same_type,
    .kernel = map_kernel<kSquare>,
    .lower = [](const Params&, ArraySpan x) -> Arrays { return {x[0] * x[0] * x[0]}; },
    .jvp = square_jvp,
    .batch = elementwise_batch<wrong_lower_p>,
    .samples = vectors,
}};
const Primitive wrong_lower_type_p{{
    .name = "test_wrong_lower_type",
    .doc = "Σx², typed like x",
    .abstract = same_type,
    .lower = [](const Params&, ArraySpan x) -> Arrays { return {sum(x[0] * x[0])}; },
    .samples = vectors,
}};
const Primitive wrong_in_place_p{{
    .name = "test_wrong_in_place",
    .doc = "x reversed; reads what it has overwritten",
    .abstract = same_type,
    .kernel = [](const KernelRequest& r) -> Kernel {
      const std::int64_t n = r.x(0).shape.size();
      return {.run =
                  [n](const KernelArgs& a) {
                    const auto* x = static_cast<const double*>(a.in[0]);
                    auto* y = static_cast<double*>(a.out[0]);
                    for (std::int64_t i = 0; i < n; ++i) y[i] = x[n - 1 - i];
                  },
              .in_place = {{0, 0}}};
    },
    .lower = [](const Params&, ArraySpan x) -> Arrays {
      return {reshape(rev(reshape(x[0], {-1}), {0}), x[0].shape().to_dims())};
    },
    .samples = vectors,
}};
const Primitive wrong_bounds_p{{
    .name = "test_wrong_bounds",
    .doc = "x² that writes one element too many",
    .abstract = same_type,
    .kernel = [](const KernelRequest& r) -> Kernel {
      const std::int64_t n = r.x(0).shape.size();
      return {.run = [n](const KernelArgs& a) {
        const auto* x = static_cast<const double*>(a.in[0]);
        auto* y = static_cast<double*>(a.out[0]);
        for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] * x[i];
        y[n] = 1.0;
      }};
    },
    .jvp = square_jvp,
    .batch = elementwise_batch<wrong_bounds_p>,
    // Five doubles in blocks of 64 bytes: the write past the end harms nobody but the guards.
    .samples = [](std::uint64_t seed) -> std::vector<PrimitiveSpec::Sample> { return {vectors(seed)[0]}; },
}};
const Primitive wrong_tangent_type_p{{
    .name = "test_wrong_tangent_type",
    .doc = "x² whose tangent is summed",
    .abstract = same_type,
    .kernel = map_kernel<kSquare>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return {sum(2.0 * x[0] * dx[0])};
    },
    .batch = elementwise_batch<wrong_tangent_type_p>,
    .samples = vectors,
}};
const Primitive no_jvp_p{{
    .name = "test_wrong_no_jvp",
    .doc = "x² without a derivative",
    .abstract = same_type,
    .kernel = map_kernel<kSquare>,
    .batch = elementwise_batch<no_jvp_p>,
    .samples = vectors,
}};
const Primitive no_batch_p{{
    .name = "test_wrong_no_batch",
    .doc = "x² without a batching rule",
    .abstract = same_type,
    .kernel = map_kernel<kSquare>,
    .jvp = square_jvp,
    .samples = vectors,
}};
const Primitive no_samples_p{{
    .name = "test_wrong_no_samples",
    .doc = "x² without samples",
    .abstract = same_type,
    .kernel = map_kernel<kSquare>,
    .jvp = square_jvp,
    .batch = elementwise_batch<no_samples_p>,
}};
const Primitive throwing_p{{
    .name = "test_wrong_throwing",
    .doc = "a typing rule that refuses its own samples",
    .abstract = [](const Params&, std::span<const Aval>) -> Avals { throw ValueError("test", "never fits"); },
    .kernel = map_kernel<kSquare>,
    .batch = elementwise_batch<throwing_p>,
    .samples = vectors,
}};

bool reports(const std::vector<Failure>& failures, const std::string& property) {
  for (const Failure& f : failures)
    if (f.property == property) return true;
  return false;
}

void expect_reported(const Primitive& prim, const std::string& property) {
  const std::vector<Failure> failures = check_primitive(prim, 1);
  EXPECT_TRUE(reports(failures, property)) << property << " not among:\n" << to_string(failures);
}

TEST(Checker, AcceptsRightRows) {
  for (const Primitive* p : {&right_p, &triple_p}) {
    const std::vector<Failure> failures = check_primitive(*p, 1);
    EXPECT_TRUE(failures.empty()) << to_string(failures);
  }
}

TEST(Checker, NoticesWrongTangent) { expect_reported(wrong_jvp_p, "jvp"); }
TEST(Checker, NoticesWrongTangentType) { expect_reported(wrong_tangent_type_p, "jvp"); }
TEST(Checker, NoticesWrongTranspose) { expect_reported(wrong_transpose_p, "transpose"); }
TEST(Checker, NoticesWrongBatch) { expect_reported(wrong_batch_p, "vmap"); }
TEST(Checker, NoticesWrongTypingOfAKernel) { expect_reported(wrong_abstract_p, "kernel"); }
TEST(Checker, NoticesWrongTypingOfALowering) { expect_reported(wrong_lower_type_p, "types"); }
TEST(Checker, NoticesWrongLowering) { expect_reported(wrong_lower_p, "lower"); }
TEST(Checker, NoticesWrongAxes) { expect_reported(wrong_axes_p, "axes"); }
TEST(Checker, NoticesWrongFacts) { expect_reported(wrong_facts_p, "facts"); }
TEST(Checker, NoticesWrongInPlace) { expect_reported(wrong_in_place_p, "kernel"); }
TEST(Checker, NoticesWritesPastTheEnd) {
#if defined(__SANITIZE_ADDRESS__)  // which is quicker to notice
  EXPECT_DEATH(check_primitive(wrong_bounds_p, 1), "heap-buffer-overflow");
#else
  expect_reported(wrong_bounds_p, "kernel");
#endif
}
TEST(Checker, NoticesMissingRules) {
  expect_reported(no_jvp_p, "row");
  expect_reported(no_batch_p, "row");
  expect_reported(no_samples_p, "row");
}
TEST(Checker, ReportsExceptions) { expect_reported(throwing_p, "row"); }

// Right to first order, so that only the second-order property can notice it.
TEST(Checker, NoticesWrongSecondDerivativeOnly) {
  const std::vector<Failure> failures = check_primitive(wrong_second_p, 1);
  EXPECT_TRUE(reports(failures, "second order"));
  EXPECT_FALSE(reports(failures, "jvp"));
  EXPECT_FALSE(reports(failures, "transpose"));
}

TEST(Checker, SaysWhatAndByHowMuch) {
  const std::vector<Failure> failures = check_primitive(wrong_lower_p, 1);
  ASSERT_FALSE(failures.empty());
  const std::string text = to_string(failures[0]);
  EXPECT_NE(text.find("test_wrong_lower"), std::string::npos) << text;
  EXPECT_NE(text.find("f64[5]"), std::string::npos) << text;
  EXPECT_NE(text.find("instead of"), std::string::npos) << text;
}

TEST(Difference, ComparesTypesBitsAndNan) {
  const Tensor a = Tensor::of(std::vector<double>{1.0, NAN}, {2}),
               b = Tensor::of(std::vector<double>{1.0 + 1e-9, NAN}, {2});
  EXPECT_FALSE(difference(a, b, 1e-8).has_value());
  EXPECT_TRUE(difference(a, b, 1e-10).has_value());
  EXPECT_TRUE(difference(a, Tensor::of(std::vector<float>{1.0F, NAN}, {2}), 1.0).has_value());
  EXPECT_TRUE(difference(a, Tensor::of(std::vector<double>{1.0, 2.0}, {2}), 1e300).has_value());
  const Tensor i = Tensor::of(std::vector<std::int32_t>{1}, {1}),
               j = Tensor::of(std::vector<std::int32_t>{2}, {1});
  EXPECT_TRUE(difference(i, j, 100.0).has_value());
}

TEST(DirectionalDifference, IsOfFourthOrder) {
  const Tensor x = Tensor::of(std::vector<double>{0.7}, {1}), v = Tensor::of(std::vector<double>{2.0}, {1});
  const TensorFunction f = [](std::span<const Tensor> a) {
    return Tensors{Tensor::of(std::vector<double>{std::sin(a[0].data<double>()[0])}, {1})};
  };
  const Tensors args{x}, direction{v};
  const Tensors d = directional_difference(f, args, direction, 1e-3);
  EXPECT_NEAR(d[0].data<double>()[0], 2.0 * std::cos(0.7), 1e-11);
}

}  // namespace
}  // namespace etrace::testing
