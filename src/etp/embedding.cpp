// Table look-up: y = f(T)[index]. indices [B] (etp_emb) or scalar (etp_emb_v), T [V,D].
// The trace slot (v, d) belongs to the output d. Negative indices count from the end, once; beyond the table
// y is NaN, and no row gets a gradient.
#include "etp/common.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/shape.h"

namespace etrace {

using namespace etp;

namespace {

Avals types(const Form& form, const Params& params, std::span<const Aval> in) {
  const Operands o(form.op, params, in, {"indices", {"weight", "weight_fn"}});
  if (!is_integer(o[0].dtype))
    throw TypeError(std::string(form.op), "indices have type " + to_string(o[0]) +
                                              ", expected integers; use matmul for one-hot rows");
  o.expect(0, form.data({}));
  o.expect(1, {kAny, kAny});
  structure::expect_number(form.op, o[1].dtype);
  const std::int64_t width = o.shape(1)[1];
  return {{o[1].dtype, form.result(o[0], {width})}};
}

Array wrapped(const Array& indices, std::int64_t rows) {
  return indices.dtype() == Dtype::U32 ? indices : where(less(indices, 0), indices + rows, indices);
}

Arrays lower(const Params& params, ArraySpan x) {
  const Array table = apply_fn(params, "weight_fn", x[1]);
  const Array starts = expand_dims(wrapped(x[0], table.shape()[0]), {-1});
  return {bind1(gather_p, {table, starts},
                {{"dimension_numbers", Attr::dict({{"offset_dims", Dims{to_dim(x[0].rank())}},
                                                   {"collapsed_slice_dims", Dims{0}},
                                                   {"start_index_map", Dims{0}},
                                                   {"operand_batching_dims", Dims{}},
                                                   {"start_indices_batching_dims", Dims{}}})},
                 {"slice_sizes", Dims{1, table.shape()[1]}},
                 {"mode", "fill_or_drop"},
                 {"fill_value", nullptr}})};
}

AnchorMap anchors(const Params&, std::string_view, std::span<const Aval> in, const Aval&) {
  return anchored_at(in[1].shape, {1});
}

// A factorised trace of x needs numbers that can be filtered: the row of the table as a one-hot vector.
Array one_hot_rows(const Params& params, const Array& x, std::span<const Aval> in) {
  const Aval table = type_behind(params, "weight_fn", in[1]);
  return one_hot(wrapped(x, table.shape[0]), table.shape[0], table.dtype);
}

// ∂y[d]/∂T[v,d] = [v is the row] f'(T[v,d])
std::optional<TraceSource> source(const Params& params, std::string_view, ArraySpan x) {
  return trace_source(params, "weight_fn", x[1], one_hot_rows(params, x[0], avals_of(x)), {0});
}

Samples samples(std::uint64_t seed, bool batched) {
  Source r(seed);
  const std::int64_t v = r.integer(2, 6), d = r.integer(1, 4);
  auto indices = [&](std::int64_t low, std::int64_t high, Dtype t = Dtype::I32) {
    return r.ints(batched ? Shape{r.integer(1, 5)} : Shape{}, low, high, t);
  };
  const Array w = r.floats({v, d});
  const Attr sine = trace_fn(
      "etp_emb", "weight_fn", [](const Array& a) { return sin(a); }, w);
  return {{{indices(0, v - 1), w}, {{"weight_fn", nullptr}}},
          {{indices(-v, v - 1, Dtype::I64), w}, {{"weight_fn", sine}}},
          {{indices(0, 2, Dtype::U32), r.floats({3, 2}, Dtype::F32)}, {}},
          {{indices(0, 2), r.floats({3, 0})}, {}}};
}

const OperatorPair kPair{
    .batched_name = "etp_emb",
    .batched_doc = "y[b,d] = f(T)[index[b],d]",
    .name = "etp_emb_v",
    .doc = "y[d] = f(T)[index,d]",
    .params = {"weight_fn"},
    .types = types,
    .lower = lower,
    .samples = samples,
    .rules = {.trainables = weight_only,
              .anchors = anchors,
              .x_representation = one_hot_rows,
              .source = source},
};

}  // namespace

const Primitive etp_emb_p{batched_row(kPair)};
const Primitive etp_emb_v_p{single_row(kPair, etp_emb_p)};

Array embedding(const Array& indices, const Array& weight, const WeightFn& weight_fn) {
  if (indices.rank() > 1 && is_integer(indices.dtype()))
    throw NotSupportedError(
        "embedding", "indices have type " + to_string(indices.aval()) +
                         ", expected a scalar or [batch]; reshape them to one axis and the result back");
  const Primitive& prim = indices.rank() == 0 ? etp_emb_v_p : etp_emb_p;
  return bind1(prim, {indices, weight},
               {{"weight_fn", trace_fn(prim.name(), "weight_fn", weight_fn, weight)}});
}

}  // namespace etrace
