// One dense product per group: y[…,g,n] = Σ_k x[…,g,k] f(W)[g,k,n] + h(b)[g,n]. x [B,G,K] (etp_gmm) or [G,K]
// (etp_gmv). The trace slot (g, k, n) of the weight belongs to the output (g, n).
#include "etp/common.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/shape.h"

namespace etrace {

using namespace etp;

namespace {

Avals types(const Form& form, const Params& params, std::span<const Aval> in) {
  const Operands o(form.op, params, in, {"x", {"weight", "weight_fn"}});
  o.expect(1, {kAny, kAny, kAny});
  const Shape& w = o.shape(1);
  o.expect(0, form.data({w[0], w[1]}));
  o.expect_bias({w[0], w[2]});
  return o.result(form.result(o[0], {w[0], w[2]}));
}

Arrays lower(const Params& params, ArraySpan x) {
  const Dtype dtype = common_dtype(x);
  const Array input = convert(x[0], dtype), weight = convert(apply_fn(params, "weight_fn", x[1]), dtype);
  const bool batched = input.rank() == 3;
  const std::int64_t group = batched ? 1 : 0;
  Array y = dot_general(input, weight, {{group + 1}, {1}, {group}, {0}});  // the group comes first
  if (batched) y = transpose(y, {1, 0, 2});
  return {add_bias(params, y, x)};
}

AnchorMap anchors(const Params&, std::string_view key, std::span<const Aval> in, const Aval&) {
  if (key == "bias") return anchored_at_self(in[2].shape);
  return anchored_at(in[1].shape, {0, 2});
}

// ∂y[g,n]/∂W[g,k,n] = x[g,k] f'(W[g,k,n])
std::optional<TraceSource> source(const Params& params, std::string_view key, ArraySpan x) {
  if (key == "bias") return trace_source(params, "bias_fn", x[2]);
  return trace_source(params, "weight_fn", x[1], convert(x[0], common_dtype(x)), {0, 1});
}

Samples samples(std::uint64_t seed, bool batched) {
  Source r(seed);
  const std::int64_t g = r.integer(1, 3), k = r.integer(1, 4), n = r.integer(1, 4);
  auto x = [&](std::int64_t groups, std::int64_t inputs, Dtype t = Dtype::F64) {
    return r.floats(batched ? Shape{r.integer(1, 3), groups, inputs} : Shape{groups, inputs}, t);
  };
  const Array w = r.floats({g, k, n}), b = r.floats({g, n});
  const Attr sine = trace_fn(
      "etp_gmm", "weight_fn", [](const Array& a) { return sin(a); }, w);
  const Attr bias_tanh = trace_fn(
      "etp_gmm", "bias_fn", [](const Array& a) { return tanh(a); }, b);
  return {{{x(g, k), w}, {{"has_bias", false}, {"weight_fn", nullptr}, {"bias_fn", nullptr}}},
          {{x(g, k), w, b}, {{"has_bias", true}, {"weight_fn", sine}, {"bias_fn", bias_tanh}}},
          {{x(2, 3, Dtype::F32), r.floats({2, 3, 3}, Dtype::F32)}, {{"has_bias", false}}},
          {{x(2, 0), r.floats({2, 0, 3}), r.floats({2, 3})}, {{"has_bias", true}}}};
}

const OperatorPair kPair{
    .batched_name = "etp_gmm",
    .batched_doc = "y[b,g,n] = Σ_k x[b,g,k] f(W)[g,k,n] + h(b)[g,n]",
    .name = "etp_gmv",
    .doc = "y[g,n] = Σ_k x[g,k] f(W)[g,k,n] + h(b)[g,n]",
    .params = {"has_bias", "weight_fn", "bias_fn"},
    .types = types,
    .lower = lower,
    .samples = samples,
    .rules = {.trainables = weight_and_bias, .anchors = anchors, .source = source},
};

}  // namespace

const Primitive etp_gmm_p{batched_row(kPair)};
const Primitive etp_gmv_p{single_row(kPair, etp_gmm_p)};

Array grouped_matmul(const Array& x, const Array& weight, const Array& bias, const MatmulOptions& options) {
  if (x.rank() != 2 && x.rank() != 3)
    throw ValueError(
        "grouped_matmul",
        "x has type " + to_string(x.aval()) +
            ", expected [groups, features] or [batch, groups, features]; use einsum for other ranks");
  const Primitive& prim = x.rank() == 3 ? etp_gmm_p : etp_gmv_p;
  return bind_with_bias(prim, {x, weight}, bias, options.bias_fn,
                        {{"weight_fn", trace_fn(prim.name(), "weight_fn", options.weight_fn, weight)}});
}

}  // namespace etrace
