#include "learn/step_derivative.h"

#include <algorithm>
#include <unordered_set>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/interface.h"
#include "learn/lists.h"
#include "learn/window.h"

namespace etrace {

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

// The compiler's perturbed program; the states in `cut` do not pass derivatives on from what they were
// computed from.
ClosedJaxpr with_cuts(const HiddenPerturbation& p, const std::vector<bool>& cut) {
  ClosedJaxpr out = p.perturb_jaxpr;
  out.jaxpr.eqns.clear();
  for (const Eqn& eqn : p.perturb_jaxpr.jaxpr.eqns) {
    Eqn copy = eqn;
    for (std::size_t i = 0; i < p.perturb_vars.size(); ++i) {
      if (!cut[i] || eqn.in.size() != 2 || as_var(eqn.in[1]) == nullptr ||
          !(*as_var(eqn.in[1]) == p.perturb_vars[i]))
        continue;
      const Var detached = fresh_var(aval_of(eqn.in[0]));
      out.jaxpr.eqns.push_back(make_eqn(stop_gradient_p, {eqn.in[0]}, {detached}, {}, eqn.origin));
      copy.in[0] = detached;
    }
    out.jaxpr.eqns.push_back(std::move(copy));
  }
  return out;
}

std::vector<std::size_t> leaf_positions(const ETraceGraph& g, const TrainableSource& t) {
  const std::vector<ParamLeaf> leaves = param_leaves(g.module_info);
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < leaves.size(); ++i)
    for (const auto& [path, index] : t.leaves)
      if (path == leaves[i].path && index == leaves[i].leaf) out.push_back(i);
  return out;
}

bool is_differentiable(const ETraceGraph& g, const ParamLeaf& leaf) {
  return is_floating(g.module_info.jaxpr().invars[leaf.input].aval.dtype);
}

}  // namespace

std::vector<bool> leaves_with_step_gradient(const ETraceGraph& g) {
  const std::size_t count = param_leaves(g.module_info).size();
  std::vector<bool> traced(count, false), mixed(count, false);
  for (const HiddenParamOpRelation* r : g.all_relations()) {
    const bool mixes = std::any_of(r->tail_reasons.begin(), r->tail_reasons.end(),
                                   [](const std::string& reason) { return !reason.empty(); });
    for (const TrainableSource& t : r->trainables)
      for (const std::size_t i : leaf_positions(g, t)) {
        traced[i] = true;
        mixed[i] = mixed[i] || mixes;
      }
  }
  std::vector<bool> out(count);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = !traced[i] || (mixed[i] && g.options.compat != Compat::Braintrace);
  return out;
}

namespace {

std::vector<bool> without_own_step(const ETraceGraph& g,
                                   const std::vector<HiddenParamOpRelation>& relations) {
  const std::vector<bool> step = leaves_with_step_gradient(g);
  std::vector<bool> out;
  for (const HiddenParamOpRelation& r : relations) {
    bool found = false;
    for (const TrainableSource& t : r.trainables)
      for (const std::size_t i : leaf_positions(g, t)) found = found || step[i];
    out.push_back(found && g.options.compat != Compat::Braintrace);
  }
  return out;
}

}  // namespace

std::vector<bool> relations_without_own_step(const ETraceGraph& g) {
  return without_own_step(g, g.hidden_param_op_relations);
}
std::vector<bool> composites_without_own_step(const ETraceGraph& g) {
  return without_own_step(g, g.composite_relations);
}

// Ways in order: all of it; per group of several states with these cut; everything cut.
StepDerivative::StepDerivative(const ETraceGraph& g, const StepLoss& loss, std::span<const Aval> extra)
    : g_(g), executor_(g) {
  const HiddenPerturbation& p = *g.hidden_perturb;
  const std::vector<ParamLeaf> leaves = param_leaves(g.module_info);
  const std::size_t num_p = p.perturb_vars.size();
  const bool compat = g.options.compat == Compat::Braintrace;
  Way total{std::vector<bool>(num_p, false), {}, {}, {}, {}},
      direct{std::vector<bool>(num_p, true), {}, {}, {}, {}};
  for (std::size_t i = 0; i < num_p; ++i) total.perturbed.push_back(i);
  const std::vector<bool> whole = leaves_with_step_gradient(g);
  for (std::size_t i = 0; i < leaves.size() && !compat; ++i)
    if (is_differentiable(g, leaves[i])) (whole[i] ? total : direct).params.push_back(i);
  add_way(loss, extra, std::move(total));
  if (compat) return;
  // A state computed in the same step from another of its group: that way is in the trace already.
  for (const HiddenGroup& group : g.hidden_groups) {
    if (group.hidden_paths.size() < 2) continue;
    Way way{{}, {}, {}, {}, {}};
    for (std::size_t i = 0; i < num_p; ++i) {
      const bool member = std::find(group.hidden_paths.begin(), group.hidden_paths.end(),
                                    p.perturb_hidden_paths[i]) != group.hidden_paths.end();
      way.cut.push_back(member);
      if (member) way.perturbed.push_back(i);
    }
    add_way(loss, extra, std::move(way));
  }
  // What does not pass through a hidden state; if the loss reads old states, they have a gradient that way.
  if (reads_old_states(g)) direct.entry = group_members(g);
  add_way(loss, extra, std::move(direct));
}

