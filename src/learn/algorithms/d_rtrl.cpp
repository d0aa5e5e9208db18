// D-RTRL: one trace per parameter element and output position.
//   e ← D·e + ∂h/∂y·∂y/∂θ        grad θ = Σ ⟨∂L/∂h, e⟩
// In scope `diagonal` D is the per-position block without recurrent products; OSTL with H is the same rule in
// scope `coupled`.
#include <fmt/format.h>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "learn/operator_rules.h"
#include "learn/routing.h"

namespace etrace {

namespace {

class DRtrl : public LearningRule {
 public:
  DRtrl(std::string name, bool coupled, Compat compat)
      : name_(std::move(name)), coupled_(coupled), compat_(compat) {}

  std::string name() const override { return name_; }
  CompileOptions compile_options() const override {
    CompileOptions o;
    o.include_recurrent_mixing = coupled_;
    o.compat = compat_;
    return o;
  }

  std::vector<Slot> slots(const ETraceGraph& g) const override {
    std::vector<Slot> out;
    for_each(g, [&](std::size_t r, std::size_t, const TrainableSource& t, const HiddenGroup& group,
                    const TraceSlots& s) {
      out.push_back({fmt::format("relation{}/group{}/{}", r, group.index, t.key), s.trace_aval()});
    });
    return out;
  }

  Arrays roll(const ETraceGraph& g, const StepData& data, ArraySpan traces) const override {
    Arrays out;
    for_each(g, [&](std::size_t r, std::size_t k, const TrainableSource&, const HiddenGroup& group,
                    const TraceSlots& s) {
      const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
      const Array& trace = traces[out.size()];
      const Array df = widen(data.df[r][k], group), jacobian = data.jacobians[group.index];
      if (relation.control_flow_context) {
        out.push_back(fold(relation, s, data.operands[r], df, jacobian, trace));
        return;
      }
      out.push_back(s.recurrent(jacobian, trace) + s.instant(data.operands[r], df));
    });
    return out;
  }

  Arrays solve(const ETraceGraph& g, const StepData& data, ArraySpan signal, ArraySpan traces,
               const Array&) const override {
    GradientRouter router(g, data, compat_);
    std::size_t next = 0;
    for_each(g, [&](std::size_t r, std::size_t, const TrainableSource& t, const HiddenGroup& group,
                    const TraceSlots& s) {
      router.add(t, s.solve(data.operands[r], neighbours(signal[group.index], group), traces[next++]));
    });
    return router.result();
  }

 private:
  template <class F>
  void for_each(const ETraceGraph& g, const F& f) const {
    for (std::size_t r = 0; r < g.hidden_param_op_relations.size(); ++r) {
      const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
      for (std::size_t k = 0; k < relation.hidden_groups.size(); ++k)
        for (const TrainableSource& t : relation.trainables) {
          const HiddenGroup& group = g.hidden_groups[relation.hidden_groups[k]];
          f(r, k, t, group, TraceSlots(relation, t, group, compat_));
        }
    }
  }

  // A descended loop gives one x, df and D per inner step.
  static Array fold(const HiddenParamOpRelation& r, const TraceSlots& s, const Arrays& operands,
                    const Array& df, const Array& jacobian, Array trace) {
    const std::int64_t steps = r.control_flow_context->length;
    const EtpRules& rules = *etp_rules(*r.primitive);
    for (std::int64_t i = 0; i < steps; ++i) {
      auto at = [i](const Array& a) { return squeeze(slice_axis(a, 0, i, i + 1), {0}); };
      Arrays in = operands;
      if (rules.x_operand) in[*rules.x_operand] = at(operands[*rules.x_operand]);
      trace = s.recurrent(at(jacobian), trace) + s.instant(in, at(df));
    }
    return trace;
  }

  // SnAp: the position itself is neighbour 0, the others start at zero.
  static Array widen(const Array& df, const HiddenGroup& group) {
    const std::int64_t extra = group.trace_state_width() - group.num_state();
    if (extra == 0) return df;
    std::vector<PadAxis> axes(df.rank());
    axes.back().high = extra;
    return pad(df, convert(Array(0.0), df.dtype()), axes);
  }

  // SnAp: the signal of every neighbour.
  static Array neighbours(const Array& signal, const HiddenGroup& group) {
    if (!group.snap) return signal;
    const PositionPattern& p = *group.snap;
    const auto count = static_cast<std::int64_t>(p.neighbours.size()),
               k = static_cast<std::int64_t>(p.num_neighbour());
    const std::int64_t s = group.num_state();
    std::vector<std::int64_t> index;
    std::vector<double> valid;
    for (std::size_t i = 0; i < p.neighbours.size(); ++i)
      for (std::size_t j = 0; j < p.neighbours[i].size(); ++j) {
        index.push_back(p.neighbours[i][j]);
        valid.push_back(p.valid[i][j] ? 1.0 : 0.0);
      }
    const Array flat = reshape(signal, {count, s});
    const Array picked = take(flat, Array(Tensor::of(index, {count, k})), 0);  // [P, K, S]
    Dims dims = group.varshape().to_dims();
    dims.push_back(k * s);
    return reshape(picked * convert(Array(Tensor::of(valid, {count, k, 1})), signal.dtype()), dims);
  }

  std::string name_;
  bool coupled_;
  Compat compat_;
};

}  // namespace

std::unique_ptr<LearningRule> d_rtrl(const RuleOptions& o) {
  return std::make_unique<DRtrl>("D_RTRL", false, o.compat);
}
std::unique_ptr<LearningRule> ostl_recurrent(const RuleOptions& o) {
  return std::make_unique<DRtrl>("OSTLRecurrent", true, o.compat);
}

}  // namespace etrace
