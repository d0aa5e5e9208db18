// Small programs for the tests of this folder.
#pragma once

#include "etrace/control.h"
#include "etrace/ir.h"
#include "etrace/ops/elementwise.h"
#include "etrace/primitive.h"

namespace etrace::test {

inline const Aval kF64{Dtype::F64, {}};
inline const Aval kF32x3{Dtype::F32, {3}};

inline Literal literal(double value, Dtype dtype = Dtype::F64) { return {dtype, value}; }

// y = x * x + c, with the constant c.
inline ClosedJaxpr square_plus(double c) {
  const Var k = fresh_var(kF64), x = fresh_var(kF64), s = fresh_var(kF64), y = fresh_var(kF64);
  return {{{k}, {x}, {make_eqn(mul_p, {x, x}, {s}), make_eqn(add_p, {s, k}, {y})}, {y}},
          {Tensor::full(kF64, c)}};
}

// A call of `body`, with one literal operand per input.
inline ClosedJaxpr call(const ClosedJaxpr& body) {
  std::vector<Atom> in;
  for (const Aval& a : body.in_avals()) in.emplace_back(literal(0.5, a.dtype));
  std::vector<Var> out;
  std::vector<Atom> outs;
  for (const Aval& a : body.out_avals()) {
    out.push_back(fresh_var(a));
    outs.emplace_back(out.back());
  }
  return {{{}, {}, {make_eqn(jit_p, in, out, {{"jaxpr", share(body)}})}, outs}, {}};
}

}  // namespace etrace::test
