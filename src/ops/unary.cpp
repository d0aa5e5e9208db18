// Functions of one operand, y = f(x), with derivatives that are written in x and y. erf, gamma and the like
// are in unary_special.cpp.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>

#include "ops/elementwise_common.h"
#include "ops/fact_rules.h"
#include "ops/scalar_math.h"
#include "runtime/etp_math.h"

namespace etrace {

using namespace elementwise;

namespace {

// The array forms of runtime/etp_math.h.
template <const Primitive& P, auto F32, auto F64>
PrimitiveSpec vector_unary(PrimitiveSpec row) {
  row.elementwise = true;
  row.ignored_params = {"accuracy"};
  row.abstract = same_type<P, kFloating, 1>;
  row.kernel = [](const KernelRequest& r) {
    if (r.x(0).dtype == Dtype::F32)
      return row_kernel(r, [](std::int64_t n, void* y, const void* const* x) {
        F32(n, static_cast<const float*>(x[0]), static_cast<float*>(y));
      });
    return row_kernel(r, [](std::int64_t n, void* y, const void* const* x) {
      F64(n, static_cast<const double*>(x[0]), static_cast<double*>(y));
    });
  };
  row.batch = batch<P>;
  return row;
}

constexpr double kLn2 = 0.693147180559945309417;

}  // namespace

// Sign and rounding -----------------------------------------------------------------------------------------
const Primitive neg_p{unary<neg_p, kNumber, [](auto x) { return scalar::neg(x); }>({
    .name = "neg",
    .doc = "y = -x",
    .emit = number_code<"-$0", "etp_neg_$t($0)">,
    .facts =
        [](const FactRequest& q) {
          Facts f = q.moved(Shows::All);
          f.sign = opposite(f.sign);
          return f;
        },
    .jvp = [](const Params&, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays { return {-dx[0]}; },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan, std::span<const Aval>) -> Arrays {
      return {-ct[0]};
    },
    .samples = samples<kNumber, Range{-3, 3}>,
})};

// NaN and the signed zeros stay what they are.
const Primitive sign_p{unary<sign_p, kNumber, [](auto x) { return scalar::sign(x); }>({
    .name = "sign",
    .doc = "y = x/|x|, 0 at 0",
    .emit = code<"etp_sign_$t($0)", 2>,
    .facts = fact_rules::odd,
    .jvp = jvp_zero,
    .samples = samples<kNumber, Range{-3, 3}>,
})};

const Primitive abs_p{unary<abs_p, kNumber, [](auto x) { return scalar::abs(x); }>({
    .name = "abs",
    .doc = "y = |x|; its derivative at 0 is 1",
    .emit = code<"etp_abs_$t($0)">,
    .facts =
        [](const FactRequest& q) {
          Facts f = q.moved(Shows::All);
          f.sign = Sign::Unsigned;
          return f;
        },
    .jvp = jvp_by<[](const Array& x, const Array&) {
      return where(greater_equal(x, 0.0), full({}, 1.0, x.dtype()), full({}, -1.0, x.dtype()));
    }>,
    .samples = samples<kNumber, Range{-3, 3}>,
})};

const Primitive floor_p{unary<floor_p, kFloating, [](auto x) { return scalar::floor(x); }>({
    .name = "floor",
    .doc = "the largest integer ≤ x",
    .emit = code<"etp_floor_$t($0)", 2>,
    .facts = fact_rules::rounded,
    .jvp = jvp_zero,
    .samples = samples<kFloating, Range{-3, 3}>,
})};

const Primitive ceil_p{unary<ceil_p, kFloating, [](auto x) { return scalar::ceil(x); }>({
    .name = "ceil",
    .doc = "the smallest integer ≥ x",
    .emit = code<"etp_ceil_$t($0)", 2>,
    .facts = fact_rules::rounded,
    .jvp = jvp_zero,
    .samples = samples<kFloating, Range{-3, 3}>,
})};

namespace {
// JAX's parameter: 0 or AWAY_FROM_ZERO, 1 or TO_NEAREST_EVEN (ours if it is not given).
bool rounds_away_from_zero(const Params& params) {
  const Attr* method = params.find("rounding_method");
  if (method == nullptr || method->is_null()) return false;
  if (const auto* number = method->get_if<std::int64_t>();
      number != nullptr && (*number == 0 || *number == 1))
    return *number == 0;
  if (const auto* text = method->get_if<std::string>()) {
    if (text->ends_with("AWAY_FROM_ZERO")) return true;
    if (text->ends_with("TO_NEAREST_EVEN")) return false;
  }
  throw CompilationError("round", "parameter 'rounding_method' is " + to_string(*method) +
                                      "; it must be 0 (AWAY_FROM_ZERO) or 1 (TO_NEAREST_EVEN)");
}
}  // namespace

const Primitive round_p{{
    .name = "round",
    .doc = "the nearest integer, halves to even (rounding_method 1) or away from zero (0)",
    .params = {"rounding_method"},
    .elementwise = true,
    .abstract =
        [](const Params& params, std::span<const Aval> in) {
          rounds_away_from_zero(params);
          return same_type<round_p, kFloating, 1>(params, in);
        },
    .kernel =
        [](const KernelRequest& r) {
          return rounds_away_from_zero(r.params)
                     ? map_kernel<kFloating, [](auto x) { return scalar::round(x); }, 1>(r)
                     : map_kernel<kFloating, [](auto x) { return scalar::rint(x); }, 1>(r);
        },
    .emit = [](const EmitRequest& r) -> Emission {
      return MapCode{rounds_away_from_zero(r.params) ? "etp_round_$t($0)" : "etp_rint_$t($0)", 2};
    },
    .facts = fact_rules::rounded,
    .jvp = jvp_zero,
    .batch = batch<round_p>,
    .samples =
        [](std::uint64_t seed) {
          return make_samples(seed, kFloating, std::array{Range{-3, 3}},
                              {{"rounding_method", static_cast<std::int64_t>(seed % 2)}});
        },
}};

// Exponentials and logarithms -------------------------------------------------------------------------------
const Primitive exp_p{vector_unary<exp_p, etp_vexp_f32, etp_vexp_f64>({
    .name = "exp",
    .doc = "y = e^x",
    .emit = code<"etp_exp_$t($0)", 12>,
    .facts = fact_rules::positive,
    .jvp = jvp_by<[](const Array&, const Array& y) { return y; }>,
    .samples = samples<kFloating, Range{-3, 3}>,
})};

const Primitive exp2_p{vector_unary<exp2_p, etp_vexp2_f32, etp_vexp2_f64>({
    .name = "exp2",
    .doc = "y = 2^x",
    .emit = code<"etp_exp2_$t($0)", 12>,
    .facts = fact_rules::positive,
    .jvp = jvp_by<[](const Array&, const Array& y) { return kLn2 * y; }>,
    .samples = samples<kFloating, Range{-3, 3}>,
})};

const Primitive expm1_p{vector_unary<expm1_p, etp_vexpm1_f32, etp_vexpm1_f64>({
    .name = "expm1",
    .doc = "y = e^x - 1, exact near 0",
    .emit = code<"etp_expm1_$t($0)", 15>,
    .facts = fact_rules::odd_unbounded,
    .jvp = jvp_by<[](const Array&, const Array& y) { return y + 1.0; }>,
    .samples = samples<kFloating, Range{-3, 3}>,
})};

const Primitive log_p{vector_unary<log_p, etp_vlog_f32, etp_vlog_f64>({
    .name = "log",
    .doc = "y = ln x",
    .emit = code<"etp_log_$t($0)", 15>,
    .facts = fact_rules::not_zero,
    .jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays { return {dx[0] / x[0]}; },
    .samples = samples<kFloating, Range{0.2, 4}>,
})};

const Primitive log1p_p{vector_unary<log1p_p, etp_vlog1p_f32, etp_vlog1p_f64>({
    .name = "log1p",
    .doc = "y = ln(1 + x), exact near 0",
    .emit = code<"etp_log1p_$t($0)", 18>,
    .facts = fact_rules::odd_unbounded,
    .jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return {dx[0] / (x[0] + 1.0)};
    },
    .samples = samples<kFloating, Range{-0.7, 4}>,
})};

