// fma: a product that meets a sum before it is rounded. Emitted programs spell every one that they have, so
// that no compiler chooses.
#include <cmath>

#include "etrace/ops/fma.h"
#include "ops/elementwise_common.h"

namespace etrace {

using namespace elementwise;

const Primitive fma_p{{
    .name = "fma",
    .doc = "y = a·b + c, rounded once",
    .elementwise = true,
    .abstract = same_type<fma_p, kFloating, 3>,
    .kernel = map_kernel<kFloating, [](auto a, auto b, auto c) { return std::fma(a, b, c); }, 3>,
    .emit = [](const EmitRequest& r) -> Emission {
      return MapCode{r.y().dtype == Dtype::F32 ? "__builtin_fmaf($0, $1, $2)" : "__builtin_fma($0, $1, $2)",
                     2};
    },
    .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
      return tangent(y[0], {partial(dx[0], [&](const Array& d) { return d * x[1]; }),
                            partial(dx[1], [&](const Array& d) { return x[0] * d; }), dx[2]});
    },
    .transpose = [](const Params&, ArraySpan ct, ArraySpan x, std::span<const Aval> in) -> Arrays {
      Arrays out(3);
      for (const std::size_t i : {0U, 1U})
        if (!x[i].defined() && x[1 - i].defined()) out[i] = unbroadcast(ct[0] * x[1 - i], in[i].shape);
      if (!x[2].defined()) out[2] = unbroadcast(ct[0], in[2].shape);
      return out;
    },
    .batch = batch<fma_p>,
    .samples = samples<kFloating, Range{-2, 2}, Range{-3, 3}, Range{-2, 2}>,
}};

Array fma(const Array& a, const Array& b, const Array& c) { return bind1(fma_p, {a, b, c}); }

}  // namespace etrace
