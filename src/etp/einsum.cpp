// Any product of data and a weight: "bhd,hde->bhe". The first letter of x and y is the batch.
//
// Letters of y that the weight does not have (other than the batch) are positions that share it, as space
// does in a convolution: the trace keeps them, its slots are (shared…, weight…), and they are summed when the
// gradient is formed.
#include <algorithm>

#include "etp/common.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/reduce.h"

namespace etrace {

using namespace etp;

namespace {

struct Equation {
  std::string x, w, y;
};

[[noreturn]] void refuse(std::string_view equation, const std::string& reason) {
  throw ValueError("etp_einsum", "the equation \"" + std::string(equation) + "\" " + reason +
                                     "; expected the form \"bi,io->bo\"");
}

bool has(const std::string& spec, char letter) { return spec.find(letter) != std::string::npos; }

void check_spec(std::string_view equation, const std::string& spec) {
  if (spec.empty()) refuse(equation, "has an empty operand");
  for (std::size_t i = 0; i < spec.size(); ++i) {
    if (spec[i] < 'a' || spec[i] > 'z')
      refuse(equation, "may have lowercase letters only, not '" + spec.substr(i, 1) + "'");
    if (spec.find(spec[i], i + 1) != std::string::npos)
      refuse(equation, "repeats the letter '" + spec.substr(i, 1) + "' within one operand");
  }
}

Equation parse_equation(std::string_view text) {
  std::string s;
  std::copy_if(text.begin(), text.end(), std::back_inserter(s), [](char c) { return c != ' '; });
  const std::size_t arrow = s.find("->"), comma = s.find(',');
  if (arrow == std::string::npos) refuse(text, "has no arrow");
  if (comma == std::string::npos || comma > arrow || s.find(',', comma + 1) != std::string::npos)
    refuse(text, "must have exactly two operands, x and the weight");
  const Equation e{s.substr(0, comma), s.substr(comma + 1, arrow - comma - 1), s.substr(arrow + 2)};
  for (const std::string* spec : {&e.x, &e.w, &e.y}) check_spec(text, *spec);
  if (e.x[0] != e.y[0]) refuse(text, "must have the batch as first letter of x and of y");
  if (has(e.w, e.x[0])) refuse(text, "has the batch letter in the weight");
  for (const char c : e.y)
    if (!has(e.x, c) && !has(e.w, c))
      refuse(text, std::string("has the letter '") + c + "' of y in no operand");
  for (const char c : e.w)
    if (!has(e.x, c) && !has(e.y, c))
      refuse(text, std::string("has the letter '") + c + "' of the weight neither in x nor in y");
  return e;
}

std::string canonical(std::string_view text) {
  const Equation e = parse_equation(text);
  return e.x + "," + e.w + "->" + e.y;
}

Avals abstract(const Params& params, std::span<const Aval> in) {
  const std::string text = params.text("equation");
  const Equation e = parse_equation(text);
  const Operands o("etp_einsum", params, in, {"x", {"weight", "weight_fn"}});
  o.expect(0, Dims(e.x.size(), kAny));
  Dims w(e.w.size(), kAny);
  for (std::size_t i = 0; i < w.size(); ++i)
    if (const std::size_t at = e.x.find(e.w[i]); at != std::string::npos) w[i] = o.shape(0)[at];
  o.expect(1, w);
  Dims y;
  for (const char c : e.y) y.push_back(has(e.x, c) ? o.shape(0)[e.x.find(c)] : o.shape(1)[e.w.find(c)]);
  return o.result(Shape(y));
}

AnchorMap anchors(const Params& params, std::string_view, std::span<const Aval> in, const Aval& y) {
  const Equation e = parse_equation(params.text("equation"));
  AnchorMap map;
  Dims slots;
  for (std::size_t i = 1; i < e.y.size(); ++i)
    if (!has(e.w, e.y[i])) {
      map.position_axes.push_back(static_cast<int>(slots.size()));
      slots.push_back(y.shape[i]);
    }
  const int shared = static_cast<int>(slots.size());
  int next = 0;
  for (std::size_t i = 1; i < e.y.size(); ++i) {
    const std::size_t at = e.w.find(e.y[i]);
    map.y_axes.push_back(at == std::string::npos ? next++ : shared + static_cast<int>(at));
  }
  slots.insert(slots.end(), in[1].shape.begin(), in[1].shape.end());
  map.slots = Shape(slots);
  return map;
}

// ∂y/∂W is x itself: its letters are those of the weight or of the positions; what x sums alone is summed
// here.
std::optional<TraceSource> source(const Params& params, std::string_view, ArraySpan x) {
  const Equation e = parse_equation(params.text("equation"));
  const auto position_axis = [&](char letter) {  // letters of y outside the weight lead among the slots
    int axis = 0;
    for (std::size_t i = 1; i < e.y.size() && e.y[i] != letter; ++i) axis += has(e.w, e.y[i]) ? 0 : 1;
    return axis;
  };
  int shared = 0;
  for (std::size_t i = 1; i < e.y.size(); ++i) shared += has(e.w, e.y[i]) ? 0 : 1;
  std::vector<int> axes;
  Dims summed;
  for (std::size_t i = 1; i < e.x.size(); ++i) {
    if (const std::size_t at = e.w.find(e.x[i]); at != std::string::npos)
      axes.push_back(shared + static_cast<int>(at));
    else if (has(e.y, e.x[i]))
      axes.push_back(position_axis(e.x[i]));
    else
      summed.push_back(to_dim(i));
  }
  const Array values = convert(x[0], common_dtype(x));
  return trace_source(params, "weight_fn", x[1], summed.empty() ? values : reduce_sum(values, summed), axes);
}

}  // namespace

const Primitive etp_einsum_p{{
    .name = "etp_einsum",
    .doc = "y = einsum(equation, x, f(W))",
    .params = {"equation", "weight_fn"},
    .abstract = abstract,
    .lower = [](const Params& params, ArraySpan x) -> Arrays {
      const Dtype dtype = common_dtype(x);
      const Arrays operands{convert(x[0], dtype), convert(apply_fn(params, "weight_fn", x[1]), dtype)};
      return {einsum_plain(canonical(params.text("equation")), operands)};
    },
    .etp = make_etp({.batched = true, .trainables = weight_only, .anchors = anchors, .source = source}),
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      const std::int64_t b = r.integer(1, 3), t = r.integer(1, 3), k = r.integer(1, 4), n = r.integer(1, 4);
      const Array w = r.floats({k, n});
      const Attr sine = trace_fn(
          "etp_einsum", "weight_fn", [](const Array& a) { return sin(a); }, w);
      return {{{r.floats({b, k}), w}, {{"equation", "bk,kn->bn"}, {"weight_fn", nullptr}}},
              {{r.floats({b, t, k}), w}, {{"equation", "btk,kn->btn"}, {"weight_fn", sine}}},
              {{r.floats({b, t, k}), r.floats({t, k, n})}, {{"equation", "bhd,hde->bhe"}}},
              {{r.floats({b, k}), r.floats({k})}, {{"equation", "bd,d->bd"}}},
              {{r.floats({b, k, t}), r.floats({n, k})}, {{"equation", "bkt,nk->bnt"}}},
              {{r.floats({b, t, k}), w}, {{"equation", "bzk,kn->bn"}}},
              {{r.floats({b, t}), r.floats({k, n})}, {{"equation", "bt,kn->bktn"}}},
              {{r.floats({2, 0}), r.floats({0, 3})}, {{"equation", "bk,kn->bn"}}},
              {{r.floats({2, 3}, Dtype::F32), r.floats({3, 2}, Dtype::F32)}, {{"equation", "bk, kn -> bn"}}}};
    },
}};

Array einsum(std::string_view equation, const Array& x, const Array& weight, const WeightFn& weight_fn) {
  return bind1(etp_einsum_p, {x, weight},
               {{"equation", canonical(equation)},
                {"weight_fn", trace_fn("etp_einsum", "weight_fn", weight_fn, weight)}});
}

}  // namespace etrace