const Primitive tanh_p{vector_unary<tanh_p, etp_vtanh_f32, etp_vtanh_f64>({
    .name = "tanh",
    .doc = "y = tanh x",
    .emit = code<"etp_tanh_$t($0)", 20>,
    .facts = fact_rules::odd,
    .jvp = jvp_by<[](const Array&, const Array& y) { return 1.0 - y * y; }>,
    .samples = samples<kFloating, Range{-2, 2}>,
})};

const Primitive logistic_p{vector_unary<logistic_p, etp_vlogistic_f32, etp_vlogistic_f64>({
    .name = "logistic",
    .doc = "y = 1/(1 + e^-x)",
    .emit = code<"etp_logistic_$t($0)", 20>,
    .facts = fact_rules::positive_bounded,
    .jvp = jvp_by<[](const Array&, const Array& y) { return y * (1.0 - y); }>,
    .samples = samples<kFloating, Range{-3, 3}>,
})};

// Trigonometry ----------------------------------------------------------------------------------------------
const Primitive sin_p{float_unary<sin_p, etp_sin_f32, etp_sin_f64>({
    .name = "sin",
    .doc = "y = sin x",
    .emit = code<"etp_sin_$t($0)", 40>,
    .jvp = jvp_by<[](const Array& x, const Array&) { return cos(x); }>,
    .samples = samples<kFloating, Range{-4, 4}>,
})};

