// pp_prop (ES-D-RTRL): the trace as a product of an input side and an output side, both low-pass filtered.
//   εx ← αx·εx + x        εf ← αf·D·εf + (1−αf)·∂h/∂y        grad θ = pull-back of y at x = εx with Σ_a
//   signal·εf / (1 − αf^n)
// n counts the steps that εf has seen.
#include <fmt/format.h>

#include <cmath>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "learn/operator_rules.h"
#include "learn/routing.h"

namespace etrace {

namespace {

class PpProp : public LearningRule {
 public:
  explicit PpProp(const PpPropOptions& o) : options_(o) {
    for (const double decay : {o.decay_x, o.decay_f})
      if (!(decay >= 0.0 && decay < 1.0))
        throw ValueError("pp_prop", fmt::format("decay {}; it must lie in [0, 1)", decay));
  }

  std::string name() const override { return "pp_prop"; }
  CompileOptions compile_options() const override {
    CompileOptions o;
    o.compat = options_.compat;
    return o;
  }

  std::vector<Slot> slots(const ETraceGraph& g) const override {
    refuse_loops(g);
    std::vector<Slot> out;
    for (std::size_t r = 0; r < g.hidden_param_op_relations.size(); ++r) {
      const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
      if (const auto aval = x_aval(relation)) out.push_back({fmt::format("relation{}/x", r), *aval});
      for (const std::size_t k : relation.hidden_groups) {
        const HiddenGroup& group = g.hidden_groups[k];
        Dims dims = group.varshape().to_dims();
        dims.push_back(group.num_state());
        out.push_back({fmt::format("relation{}/group{}/df", r, k), {relation.y_var.aval.dtype, Shape(dims)}});
      }
    }
    return out;
  }

  Arrays roll(const ETraceGraph& g, const StepData& data, ArraySpan traces) const override {
    Arrays out;
    for (std::size_t r = 0; r < g.hidden_param_op_relations.size(); ++r) {
      const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
      if (x_aval(relation))
        out.push_back(options_.decay_x * traces[out.size()] + represented(relation, data.operands[r]));
      for (std::size_t k = 0; k < relation.hidden_groups.size(); ++k) {
        const Array& d = data.jacobians[relation.hidden_groups[k]];
        const Array old = expand_dims(traces[out.size()], {static_cast<std::int64_t>(d.rank()) - 2});
        const Array moved = sum(d * old, {static_cast<std::int64_t>(d.rank()) - 1});
        out.push_back(options_.decay_f * moved + (1.0 - options_.decay_f) * data.df[r][k]);
      }
    }
    return out;
  }

  Arrays solve(const ETraceGraph& g, const StepData& data, ArraySpan signal, ArraySpan traces,
               const Array& age) const override {
    GradientRouter router(g, data, options_.compat);
    std::size_t next = 0;
    for (std::size_t r = 0; r < g.hidden_param_op_relations.size(); ++r) {
      const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
      const Array x = x_aval(relation) ? traces[next++] : Array();
      for (const std::size_t k : relation.hidden_groups) {
        const Array& f = traces[next++];
        const Array weighted = signal[k] * f / convert(correction(age), f.dtype());
        const Array ct = sum(weighted, {static_cast<std::int64_t>(f.rank()) - 1});
        for (const TrainableSource& t : relation.trainables)
          router.add(
              t, TraceSlots(relation, t, g.hidden_groups[k], options_.compat).pull(data.operands[r], x, ct));
      }
    }
    return router.result();
  }

 private:
  // 1 − α^n, at least 1e-8; 1 from the thousandth step on.
  Array correction(const Array& age) const {
    const Array n = convert(age, Dtype::F64);
    if (options_.decay_f == 0.0) return full({}, 1.0, Dtype::F64);
    const Array c = maximum(1.0 - exp(n * std::log(options_.decay_f)), 1e-8);
    return where(n > 1000.0, full({}, 1.0, Dtype::F64), c);
  }

  static void refuse_loops(const ETraceGraph& g) {
    for (const HiddenGroup& group : g.hidden_groups)
      if (group.descent)
        throw NotSupportedError(
            "pp_prop",
            fmt::format(
                "group {} lives inside a loop that is traced inside; the factorised rule has one x per "
                "step. Use D_RTRL, or unroll the loop with a larger scan_unroll_limit",
                group.index));
  }

  static Array represented(const HiddenParamOpRelation& r, const Arrays& operands) {
    const EtpRules& rules = *etp_rules(*r.primitive);
    const Array& x = operands[*rules.x_operand];
    if (rules.x_representation != nullptr) {
      Avals types;
      for (const Atom& a : r.operands) types.push_back(aval_of(a));
      return rules.x_representation(r.eqn_params, x, types);
    }
    return convert(x, is_floating(x.dtype()) ? x.dtype() : r.y_var.aval.dtype);
  }

  static std::optional<Aval> x_aval(const HiddenParamOpRelation& r) {
    const EtpRules& rules = *etp_rules(*r.primitive);
    if (!rules.x_operand) return std::nullopt;
    Arrays stand_in(r.operands.size());
    const Aval x = aval_of(r.operands[*rules.x_operand]);
    stand_in[*rules.x_operand] = zeros_of(x);
    return represented(r, stand_in).aval();
  }

  PpPropOptions options_;
};

}  // namespace

std::unique_ptr<LearningRule> pp_prop(const PpPropOptions& o) { return std::make_unique<PpProp>(o); }

}  // namespace etrace
