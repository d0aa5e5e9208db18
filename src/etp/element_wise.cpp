// A parameter that acts by itself: y = f(w), any shape, no data input. The slots of its trace are the
// positions of y. The only operator through which the way from another operator's output to a hidden state
// may lead.
#include "etp/common.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

using namespace etp;

namespace {

const EtpRules kRules{
    .gradient_enabled = true,
    .x_operand = std::nullopt,
    .trainables = [](const Params&) -> std::vector<Trainable> {
      return {{"weight", 0, "weight_fn"}};
    },
    .anchors = [](const Params&, std::string_view, std::span<const Aval>,
                  const Aval& y) { return anchored_at_self(y.shape); },
    .source = [](const Params& params, std::string_view,
                 ArraySpan x) { return trace_source(params, "weight_fn", x[0]); },
};

}  // namespace

const Primitive etp_elemwise_p{{
    .name = "etp_elemwise",
    .doc = "y = f(w)",
    .params = {"weight_fn"},
    .abstract = [](const Params& params, std::span<const Aval> in) -> Avals {
      const Operands o("etp_elemwise", params, in, {{"weight", "weight_fn"}});
      return o.result(o.shape(0));
    },
    .lower = [](const Params& params, ArraySpan x) -> Arrays {
      return {apply_fn(params, "weight_fn", x[0])};
    },
    .etp = make_etp(kRules),
    .samples = [](std::uint64_t seed) -> Samples {
      Source r(seed);
      Samples out;
      for (const Shape& shape :
           {Shape{}, Shape{r.integer(1, 5)}, Shape{2, r.integer(1, 3), 3}, Shape{0, 2}}) {
        const Array w = r.floats(shape);
        out.push_back({{w}, {{"weight_fn", nullptr}}});
        out.push_back(
            {{w},
             {{"weight_fn", trace_fn(
                                "etp_elemwise", "weight_fn", [](const Array& a) { return tanh(a); }, w)}}});
      }
      out.push_back({{r.floats({3}, Dtype::F32)}, {}});
      return out;
    },
}};

Array element_wise(const Array& weight, const WeightFn& weight_fn) {
  return bind1(etp_elemwise_p, {weight},
               {{"weight_fn", trace_fn("etp_elemwise", "weight_fn", weight_fn, weight)}});
}

}  // namespace etrace
