// pp_prop (ES-D-RTRL): the trace as a product of an input side and an output side, both low-pass filtered.
//   εx ← αx·εx + x        εf ← αf·D·εf + (1−αf)·∂h/∂y
//   grad θ = pull-back of y at x = εx with cotangent Σ_a signal·εf / (1 − αf^n)
// n counts the steps that εf has seen. The pull-back is linear in εx and in the cotangent, so the steps of a
// window share one, with the sum over them inside a product.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "learn/operator_rules.h"
#include "learn/routing.h"
#include "learn/window.h"

namespace etrace {

DecayOrRank::DecayOrRank(double decay) : decay_(decay) {
  if (!(decay >= 0.0 && decay < 1.0))
    throw ValueError("pp_prop", fmt::format("decay {}; it must lie in [0, 1)", decay));
}
DecayOrRank::DecayOrRank(int rank) : decay_(static_cast<double>(rank - 1) / static_cast<double>(rank + 1)) {
  if (rank < 1) throw ValueError("pp_prop", fmt::format("rank {}; it must be at least 1", rank));
}
int DecayOrRank::rank() const { return static_cast<int>(std::lround(2.0 / (1.0 - decay_) - 1.0)); }

namespace {

const EtpRules& rules_of(const HiddenParamOpRelation& r) { return *etp_rules(*r.primitive); }

// x as it is filtered.
Array represented(const HiddenParamOpRelation& r, const Array& x) {
  const EtpRules& rules = rules_of(r);
  if (rules.x_representation != nullptr) {
    Avals types;
    for (const Atom& a : r.operands) types.push_back(aval_of(a));
    return rules.x_representation(r.eqn_params, x, types);
  }
  return convert(x, is_floating(x.dtype()) ? x.dtype() : r.y_var.aval.dtype);
}

// Traces in order: for every relation the input side, if there is one, and then one output side per group.
struct Layout {
  struct Relation {
    std::optional<std::size_t> x;     // slot, and which kept value feeds it
    std::vector<std::size_t> groups;  // slots
  };
  std::vector<Relation> relations;
  std::size_t count = 0;

