#include "control/body.h"

#include <algorithm>
#include <cstring>

#include "core/flow.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "interp/arena.h"

namespace etrace {

bool has_loops(const Jaxpr& jaxpr) {
  return std::any_of(jaxpr.eqns.begin(), jaxpr.eqns.end(), [](const Eqn& e) {
    return e.prim == &scan_p || e.prim == &while_p || e.prim == &tape_while_p;
  });
}

Body trace_body(std::span<const Aval> args, const Function& f) {
  Recording r = record(args, f);
  Body body{{std::move(r.jaxpr), {}}, std::move(r.captured)};
  Jaxpr& j = body.program.jaxpr;
  j.invars.insert(j.invars.begin(), j.constvars.begin(), j.constvars.end());
  j.constvars.clear();
  return body;
}

ClosedJaxpr reorder_inputs(ClosedJaxpr closed, const std::vector<std::size_t>& order) {
  ETRACE_CHECK(order.size() == closed.jaxpr.invars.size());
  std::vector<Var> vars;
  for (const std::size_t i : order) vars.push_back(closed.jaxpr.invars[i]);
  closed.jaxpr.invars = std::move(vars);
  return closed;
}

ClosedJaxpr select_outputs(ClosedJaxpr closed, const std::vector<std::size_t>& order) {
  std::vector<Atom> outs;
  for (const std::size_t i : order) outs.push_back(closed.jaxpr.outs[i]);
  closed.jaxpr.outs = std::move(outs);
  return closed;
}

ClosedJaxpr insert_unused_inputs(ClosedJaxpr closed, std::size_t at, std::span<const Aval> avals) {
  std::vector<Var> vars;
  for (const Aval& a : avals) vars.push_back(fresh_var(a));
  auto& invars = closed.jaxpr.invars;
  invars.insert(invars.begin() + static_cast<std::ptrdiff_t>(at), vars.begin(), vars.end());
  return closed;
}

Mask inputs_read(const ClosedJaxpr& closed, const Mask& outputs) {
  std::vector<Atom> wanted;
  for (const std::size_t i : positions(outputs)) wanted.push_back(closed.jaxpr.outs[i]);
  const Reached live = backward(closed.jaxpr, ids_of(wanted));
  Mask read;
  for (const Var& v : closed.jaxpr.invars) read.push_back(live.holds(v));
  return read;
}

Mask outputs_reached(const ClosedJaxpr& closed, const Mask& inputs) {
  VarIds from;
  for (const std::size_t i : positions(inputs)) from.insert(closed.jaxpr.invars[i].id);
  const Reached reached = forward(closed.jaxpr, std::move(from));
  Mask out;
  for (const Atom& a : closed.jaxpr.outs) out.push_back(reached.holds(a));
  return out;
}

std::vector<std::size_t> positions(const Mask& mask, std::size_t offset) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < mask.size(); ++i)
    if (mask[i]) out.push_back(i + offset);
  return out;
}

Arrays join(std::initializer_list<ArraySpan> parts) {
  Arrays out;
  for (const ArraySpan& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

Mask join(std::initializer_list<Mask> parts) {
  Mask out;
  for (const Mask& p : parts) out.insert(out.end(), p.begin(), p.end());
  return out;
}

Mask part(const Mask& mask, std::size_t begin, std::size_t count) {
  const auto first = mask.begin() + static_cast<std::ptrdiff_t>(begin);
  return {first, first + static_cast<std::ptrdiff_t>(count)};
}

Mask operator|(const Mask& a, const Mask& b) {
  Mask out(a);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = out[i] || b[i];
  return out;
}

bool adapt_bare_numbers(Arrays& carry, const Avals& returned) {
  bool any = false;
  for (std::size_t i = 0; i < carry.size() && i < returned.size(); ++i) {
    const Dtype to = returned[i].dtype;
    if (!carry[i].is_weak() || !returned[i].shape.is_scalar() || to == carry[i].dtype()) continue;
    if (to == Dtype::Bool || (is_floating(carry[i].dtype()) && !is_floating(to))) continue;
    carry[i] = convert(carry[i], to);
    any = true;
  }
  return any;
}

void require_types(std::string_view op, std::string_view what, const Avals& found, const Avals& expected) {
  if (found.size() != expected.size())
    throw CompilationError(std::string(op), std::string(what) + ": found " + std::to_string(found.size()) +
                                                " values, expected " + std::to_string(expected.size()));
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] != expected[i])
      throw CompilationError(std::string(op),
                             std::string(what) + " " + std::to_string(i) + ": found " + to_string(found[i]) +
                                 ", expected " + to_string(expected[i]) +
                                 (what == "carry" ? "; what a loop carries keeps its type: convert "
                                                    "its first value, or what the body returns"
                                                  : ""));
}

ResolvedProgram resolve_body(const JaxprPtr& body, const etp_context& context) {
  check(*body);
  return {*body, context};
}

Routine loop_body(const JaxprPtr& body, std::size_t first_carry, std::size_t num_carry,
                  const etp_context& context) {
  std::vector<Alias> carries;
  for (std::size_t i = 0; i < num_carry; ++i) carries.push_back({i, first_carry + i});
  return {resolve_body(body, context), std::move(carries)};
}

Kernel call_kernel(const JaxprPtr& body, const etp_context& context) {
  return routine_kernel(resolve_body(body, context));
}

void copy_unless_same(void* const* to, const void* const* from, std::span<const std::size_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != 0 && to[i] != from[i]) std::memcpy(to[i], from[i], bytes[i]);
}

std::size_t ScratchLayout::take(std::size_t bytes) {
  const std::size_t at = size_;
  size_ = with_block(size_, bytes);
  return at;
}

}  // namespace etrace
