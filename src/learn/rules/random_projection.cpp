// An unbiased estimate of the whole influence of parameters on the states of a group, of rank one (UORO).
//   q  = D·s̃ (one forward product through the transition)    ν: random signs    p_θ = νᵀ·∂h/∂θ of this step
//   ρ0 = √((‖θ̃‖+ε)/(‖q‖+ε))                                  ρ1 = √((‖p‖+ε)/(‖ν‖+ε))
//   s̃ ← ρ0·q + ρ1·ν                                          θ̃ ← θ̃/ρ0 + p/ρ1
//   grad θ = Σ_groups ⟨∂L/∂h, s̃⟩·θ̃
// The mean of s̃·θ̃ᵀ over the signs is the influence matrix: cross terms are odd in ν. A step draws from its
// own number, so a sequence that starts anew draws the same.
#include "learn/rules/random_projection.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/random.h"
#include "etrace/transform.h"
#include "learn/traces/lists.h"
#include "learn/traces/operator_rules.h"
#include "learn/traces/routing.h"
#include "learn/traces/window.h"

namespace etrace {

namespace {

Array random_signs(const Array& key, const Array& step, std::size_t group, const Shape& shape, Dtype dtype) {
  const Array own =
      random::fold_in(key, Array(Tensor::full({Dtype::U32, {}}, static_cast<std::int64_t>(group))));
  const Array heads = random::bernoulli(random::fold_in(own, convert(step, Dtype::U32)), 0.5, shape);
  return where(heads, full(shape, 1.0, dtype), full(shape, -1.0, dtype));
}

// Which leaves a group's estimate has, and where it stands among the slots.
struct Carrier {
  std::size_t state;                // slot of s̃ [S, X]
  std::vector<std::size_t> leaves;  // of the parameters, ascending
  std::vector<std::size_t> params;  // slots of θ̃, parallel
};

class RandomProjection final : public BoundRule {
 public:
  RandomProjection(const ETraceGraph& g, std::string rule, RandomProjectionOptions o)
      : g_(g), rule_(std::move(rule)), options_(std::move(o)), leaves_(param_leaves(g.module_info)) {
    if (!options_.draw) options_.draw = random_signs;
    for (const HiddenGroup& group : g.hidden_groups) {
      Carrier c{slots_.size(), leaves_of(group.index), {}};
      const Dtype dtype = group.hidden_states.front().invar.aval.dtype;
      slots_.push_back(
          {fmt::format("group{}/state", group.index), {dtype, {group.num_state(), group.varshape().size()}}});
      for (const std::size_t leaf : c.leaves) {
        c.params.push_back(slots_.size());
        const ParamLeaf& l = leaves_[leaf];
        slots_.push_back(
            {fmt::format("group{}/{}", group.index, to_string(ParamLeafId{l.path, l.leaf, l.key})),
             g.module_info.jaxpr().invars[l.input].aval});
      }
      carriers_.push_back(std::move(c));
    }
  }

  std::vector<TraceSlot> slots() const override { return slots_; }

  std::vector<EligibilityTrace> traces(ArraySpan, ArraySpan memory) const override {
    std::vector<EligibilityTrace> out;
    for (std::size_t k = 0; k < carriers_.size(); ++k) {
      const Carrier& c = carriers_[k];
      std::vector<StatePath> all;
      for (const std::size_t leaf : c.leaves)
        if (std::find(all.begin(), all.end(), leaves_[leaf].path) == all.end())
          all.push_back(leaves_[leaf].path);
      if (all.empty()) continue;
      out.push_back({slots_[c.state].name, slab(k, memory[c.state]), all});
      for (std::size_t i = 0; i < c.leaves.size(); ++i)
        out.push_back({slots_[c.params[i]].name, memory[c.params[i]], {leaves_[c.leaves[i]].path}});
    }
    return out;
  }

  // x of every relation that has one.
  Arrays keep(const StepData& data) const override {
    Arrays out;
    for (std::size_t r = 0; r < g_.hidden_param_op_relations.size(); ++r) {
      const HiddenParamOpRelation& relation = g_.hidden_param_op_relations[r];
      if (const auto x = etp_rules(*relation.primitive)->x_operand)
        out.push_back(x_trace(relation, data.operands[r][*x]));
    }
    return out;
  }

