#include "interp/routine.h"

#include <cstring>

#include "etrace/interp.h"
#include "interp/arena.h"

namespace etrace {

ResolvedProgram::ResolvedProgram(ClosedJaxpr closed, const etp_context& context)
    : program(std::move(closed)) {
  for (const Eqn& eqn : program.jaxpr.eqns) {
    Avals in, out;
    for (const Atom& a : eqn.in) in.push_back(aval_of(a));
    for (const Var& v : eqn.out) out.push_back(v.aval);
    kernels.push_back(make_kernel(*eqn.prim, {eqn.params, in, out, context}));
  }
  values = number_values(program.jaxpr, kernels);
}

std::vector<Alias> ResolvedProgram::natural_aliases() const {
  return etrace::natural_aliases(program.jaxpr, values, kernels);
}

Routine::Routine(ResolvedProgram resolved, std::vector<Alias> aliases)
    : program_(std::move(resolved.program)), aliases_(std::move(aliases)) {
  for (const Literal& l : resolved.values.literals) literals_.push_back(Tensor::full(l.aval(), l.value));
  MemoryPlan plan = plan_memory(resolved.values, resolved.kernels, aliases_);
  table_offset_ = plan.arena_bytes;
  for (const MemoryPlan::Call& call : plan.calls) {
    const std::size_t in = entries_, out = entries_ + call.in.size();
    for (const Place& p : call.in) add_entry(p);
    for (const Place& p : call.out) add_entry(p);
    calls_.push_back({std::move(resolved.kernels[call.eqn].run), in, out, call.scratch});
  }
  before_ = std::move(plan.before);
  after_ = std::move(plan.after);
}

void Routine::add_entry(const Place& place) {
  const std::size_t entry = entries_++;
  switch (place.kind) {
    case Place::Argument:
      argument_entries_.push_back({entry, place.index});
      break;
    case Place::Result:
      result_entries_.push_back({entry, place.index});
      break;
    case Place::Arena:
      arena_entries_.push_back({entry, place.index});
      break;
    default:
      constant_entries_.push_back({entry, constant(place)});
  }
}

const void* Routine::constant(const Place& place) const {
  return (place.kind == Place::Constant ? program_.consts : literals_)[place.index].bytes();
}

std::size_t Routine::workspace_bytes() const { return table_offset_ + entries_ * sizeof(void*); }

void Routine::prepare(void* workspace) const {
  auto* const base = static_cast<std::byte*>(workspace);
  auto** const table = reinterpret_cast<void**>(base + table_offset_);
  for (const Fixed& f : constant_entries_) table[f.entry] = const_cast<void*>(f.pointer);
  for (const Patch& p : arena_entries_) table[p.entry] = base + p.index;
}

void Routine::run(const void* const* arguments, void* const* results, void* workspace) const {
  auto* const base = static_cast<std::byte*>(workspace);
  auto** const table = reinterpret_cast<void**>(base + table_offset_);
  for (const Patch& p : argument_entries_) table[p.entry] = const_cast<void*>(arguments[p.index]);
  for (const Patch& p : result_entries_) table[p.entry] = results[p.index];
  for (const MemoryPlan::Copy& c : before_) copy(c, arguments, results, base);
  for (const Call& call : calls_) call.run({table + call.in, table + call.out, base + call.scratch});
  for (const MemoryPlan::Copy& c : after_) copy(c, arguments, results, base);
}

void Routine::copy(const MemoryPlan::Copy& c, const void* const* arguments, void* const* results,
                   std::byte* workspace) const {
  const auto pointer = [&](const Place& place) -> const void* {
    if (place.kind == Place::Argument) return arguments[place.index];
    if (place.kind == Place::Result) return results[place.index];
    return place.kind == Place::Arena ? workspace + place.index : constant(place);
  };
  void* const to = const_cast<void*>(pointer(c.to));
  if (const void* from = pointer(c.from); from != to) std::memcpy(to, from, c.bytes);
}

}  // namespace etrace