  explicit Layout(const ETraceGraph& g) {
    for (const HiddenParamOpRelation& r : g.hidden_param_op_relations) {
      Relation entry;
      if (rules_of(r).x_operand) entry.x = count++;
      for (std::size_t k = 0; k < r.hidden_groups.size(); ++k) entry.groups.push_back(count++);
      relations.push_back(std::move(entry));
    }
  }
};

// 1 − α^n, at least 1e-8; 1 from the thousandth step on.
Array correction(const Array& age, double decay, Dtype dtype) {
  if (decay == 0.0) return full(age.shape(), 1.0, dtype);
  const Array n = convert(age, Dtype::F64);
  const Array c = maximum(1.0 - exp(n * std::log(decay)), 1e-8);
  return convert(where(n > 1000.0, full({}, 1.0, Dtype::F64), c), dtype);
}

}  // namespace

pp_prop::pp_prop(const IODimOptions& o)
    : LearningRule(o.vjp_method),
      decay_x_(o.input_decay_or_rank.value_or(o.decay_or_rank).decay()),
      decay_f_(o.decay_or_rank.decay()) {}

std::string pp_prop::describe() const {
  return decay_x_ == decay_f_
             ? fmt::format("pp_prop (decay {}, {})", decay_f_, etrace::name(vjp_method()))
             : fmt::format("pp_prop (decays {} and {}, {})", decay_x_, decay_f_, etrace::name(vjp_method()));
}

std::vector<LearningRule::Slot> pp_prop::slots(const ETraceGraph& g) const {
  refuse_inner_loops(g, name(), "the factorised rule has one x per step");
  std::vector<Slot> out;
  for (std::size_t r = 0; r < g.hidden_param_op_relations.size(); ++r) {
    const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
    if (const auto x = rules_of(relation).x_operand)
      out.push_back({fmt::format("relation{}/x", r),
                     represented(relation, zeros_of(aval_of(relation.operands[*x]))).aval()});
    for (const std::size_t k : relation.hidden_groups) {
      const HiddenGroup& group = g.hidden_groups[k];
      out.push_back({fmt::format("relation{}/group{}/df", r, k),
                     {relation.y_var.aval.dtype, {group.num_state(), group.varshape().size()}}});
    }
  }
  return out;
}

namespace {
// The group of an output side; none for an input side.
const HiddenGroup* group_of_slot(const ETraceGraph& g, std::size_t slot) {
  const Layout layout(g);
  for (std::size_t r = 0; r < layout.relations.size(); ++r)
    for (std::size_t k = 0; k < layout.relations[r].groups.size(); ++k)
      if (layout.relations[r].groups[k] == slot)
        return &g.hidden_groups[g.hidden_param_op_relations[r].hidden_groups[k]];
  return nullptr;
}
}  // namespace

Array pp_prop::unpack(const ETraceGraph& g, std::size_t slot, const Array& value) const {
  const HiddenGroup* group = group_of_slot(g, slot);
  if (group == nullptr) return value;
  Dims dims = group->varshape().to_dims();
  dims.push_back(group->num_state());
  return reshape(transpose(value), dims);
}
Array pp_prop::pack(const ETraceGraph& g, std::size_t slot, const Array& value) const {
  const HiddenGroup* group = group_of_slot(g, slot);
  return group == nullptr ? value : transpose(reshape(value, {group->varshape().size(), group->num_state()}));
}

std::vector<std::size_t> pp_prop::slots_of(const ETraceGraph& g, const StatePath& param) const {
  std::vector<std::size_t> out;
  const Layout layout(g);
  for (std::size_t r = 0; r < layout.relations.size(); ++r) {
    bool owns = false;
    for (const TrainableSource& t : g.hidden_param_op_relations[r].trainables)
      for (const auto& leaf : t.leaves) owns = owns || leaf.first == param;
    if (!owns) continue;
    if (layout.relations[r].x) out.push_back(*layout.relations[r].x);
    out.insert(out.end(), layout.relations[r].groups.begin(), layout.relations[r].groups.end());
  }
  return out;
}

Arrays pp_prop::keep(const ETraceGraph& g, const StepData& data) const {
  Arrays out;
  for (std::size_t r = 0; r < g.hidden_param_op_relations.size(); ++r) {
    const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
    if (const auto x = rules_of(relation).x_operand)
      out.push_back(represented(relation, data.operands[r][*x]));
  }
  return out;
}

namespace {

// The traces after one step; x, df [S, X] and D [S, S, X] are that step's.
struct Filter {
  const ETraceGraph& g;
  double decay_x, decay_f;

