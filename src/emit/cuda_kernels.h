// How steps become kernels, for cuda_unit.cpp. Private to emit/.
#pragma once

#include "emit/cuda_unit.h"
#include "emit/loop_tree.h"

namespace etrace::emit {

// The body of a kernel and how it is launched.
struct CudaCode {
  std::string body{};
  int threads = 256;
  std::int64_t blocks = 1;
  std::size_t scratch_bytes = 0;  // behind the pointers: partial results …
  std::size_t counters = 0;       // … and counters, if any
  bool has_barrier = false;       // of the block's threads
};

// cuda_nest.cpp. Pointers as nest_pointers() has them.
CudaCode cuda_nest(const EmitProgram&, const Nest&);

// What a step of the program may ask of the unit that it becomes part of.
class CudaBuilder {
 public:
  virtual CudaPlace place(ValueId) = 0;
  virtual CudaPlace constant(const Tensor&) = 0;
  virtual CudaPlace scratch(std::size_t bytes) = 0;  // until the step is done
  virtual void launch(const std::string& label, const CudaCode&, std::vector<CudaPlace> pointers,
                      int eqn) = 0;
  virtual void product(CudaProduct) = 0;
  // A declaration that kernels need; once each.
  virtual void declare(const std::string& text) = 0;
  virtual std::string unique(const std::string& label) = 0;

 protected:
  CudaBuilder() = default;
  ~CudaBuilder() = default;
};

// Operations that the target has code of its own for, one row each: cuda_rows.cpp, cuda_trace.cpp.
struct CudaRow {
  std::string_view operation;
  void (*emit)(CudaBuilder&, const EmitProgram&, const Call&);  // where Call::in_place says, in place
};
const CudaRow* find_cuda_row(std::string_view operation);  // null if there is none
void cuda_trace_window(CudaBuilder&, const EmitProgram&, const Call&);

}  // namespace etrace::emit
