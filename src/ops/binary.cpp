// Arithmetic on two operands. Integers wrap around and never trap (ops/scalar_math.h).
#include <cmath>
#include <cstring>

#include "etrace/ops/shape.h"
#include "ops/elementwise_common.h"
#include "ops/fact_rules.h"
#include "ops/scalar_math.h"
#include "runtime/etp_math.h"

namespace etrace {

using namespace elementwise;

namespace {

// Cotangents of y = a + b.
Arrays transpose_add(const Params&, ArraySpan ct, ArraySpan x, std::span<const Aval> in) {
  Arrays out(2);
  for (std::size_t i = 0; i < 2; ++i)
    if (!x[i].defined()) out[i] = unbroadcast(ct[0], in[i].shape);
  return out;
}

Arrays jvp_add(const Params&, ArraySpan, ArraySpan y, ArraySpan dx) { return tangent(y[0], {dx[0], dx[1]}); }

// dy of max or min: the whole derivative belongs to the operand that wins, half of it to each of two equals.
Arrays jvp_by_winner(const Array& a_wins, ArraySpan x, const Array& y, ArraySpan dx) {
  const Dtype t = y.dtype();
  const Array tie = where(equal_to(x[0], x[1]), full({}, 0.5, t), full({}, 0.0, t));
  const Array weight = where(a_wins, full({}, 1.0, t), tie);
  return tangent(y, {partial(dx[0], [&](const Array& d) { return d * weight; }),
                     partial(dx[1], [&](const Array& d) { return d * (1.0 - weight); })});
}

}  // namespace

const Primitive add_p{binary<add_p, kNumber, [](auto a, auto b) { return scalar::add(a, b); }>({
    .name = "add",
    .doc = "y = a + b",
    .emit = number_code<"$0 + $1", "etp_add_$t($0, $1)">,
    .facts = fact_rules::sum<false>,
    .jvp = jvp_add,
    .transpose = transpose_add,
    .samples = samples<kNumber, Range{-3, 3}, Range{-3, 3}>,
})};

const Primitive add_any_p{binary<add_any_p, kNumber, [](auto a, auto b) { return scalar::add(a, b); }>({
    .name = "add_any",
    .doc = "y = a + b, the sum of two cotangents",
    .emit = number_code<"$0 + $1", "etp_add_$t($0, $1)">,
    .facts = fact_rules::sum<false>,
    .jvp = jvp_add,
    .transpose = transpose_add,
    .samples = samples<kNumber, Range{-3, 3}, Range{-3, 3}>,
})};

const Primitive sub_p{binary<sub_p, kNumber, [](auto a, auto b) { return scalar::sub(a, b); }>({
    .name = "sub",
    .doc = "y = a - b",
    .emit = number_code<"$0 - $1", "etp_sub_$t($0, $1)">,
    .facts = fact_rules::sum<true>,
    .jvp = [](const Params&, ArraySpan, ArraySpan y, ArraySpan dx) -> Arrays {
      if (dx[0].defined() && dx[1].defined()) return tangent(y[0], {dx[0] - dx[1]});
      return tangent(y[0], {dx[0], partial(dx[1], [](const Array& d) { return -d; })});
    },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      return {x[0].defined() ? Array() : unbroadcast(ct[0], in[0].shape),
              x[1].defined() ? Array() : -unbroadcast(ct[0], in[1].shape)};
    },
    .samples = samples<kNumber, Range{-3, 3}, Range{-3, 3}>,
})};

const Primitive mul_p{binary<mul_p, kNumber, [](auto a, auto b) { return scalar::mul(a, b); }>({
    .name = "mul",
    .doc = "y = a·b",
    .emit = number_code<"$0 * $1", "etp_mul_$t($0, $1)">,
    .facts =
        [](const FactRequest& q) {
          return q.combined(q.same ? Sign::Unsigned : product(q.x(0).sign, q.x(1).sign));
        },
    .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
      return tangent(y[0], {partial(dx[0], [&](const Array& d) { return d * x[1]; }),
                            partial(dx[1], [&](const Array& d) { return x[0] * d; })});
    },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      return {x[0].defined() ? Array() : unbroadcast(ct[0] * x[1], in[0].shape),
              x[1].defined() ? Array() : unbroadcast(x[0] * ct[0], in[1].shape)};
    },
    .samples = samples<kNumber, Range{-3, 3}, Range{-3, 3}>,
})};

