// The spike: a step whose derivative is given as an operand, so that every surrogate is ordinary arithmetic.
//   y = 1 if x ≥ 0 else 0,   dy := s·dx   for the operands x, s
// s says what the slope is and acts on y in no other way, so it has no derivative of its own, whether it
// comes through stop_gradient (as braintools before 0.4 writes it) or not (from 0.4 on).
#include "ops/elementwise_common.h"
#include "ops/fact_rules.h"
#include "ops/scalar_math.h"

namespace etrace {

using namespace elementwise;

const Primitive heaviside_surrogate_gradient_p{
    binary<heaviside_surrogate_gradient_p, kFloating, [](auto x, auto) { return scalar::step(x); }>({
        .name = "heaviside_surrogate_gradient",
        .doc =
            "y = 1 where x ≥ 0, else 0; its derivative in x is taken to be the second operand, in which it "
            "has none",
        .emit = code<"etp_step_$t($0)", 2>,
        .facts = [](const FactRequest& q) -> Facts {
          return {.sign = Sign::Unsigned, .finite = Finite::Always, .whole = true, .zeros = q.any_zeros()};
        },
        .jvp = [](const Params&, ArraySpan x, ArraySpan y, ArraySpan dx) -> Arrays {
          return tangent(y[0], {partial(dx[0], [&](const Array& d) { return d * x[1]; })});
        },
        .samples = flat_samples<kFloating, Range{-3, 3}, Range{0, 1}>,
    })};

}  // namespace etrace
