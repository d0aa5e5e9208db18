// One step of the model with everything that the traces need, and its loss back to the hidden states.
#include <fmt/format.h>

#include <algorithm>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/executor.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "io/step_outputs.h"
#include "learn/traces/composite_traces.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"
#include "learn/traces/window.h"
#include "transform/env.h"

namespace etrace {

// Inputs ----------------------------------------------------------------------------------------------------
const Array& value_of(const StepInput& input) {
  if (const auto* one = std::get_if<SingleStepData>(&input)) return one->value;
  if (const auto* many = std::get_if<MultiStepData>(&input)) return many->value;
  return std::get<Array>(input);
}

std::optional<std::int64_t> multi_step_length(std::span<const StepInput> inputs) {
  std::optional<std::int64_t> length;
  for (const StepInput& input : inputs) {
    const auto* many = std::get_if<MultiStepData>(&input);
    if (many == nullptr) continue;
    if (many->value.rank() == 0)
      throw ValueError("learn", "MultiStepData needs a leading time axis, but it holds a scalar");
    const std::int64_t n = many->value.shape()[0];
    if (length && *length != n)
      throw ValueError("learn", fmt::format("multi-step inputs have {} and {} steps; "
                                            "they must have equally many",
                                            *length, n));
    length = n;
  }
  return length;
}

std::vector<ParamLeaf> param_leaves(const ModuleInfo& info) {
  std::vector<ParamLeaf> out;
  for (std::size_t i = 0; i < info.model.inputs.size(); ++i) {
    const InputRecord& in = info.model.inputs[i];
    if (in.role == Role::Param) out.push_back({in.path, in.leaf, i, to_string(in.leaf_key)});
  }
  return out;
}

std::vector<ParamLeafId> param_leaf_ids(const ModuleInfo& info) {
  std::vector<ParamLeafId> out;
  for (const ParamLeaf& l : param_leaves(info)) out.push_back({l.path, l.leaf, l.key});
  return out;
}

namespace {

// Runs the equations one by one: every value of the program.
Env run_program(const ClosedJaxpr& program, ArraySpan inputs) {
  Env env;
  for (std::size_t i = 0; i < program.consts.size(); ++i)
    env.set(program.jaxpr.constvars[i], program.consts[i]);
  for (std::size_t i = 0; i < inputs.size(); ++i) env.set(program.jaxpr.invars[i], inputs[i]);
  for (const Eqn& eqn : program.jaxpr.eqns) {
    const OriginScope scope(eqn.origin, OriginScope::Absolute);
    env.set_all(eqn.out, bind_primitive(*eqn.prim, env.get_all(eqn.in), eqn.params));
  }
  return env;
}

Arrays values(const Env& env, const std::vector<Var>& vars) { return env.get_all(vars); }

// Operand values of a relation. Inside a descended loop x is stacked over the inner steps, and what
// parameters determine is the same for all of them.
Arrays operand_values(const ETraceGraph& g, const HiddenParamOpRelation& r, const Env& env,
                      ArraySpan params) {
  Arrays out;
  for (const Atom& a : r.operands) {
    const Var* v = as_var(a);
    const Var* stacked = v != nullptr && r.control_flow_context ? r.control_flow_context->outer(*v) : nullptr;
    out.push_back(stacked != nullptr ? env.get(*stacked) : env.get(a));
  }
  if (!r.control_flow_context) return out;
  const Arrays fixed = parameter_operands(g, r, params);
  for (std::size_t i = 0; i < out.size(); ++i)
    if (fixed[i].defined()) out[i] = fixed[i];
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

// Forward ---------------------------------------------------------------------------------------------------
Arrays ETraceGraphExecutor::program_inputs(ArraySpan args, ArraySpan states, ArraySpan params) const {
  const std::vector<InputRecord>& records = graph_->module_info.model.inputs;
  Arrays in(records.size());
  std::size_t state = 0, param = 0;
  for (std::size_t i = 0; i < records.size(); ++i) switch (records[i].role) {
      case Role::Arg:
        if (static_cast<std::size_t>(records[i].index) >= args.size())
          throw ValueError("learn", fmt::format("the model takes argument {}, but {} were given",
                                                records[i].index, args.size()));
        in[i] = args[static_cast<std::size_t>(records[i].index)];
        break;
      case Role::Param:
        in[i] = params[param++];
        break;
      default:
        in[i] = states[state++];
    }
  return in;
}

StepValues ETraceGraphExecutor::solve_h2w_h2h_jacobian(ArraySpan inputs) const {
  const ETraceGraph& g = *graph_;
  const ModuleInfo& info = g.module_info;
  const Env env = run_program(info.closed_jaxpr, inputs);
  StepValues step;
  for (const ParamLeaf& l : param_leaves(info)) step.data.params.push_back(inputs[l.input]);
  for (const std::size_t o : result_outputs(info.model))
    step.outputs.push_back(env.get(info.jaxpr().outs[o]));
  const std::vector<std::optional<std::size_t>> renewed = state_outputs(info.model);
  std::size_t next_state = 0;
  for (std::size_t i = 0; i < info.model.inputs.size(); ++i) {
    if (!is_state(info.model.inputs[i].role)) continue;
    const std::optional<std::size_t> o = renewed[next_state++];
    step.states.push_back(o ? env.get(info.jaxpr().outs[*o]) : inputs[i]);
  }
  for (const HiddenGroup& group : g.hidden_groups) {
    if (!group.descent) {
      const Arrays hidden = values(env, group.hidden_invars),
                   consts = values(env, group.transition_jaxpr.constvars);
      step.data.jacobians.push_back(group.diagonal_jacobian(hidden, consts));
      step.data.transitions.push_back(joined({hidden, consts}));
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
    step.data.transitions.push_back(all);
  }
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations) {
    step.data.operands.push_back(operand_values(g, r, env, step.data.params));
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
  for (const HiddenParamOpRelation& r : g.composite_relations) {
    step.data.composite_operands.push_back(operand_values(g, r, env, step.data.params));
    Arrays df;
    for (std::size_t k = 0; k < r.hidden_groups.size(); ++k) {
      const Jaxpr& chain = r.y_to_hidden_group_jaxprs[k];
      df.push_back(chain_derivative(r, chain, g.hidden_groups[r.hidden_groups[k]],
                                    values(env, chain.constvars), env.get(r.y_var)));
    }
    step.data.composite_df.push_back(std::move(df));
  }
  return step;
}

namespace {

// Outputs and data of a step as one list of places: what a loop over steps carries out.
std::vector<Array*> places(StepValues& v) {
  std::vector<Array*> out;
  const auto add = [&](Arrays& list) {
    for (Array& a : list) out.push_back(&a);
  };
  const auto add_all = [&](std::vector<Arrays>& lists) {
    for (Arrays& list : lists) add(list);
  };
  add(v.outputs);
  add_all(v.data.operands);
  add_all(v.data.df);
  add(v.data.jacobians);
  add_all(v.data.transitions);
  add_all(v.data.composite_operands);
  add_all(v.data.composite_df);
  return out;
}

Arrays flat(StepValues v) {
  Arrays out;
  for (const Array* a : places(v)) out.push_back(*a);
  return out;
}

StepValues restored(const StepValues& like, ArraySpan stacked) {
  StepValues out = like;
  std::size_t next = 0;
  for (Array* a : places(out)) *a = stacked[next++];
  return out;
}

// Arguments of one step of several: slices of what varies, the rest as it is.
struct StepArgs {
  std::span<const StepInput> inputs;
  Arrays stacked() const {
    Arrays out;
    for (const StepInput& i : inputs)
      if (std::holds_alternative<MultiStepData>(i)) out.push_back(value_of(i));
    return out;
  }
  Arrays at(ArraySpan slices) const {
    Arrays out;
    std::size_t next = 0;
    for (const StepInput& i : inputs)
      out.push_back(std::holds_alternative<MultiStepData>(i) ? slices[next++] : value_of(i));
    return out;
  }
};

Arrays plain(std::span<const StepInput> inputs) {
  Arrays out;
  for (const StepInput& i : inputs) out.push_back(value_of(i));
  return out;
}

}  // namespace

StepValues ETraceGraphExecutor::solve_h2w_h2h_jacobian(std::span<const StepInput> args, ArraySpan states,
                                                       ArraySpan params) const {
  const std::optional<std::int64_t> steps = multi_step_length(args);
  if (!steps) return solve_h2w_h2h_jacobian(program_inputs(plain(args), states, params));
  const StepArgs step_args{args};
  StepValues like;
  const ScanResult r = scan(
      [&](ArraySpan carry, ArraySpan x) -> ScanResult {
        like = solve_h2w_h2h_jacobian(program_inputs(step_args.at(x), carry, params));
        return {like.states, flat(like)};
      },
      Arrays(states.begin(), states.end()), step_args.stacked(), {.length = *steps});
  StepValues out = restored(like, r.ys);
  out.states = r.carry;
  out.data.params.assign(params.begin(), params.end());
  return out;
}

// Backward --------------------------------------------------------------------------------------------------
BackwardMap::Cotangents BackwardMap::operator()(ArraySpan outputs, ArraySpan states) const {
  if (outputs.size() != outputs_.size() || states.size() != states_.size())
    throw ValueError("learn", fmt::format("{} and {} cotangents for {} outputs and {} states", outputs.size(),
                                          states.size(), outputs_.size(), states_.size()));
  Arrays in = residuals_;
  const auto add = [&](ArraySpan cts, const Avals& types, const char* what) {
    for (std::size_t i = 0; i < cts.size(); ++i) {
      if (cts[i].defined() && cts[i].aval() != types[i])
        throw TypeError("learn", fmt::format("the cotangent of {} {} has type {}, expected {}", what, i,
                                             to_string(cts[i].aval()), to_string(types[i])));
      if (is_floating(types[i].dtype)) in.push_back(instantiate(cts[i], types[i]));
    }
  };
  add(outputs, outputs_, "output");
  add(states, states_, "state");
  const Arrays found = eval_jaxpr(transposed_, in);
  Cotangents out;
  std::size_t next = 0;
  for (std::size_t i = 0; i < active_.size(); ++i) {
    const Array ct = active_[i] ? found[next++] : Array();
    if (i < num_args_)
      out.args.push_back(ct);
    else if (i < num_args_ + num_states_)
      out.states.push_back(ct);
    else if (i >= num_args_ + num_states_ + num_params_)
      out.perturbations.push_back(ct);
    else if (active_[i])
      out.params.push_back(ct);
  }
  return out;
}

ETraceVjpGraphExecutor::Linearized ETraceVjpGraphExecutor::solve_h2w_h2h_l2h_jacobian(
    std::span<const StepInput> args, ArraySpan states, ArraySpan params) const {
  const ETraceGraph& g = graph();
  const std::optional<std::int64_t> steps = multi_step_length(args);
  Linearized result;
  result.values = solve_h2w_h2h_jacobian(args, states, params);

  // As a function of arguments, states, and parameters or perturbations.
  const Arrays perturb = steps ? Arrays{} : g.hidden_perturb->init_perturb_data();
  const std::size_t na = args.size(), ns = states.size(), nw = params.size();
  Arrays at = plain(args);
  at.insert(at.end(), states.begin(), states.end());
  at.insert(at.end(), params.begin(), params.end());
  at.insert(at.end(), perturb.begin(), perturb.end());
  const Recording recorded = record(avals_of(at), [&](ArraySpan a) {
    const ArraySpan x = a.first(na), h = a.subspan(na, ns), w = a.subspan(na + ns, nw),
                    p = a.subspan(na + ns + nw);
    if (!steps) {
      const Arrays out = g.hidden_perturb->eval_jaxpr(program_inputs(x, h, w), p);
      return joined({results_of(g.module_info.model, out), new_states_of(g.module_info.model, h, out)});
    }
    std::vector<StepInput> inputs;
    for (std::size_t i = 0; i < na; ++i)
      inputs.push_back(std::holds_alternative<MultiStepData>(args[i]) ? StepInput(MultiStepData{x[i]})
                                                                      : StepInput(x[i]));
    const StepArgs step_args{inputs};
    const ScanResult r = scan(
        [&](ArraySpan carry, ArraySpan slices) -> ScanResult {
          const Arrays out =
              eval_jaxpr(g.module_info.closed_jaxpr, program_inputs(step_args.at(slices), carry, w));
          return {new_states_of(g.module_info.model, carry, out), results_of(g.module_info.model, out)};
        },
        Arrays(h.begin(), h.end()), step_args.stacked(), {.length = *steps});
    Arrays all = r.ys;
    all.insert(all.end(), r.carry.begin(), r.carry.end());
    return all;
  });

  // Captured arrays lead among the inputs.
  ClosedJaxpr program{recorded.jaxpr, {}};
  program.jaxpr.invars.insert(program.jaxpr.invars.begin(), program.jaxpr.constvars.begin(),
                              program.jaxpr.constvars.end());
  program.jaxpr.constvars.clear();
  Mask active(recorded.captured.size(), false);
  for (std::size_t i = 0; i < at.size(); ++i) {
    const bool is_param = i >= na + ns && i < na + ns + nw;
    active.push_back(is_floating(at[i].dtype()) && (steps || !is_param));
  }
  Mask floating_out;
  for (const Aval& a : program.out_avals()) floating_out.push_back(is_floating(a.dtype));
  const Linearization lin = linearize(program, active, floating_out);
  Arrays in = recorded.captured;
  in.insert(in.end(), at.begin(), at.end());
  const Arrays primal = eval_jaxpr(lin.primal, in);
  BackwardMap& map = result.backward;
  const std::size_t outs = program.jaxpr.outs.size();
  map.residuals_.assign(primal.begin() + static_cast<std::ptrdiff_t>(outs), primal.end());
  Mask linear(lin.num_residuals, false);
  for (std::size_t i = recorded.captured.size(); i < active.size(); ++i)
    if (active[i]) linear.push_back(true);
  map.transposed_ = transpose(lin.linear, linear);
  const std::size_t num_out = result.values.outputs.size();
  for (std::size_t i = 0; i < outs; ++i)
    (i < num_out ? map.outputs_ : map.states_).push_back(primal[i].aval());
  map.num_args_ = na, map.num_states_ = ns, map.num_params_ = nw;
  map.active_.assign(active.begin() + static_cast<std::ptrdiff_t>(recorded.captured.size()), active.end());
  return result;
}

}  // namespace etrace
