// cumsum, cumprod, cummax, cummin, cumlogsumexp: y_k joins x_0 … x_k along an axis (x_k … x_{n-1} if
// reverse). Derivatives of the non-linear ones have no division and no overflow, so they also hold at zeros
// and for large values.
#include <algorithm>
#include <cmath>
#include <limits>

#include "etrace/axes.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/index_common.h"
#include "runtime/etp_math.h"

namespace etrace {

using namespace structure;

namespace {

struct Running {  // the walk of one operation: lines of n entries, `inner` of them side by side
  std::int64_t outer, n, inner;
  bool reverse;
};
Running running(const KernelRequest& q) {
  const Shape& shape = q.x(0).shape;
  const std::size_t axis = to_index(q.params.integer("axis"));
  const std::int64_t inner = Shape(shape.dims().subspan(axis + 1)).size();
  return {Shape(shape.dims().first(axis)).size(), shape[axis], inner, q.params.boolean_or("reverse", false)};
}

// State: default-constructed before the first entry; next(x) takes an entry in and gives the result so far.
template <class T, class State>
Kernel running_kernel(const KernelRequest& q) {
  Kernel kernel;
  kernel.in_place = {{0, 0}};  // an entry is read before its place is written
  kernel.run = [w = running(q)](const KernelArgs& k) {
    constexpr std::int64_t kColumns = 64;
    const T* x = static_cast<const T*>(k.in[0]);
    T* y = static_cast<T*>(k.out[0]);
    for (std::int64_t o = 0; o < w.outer; ++o)
      for (std::int64_t c0 = 0; c0 < w.inner; c0 += kColumns) {
        const std::int64_t width = std::min(kColumns, w.inner - c0);
        std::array<State, to_index(kColumns)> state{};
        for (std::int64_t i = 0; i < w.n; ++i) {
          const std::int64_t at = (o * w.n + (w.reverse ? w.n - 1 - i : i)) * w.inner + c0;
          for (std::int64_t c = 0; c < width; ++c) y[at + c] = state[to_index(c)].next(x[at + c]);
        }
      }
  };
  return kernel;
}

template <class T>
struct SumState {
  Accumulator<T> total = 0;
  T next(T x) { return static_cast<T>(total += static_cast<Accumulator<T>>(x)); }
};
template <class T>
struct ProdState {
  Accumulator<T> total = 1;
  T next(T x) { return static_cast<T>(total *= static_cast<Accumulator<T>>(x)); }
};
template <class T>
struct MaxState {
  T best = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::min();
  T next(T x) { return best = best > x || is_nan(best) ? best : x; }
};
template <class T>
struct MinState {
  T best = std::is_floating_point_v<T> ? std::numeric_limits<T>::infinity() : std::numeric_limits<T>::max();
  T next(T x) { return best = best < x || is_nan(best) ? best : x; }
};
template <class T>
struct LogSumExpState {  // log Σ e^x = top + log(scaled), scaled = Σ e^(x - top)
  double top = -std::numeric_limits<double>::infinity(), scaled = 0.0;
  T next(T x) {
    const double v = static_cast<double>(x), old = top;
    if (v > top || is_nan(v)) top = v;
    if (!std::isfinite(top)) return static_cast<T>(top);
    scaled = scaled * etp_exp_f64(old - top) + etp_exp_f64(v - top);
    return static_cast<T>(top + etp_log_f64(scaled));
  }
};

template <template <class> class State>
Kernel number_kernel(const KernelRequest& q) {
  return visit_number(q.x(0).dtype,
                      [&]<class T>(std::type_identity<T>) { return running_kernel<T, State<T>>(q); });
}

template <const Primitive& P>
Avals typing(const Params& params, std::span<const Aval> in) {
  expect_operands(P.name(), in, 1);
  check_axes(P.name(), "axis", Dims{params.integer("axis")}, in[0].shape.rank());
  expect_number(P.name(), in[0].dtype);
  return {in[0]};
}

AxisTable lines_apart(const EmitRequest& q) {
  return AxisTable::aligned(q).mix(to_index(q.params.integer("axis")));
}

template <const Primitive& P>
Arrays batch(const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t) {
  return {bind1(P, {x[0]}, params.with("axis", params.integer("axis") + 1))};
}

// The axis of a rule, with operands turned so that they always run forwards.
struct Direction {
  explicit Direction(const Params& params)
      : axis(static_cast<int>(params.integer("axis"))), reverse(params.boolean_or("reverse", false)) {}
  Array turn(const Array& a) const { return reverse ? rev(a, {axis}) : a; }
  Array part(const Array& a, std::int64_t from, std::int64_t to) const {
    return slice_axis(a, axis, from, to);
  }
  int axis;
  bool reverse;
};

// Value and tangent of a running operation together. combine(earlier, later) joins two stretches.
struct Dual {
  Array value, tangent;
};
// Entries in pairs, the same for the pairs, and what lies between: about 2n joins in 2 log2 n steps. The
// order of the joins is that of JAX, which shows where the operation has no single derivative: equal entries
// of cummax share theirs by halves, join by join.
template <class Combine>
Dual running(const Direction& d, const Dual& all, Combine combine) {
  const std::int64_t n = all.value.dim(d.axis);
  if (n < 2) return all;
  const auto every_other = [&](std::int64_t from, std::int64_t to) {
    return Dual{slice_axis(all.value, d.axis, from, to, 2), slice_axis(all.tangent, d.axis, from, to, 2)};
  };
  const Dual odd = running(d, combine(every_other(0, n - 1), every_other(1, n)), combine);
  Dual even{d.part(all.value, 0, 1), d.part(all.tangent, 0, 1)};
  const auto both = [&](const Dual& a, const Dual& b, auto join) {
    return Dual{join(a.value, b.value), join(a.tangent, b.tangent)};
  };
  if (n > 2) {
    const std::int64_t between = (n - 1) / 2;
    const Dual before{d.part(odd.value, 0, between), d.part(odd.tangent, 0, between)};
    even = both(even, combine(before, every_other(2, n)), [&](const Array& a, const Array& b) {
      return concatenate(Arrays{a, b}, d.axis);
    });
  }
  return both(even, odd, [&](const Array& a, const Array& b) {
    const std::int64_t pairs = n / 2;
    Dims dims = a.shape().to_dims();
    dims[to_index(d.axis)] = 2 * pairs;
    const Array mixed = reshape(stack(Arrays{d.part(a, 0, pairs), b}, d.axis + 1), dims);
    return n % 2 == 0 ? mixed : concatenate(Arrays{mixed, d.part(a, pairs, pairs + 1)}, d.axis);
  });
}
template <class Combine>
Arrays running_tangent(const Params& params, const Array& x, const Array& dx, Combine combine) {
  const Direction d(params);
  return {d.turn(running(d, {d.turn(x), d.turn(dx)}, combine).tangent)};
}

// The tangent of the larger stretch (the smaller one of cummin), half of each where they are equal.
template <auto Extreme>
Arrays extreme_tangent(const Params& params, const Array& x, const Array& dx) {
  return running_tangent(params, x, dx, [](const Dual& a, const Dual& b) -> Dual {
    const Array value = Extreme(a.value, b.value), t = equal_to(a.value, b.value);
    const Array half = full({}, 0.5, value.dtype()), one = full({}, 1.0, value.dtype()),
                none = full({}, 0.0, value.dtype());
    const Array earlier = where(t, half, where(equal_to(a.value, value), one, none)),
                later = where(t, half, where(equal_to(b.value, value), one, none));
    return {value, a.tangent * earlier + b.tangent * later};
  });
}

Samples cumulative_samples(std::uint64_t seed, bool integers) {
  Source r(seed);
  const std::int64_t n = r.integer(2, 6);
  auto params = [](int axis, bool reverse) -> Params { return {{"axis", axis}, {"reverse", reverse}}; };
  Samples out{{{r.distinct({n})}, params(0, false)},
              {{r.distinct({n, 3})}, params(0, true)},
              {{r.distinct({2, n, 3})}, params(1, false)},
              {{r.distinct({2, n})}, params(1, true)},
              {{r.distinct({1, 2})}, params(0, false)},
              {{r.distinct({0, n})}, params(0, false)},
              {{r.floats({n, 5}, Dtype::F32)}, params(0, false), false}};
  if (integers) {
    out.push_back({{r.ints({n}, -4, 4)}, params(0, true), false});
    out.push_back({{r.ints({2, n}, 0, 4, Dtype::I64)}, params(1, false), false});
  }
  return out;
}

}  // namespace

const Primitive cumsum_p{{
    .name = "cumsum",
    .doc = "y_k = Σ_{i≤k} x_i along `axis`",
    .params = {"axis", "reverse"},
    .abstract = typing<cumsum_p>,
    .kernel = number_kernel<SumState>,
    .axes = lines_apart,
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {bind1(cumsum_p, {dx[0]}, params)};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan, std::span<const Aval>) -> Arrays {
      return {bind1(cumsum_p, {ct[0]}, params.with("reverse", !params.boolean_or("reverse", false)))};
    },
    .batch = batch<cumsum_p>,
    .samples = [](std::uint64_t seed) { return cumulative_samples(seed, true); },
}};

