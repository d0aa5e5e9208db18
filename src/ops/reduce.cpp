// reduce_sum, reduce_prod, reduce_max, reduce_min, reduce_and, reduce_or: one operation joined over the given
// axes. The order of the operations depends on the shape only (reduce_order.h), never on threads: same bits
// on every run. Sums and products of floats are formed in double precision and rounded once; lanes and blocks
// keep the error of sums of doubles far below that of one running sum.
#include <algorithm>
#include <limits>

#include "etrace/emission.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/reduce_order.h"
#include "ops/structure_common.h"
#include "runtime/etp_fold.h"

namespace etrace {

using namespace structure;

namespace {

// The operations: the type they are formed in, the neutral element, and the join. uint8_t stands for Bool.
struct Sum {
  template <class T>
  using Acc = Accumulator<T>;
  template <class T>
  static constexpr Acc<T> neutral = Acc<T>(0);
  template <class A>
  static A join(A a, A b) {
    return static_cast<A>(a + b);
  }
};
struct Prod {
  template <class T>
  using Acc = Accumulator<T>;
  template <class T>
  static constexpr Acc<T> neutral = Acc<T>(1);
  template <class A>
  static A join(A a, A b) {
    return static_cast<A>(a * b);
  }
};
struct Max {
  template <class T>
  using Acc = T;
  template <class T>
  static constexpr T neutral = std::is_floating_point_v<T> ? -std::numeric_limits<T>::infinity()
                                                           : std::numeric_limits<T>::min();
  template <class A>
  static A join(A a, A b) {
    return a > b || is_nan(a) ? a : b;
  }
};
struct Min {
  template <class T>
  using Acc = T;
  template <class T>
  static constexpr T neutral = std::is_floating_point_v<T>       ? std::numeric_limits<T>::infinity()
                               : std::is_same_v<T, std::uint8_t> ? T(1)
                                                                 : std::numeric_limits<T>::max();
  template <class A>
  static A join(A a, A b) {
    return a < b || is_nan(a) ? a : b;
  }
};
struct And {
  template <class T>
  using Acc = T;
  template <class T>
  static constexpr T neutral = std::is_same_v<T, std::uint8_t> ? T(1) : static_cast<T>(~T(0));
  template <class A>
  static A join(A a, A b) {
    return static_cast<A>(a & b);
  }
};
struct Or {
  template <class T>
  using Acc = T;
  template <class T>
  static constexpr T neutral = T(0);
  template <class A>
  static A join(A a, A b) {
    return static_cast<A>(a | b);
  }
};

constexpr std::int64_t kColumns = 128;

// The arithmetic of one operation on one element type. The walk over axes is the same for all of them and is
// compiled once; these are its inner loops.
struct Loops {
  std::size_t size;                                                // of an element
  void (*start)(void* acc, std::int64_t n);                        // n neutral elements
  void (*join)(void* acc, const void* row, std::int64_t n);        // acc[i] ∘= row[i]
  void (*join_line)(void* acc, const void* line, std::int64_t n);  // acc[0] ∘= line[0] ∘ … ∘ line[n-1]
  void (*finish)(const void* acc, void* y, std::int64_t n);
};

template <class Op, class T>
struct LoopsOf {
  using A = typename Op::template Acc<T>;

  static void start(void* acc, std::int64_t n) {
    std::fill_n(static_cast<A*>(acc), n, Op::template neutral<T>);
  }

  static void join(void* acc, const void* row, std::int64_t n) {
    A* __restrict a = static_cast<A*>(acc);
    const T* __restrict x = static_cast<const T*>(row);
    for (std::int64_t i = 0; i < n; ++i) a[i] = Op::join(a[i], static_cast<A>(x[i]));
  }

  ETP_FOLD(block, T, A, Op::join)

  static void join_line(void* acc, const void* line, std::int64_t n) {
    A total = *static_cast<A*>(acc);
    const T* x = static_cast<const T*>(line);
    for (std::int64_t i = 0; i < n; i += ETP_FOLD_BLOCK) {
      std::array<A, ETP_FOLD_LANES> lane;
      lane.fill(Op::template neutral<T>);
      block_add(lane.data(), x + i, std::min<std::int64_t>(ETP_FOLD_BLOCK, n - i));
      total = Op::join(total, block_end(lane.data()));
    }
    *static_cast<A*>(acc) = total;
  }

