// The derivatives of scan.
#pragma once

#include "control/body.h"
#include "control/loops.h"

namespace etrace::loops {

// Which carries have a tangent (or are mapped), given which operands have one: those that start with one and
// those that receive one in the body. `step` says which outputs follow from which inputs.
template <class Step>
Mask carry_fixpoint(const Scan& s, Mask in, const Step& step) {
  for (;;) {
    const Mask before = part(in, s.num_consts, s.num_carry);
    const Mask after = before | part(step(in), 0, s.num_carry);
    if (after == before) return in;
    for (std::size_t i = 0; i < s.num_carry; ++i) in[s.num_consts + i] = after[i];
  }
}

ValuesAndTangents scan_jvp(const Params& params, ArraySpan x, ArraySpan dx);
// A primal scan that also stacks residuals, then a linear scan over them.
ValuesAndTangents scan_linearize(const Params& params, ArraySpan x, ArraySpan dx);
Arrays scan_transpose(const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in);

}  // namespace etrace::loops
