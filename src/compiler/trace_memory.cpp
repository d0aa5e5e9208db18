#include "etrace/trace_memory.h"

#include <numeric>

#include "etrace/graph.h"

namespace etrace {

namespace {
using CountTraces = std::vector<TraceMemory> (*)(const ETraceGraph&);
CountTraces& counter() {
  static CountTraces count = nullptr;
  return count;
}
}  // namespace

RegisterTraceMemory::RegisterTraceMemory(CountTraces count) { counter() = count; }

std::int64_t TraceMemory::total() const { return std::reduce(relations.begin(), relations.end(), shared); }

std::vector<TraceMemory> trace_memory(const ETraceGraph& graph) {
  return counter() != nullptr ? counter()(graph) : std::vector<TraceMemory>{};
}

}  // namespace etrace
