#include "learn/plan/exit_credit.h"

#include <algorithm>

#include "control/loops.h"
#include "etrace/control.h"
#include "etrace/ops/numpy.h"
#include "etrace/simplify.h"
#include "etrace/transform.h"
#include "io/step_outputs.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"

namespace etrace {

namespace {

// The operands of an equation that belong to relations.
std::vector<std::size_t> traced_operands(const ETraceGraph& g, const Eqn& eqn) {
  std::vector<std::size_t> out;
  for (const HiddenParamOpRelation* r : g.all_relations())
    if (r->eqn_id == eqn.id)
      for (const TrainableSource& t : r->trainables) out.push_back(t.operand);
  return out;
}

// The program, with every relation's trainable operands cut off from where they come from; also inside loops.
Jaxpr with_cut_operands(const ETraceGraph& g, const Jaxpr& program) {
  Jaxpr out = program;
  out.eqns.clear();
  for (const Eqn& eqn : program.eqns) {
    Eqn copy = eqn;
    if (is_scan(eqn)) {
      ClosedJaxpr body = *eqn.params.jaxpr("jaxpr");
      body.jaxpr = with_cut_operands(g, body.jaxpr);
      copy.params = eqn.params.with("jaxpr", std::make_shared<const ClosedJaxpr>(std::move(body)));
    }
    for (const std::size_t i : traced_operands(g, eqn)) {
      const Var cut = fresh_var(aval_of(eqn.in[i]));
      out.eqns.push_back(make_eqn(stop_gradient_p, {eqn.in[i]}, {cut}, {}, eqn.origin));
      copy.in[i] = cut;
    }
    out.eqns.push_back(std::move(copy));
  }
  return out;
}

bool in_a_relation(const ETraceGraph& g, const ParamLeaf& leaf) {
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations)
    for (const TrainableSource& t : r.trainables)
      for (const auto& [path, index] : t.leaves)
        if (path == leaf.path) return true;
  return false;
}

}  // namespace

ExitCredit::ExitCredit(const ETraceGraph& g) : g_(g) {
  const ModuleInfo& info = g.module_info;
  ClosedJaxpr cut = info.closed_jaxpr;
  cut.jaxpr = with_cut_operands(g, cut.jaxpr);
  Avals params;
  for (const ParamLeaf& l : param_leaves(info)) {
    params.push_back(info.jaxpr().invars[l.input].aval);
    leaf_gets_credit_.push_back(is_floating(params.back().dtype) &&
                                !(g.options.compat == Compat::Braintrace && in_a_relation(g, l)));
  }
  const Avals states = state_types(g), args = argument_types(g);
  Avals types = params;
  types.insert(types.end(), states.begin(), states.end());
  types.insert(types.end(), args.begin(), args.end());
  const ETraceGraphExecutor executor(g);
  const ClosedJaxpr step = make_jaxpr(
      [&](ArraySpan in) {
        const ArraySpan p = take_front(in, params.size()), h = take_front(in, states.size());
        return new_states_of(info.model, h, eval_jaxpr(cut, executor.program_inputs(in, h, p)));
      },
      types);
  std::vector<StepSplit::Input> kinds(params.size(), StepSplit::Input::Fixed);
  kinds.insert(kinds.end(), states.size(), StepSplit::Input::Carried);
  kinds.insert(kinds.end(), args.size(), StepSplit::Input::PerStep);
  // It is differentiated, so that the cuts must stay: no simplify().
  const ClosedJaxpr tidy = eliminate_dead_code(eliminate_common_subexpressions(inline_calls(step)));
  steps_ = std::make_unique<const StepSplit>(tidy, kinds, states_per_sample(g_));
}

ExitCredit::Found ExitCredit::gradients(std::int64_t steps, ArraySpan params, ArraySpan states,
                                        ArraySpan arguments, const Array& active, ArraySpan estimate) const {
  const std::vector<StatePath> paths = state_paths(g_);
  const std::size_t np = params.size();
  // ⟨estimate, states at the exit⟩
  const ScalarFunction weighted = [&](ArraySpan at) {
    const StepSplit::Result r = steps_->run(steps, joined({at, arguments}), active);
    Array total;
    for (const HiddenGroup& group : g_.hidden_groups) {
      Arrays members;
      for (const StatePath& path : group.hidden_paths)
        members.push_back(
            r.carried[static_cast<std::size_t>(std::find(paths.begin(), paths.end(), path) - paths.begin())]);
      total = add_cotangents(total, sum(group.concat_hidden(members) * stop_gradient(estimate[group.index])));
    }
    return total;
  };
  const Arrays at = joined({params, states});
  std::vector<int> wanted;
  for (std::size_t i = 0; i < at.size(); ++i)
    if (i < np ? leaf_gets_credit_[i] : is_floating(at[i].dtype())) wanted.push_back(static_cast<int>(i));
  const Arrays slopes = grad(weighted, wanted)(at);
  Found found{Arrays(np), Arrays(states.size())};
  for (std::size_t k = 0; k < wanted.size(); ++k) {
    const auto i = static_cast<std::size_t>(wanted[k]);
    (i < np ? found.params[i] : found.states[i - np]) = slopes[k];
  }
  return found;
}

}  // namespace etrace
