// The interpreter: runs any program. Kernels are resolved and memory is planned when the Executable is made;
// a run allocates nothing per equation.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "etrace/ir.h"
#include "etrace/primitive.h"
#include "etrace/tensor.h"

namespace etrace {

// Native code for one equation, from the row's `kernel` or by way of `lower`. NotSupportedError names the
// primitive.
Kernel make_kernel(const Primitive&, const KernelRequest&);

class Executable {
 public:
  explicit Executable(ClosedJaxpr program);  // checked first: CompilationError for a malformed program
  ~Executable();
  Executable(Executable&&) noexcept;
  Executable& operator=(Executable&&) noexcept;

  const ClosedJaxpr& program() const;
  std::size_t arena_bytes() const;  // all intermediate values together
  std::size_t steps() const;        // kernel calls per run

  // Arguments are checked against the program's types (TypeError, ValueError). Results are new tensors.
  Tensors operator()(std::span<const Tensor> args) const;
  // Bare form: pointers to row-major data, one per input and output; no checks, no allocation. Outputs must
  // not overlap inputs. One run at a time per Executable.
  void run(const void* const* in, void* const* out) const;

  struct Impl;  // private to interp/

 private:
  std::unique_ptr<Impl> impl_;
};

// Makes an Executable and runs it once.
Tensors evaluate(const ClosedJaxpr&, std::span<const Tensor> args);

}  // namespace etrace
