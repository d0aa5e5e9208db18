// What operations with bodies share: tracing a body, running it, and rearranging the inputs and outputs of a
// program.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "etrace/array.h"
#include "etrace/ir.h"
#include "etrace/transform.h"
#include "interp/routine.h"

namespace etrace {

// A traced function: (captured…, args…) -> outs. Arrays that it used from outside come first.
struct Body {
  ClosedJaxpr program;
  Arrays captured;
};
Body trace_body(std::span<const Aval> args, const Function& f);

// Among its own equations; those of bodies do not count.
bool has_loops(const Jaxpr&);

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
// Bare numbers among the first values of a loop take the element type that its body gives back for them: 0.0
// in front of a body of f64. Whether there were any; the body is traced again then.
bool adapt_bare_numbers(Arrays& carry, const Avals& returned);
void require_types(std::string_view op, std::string_view what, const Avals& found, const Avals& expected);

// Kernels ---------------------------------------------------------------------------------------------------
ResolvedProgram resolve_body(const JaxprPtr&, const etp_context&);
// A body whose results 0 … num_carry-1 may replace the arguments from first_carry on: the carry of a loop.
Routine loop_body(const JaxprPtr&, std::size_t first_carry, std::size_t num_carry, const etp_context&);
Kernel call_kernel(const JaxprPtr&, const etp_context&);
void copy_unless_same(void* const* to, const void* const* from, std::span<const std::size_t> bytes);

// Parts of a kernel's scratch: workspaces of bodies, their pointers, buffers.
class ScratchLayout {
 public:
  std::size_t take(std::size_t bytes);
  std::size_t take_pointers(std::size_t count) { return take(count * sizeof(void*)); }
  std::size_t size() const { return size_; }

 private:
  std::size_t size_ = 0;
};

}  // namespace etrace