namespace {

// Dividing by one number for all: by a power of two it is a product, with the same bits, and by one nothing.
template <class T>
void divide_by_one(std::int64_t n, void* y, const void* const* x) {
  constexpr auto kProduct = [](T a, T b) { return a * b; };
  constexpr auto kQuotient = [](T a, T b) { return a / b; };
  const T divisor = *static_cast<const T*>(x[1]), reciprocal = T{1} / divisor;
  int exponent = 0;
  const bool power_of_two = std::abs(std::frexp(divisor, &exponent)) == T{0.5} && std::isnormal(reciprocal);
  if (!power_of_two) return MapRow<kQuotient, 1U, T, T>::run(n, y, x);
  if (divisor == T{1}) {
    if (y != x[0]) std::memcpy(y, x[0], static_cast<std::size_t>(n) * sizeof(T));
    return;
  }
  const void* const operands[] = {x[0], &reciprocal};
  MapRow<kProduct, 1U, T, T>::run(n, y, operands);
}

Kernel div_kernel(const KernelRequest& r) {
  return for_dtype<kNumber>(r.x(0).dtype, [&]<class T>() {
    const auto rows = map_rows<[](T a, T b) { return scalar::div(a, b); }, T, T>();
    std::array<Row, 4> all{rows[0], rows[1], rows[2], rows[3]};
    if constexpr (std::is_floating_point_v<T>) all[1] = divide_by_one<T>;
    return loop_kernel(r, all);
  });
}

PrimitiveSpec with_kernel(PrimitiveSpec row, Kernel (*kernel)(const KernelRequest&)) {
  row.kernel = kernel;
  return row;
}

}  // namespace

const Primitive div_p{with_kernel(
    binary<div_p, kNumber, [](auto a, auto b) { return scalar::div(a, b); }>({
        .name = "div",
        .doc = "y = a/b, integers towards zero; for them a/0 = -1 (all bits set)",
        .emit = number_code<"$0 / $1", "etp_div_$t($0, $1)", 4>,
        .facts = [](const FactRequest& q) -> Facts {
          return {.sign = q.same ? Sign::Unsigned : product(q.x(0).sign, q.x(1).sign),
                  .zeros = q.x(0).zeros,
                  .shows = Shows::First};
        },
        .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
          return tangent(y[0], {partial(dx[0], [&](const Array& d) { return d / x[1]; }),
                                partial(dx[1], [&](const Array& d) { return d * -(y[0] / x[1]); })});
        },
        .transpose = [](const Params&, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
          ETRACE_CHECK(x[1].defined());  // linear in the dividend only
          return {unbroadcast(ct[0] / x[1], in[0].shape), Array()};
        },
        .samples = samples<kNumber, Range{-3, 3}, Range{0.4, 3}>,
    }),
    div_kernel)};

const Primitive rem_p{binary<rem_p, kNumber, [](auto a, auto b) { return scalar::rem(a, b); }>({
    .name = "rem",
    .doc = "y = a - b·trunc(a/b), with the sign of a; for integers a rem 0 = a",
    .emit = code<"etp_rem_$t($0, $1)", 20>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
      return tangent(y[0], {dx[0], partial(dx[1], [&](const Array& d) {
                              const Array ratio = x[0] / x[1];
                              return d * -(sign(ratio) * floor(abs(ratio)));
                            })});
    },
    // Kinks lie where a/b is a whole number.
    .samples = samples<kNumber, Range{2.2, 2.6}, Range{0.9, 1.05}>,
})};

