// Traces of single parameters: see the header. Start with Impl::advance.
#include "etrace/parameter_traces.h"

#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/traces/composite_traces.h"
#include "learn/traces/kappa_lift.h"
#include "learn/traces/operator_rules.h"
#include "learn/traces/routing.h"
#include "learn/traces/window.h"

namespace etrace {

namespace {

// One trace: a trainable operand of a relation, in one group that the relation reaches.
struct Trace {
  std::size_t relation, group_of_relation;
  const TrainableSource* trainable;
  const HiddenGroup* group;
  TraceSlots slots;
  bool as_factors = false;  // D is zero: the last x and f stand for the trace
  std::size_t slot = 0;     // among the slots; as factors: that of f
};

// Where the last x of a relation is kept, for traces as factors.
struct LastX {
  std::size_t relation, slot;
};

// SnAp: the position itself is neighbour 0, the others start at zero. [K, S, X] -> [K, M, X]
Array widen(const Array& df, const HiddenGroup& group) {
  std::vector<PadAxis> axes(3);
  axes[1].high = group.trace_state_width() - group.num_state();
  return axes[1].high == 0 ? df : pad(df, convert(Array(0.0), df.dtype()), axes);
}

// SnAp: the signal of every neighbour. [K, S, X] -> [K, M, X]
Array neighbours(const Array& signal, const HiddenGroup& group) {
  if (!group.snap) return signal;
  const PositionPattern& p = *group.snap;
  const auto count = static_cast<std::int64_t>(p.neighbours.size()),
             k = static_cast<std::int64_t>(p.num_neighbour());
  std::vector<std::int64_t> index;
  std::vector<double> valid;
  for (std::int64_t j = 0; j < k; ++j)
    for (std::size_t i = 0; i < p.neighbours.size(); ++i) {
      index.push_back(p.neighbours[i][static_cast<std::size_t>(j)]);
      valid.push_back(p.valid[i][static_cast<std::size_t>(j)] ? 1.0 : 0.0);
    }
  const Array picked = take(signal, Array(Tensor::of(index, {k, count})), 2);  // [K, S, neighbours, X]
  const Array masked = picked * convert(Array(Tensor::of(valid, {1, 1, k, count})), signal.dtype());
  return reshape(transpose(masked, {0, 2, 1, 3}), {signal.shape()[0], k * group.num_state(), count});
}

// Steps that do not count leave the trace as it is: D = 1, nothing injected.
struct Freezing {
  Array active;  // [K', 1] or [K', X] in the data's type; undefined: all count
  Array jacobian(const Array& d) const {
    if (!active.defined()) return d;
    const Array on = expand_dims(active, {1, 2});
    const Array one = reshape(eye(d.shape()[1], d.dtype()), {1, d.shape()[1], d.shape()[1], 1});
    return on * d + (1.0 - on) * one;
  }
  Array injected(const Array& df) const {  // [K', M, X, …]
    if (!active.defined()) return df;
    Array on = expand_dims(active, {1});
    while (on.rank() < df.rank()) on = expand_dims(on, {-1});
    return df * on;
  }
};

// Steps of the group's own within one step of the model.
std::int64_t inner_steps(const HiddenGroup& group) { return group.descent ? group.descent->scan.length : 1; }

// active [K] or [K, B] -> [K·L, 1] or [K·L, X]
Freezing freezing(const WindowData& w, const HiddenGroup& group, Dtype dtype) {
  if (!w.active.defined()) return {};
  const std::int64_t inner = inner_steps(group);
  Array on = convert(w.active, dtype);
  std::int64_t wide = 1;
  if (w.active.rank() == 2) {  // every position of a sample
    const std::int64_t samples = w.active.shape()[1];
    wide = group.varshape().size();
    on = broadcast_to(expand_dims(on, {2}), {w.steps, samples, wide / samples});
  }
  on = reshape(on, {w.steps, 1, wide});
  return {reshape(broadcast_to(on, {w.steps, inner, wide}), {w.steps * inner, wide})};
}

// What a window gives to the traces of one group, states in front: [K, M…, X].
struct GroupWindow {
  StepSignals signals;
  Array entry;  // [1, M, X]
  Freezing freeze;
  Array jacobians;
  CarriedWindow carried;  // of all positions, unless some trace sums them first
};

bool is_unfiltered(const ParameterTraceOptions& o, const HiddenInfo& h) {
  return std::find(o.unfiltered.begin(), o.unfiltered.end(), to_string(h.path)) != o.unfiltered.end();
}

void require_hidden_states(const ETraceGraph& g, const ParameterTraceOptions& o) {
  std::vector<std::string> known;
  for (const HiddenGroup& group : g.hidden_groups)
    for (const HiddenInfo& h : group.hidden_states) known.push_back(to_string(h.path));
  for (const std::string& path : o.unfiltered)
    if (std::find(known.begin(), known.end(), path) == known.end())
      throw ValueError(
          o.rule, fmt::format("unfiltered names {}, which is no hidden state in a group; there are: {}", path,
                              fmt::join(known, ", ")));
}

// Axes 0 and 1 as one.
Array merge_front(const Array& a) {
  Dims dims = a.shape().to_dims();
  dims[1] *= dims[0];
  dims.erase(dims.begin());
  return reshape(a, dims);
}

// Every step `count` times.
Array repeat_steps(const Array& a, std::int64_t count) {
  if (count == 1 || !a.defined()) return a;
  Dims dims = a.shape().to_dims();
  dims.insert(dims.begin() + 1, count);
  return merge_front(broadcast_to(expand_dims(a, {1}), Shape(dims)));
}

}  // namespace

struct ParameterTraces::Impl {
  Impl(const ETraceGraph& graph, ParameterTraceOptions o);

