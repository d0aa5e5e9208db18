// A program for a CUDA device: the text of its kernels, and what the host does with them, step by step. Small
// kernels run one after the other in one stream; loops over time are the host's, and are unrolled when it
// captures a graph of them. Start with CudaUnit.
#pragma once

#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "emit/program.h"

#pragma GCC visibility push(default)
namespace etrace::emit {

// Where a pointer points to, in bytes.
struct CudaPlace {
  enum Home : std::uint8_t { None, Argument, Result, Constant, Arena, Scratch, Counters };
  Home home = None;
  std::size_t index = 0;  // of the argument, result or constant
  std::int64_t first = 0;
  std::vector<std::pair<int, std::int64_t>> time = {};  // loop number, stride
};

struct CudaLaunch {
  std::size_t kernel;  // CudaUnit::kernels
  std::int64_t blocks;
  std::vector<CudaPlace> pointers;
  int eqn = -1;
};
// By a library of products: strides in elements, as etp_matrix_product has them.
struct CudaProduct {
  Dtype dtype;
  std::int64_t rows, columns, depth, a_row, a_depth, b_depth, b_column, c_row;
  CudaPlace a, b, c;
  bool onto;
  std::int64_t batch = 1, a_batch = 0, b_batch = 0, c_batch = 0;
  int eqn = -1;
};
struct CudaFill {  // bytes
  CudaPlace to;
  std::uint8_t value;
  std::int64_t bytes;
};
struct CudaStep;
using CudaSteps = std::vector<CudaStep>;
struct CudaLoop {
  int loop;
  std::int64_t length;
  bool reverse;
  CudaSteps body;
};
struct CudaWhile {
  CudaSteps condition;
  CudaPlace predicate;  // bool
  CudaSteps body;
  int eqn = -1;
};
struct CudaCond {
  CudaPlace index;
  Dtype dtype;  // bool or i32; clipped
  std::vector<CudaSteps> branches;
  int eqn = -1;
};
struct CudaStep {
  std::variant<CudaLaunch, CudaProduct, CudaFill, CudaLoop, CudaWhile, CudaCond> what;
};

struct CudaKernel {
  std::string name;
  int threads;
  std::size_t pointers;
};

struct CudaUnit {
  std::string source;
  std::vector<CudaKernel> kernels;
  CudaSteps steps;
  Tensors constants;
  std::size_t arena_bytes = 0, scratch_bytes = 0;
  std::size_t counters = 0;  // int32, zero before the first run; every run leaves zeros
};

// Of what build(program, find_target("cuda")) gave. Equal programs have equal texts.
CudaUnit cuda_unit(const EmitProgram&);

// The text, and behind it as a comment the order of launches.
std::string to_string(const CudaUnit&);

// Whether all steps run without the host looking at a value: else the equation that needs it, and −1 is none.
std::optional<int> host_decides(const CudaSteps&);
// Launches, products and fills of one run, loops counted as often as they go round; while loops once.
std::int64_t launches_of(const CudaSteps&);

}  // namespace etrace::emit
#pragma GCC visibility pop
