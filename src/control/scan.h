// The parameters of scan, and its derivatives.
#pragma once

#include "control/body.h"
#include "etrace/control.h"

namespace etrace::loops {

// The parameters in one place, and the split of operands and results.
struct Scan {
  JaxprPtr body;
  std::int64_t length;
  bool reverse;
  std::size_t num_consts, num_carry;
  std::int64_t checkpoint_every;

  explicit Scan(const Params& p)
      : body(p.jaxpr("jaxpr")),
        length(p.integer("length")),
        reverse(p.boolean_or("reverse", false)),
        num_consts(static_cast<std::size_t>(p.integer("num_consts"))),
        num_carry(static_cast<std::size_t>(p.integer("num_carry"))),
        checkpoint_every(p.integer_or("checkpoint_every", 0)) {}

  Params with_body(ClosedJaxpr program, std::size_t consts, std::size_t carry) const {
    Params p{{"jaxpr", share(std::move(program))},
             {"length", length},
             {"reverse", reverse},
             {"num_consts", consts},
             {"num_carry", carry}};
    return checkpoint_every > 0 ? p.with("checkpoint_every", checkpoint_every) : p;
  }

  std::size_t num_xs() const { return body->jaxpr.invars.size() - num_consts - num_carry; }
  std::size_t num_ys() const { return body->jaxpr.outs.size() - num_carry; }
  template <class T>
  std::span<const T> consts(std::span<const T> x) const {
    return x.first(num_consts);
  }
  template <class T>
  std::span<const T> carry(std::span<const T> x) const {
    return x.subspan(num_consts, num_carry);
  }
  template <class T>
  std::span<const T> xs(std::span<const T> x) const {
    return x.subspan(num_consts + num_carry);
  }
};

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