  Array signal_of(const HiddenGroup& group, const Array& value) const;
  std::optional<KappaLift> lift_for(const Signals&) const;
  Array filtered_states(const HiddenGroup&, Dtype) const;
  std::vector<GroupWindow> group_windows(const WindowData&, const Signals&,
                                         const std::optional<KappaLift>&) const;
  Array moved_by(const HiddenGroup&, const Array& jacobians, const std::optional<KappaLift>&) const;
  CarriedWindow carry_neighbours(const HiddenGroup&, const WindowData&, const GroupWindow&,
                                 const std::optional<KappaLift>&) const;
  CarriedWindow carried_for(const Trace&, const GroupWindow&) const;
  Array injected(const Trace&, const GroupWindow&, const WindowData&, const std::optional<KappaLift>&) const;
  TraceWindow window_of(const Trace&, const GroupWindow&, const WindowData&,
                        const std::optional<KappaLift>&) const;
  Array source_of(const Trace&, const StepData&) const;
  Array x_of(const Trace& t, ArraySpan per_relation) const { return per_relation[t.relation]; }
  Array cotangent_of(const Trace&, const WindowData&, Dtype) const;
  Array factor_gradient(const Trace&, const WindowData&, const Array& x, const Array& ct) const;
  void add_factor_gradients(GradientRouter&, const Trace&, const GroupWindow&, const WindowData&,
                            const Array& x, ArraySpan old) const;
  const LastX* last_x(std::size_t relation) const;