  OwnStep own_step() const override { return OwnStep::Factors; }
  Advanced advance(const WindowData& w, ArraySpan old, const Signals& signals) const override;

  Arrays contract(const WindowData&, ArraySpan memory, ArraySpan signal) const override {
    Arrays out(leaves_.size());
    for (std::size_t k = 0; k < carriers_.size(); ++k)
      add_gradient(out, k, memory, memory[carriers_[k].state],
                   squeeze(states_first(g_.hidden_groups[k], expand_dims(signal[k], {0}), 1), {0}),
                   all_leaves());
    return out;
  }

 private:
  std::vector<std::size_t> leaves_of(std::size_t group) const {
    std::vector<std::size_t> out;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      const auto holds = [&](const HiddenParamOpRelation& r) {
        if (std::find(r.hidden_groups.begin(), r.hidden_groups.end(), group) == r.hidden_groups.end())
          return false;
        return std::any_of(r.trainables.begin(), r.trainables.end(), [&](const TrainableSource& t) {
          return std::find(t.leaves.begin(), t.leaves.end(), std::pair(leaves_[i].path, leaves_[i].leaf)) !=
                 t.leaves.end();
        });
      };
      const auto& relations = g_.hidden_param_op_relations;
      if (std::any_of(relations.begin(), relations.end(), holds)) out.push_back(i);
    }
    return out;
  }

  std::vector<bool> all_leaves() const { return std::vector<bool>(leaves_.size(), true); }

  // [S, X] -> [*varshape, S] and back.
  Array slab(std::size_t group, const Array& s) const {
    Dims dims = g_.hidden_groups[group].varshape().to_dims();
    dims.push_back(s.shape()[0]);
    return reshape(transpose(s), dims);
  }
  Array states_in_front(std::size_t group, const Array& slab) const {
    return squeeze(states_first(g_.hidden_groups[group], expand_dims(slab, {0}), 1), {0});
  }

  // ⟨signal, s̃⟩·θ̃ for the leaves that are wanted.
  void add_gradient(Arrays& into, std::size_t group, ArraySpan memory, const Array& s, const Array& signal,
                    const std::vector<bool>& wanted) const {
    const Carrier& c = carriers_[group];
    if (c.leaves.empty()) return;
    const Array met = sum(signal * s);
    for (std::size_t i = 0; i < c.leaves.size(); ++i) {
      const std::size_t leaf = c.leaves[i];
      if (!wanted[leaf]) continue;
      const Array& theta = memory[c.params[i]];
      into[leaf] = add_cotangents(into[leaf], convert(met, theta.dtype()) * theta);
    }
  }

  // D·s̃ by one push through the transition.
  Array pushed(std::size_t group, ArraySpan transition, const Array& s) const {
    const HiddenGroup& h = g_.hidden_groups[group];
    const std::size_t count = h.hidden_invars.size();
    const ValuesAndTangents out = jvp_eval(h.transition_jaxpr, transition.subspan(count),
                                           transition.first(count), h.split_hidden(slab(group, s)));
    Arrays members;
    for (std::size_t i = 0; i < out.y.size(); ++i) members.push_back(instantiate(out.dy[i], out.y[i].aval()));
    return states_in_front(group, h.concat_hidden(members));
  }

  // νᵀ·∂h/∂θ of one step, per leaf. x and df of this step; df [S, X] per relation and group of it.
  Arrays projected(std::size_t group, const WindowData& w, ArraySpan x, std::span<const Arrays> df,
                   const Array& signs) const {
    GradientRouter router(g_, w.params);
    std::size_t next_x = 0;
    for (std::size_t r = 0; r < g_.hidden_param_op_relations.size(); ++r) {
      const HiddenParamOpRelation& relation = g_.hidden_param_op_relations[r];
      Array own_x;
      if (etp_rules(*relation.primitive)->x_operand) own_x = expand_dims(x[next_x++], {0});
      for (std::size_t k = 0; k < relation.hidden_groups.size(); ++k) {
        if (relation.hidden_groups[k] != group) continue;
        const HiddenGroup& h = g_.hidden_groups[group];
        const Array ct = reshape(reduce_sum(signs * df[r][k], {0}), h.varshape().with_front(1).to_dims());
        for (const TrainableSource& t : relation.trainables)
          router.add(t, TraceSlots(relation, t, h, g_.options.compat).pull(w.operands[r], own_x, ct));
      }
    }
    return router.result();
  }

