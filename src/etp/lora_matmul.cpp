// Low-rank product: y = alpha·x·f(B)·g(A) + h(b). x [B,I] (etp_lora_mm) or [I] (etp_lora_mv), B [I,R], A
// [R,O], b [O].
//
// A slot of B touches all outputs, so B has no trace of its own. In its place stands the trace of the
// effective weight W = alpha·f(B)·g(A) [I,O], whose slot (i, o) belongs to the output o; what it accumulates
// is pulled back to B when the gradient is formed. A slot (r, o) of A belongs to the output o.
#include "etp/common.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

using namespace etp;

namespace {

Avals types(const Form& form, const Params& params, std::span<const Aval> in) {
  const Operands o(form.op, params, in, {"x", {"lora_b", "b_fn"}, {"lora_a", "a_fn"}});
  o.expect(0, form.data({kAny}));
  o.expect(1, {o.shape(0).back(), kAny});
  o.expect(2, {o.shape(1)[1], kAny});
  const std::int64_t out = o.shape(2)[1];
  o.expect_bias({out});
  const Avals y = o.result(form.result(o[0], {out}));
  if (!is_floating(y[0].dtype))
    throw TypeError(std::string(form.op),
                    "alpha times the product of integers is no integer; convert the factors to float32");
  return y;
}

struct Factors {
  Array b, a;
};
Factors factors(const Params& params, ArraySpan x, Dtype dtype) {
  return {convert(apply_fn(params, "b_fn", x[1]), dtype), convert(apply_fn(params, "a_fn", x[2]), dtype)};
}

Array scaled(const Params& params, const Array& value) {
  const double alpha = params.number_or("alpha", 1.0);
  return alpha == 1.0 ? value : value * alpha;
}

Arrays lower(const Params& params, ArraySpan x) {
  const Dtype dtype = common_dtype(x);
  const auto [b, a] = factors(params, x, dtype);
  return {add_bias(params, dense(scaled(params, dense(convert(x[0], dtype), b)), a), x)};
}

const EffectiveWeight kEffective{
    .key = "lora_b",
    .weight = [](const Params& params, ArraySpan x) -> Array {
      const auto [b, a] = factors(params, x, common_dtype(x));
      return dense(scaled(params, b), a);
    },
    .forward = [](const Params& params, ArraySpan x, const Array& weight) -> Array {
      return add_bias(params, dense(convert(x[0], weight.dtype()), weight), x);
    },
};

std::vector<Trainable> trainables(const Params& params) {
  std::vector<Trainable> out{{"lora_b", 1, "b_fn"}, {"lora_a", 2, "a_fn"}};
  if (has_bias(params)) out.push_back({"bias", 3, "bias_fn"});
  return out;
}

AnchorMap anchors(const Params&, std::string_view key, std::span<const Aval> in, const Aval&) {
  if (key == "bias") return anchored_at_self(in[3].shape);
  const Shape& a = in[2].shape;
  return anchored_at(key == "lora_b" ? Shape{in[1].shape[0], a[1]} : a, {1});
}

// With W the effective weight: ∂y[o]/∂W[i,o] = x[i];  ∂y[o]/∂A[r,o] = alpha (x·f(B))[r] g'(A[r,o])
std::optional<TraceSource> source(const Params& params, std::string_view key, ArraySpan x) {
  if (key == "bias") return trace_source(params, "bias_fn", x[3]);
  const Dtype dtype = common_dtype(x);
  const Array data = convert(x[0], dtype);
  if (key == "lora_b") return TraceSource{data, {0}, {}, {}};
  const Array b = convert(apply_fn(params, "b_fn", x[1]), dtype);
  return trace_source(params, "a_fn", x[2], scaled(params, dense(data, b)), {0});
}

Samples samples(std::uint64_t seed, bool batched) {
  Source r(seed);
  const std::int64_t i = r.integer(1, 5), o = r.integer(1, 5), rank = r.integer(1, 3);
  auto x = [&](std::int64_t n, Dtype t = Dtype::F64) {
    return r.floats(batched ? Shape{r.integer(1, 3), n} : Shape{n}, t);
  };
  const Array b = r.floats({i, rank}), a = r.floats({rank, o}), bias = r.floats({o});
  auto fn = [](const char* key, const WeightFn& f, const Array& w) {
    return trace_fn("etp_lora_mm", key, f, w);
  };
  const Attr b_fn = fn(
      "b_fn", [](const Array& w) { return tanh(w); }, b);
  const Attr a_fn = fn(
      "a_fn", [](const Array& w) { return sin(w); }, a);
  const Attr bias_fn = fn(
      "bias_fn", [](const Array& w) { return square(w); }, bias);
  return {{{x(i), b, a}, {{"alpha", 1.0}, {"has_bias", false}, {"b_fn", nullptr}, {"a_fn", nullptr}}},
          {{x(i), b, a, bias},
           {{"alpha", 0.5}, {"has_bias", true}, {"b_fn", b_fn}, {"a_fn", a_fn}, {"bias_fn", bias_fn}}},
          {{x(3, Dtype::F32), r.floats({3, 2}, Dtype::F32), r.floats({2, 4}, Dtype::F32)}, {{"alpha", 2.0}}},
          {{x(2), r.floats({2, 0}), r.floats({0, 3}), r.floats({3})}, {{"has_bias", true}}}};
}

const OperatorPair kPair{
    .batched_name = "etp_lora_mm",
    .batched_doc = "y[b,o] = alpha Σ_ir x[b,i] f(B)[i,r] g(A)[r,o] + h(b)[o]",
    .name = "etp_lora_mv",
    .doc = "y[o] = alpha Σ_ir x[i] f(B)[i,r] g(A)[r,o] + h(b)[o]",
    .params = {"alpha", "has_bias", "b_fn", "a_fn", "bias_fn"},
    .types = types,
    .lower = lower,
    .samples = samples,
    .rules = {.trainables = trainables, .anchors = anchors, .effective = kEffective, .source = source},
};

}  // namespace

const Primitive etp_lora_mm_p{batched_row(kPair)};
const Primitive etp_lora_mv_p{single_row(kPair, etp_lora_mm_p)};

Array lora_matmul(const Array& x, const Array& b, const Array& a, const Array& bias,
                  const LoraOptions& options) {
  if (x.rank() != 1 && x.rank() != 2)
    throw ValueError("lora_matmul",
                     "x has type " + to_string(x.aval()) +
                         ", expected [features] or [batch, features]; fold the leading axes into one");
  const Primitive& prim = x.rank() == 2 ? etp_lora_mm_p : etp_lora_mv_p;
  return bind_with_bias(prim, {x, b, a}, bias, options.bias_fn,
                        {{"alpha", options.alpha},
                         {"b_fn", trace_fn(prim.name(), "b_fn", options.b_fn, b)},
                         {"a_fn", trace_fn(prim.name(), "a_fn", options.a_fn, a)}});
}

}  // namespace etrace
