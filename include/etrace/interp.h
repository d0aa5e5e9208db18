// The interpreter: runs any program. Kernels are resolved and memory is planned when the Executable is made;
// a run only calls kernels.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "etrace/ir.h"
#include "etrace/primitive.h"
#include "etrace/program.h"
#include "etrace/tensor.h"

#pragma GCC visibility push(default)
namespace etrace {

// Native code for one equation, from the row's `kernel` or by way of `lower`. NotSupportedError names the
// primitive.
Kernel make_kernel(const Primitive&, const KernelRequest&);

class Executable {
 public:
  // Checked first: CompilationError for a malformed program. Aliases: the result may lie where the argument
  // lies. Context: whose threads run it; null: those of the process.
  explicit Executable(ClosedJaxpr program, std::vector<Alias> aliases = {},
                      const etp_context* context = nullptr);
  ~Executable();
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;

  const ClosedJaxpr& program() const;
  std::size_t arena_bytes() const;  // all intermediate values of one run together
  std::size_t steps() const;        // kernel calls per run

  // Arguments are checked against the program's types (TypeError, ValueError). Results are new tensors.
  Tensors operator()(std::span<const Tensor> args) const;
  // Bare form: pointers to row-major data, one per input and output; no checks. Outputs must not overlap
  // inputs or each other, except for alias pairs, whose pointers may be the same. Several threads may run at
  // once; after as many runs at once as there will be, nothing is allocated.
  void run(const void* const* in, void* const* out) const;

  struct Impl;  // private to interp/

 private:
  std::unique_ptr<Impl> impl_;
};

// Makes an Executable and runs it once.
Tensors evaluate(const ClosedJaxpr&, std::span<const Tensor> args);

}  // namespace etrace
#pragma GCC visibility pop
