// Small kernels that have nothing to do with each other become one launch: its first blocks run the first
// kernel, the next ones the second, and so on. A launch inside a graph costs about a microsecond, which is
// what a small kernel takes. Private to emit/.
#pragma once

#include "emit/cuda_kernels.h"

namespace etrace::emit {

// Bytes that a step reads or writes.
struct CudaRange {
  CudaPlace::Home home;
  std::size_t index;
  std::int64_t begin, end;
};
struct CudaAccess {
  std::vector<CudaRange> reads{}, writes{};
  bool everything = false;
  void add(const CudaAccess&);
};
// Whether the order of two steps matters.
bool conflict(const CudaAccess&, const CudaAccess&);

// A kernel that may become part of a launch.
struct CudaPart {
  std::string label;
  CudaCode code;
  std::vector<CudaPlace> pointers;
  std::vector<int> notes;  // equations
  int eqn = -1;
};
bool may_join(const CudaCode&);
bool fits(const std::vector<CudaPart>& group, const CudaPart& more);
// The launch of all of them, `functions` being the names of their bodies as functions (part_function).
CudaCode joined(const std::vector<CudaPart>& group, const std::vector<std::string>& functions);
std::string part_function(const std::string& name, const CudaPart&);

}  // namespace etrace::emit