  static void finish(const void* acc, void* y, std::int64_t n) {
    const A* a = static_cast<const A*>(acc);
    T* out = static_cast<T*>(y);
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(a[i]);
  }

  static constexpr Loops loops{sizeof(T), start, join, join_line, finish};
};

// Threads take stretches of the results: every result is summed by one of them, in one order.
template <class F>
Kernel kernel_in_parts(const etp_context& context, std::int64_t work, std::int64_t length, F run) {
  const std::int64_t parts = std::min<std::int64_t>(parts_of_work(work, context.threads), length);
  if (parts <= 1) return {[=](const KernelArgs& k) { run(k, 0, length); }};
  return {[=](const KernelArgs& k) {
    in_parts(context, parts, [&](int p) { run(k, length * p / parts, length * (p + 1) / parts); });
  }};
}

Kernel reduce_kernel(const Loops& loops, const Shape& from, const Shape& to, const Dims& axes,
                     const etp_context& context) {
  const auto size = static_cast<std::int64_t>(loops.size);
  const ReduceOrder order = reduce_order(from, axes);
  if (!order.joins()) return copy_kernel(to_index(from.size() * size));
  const Dims kept_axes = other_axes(from.rank(), axes), strides = strides_of(from);
  Box<2> kept(pick(from.dims(), kept_axes), {pick(strides, kept_axes), strides_of(to)});
  Box<1> chain(pick(from.dims(), order.chain), {pick(strides, order.chain)});

  if (order.line.empty()) {  // columns side by side, rows joined one by one
    const auto columns = kept.pop_back();
    const auto rows = chain.pop_back();
    return kernel_in_parts(
        context, from.size(), kept.rank() > 0 ? kept.axis(0).extent : columns.extent,
        [=, alone = kept.rank() == 0](const KernelArgs& k, std::int64_t first, std::int64_t last) {
          const auto* x = static_cast<const std::byte*>(k.in[0]);
          auto* y = static_cast<std::byte*>(k.out[0]);
          alignas(64) std::array<std::byte, to_index(kColumns) * sizeof(double)> acc;
          const std::int64_t begin = alone ? first : 0, end = alone ? last : columns.extent;
          kept.for_range(alone ? 0 : first, alone ? 1 : last, [&](const std::array<std::int64_t, 2>& at) {
            for (std::int64_t c0 = begin; c0 < end; c0 += kColumns) {
              const std::int64_t width = std::min(kColumns, end - c0);
              loops.start(acc.data(), width);
              chain.for_each([&](const std::array<std::int64_t, 1>& outer) {
                for (std::int64_t r = 0; r < rows.extent; ++r)
                  loops.join(acc.data(), x + (at[0] + outer[0] + r * rows.stride[0] + c0) * size, width);
              });
              loops.finish(acc.data(), y + (at[1] + c0) * size, width);
            }
          });
        });
  }
  const std::int64_t length = Shape(pick(from.dims(), order.line)).size();  // contiguous
  return kernel_in_parts(context, from.size(), kept.rank() > 0 ? kept.axis(0).extent : 1,
                         [=](const KernelArgs& k, std::int64_t first, std::int64_t last) {
                           const auto* x = static_cast<const std::byte*>(k.in[0]);
                           auto* y = static_cast<std::byte*>(k.out[0]);
                           alignas(double) std::array<std::byte, sizeof(double)> total;
                           kept.for_range(first, last, [&](const std::array<std::int64_t, 2>& at) {
                             loops.start(total.data(), 1);
                             chain.for_each([&](const std::array<std::int64_t, 1>& line) {
                               loops.join_line(total.data(), x + (at[0] + line[0]) * size, length);
                             });
                             loops.finish(total.data(), y + at[1] * size, 1);
                           });
                         });
}

enum class Domain : std::uint8_t { Numbers, Ordered, Bits };

template <const Primitive& P, Domain D>
Avals typing(const Params& params, std::span<const Aval> in) {
  expect_operands(P.name(), in, 1);
  const Dims axes = params.dims("axes");
  check_axes(P.name(), "axes", axes, in[0].shape.rank());
  if (D == Domain::Bits && is_floating(in[0].dtype))
    refuse_type(P.name(), "works on bool and integers, but the operand is " + to_string(in[0]) +
                              "; compare with a threshold first");
  expect_number(P.name(), in[0].dtype, D != Domain::Numbers);
  return {{in[0].dtype, pick(in[0].shape.dims(), other_axes(in[0].shape.rank(), axes))}};
}

template <class Op>
Kernel kernel(const KernelRequest& q) {
  return visit_number(q.x(0).dtype, [&]<class T>(std::type_identity<T>) -> Kernel {
    if constexpr ((std::is_same_v<Op, And> || std::is_same_v<Op, Or>)&&std::is_floating_point_v<T>)
      ETRACE_CHECK(!"the typing rule admits bits only");
    else
      return reduce_kernel(LoopsOf<Op, T>::loops, q.x(0).shape, q.y().shape, q.params.dims("axes"),
                           q.context);
    return {};
  });
}

template <FoldCode::Op O>
Emission fold_code(const EmitRequest& q) {
  return FoldCode{O, q.params.dims("axes")};
}

template <const Primitive& P>
Arrays batch(const Params& params, ArraySpan x, const std::vector<bool>&, std::int64_t) {
  return {bind1(P, {x[0]}, {{"axes", shifted(params.dims("axes"))}})};
}

// Back to the operand's shape, constant along the reduced axes.
Array spread(const Array& y, const Shape& shape, const Dims& axes) {
  return broadcast_in_dim(y, shape, other_axes(shape.rank(), axes));
}

// Of max and min: the tangent of the extreme element; equal ones share.
Arrays extreme_jvp(const Params& params, ArraySpan x, ArraySpan y, ArraySpan dx) {
  const Dims axes = params.dims("axes");
  const Array at = convert(equal_to(x[0], spread(y[0], x[0].shape(), axes)), x[0].dtype());
  return {reduce_sum(dx[0] * at, axes) / reduce_sum(at, axes)};
}

// d Π x = Σ_i dx_i Π_{j≠i} x_j, by a tree of pairs (p, dp): no division, so zeros do no harm.
Arrays prod_jvp(const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) {
  const Dims axes = params.dims("axes"), kept = other_axes(x[0].rank(), axes);
  const Dims rest = pick(x[0].shape().dims(), kept);
  const std::int64_t count = Shape(pick(x[0].shape().dims(), axes)).size();
  auto lines = [&](const Array& a) {
    return reshape(transpose(a, joined(axes, kept)), with_front(count, rest));
  };
  if (count == 0) return {Array()};
  Array p = lines(x[0]), dp = lines(dx[0]);
  for (std::int64_t n = count; n > 1; n = (n + 1) / 2) {
    const std::int64_t half = n / 2;
    auto part = [](const Array& a, std::int64_t from, std::int64_t to) { return slice_axis(a, 0, from, to); };
    const Array pa = part(p, 0, half), pb = part(p, half, 2 * half);
    const Array d = part(dp, 0, half) * pb + pa * part(dp, half, 2 * half), product = pa * pb;
    const bool odd = n % 2 == 1;
    dp = odd ? concatenate(Arrays{d, part(dp, n - 1, n)}) : d;
    p = odd ? concatenate(Arrays{product, part(p, n - 1, n)}) : product;
  }
  return {squeeze(dp, {0})};
}

Samples reduce_samples(std::uint64_t seed, bool numbers, bool bools) {
  Source r(seed);
  const std::int64_t n = r.integer(2, 6);
  auto params = [](const Dims& axes) -> Params { return {{"axes", axes}}; };
  Samples out;
  if (numbers)
    out = {{{r.distinct({n})}, params({0})},
           {{r.distinct({n, 3})}, params({0})},
           {{r.distinct({n, 3})}, params({1})},
           {{r.distinct({2, n, 3})}, params({0, 2})},
           {{r.distinct({2, n, 3, 2})}, params({1, 2})},
           {{r.distinct({n, 2})}, params({})},
           {{r.distinct({})}, params({})},
           {{r.distinct({n, 0})}, params({0})},
           {{r.floats({0, n})}, params({0}), false},
           {{r.floats({n, 37}, Dtype::F32)}, params({1}), false},
           {{r.floats({37, n}, Dtype::F32)}, params({0}), false}};
  out.push_back({{r.ints({3, n}, -9, 9)}, params({0}), false});
  out.push_back({{r.ints({n, 35}, 0, 9, Dtype::I64)}, params({1}), false});
  if (bools) {
    out.push_back({{r.bools({n, 3})}, params({1}), false});
    out.push_back({{r.bools({0, n})}, params({0}), false});
  }
  return out;
}

}  // namespace

const Primitive reduce_sum_p{{
    .name = "reduce_sum",
    .doc = "y = Σ x over `axes`",
    .params = {"axes"},
    .abstract = typing<reduce_sum_p, Domain::Numbers>,
    .kernel = kernel<Sum>,
    .emit = fold_code<FoldCode::Sum>,
    .jvp = [](const Params& params, ArraySpan, ArraySpan, ArraySpan dx) -> Arrays {
      return {reduce_sum(dx[0], params.dims("axes"))};
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan, std::span<const Aval> in) -> Arrays {
      return {spread(ct[0], in[0].shape, params.dims("axes"))};
    },
    .batch = batch<reduce_sum_p>,
    .samples = [](std::uint64_t seed) { return reduce_samples(seed, true, false); },
}};

const Primitive reduce_prod_p{{
    .name = "reduce_prod",
    .doc = "y = Π x over `axes`",
    .params = {"axes"},
    .abstract = typing<reduce_prod_p, Domain::Numbers>,
    .kernel = kernel<Prod>,
    .emit = fold_code<FoldCode::Product>,
    .jvp = prod_jvp,
    .batch = batch<reduce_prod_p>,
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(2, 6);
      Samples out = reduce_samples(seed, false, false);
      out.push_back({{r.floats({n, 3})}, {{"axes", Dims{0}}}});
      out.push_back({{r.floats({2, n, 2})}, {{"axes", Dims{2, 0}}}});
      out.push_back({{r.ints({n, 4}, -1, 1, Dtype::F64)}, {{"axes", Dims{0}}}});  // with zeros
      out.push_back({{r.floats({0, n})}, {{"axes", Dims{0}}}});
      out.push_back({{r.floats({})}, {{"axes", Dims{}}}});
      return out;
    },
}};

