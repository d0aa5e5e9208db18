#include "learn/plan/step_derivative.h"

#include <algorithm>

#include "core/flow.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "io/step_outputs.h"
#include "learn/traces/interface.h"
#include "learn/traces/lists.h"
#include "learn/traces/window.h"

namespace etrace {

namespace {

// Does a result of the step depend on an old hidden state other than through a new one?
bool reads_old_states(const ETraceGraph& g) {
  const ModuleInfo& info = g.module_info;
  VarIds old, renewed;
  for (const HiddenInfo& h : info.hidden) {
    old.insert(h.invar.id);
    renewed.insert(h.outvar.id);
  }
  const auto is_old = [&](const Var& v) { return old.contains(v.id) || !renewed.contains(v.id); };
  const Reached reached = forward(info.jaxpr(), old, {By::Derivative, {}, is_old});
  const std::vector<std::size_t> results = result_outputs(info.model);
  return std::any_of(results.begin(), results.end(), [&](std::size_t o) {
    const Var* v = as_var(info.jaxpr().outs[o]);
    return v != nullptr && reached.holds(*v) && is_old(*v);
  });
}

std::vector<bool> none_of(std::size_t count) { return std::vector<bool>(count, false); }
std::size_t count_of(const std::vector<bool>& v) {
  return static_cast<std::size_t>(std::count(v.begin(), v.end(), true));
}

// The compiler's perturbed program, for one way of differentiation. States in `cut` do not pass derivatives
// on from what they were computed from. Where operators[k] holds, the k-th of `relations` has its result
// perturbed and its trainable operands held.
class PerturbedProgram {
 public:
  PerturbedProgram(const ETraceGraph& g, const std::vector<bool>& cut,
                   const std::vector<std::size_t>& relations, const std::vector<Var>& perturbations,
                   const std::vector<bool>& operators)
      : program_(g.hidden_perturb->perturb_jaxpr) {
    const HiddenPerturbation& p = *g.hidden_perturb;
    program_.jaxpr.eqns.clear();
    program_.jaxpr.invars.insert(program_.jaxpr.invars.end(), perturbations.begin(), perturbations.end());
    for (const Eqn& eqn : p.perturb_jaxpr.jaxpr.eqns) {
      Eqn copy = eqn;
      for (std::size_t i = 0; i < p.perturb_vars.size(); ++i)
        if (cut[i] && adds(eqn, p.perturb_vars[i])) hold(copy, 0);
      std::optional<std::size_t> found;
      for (std::size_t k = 0; k < relations.size(); ++k)
        if (operators[k] && g.hidden_param_op_relations[relations[k]].eqn_id == eqn.id) found = k;
      if (!found) {
        program_.jaxpr.eqns.push_back(std::move(copy));
        continue;
      }
      for (const TrainableSource& t : g.hidden_param_op_relations[relations[*found]].trainables)
        hold(copy, t.operand);
      const Var y = copy.out[0], bare = fresh_var(y.aval);
      copy.out[0] = bare;
      program_.jaxpr.eqns.push_back(std::move(copy));
      program_.jaxpr.eqns.push_back(make_eqn(add_p, {bare, perturbations[*found]}, {y}, {}, eqn.origin));
    }
  }
  const ClosedJaxpr& program() const { return program_; }

 private:
  static bool adds(const Eqn& eqn, const Var& perturbation) {
    return eqn.in.size() == 2 && as_var(eqn.in[1]) != nullptr && *as_var(eqn.in[1]) == perturbation;
  }
  void hold(Eqn& eqn, std::size_t operand) {
    const Var held = fresh_var(aval_of(eqn.in[operand]));
    program_.jaxpr.eqns.push_back(make_eqn(stop_gradient_p, {eqn.in[operand]}, {held}, {}, eqn.origin));
    eqn.in[operand] = held;
  }

