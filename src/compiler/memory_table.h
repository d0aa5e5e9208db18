// Trace memory for readers: rules that keep the same are told together. Private to compiler/ and learn/.
#pragma once

#include <string>
#include <vector>

#include "etrace/graph.h"
#include "etrace/trace_memory.h"

namespace etrace {

struct RulesAlike {
  std::vector<std::string> rules;
  TraceMemory memory;
};
// In the order of their first rules.
std::vector<RulesAlike> rules_alike(const std::vector<TraceMemory>&);

// The slots of one sample that an operator gives to traces of its weights.
struct RelationSlots {
  struct Slots {
    std::string key;
    Shape shape;
  };
  std::vector<Slots> slots;  // by trainable key
  std::int64_t batch = 1;    // samples that have a trace of their own
};
RelationSlots relation_slots(const ETraceGraph&, const HiddenParamOpRelation&);

}  // namespace etrace
