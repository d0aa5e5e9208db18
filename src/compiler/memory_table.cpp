#include "compiler/memory_table.h"

#include <algorithm>

#include "etp/common.h"
#include "etrace/etp.h"

namespace etrace {

std::vector<RulesAlike> rules_alike(const std::vector<TraceMemory>& all) {
  std::vector<RulesAlike> out;
  for (const TraceMemory& m : all) {
    const auto same = std::find_if(out.begin(), out.end(), [&](const RulesAlike& a) {
      return a.memory.relations == m.relations && a.memory.shared == m.shared;
    });
    if (same == out.end())
      out.push_back({{m.rule}, m});
    else
      same->rules.push_back(m.rule);
  }
  return out;
}

namespace {

// Samples of a group that have a trace of their own: one where a weight has slots for all of them, and where
// a batched operator feeds a single one.
std::int64_t samples_of(const HiddenParamOpRelation& r, const HiddenGroup& g) {
  const Shape &y = r.y_var.aval.shape, positions = g.varshape();
  if (y == positions.with_front(1)) return 1;
  return etp_rules(*r.primitive)->batched || y != positions ? g.batch() : 1;
}

}  // namespace

RelationSlots relation_slots(const ETraceGraph& graph, const HiddenParamOpRelation& r) {
  Avals in;
  for (const Atom& a : r.operands) in.push_back(aval_of(a));
  RelationSlots out;
  for (const TrainableSource& t : r.trainables)
    out.slots.push_back(
        {t.key, etp::trace_form(*r.primitive, r.eqn_params, t.key, in, r.y_var.aval, r.fixed_operands)
                    .anchors.slots});
  for (const std::size_t g : r.hidden_groups)
    out.batch = std::max(out.batch, samples_of(r, graph.hidden_groups[g]));
  return out;
}

}  // namespace etrace