const Primitive cumprod_p{{
    .name = "cumprod",
    .doc = "y_k = Π_{i≤k} x_i along `axis`",
    .params = {"axis", "reverse"},
    .abstract = typing<cumprod_p>,
    .kernel = number_kernel<ProdState>,
    .axes = lines_apart,
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return running_tangent(params, x[0], dx[0], [](const Dual& a, const Dual& b) -> Dual {
        return {a.value * b.value, a.tangent * b.value + a.value * b.tangent};
      });
    },
    .batch = batch<cumprod_p>,
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      Samples out = cumulative_samples(seed, true);
      out.push_back({{r.ints({6, 2}, -1, 1, Dtype::F64)}, {{"axis", 0}, {"reverse", false}}});  // with zeros
      return out;
    },
}};

const Primitive cummax_p{{
    .name = "cummax",
    .doc = "y_k = max_{i≤k} x_i along `axis`; equal entries share the derivative",
    .params = {"axis", "reverse"},
    .abstract = typing<cummax_p>,
    .kernel = number_kernel<MaxState>,
    .axes = lines_apart,
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return extreme_tangent<[](const Array& a, const Array& b) { return maximum(a, b); }>(params, x[0],
                                                                                           dx[0]);
    },
    .batch = batch<cummax_p>,
    .samples = [](std::uint64_t seed) { return cumulative_samples(seed, true); },
}};

