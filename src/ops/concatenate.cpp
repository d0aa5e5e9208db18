// concatenate (along an axis), stack (along a new axis), split (the inverse of concatenate).
#include <algorithm>
#include <optional>

#include "etrace/facts.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

namespace {

Dtype common_dtype(std::string_view op, std::span<const Aval> in) {
  if (in.empty()) refuse(op, "needs at least one operand");
  for (const Aval& a : in)
    if (a.dtype != in[0].dtype)
      refuse_type(op, "the operands " + to_string(in[0]) + " and " + to_string(a) +
                          " differ in element type; convert them to one type first");
  return in[0].dtype;
}

template <class Word, int N>
Kernel alternate(std::int64_t rows, const etp_context& context) {
  return {[rows, context, parts = parts_of_work(N * rows, context.threads)](const KernelArgs& k) {
    in_parts(context, parts, [&](int part) {
      const std::int64_t first = rows * part / parts, last = rows * (part + 1) / parts;
      std::array<const Word*, N> lines;
      for (std::size_t i = 0; i < N; ++i) lines[i] = static_cast<const Word*>(k.in[i]) + first;
      interleave_words<N>(static_cast<Word*>(k.out[0]) + N * first, lines, last - first);
    });
  }};
}

template <class Word>
Kernel alternate(std::size_t operands, std::int64_t rows, const etp_context& context) {
  return operands == 2   ? alternate<Word, 2>(rows, context)
         : operands == 3 ? alternate<Word, 3>(rows, context)
                         : alternate<Word, 4>(rows, context);
}

// Up to four operands give one or two elements in turn: states side by side.
std::optional<Kernel> alternating(Dtype dtype, std::int64_t rows, const Dims& widths,
                                  const etp_context& context) {
  struct Pair {
    std::uint32_t first, second;
  };
  const bool alike = std::all_of(widths.begin(), widths.end(), [&](auto w) { return w == widths[0]; });
  if (!alike || widths.size() < 2 || widths.size() > 4 || rows < 4) return std::nullopt;
  if (size_of(dtype) == 4 && widths[0] == 1) return alternate<std::uint32_t>(widths.size(), rows, context);
  if (size_of(dtype) == 4 && widths[0] == 2) return alternate<Pair>(widths.size(), rows, context);
  if (size_of(dtype) == 8 && widths[0] == 1) return alternate<std::uint64_t>(widths.size(), rows, context);
  return std::nullopt;
}

// Operand k fills `widths[k]` of every `row` elements of the result: both operations are that, seen
// row-major.
Kernel interleave(const KernelRequest& q, std::int64_t rows, std::int64_t row, const Dims& widths) {
  if (std::optional<Kernel> kernel = alternating(q.y().dtype, rows, widths, q.context))
    return *std::move(kernel);
  struct Part {
    StridedCopy copy;
    std::int64_t start;
  };
  std::vector<Part> parts;
  std::int64_t start = 0;
  for (const std::int64_t width : widths) {
    parts.push_back(
        {StridedCopy(Dims{rows, width}, {row, 1}, {width, 1}, size_of(q.y().dtype), q.context), start});
    start += width;
  }
  return {[parts](const KernelArgs& k) {
    for (std::size_t i = 0; i < parts.size(); ++i) parts[i].copy(k.in[i], 0, k.out[0], parts[i].start);
  }};
}

std::int64_t product(std::span<const std::int64_t> sizes) {
  std::int64_t n = 1;
  for (const std::int64_t s : sizes) n *= s;
  return n;
}

Emission concatenate_code(const EmitRequest& q) {
  const auto d = to_index(q.params.integer("dimension"));
  ViewCode code;
  Dims start(q.y().shape.rank(), 0);
  for (std::size_t k = 0; k < q.in.size(); ++k) {
    code.pieces.push_back({k, start, q.x(k).shape.to_dims(), {0, strides_of(q.x(k).shape)}});
    start[d] += q.x(k).shape[d];
  }
  return code;
}

Emission stack_code(const EmitRequest& q) {
  const auto d = static_cast<std::ptrdiff_t>(q.params.integer("axis"));
  ViewCode code;
  Dims start(q.y().shape.rank(), 0);
  for (std::size_t k = 0; k < q.in.size(); ++k) {
    Dims size = q.x(k).shape.to_dims(), step = strides_of(q.x(k).shape);
    size.insert(size.begin() + d, 1);
    step.insert(step.begin() + d, 0);
    start[to_index(d)] = to_dim(k);
    code.pieces.push_back({k, start, size, {0, step}});
  }
  return code;
}

Arrays instantiate_all(ArraySpan dx, ArraySpan x) {
  Arrays out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(instantiate(dx[i], x[i].aval()));
  return out;
}

Arrays batch_all(ArraySpan x, const std::vector<bool>& batched, std::int64_t n) {
  Arrays out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(with_batch_axis(x[i], batched[i], n));
  return out;
}

Dims split_sizes(const Params& params, const Aval& in) {
  const Dims sizes = params.dims("sizes"), axis{params.integer("axis")};
  check_axes("split", "axis", axis, in.shape.rank());
  std::int64_t total = 0;
  for (const std::int64_t s : sizes) {
    if (s < 0) refuse("split", "the sizes " + show(sizes) + " must not be negative");
    total += s;
  }
  if (total != in.shape[to_index(axis[0])])
    refuse("split", "the sizes " + show(sizes) + " add up to " + std::to_string(total) + ", but axis " +
                        std::to_string(axis[0]) + " of " + to_string(in) + " has " +
                        std::to_string(in.shape[to_index(axis[0])]));
  return sizes;
}

}  // namespace