  ClosedJaxpr program_;
};

}  // namespace

// Ways in order: everything; per group of several states with these cut; past all new states, if there is
// something to find.
StepDerivative::StepDerivative(const ETraceGraph& g, OwnSteps own, const StepLoss& loss,
                               std::span<const Aval> extra, std::vector<std::size_t> own_params)
    : g_(g), executor_(g), own_(std::move(own)), own_params_(std::move(own_params)) {
  for (std::size_t r = 0; r < own_.relations.size(); ++r)
    if (own_.relations[r] == OwnSteps::Place::Cotangent) {
      operators_.push_back(r);
      operator_perturbations_.push_back(fresh_var(g.hidden_param_op_relations[r].y_var.aval));
    }
  add_way(loss, extra, through_everything());
  if (g.options.compat == Compat::Braintrace) return;
  for (const HiddenGroup& group : g.hidden_groups)
    if (group.hidden_paths.size() > 1) add_way(loss, extra, within(group));
  Way past = past_new_states();
  if (count_of(past.leaves) + count_of(past.before) > 0) add_way(loss, extra, std::move(past));
}

StepDerivative::Way StepDerivative::nothing() const {
  const std::size_t hidden = g_.hidden_perturb->perturb_vars.size();
  return {none_of(hidden),
          none_of(hidden),
          none_of(operators_.size()),
          none_of(param_leaves(g_.module_info).size()),
          none_of(state_types(g_).size()),
          none_of(own_params_.size())};
}

StepDerivative::Way StepDerivative::through_everything() const {
  Way way = nothing();
  way.hidden.assign(way.hidden.size(), true);
  way.operators.assign(way.operators.size(), true);
  const std::vector<ParamLeaf> leaves = param_leaves(g_.module_info);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    way.leaves[i] = own_.leaves[i] == OwnSteps::LeafWays::All &&
                    is_floating(g_.module_info.jaxpr().invars[leaves[i].input].aval.dtype);
  for (std::size_t k = 0; k < own_params_.size(); ++k)
    way.direct[k] = is_floating(g_.module_info.jaxpr().invars[leaves[own_params_[k]].input].aval.dtype);
  return way;
}

// A state computed in the same step from another of its group: that way is in the trace already.
StepDerivative::Way StepDerivative::within(const HiddenGroup& group) const {
  Way way = nothing();
  const std::vector<StatePath>& paths = g_.hidden_perturb->perturb_hidden_paths;
  for (std::size_t i = 0; i < paths.size(); ++i)
    way.cut[i] = way.hidden[i] =
        std::find(group.hidden_paths.begin(), group.hidden_paths.end(), paths[i]) != group.hidden_paths.end();
  return way;
}

// What does not pass a new hidden state: to parameters whose other ways the rule brings, and to old states.
StepDerivative::Way StepDerivative::past_new_states() const {
  Way way = nothing();
  way.cut.assign(way.cut.size(), true);
  const std::vector<ParamLeaf> leaves = param_leaves(g_.module_info);
  for (std::size_t i = 0; i < leaves.size(); ++i)
    way.leaves[i] = own_.leaves[i] == OwnSteps::LeafWays::PastStates &&
                    is_floating(g_.module_info.jaxpr().invars[leaves[i].input].aval.dtype);
  if (!reads_old_states(g_)) return way;
  const std::vector<StatePath> paths = state_paths(g_);
  for (std::size_t i = 0; i < paths.size(); ++i) way.before[i] = g_.hid_path_to_group(paths[i]) != nullptr;
  return way;
}

void StepDerivative::add_way(const StepLoss& loss, std::span<const Aval> extra, Way way) {
  const ModuleInfo& info = g_.module_info;
  const HiddenPerturbation& p = *g_.hidden_perturb;
  const PerturbedProgram perturbed(g_, way.cut, operators_, operator_perturbations_, way.operators);
  const Avals args = argument_types(g_), states = state_types(g_);
  Avals types;
  for (const Var& v : p.perturb_vars) types.push_back(v.aval);
  for (const Var& v : operator_perturbations_) types.push_back(v.aval);
  const std::size_t num_p = types.size();
  for (const ParamLeaf& l : param_leaves(info)) types.push_back(info.jaxpr().invars[l.input].aval);
  const std::size_t num_w = types.size() - num_p, num_s = states.size(), num_a = args.size();
  types.insert(types.end(), states.begin(), states.end());
  types.insert(types.end(), args.begin(), args.end());
  types.insert(types.end(), extra.begin(), extra.end());
  const ClosedJaxpr program = make_jaxpr(
      [&](ArraySpan in) {
        const ArraySpan perturb = take_front(in, num_p), params = take_front(in, num_w),
                        h = take_front(in, num_s), x = take_front(in, num_a);
        const Arrays out =
            eval_jaxpr(perturbed.program(), joined({executor_.program_inputs(x, h, params), perturb}));
        return Arrays{loss(in, results_of(info.model, out))};
      },
      types);
  Mask active;
  for (const std::vector<bool>* part : {&way.hidden, &way.operators, &way.leaves, &way.before})
    active.insert(active.end(), part->begin(), part->end());
  active.resize(active.size() + num_a, false);
  active.insert(active.end(), way.direct.begin(), way.direct.end());
  active.resize(types.size(), false);
  way.map = linearize(program, active, {true});
  ways_.push_back(std::move(way));
}

std::size_t StepDerivative::num_residuals() const {
  std::size_t n = 0;
  for (const Way& w : ways_) n += w.map.num_residuals;
  return n;
}

Arrays StepDerivative::residuals(ArraySpan args, ArraySpan states, ArraySpan params, ArraySpan extra) const {
  // −0 added to a value leaves it as it is to the last bit, so that the perturbed step folds into the step.
  Arrays in;
  for (const std::vector<Var>* vars : {&g_.hidden_perturb->perturb_vars, &operator_perturbations_})
    for (const Var& v : *vars) in.push_back(full(v.aval.shape, -0.0, v.aval.dtype));
  in = joined({in, params, states, args, extra});
  Arrays out;
  for (const Way& way : ways_) {
    const Arrays found = eval_jaxpr(way.map.primal, in);  // the loss, then the residuals
    out.insert(out.end(), found.begin() + 1, found.end());
  }
  return out;
}

StepDerivative::Found StepDerivative::transposed(const Way& way, std::int64_t steps, ArraySpan residuals,
                                                 const std::vector<bool>& stacked) const {
  const std::size_t num_r = way.map.num_residuals;
  const Avals tangents = [&] {
    Avals out;
    const Avals all = way.map.linear.in_avals();
    for (std::size_t i = num_r; i < all.size(); ++i) out.push_back(all[i]);
    return out;
  }();
  // Parameters have one tangent for all steps, everything else one per step.
  const std::size_t first = count_of(way.hidden) + count_of(way.operators),
                    last = first + count_of(way.leaves), direct = last + count_of(way.before);
  const auto shared = [&](std::size_t i) { return (i >= first && i < last) || i >= direct; };
  Avals types = avals_of(residuals);
  for (std::size_t i = 0; i < tangents.size(); ++i)
    types.push_back(shared(i) ? tangents[i] : Aval{tangents[i].dtype, tangents[i].shape.with_front(steps)});
  const Recording all = record(types, [&](ArraySpan in) {
    const ArraySpan values = in.first(num_r), moves = in.subspan(num_r);
    Arrays mapped;
    for (std::size_t i = 0; i < num_r; ++i)
      if (stacked[i]) mapped.push_back(values[i]);
    const std::size_t stacked_residuals = mapped.size();
    for (std::size_t i = 0; i < moves.size(); ++i)
      if (!shared(i)) mapped.push_back(moves[i]);
    const Function one = [&](ArraySpan now) {
      Arrays step;
      std::size_t r = 0, t = stacked_residuals;
      for (std::size_t i = 0; i < num_r; ++i) step.push_back(stacked[i] ? now[r++] : values[i]);
      for (std::size_t i = 0; i < moves.size(); ++i) step.push_back(shared(i) ? moves[i] : now[t++]);
      return eval_jaxpr(way.map.linear, step);
    };
    if (mapped.empty()) {  // every step is the same
      const Array each = one({})[0];
      return Arrays{each * static_cast<double>(steps)};
    }
    return Arrays{sum(side_by_side(steps, one, mapped)[0])};
  });
  Arrays known(residuals.begin(), residuals.end());
  known.resize(types.size());
  const Array seed = full({}, 1.0, all.jaxpr.out_avals()[0].dtype);
  const Arrays ct = transpose_eval(all.jaxpr, all.captured, known, Arrays{seed});
  Found found;
  std::size_t next = num_r;
  for (const auto& [wanted, into] :
       {std::pair(&way.hidden, &found.hidden), std::pair(&way.operators, &found.operators),
        std::pair(&way.leaves, &found.leaves), std::pair(&way.before, &found.before),
        std::pair(&way.direct, &found.direct)})
    for (const bool w : *wanted) into->push_back(w ? ct[next++] : Array());
  return found;
}

// From the cotangents of the group's new states.
Array StepDerivative::group_signal(std::int64_t steps, const HiddenGroup& group, const Found& found) const {
  const HiddenPerturbation& p = *g_.hidden_perturb;
  Arrays all;  // per perturbation [K, …]
  for (std::size_t i = 0; i < p.perturb_vars.size(); ++i) {
    const Aval& type = p.perturb_vars[i].aval;
    all.push_back(instantiate(found.hidden[i], {type.dtype, type.shape.with_front(steps)}));
  }
  const Function one = [&](ArraySpan m) {
    return p.perturb_data_to_hidden_group_data(m, std::vector<HiddenGroup>{group});
  };
  return side_by_side(steps, one, all)[0];
}

// From the cotangents of the group's old states.
Array StepDerivative::before_signal(std::int64_t steps, const HiddenGroup& group, const Found& found) const {
  const std::vector<StatePath> paths = state_paths(g_);
  const Avals types = state_types(g_);
  Arrays members;
  for (const StatePath& path : group.hidden_paths) {
    const auto i = static_cast<std::size_t>(std::find(paths.begin(), paths.end(), path) - paths.begin());
    members.push_back(instantiate(found.before[i], {types[i].dtype, types[i].shape.with_front(steps)}));
  }
  const Function one = [&](ArraySpan m) { return Arrays{group.concat_hidden(m)}; };
  return side_by_side(steps, one, members)[0];
}

StepGradients StepDerivative::gradients(std::int64_t steps, ArraySpan residuals,
                                        const std::vector<bool>& stacked) const {
  std::vector<Found> found;
  std::size_t first = 0;
  for (const Way& way : ways_) {
    const std::size_t n = way.map.num_residuals;
    found.push_back(transposed(way, steps, residuals.subspan(first, n),
                               {stacked.begin() + static_cast<std::ptrdiff_t>(first),
                                stacked.begin() + static_cast<std::ptrdiff_t>(first + n)}));
    first += n;
  }
  StepGradients result;
  result.cotangents.resize(own_.relations.size());
  for (std::size_t k = 0; k < operators_.size(); ++k) {
    const Aval& y = operator_perturbations_[k].aval;
    result.cotangents[operators_[k]] =
        instantiate(found[0].operators[k], {y.dtype, y.shape.with_front(steps)});
  }
  result.leaves = found[0].leaves;
  const bool compat = g_.options.compat == Compat::Braintrace;
  std::size_t next = 1;
  for (const HiddenGroup& group : g_.hidden_groups)
    result.group_signal.push_back(
        group_signal(steps, group, found[compat || group.hidden_paths.size() < 2 ? 0 : next++]));
  const bool has_past = next < ways_.size();
  const Found& past = found.back();
  for (std::size_t i = 0; has_past && i < past.leaves.size(); ++i)
    if (past.leaves[i].defined()) result.leaves[i] = past.leaves[i];
  for (std::size_t k = 0; k < own_params_.size(); ++k) {
    Array& leaf = result.leaves[own_params_[k]];
    leaf = add_cotangents(leaf, found[0].direct[k]);
  }
  if (!has_past) return result;
  if (count_of(ways_.back().before) == 0) return result;
  for (const HiddenGroup& group : g_.hidden_groups)
    result.before_signal.push_back(before_signal(steps, group, past));
  return result;
}

}  // namespace etrace
