// The interpreter. Making an Executable resolves one kernel per equation and lays out every intermediate
// value in one arena; a run walks a flat list of calls. Start reading at Builder::build.
#include <algorithm>
#include <cstring>
#include <new>
#include <unordered_map>

#include "etrace/error.h"
#include "etrace/interp.h"
#include "interp/arena.h"

namespace etrace {

namespace {

// One kernel call; pointers to operands and results are ready except for those of the run's own inputs and
// outputs.
struct Step {
  Kernel kernel;
  std::vector<const void*> in;
  std::vector<void*> out;
};

// Where a value lives.
struct Place {
  enum Kind : std::uint8_t { Input, Output, Arena, Constant } kind = Arena;
  std::size_t index = 0;  // of the input or output; byte offset in the arena
  const void* constant = nullptr;
};

// A pointer that is only known when a run starts.
struct Patch {
  std::size_t step, operand, index;
};

struct Copy {  // an output that is an input, a constant or another output
  std::size_t output;
  Place from;
  std::size_t bytes;
};

}  // namespace

struct Executable::Impl {
  ClosedJaxpr program;
  std::vector<Step> steps;
  std::vector<Patch> input_patches;         // steps[step].in[operand] = in[index]
  std::vector<Patch> output_read_patches;   // steps[step].in[operand] = out[index]
  std::vector<Patch> output_write_patches;  // steps[step].out[operand] = out[index]
  std::vector<Copy> copies;
  Tensors literals;
  AlignedBuffer arena;
  std::size_t scratch_offset = 0;
};

namespace {

class Builder {
 public:
  explicit Builder(Executable::Impl& impl) : impl_(impl), jaxpr_(impl.program.jaxpr) {}

  void build() {
    place_inputs();
    find_last_uses();
    claim_outputs();
    plan_steps();
    impl_.scratch_offset = planner_.high_water();
    impl_.arena = AlignedBuffer(impl_.scratch_offset + scratch_bytes_);
    resolve_pointers();
    plan_copies();
  }

 private:
  void place_inputs() {
    for (std::size_t i = 0; i < jaxpr_.invars.size(); ++i)
      places_[jaxpr_.invars[i].id] = {Place::Input, i, nullptr};
    for (std::size_t i = 0; i < jaxpr_.constvars.size(); ++i)
      places_[jaxpr_.constvars[i].id] = {Place::Constant, 0, impl_.program.consts[i].bytes()};
  }

  void find_last_uses() {
    for (std::size_t i = 0; i < jaxpr_.eqns.size(); ++i)
      for (const Atom& a : jaxpr_.eqns[i].in)
        if (const Var* v = as_var(a)) last_use_[v->id] = i;
  }

  // The first output slot that names an equation's result is where that result is computed.
  void claim_outputs() {
    for (std::size_t i = 0; i < jaxpr_.outs.size(); ++i)
      if (const Var* v = as_var(jaxpr_.outs[i]); v != nullptr && !places_.contains(v->id))
        places_[v->id] = {Place::Output, i, nullptr};
  }

  void plan_steps() {
    for (std::size_t i = 0; i < jaxpr_.eqns.size(); ++i) {
      const Eqn& eqn = jaxpr_.eqns[i];
      Avals in, out;
      for (const Atom& a : eqn.in) in.push_back(aval_of(a));
      for (const Var& v : eqn.out) out.push_back(v.aval);
      Step step{make_kernel(*eqn.prim, {eqn.params, in, out}), {}, {}};
      scratch_bytes_ = std::max(scratch_bytes_, step.kernel.scratch_bytes);
      place_results(eqn, i, step.kernel);
      release_dead(eqn, i);
      impl_.steps.push_back(std::move(step));
    }
  }

  void place_results(const Eqn& eqn, std::size_t index, const Kernel& kernel) {
    for (std::size_t k = 0; k < eqn.out.size(); ++k) {
      const Var& v = eqn.out[k];
      if (places_.contains(v.id)) continue;
      if (const Var* donor = find_donor(eqn, k, index, kernel)) {
        places_[v.id] = places_.at(donor->id);
        taken_.insert_or_assign(donor->id, true);
        continue;
      }
      places_[v.id] = {Place::Arena, planner_.take(v.aval.bytes()), nullptr};
    }
  }

  // An operand in the arena that dies here and in whose place the result may be written.
  const Var* find_donor(const Eqn& eqn, std::size_t result, std::size_t index, const Kernel& kernel) const {
    const auto allowed = [&](std::size_t operand) {
      return std::any_of(kernel.in_place.begin(), kernel.in_place.end(),
                         [&](const InPlace& p) { return p.result == result && p.operand == operand; });
    };
    for (std::size_t i = 0; i < eqn.in.size(); ++i) {
      const Var* v = as_var(eqn.in[i]);
      if (v == nullptr || !allowed(i) || last_use_.at(v->id) != index) continue;
      bool everywhere = true;  // the same value may be an operand twice
      for (std::size_t j = 0; j < eqn.in.size(); ++j)
        if (const Var* other = as_var(eqn.in[j]); other != nullptr && other->id == v->id)
          everywhere = everywhere && allowed(j);
      if (everywhere && places_.at(v->id).kind == Place::Arena && !taken_.contains(v->id)) return v;
    }
    return nullptr;
  }

  void release_dead(const Eqn& eqn, std::size_t index) {
    auto release = [&](const Var& v) {
      const Place& p = places_.at(v.id);
      if (p.kind != Place::Arena || taken_.contains(v.id)) return;
      taken_.emplace(v.id, true);
      planner_.give(p.index, v.aval.bytes());
    };
    for (const Atom& a : eqn.in)
      if (const Var* v = as_var(a); v != nullptr && last_use_.at(v->id) == index) release(*v);
    for (const Var& v : eqn.out)
      if (!last_use_.contains(v.id)) release(v);
  }