const Primitive concatenate_p{{
    .name = "concatenate",
    .doc = "y holds the operands one after the other along the axis `dimension`",
    .params = {"dimension"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      const Dtype dtype = common_dtype("concatenate", in);
      const Dims axis{params.integer("dimension")};
      check_axes("concatenate", "dimension", axis, in[0].shape.rank());
      const std::size_t d = to_index(axis[0]);
      std::int64_t total = 0;
      for (const Aval& a : in) {
        if (a.shape.rank() != in[0].shape.rank() || a.shape.with(d, 0) != in[0].shape.with(d, 0))
          refuse("concatenate", "the operands " + to_string(in[0]) + " and " + to_string(a) +
                                    " must agree in every axis but " + std::to_string(d));
        total += a.shape[d];
      }
      return {{dtype, in[0].shape.with(d, total)}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const auto d = to_index(q.params.integer("dimension"));
      const std::int64_t inner = product(q.y().shape.dims().subspan(d + 1));
      Dims widths;
      for (const Aval& a : q.in) widths.push_back(a.shape[d] * inner);
      return interleave(q, product(q.y().shape.dims().first(d)), q.y().shape[d] * inner, widths);
    },
    .emit = concatenate_code,
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return bind_primitive(concatenate_p, instantiate_all(dx, x), params);
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      const std::int64_t d = params.integer("dimension");
      Arrays out(x.size());
      std::int64_t start = 0;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const std::int64_t end = start + in[i].shape[to_index(d)];
        if (!x[i].defined()) out[i] = slice_axis(ct[0], static_cast<int>(d), start, end);
        start = end;
      }
      return out;
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched,
                std::int64_t n) -> Arrays {
      return bind_primitive(concatenate_p, batch_all(x, batched, n),
                            {{"dimension", params.integer("dimension") + 1}});
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(1, 5);
      auto params = [](int axis) -> Params { return {{"dimension", axis}}; };
      return {{{r.floats({n}), r.floats({3})}, params(0)},
              {{r.floats({2, n}), r.floats({2, 1}), r.floats({2, 0})}, params(1)},
              {{r.floats({2, n, 3}), r.floats({2, 4, 3})}, params(1)},
              {{r.floats({n, 0}), r.floats({2, 0})}, params(0)},
              {{r.floats({n, 3}, Dtype::F32)}, params(0)},
              {{r.bools({n}), r.bools({2})}, params(0), false},
              {{r.ints({2, n}, -9, 9), r.ints({2, 2}, -9, 9)}, params(1), false}};
    },
}};