const Primitive cos_p{float_unary<cos_p, etp_cos_f32, etp_cos_f64>({
    .name = "cos",
    .doc = "y = cos x",
    .emit = code<"etp_cos_$t($0)", 40>,
    .facts = fact_rules::not_zero_bounded,
    .jvp = jvp_by<[](const Array& x, const Array&) { return -sin(x); }>,
    .samples = samples<kFloating, Range{-4, 4}>,
})};

const Primitive tan_p{float_unary<tan_p, etp_tan_f32, etp_tan_f64>({
    .name = "tan",
    .doc = "y = tan x",
    .emit = code<"etp_tan_$t($0)", 40>,
    .jvp = jvp_by<[](const Array&, const Array& y) { return 1.0 + y * y; }>,
    .samples = samples<kFloating, Range{-1.2, 1.2}>,
})};

const Primitive asin_p{float_unary<asin_p, etp_asin_f32, etp_asin_f64>({
    .name = "asin",
    .doc = "sin y = x",
    .emit = code<"etp_asin_$t($0)", 40>,
    .jvp = jvp_by<[](const Array& x, const Array&) { return rsqrt((1.0 - x) * (1.0 + x)); }>,
    .samples = samples<kFloating, Range{-0.8, 0.8}>,
})};

const Primitive acos_p{float_unary<acos_p, etp_acos_f32, etp_acos_f64>({
    .name = "acos",
    .doc = "cos y = x",
    .emit = code<"etp_acos_$t($0)", 40>,
    .jvp = jvp_by<[](const Array& x, const Array&) { return -rsqrt((1.0 - x) * (1.0 + x)); }>,
    .samples = samples<kFloating, Range{-0.8, 0.8}>,
})};

const Primitive atan_p{float_unary<atan_p, etp_atan_f32, etp_atan_f64>({
    .name = "atan",
    .doc = "tan y = x",
    .emit = code<"etp_atan_$t($0)", 40>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return {dx[0] / (1.0 + x[0] * x[0])};
    },
    .samples = samples<kFloating, Range{-3, 3}>,
})};

const Primitive sinh_p{float_unary<sinh_p, etp_sinh_f32, etp_sinh_f64>({
    .name = "sinh",
    .doc = "y = sinh x",
    .emit = code<"etp_sinh_$t($0)", 40>,
    .jvp = jvp_by<[](const Array& x, const Array&) { return cosh(x); }>,
    .samples = samples<kFloating, Range{-2, 2}>,
})};

const Primitive cosh_p{float_unary<cosh_p, etp_cosh_f32, etp_cosh_f64>({
    .name = "cosh",
    .doc = "y = cosh x",
    .emit = code<"etp_cosh_$t($0)", 40>,
    .facts = fact_rules::positive,
    .jvp = jvp_by<[](const Array& x, const Array&) { return sinh(x); }>,
    .samples = samples<kFloating, Range{-2, 2}>,
})};

