// Recording: equations are appended in the order in which operations are called.
#include "core/recorder.h"

#include <atomic>
#include <utility>

#include "etrace/error.h"

namespace etrace {

namespace {
thread_local const Recorder* running_recorder =
    nullptr;  // what Recorder::Running objects on this thread's stack say

std::uint64_t next_level() {
  static std::atomic<std::uint64_t> counter{0};
  return ++counter;
}
}  // namespace

Recorder::Recorder() : level_(next_level()) {}

const Recorder* Recorder::running() { return running_recorder; }
Recorder::Running::Running(Recorder& r) : recorder_(r), previous_(std::exchange(running_recorder, &r)) {}
Recorder::Running::~Running() {
  recorder_.open_ = false;
  running_recorder = previous_;
}

Array Recorder::tracer(const Var& var) {
  return Array(
      std::make_shared<const Array::Rep>(Array::Rep{var.aval, Array::Rep::Tracer{shared_from_this(), var}}));
}

Array Recorder::input(const Aval& aval) {
  jaxpr_.invars.push_back(fresh_var(aval));
  return tracer(jaxpr_.invars.back());
}

Arrays Recorder::add(const Primitive& prim, ArraySpan in, const Params& params) {
  if (!open_)
    throw TypeError(
        "trace", "a traced value was used by '" + std::string(prim.name()) +
                     "' after its trace had ended; return values from the traced function instead of keeping "
                     "them elsewhere");
  const Avals types = abstract_eval(prim, params, avals_of(in));
  std::vector<Atom> atoms;
  atoms.reserve(in.size());
  for (const Array& a : in) atoms.push_back(atom(a));
  std::vector<Var> outs;
  outs.reserve(types.size());
  for (const Aval& t : types) outs.push_back(fresh_var(t));
  Arrays result;
  result.reserve(outs.size());
  for (const Var& v : outs) result.push_back(tracer(v));
  jaxpr_.eqns.push_back(make_eqn(prim, std::move(atoms), std::move(outs), params, OriginScope::current()));
  return result;
}

Atom Recorder::atom(const Array& a) {
  const Aval& aval = a.aval();
  if (const auto* t = tracer_of(a); t != nullptr && t->recorder.get() == this) return t->var;
  if (const auto value = a.splat()) {
    if (aval.shape.is_scalar()) return Literal{aval.dtype, *value};
    return splat(aval, *value);
  }
  return capture(a);
}

Var Recorder::splat(const Aval& aval, const Scalar& value) {
  const Literal literal{aval.dtype, value};
  for (const SplatEntry& s : splats_)
    if (s.aval == aval && s.value == literal) return s.var;
  const Var var = fresh_var(aval);
  jaxpr_.eqns.push_back(make_eqn(broadcast_in_dim_p, {literal}, {var},
                                 {{"shape", aval.shape}, {"broadcast_dimensions", Dims{}}},
                                 OriginScope::current()));
  splats_.push_back({aval, literal, var});
  return var;
}

Var Recorder::capture(const Array& a) {
  const auto* t = tracer_of(a);
  if (t == nullptr) return capture_numbers(a);
  if (!t->recorder->open())
    throw TypeError(
        "trace", "a traced value of type " + to_string(a.aval()) +
                     " was used after its trace had ended; return values from the traced function instead of "
                     "keeping them elsewhere");
  if (const auto it = captured_vars_.find(t->var.id); it != captured_vars_.end()) return it->second;
  return captured_vars_.emplace(t->var.id, constant(a)).first->second;
}

// An array that is used twice is one constant. Memory of somebody else may be written, or freed and given to
// another array, while we record: what stands at a known address is the same constant only if it has the same
// numbers. (For memory of our own, which is kept, that is seen without looking at them.)
Var Recorder::capture_numbers(const Array& a) {
  const Tensor value = a.tensor();
  if (const auto it = captured_tensors_.find(value.bytes()); it != captured_tensors_.end())
    if (captured_[it->second].tensor() == value) return jaxpr_.constvars[it->second];
  captured_tensors_.insert_or_assign(value.bytes(), captured_.size());
  return constant(own(a));
}

Var Recorder::constant(const Array& a) {
  jaxpr_.constvars.push_back(fresh_var(a.aval()));
  captured_.push_back(a);
  return jaxpr_.constvars.back();
}

Recording Recorder::finish(ArraySpan outs) {
  for (const Array& a : outs) jaxpr_.outs.push_back(atom(a));
  return {std::move(jaxpr_), std::move(captured_)};
}

Recording record(std::span<const Aval> in, const Function& f) {
  const auto recorder = std::make_shared<Recorder>();
  const Recorder::Running running(*recorder);
  Arrays args;
  args.reserve(in.size());
  for (const Aval& aval : in) args.push_back(recorder->input(aval));
  return recorder->finish(f(args));
}

ClosedJaxpr close(Recording r) {
  for (const Array& a : r.captured)
    if (a.is_tracer())
      throw CompilationError("trace", "the traced function uses a value of type " + to_string(a.aval()) +
                                          " of an enclosing trace; pass it as an argument");
  return {std::move(r.jaxpr), to_tensors(r.captured)};
}

ClosedJaxpr make_jaxpr(const Function& f, std::span<const Aval> in) { return close(record(in, f)); }

namespace {
thread_local Origin current_origin;  // dynamic scope: what OriginScope objects on this thread's stack say
}

OriginScope::OriginScope(Origin inner, Kind kind) : previous_(current_origin) {
  if (kind == Absolute) {
    if (!inner.empty()) current_origin = std::move(inner);
    return;
  }
  current_origin.module.insert(current_origin.module.end(), inner.module.begin(), inner.module.end());
  if (!inner.file.empty()) {
    current_origin.file = std::move(inner.file);
    current_origin.line = inner.line;
  }
}
OriginScope::~OriginScope() { current_origin = std::move(previous_); }
const Origin& OriginScope::current() { return current_origin; }

}  // namespace etrace