  static Array norm(ArraySpan parts, Dtype dtype) {
    Array total = zeros_of({dtype, {}});
    for (const Array& p : parts)
      if (p.defined()) total = total + sum(square(convert(p, dtype)));
    return sqrt(total);
  }

  const ETraceGraph& g_;
  std::string rule_;
  RandomProjectionOptions options_;
  std::vector<ParamLeaf> leaves_;
  std::vector<Carrier> carriers_;
  std::vector<TraceSlot> slots_;
};

BoundRule::Advanced RandomProjection::advance(const WindowData& w, ArraySpan old,
                                              const Signals& signals) const {
  // Leaves whose own step is counted elsewhere meet what was carried, without what this step adds.
  std::vector<bool> carried_only(leaves_.size(), false), whole(leaves_.size(), true);
  for (std::size_t r = 0; r < w.own.size(); ++r)
    for (const TrainableSource& t : g_.hidden_param_op_relations[r].trainables)
      for (std::size_t i = 0; i < leaves_.size() && !w.own[r].meets_signal; ++i)
        if (std::find(t.leaves.begin(), t.leaves.end(), std::pair(leaves_[i].path, leaves_[i].leaf)) !=
            t.leaves.end()) {
          carried_only[i] = true;
          whole[i] = false;
        }
  const bool learns = !signals.each_step.empty(), padded = w.active.defined();
  // All that differs between steps as one list: x, df, transitions, signals after and before it, number of
  // the step, active.
  Arrays xs = w.kept;
  for (std::size_t r = 0; r < w.df.size(); ++r)
    for (std::size_t k = 0; k < w.df[r].size(); ++k)
      xs.push_back(
          states_first(g_.hidden_groups[g_.hidden_param_op_relations[r].hidden_groups[k]], w.df[r][k], 1));
  for (const Arrays& t : w.transitions) xs.insert(xs.end(), t.begin(), t.end());
  for (const Arrays* signal : {&signals.each_step, &signals.before_step})
    for (std::size_t k = 0; k < signal->size(); ++k)
      xs.push_back(states_first(g_.hidden_groups[k], (*signal)[k], 1));
  const Array counts = padded ? convert(w.active.rank() == 2 ? any(w.active, {1}) : w.active, Dtype::I32)
                              : full({w.steps}, 1.0, Dtype::I32);
  xs.push_back(w.age + cumsum(counts, 0) - counts);
  if (padded) xs.push_back(w.active);

  const Array key = random::key(options_.projection_key);
  const std::size_t num_slots = slots_.size();
  const auto step = [&](ArraySpan carry, ArraySpan now) -> ScanResult {
    const ArraySpan before = take_front(carry, num_slots);
    const ArraySpan x = take_front(now, w.kept.size());
    std::vector<Arrays> df;
    for (const Arrays& list : w.df) df.push_back(to_list(take_front(now, list.size())));
    std::vector<ArraySpan> transitions;
    for (const Arrays& list : w.transitions) transitions.push_back(take_front(now, list.size()));
    const ArraySpan each = take_front(now, signals.each_step.size()),
                    to_old = take_front(now, signals.before_step.size());
    const Array number = take_front(now, 1)[0], active = padded ? now[0] : Array();
    Arrays after(num_slots), gradients(leaves_.size());
    for (std::size_t k = 0; k < carriers_.size(); ++k) {
      const Carrier& c = carriers_[k];
      const HiddenGroup& group = g_.hidden_groups[k];
      const Array& s = before[c.state];
      const Dtype dtype = s.dtype(), wide = size_of(dtype) < 4 ? Dtype::F32 : dtype;
      Dims dims = group.varshape().to_dims();
      dims.push_back(group.num_state());
      Array q = pushed(k, transitions[k], s),
            signs = states_in_front(k, options_.draw(key, number, k, Shape(dims), dtype));
      // Samples that do not count stay, and add nothing.
      const Array counted = !padded ? Array()
                            : active.rank() == 0
                                ? active
                                : squeeze(position_mask(expand_dims(active, {0}), group), {0});
      if (padded) {
        q = where(counted, q, s);
        signs = where(counted, signs, full_like(signs, 0.0));
      }
      Arrays theta;
      for (const std::size_t slot : c.params) theta.push_back(before[slot]);
      const Arrays all = projected(k, w, x, df, signs);
      Arrays p;
      for (std::size_t i = 0; i < c.leaves.size(); ++i)
        p.push_back(instantiate(all[c.leaves[i]], theta[i].aval()));
      const double eps = options_.projection_eps;
      const Array rho0 = sqrt((norm(theta, wide) + eps) / (norm(Arrays{q}, wide) + eps)),
                  rho1 = sqrt((norm(p, wide) + eps) / (norm(Arrays{signs}, wide) + eps));
      const auto scaled = [](const Array& a, const Array& by) { return a * convert(by, a.dtype()); };
      after[c.state] = scaled(q, rho0) + scaled(signs, rho1);
      for (std::size_t i = 0; i < c.leaves.size(); ++i)
        after[c.params[i]] = scaled(theta[i], 1.0 / rho0) + scaled(p[i], 1.0 / rho1);
      if (padded) {  // a step that nobody counts changes nothing
        const Array any_counts = active.rank() == 0 ? active : any(active);
        after[c.state] = where(any_counts, after[c.state], s);
        for (std::size_t i = 0; i < c.leaves.size(); ++i)
          after[c.params[i]] = where(any_counts, after[c.params[i]], theta[i]);
      }
      if (!learns) continue;
      add_gradient(gradients, k, after, after[c.state], each[k], whole);
      add_gradient(gradients, k, before, q, each[k], carried_only);
      if (!to_old.empty()) add_gradient(gradients, k, before, s, to_old[k], all_leaves());
    }
    for (std::size_t i = 0; i < gradients.size() && learns; ++i)
      if (gradients[i].defined()) after.push_back(carry[after.size() - num_slots] + gradients[i]);
    return {after, {}};
  };
  // Sums of gradients for the leaves that get one, behind the slots.
  std::vector<std::size_t> summed;
  Arrays init(old.begin(), old.end());
  for (std::size_t i = 0; i < leaves_.size() && learns; ++i)
    if (std::any_of(carriers_.begin(), carriers_.end(), [&](const Carrier& c) {
          return std::find(c.leaves.begin(), c.leaves.end(), i) != c.leaves.end();
        })) {
      summed.push_back(i);
      init.push_back(zeros_of(g_.module_info.jaxpr().invars[leaves_[i].input].aval));
    }
  const ScanResult r = over_steps(w.steps, step, init, xs);
  Advanced out{{r.carry.begin(), r.carry.begin() + static_cast<std::ptrdiff_t>(num_slots)},
               Arrays(leaves_.size())};
  for (std::size_t i = 0; i < summed.size(); ++i) out.gradients[summed[i]] = r.carry[num_slots + i];
  if (signals.entry.empty()) return out;
  const Arrays entry = contract(w, old, signals.entry);
  for (std::size_t i = 0; i < entry.size(); ++i)
    out.gradients[i] = add_cotangents(out.gradients[i], entry[i]);
  return out;
}

}  // namespace

std::unique_ptr<const BoundRule> random_projection(const ETraceGraph& g, std::string rule,
                                                   const RandomProjectionOptions& options) {
  refuse_inner_loops(g, rule, "a product with the whole transition has no axis for inner steps");
  refuse_further_data(g, rule, "its projection pulls back through x alone");
  return std::make_unique<RandomProjection>(g, std::move(rule), options);
}

}  // namespace etrace
