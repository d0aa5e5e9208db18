// One step of the model with everything that the traces need, and its loss back to the hidden states.
#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/learning.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "transform/env.h"

namespace etrace {

std::vector<ParamLeaf> param_leaves(const ModuleInfo& info) {
  std::vector<ParamLeaf> out;
  for (std::size_t i = 0; i < info.model.inputs.size(); ++i)
    if (info.model.inputs[i].role == Role::Param)
      out.push_back({info.model.inputs[i].path, info.model.inputs[i].leaf, i});
  return out;
}

namespace {

// Runs the equations one by one; `at_exit` may change the value of a hidden state where it is produced.
Env run_program(const ClosedJaxpr& program, ArraySpan inputs,
                const std::function<Array(const Var&, const Array&)>& at_exit = {}) {
  Env env;
  for (std::size_t i = 0; i < program.consts.size(); ++i)
    env.set(program.jaxpr.constvars[i], program.consts[i]);
  for (std::size_t i = 0; i < inputs.size(); ++i) env.set(program.jaxpr.invars[i], inputs[i]);
  for (const Eqn& eqn : program.jaxpr.eqns) {
    const OriginScope scope(eqn.origin, OriginScope::Absolute);
    const Arrays out = bind_primitive(*eqn.prim, env.get_all(eqn.in), eqn.params);
    for (std::size_t i = 0; i < out.size(); ++i)
      env.set(eqn.out[i], at_exit ? at_exit(eqn.out[i], out[i]) : out[i]);
  }
  return env;
}

Arrays values(const Env& env, const std::vector<Var>& vars) { return env.get_all(vars); }

// Operand values of a relation; trainables come from the parameters, so that they are there for descended
// loops, too.
Arrays operand_values(const HiddenParamOpRelation& r, const Env& env, const ModuleInfo& info,
                      ArraySpan inputs) {
  Arrays out;
  for (const Atom& a : r.operands) {
    const Var* v = as_var(a);
    if (v == nullptr)
      out.push_back(env.get(a));
    else if (r.control_flow_context && r.control_flow_context->outer(*v) != nullptr)
      out.push_back(env.get(*r.control_flow_context->outer(*v)));
    else
      out.push_back(env.get(*v));
  }
  for (const TrainableSource& t : r.trainables) {
    if (out[t.operand].defined()) continue;
    for (const ParamLeaf& leaf : param_leaves(info))
      if (leaf.path == t.path && leaf.leaf == t.leaf) out[t.operand] = inputs[leaf.input];
  }
  return out;
}

// ∂h/∂y by one push of ones through the tail, concatenated over the group's states.
Array tail_derivative(const Jaxpr& tail, const HiddenGroup& group, ArraySpan consts, const Array& y) {
  const ValuesAndTangents out = jvp_eval(tail, consts, Arrays{y}, Arrays{full_like(y, 1.0)});
  Arrays members;
  for (std::size_t i = 0; i < out.y.size(); ++i) members.push_back(instantiate(out.dy[i], out.y[i].aval()));
  return group.concat_hidden(members);
}

// Values inside a descended loop: every step's, stacked.
Arrays stacked_values(const ScanInfo& scan, const Env& env, const std::vector<Var>& vars) {
  Arrays out;
  for (const Var& v : vars) out.push_back(env.get(*scan.outer(v)));
  return out;
}

}  // namespace

ETraceGraphExecutor::ETraceGraphExecutor(const ETraceGraph& graph) : graph_(&graph) {}

StepValues ETraceGraphExecutor::solve_h2w_h2h_jacobian(ArraySpan inputs) const {
  const ETraceGraph& g = *graph_;
  const ModuleInfo& info = g.module_info;
  const Env env = run_program(info.closed_jaxpr, inputs);
  StepValues step;
  step.inputs.assign(inputs.begin(), inputs.end());
  for (const ParamLeaf& l : param_leaves(info)) step.data.params.push_back(inputs[l.input]);
  for (std::size_t i = 0; i < info.model.outputs.size(); ++i) {
    const Role role = info.model.outputs[i].role;
    const Array value = env.get(info.jaxpr().outs[i]);
    if (role == Role::Out) step.outputs.push_back(value);
    if (role == Role::Hidden || role == Role::Other) step.states.push_back(value);
  }
  for (const HiddenGroup& group : g.hidden_groups) {
    if (!group.descent) {
      step.data.jacobians.push_back(group.diagonal_jacobian(values(env, group.hidden_invars),
                                                            values(env, group.transition_jaxpr.constvars)));
      continue;
    }
    const ScanInfo& scan = group.descent->scan;
    const Arrays hidden = stacked_values(scan, env, group.descent->body_hidden_invars);
    const Arrays consts = stacked_values(scan, env, group.transition_jaxpr.constvars);
    Arrays all = hidden;
    all.insert(all.end(), consts.begin(), consts.end());
    const Function one = [&](ArraySpan a) {
      return Arrays{group.diagonal_jacobian(a.first(hidden.size()), a.subspan(hidden.size()))};
    };
    step.data.jacobians.push_back(vmap(one)(all)[0]);
  }
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations) {
    step.data.operands.push_back(operand_values(r, env, info, inputs));
    Arrays df;
    for (std::size_t k = 0; k < r.hidden_groups.size(); ++k) {
      const HiddenGroup& group = g.hidden_groups[r.hidden_groups[k]];
      const Jaxpr& tail = r.y_to_hidden_group_jaxprs[k];
      if (!r.control_flow_context) {
        df.push_back(tail_derivative(tail, group, values(env, tail.constvars), env.get(r.y_var)));
        continue;
      }
      Arrays all = stacked_values(*r.control_flow_context, env, tail.constvars);
      all.push_back(env.get(*r.control_flow_context->outer(r.y_var)));
      const Function one = [&](ArraySpan a) {
        return Arrays{tail_derivative(tail, group, a.first(a.size() - 1), a.back())};
      };
      df.push_back(vmap(one)(all)[0]);
    }
    step.data.df.push_back(std::move(df));
  }
  return step;
}

