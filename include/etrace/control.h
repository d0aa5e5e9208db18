// Control flow and calls, as functions of model code. Bodies may use arrays from outside; those become
// operands.
#pragma once

#include <functional>
#include <vector>

#include "etrace/array.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

extern const Primitive jit_p, scan_p, while_p, cond_p, tape_while_p, custom_jvp_call_p, custom_vjp_call_p;

// A nested call: f is traced once per signature and stays one equation.
Function jit(Function f);

struct ScanResult {
  Arrays carry, ys;
};
// carry, y_t = f(carry, x_t) for t = 0 … length-1 (descending if reverse). xs have a leading axis of that
// length; without xs, length must be given.
using ScanBody = std::function<ScanResult(ArraySpan carry, ArraySpan x)>;
struct ScanOptions {
  std::int64_t length = -1;
  bool reverse = false;
  // Reverse mode keeps the residuals of one segment of this many steps at a time and recomputes the others
  // from the carry at the segment's start. 0: keeps all.
  std::int64_t checkpoint_every = 0;
};
ScanResult scan(const ScanBody& f, const Arrays& init, const Arrays& xs, const ScanOptions& options = {});

Arrays while_loop(const std::function<Array(ArraySpan)>& condition, const Function& body, const Arrays& init);
Arrays fori_loop(std::int64_t lower, std::int64_t upper,
                 const std::function<Arrays(const Array& i, ArraySpan)>& body, const Arrays& init);
// Both branches must give the same types.
Arrays cond(const Array& predicate, const Function& if_true, const Function& if_false,
            const Arrays& operands);
Arrays switch_case(const Array& index, const std::vector<Function>& branches,
                   const Arrays& operands);  // index clamped

// A function with its own derivative. rule(x…, dx…) -> (y…, dy…), dy linear in dx.
Function custom_jvp(Function f, Function rule);
// fwd(x…) -> (y…, residuals…); bwd(residuals…, ct…) -> (ct of x…).
Function custom_vjp(Function f, Function fwd, Function bwd);

// Every `jit` body spliced into its caller, at every depth; each call site gets Vars of its own. A program
// without calls is returned unchanged.
ClosedJaxpr inline_calls(const ClosedJaxpr&);

}  // namespace etrace
#pragma GCC visibility pop
