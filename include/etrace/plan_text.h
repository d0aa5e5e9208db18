// How large a program is, for readers: `etrace plan`, benchmarks.
#pragma once

#include "etrace/program.h"

#pragma GCC visibility push(default)
namespace etrace {

struct ProgramCounts {
  std::int64_t equations = 0;       // bodies of loops and branches included, each once
  std::int64_t products = 0;        // matrix products and convolutions
  std::int64_t loops = 0;           // scan and while
  std::int64_t trace_passes = 0;    // trace_window
  std::int64_t constant_bytes = 0;  // arrays written into the program
  double operations = 0.0;          // estimated; bodies of loops as often as they run
};
ProgramCounts counts_of(const ClosedJaxpr&);

// Name, ports with aliases, and one line of counts; with the equations, if wanted.
std::string program_text(const Program&, bool equations);

}  // namespace etrace
#pragma GCC visibility pop