const Primitive asinh_p{float_unary<asinh_p, etp_asinh_f32, etp_asinh_f64>({
    .name = "asinh",
    .doc = "sinh y = x",
    .emit = code<"etp_asinh_$t($0)", 40>,
    .jvp = jvp_by<[](const Array& x, const Array&) { return rsqrt(x * x + 1.0); }>,
    .samples = samples<kFloating, Range{-3, 3}>,
})};

const Primitive acosh_p{float_unary<acosh_p, etp_acosh_f32, etp_acosh_f64>({
    .name = "acosh",
    .doc = "cosh y = x, y ≥ 0",
    .emit = code<"etp_acosh_$t($0)", 40>,
    .jvp = jvp_by<[](const Array& x, const Array&) { return rsqrt((x - 1.0) * (x + 1.0)); }>,
    .samples = samples<kFloating, Range{1.3, 4}>,
})};

const Primitive atanh_p{float_unary<atanh_p, etp_atanh_f32, etp_atanh_f64>({
    .name = "atanh",
    .doc = "tanh y = x",
    .emit = code<"etp_atanh_$t($0)", 40>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return {dx[0] / ((1.0 - x[0]) * (1.0 + x[0]))};
    },
    .samples = samples<kFloating, Range{-0.8, 0.8}>,
})};

// Powers and roots ------------------------------------------------------------------------------------------
const Primitive sqrt_p{float_unary<sqrt_p, etp_sqrt_f32, etp_sqrt_f64>({
    .name = "sqrt",
    .doc = "y = √x",
    .emit = code<"etp_sqrt_$t($0)", 6>,
    .facts = [](const FactRequest& q) -> Facts {
      return {.sign = q.x(0).sign == Sign::Unsigned ? Sign::Unsigned : Sign::NotNegative,
              .zeros = q.x(0).zeros,
              .shows = Shows::All};
    },
    .jvp = jvp_by<[](const Array&, const Array& y) { return 0.5 / y; }>,
    .samples = samples<kFloating, Range{0.2, 4}>,
})};

const Primitive rsqrt_p{float_unary<rsqrt_p, etp_rsqrt_f32, etp_rsqrt_f64>({
    .name = "rsqrt",
    .doc = "y = 1/√x",
    .emit = code<"etp_rsqrt_$t($0)", 8>,
    .facts = [](const FactRequest& q) -> Facts {
      return {.sign = q.x(0).sign == Sign::Unsigned ? Sign::Unsigned : Sign::Any};
    },
    .jvp = jvp_by<[](const Array& x, const Array& y) { return -0.5 * (y / x); }>,
    .samples = samples<kFloating, Range{0.2, 4}>,
})};

const Primitive cbrt_p{float_unary<cbrt_p, etp_cbrt_f32, etp_cbrt_f64>({
    .name = "cbrt",
    .doc = "y = ∛x",
    .emit = code<"etp_cbrt_$t($0)", 40>,
    .jvp = jvp_by<[](const Array&, const Array& y) { return (1.0 / 3.0) / (y * y); }>,
    .samples = samples<kFloating, Range{0.2, 4}>,
})};

const Primitive square_p{unary<square_p, kNumber, [](auto x) { return scalar::square(x); }>({
    .name = "square",
    .doc = "y = x²",
    .emit = code<"etp_square_$t($0)">,
    .facts = [](const FactRequest& q) { return q.combined(Sign::Unsigned); },
    .jvp = jvp_by<[](const Array& x, const Array&) { return 2.0 * x; }>,
    .samples = samples<kNumber, Range{-3, 3}>,
})};

