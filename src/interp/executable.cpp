// Executable: a Routine with workspaces of its own, one for every run that is under way at the same time.
#include <atomic>
#include <mutex>

#include "etrace/error.h"
#include "etrace/interp.h"
#include "interp/arena.h"
#include "interp/routine.h"
#include "kernels/context.h"

namespace etrace {

namespace {

struct Workspace {
  explicit Workspace(const Routine& routine)
      : memory(arena_for(routine.program().jaxpr, routine.workspace_bytes())) {
    routine.prepare(memory.data());
  }
  AlignedBuffer memory;
};

// The first is ready at once; more are made when runs meet, and kept.
class Workspaces {
 public:
  explicit Workspaces(const Routine& routine) : routine_(routine), ready_(new Workspace(routine)) {
    idle_.reserve(16);
  }
  ~Workspaces() { delete ready_.load(); }
  Workspaces(const Workspaces&) = delete;
  Workspaces& operator=(const Workspaces&) = delete;

  std::unique_ptr<Workspace> take() {
    if (Workspace* w = ready_.exchange(nullptr, std::memory_order_acquire))
      return std::unique_ptr<Workspace>(w);
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        std::unique_ptr<Workspace> w = std::move(idle_.back());
        idle_.pop_back();
        return w;
      }
    }
    return std::make_unique<Workspace>(routine_);
  }
  void give(std::unique_ptr<Workspace> w) {
    Workspace* none = nullptr;
    if (ready_.compare_exchange_strong(none, w.get(), std::memory_order_release, std::memory_order_relaxed)) {
      (void)w.release();
      return;
    }
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(w));
  }

 private:
  const Routine& routine_;
  std::atomic<Workspace*> ready_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<Workspace>> idle_;
};

Routine checked_routine(ClosedJaxpr program, std::vector<Alias> aliases, const etp_context& context) {
  check(program);
  return {ResolvedProgram(std::move(program), context), std::move(aliases)};
}

void check_argument(const Tensor& given, const Aval& wanted, std::size_t index) {
  if (!given.defined()) throw TypeError("interp", "argument " + std::to_string(index) + " is undefined");
  if (given.aval() == wanted) return;
  const std::string text = "argument " + std::to_string(index) + " has type " + to_string(given.aval()) +
                           " but the program takes " + to_string(wanted);
  if (given.dtype() != wanted.dtype) throw TypeError("interp", text);
  throw ValueError("interp", text);
}

}  // namespace

struct Executable::Impl {
  Impl(ClosedJaxpr program, std::vector<Alias> aliases, const etp_context& context)
      : routine(checked_routine(std::move(program), std::move(aliases), context)), workspaces(routine) {}
  Routine routine;
  Workspaces workspaces;
};

Executable::Executable(ClosedJaxpr program, std::vector<Alias> aliases, const etp_context* context)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(aliases),
                                   context != nullptr ? *context : default_context())) {}
Executable::~Executable() = default;
Executable::Executable(Executable&&) noexcept = default;
Executable& Executable::operator=(Executable&&) noexcept = default;

const ClosedJaxpr& Executable::program() const { return impl_->routine.program(); }
std::size_t Executable::arena_bytes() const { return impl_->routine.arena_bytes(); }
std::size_t Executable::steps() const { return impl_->routine.calls(); }

void Executable::run(const void* const* in, void* const* out) const {
  // Given back also if a kernel throws: nothing in it outlives a run.
  struct Lease {
    Workspaces& from;
    std::unique_ptr<Workspace> workspace = from.take();
    ~Lease() { from.give(std::move(workspace)); }
  } const lease{impl_->workspaces};
  impl_->routine.run(in, out, lease.workspace->memory.data());
}

Tensors Executable::operator()(std::span<const Tensor> args) const {
  const Avals in = program().in_avals();
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
  for (const Aval& aval : program().out_avals())
    outputs.push_back(results.emplace_back(Tensor::uninitialized(aval)).writable());
  run(inputs.data(), outputs.data());
  return results;
}

Tensors evaluate(const ClosedJaxpr& program, std::span<const Tensor> args) {
  return Executable(program)(args);
}

Kernel routine_kernel(ResolvedProgram resolved) {
  std::vector<Alias> aliases = resolved.natural_aliases();
  const auto routine = std::make_shared<const Routine>(std::move(resolved), std::move(aliases));
  Kernel kernel{.run =
                    [routine](const KernelArgs& args) {
                      routine->prepare(args.scratch);
                      routine->run(args.in, args.out, args.scratch);
                    },
                .scratch_bytes = routine->workspace_bytes()};
  for (const Alias& a : routine->aliases()) kernel.in_place.push_back({a.result, a.argument});
  return kernel;
}

Kernel make_kernel(const Primitive& prim, const KernelRequest& request) {
  if (prim.spec.kernel != nullptr) return prim.spec.kernel(request);
  if (prim.spec.lower == nullptr)
    throw NotSupportedError(std::string(prim.name()), "the interpreter has no kernel for this operation");
  return routine_kernel(
      ResolvedProgram(make_jaxpr([&](ArraySpan x) { return prim.spec.lower(request.params, x); }, request.in),
                      request.context));
}

}  // namespace etrace
