// The passes over traces in a program: how each runs, why, and how to have it otherwise.
#pragma once

#include <span>

#include "etrace/ops/trace_window.h"
#include "etrace/program.h"

#pragma GCC visibility push(default)
namespace etrace {

// All of them, also in loops, each once and in the order of the program.
std::vector<TracePass> trace_passes(const ClosedJaxpr&);

// What is to be otherwise. A form for one step says nothing about passes of several steps, and the reverse.
struct TracePassWish {
  std::string trace = "*";  // as `etrace plan` prints it; *: all
  std::optional<TraceForm> form = {};
  std::optional<int> threads = {};
};
// The program with the wishes written into its passes; later ones count. ValueError for a form that does not
// fit, with those that do. A name that the program does not have changes nothing: not every program has every
// trace; require_known() looks for misspelt ones.
Program with_trace_passes(Program, std::span<const TracePassWish>);
void require_known(std::span<const TracePassWish>, const std::vector<std::string>& traces);

}  // namespace etrace
#pragma GCC visibility pop