// Exponents of another type than the base are integers.
const Primitive pow_p{{
    .name = "pow",
    .doc = "y = a^b, 0^0 = 1 with derivative 0 in both; the exponent may be an integer",
    .elementwise = true,
    .abstract = [](const Params&, std::span<const Aval> in) -> Avals {
      require_arity("pow", in, 2);
      require_kind("pow", kFloating, in[0]);
      if (!is_integer(in[1].dtype)) return {common_aval("pow", kFloating, 2, in)};
      return {{in[0].dtype, common_shape("pow", in)}};
    },
    .kernel = [](const KernelRequest& r) -> Kernel {
      return for_dtype<kNumber>(r.x(1).dtype, [&]<class E>() {
        if (r.x(0).dtype == Dtype::F64)
          return loop_kernel(
              r, map_rows<[](double a, E b) { return etp_pow_f64(a, static_cast<double>(b)); }, double, E>());
        return loop_kernel(
            r, map_rows<[](float a, E b) { return etp_pow_f32(a, static_cast<float>(b)); }, float, E>());
      });
    },
    .emit = [](const EmitRequest& r) -> Emission {
      return MapCode{
          r.x(0).dtype == Dtype::F32 ? "etp_pow_f32($0, (float)$1)" : "etp_pow_f64($0, (double)$1)", 60};
    },
    .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
      const Array& a = x[0];
      const Array& b = x[1];
      // JAX has NaN where a float exponent is 0 at a = 0, b = 0.
      auto by_base = [&](const Array& d) {  // b·a^(b-1), and 0 for 0^0
        const auto known = b.splat();
        const bool never_zero = known && to_double(*known) != 0.0;
        const Array base =
            never_zero ? a
                       : where(logical_and(equal_to(a, 0.0), equal_to(b, 0.0)), full({}, 1.0, a.dtype()), a);
        const Array exponent = convert(b, a.dtype());
        return d * (exponent * pow(base, exponent - 1.0));
      };
      auto by_exponent = [&](const Array& d) {  // a^b·ln a, and 0 for a = 0
        return d * (y[0] * log(where(equal_to(a, 0.0), full({}, 1.0, a.dtype()), a)));
      };
      return tangent(y[0], {partial(dx[0], by_base), partial(dx[1], by_exponent)});
    },
    .batch = batch<pow_p>,
    .samples =
        [](std::uint64_t seed) {
          std::vector<Sample> all = make_samples(seed, kFloating, std::array{Range{0.3, 2}, Range{-2, 2}});
          for (const Dtype base : {Dtype::F32, Dtype::F64}) {
            SampleSource source(seed);
            all.push_back({{source.values({base, {3, 5}}, {-2, 2}), source.values({Dtype::I32, {3, 5}}, {})},
                           {},
                           false});
          }
          return all;
        },
}};

const Primitive atan2_p{binary<atan2_p, kFloating,
                               [](auto y, auto x) {
                                 if constexpr (sizeof(x) == sizeof(float))
                                   return etp_atan2_f32(y, x);
                                 else
                                   return etp_atan2_f64(y, x);
                               }>({
    .name = "atan2",
    .doc = "the angle of the point (x, y), operands y, x",
    .emit = code<"etp_atan2_$t($0, $1)", 60>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
      const Array norm = x[0] * x[0] + x[1] * x[1];
      return tangent(y[0], {partial(dx[0], [&](const Array& d) { return d * (x[1] / norm); }),
                            partial(dx[1], [&](const Array& d) { return d * -(x[0] / norm); })});
    },
    .samples = samples<kFloating, Range{-3, 3}, Range{0.3, 3}>,
})};

// Locally a shift by a constant.
const Primitive nextafter_p{
    binary<nextafter_p, kFloating, [](auto a, auto b) { return scalar::nextafter(a, b); }>({
        .name = "nextafter",
        .doc = "the number next to a in the direction of b",
        .emit = code<"etp_nextafter_$t($0, $1)", 20>,
        .jvp = [](const Params&, ArraySpan, ArraySpan y, ArraySpan dx) -> Arrays {
          return tangent(y[0], {dx[0]});
        },
        .samples = samples<kFloating, Range{-3, 3}, Range{-3, 3}>,
    })};

const Primitive max_p{binary<max_p, kAny, [](auto a, auto b) { return scalar::max(a, b); }>({
    .name = "max",
    .doc = "the larger of a and b; NaN if one of them is",
    .emit = code<"etp_max_$t($0, $1)", 2>,
    .facts = fact_rules::decided<fact_rules::extreme<Sign::NotNegative>>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
      return jvp_by_winner(greater(x[0], x[1]), x, y[0], dx);
    },
    .samples = samples<kAny, Range{-3, 3}, Range{-3, 3}>,
})};

const Primitive min_p{binary<min_p, kAny, [](auto a, auto b) { return scalar::min(a, b); }>({
    .name = "min",
    .doc = "the smaller of a and b; NaN if one of them is",
    .emit = code<"etp_min_$t($0, $1)", 2>,
    .facts = fact_rules::decided<fact_rules::extreme<Sign::NotPositive>>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
      return jvp_by_winner(less(x[0], x[1]), x, y[0], dx);
    },
    .samples = samples<kAny, Range{-3, 3}, Range{-3, 3}>,
})};

}  // namespace etrace
