// Transformations: from program to program. Each has two forms: `*_eval` works on Arrays and so writes into
// whatever is being recorded (this is what the rules of operations with bodies use); the other returns a new
// program.
//
// Reverse mode is linearize, then transpose. linearize runs the derivative rules inside two nested
// recordings: what depends on primal values only lands in the outer one, what depends on tangents in the
// inner one. What the inner captures from the outer are the residuals.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "etrace/array.h"
#include "etrace/ir.h"
#include "etrace/primitive.h"

#pragma GCC visibility push(default)
namespace etrace {

using Mask = std::vector<bool>;

// Forward mode ----------------------------------------------------------------------------------------------
enum class TangentMode : std::uint8_t {
  Joint,
  Linear
};  // Linear: primal values must not depend on tangents' equations
ValuesAndTangents jvp_eval(const Jaxpr&, ArraySpan consts, ArraySpan x, ArraySpan dx,
                           TangentMode mode = TangentMode::Joint);

struct Jvp {
  ClosedJaxpr jaxpr;  // (x…, dx of active inputs…) -> (y…, dy of active outputs…)
  Mask active_out;
};
// Outputs named in force_out get a tangent even if it is zero.
Jvp jvp(const ClosedJaxpr&, const Mask& active, const Mask& force_out = {});

// Reverse mode ----------------------------------------------------------------------------------------------
struct Linearization {
  ClosedJaxpr primal;  // (x…) -> (y…, residuals…)
  ClosedJaxpr linear;  // (residuals…, dx of active inputs…) -> (dy of active outputs…)
  std::size_t num_residuals = 0;
  Mask active_out;
};
Linearization linearize(const ClosedJaxpr&, const Mask& active, const Mask& force_out = {});

// Cotangents of the undefined x, given those of the outputs (undefined = zero). One entry per input;
// undefined for inputs with a value, and where the cotangent is zero.
Arrays transpose_eval(const Jaxpr&, ArraySpan consts, ArraySpan x, ArraySpan ct);
// (inputs with linear[i] false…, ct of outputs with ct_active…) -> (ct of inputs with linear[i] true…), zeros
// filled in.
ClosedJaxpr transpose(const ClosedJaxpr&, const Mask& linear, const Mask& ct_active = {});

// (x…, ct of every output…) -> (y…, ct of active inputs…)
ClosedJaxpr vjp(const ClosedJaxpr&, const Mask& active = {});
// (x…) -> (value, gradient of active inputs…); the program must have one scalar floating output (or several
// outputs of which the first is it: the others follow the value).
ClosedJaxpr value_and_grad(const ClosedJaxpr&, const Mask& active = {});

// Batching --------------------------------------------------------------------------------------------------
struct BatchedArrays {
  Arrays values;
  Mask batched;
};
// Mapped over a leading axis of size n of the inputs named in `batched`.
BatchedArrays batch_eval(const Jaxpr&, ArraySpan consts, ArraySpan x, const Mask& batched, std::int64_t n);
struct Batched {
  ClosedJaxpr jaxpr;
  Mask batched_out;
};
Batched vmap(const ClosedJaxpr&, const Mask& batched, std::int64_t n, const Mask& force_out = {});

// Without what nobody reads; meaning and inputs stay --------------------------------------------------------
ClosedJaxpr eliminate_dead_code(const ClosedJaxpr&);
ClosedJaxpr eliminate_dead_code(const ClosedJaxpr&, const Mask& used_out);  // drops the other outputs

// The same for functions, as model code uses them -----------------------------------------------------------
using ScalarFunction = std::function<Array(ArraySpan)>;
Function grad(ScalarFunction f, std::vector<int> argnums = {0});
Function value_and_grad(ScalarFunction f, std::vector<int> argnums = {0});
Function jvp(Function f);                               // (x…, dx…) -> (y…, dy…)
Function vjp(Function f, std::size_t num_outputs = 1);  // (x…, ct of every output…) -> (y…, ct of x…)
Function vmap(Function f, std::vector<int> in_axes = {},
              int out_axis = 0);              // -1: not mapped; empty: all at 0
Function jacfwd(Function f, int argnum = 0);  // out.shape ++ in.shape, one per output
Function jacrev(Function f, int argnum = 0);

}  // namespace etrace
#pragma GCC visibility pop
