// Product with a fixed sparse pattern: y = x·S(f(w)) + g(b), where S puts w[p] at (row(p), col(p)).
// x [B,I] (etp_sp_mm) or [I] (etp_sp_mv), w [nnz], b [O]. The trace slot p belongs to the output col(p).
#include "etp/common.h"
#include "etrace/facts.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/index.h"
#include "etrace/ops/shape.h"

namespace etrace {

using namespace etp;

namespace {

SparsePattern pattern_of(const Params& params) {
  const Attr* attr = params.find("sparse_mat");
  return SparsePattern::from_attr(attr == nullptr ? Attr() : *attr);
}

Avals types(const Form& form, const Params& params, std::span<const Aval> in) {
  const Operands o(form.op, params, in, {"x", {"weight", "weight_fn"}});
  const SparsePattern s = pattern_of(params);
  o.expect(0, form.data({s.rows()}));
  o.expect(1, {s.nnz()});  // one value per stored entry
  o.expect_bias({s.cols()});
  return o.result(form.result(o[0], {s.cols()}));
}

Array index_array(const Table& values) { return Tensor::of(values, {to_dim(values.size())}); }

Arrays lower(const Params& params, ArraySpan x) {
  const SparsePattern s = pattern_of(params);
  const Dtype dtype = common_dtype(x);
  const bool batched = x[0].rank() == 2;
  Array input = convert(x[0], dtype);
  const Array weight = convert(apply_fn(params, "weight_fn", x[1]), dtype);
  if (!batched) input = expand_dims(input, {0});
  Array y;
  if (is_floating(dtype)) {
    y = sparse_product(input, weight, s.entries());
  } else {  // integers, entry by entry
    const Array terms = take(input, index_array(s.row()), 1) * weight;
    y = scatter_add(zeros_of({dtype, {input.shape()[0], s.cols()}}), index_array(s.col()), terms, 1);
  }
  if (!batched) y = squeeze(y, {0});
  return {add_bias(params, y, x)};
}

AnchorMap anchors(const Params& params, std::string_view key, std::span<const Aval> in, const Aval&) {
  if (key == "bias") return anchored_at_self(in[2].shape);
  return {in[1].shape, {}, pattern_of(params).entries().col, {}};
}

// ∂y[col(p)]/∂w[p] = x[row(p)] f'(w[p])
std::optional<TraceSource> source(const Params& params, std::string_view key, ArraySpan x) {
  if (key == "bias") return trace_source(params, "bias_fn", x[2]);
  std::optional<TraceSource> s = trace_source(params, "weight_fn", x[1], convert(x[0], common_dtype(x)));
  if (s) s->table = pattern_of(params).entries().row;
  return s;
}

// A stored entry connects even if its value is zero.
std::vector<bool> adjacency(const Params& params, std::int64_t n) {
  const SparsePattern s = pattern_of(params);
  if (s.rows() != n || s.cols() != n) return {};
  std::vector<bool> depends(to_index(n * n), false);
  for (std::size_t p = 0; p < s.row().size(); ++p) depends[to_index(s.col()[p] * n + s.row()[p])] = true;
  return depends;
}

Samples samples(std::uint64_t seed, bool batched) {
  Source r(seed);
  const std::int64_t i = r.integer(1, 5), o = r.integer(1, 5);
  auto x = [&](std::int64_t n, Dtype t = Dtype::F64) {
    return r.floats(batched ? Shape{r.integer(1, 3), n} : Shape{n}, t);
  };
  Dims row, col;
  for (std::int64_t p = r.integer(1, 6); p > 0; --p) {
    row.push_back(r.integer(0, i - 1));
    col.push_back(r.integer(0, o - 1));
  }
  const Array w = r.floats({to_dim(row.size())}), b = r.floats({o});
  const Attr coo = SparsePattern::coo(i, o, row, col).to_attr();
  const Attr csr = SparsePattern::csr(3, 4, {0, 2, 2, 5}, {0, 3, 1, 2, 3}).to_attr();
  const Attr csc = SparsePattern::csc(2, 3, {0, 1, 1, 3}, {1, 0, 1}).to_attr();
  const Attr sine = trace_fn(
      "etp_sp_mm", "weight_fn", [](const Array& a) { return sin(a); }, w);
  const Attr bias_tanh = trace_fn(
      "etp_sp_mm", "bias_fn", [](const Array& a) { return tanh(a); }, b);
  return {
      {{x(i), w}, {{"sparse_mat", coo}, {"has_bias", false}, {"weight_fn", nullptr}, {"bias_fn", nullptr}}},
      {{x(i), w, b}, {{"sparse_mat", coo}, {"has_bias", true}, {"weight_fn", sine}, {"bias_fn", bias_tanh}}},
      {{x(3), r.floats({5}), r.floats({4})}, {{"sparse_mat", csr}, {"has_bias", true}}},
      {{x(2), r.floats({3})}, {{"sparse_mat", csc}}},
      {{x(3, Dtype::F32), r.floats({5}, Dtype::F32)}, {{"sparse_mat", csr}}},
      {{x(2), r.floats({0})}, {{"sparse_mat", SparsePattern::coo(2, 2, {}, {}).to_attr()}}}};
}

const OperatorPair kPair{
    .batched_name = "etp_sp_mm",
    .batched_doc = "y[b,col(p)] += x[b,row(p)] f(w)[p] for all stored entries p, + g(b)",
    .name = "etp_sp_mv",
    .doc = "y[col(p)] += x[row(p)] f(w)[p] for all stored entries p, + g(b)",
    .params = {"sparse_mat", "has_bias", "weight_fn", "bias_fn"},
    .types = types,
    .lower = lower,
    .samples = samples,
    .rules = {.trainables = weight_and_bias, .anchors = anchors, .adjacency = adjacency, .source = source},
    .facts = [](const FactRequest&) { return Facts{.zeros = true}; },  // no entry, no sum
};

}  // namespace

const Primitive etp_sp_mm_p{batched_row(kPair)};
const Primitive etp_sp_mv_p{single_row(kPair, etp_sp_mm_p)};

Array sparse_matmul(const Array& x, const Array& weight, const SparsePattern& pattern, const Array& bias,
                    const MatmulOptions& options) {
  if (x.rank() != 1 && x.rank() != 2)
    throw ValueError("sparse_matmul",
                     "x has type " + to_string(x.aval()) +
                         ", expected [features] or [batch, features]; fold the leading axes into one");
  const Primitive& prim = x.rank() == 2 ? etp_sp_mm_p : etp_sp_mv_p;
  return bind_with_bias(prim, {x, weight}, bias, options.bias_fn,
                        {{"sparse_mat", pattern.to_attr()},
                         {"weight_fn", trace_fn(prim.name(), "weight_fn", options.weight_fn, weight)}});
}

}  // namespace etrace