  Arrays operator()(ArraySpan old, ArraySpan x, ArraySpan df, ArraySpan jacobians) const {
    const Layout layout(g);
    Arrays out(layout.count);
    std::size_t next_x = 0, next_df = 0;
    for (std::size_t r = 0; r < layout.relations.size(); ++r) {
      const Layout::Relation& slots = layout.relations[r];
      if (slots.x) out[*slots.x] = decay_x * old[*slots.x] + x[next_x++];
      for (std::size_t k = 0; k < slots.groups.size(); ++k) {
        const Array& d = jacobians[g.hidden_param_op_relations[r].hidden_groups[k]];
        const Array moved = reduce_sum(d * expand_dims(old[slots.groups[k]], {0}), {1});
        out[slots.groups[k]] = decay_f * moved + (1.0 - decay_f) * df[next_df++];
      }
    }
    return out;
  }
};

// Gradients from traces [K, …], signals [K, S, X] per group and ages [K].
Arrays contracted(const ETraceGraph& g, const WindowData& w, ArraySpan traces, ArraySpan signals,
                  const Array& ages, double decay_f) {
  GradientRouter router(g, w.params);
  const Layout layout(g);
  for (std::size_t r = 0; r < layout.relations.size(); ++r) {
    const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
    const Array x = layout.relations[r].x ? traces[*layout.relations[r].x] : Array();
    for (std::size_t k = 0; k < relation.hidden_groups.size(); ++k) {
      const Array& f = traces[layout.relations[r].groups[k]];
      const HiddenGroup& group = g.hidden_groups[relation.hidden_groups[k]];
      const std::int64_t steps = f.shape()[0];
      const Array scale = reshape(correction(ages, decay_f, f.dtype()), {steps, 1});
      const Array ct = reduce_sum(signals[group.index] * f, {1}) / scale;  // [K, X]
      for (const TrainableSource& t : relation.trainables)
        router.add(t, TraceSlots(relation, t, group, g.options.compat)
                          .pull(w.operands[r], x, reshape(ct, group.varshape().with_front(steps).to_dims())));
    }
  }
  return router.result();
}

Arrays signals_of(const ETraceGraph& g, ArraySpan signals) {  // [K, *varshape, S] -> [K, S, X]
  Arrays out;
  for (std::size_t k = 0; k < signals.size(); ++k)
    out.push_back(states_first(g.hidden_groups[k], signals[k], 1));
  return out;
}

Arrays with_step_axis(ArraySpan values) {
  Arrays out;
  for (const Array& v : values) out.push_back(expand_dims(v, {0}));
  return out;
}

}  // namespace

LearningRule::Advanced pp_prop::advance(const ETraceGraph& g, const WindowData& w, ArraySpan old,
                                        const Signals& signals) const {
  const Filter filter{g, decay_x_, decay_f_};
  // Everything that differs between steps, as one list: x, df, D, active.
  Arrays xs = w.kept;
  for (std::size_t r = 0; r < w.df.size(); ++r)
    for (std::size_t k = 0; k < w.df[r].size(); ++k)
      xs.push_back(
          states_first(g.hidden_groups[g.hidden_param_op_relations[r].hidden_groups[k]], w.df[r][k], 1));
  const std::size_t num_x = w.kept.size(), num_df = xs.size() - num_x;
  for (std::size_t k = 0; k < w.jacobians.size(); ++k)
    xs.push_back(states_first(g.hidden_groups[k], w.jacobians[k], 2));
  if (w.active.defined()) xs.push_back(w.active);
  Arrays init(old.begin(), old.end());
  init.push_back(w.age);
  const ScanResult r = over_steps(
      w.steps,
      [&](ArraySpan carry, ArraySpan now) -> ScanResult {
        const ArraySpan before = carry.first(carry.size() - 1);
        Arrays after = filter(before, now.first(num_x), now.subspan(num_x, num_df),
                              now.subspan(num_x + num_df, w.jacobians.size()));
        Array age = carry.back() + Array(1);
        if (w.active.defined()) {
          for (std::size_t i = 0; i < after.size(); ++i) after[i] = where(now.back(), after[i], before[i]);
          age = where(now.back(), age, carry.back());
        }
        after.push_back(age);
        return {after, signals.each_step.empty() ? Arrays{} : after};
      },
      init, xs);
  Advanced result;
  result.traces.assign(r.carry.begin(), r.carry.end() - 1);
  if (!signals.each_step.empty())
    result.gradients = contracted(g, w, ArraySpan(r.ys).first(r.ys.size() - 1),
                                  signals_of(g, signals.each_step), r.ys.back(), decay_f_);
  if (!signals.entry.empty()) {
    const Arrays entry = contract(g, w, old, signals.entry);
    result.gradients.resize(entry.size());
    for (std::size_t i = 0; i < entry.size(); ++i)
      result.gradients[i] = add_cotangents(result.gradients[i], entry[i]);
  }
  return result;
}

// The reference counts the calls, this one included; the correction of the old trace is that of its own age.
Arrays pp_prop::contract(const ETraceGraph& g, const WindowData& w, ArraySpan traces,
                         ArraySpan signal) const {
  const Array age = g.options.compat == Compat::Braintrace ? w.calls + Array(1) : w.age;
  return contracted(g, w, with_step_axis(traces), signals_of(g, with_step_axis(signal)),
                    expand_dims(age, {0}), decay_f_);
}

}  // namespace etrace
