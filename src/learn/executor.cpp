// One step of the model with everything that the traces need, and its loss back to the hidden states.
#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/learning.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/interface.h"
#include "learn/window.h"
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
  return step;
}

namespace {

// StepData as one list, and back: what a loop over steps carries out.
Arrays flat(const StepValues& v) {
  Arrays out = v.outputs;
  for (const Arrays& a : v.data.operands) out.insert(out.end(), a.begin(), a.end());
  for (const Arrays& a : v.data.df) out.insert(out.end(), a.begin(), a.end());
  out.insert(out.end(), v.data.jacobians.begin(), v.data.jacobians.end());
  return out;
}

StepValues restored(const StepValues& like, ArraySpan stacked) {
  StepValues out = like;
  std::size_t next = 0;
  for (Array& a : out.outputs) a = stacked[next++];
  for (Arrays& list : out.data.operands)
    for (Array& a : list) a = stacked[next++];
  for (Arrays& list : out.data.df)
    for (Array& a : list) a = stacked[next++];
  for (Array& a : out.data.jacobians) a = stacked[next++];
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

ETraceGraphExecutor::StackedData ETraceGraphExecutor::step_data(const StepBatch& batch,
                                                                const Keep& keep) const {
  const std::size_t num_args = batch.args.size();
  std::vector<std::size_t> df_counts;
  std::size_t num_kept = 0;
  const Function one = [&](ArraySpan m) {
    const StepData data =
        solve_h2w_h2h_jacobian(program_inputs(m.first(num_args), m.subspan(num_args), batch.params)).data;
    Arrays out = keep(data);
    num_kept = out.size();
    df_counts.clear();
    for (const Arrays& list : data.df) {
      df_counts.push_back(list.size());
      out.insert(out.end(), list.begin(), list.end());
    }
    out.insert(out.end(), data.jacobians.begin(), data.jacobians.end());
    return out;
  };
  Arrays mapped = batch.args;
  mapped.insert(mapped.end(), batch.states.begin(), batch.states.end());
  const Arrays all = side_by_side(batch.steps, one, mapped);
  StackedData out;
  auto next = all.begin();
  out.kept.assign(next, next + static_cast<std::ptrdiff_t>(num_kept));
  next += static_cast<std::ptrdiff_t>(num_kept);
  for (const std::size_t count : df_counts) {
    out.df.emplace_back(next, next + static_cast<std::ptrdiff_t>(count));
    next += static_cast<std::ptrdiff_t>(count);
  }
  out.jacobians.assign(next, all.end());
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

namespace {

// The step with its hidden states perturbed where they are produced. The states in `cut` do not pass
// derivatives on from what they were computed from.
Arrays perturbed_step(const ETraceGraph& graph, ArraySpan inputs, ArraySpan perturbations,
                      const std::vector<bool>& cut) {
  const ModuleInfo& info = graph.module_info;
  const HiddenPerturbation& p = *graph.hidden_perturb;
  const Env env = run_program(info.closed_jaxpr, inputs, [&](const Var& v, const Array& value) {
    for (std::size_t i = 0; i < p.perturb_hidden_states.size(); ++i)
      if (p.perturb_hidden_states[i].outvar == v)
        return (cut[i] ? stop_gradient(value) : value) + perturbations[i];
    return value;
  });
  return env.get_all(info.jaxpr().outs);
}

Arrays with_role(const ModuleInfo& info, const Arrays& values, bool outputs) {
  Arrays out;
  for (std::size_t i = 0; i < info.model.outputs.size(); ++i) {  // the program gives more than the model
    const Role role = info.model.outputs[i].role;
    if (outputs ? role == Role::Out : role == Role::Hidden || role == Role::Other) out.push_back(values[i]);
  }
  return out;
}

bool is_traced(const ETraceGraph& g, const ParamLeaf& leaf) {
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations)
    for (const TrainableSource& t : r.trainables)
      for (const auto& [path, index] : t.leaves)
        if (path == leaf.path && index == leaf.leaf) return true;
  return false;
}

}  // namespace

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
      const Arrays out = perturbed_step(g, program_inputs(x, h, w), p, std::vector<bool>(p.size(), false));
      Arrays all = with_role(g.module_info, out, true);
      const Arrays next = with_role(g.module_info, out, false);
      all.insert(all.end(), next.begin(), next.end());
      return all;
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
          return {with_role(g.module_info, out, false), with_role(g.module_info, out, true)};
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

namespace {

// Does a result of the step depend on an old state of a group other than through a new one?
bool reads_old_states(const ETraceGraph& g) {
  const ModuleInfo& info = g.module_info;
  std::unordered_set<std::uint64_t> from_old, renewed;
  for (const HiddenInfo& h : info.hidden) {
    from_old.insert(h.invar.id);
    renewed.insert(h.outvar.id);
  }
  const auto depends = [&](const Atom& a) {
    return as_var(a) != nullptr && from_old.contains(as_var(a)->id);
  };
  for (const Eqn& eqn : info.jaxpr().eqns)
    if (std::any_of(eqn.in.begin(), eqn.in.end(), depends))
      for (const Var& v : eqn.out)
        if (!renewed.contains(v.id)) from_old.insert(v.id);
  for (std::size_t i = 0; i < info.model.outputs.size(); ++i)
    if (info.model.outputs[i].role == Role::Out && depends(info.jaxpr().outs[i])) return true;
  return false;
}

// Where the states of the groups stand among all states, group after group.
std::vector<std::size_t> group_members(const ETraceGraph& g) {
  const std::vector<StatePath> paths = state_paths(g);
  std::vector<std::size_t> out;
  for (const HiddenGroup& group : g.hidden_groups)
    for (const StatePath& path : group.hidden_paths)
      out.push_back(static_cast<std::size_t>(std::find(paths.begin(), paths.end(), path) - paths.begin()));
  return out;
}

}  // namespace

StepGradients ETraceVjpGraphExecutor::step_gradients(const StepBatch& batch, ArraySpan extra,
                                                     const StepLoss& loss) const {
  const ETraceGraph& g = graph();
  const HiddenPerturbation& p = *g.hidden_perturb;
  const std::vector<ParamLeaf> leaves = param_leaves(g.module_info);
  const std::size_t num_p = p.perturb_vars.size(), num_a = batch.args.size(), num_s = batch.states.size();
  // −0 added to a state leaves it as it is to the last bit, so that the perturbed step folds into the step.
  Arrays at;
  for (const Array& zero : p.init_perturb_data())
    at.push_back(full(zero.shape().with_front(batch.steps), -0.0, zero.dtype()));
  at.insert(at.end(), batch.params.begin(), batch.params.end());
  Arrays held = batch.args;
  held.insert(held.end(), batch.states.begin(), batch.states.end());
  held.insert(held.end(), extra.begin(), extra.end());

  // Gradients with respect to perturbations, parameters, and the entry states that are asked for, with some
  // states cut.
  const auto gradients = [&](const std::vector<bool>& cut, const std::vector<std::size_t>& entry = {}) {
    Arrays with_entry = at;
    for (const std::size_t i : entry) with_entry.push_back(batch.states[i]);
    std::vector<int> all(with_entry.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    const ScalarFunction total = [&](ArraySpan a) {
      const ArraySpan params = a.subspan(num_p, leaves.size());
      Arrays mapped(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(num_p));
      mapped.insert(mapped.end(), held.begin(), held.end());
      for (std::size_t i = 0; i < entry.size(); ++i)
        mapped[num_p + num_a + entry[i]] = a[num_p + leaves.size() + i];
      const Function one = [&](ArraySpan m) {
        const Arrays in = program_inputs(m.subspan(num_p, num_a), m.subspan(num_p + num_a, num_s), params);
        const Arrays out = with_role(g.module_info, perturbed_step(g, in, m.first(num_p), cut), true);
        return Arrays{loss(m.subspan(num_p + num_a + num_s), out)};
      };
      return sum(side_by_side(batch.steps, one, mapped)[0]);
    };
    Arrays found = value_and_grad(total, all)(with_entry);
    found.erase(found.begin());
    return found;
  };
  const auto signals = [&](const Arrays& found) {
    const Function one = [&](ArraySpan m) { return p.perturb_data_to_hidden_group_data(m, g.hidden_groups); };
    return side_by_side(batch.steps, one, ArraySpan(found).first(num_p));
  };

  StepGradients result;
  const Arrays total = gradients(std::vector<bool>(num_p, false));
  result.group_signal = signals(total);
  result.instantaneous.resize(leaves.size());
  if (g.options.compat == Compat::Braintrace) return result;

  // A state computed in the same step from another of its group: that way is in the trace already, so it is
  // cut here.
  for (std::size_t k = 0; k < g.hidden_groups.size(); ++k) {
    const HiddenGroup& group = g.hidden_groups[k];
    if (group.hidden_paths.size() < 2) continue;
    std::vector<bool> cut;
    for (const StatePath& path : p.perturb_hidden_paths)
      cut.push_back(std::find(group.hidden_paths.begin(), group.hidden_paths.end(), path) !=
                    group.hidden_paths.end());
    result.group_signal[k] = signals(gradients(cut))[k];
  }

  // Parameters without a trace get the gradient of the step; traced ones what does not pass through a hidden
  // state. That way the old states have a gradient, too, if the loss reads them.
  const std::vector<std::size_t> entry = reads_old_states(g) ? group_members(g) : std::vector<std::size_t>{};
  const Arrays direct = gradients(std::vector<bool>(num_p, true), entry);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    result.instantaneous[i] = (is_traced(g, leaves[i]) ? direct : total)[num_p + i];
  if (entry.empty()) return result;
  const Function grouped = [&](ArraySpan m) {
    Arrays out;
    std::size_t next = 0;
    for (const HiddenGroup& group : g.hidden_groups) {
      out.push_back(group.concat_hidden(m.subspan(next, group.hidden_paths.size())));
      next += group.hidden_paths.size();
    }
    return out;
  };
  result.entry_signal = side_by_side(batch.steps, grouped, ArraySpan(direct).subspan(num_p + leaves.size()));
  return result;
}

}  // namespace etrace
