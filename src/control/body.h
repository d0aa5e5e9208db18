// What operations with bodies share: tracing a body, running it, and rearranging the inputs and outputs of a
// program.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "etrace/array.h"
#include "etrace/interp.h"
#include "etrace/ir.h"
#include "etrace/transform.h"

namespace etrace {

// A traced function: (captured…, args…) -> outs. Arrays that it used from outside come first.
struct Body {
  ClosedJaxpr program;
  Arrays captured;
};
Body trace_body(std::span<const Aval> args, const Function& f);

// The same program with its inputs (outputs) in another order: new position i holds the old order[i]. Outputs
// may be dropped or repeated, inputs must be a permutation.
ClosedJaxpr reorder_inputs(ClosedJaxpr, const std::vector<std::size_t>& order);
ClosedJaxpr select_outputs(ClosedJaxpr, const std::vector<std::size_t>& order);
// The same program with an unused input inserted at a position.
ClosedJaxpr insert_unused_inputs(ClosedJaxpr, std::size_t at, std::span<const Aval>);

// Which inputs some output (of those selected) depends on; walks into no body: an equation uses all its
// operands.
Mask inputs_read(const ClosedJaxpr&, const Mask& outputs);
// Which outputs depend on one of these inputs.
Mask outputs_reached(const ClosedJaxpr&, const Mask& inputs);

// Positions at which a mask is set; concatenation of index lists and arrays.
std::vector<std::size_t> positions(const Mask&, std::size_t offset = 0);
Arrays join(std::initializer_list<ArraySpan>);
Mask join(std::initializer_list<Mask>);
Mask part(const Mask&, std::size_t begin, std::size_t count);
Mask operator|(const Mask&, const Mask&);

// Typing of a body's operands, as every rule of this layer words it.
void require_types(std::string_view op, std::string_view what, const Avals& found, const Avals& expected);

// A body as a kernel would call it.
std::shared_ptr<const Executable> compile_body(const JaxprPtr&);
Kernel call_kernel(const JaxprPtr&);

}  // namespace etrace
