// Choosing between operands element by element: select_n and clamp.
#include <algorithm>
#include <memory>
#include <string>

#include "ops/elementwise_common.h"
#include "ops/fact_rules.h"
#include "ops/scalar_math.h"

namespace etrace {

using namespace elementwise;

namespace {

// Rows over elements of one width: a choice does not look into them, so storage types are welcome too.
template <auto F, class... Selector>
std::span<const Row> rows_by_width(Dtype dtype) {
  switch (size_of(dtype)) {
    case 1:
      return map_rows<F, Selector..., std::uint8_t, std::uint8_t>();
    case 2:
      return map_rows<F, Selector..., std::uint16_t, std::uint16_t>();
    case 4:
      return map_rows<F, Selector..., std::uint32_t, std::uint32_t>();
    default:
      return map_rows<F, Selector..., std::uint64_t, std::uint64_t>();
  }
}

// y = which ? case1 : case0. The bool is read as its byte: gcc does not vectorise a choice by `bool`.
Kernel select_by_bool(const KernelRequest& r) {
  using Byte = std::uint8_t;
  return loop_kernel(r,
                     rows_by_width<[](Byte w, auto a, auto b) { return w != 0 ? b : a; }, Byte>(r.y().dtype));
}

// One pass per case: y = case0, then y = (which ≥ k ? case_k : y) for k = 1, 2, … so that indices out of
// range are clamped.
Kernel select_by_index(const KernelRequest& r) {
  struct Pass {
    std::int32_t k;
    Loops loops;
  };
  const auto rows =
      rows_by_width<[](std::int32_t w, std::int32_t k, auto a, auto b) { return k <= w ? b : a; },
                    std::int32_t, std::int32_t>(r.y().dtype);
  const std::size_t cases = r.in.size() - 1;
  std::vector<Pass> passes;
  for (std::size_t k = 1; k < std::max<std::size_t>(cases, 2); ++k) {
    const Avals in{r.x(0), {Dtype::I32, {}}, k == 1 ? r.x(1) : r.y(), r.x(std::min(k, cases - 1) + 1)};
    passes.push_back({static_cast<std::int32_t>(k), Loops(r.y(), in, rows, r.context)});
  }
  return {.run = [passes = std::move(passes), cases](const KernelArgs& a) {
    for (const Pass& pass : passes) {
      const auto k = static_cast<std::size_t>(pass.k);
      const std::array<const void*, 4> x{a.in[0], &pass.k, k == 1 ? a.in[1] : a.out[0],
                                         a.in[std::min(k, cases - 1) + 1]};
      pass.loops(a.out[0], x.data());
    }
  }};
}

Emission select_code(const EmitRequest& r) {
  if (r.x(0).dtype == Dtype::Bool) return MapCode{"$0 ? $2 : $1"};
  std::string text = "$1";
  for (std::size_t k = 2; k < r.in.size(); ++k)
    text = "$0 >= " + std::to_string(k - 1) + " ? $" + std::to_string(k) + " : (" + text + ")";
  return MapCode{text, static_cast<int>(r.in.size())};
}

Avals select_types(const Params&, std::span<const Aval> in) {
  if (in.size() < 2) require_arity("select_n", in, 3);
  const Dtype which = in[0].dtype;
  const std::size_t cases = in.size() - 1;
  if (which != Dtype::Bool && which != Dtype::I32)
    throw TypeError("select_n", "the first operand, which says what to choose, is " + to_string(in[0]) +
                                    "; it must be bool or i32");
  if (which == Dtype::Bool && cases != 2)
    throw CompilationError("select_n", "a bool chooses between 2 cases but " + std::to_string(cases) +
                                           " were given; use an i32 operand");
  for (const Aval& a : in.subspan(1))
    if (a.dtype != in[1].dtype)
      throw TypeError("select_n", "the cases " + to_string(in[1]) + " and " + to_string(a) +
                                      " have different element types; convert them to one type first");
  return {{in[1].dtype, common_shape("select_n", in)}};
}

// The cases with one of them replaced and zeros for the others.
Array select_only(const Array& which, std::size_t cases, std::size_t position, const Array& value) {
  Arrays in{which};
  in.resize(cases + 1, full({}, 0.0, value.dtype()));
  in[position] = value;
  return bind_primitive(select_n_p, in)[0];
}

}  // namespace

const Primitive select_n_p{{
    .name = "select_n",
    .doc = "y = case[which], operands which (bool or i32), case0, case1, …; an index out of range is clamped",
    .elementwise = true,
    .abstract = select_types,
    .kernel =
        [](const KernelRequest& r) {
          return r.x(0).dtype == Dtype::Bool ? select_by_bool(r) : select_by_index(r);
        },
    .emit = select_code,
    .facts =
        [](const FactRequest& q) {
          Facts f = q.moved(Shows::None, 1);
          f.decided = q.x(0).decided;
          return f;
        },
    .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
      Arrays in{x[0]};
      for (const Array& d : dx.subspan(1)) in.push_back(d.defined() ? d : full({}, 0.0, y[0].dtype()));
      return tangent(y[0], {bind_primitive(select_n_p, in)[0]});
    },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      Arrays out(x.size());
      for (std::size_t i = 1; i < x.size(); ++i)
        if (!x[i].defined()) out[i] = unbroadcast(select_only(x[0], x.size() - 1, i, ct[0]), in[i].shape);
      return out;
    },
    .batch = batch<select_n_p>,
    .samples =
        [](std::uint64_t seed) {
          std::vector<Sample> all;
          SampleSource source(seed);
          for (const Sample& s : make_samples(seed, kAny, std::array{Range{-3, 3}, Range{-3, 3}})) {
            // A selector of the result's shape, and a scalar one where the cases alone give that shape.
            const Shape shape = common_shape("select_n", avals_of(s.operands));
            for (const Shape& selector : {shape, Shape{}})
              all.push_back({{source.values({Dtype::Bool, selector}, {}), s.operands[0], s.operands[1]},
                             {},
                             s.differentiable});
          }
          for (const Sample& s :
               make_samples(seed + 1, kFloating, std::array{Range{-3, 3}, Range{-3, 3}, Range{-3, 3}})) {
            Arrays in = s.operands;
            in.insert(in.begin(), source.values({Dtype::I32, common_shape("select_n", avals_of(in))}, {}));
            all.push_back({std::move(in), {}, s.differentiable});
          }
          return all;
        },
}};

// min(max(x, low), high), and so `high` if the bounds are in the wrong order.
const Primitive clamp_p{{
    .name = "clamp",
    .doc = "y = min(max(x, low), high), operands low, x, high",
    .elementwise = true,
    .abstract = same_type<clamp_p, kNumber, 3>,
    .kernel = map_kernel<kNumber, [](auto low, auto x, auto high) { return scalar::clamp(low, x, high); }, 3>,
    .emit = code<"etp_clamp_$t($0, $1, $2)", 4>,
    .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
      const Array zero = full({}, 0.0, y[0].dtype());
      const Array &low = x[0], &at = x[1], &high = x[2];
      return tangent(y[0], {partial(dx[0], [&](const Array& d) { return where(greater(low, at), d, zero); }),
                            partial(dx[1],
                                    [&](const Array& d) {
                                      return where(logical_and(greater(at, low), less(at, high)), d, zero);
                                    }),
                            partial(dx[2], [&](const Array& d) { return where(less(high, at), d, zero); })});
    },
    .batch = batch<clamp_p>,
    .samples = samples<kNumber, Range{-2, -0.5}, Range{-3, 3}, Range{0.5, 2}>,
}};

}  // namespace etrace
