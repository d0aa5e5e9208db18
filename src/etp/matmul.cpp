// Dense product: y = x·f(W) + g(b). x [B,I] (etp_mm) or [I] (etp_mv), W [I,O], b [O].
// A trace slot (i, o) of the weight belongs to the output o: y[o] is the only output that W[i,o] touches.
#include "etp/common.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

using namespace etp;

namespace {

Avals types(const Form& form, const Params& params, std::span<const Aval> in) {
  const Operands o(form.op, params, in, {"x", {"weight", "weight_fn"}});
  o.expect(0, form.data({kAny}));
  o.expect(1, {o.shape(0).back(), kAny});
  const std::int64_t out = o.shape(1)[1];
  o.expect_bias({out});
  return o.result(form.result(o[0], {out}));
}

Arrays lower(const Params& params, ArraySpan x) {
  const Dtype dtype = common_dtype(x);
  return {
      add_bias(params, dense(convert(x[0], dtype), convert(apply_fn(params, "weight_fn", x[1]), dtype)), x)};
}

AnchorMap anchors(const Params&, std::string_view key, std::span<const Aval> in, const Aval&) {
  if (key == "bias") return anchored_at_self(in[2].shape);
  return anchored_at(in[1].shape, {1});
}

// ∂y[o]/∂W[i,o] = x[i] f'(W[i,o])
std::optional<TraceSource> source(const Params& params, std::string_view key, ArraySpan x) {
  if (key == "bias") return trace_source(params, "bias_fn", x[2]);
  return trace_source(params, "weight_fn", x[1], convert(x[0], common_dtype(x)), {0});
}

Samples samples(std::uint64_t seed, bool batched) {
  Source r(seed);
  const std::int64_t i = r.integer(1, 5), o = r.integer(1, 5);
  auto x = [&](std::int64_t n, Dtype t = Dtype::F64) {
    return r.floats(batched ? Shape{r.integer(1, 3), n} : Shape{n}, t);
  };
  const Array w = r.floats({i, o}), b = r.floats({o});
  const Attr sine = trace_fn(
      "etp_mm", "weight_fn", [](const Array& a) { return sin(a); }, w);
  const Attr bias_tanh = trace_fn(
      "etp_mm", "bias_fn", [](const Array& a) { return tanh(a); }, b);
  return {{{x(i), w}, {{"has_bias", false}, {"weight_fn", nullptr}, {"bias_fn", nullptr}}},
          {{x(i), w, b}, {{"has_bias", true}, {"weight_fn", sine}, {"bias_fn", bias_tanh}}},
          {{x(3, Dtype::F32), r.floats({3, 3}, Dtype::F32), r.floats({3}, Dtype::F32)}, {{"has_bias", true}}},
          {{x(0), r.floats({0, 2}), r.floats({2})}, {{"has_bias", true}}},
          {{convert(x(i), Dtype::I32), w}, {{"has_bias", false}}}};
}

const OperatorPair kPair{
    .batched_name = "etp_mm",
    .batched_doc = "y[b,o] = Σ_i x[b,i] f(W)[i,o] + g(b)[o]",
    .name = "etp_mv",
    .doc = "y[o] = Σ_i x[i] f(W)[i,o] + g(b)[o]",
    .params = {"has_bias", "weight_fn", "bias_fn"},
    .types = types,
    .lower = lower,
    .samples = samples,
    .rules = {.trainables = weight_and_bias, .anchors = anchors, .adjacency = all_to_all, .source = source},
};

}  // namespace

const Primitive etp_mm_p{batched_row(kPair)};
const Primitive etp_mv_p{single_row(kPair, etp_mm_p)};

Array matmul(const Array& x, const Array& weight, const Array& bias, const MatmulOptions& options) {
  if (x.rank() != 1 && x.rank() != 2)
    throw ValueError("matmul", "x has type " + to_string(x.aval()) +
                                   ", expected [features] or [batch, features]; use einsum for other ranks");
  const Primitive& prim = x.rank() == 2 ? etp_mm_p : etp_mv_p;
  return bind_with_bias(prim, {x, weight}, bias, options.bias_fn,
                        {{"weight_fn", trace_fn(prim.name(), "weight_fn", options.weight_fn, weight)}});
}

}  // namespace etrace
