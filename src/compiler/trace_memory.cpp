// Sizes of the traces, from the operators' anchor maps; see the header.
#include "compiler/trace_memory.h"

#include <algorithm>
#include <unordered_map>

#include "etp/common.h"
#include "etrace/etp.h"
#include "etrace/transform.h"

namespace etrace {

namespace {

// Samples of a group that have a trace of their own: one where a weight has slots for all of them, and where
// a batched operator feeds a single one.
std::int64_t samples_of(const HiddenParamOpRelation& r, const HiddenGroup& g) {
  const Shape &y = r.y_var.aval.shape, positions = g.varshape();
  if (y == positions.with_front(1)) return 1;
  return etp_rules(*r.primitive)->batched || y != positions ? g.batch() : 1;
}

std::int64_t x_numbers(const HiddenParamOpRelation& r, const EtpRules& rules, const Avals& in) {
  if (!r.x_var) return 0;
  if (rules.x_representation == nullptr) return r.x_var->aval.shape.size();
  const auto represented = [&](ArraySpan x) {
    return Arrays{rules.x_representation(r.eqn_params, x[0], in)};
  };
  return make_jaxpr(represented, Avals{r.x_var->aval}).out_avals().front().shape.size();
}

}  // namespace

std::vector<RelationMemory> trace_memory(const ETraceGraph& graph, const std::vector<std::int64_t>& widths) {
  std::vector<RelationMemory> out;
  std::unordered_map<std::uint64_t, std::size_t> payer;  // x -> the first relation that reads it
  const auto& relations = graph.hidden_param_op_relations;
  for (std::size_t i = 0; i < relations.size(); ++i) {
    const HiddenParamOpRelation& r = relations[i];
    const EtpRules& rules = *etp_rules(*r.primitive);
    const Aval& y = r.y_var.aval;
    Avals in;
    for (const Atom& a : r.operands) in.push_back(aval_of(a));

    RelationMemory m;
    for (const TrainableSource& t : r.trainables)
      m.slots.push_back(
          {t.key, etp::trace_form(*r.primitive, r.eqn_params, t.key, in, y, r.fixed_operands).anchors.slots});
    for (const std::size_t g : r.hidden_groups) {
      const HiddenGroup& group = graph.hidden_groups[g];
      const std::int64_t samples = samples_of(r, group),
                         width = widths.empty() ? group.trace_state_width() : widths[g];
      m.batch = std::max(m.batch, samples);
      for (const auto& s : m.slots) m.d_rtrl += samples * s.shape.size() * width;
      m.df_trace += group.varshape().size() * group.num_state();
    }
    const auto [first, is_first] = payer.try_emplace(r.x_var ? r.x_var->id : 0, i);
    if (!r.x_var || is_first)
      m.x_trace = x_numbers(r, rules, in);
    else
      m.x_shared_with = first->second;
    out.push_back(std::move(m));
  }
  return out;
}

}  // namespace etrace