namespace {

// The loss of one step as a function of perturbations of the hidden states, and of the parameters. The states
// in `cut` do not pass derivatives on from what they were computed from.
struct LossOfStep {
  const ETraceGraph& graph;
  ArraySpan inputs;
  const StepLoss& loss;

  Array operator()(ArraySpan params, ArraySpan perturbations, const std::vector<bool>& cut) const {
    const ModuleInfo& info = graph.module_info;
    Arrays in(inputs.begin(), inputs.end());
    const std::vector<ParamLeaf> leaves = param_leaves(info);
    for (std::size_t i = 0; i < leaves.size(); ++i) in[leaves[i].input] = params[i];
    const HiddenPerturbation& p = *graph.hidden_perturb;
    const Env env = run_program(info.closed_jaxpr, in, [&](const Var& v, const Array& value) {
      for (std::size_t i = 0; i < p.perturb_hidden_states.size(); ++i)
        if (p.perturb_hidden_states[i].outvar == v)
          return (cut[i] ? stop_gradient(value) : value) + perturbations[i];
      return value;
    });
    Arrays outputs;
    for (std::size_t i = 0; i < info.model.outputs.size(); ++i)
      if (info.model.outputs[i].role == Role::Out) outputs.push_back(env.get(info.jaxpr().outs[i]));
    return loss(outputs);
  }
};

}  // namespace

StepGradient ETraceVjpGraphExecutor::solve_h2w_h2h_l2h_jacobian(ArraySpan inputs,
                                                                const StepLoss& loss) const {
  const ETraceGraph& g = graph();
  const ModuleInfo& info = g.module_info;
  const HiddenPerturbation& p = *g.hidden_perturb;
  const LossOfStep of_step{g, inputs, loss};
  Arrays params;
  const std::vector<ParamLeaf> leaves = param_leaves(info);
  for (const ParamLeaf& l : leaves) params.push_back(inputs[l.input]);
  const Arrays zero = p.init_perturb_data();
  const std::size_t num_p = zero.size(), num_w = params.size();

  // Gradients with respect to perturbations (then parameters) with some states cut.
  const auto gradients = [&](const std::vector<bool>& cut) {
    Arrays at = zero;
    at.insert(at.end(), params.begin(), params.end());
    std::vector<int> all(at.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    const ScalarFunction f = [&](ArraySpan a) { return of_step(a.subspan(num_p), a.first(num_p), cut); };
    return value_and_grad(f, all)(at);
  };

  StepGradient result;
  const Arrays plain = gradients(std::vector<bool>(num_p, false));
  result.loss = plain[0];
  const Arrays total(plain.begin() + 1, plain.begin() + 1 + static_cast<std::ptrdiff_t>(num_p));
  result.group_signal = p.perturb_data_to_hidden_group_data(total, g.hidden_groups);
  result.instantaneous.resize(num_w);
  if (compat_ == Compat::Braintrace) return result;

  // A state computed in the same step from another of its group: that way is in the trace already, so it is
  // cut here.
  for (std::size_t k = 0; k < g.hidden_groups.size(); ++k) {
    const HiddenGroup& group = g.hidden_groups[k];
    if (group.hidden_paths.size() < 2) continue;
    std::vector<bool> cut;
    for (const StatePath& path : p.perturb_hidden_paths)
      cut.push_back(std::find(group.hidden_paths.begin(), group.hidden_paths.end(), path) !=
                    group.hidden_paths.end());
    const Arrays own = gradients(cut);
    const Arrays signal(own.begin() + 1, own.begin() + 1 + static_cast<std::ptrdiff_t>(num_p));
    result.group_signal[k] = p.perturb_data_to_hidden_group_data(signal, g.hidden_groups)[k];
  }

  // Parameters without a trace get the gradient of this step; traced ones what does not pass through a hidden
  // state.
  const Arrays direct = gradients(std::vector<bool>(num_p, true));
  for (std::size_t i = 0; i < num_w; ++i) {
    bool traced = false;
    for (const HiddenParamOpRelation& r : g.hidden_param_op_relations)
      for (const TrainableSource& t : r.trainables)
        for (const auto& [path, leaf] : t.leaves)
          traced = traced || (path == leaves[i].path && leaf == leaves[i].leaf);
    result.instantaneous[i] = (traced ? direct : plain)[1 + num_p + i];
  }
  return result;
}

}  // namespace etrace