namespace {
// Repeated squaring of one block after the other, so that every step is a loop that vectorises.
template <class T>
Kernel power_kernel(const KernelRequest& r) {
  const std::int64_t exponent = r.params.integer("y");
  return {.run =
              [exponent, size = r.x(0).shape.size()](const KernelArgs& a) {
                constexpr std::int64_t kBlock = 64;
                const T* x = static_cast<const T*>(a.in[0]);
                T* y = static_cast<T*>(a.out[0]);
                const auto bits = static_cast<std::uint64_t>(exponent);
                for (std::int64_t start = 0; start < size; start += kBlock) {
                  const std::int64_t n = std::min(kBlock, size - start);
                  std::array<T, kBlock> power{}, result{};
                  std::copy_n(x + start, n, power.begin());
                  result.fill(T{1});
                  for (std::uint64_t e = exponent < 0 ? 0U - bits : bits; e != 0; e >>= 1U) {
                    if ((e & 1U) != 0)
                      for (std::size_t i = 0; i < kBlock; ++i) result[i] = scalar::mul(result[i], power[i]);
                    for (T& p : power) p = scalar::mul(p, p);
                  }
                  if constexpr (std::is_floating_point_v<T>)
                    if (exponent < 0)
                      for (T& v : result) v = T{1} / v;
                  std::copy_n(result.begin(), n, y + start);
                }
              },
          .in_place = {{0, 0}}};
}
}  // namespace

namespace {
// The same products as power_kernel, in the same order.
Emission power_code(const EmitRequest& r) {
  const std::int64_t exponent = r.params.integer("y");
  const bool floating = is_floating(r.x(0).dtype);
  std::string power = "$0", result;
  int cost = 1;
  const auto bits = static_cast<std::uint64_t>(exponent);
  for (std::uint64_t e = exponent < 0 ? 0U - bits : bits; e != 0; e >>= 1U) {
    if ((e & 1U) != 0)
      result = result.empty() ? power
               : floating     ? "(" + result + " * " + power + ")"
                              : "etp_mul_$t(" + result + ", " + power + ")";
    power = "etp_square_$t(" + power + ")";
    cost += 2;
  }
  if (result.empty()) result = "1";
  return MapCode{exponent < 0 ? "1 / " + result : result, cost};
}
}  // namespace

const Primitive integer_pow_p{{
    .name = "integer_pow",
    .doc = "y = x^n for the whole number n = params.y",
    .params = {"y"},
    .elementwise = true,
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      const Aval x = common_aval("integer_pow", kNumber, 1, in);
      const std::int64_t y = params.integer("y");
      if (y < 0 && is_integer(x.dtype))
        throw ValueError("integer_pow", "the integers " + to_string(x) +
                                            " cannot be raised to the negative power " + std::to_string(y) +
                                            "; convert them to a float type first");
      return {x};
    },
    .kernel = [](const KernelRequest& r) -> Kernel {
      if (r.params.integer("y") == 2)
        return map_kernel<kNumber, [](auto x) { return scalar::square(x); }, 1>(r);
      return for_dtype<kNumber>(r.x(0).dtype, [&]<class T>() { return power_kernel<T>(r); });
    },
    .emit = power_code,
    .facts =
        [](const FactRequest& q) {
          const std::int64_t n = q.params.integer("y");
          Facts f = q.combined(n % 2 == 0 ? Sign::Unsigned : q.x(0).sign);
          f.shows = Shows::None;
          f.zeros = f.zeros && n > 0;
          if (n < 0) f.finite = Finite::Unknown;
          f.whole = f.whole && n >= 0;
          return f;
        },
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      const std::int64_t n = params.integer("y");
      if (n == 0) return {Array()};
      return {dx[0] * (static_cast<double>(n) * integer_pow(x[0], n - 1))};
    },
    .batch = batch<integer_pow_p>,
    .samples =
        [](std::uint64_t seed) {
          std::vector<Sample> all;
          for (const std::int64_t y : {0, 1, 2, 3, 5})
            for (Sample& s : make_samples(seed, kNumber, std::array{Range{0.3, 2}}, {{"y", y}}))
              all.push_back(std::move(s));
          for (Sample& s : make_samples(seed, kFloating, std::array{Range{0.3, 2}}, {{"y", -2}}))
            all.push_back(std::move(s));
          return all;
        },
}};

const Primitive is_finite_p{{
    .name = "is_finite",
    .doc = "y = whether x is neither infinite nor NaN",
    .elementwise = true,
    .abstract = to_bool<is_finite_p, kFloating, 1>,
    .kernel = map_kernel<kFloating, [](auto x) { return scalar::is_finite(x); }, 1>,
    .emit = code<"etp_is_finite_$t($0)", 2>,
    .jvp = jvp_zero,
    .batch = batch<is_finite_p>,
    .samples = flat_samples<kFloating, Range{-3, 3}>,
}};

}  // namespace etrace
