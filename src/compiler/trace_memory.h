// How many numbers a learning rule keeps for one relation. Private to compiler/.
//
//   d_rtrl   one trace per trainable key and group: batch × slots × state width, slots as the operator's
//   anchor
//            map has them (positions that share a weight included)
//   pp_prop  the filtered x, kept once per distinct x, and the filtered dh/dy of every group
#pragma once

#include <cstdint>
#include <vector>

#include "etrace/graph.h"

namespace etrace {

struct RelationMemory {
  struct Slots {  // of one trainable key, for one sample
    std::string key;
    Shape shape;
  };
  std::vector<Slots> slots;
  std::int64_t batch = 1;  // samples that have a trace of their own
  std::int64_t d_rtrl = 0, x_trace = 0, df_trace = 0;
  std::optional<std::size_t> x_shared_with;  // the earlier relation that pays for the same x
  std::int64_t pp_prop() const { return x_trace + df_trace; }
};
// One per relation. `widths`: states that a trace of each group holds, if not those of the graph.
std::vector<RelationMemory> trace_memory(const ETraceGraph&, const std::vector<std::int64_t>& widths = {});

}  // namespace etrace
