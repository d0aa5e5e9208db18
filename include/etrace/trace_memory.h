// What learning rules keep from step to step on a graph, counted from the slots of the rules themselves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#pragma GCC visibility push(default)
namespace etrace {

struct ETraceGraph;

// Numbers that one rule keeps, whatever the length of the sequence.
struct TraceMemory {
  std::string rule;                     // "D_RTRL"
  std::vector<std::int64_t> relations;  // of each relation
  std::int64_t shared = 0;              // of no single one
  std::int64_t total() const;
};
// Of every rule that runs, with its default options, in the scope of this graph; names ascending.
std::vector<TraceMemory> trace_memory(const ETraceGraph&);

// Rules live above the compiler: whoever holds their table says, while the program starts, how to count.
struct RegisterTraceMemory {
  explicit RegisterTraceMemory(std::vector<TraceMemory> (*count)(const ETraceGraph&));
};

}  // namespace etrace
#pragma GCC visibility pop