const Primitive stack_p{{
    .name = "stack",
    .doc = "y holds the operands, which have one shape, along a new axis `axis`",
    .params = {"axis"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      const Dtype dtype = common_dtype("stack", in);
      const Dims axis{params.integer("axis")};
      check_axes("stack", "axis", axis, in[0].shape.rank() + 1);
      for (const Aval& a : in)
        if (a.shape != in[0].shape)
          refuse("stack",
                 "the operands " + to_string(in[0]) + " and " + to_string(a) + " must have one shape");
      Dims out = in[0].shape.to_dims();
      out.insert(out.begin() + static_cast<std::ptrdiff_t>(axis[0]), to_dim(in.size()));
      return {{dtype, out}};
    },
    .kernel = [](const KernelRequest& q) -> Kernel {
      const auto d = to_index(q.params.integer("axis"));
      const std::int64_t inner = product(q.x(0).shape.dims().subspan(d));
      return interleave(q, product(q.x(0).shape.dims().first(d)), inner * to_dim(q.in.size()),
                        Dims(q.in.size(), inner));
    },
    .emit = stack_code,
    .jvp = [](const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) -> Arrays {
      return bind_primitive(stack_p, instantiate_all(dx, x), params);
    },
    .transpose = [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval>) -> Arrays {
      const std::int64_t d = params.integer("axis");
      Arrays out(x.size());
      for (std::size_t i = 0; i < x.size(); ++i)
        if (!x[i].defined())
          out[i] = squeeze(slice_axis(ct[0], static_cast<int>(d), to_dim(i), to_dim(i) + 1), {d});
      return out;
    },
    .batch = [](const Params& params, ArraySpan x, const std::vector<bool>& batched,
                std::int64_t n) -> Arrays {
      return bind_primitive(stack_p, batch_all(x, batched, n), {{"axis", params.integer("axis") + 1}});
    },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(1, 5);
      auto params = [](int axis) -> Params { return {{"axis", axis}}; };
      return {{{r.floats({n}), r.floats({n})}, params(0)},
              {{r.floats({2, n}), r.floats({2, n}), r.floats({2, n})}, params(1)},
              {{r.floats({2, n}), r.floats({2, n})}, params(2)},
              {{r.floats({}), r.floats({}), r.floats({})}, params(0)},
              {{r.floats({n, 0}), r.floats({n, 0})}, params(2)},
              {{r.ints({n}, -9, 9), r.ints({n}, -9, 9)}, params(1), false}};
    },
}};

const Primitive split_p{{
    .name = "split",
    .doc = "y_k are consecutive parts of x along the axis `axis`, of the given sizes",
    .params = {"sizes", "axis"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      expect_operands("split", in, 1);
      Avals out;
      for (const std::int64_t s : split_sizes(params, in[0]))
        out.push_back({in[0].dtype, in[0].shape.with(to_index(params.integer("axis")), s)});
      return out;
    },
    .lower = [](const Params& params, ArraySpan x) -> Arrays {
      return split(x[0], params.dims("sizes"), static_cast<int>(params.integer("axis")));
    },
    .facts = [](const FactRequest& q) { return q.moved(Shows::Part); },
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t n = r.integer(1, 4);
      auto params = [](const Dims& sizes, int axis) -> Params { return {{"sizes", sizes}, {"axis", axis}}; };
      return {{{r.floats({n + 2})}, params({n, 2}, 0)},
              {{r.floats({2, n + 3})}, params({1, n, 0, 2}, 1)},
              {{r.floats({0, 4}, Dtype::F32)}, params({2, 2}, 1)},
              {{r.ints({3, n}, -9, 9)}, params({1, 2}, 0), false}};
    },
}};

Array concatenate(ArraySpan arrays, int axis) {
  if (arrays.empty()) refuse("concatenate", "needs at least one array");
  const std::int64_t d = normalize_axis("concatenate", axis, arrays[0].rank());
  return arrays.size() == 1 ? arrays[0] : bind_primitive(concatenate_p, arrays, {{"dimension", d}})[0];
}

Array stack(ArraySpan arrays, int axis) {
  if (arrays.empty()) refuse("stack", "needs at least one array");
  const std::int64_t d = normalize_axis("stack", axis, arrays[0].rank() + 1);
  return arrays.size() == 1 ? expand_dims(arrays[0], {d}) : bind_primitive(stack_p, arrays, {{"axis", d}})[0];
}

Arrays split(const Array& x, const Dims& sizes, int axis) {
  const std::int64_t d = normalize_axis("split", axis, x.rank());
  Arrays out;
  std::int64_t start = 0;
  for (const std::int64_t s : split_sizes({{"sizes", sizes}, {"axis", d}}, x.aval())) {
    out.push_back(slice_axis(x, static_cast<int>(d), start, start + s));
    start += s;
  }
  return out;
}

}  // namespace etrace
