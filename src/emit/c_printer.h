// The emitted program as one translation unit of C: for a host (kernels/etp_abi.h), or, where the target's
// memory is static, with an entry `void etrace_NAME(const void* const* arguments, void* const* results)`.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "emit/program.h"

#pragma GCC visibility push(default)
namespace etrace::emit {

// Of what build() gave. Equal programs have equal texts.
std::string print_c(const EmitProgram&);

// The same with a clock around every step of `run`. The module then exports `int64_t etrace_times[][2]`: for
// each step the nanoseconds that it took and how often it ran, since the module was loaded.
struct TimedStep {
  enum Kind : std::uint8_t { Loops, Product, Call };
  Kind kind = Loops;
  std::string function{};   // its name in the text, or of the kernel
  std::vector<int> eqns{};  // EmitProgram::eqns
};
std::string print_timed_c(const EmitProgram&, std::vector<TimedStep>&);

// Several programs as functions of one C file, for targets whose memory is static: they share the arena,
// constants and equal loops, and their ports lie where the caller says.
struct StandAlone {
  std::string name;  // what every name in the file begins with
  struct Function {
    const EmitProgram* program;
    std::string name, parameters;                 // "model_learn", "const float* x, float* y"
    std::vector<std::string> arguments, results;  // of the program: pointers, as C expressions
  };
  std::vector<Function> functions;
};
struct StandAloneText {
  std::string headers;    // of runtime/, pasted
  std::string memory;     // arena and constants
  std::string functions;  // static
  std::size_t arena_bytes = 0, constant_bytes = 0;
};
StandAloneText print_stand_alone(const StandAlone&);

// What the text calls: the host finds it by name.
struct HostSteps {
  std::vector<const Call*> calls;
  std::vector<const Product*> products;

  // "trace_tiles", a kernel of the table; "sort#3", a row that the host runs by itself.
  std::string name(const Call&) const;
  etp_matrix_product descriptor(const EmitProgram&, const Product&) const;
};
HostSteps host_steps(const EmitProgram&);

}  // namespace etrace::emit
#pragma GCC visibility pop