void StepDerivative::add_way(const StepLoss& loss, std::span<const Aval> extra, Way way) {
  const ModuleInfo& info = g_.module_info;
  const HiddenPerturbation& p = *g_.hidden_perturb;
  const ClosedJaxpr perturbed = with_cuts(p, way.cut);
  const Avals args = argument_types(g_), states = state_types(g_);
  Avals types;
  for (const Var& v : p.perturb_vars) types.push_back(v.aval);
  for (const ParamLeaf& l : param_leaves(info)) types.push_back(info.jaxpr().invars[l.input].aval);
  const std::size_t num_p = p.perturb_vars.size(), num_w = types.size() - num_p, num_s = states.size(),
                    num_a = args.size();
  types.insert(types.end(), states.begin(), states.end());
  types.insert(types.end(), args.begin(), args.end());
  types.insert(types.end(), extra.begin(), extra.end());
  const ClosedJaxpr program = make_jaxpr(
      [&](ArraySpan in) {
        const ArraySpan perturb = take_front(in, num_p), params = take_front(in, num_w),
                        h = take_front(in, num_s), x = take_front(in, num_a);
        const Arrays out = eval_jaxpr(perturbed, joined({executor_.program_inputs(x, h, params), perturb}));
        Arrays results;
        for (std::size_t i = 0; i < info.model.outputs.size(); ++i)
          if (info.model.outputs[i].role == Role::Out) results.push_back(out[i]);
        return Arrays{loss(in, results)};
      },
      types);
  Mask active(types.size(), false);
  for (const std::size_t i : way.perturbed) active[i] = true;
  for (const std::size_t i : way.params) active[num_p + i] = true;
  for (const std::size_t i : way.entry) active[num_p + num_w + i] = is_floating(states[i].dtype);
  way.map = linearize(program, active, {true});
  ways_.push_back(std::move(way));
}

std::size_t StepDerivative::num_residuals() const {
  std::size_t n = 0;
  for (const Way& w : ways_) n += w.map.num_residuals;
  return n;
}

Arrays StepDerivative::residuals(ArraySpan args, ArraySpan states, ArraySpan params, ArraySpan extra) const {
  // −0 added to a state leaves it as it is to the last bit, so that the perturbed step folds into the step.
  Arrays in;
  for (const Var& v : g_.hidden_perturb->perturb_vars) in.push_back(full(v.aval.shape, -0.0, v.aval.dtype));
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
  // Perturbations and entry states have one tangent per step, parameters one for all.
  const std::size_t np = way.perturbed.size(), nw = way.params.size();
  const auto shared = [&](std::size_t i) { return i >= np && i < np + nw; };
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
  for (std::size_t i = 0; i < tangents.size(); ++i)
    (i < np ? found.perturbed : shared(i) ? found.params : found.entry).push_back(ct[num_r + i]);
  return found;
}

// Signals of some groups from the cotangents of their perturbations.
Arrays StepDerivative::group_signal(std::int64_t steps, const Way& way, const Found& found,
                                    std::span<const std::size_t> groups) const {
  const HiddenPerturbation& p = *g_.hidden_perturb;
  Arrays all;  // per perturbation [K, …]
  for (std::size_t i = 0; i < p.perturb_vars.size(); ++i) {
    const Aval& type = p.perturb_vars[i].aval;
    const auto at = std::find(way.perturbed.begin(), way.perturbed.end(), i);
    const Array ct = at == way.perturbed.end()
                         ? Array()
                         : found.perturbed[static_cast<std::size_t>(at - way.perturbed.begin())];
    all.push_back(instantiate(ct, {type.dtype, type.shape.with_front(steps)}));
  }
  const Function one = [&](ArraySpan m) {
    const Arrays each = p.perturb_data_to_hidden_group_data(m, g_.hidden_groups);
    Arrays out;
    for (const std::size_t k : groups) out.push_back(each[k]);
    return out;
  };
  return side_by_side(steps, one, all);
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
  std::vector<std::size_t> every;
  for (std::size_t k = 0; k < g_.hidden_groups.size(); ++k) every.push_back(k);
  result.group_signal = group_signal(steps, ways_[0], found[0], every);
  result.instantaneous.resize(param_leaves(g_.module_info).size());
  for (std::size_t i = 0; i < ways_[0].params.size(); ++i)
    result.instantaneous[ways_[0].params[i]] = found[0].params[i];
  if (ways_.size() == 1) return result;

  std::size_t next = 1;
  for (std::size_t k = 0; k < g_.hidden_groups.size(); ++k) {
    if (g_.hidden_groups[k].hidden_paths.size() < 2) continue;
    result.group_signal[k] = group_signal(steps, ways_[next], found[next], std::array{k})[0];
    ++next;
  }
  const Way& direct = ways_.back();
  for (std::size_t i = 0; i < direct.params.size(); ++i)
    result.instantaneous[direct.params[i]] = found.back().params[i];
  if (direct.entry.empty()) return result;
  const Avals states = state_types(g_);
  Arrays entry;
  std::size_t at = 0;
  for (const std::size_t i : direct.entry) {
    const Aval type{states[i].dtype, states[i].shape.with_front(steps)};
    entry.push_back(instantiate(is_floating(type.dtype) ? found.back().entry[at++] : Array(), type));
  }
  const Function grouped = [&](ArraySpan m) {
    Arrays out;
    for (const HiddenGroup& group : g_.hidden_groups)
      out.push_back(group.concat_hidden(take_front(m, group.hidden_paths.size())));
    return out;
  };
  result.entry_signal = side_by_side(steps, grouped, entry);
  return result;
}

}  // namespace etrace