  const ETraceGraph& g;
  ParameterTraceOptions options;
  std::vector<bool> zero_jacobian;  // per group
  std::vector<Trace> traces;
  std::vector<LastX> last_xs;
  std::vector<TraceSlot> slots;  // without those of composites, which follow
  CompositeTraces composites;
};

ParameterTraces::Impl::Impl(const ETraceGraph& graph, ParameterTraceOptions o)
    : g(graph),
      options(std::move(o)),
      composites(graph,
                 {options.rule, options.trace_dtype, options.kappa ? 2 : 1, options.composite_max_bytes}) {
  require_hidden_states(g, options);
  for (const HiddenGroup& group : g.hidden_groups)
    zero_jacobian.push_back(!group.snap && !group.descent && !options.trace_dtype && !options.kappa &&
                            !options.jacobian && (options.memoryless || has_zero_jacobian(group)));
  for (std::size_t r = 0; r < g.hidden_param_op_relations.size(); ++r) {
    const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
    for (std::size_t k = 0; k < relation.hidden_groups.size(); ++k) {
      const HiddenGroup& group = g.hidden_groups[relation.hidden_groups[k]];
      std::optional<std::size_t> factor_slot;
      bool as_factors = zero_jacobian[group.index];  // x and f serve all weights of a relation, or none
      for (const TrainableSource& t : relation.trainables)
        as_factors = as_factors && TraceSlots(relation, t, group, g.options.compat).is_product_of_data();
      for (const TrainableSource& t : relation.trainables) {
        Trace trace{r, k, &t, &group,
                    TraceSlots(relation, t, group, g.options.compat, options.kappa ? 2 : 1)};
        if ((group.snap || options.kappa) && trace.slots.sums_positions())
          throw NotSupportedError(
              options.rule,
              fmt::format("{}: {} has positions that share a weight, and compat sums them before a trace can "
                          "tell them apart. Use D_RTRL, or no compat",
                          to_string(relation.path()), relation.primitive->name()));
        trace.as_factors = as_factors;
        if (!trace.as_factors) {
          trace.slot = slots.size();
          slots.push_back({fmt::format("relation{}/group{}/{}", r, group.index, t.key),
                           trace.slots.trace_aval(options.trace_dtype), PortRole::Trace, r});
        } else {
          if (const auto x = etp_rules(*relation.primitive)->x_operand; x && last_x(r) == nullptr) {
            last_xs.push_back({r, slots.size()});
            slots.push_back({fmt::format("relation{}/x", r), x_trace_aval(relation), PortRole::Trace, r});
          }
          if (!factor_slot) {
            factor_slot = slots.size();
            slots.push_back({fmt::format("relation{}/group{}/df", r, group.index),
                             {relation.y_var.aval.dtype, {group.num_state(), group.varshape().size()}},
                             PortRole::Trace,
                             r});
          }
          trace.slot = *factor_slot;
        }
        traces.push_back(std::move(trace));
      }
    }
  }
}

const LastX* ParameterTraces::Impl::last_x(std::size_t relation) const {
  for (const LastX& x : last_xs)
    if (x.relation == relation) return &x;
  return nullptr;
}

ParameterTraces::ParameterTraces(const ETraceGraph& g, ParameterTraceOptions o)
    : impl_(std::make_unique<const Impl>(g, std::move(o))) {}
ParameterTraces::~ParameterTraces() = default;

std::vector<TraceSlot> ParameterTraces::slots() const {
  std::vector<TraceSlot> out = impl_->slots;
  const std::vector<TraceSlot>& more = impl_->composites.slots();
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// Showing ---------------------------------------------------------------------------------------------------
std::vector<EligibilityTrace> ParameterTraces::traces(ArraySpan params, ArraySpan memory) const {
  const Impl& m = *impl_;
  std::vector<EligibilityTrace> all;
  for (const Trace& t : m.traces) {
    EligibilityTrace shown{
        fmt::format("relation{}/group{}/{}", t.relation, t.group->index, t.trainable->key), {}, {}};
    for (const auto& leaf : t.trainable->leaves) shown.params.push_back(leaf.first);
    Array value = memory[t.slot];
    if (t.as_factors) {
      const HiddenParamOpRelation& relation = m.g.hidden_param_op_relations[t.relation];
      Arrays operands = parameter_operands(m.g, relation, params);
      const LastX* x = m.last_x(t.relation);
      if (x != nullptr) operands[*etp_rules(*relation.primitive)->x_operand] = memory[x->slot];
      value = t.slots.made_of(operands, value);
    }
    shown.value = t.slots.unpack(value);
    all.push_back(std::move(shown));
  }
  for (EligibilityTrace& shown : m.composites.shown(memory.subspan(m.slots.size())))
    all.push_back(std::move(shown));
  if (!m.options.kappa) return all;
  std::vector<EligibilityTrace> out;  // each, then its filtered half
  for (EligibilityTrace& shown : all) {
    const int states = static_cast<int>(shown.value.rank()) - 1;
    const std::int64_t width = shown.value.shape().back() / 2;
    std::string name = shown.name;
    name.insert(name.rfind('/'), "/kappa");
    EligibilityTrace filtered{std::move(name), slice_axis(shown.value, states, width, 2 * width),
                              shown.params};
    shown.value = slice_axis(shown.value, states, 0, width);
    out.push_back(std::move(shown));
    out.push_back(std::move(filtered));
  }
  return out;
}

// One step --------------------------------------------------------------------------------------------------
Array ParameterTraces::Impl::source_of(const Trace& t, const StepData& data) const {
  const HiddenParamOpRelation& relation = g.hidden_param_op_relations[t.relation];
  const Arrays& operands = data.operands[t.relation];
  if (!relation.control_flow_context) return t.slots.source(operands);
  if (const auto x = etp_rules(*relation.primitive)->x_operand) {  // one x per inner step
    const Function one = [&](ArraySpan a) {
      Arrays in = operands;
      in[*x] = a[0];
      const Array s = t.slots.source(in);
      return s.defined() ? Arrays{s} : Arrays{};
    };
    const Arrays all = vmap(one)(Arrays{operands[*x]});
    return all.empty() ? Array() : all[0];
  }
  const Array source = t.slots.source(operands);
  if (!source.defined()) return source;
  return broadcast_to(source, source.shape().with_front(relation.control_flow_context->length));
}

// The last x of relations with factors, then one source per trace that has one, then what composites need.
Arrays ParameterTraces::keep(const StepData& data) const {
  Arrays out;
  for (const LastX& x : impl_->last_xs) {
    const HiddenParamOpRelation& relation = impl_->g.hidden_param_op_relations[x.relation];
    out.push_back(x_trace(relation, data.operands[x.relation][*etp_rules(*relation.primitive)->x_operand]));
  }
  for (const Trace& t : impl_->traces) {
    if (t.as_factors) continue;
    const Array source = impl_->source_of(t, data);
    if (source.defined()) out.push_back(source);
  }
  const Arrays more = impl_->composites.keep(data);
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

// A window --------------------------------------------------------------------------------------------------
// [K, *varshape, S] -> [K, M, X]. Signals have no axis for the inner steps of a descended loop.
Array ParameterTraces::Impl::signal_of(const HiddenGroup& group, const Array& value) const {
  HiddenGroup outside = group;
  outside.descent.reset();
  return neighbours(states_first(outside, value, 1), group);
}

std::optional<KappaLift> ParameterTraces::Impl::lift_for(const Signals& signals) const {
  if (!options.kappa) return std::nullopt;
  KappaLift lift{KappaLift::EachStep, *options.kappa};
  if (g.options.compat == Compat::Braintrace && signals.each_step.empty())
    lift.when = signals.entry.empty() ? KappaLift::Never : KappaLift::AtEntry;
  return lift;
}

// Per state of the group [M]: 1 if signals to it meet the filter, 0 if they meet the trace itself. Undefined:
// all meet the filter.
Array ParameterTraces::Impl::filtered_states(const HiddenGroup& group, Dtype dtype) const {
  if (options.unfiltered.empty()) return {};
  std::vector<double> mask;
  for (const HiddenInfo& h : group.hidden_states)
    mask.insert(mask.end(), static_cast<std::size_t>(h.num_state), is_unfiltered(options, h) ? 0.0 : 1.0);
  const std::vector<double> own = mask;  // the same for every neighbour under SnAp
  while (static_cast<std::int64_t>(mask.size()) < group.trace_state_width())
    mask.insert(mask.end(), own.begin(), own.end());
  return array(mask, dtype);
}

std::vector<GroupWindow> ParameterTraces::Impl::group_windows(const WindowData& w, const Signals& signals,
                                                              const std::optional<KappaLift>& lift) const {
  std::vector<GroupWindow> out;
  for (std::size_t k = 0; k < g.hidden_groups.size(); ++k) {
    const HiddenGroup& group = g.hidden_groups[k];
    const Array filtered = filtered_states(group, w.jacobians[k].dtype());
    GroupWindow gw;
    gw.freeze = freezing(w, group, w.jacobians[k].dtype());
    const auto met = [&](const Array& signal) {
      const Array own = signal_of(group, signal);
      return lift ? KappaLift::signal(own, filtered) : own;
    };
    if (!signals.each_step.empty()) gw.signals.after = met(signals.each_step[k]);
    if (!signals.before_step.empty()) gw.signals.before = met(signals.before_step[k]);
    if (!signals.entry.empty()) {
      gw.entry = signal_of(group, expand_dims(signals.entry[k], {0}));
      if (lift)
        gw.entry = lift->when == KappaLift::AtEntry ? lift->entry_signal(gw.entry, filtered)
                   : options.kappa_at_entry         ? KappaLift::signal(gw.entry, filtered)
                                                    : KappaLift::unfiltered(gw.entry);
    }
    if (group.snap && w.steps > 1) {
      gw.carried = carry_neighbours(group, w, gw, lift);
    } else {
      gw.jacobians = gw.freeze.jacobian(moved_by(group, w.jacobians[k], lift));
      gw.carried = carry_window(gw.jacobians, gw.signals, inner_steps(group));
    }
    if (lift && lift->when == KappaLift::AtEntry)
      gw.carried.transition = lift->entry_step(gw.carried.transition);
    out.push_back(std::move(gw));
  }
  return out;
}

// What moves the traces of a group from step to step, [K, *varshape, M, M] -> [K, M, M, X].
Array ParameterTraces::Impl::moved_by(const HiddenGroup& group, const Array& jacobians,
                                      const std::optional<KappaLift>& lift) const {
  Array d = states_first(group, jacobians, 2);
  if (options.memoryless) d = zeros_of(d.aval());
  if (options.jacobian) d = options.jacobian(d);
  return lift ? lift->jacobian(d) : d;
}

// SnAp: the widened Jacobian of each step when its turn comes. What is injected belongs to the position
// itself, which is neighbour 0.
CarriedWindow ParameterTraces::Impl::carry_neighbours(const HiddenGroup& group, const WindowData& w,
                                                      const GroupWindow& gw,
                                                      const std::optional<KappaLift>& lift) const {
  const Arrays& transition = w.transitions[group.index];
  const std::size_t states = group.hidden_states.size();
  Arrays each = transition;
  if (gw.freeze.active.defined()) each.push_back(gw.freeze.active);
  const JacobianOfStep jacobian = [&](ArraySpan now) {
    const Array d =
        group.diagonal_jacobian(now.first(states), now.subspan(states, transition.size() - states));
    const Freezing freeze{gw.freeze.active.defined() ? expand_dims(now.back(), {0}) : Array()};
    return squeeze(freeze.jacobian(moved_by(group, expand_dims(d, {0}), lift)), {0});
  };
  const std::int64_t own = group.num_state(), width = group.trace_state_width();
  Dims columns;
  for (std::int64_t half = 0; half < (lift ? 2 : 1); ++half)
    for (std::int64_t s = 0; s < own; ++s) columns.push_back(half * width + s);
  const std::int64_t all = lift ? 2 * width : width;
  return carry_wide_window(jacobian, {w.jacobians[group.index].dtype(), {all, all, group.varshape().size()}},
                           each, gw.signals, columns);
}

// Carried once per group; where positions are summed before they multiply (compat), once per trace.
CarriedWindow ParameterTraces::Impl::carried_for(const Trace& t, const GroupWindow& gw) const {
  const auto summed = [&](const Array& a) { return a.defined() ? t.slots.summed(a) : a; };
  if (t.slots.sums_positions())
    return carry_window(summed(gw.jacobians), {summed(gw.signals.after), summed(gw.signals.before)},
                        inner_steps(*t.group));
  const auto split = [&](const Array& a) {  // without a step axis in front
    return a.defined() ? squeeze(t.slots.summed(expand_dims(a, {0})), {0}) : a;
  };
  const CarriedWindow& c = gw.carried;
  return {split(c.transition), summed(c.suffix), c.columns, split(c.entry), summed(c.later), summed(c.own)};
}

Array ParameterTraces::Impl::injected(const Trace& t, const GroupWindow& gw, const WindowData& w,
                                      const std::optional<KappaLift>& lift) const {
  const Array f = widen(states_first(*t.group, w.df[t.relation][t.group_of_relation], 1), *t.group);
  return gw.freeze.injected(lift ? lift->injection(f) : f);
}

// ∂L/∂y of each step [K, X], at the first group of the relation; undefined: none.
Array ParameterTraces::Impl::cotangent_of(const Trace& t, const WindowData& w, Dtype dtype) const {
  const Array& ct = w.own[t.relation].cotangent;
  if (!ct.defined() || t.group_of_relation != 0) return {};
  return convert(reshape(ct, {w.steps, ct.size() / w.steps}), dtype);
}

// What a relation gives to its traces in one group; the signals decide whether there is a gradient. Traces of
// one relation differ in their source only.
TraceWindow ParameterTraces::Impl::window_of(const Trace& t, const GroupWindow& gw, const WindowData& w,
                                             const std::optional<KappaLift>& lift) const {
  const Array df = injected(t, gw, w, lift);
  CarriedWindow carried = carried_for(t, gw);
  const Array lined = t.slots.lined_up(df);  // positions that compat sums stand as steps of their own
  const std::int64_t lines = lined.shape()[0] / df.shape()[0];
  for (Array* each : {&carried.suffix, &carried.later, &carried.own}) *each = repeat_steps(*each, lines);

  TraceWindow tw;
  tw.transition = carried.transition;
  tw.injection = injection(carried, lined);
  tw.entry = carried.entry;
  if (carried.own.defined()) {
    tw.weighted = weighted(carried, lined, w.own[t.relation].meets_signal);
    if (const Array ct = cotangent_of(t, w, df.dtype()); ct.defined())
      tw.weighted = add_cotangents(tw.weighted, t.slots.summed(ct));
    if (!tw.weighted.defined()) {  // a pass with a gradient has both of its parts
      const Shape& q = tw.injection.shape();
      tw.weighted = zeros_of({df.dtype(), {q[0], q[2], q[3]}});
    }
  }
  if (gw.entry.defined()) tw.entry = add_cotangents(tw.entry, squeeze(t.slots.summed(gw.entry), {0}));
  return tw;
}

// Gradient of the operand for cotangents of y [K, X] and x [K, …].
Array ParameterTraces::Impl::factor_gradient(const Trace& t, const WindowData& w, const Array& x,
                                             const Array& ct) const {
  return t.slots.pull(w.operands[t.relation], x,
                      reshape(ct, t.group->varshape().with_front(ct.shape()[0]).to_dims()));
}

// Where D is zero, only signals to old states have a past to meet: that of one step.
void ParameterTraces::Impl::add_factor_gradients(GradientRouter& router, const Trace& t,
                                                 const GroupWindow& gw, const WindowData& w, const Array& x,
                                                 ArraySpan old) const {
  CarriedWindow met = gw.carried;
  if (!gw.signals.before.defined()) met.later = met.entry = {};
  const Array f = gw.freeze.injected(states_first(*t.group, w.df[t.relation][t.group_of_relation], 1));
  const Array ct =
      add_cotangents(weighted(met, f, w.own[t.relation].meets_signal), cotangent_of(t, w, f.dtype()));
  if (ct.defined()) router.add(*t.trainable, factor_gradient(t, w, x, ct));
  const Array entry = add_cotangents(met.entry, gw.entry.defined() ? squeeze(gw.entry, {0}) : Array());
  if (!entry.defined()) return;
  const LastX* last = last_x(t.relation);
  router.add(*t.trainable,
             factor_gradient(t, w, last != nullptr ? expand_dims(old[last->slot], {0}) : Array(),
                             expand_dims(reduce_sum(entry * old[t.slot], {0}), {0})));
}

namespace {

// The value at the last step that counts; if none does, the old one. values [K, …]
Array at_last_active(const Array& values, const Array& old, const Array& active) {
  const std::int64_t steps = values.shape()[0];
  const auto last = [&] { return squeeze(slice_axis(values, 0, steps - 1, steps), {0}); };
  if (!active.defined()) return last();
  Array now = old;
  for (std::int64_t k = 0; k < steps; ++k)
    now = where(squeeze(slice_axis(active, 0, k, k + 1), {0}), squeeze(slice_axis(values, 0, k, k + 1), {0}),
                now);
  return now;
}

}  // namespace

BoundRule::Advanced ParameterTraces::advance(const WindowData& w, ArraySpan old,
                                             const Signals& signals) const {
  const Impl& m = *impl_;
  const std::optional<KappaLift> lift = m.lift_for(signals);
  const std::vector<GroupWindow> groups = m.group_windows(w, signals, lift);
  Advanced result;
  result.memory.resize(m.slots.size());
  GradientRouter router(m.g, w.params);
  Arrays xs(m.g.hidden_param_op_relations.size());  // of every step, per relation
  std::size_t next_kept = 0;
  for (const LastX& x : m.last_xs) {
    xs[x.relation] = w.kept[next_kept++];
    result.memory[x.slot] =
        at_last_active(xs[x.relation], old[x.slot], sample_mask(w.active, xs[x.relation].rank()));
  }
  TraceWindow shared;
  const Trace* before = nullptr;
  for (const Trace& t : m.traces) {
    const GroupWindow& gw = groups[t.group->index];
    if (t.as_factors) {
      m.add_factor_gradients(router, t, gw, w, xs[t.relation], old);
      const Array f = states_first(*t.group, w.df[t.relation][t.group_of_relation], 1);
      if (!result.memory[t.slot].defined())
        result.memory[t.slot] = at_last_active(f, old[t.slot], position_mask(w.active, *t.group));
      continue;
    }
    Array sources;  // [K, (L,) J, B, elements]
    if (t.slots.has_source()) {
      sources = w.kept[next_kept++];
      if (t.group->descent) sources = merge_front(sources);
    }
    const bool next_relation =
        before == nullptr || before->relation != t.relation || before->group != t.group;
    if (next_relation || t.slots.sums_positions() || before->slots.sums_positions())
      shared = m.window_of(t, gw, w, lift);
    before = &t;
    TraceWindow tw = shared;
    const TraceWindow own = t.slots.window(w.operands[t.relation], sources);
    tw.source = own.source;
    tw.gain = own.gain;
    tw.name = m.slots[t.slot].name;
    tw.trace = old[t.slot];
    tw.rounding = rounding_key(w, tw.trace.dtype(), t.slot);
    const TraceWindowResult moved = trace_window(t.slots.pattern(), tw);
    result.memory[t.slot] = moved.trace;
    if (moved.gradient.defined())
      router.add(*t.trainable, t.slots.to_operand(w.operands[t.relation], moved.gradient));
  }
  std::vector<CompositeGroupWindow> wide;
  for (const GroupWindow& gw : groups)
    wide.push_back({gw.carried, gw.entry,
                    [&](const Array& f) { return gw.freeze.injected(lift ? lift->injection(f) : f); }});
  const Arrays more = m.composites.advance(w, ArraySpan(w.kept).subspan(next_kept),
                                           old.subspan(m.slots.size()), wide, router);
  result.memory.insert(result.memory.end(), more.begin(), more.end());
  result.gradients = router.result();
  return result;
}

// A window without steps: nothing is added, and the gradient is that of the old trace.
Arrays ParameterTraces::contract(const WindowData& w, ArraySpan old, ArraySpan signal) const {
  const Impl& m = *impl_;
  GradientRouter router(m.g, w.params);
  Arrays signals;  // per group [1, M, X]
  for (const HiddenGroup& group : m.g.hidden_groups) {
    Array s = m.signal_of(group, expand_dims(signal[group.index], {0}));
    if (m.options.kappa) s = KappaLift::signal(s, m.filtered_states(group, s.dtype()));
    signals.push_back(std::move(s));
  }
  for (const Trace& t : m.traces) {
    const Array& s = signals[t.group->index];
    if (t.as_factors) {
      const LastX* x = m.last_x(t.relation);
      const Array ct = expand_dims(reduce_sum(squeeze(s, {0}) * old[t.slot], {0}), {0});
      router.add(*t.trainable,
                 m.factor_gradient(t, w, x != nullptr ? expand_dims(old[x->slot], {0}) : Array(), ct));
      continue;
    }
    TraceWindow tw;
    tw.name = m.slots[t.slot].name;
    tw.trace = old[t.slot];
    tw.entry = squeeze(t.slots.summed(s), {0});
    const Shape& e = tw.entry.shape();
    tw.transition = zeros_of({s.dtype(), {e[0], e[0], e[1], e[2]}});
    tw.injection = zeros_of({s.dtype(), {0, e[0], e[1], e[2]}});
    const Array gradient = trace_window(t.slots.pattern(), tw).gradient;
    router.add(*t.trainable, t.slots.to_operand(w.operands[t.relation], gradient));
  }
  m.composites.contract(w, old.subspan(m.slots.size()), signals, router);
  return router.result();
}

}  // namespace etrace
