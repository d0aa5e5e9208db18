// D-RTRL: one trace per parameter element and output position.
//   e ← D·e + ∂h/∂y·∂y/∂θ        grad θ = Σ ⟨∂L/∂h, e⟩
// In scope `diagonal` D is the per-position block without recurrent products; OSTL with H is the same rule in
// scope `coupled`. A window of K steps passes each trace once (etrace/ops/trace_window.h).
#include <fmt/format.h>

#include <algorithm>

#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/operator_rules.h"
#include "learn/routing.h"
#include "learn/window.h"

namespace etrace {

namespace {

// One trace: a trainable operand of a relation, in one group that the relation reaches.
struct Trace {
  std::size_t relation, group_of_relation;
  const TrainableSource* trainable;
  const HiddenGroup* group;
  TraceSlots slots;
};

std::vector<Trace> traces_of(const ETraceGraph& g) {
  std::vector<Trace> out;
  for (std::size_t r = 0; r < g.hidden_param_op_relations.size(); ++r) {
    const HiddenParamOpRelation& relation = g.hidden_param_op_relations[r];
    for (std::size_t k = 0; k < relation.hidden_groups.size(); ++k)
      for (const TrainableSource& t : relation.trainables) {
        const HiddenGroup& group = g.hidden_groups[relation.hidden_groups[k]];
        out.push_back({r, k, &t, &group, TraceSlots(relation, t, group, g.options.compat)});
      }
  }
  return out;
}

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
  const Array picked = take(signal, Array(Tensor::of(index, {k, count})),
                            2);  // [K, S, neighbours, X]
  const Array masked = picked * convert(Array(Tensor::of(valid, {1, 1, k, count})), signal.dtype());
  return reshape(transpose(masked, {0, 2, 1, 3}), {signal.shape()[0], k * group.num_state(), count});
}

// Steps that do not count leave the trace as it is: D = 1, nothing injected.
struct Freezing {
  Array active;  // [K'] in the data's type; undefined: all count
  Array jacobian(const Array& d) const {
    if (!active.defined()) return d;
    const Array on = reshape(active, {d.shape()[0], 1, 1, 1});
    const Array one = reshape(eye(d.shape()[1], d.dtype()), {1, d.shape()[1], d.shape()[1], 1});
    return on * d + (1.0 - on) * one;
  }
  Array injected(const Array& df) const {
    return active.defined() ? df * reshape(active, {df.shape()[0], 1, 1}) : df;
  }
};

Freezing freezing(const WindowData& w, const HiddenGroup& group, Dtype dtype) {
  if (!w.active.defined()) return {};
  const std::int64_t inner = group.descent ? group.descent->scan.length : 1;
  const Array per_step = broadcast_to(reshape(convert(w.active, dtype), {w.steps, 1}), {w.steps, inner});
  return {reshape(per_step, {w.steps * inner})};
}

}  // namespace

D_RTRL::D_RTRL(const ParamDimOptions& o, bool coupled)
    : LearningRule(o.vjp_method), options_(o), coupled_(coupled) {
  if (o.trace_dtype && !is_floating(*o.trace_dtype))
    throw TypeError(name(), fmt::format("trace_dtype {} cannot hold a trace; use "
                                        "float64, float32, bfloat16 or float16",
                                        etrace::name(*o.trace_dtype)));
}

std::string D_RTRL::describe() const {
  std::string text = fmt::format("{} ({}", name(), etrace::name(vjp_method()));
  if (options_.trace_dtype) text += fmt::format(", traces in {}", etrace::name(*options_.trace_dtype));
  return text + ")";
}

void D_RTRL::configure(CompileOptions& o) const { o.include_recurrent_mixing = coupled_; }

std::vector<LearningRule::Slot> D_RTRL::slots(const ETraceGraph& g) const {
  if (coupled_)
    refuse_inner_loops(g, name(), "there, Jacobians are without the recurrent products that this rule keeps");
  std::vector<Slot> out;
  for (const Trace& t : traces_of(g))
    out.push_back({fmt::format("relation{}/group{}/{}", t.relation, t.group->index, t.trainable->key),
                   t.slots.trace_aval(options_.trace_dtype)});
  return out;
}

Array D_RTRL::unpack(const ETraceGraph& g, std::size_t slot, const Array& value) const {
  return traces_of(g).at(slot).slots.unpack(value);
}
Array D_RTRL::pack(const ETraceGraph& g, std::size_t slot, const Array& value) const {
  return traces_of(g).at(slot).slots.pack(value);
}

std::vector<std::size_t> D_RTRL::slots_of(const ETraceGraph& g, const StatePath& param) const {
  std::vector<std::size_t> out;
  const std::vector<Trace> traces = traces_of(g);
  for (std::size_t i = 0; i < traces.size(); ++i)
    if (std::any_of(traces[i].trainable->leaves.begin(), traces[i].trainable->leaves.end(),
                    [&](const auto& leaf) { return leaf.first == param; }))
      out.push_back(i);
  return out;
}