const Primitive cummin_p{{
    .name = "cummin",
    .doc = "y_k = min_{i≤k} x_i along `axis`; equal entries share the derivative",
    .params = {"axis", "reverse"},
    .abstract = typing<cummin_p>,
    .kernel = number_kernel<MinState>,
    .axes = lines_apart,
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return extreme_tangent<[](const Array& a, const Array& b) { return minimum(a, b); }>(params, x[0],
                                                                                           dx[0]);
    },
    .batch = batch<cummin_p>,
    .samples = [](std::uint64_t seed) { return cumulative_samples(seed, true); },
}};

const Primitive cumlogsumexp_p{{
    .name = "cumlogsumexp",
    .doc = "y_k = log Σ_{i≤k} exp(x_i) along `axis`",
    .params = {"axis", "reverse"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      if (!in.empty() && !is_floating(in[0].dtype))
        refuse_type("cumlogsumexp",
                    "works on floats, but the operand is " + to_string(in[0]) + "; convert it first");
      return typing<cumlogsumexp_p>(params, in);
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      return q.x(0).dtype == Dtype::F32 ? running_kernel<float, LogSumExpState<float>>(q)
                                        : running_kernel<double, LogSumExpState<double>>(q);
    },
    .axes = lines_apart,
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      // -inf (an empty sum) would meet itself in differences: a huge finite number weighs just as little.
      const bool single = x[0].dtype() == Dtype::F32;
      const double least = single ? -0.25 * static_cast<double>(std::numeric_limits<float>::max())
                                  : -0.25 * std::numeric_limits<double>::max();
      const Array finite = maximum(x[0], full({}, least, x[0].dtype()));
      return running_tangent(params, finite, dx[0], [](const Dual& a, const Dual& b) -> Dual {
        const Array gap = a.value - b.value, weight = logistic(gap);  // the share of the earlier stretch
        const Array joined_value = maximum(a.value, b.value) + log1p(exp(minimum(gap, -gap)));
        return {joined_value, b.tangent + weight * (a.tangent - b.tangent)};
      });
    },
    .batch = batch<cumlogsumexp_p>,
    .samples = [](std::uint64_t seed) { return cumulative_samples(seed, false); },
}};

namespace {
Array cumulate(const Primitive& prim, const Array& x, int axis, bool reverse) {
  return bind1(prim, {x}, {{"axis", normalize_axis(prim.name(), axis, x.rank())}, {"reverse", reverse}});
}
}  // namespace

Array cumsum(const Array& x, int axis, bool reverse) { return cumulate(cumsum_p, x, axis, reverse); }
Array cumprod(const Array& x, int axis, bool reverse) { return cumulate(cumprod_p, x, axis, reverse); }
Array cummax(const Array& x, int axis, bool reverse) { return cumulate(cummax_p, x, axis, reverse); }
Array cummin(const Array& x, int axis, bool reverse) { return cumulate(cummin_p, x, axis, reverse); }
Array cumlogsumexp(const Array& x, int axis, bool reverse) {
  return cumulate(cumlogsumexp_p, x, axis, reverse);
}

}  // namespace etrace