  void resolve_pointers() {
    for (std::size_t i = 0; i < jaxpr_.eqns.size(); ++i) {
      const Eqn& eqn = jaxpr_.eqns[i];
      Step& step = impl_.steps[i];
      for (std::size_t k = 0; k < eqn.in.size(); ++k) {
        const Place place = place_of(eqn.in[k]);
        if (place.kind == Place::Input) impl_.input_patches.push_back({i, k, place.index});
        if (place.kind == Place::Output) impl_.output_read_patches.push_back({i, k, place.index});
        step.in.push_back(fixed_pointer(place));
      }
      for (std::size_t k = 0; k < eqn.out.size(); ++k) {
        const Place& place = places_.at(eqn.out[k].id);
        if (place.kind == Place::Output) impl_.output_write_patches.push_back({i, k, place.index});
        step.out.push_back(const_cast<void*>(fixed_pointer(place)));
      }
    }
  }

  void plan_copies() {
    for (std::size_t i = 0; i < jaxpr_.outs.size(); ++i) {
      const Place place = place_of(jaxpr_.outs[i]);
      if (place.kind == Place::Output && place.index == i) continue;
      impl_.copies.push_back({i, place, aval_of(jaxpr_.outs[i]).bytes()});
    }
  }

  Place place_of(const Atom& a) {
    if (const Var* v = as_var(a)) return places_.at(v->id);
    const Literal& l = std::get<Literal>(a);
    impl_.literals.push_back(Tensor::full(l.aval(), l.value));
    return {Place::Constant, 0, impl_.literals.back().bytes()};
  }

  const void* fixed_pointer(const Place& place) const {
    if (place.kind == Place::Constant) return place.constant;
    if (place.kind == Place::Arena) return impl_.arena.data() + place.index;
    return nullptr;
  }

  Executable::Impl& impl_;
  const Jaxpr& jaxpr_;
  ArenaPlanner planner_;
  std::size_t scratch_bytes_ = 0;
  std::unordered_map<std::uint64_t, Place> places_;
  std::unordered_map<std::uint64_t, std::size_t> last_use_;
  std::unordered_map<std::uint64_t, bool> taken_;  // storage already handed on or given back
};

void check_argument(const Tensor& given, const Aval& wanted, std::size_t index) {
  if (!given.defined()) throw TypeError("interp", "argument " + std::to_string(index) + " is undefined");
  if (given.aval() == wanted) return;
  const std::string text = "argument " + std::to_string(index) + " has type " + to_string(given.aval()) +
                           " but the program takes " + to_string(wanted);
  if (given.dtype() != wanted.dtype) throw TypeError("interp", text);
  throw ValueError("interp", text);
}

}  // namespace

Executable::Executable(ClosedJaxpr program) : impl_(std::make_unique<Impl>()) {
  check(program);
  impl_->program = std::move(program);
  Builder(*impl_).build();
}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

const ClosedJaxpr& Executable::program() const { return impl_->program; }
std::size_t Executable::arena_bytes() const { return impl_->arena.size(); }
std::size_t Executable::steps() const { return impl_->steps.size(); }

void Executable::run(const void* const* in, void* const* out) const {
  Impl& impl = *impl_;
  for (const Patch& p : impl.input_patches) impl.steps[p.step].in[p.operand] = in[p.index];
  for (const Patch& p : impl.output_read_patches) impl.steps[p.step].in[p.operand] = out[p.index];
  for (const Patch& p : impl.output_write_patches) impl.steps[p.step].out[p.operand] = out[p.index];
  void* const scratch = impl.arena.data() + impl.scratch_offset;
  for (const Step& step : impl.steps) step.kernel.run({step.in.data(), step.out.data(), scratch});
  for (const Copy& copy : impl.copies) {
    const void* from = copy.from.constant;
    if (copy.from.kind == Place::Input) from = in[copy.from.index];
    if (copy.from.kind == Place::Output) from = out[copy.from.index];
    if (copy.bytes != 0) std::memcpy(out[copy.output], from, copy.bytes);
  }
}

Tensors Executable::operator()(std::span<const Tensor> args) const {
  const Avals in = impl_->program.in_avals();
  if (args.size() != in.size())
    throw ValueError("interp", "the program takes " + std::to_string(in.size()) + " arguments but " +
                                   std::to_string(args.size()) + " were given");
  std::vector<const void*> inputs;
  for (std::size_t i = 0; i < args.size(); ++i) {
    check_argument(args[i], in[i], i);
    inputs.push_back(args[i].bytes());
  }
  Tensors results;
  std::vector<void*> outputs;
  for (const Aval& aval : impl_->program.out_avals())
    outputs.push_back(results.emplace_back(Tensor::uninitialized(aval)).writable());
  run(inputs.data(), outputs.data());
  return results;
}

Tensors evaluate(const ClosedJaxpr& program, std::span<const Tensor> args) {
  return Executable(program)(args);
}

Kernel make_kernel(const Primitive& prim, const KernelRequest& request) {
  if (prim.spec.kernel != nullptr) return prim.spec.kernel(request);
  if (prim.spec.lower == nullptr)
    throw NotSupportedError(std::string(prim.name()), "the interpreter has no kernel for this operation");
  const Params params = request.params;
  auto body = std::make_shared<Executable>(
      make_jaxpr([&](ArraySpan x) { return prim.spec.lower(params, x); }, request.in));
  return {.run = [body](const KernelArgs& args) { body->run(args.in, args.out); }};
}

}  // namespace etrace