const Primitive reduce_max_p{{
    .name = "reduce_max",
    .doc = "y = max x over `axes`; NaN wins, -inf if there is nothing",
    .params = {"axes"},
    .abstract = typing<reduce_max_p, Domain::Ordered>,
    .kernel = kernel<Max>,
    .emit = fold_code<FoldCode::Max>,
    .jvp = extreme_jvp,
    .batch = batch<reduce_max_p>,
    .samples = [](std::uint64_t seed) { return reduce_samples(seed, true, true); },
}};

const Primitive reduce_min_p{{
    .name = "reduce_min",
    .doc = "y = min x over `axes`; NaN wins, +inf if there is nothing",
    .params = {"axes"},
    .abstract = typing<reduce_min_p, Domain::Ordered>,
    .kernel = kernel<Min>,
    .emit = fold_code<FoldCode::Min>,
    .jvp = extreme_jvp,
    .batch = batch<reduce_min_p>,
    .samples = [](std::uint64_t seed) { return reduce_samples(seed, true, true); },
}};

const Primitive reduce_and_p{{
    .name = "reduce_and",
    .doc = "y = x & x & … over `axes`",
    .params = {"axes"},
    .abstract = typing<reduce_and_p, Domain::Bits>,
    .kernel = kernel<And>,
    .emit = fold_code<FoldCode::And>,
    .batch = batch<reduce_and_p>,
    .samples = [](std::uint64_t seed) { return reduce_samples(seed, false, true); },
}};

const Primitive reduce_or_p{{
    .name = "reduce_or",
    .doc = "y = x | x | … over `axes`",
    .params = {"axes"},
    .abstract = typing<reduce_or_p, Domain::Bits>,
    .kernel = kernel<Or>,
    .emit = fold_code<FoldCode::Or>,
    .batch = batch<reduce_or_p>,
    .samples = [](std::uint64_t seed) { return reduce_samples(seed, false, true); },
}};

}  // namespace etrace
