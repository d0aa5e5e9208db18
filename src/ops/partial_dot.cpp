#include "ops/partial_dot.h"

#include "etrace/emission.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "ops/structure_common.h"

namespace etrace {

using namespace structure;

DotStretch dot_stretch(const Params& params) {
  return {params.integer("lhs_start"), params.integer("rhs_start"), params.integer("depth")};
}

Params partial_dot_params(const DotDims& d, const DotStretch& s) {
  return {{"dimension_numbers", dot_attr(d)},
          {"lhs_start", s.lhs_start},
          {"rhs_start", s.rhs_start},
          {"depth", s.depth}};
}

namespace {

constexpr std::string_view kName = "partial_dot";

Params with_dims(const Params& params, const DotDims& d) {
  return params.with("dimension_numbers", dot_attr(d));
}

// The product of the stretches alone, as a dot_general.
Params plain_params(const Params& params, Dtype dtype) {
  return {{"dimension_numbers", *params.find("dimension_numbers")}, {"preferred_element_type", dtype}};
}

struct Factor {  // 0: lhs, 1: rhs
  int axis;
  std::int64_t start;
};
Factor factor(const Params& params, std::size_t which) {
  const DotDims d = dot_dims(params);
  const DotStretch s = dot_stretch(params);
  return which == 0 ? Factor{static_cast<int>(d.lhs_contract[0]), s.lhs_start}
                    : Factor{static_cast<int>(d.rhs_contract[0]), s.rhs_start};
}

Avals types(const Params& params, std::span<const Aval> in) {
  if (in.size() != 3) expect_operands(kName, in, 2);
  const DotDims d = dot_dims(params);
  const DotStretch s = dot_stretch(params);
  if (d.lhs_contract.size() != 1 || d.rhs_contract.size() != 1)
    refuse(kName, "sums over one axis of each operand");
  check_axes(kName, "contracted and batch axes", joined(d.lhs_contract, d.lhs_batch), in[0].shape.rank());
  check_axes(kName, "contracted and batch axes", joined(d.rhs_contract, d.rhs_batch), in[1].shape.rank());
  Avals stretches;
  for (const std::size_t i : {std::size_t{0}, std::size_t{1}}) {
    const auto [axis, start] = factor(params, i);
    Dims dims = in[i].shape.to_dims();
    std::int64_t& size = dims[to_index(axis)];
    if (start < 0 || s.depth < 0 || start + s.depth > size)
      refuse(kName, "a sum over " + std::to_string(s.depth) + " entries from " + std::to_string(start) +
                        " on leaves the axis " + std::to_string(axis) + " of " + to_string(in[i]));
    size = s.depth;
    stretches.push_back({in[i].dtype, dims});
  }
  const Avals out = abstract_eval(dot_general_p, plain_params(params, in[0].dtype), stretches);
  if (in.size() == 3 && in[2] != out[0])
    refuse(kName, "the sums are " + to_string(out[0]) + " and cannot begin at " + to_string(in[2]));
  return out;
}

Arrays jvp(const Params& params, ArraySpan x, ArraySpan, ArraySpan dx) {
  Array dy = dx.size() == 3 ? dx[2] : Array();
  if (dx[0].defined()) dy = add_cotangents(dy, bind1(partial_dot_p, {dx[0], x[1]}, params));
  if (dx[1].defined()) dy = add_cotangents(dy, bind1(partial_dot_p, {x[0], dx[1]}, params));
  return {dy};
}

Arrays transpose_rule(const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in) {
  const std::int64_t depth = dot_stretch(params).depth;
  Arrays known(2);
  Avals stretches;
  for (std::size_t i = 0; i < 2; ++i) {
    const auto [axis, start] = factor(params, i);
    if (x[i].defined()) known[i] = slice_axis(x[i], axis, start, start + depth);
    Dims dims = in[i].shape.to_dims();
    dims[to_index(axis)] = depth;
    stretches.push_back({in[i].dtype, dims});
  }
  Arrays out(in.size());
  if (!known[0].defined() || !known[1].defined()) {
    const Arrays found =
        dot_general_p.spec.transpose(plain_params(params, in[0].dtype), ct, known, stretches);
    for (std::size_t i = 0; i < 2; ++i) {
      if (!found[i].defined()) continue;
      const auto [axis, start] = factor(params, i);
      std::vector<PadAxis> around(in[i].shape.rank());
      around[to_index(axis)] = {start, in[i].shape[to_index(axis)] - start - depth};
      out[i] = pad(found[i], zeros_of({in[i].dtype, {}}), around);
    }
  }
  if (in.size() == 3 && !x[2].defined()) out[2] = ct[0];
  return out;
}

Arrays batch(const Params& params, ArraySpan x, const std::vector<bool>& batched, std::int64_t n) {
  DotDims d = dot_dims(params);
  const bool only_start = !batched[0] && !batched[1];
  const Array a = only_start ? with_batch_axis(x[0], false, n) : x[0];
  const bool first = batched[0] || only_start, second = batched[1];
  const std::int64_t before = to_dim(d.lhs_batch.size());
  const std::int64_t a_free = to_dim(a.rank()) - (first ? 1 : 0) - 1 - before;
  if (first) d.lhs_contract = shifted(d.lhs_contract), d.lhs_batch = shifted(d.lhs_batch);
  if (second) d.rhs_contract = shifted(d.rhs_contract), d.rhs_batch = shifted(d.rhs_batch);
  if (first && second) {
    d.lhs_batch = with_front(0, d.lhs_batch);
    d.rhs_batch = with_front(0, d.rhs_batch);
  }
  // Of one operand it is the first free axis.
  const int at = static_cast<int>(first && second ? 0 : first ? before : before + a_free);
  Arrays in{a, x[1]};
  if (x.size() == 3) in.push_back(moveaxis(with_batch_axis(x[2], batched[2], n), 0, at));
  return {moveaxis(bind_primitive(partial_dot_p, in, with_dims(params, d))[0], at, 0)};
}

Samples samples(std::uint64_t seed) {
  Source r(seed);
  const std::int64_t n = r.integer(2, 5), k = r.integer(2, 7);
  return {{{r.floats({n, k}), r.floats({k + 3, 4})}, partial_dot_params({{1}, {0}, {}, {}}, {0, 2, k})},
          {{r.floats({n, k}), r.floats({k + 3, 4}), r.floats({n, 4})},
           partial_dot_params({{1}, {0}, {}, {}}, {0, 3, k})},
          {{r.floats({k + 2, n}), r.floats({4, k}), r.floats({n, 4})},
           partial_dot_params({{0}, {1}, {}, {}}, {1, 0, k})},
          {{r.floats({n, k}), r.floats({k + 1}), r.floats({n})},
           partial_dot_params({{1}, {0}, {}, {}}, {0, 1, k})},
          {{r.floats({k}), r.floats({k + 1, 3}), r.floats({3})},
           partial_dot_params({{0}, {0}, {}, {}}, {0, 0, k})},
          {{r.floats({2, n, k + 1}), r.floats({2, k + 2, 3}), r.floats({2, n, 3})},
           partial_dot_params({{2}, {1}, {0}, {0}}, {1, 2, k})},
          {{r.floats({n, 2, k}), r.floats({k + 1, 3, 2}), r.floats({2, n, 3})},
           partial_dot_params({{2}, {0}, {1}, {2}}, {0, 1, k})},
          {{r.floats({n, 2, k}), r.floats({3, k + 1, 2}), r.floats({n, 2, 3, 2})},
           partial_dot_params({{2}, {1}, {}, {}}, {0, 1, k})},
          {{r.floats({n, 0}), r.floats({2, 3}), r.floats({n, 3})},
           partial_dot_params({{1}, {0}, {}, {}}, {0, 1, 0})},
          {{r.floats({n, 33}, Dtype::F32), r.floats({60, 70}, Dtype::F32), r.floats({n, 70}, Dtype::F32)},
           partial_dot_params({{1}, {0}, {}, {}}, {0, 27, 33}),
           false},
          {{r.ints({n, k}, -9, 9), r.ints({k + 1, 3}, -9, 9), r.ints({n, 3}, -9, 9)},
           partial_dot_params({{1}, {0}, {}, {}}, {0, 1, k}),
           false}};
}

}  // namespace

const Primitive partial_dot_p{{
    .name = "partial_dot",
    .doc = "y[batch, i, j] = (c[batch, i, j] +) Σ_k a[batch, i, k]·b[batch, j, k] over a stretch of k",
    .params = {"dimension_numbers", "lhs_start", "rhs_start", "depth"},
    .product = true,
    .abstract = types,
    .kernel = [](const KernelRequest& q) { return dot_kernel(q, dot_dims(q.params), dot_stretch(q.params)); },
    .emit = [](const EmitRequest& q) -> Emission {
      const DotDims d = dot_dims(q.params);
      const DotStretch s = dot_stretch(q.params);
      return ProductCode{d.lhs_contract, d.rhs_contract, d.lhs_batch, d.rhs_batch,
                         s.lhs_start,    s.rhs_start,    s.depth};
    },
    .jvp = jvp,
    .transpose = transpose_rule,
    .batch = batch,
    .samples = samples,
}};

}  // namespace etrace
