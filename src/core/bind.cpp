// bind_primitive(): the one place where operations are intercepted; and the table of primitives.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/interruptible.h"
#include "base/memory.h"
#include "core/recorder.h"
#include "etrace/error.h"
#include "etrace/primitive.h"
#include "kernels/context.h"

namespace etrace {

namespace {

std::vector<const Primitive*>& primitive_table() {
  static std::vector<const Primitive*> rows;  // filled while the program starts, and by register_primitive
  return rows;
}

// The innermost recording among the operands, or null.
Recorder* innermost(ArraySpan in) {
  Recorder* found = nullptr;
  for (const Array& a : in)
    if (const auto* t = tracer_of(a);
        t != nullptr && (found == nullptr || t->recorder->level() > found->level()))
      found = t->recorder.get();
  return found;
}

// Room for a result; the error of a machine that has none names the operation and its place in the model.
Tensor room_for(const Primitive& prim, const Aval& aval) {
  try {
    return Tensor::uninitialized(aval);
  } catch (const ValueError& e) {
    if (!is_out_of_memory(e)) throw;
    out_of_memory(fmt::format("the result {} of {}", to_string(aval), prim.name()), aval.bytes(),
                  OriginScope::current());
  }
}

Arrays run_now(const Primitive& prim, ArraySpan in, const Params& params) {
  const Avals in_avals = avals_of(in);
  const Avals out_avals = abstract_eval(prim, params, in_avals);
  if (prim.spec.kernel == nullptr) {
    if (prim.spec.lower != nullptr) return prim.spec.lower(params, in);
    throw NotSupportedError(std::string(prim.name()), "this operation has no evaluation rule");
  }
  const etp_context context = default_context();
  const Kernel kernel = prim.spec.kernel({params, in_avals, out_avals, context});
  const Tensors operands = to_tensors(in);
  std::vector<const void*> inputs;
  for (const Tensor& t : operands) inputs.push_back(t.bytes());
  Tensors results;
  std::vector<void*> outputs;
  for (const Aval& aval : out_avals) outputs.push_back(results.emplace_back(room_for(prim, aval)).writable());
  Tensor scratch = Tensor::uninitialized({Dtype::Bool, {static_cast<std::int64_t>(kernel.scratch_bytes)}});
  const Interruptible nothing_outlives_it;
  kernel.run({inputs.data(), outputs.data(), scratch.writable()});
  return to_arrays(results);
}

}  // namespace

Primitive::Primitive(PrimitiveSpec s) : spec(std::move(s)) { primitive_table().push_back(this); }

Primitive::~Primitive() { std::erase(primitive_table(), this); }

std::vector<const Primitive*> primitives() {
  std::vector<const Primitive*> rows = primitive_table();
  std::sort(rows.begin(), rows.end(), [](auto* a, auto* b) { return a->name() < b->name(); });
  return rows;
}

const Primitive* find_primitive(std::string_view name) {
  for (const Primitive* p : primitive_table())
    if (p->name() == name) return p;
  return nullptr;
}

bool knows_param(const Primitive& prim, std::string_view key) {
  return std::find(prim.spec.params.begin(), prim.spec.params.end(), key) != prim.spec.params.end();
}

bool ignores_param(const Primitive& prim, std::string_view key) {
  const std::vector<std::string>& dropped = prim.spec.ignored_params;
  return std::find(dropped.begin(), dropped.end(), key) != dropped.end();
}

Avals abstract_eval(const Primitive& prim, const Params& params, std::span<const Aval> in) {
  if (prim.spec.abstract == nullptr)
    throw NotSupportedError(std::string(prim.name()), "this operation has no typing rule");
  return prim.spec.abstract(params, in);
}

Arrays bind_primitive(const Primitive& prim, ArraySpan in, const Params& params) {
  for (const Array& a : in)
    if (!a.defined()) throw TypeError(std::string(prim.name()), "an operand is undefined");
  if (Recorder* recorder = innermost(in)) return recorder->add(prim, in, params);
  return run_now(prim, in, params);
}

Arrays bind_primitive(const Primitive& prim, std::initializer_list<Array> in, const Params& params) {
  return bind_primitive(prim, ArraySpan(in.begin(), in.size()), params);
}

Arrays eval_jaxpr(const Jaxpr& jaxpr, ArraySpan consts, ArraySpan args) {
  if (consts.size() != jaxpr.constvars.size() || args.size() != jaxpr.invars.size())
    throw ValueError("eval", "the program takes " + std::to_string(jaxpr.invars.size()) + " inputs and " +
                                 std::to_string(jaxpr.constvars.size()) + " constants, but " +
                                 std::to_string(args.size()) + " and " + std::to_string(consts.size()) +
                                 " were given");
  std::unordered_map<std::uint64_t, Array> env;
  for (std::size_t i = 0; i < consts.size(); ++i) env.emplace(jaxpr.constvars[i].id, consts[i]);
  for (std::size_t i = 0; i < args.size(); ++i) env.emplace(jaxpr.invars[i].id, args[i]);
  auto read = [&](const Atom& atom) -> Array {
    if (const auto* literal = std::get_if<Literal>(&atom)) return full({}, literal->value, literal->dtype);
    return env.at(std::get<Var>(atom).id);
  };
  for (const Eqn& eqn : jaxpr.eqns) {
    const OriginScope scope(eqn.origin, OriginScope::Absolute);
    Arrays in;
    for (const Atom& a : eqn.in) in.push_back(read(a));
    Arrays out = bind_primitive(*eqn.prim, in, eqn.params);
    for (std::size_t i = 0; i < out.size(); ++i) env.emplace(eqn.out[i].id, std::move(out[i]));
  }
  Arrays outs;
  for (const Atom& a : jaxpr.outs) outs.push_back(read(a));
  return outs;
}

Arrays eval_jaxpr(const ClosedJaxpr& closed, ArraySpan args) {
  return eval_jaxpr(closed.jaxpr, to_arrays(closed.consts), args);
}

}  // namespace etrace