Arrays D_RTRL::keep(const ETraceGraph& g, const StepData& data) const {
  Arrays out;
  for (const Trace& t : traces_of(g)) {
    const HiddenParamOpRelation& relation = g.hidden_param_op_relations[t.relation];
    const Arrays& operands = data.operands[t.relation];
    Array source;
    if (!relation.control_flow_context) {
      source = t.slots.source(operands);
    } else if (const auto x = etp_rules(*relation.primitive)->x_operand) {
      // One x per inner step.
      const Function one = [&](ArraySpan a) {
        Arrays in = operands;
        in[*x] = a[0];
        const Array s = t.slots.source(in);
        return s.defined() ? Arrays{s} : Arrays{};
      };
      const Arrays all = vmap(one)(Arrays{operands[*x]});
      if (!all.empty()) source = all[0];
    } else {
      source = t.slots.source(operands);
      if (source.defined()) {
        Dims dims = source.shape().to_dims();
        dims.insert(dims.begin(), relation.control_flow_context->length);
        source = broadcast_to(source, Shape(dims));
      }
    }
    if (source.defined()) out.push_back(source);
  }
  return out;
}

namespace {

// What a window gives to the traces of one group, states in front: [K, M…, X].
struct GroupWindow {
  Array jacobians, each_step, entry;
  Freezing freeze;
};

// [K, *varshape, S] -> [K, M, X]. Signals have no axis for the inner steps of a descended loop.
Array signal_of(const HiddenGroup& group, const Array& value) {
  HiddenGroup outside = group;
  outside.descent.reset();
  return neighbours(states_first(outside, value, 1), group);
}

std::vector<GroupWindow> group_windows(const ETraceGraph& g, const WindowData& w, const Signals& signals) {
  std::vector<GroupWindow> out;
  for (std::size_t k = 0; k < g.hidden_groups.size(); ++k) {
    const HiddenGroup& group = g.hidden_groups[k];
    GroupWindow gw;
    gw.freeze = freezing(w, group, w.jacobians[k].dtype());
    gw.jacobians = gw.freeze.jacobian(states_first(group, w.jacobians[k], 2));
    if (!signals.each_step.empty())
      gw.each_step = at_last_substep(group, signal_of(group, signals.each_step[k]));
    if (!signals.entry.empty()) gw.entry = signal_of(group, expand_dims(signals.entry[k], {0}));
    out.push_back(std::move(gw));
  }
  return out;
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

// One trace and its operand's gradient; the signals decide whether there is one.
TraceWindow window_of(const Trace& t, const GroupWindow& gw, const WindowData& w, const Array& sources) {
  const Array df =
      gw.freeze.injected(widen(states_first(*t.group, w.df[t.relation][t.group_of_relation], 1), *t.group));
  const auto summed = [&](const Array& a) { return a.defined() ? t.slots.summed(a) : a; };
  CarriedWindow carried = carry_window(summed(gw.jacobians), summed(gw.each_step));
  const Array injected = t.slots.lined_up(df);  // positions that compat sums stand as steps of their own
  const std::int64_t lines = injected.shape()[0] / df.shape()[0];
  carried.suffix = repeat_steps(carried.suffix, lines);
  carried.adjoint = repeat_steps(carried.adjoint, lines);

  TraceWindow tw = t.slots.window(w.operands[t.relation], sources);
  tw.transition = carried.transition;
  tw.injection = injection(carried, injected);
  tw.entry = carried.entry;
  if (carried.adjoint.defined()) tw.weighted = weighted(carried, injected);
  if (gw.entry.defined()) tw.entry = add_cotangents(tw.entry, squeeze(summed(gw.entry), {0}));
  return tw;
}

}  // namespace

LearningRule::Advanced D_RTRL::advance(const ETraceGraph& g, const WindowData& w, ArraySpan old,
                                       const Signals& signals) const {
  const std::vector<GroupWindow> groups = group_windows(g, w, signals);
  const std::vector<Trace> traces = traces_of(g);
  Advanced result;
  GradientRouter router(g, w.params);
  std::size_t next_kept = 0;
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const Trace& t = traces[i];
    Array sources;  // [K, (L,) J, B, elements]
    if (t.slots.has_source()) {
      sources = w.kept[next_kept++];
      if (t.group->descent) sources = merge_front(sources);
    }
    TraceWindow tw = window_of(t, groups[t.group->index], w, sources);
    tw.trace = old[i];
    const TraceWindowResult moved = trace_window(t.slots.pattern(), tw);
    result.traces.push_back(moved.trace);
    if (moved.gradient.defined())
      router.add(*t.trainable, t.slots.to_operand(w.operands[t.relation], moved.gradient));
  }
  result.gradients = router.result();
  return result;
}

// A window without steps: nothing is added, and the gradient is that of the old trace.
Arrays D_RTRL::contract(const ETraceGraph& g, const WindowData& w, ArraySpan old, ArraySpan signal) const {
  GradientRouter router(g, w.params);
  const std::vector<Trace> traces = traces_of(g);
  for (std::size_t i = 0; i < traces.size(); ++i) {
    const Trace& t = traces[i];
    const Array s = signal_of(*t.group, expand_dims(signal[t.group->index], {0}));
    TraceWindow tw;
    tw.trace = old[i];
    tw.entry = squeeze(t.slots.summed(s), {0});
    const Shape& e = tw.entry.shape();
    tw.transition = zeros_of({s.dtype(), {e[0], e[0], e[1], e[2]}});
    tw.injection = zeros_of({s.dtype(), {0, e[0], e[1], e[2]}});
    const Array gradient = trace_window(t.slots.pattern(), tw).gradient;
    router.add(*t.trainable, t.slots.to_operand(w.operands[t.relation], gradient));
  }
  return router.result();
}

}  // namespace etrace
