// The spike: a step whose derivative is given as an operand, so that every surrogate is ordinary arithmetic.
//   y = 1 if x ≥ 0 else 0,   dy := s·dx + ds   for the operands x, s
// s usually comes through stop_gradient, and ds is then zero.
#include "ops/elementwise_common.h"
#include "ops/scalar_math.h"

namespace etrace {

using namespace elementwise;

const Primitive heaviside_surrogate_gradient_p{
    binary<heaviside_surrogate_gradient_p, kFloating, [](auto x, auto) { return scalar::step(x); }>({
        .name = "heaviside_surrogate_gradient",
        .doc = "y = 1 where x ≥ 0, else 0; its derivative in x is taken to be the second operand",
        .emit = code<"etp_step_$t($0)", 2>,
        .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
          return tangent(y[0], {partial(dx[0], [&](const Array& d) { return d * x[1]; }), dx[1]});
        },
        .samples = flat_samples<kFloating, Range{-3, 3}, Range{0, 1}>,
    })};

}  // namespace etrace
