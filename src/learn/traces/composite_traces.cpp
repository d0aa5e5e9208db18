#include "learn/traces/composite_traces.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/explain_text.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"

namespace etrace {

namespace {

constexpr std::size_t kFirstNumber = 1 << 16;  // behind those of traces of single parameters

// How the result of a composite relation lies to the positions of a group.
struct Lanes {
  std::int64_t positions, samples;  // of the states; positions of all samples
  bool per_sample;                  // the rows of y are the group's samples
  std::int64_t rows;                // of y that act on every lane
  Shape sample_y;                   // of one row

  Lanes(const HiddenParamOpRelation& r, const HiddenGroup& group)
      : positions(group.varshape().size()), samples(group.batch()) {
    const Shape& y = r.y_var.aval.shape;
    const bool batched = etp_rules(*r.primitive)->batched;
    per_sample = batched && group.batch_size && y[0] == *group.batch_size;
    rows = batched && !per_sample ? y[0] : 1;
    sample_y = batched ? y.without(0) : y;
  }
  std::int64_t width() const { return rows * sample_y.size(); }  // of ∂h/∂y
};

// A group with the positions of y, of the states of another.
HiddenGroup at_result(const HiddenParamOpRelation& r, const HiddenGroup& group) {
  HiddenGroup out;
  HiddenInfo all = group.hidden_states.front();
  all.varshape = r.y_var.aval.shape;
  all.num_state = group.num_state();
  out.hidden_states = {all};
  if (etp_rules(*r.primitive)->batched) out.batch_size = r.y_var.aval.shape[0];
  return out;
}

Array behind(const Array& a) { return a.defined() ? expand_dims(a, {-1}) : a; }

// The same at every output position: […, X] -> […, X, Q]
Array at_outputs(const Array& a, std::int64_t outputs) {
  if (!a.defined()) return a;
  Dims dims = a.shape().to_dims();
  dims.push_back(outputs);
  return broadcast_to(behind(a), Shape(dims));
}

// Rows as steps: [K, …, rows·Q] -> [K·rows, …, Q]
Array rows_as_steps(const Array& a, const Lanes& lanes) {
  if (lanes.rows == 1) return a;
  Dims dims = a.shape().to_dims();
  const std::int64_t outputs = dims.back() / lanes.rows;
  dims.back() = lanes.rows;
  dims.push_back(outputs);
  const Array apart = moveaxis(reshape(a, dims), static_cast<int>(dims.size()) - 2, 1);
  dims = a.shape().to_dims();
  dims[0] *= lanes.rows;
  dims.back() = outputs;
  return reshape(apart, dims);
}

// What the operator takes from its data, for every lane: [K, 1, rows of y, elements] -> [K', X, elements]
Array at_lanes(const Array& source, const Lanes& lanes) {
  const Shape& s = source.shape();
  if (!lanes.per_sample)
    return broadcast_to(reshape(source, {s[0] * s[2], 1, s[3]}), {s[0] * s[2], lanes.positions, s[3]});
  const Array each = reshape(source, {s[0], s[2], 1, s[3]});
  const std::int64_t of_sample = lanes.positions / lanes.samples;
  return reshape(broadcast_to(each, {s[0], s[2], of_sample, s[3]}), {s[0], lanes.positions, s[3]});
}

// [n, n] -> [n, *shape], or with the samples of all in between [n, B, *shape].
Array unit_vectors(const Shape& shape, std::optional<std::int64_t> samples, Dtype dtype) {
  const std::int64_t n = shape.size();
  const Array each = reshape(eye(n, dtype), shape.with_front(n).to_dims());
  if (!samples) return each;
  return broadcast_to(expand_dims(each, {1}), shape.with_front(*samples).with_front(n));
}

// One push per position of y: [Y, *varshape, S] -> [*varshape, S, Y]
Array by_forward_mode(const Lanes& lanes, const Jaxpr& chain, const HiddenGroup& group, ArraySpan consts,
                      const Array& y) {
  const Shape moved = lanes.per_sample ? lanes.sample_y : y.shape();
  const Array tangents = unit_vectors(moved, lanes.per_sample ? group.batch_size : std::nullopt, y.dtype());
  const Function push = [&](ArraySpan dy) {
    const ValuesAndTangents out = jvp_eval(chain, consts, Arrays{y}, dy);
    Arrays members;
    for (std::size_t i = 0; i < out.y.size(); ++i) members.push_back(instantiate(out.dy[i], out.y[i].aval()));
    return Arrays{group.concat_hidden(members)};
  };
  const Array all = vmap(push)(Arrays{tangents})[0];
  return moveaxis(all, 0, static_cast<int>(all.rank()) - 1);
}

// One pull per state of a sample: [P·S, (B,) Y] -> [*varshape, S, Y]
Array by_reverse_mode(const Lanes& lanes, const Jaxpr& chain, const HiddenGroup& group, ArraySpan consts,
                      const Array& y) {
  Dims states = group.sample_shape().to_dims();
  states.push_back(group.num_state());
  const Array cotangents = unit_vectors(Shape(states), group.batch_size, y.dtype());
  const Function forward = [&](ArraySpan at) {
    return Arrays{group.concat_hidden(eval_jaxpr(chain, consts, at))};
  };
  const Function pull = [&](ArraySpan ct) { return Arrays{vjp(forward)(Arrays{y, ct[0]})[1]}; };
  const Array all = vmap(pull)(Arrays{cotangents})[0];
  const std::int64_t of_sample = lanes.positions / lanes.samples, s = group.num_state();
  const Array apart =
      transpose(reshape(all, {of_sample, s, lanes.samples, lanes.width()}), {2, 0, 1, 3});  // [B, P, S, Y]
  Dims dims = group.varshape().to_dims();
  dims.push_back(s);
  dims.push_back(lanes.width());
  return reshape(apart, dims);
}

}  // namespace

Array chain_derivative(const HiddenParamOpRelation& r, const Jaxpr& chain, const HiddenGroup& group,
                       ArraySpan consts, const Array& y) {
  const Lanes lanes(r, group);
  const std::int64_t states = lanes.positions / lanes.samples * group.num_state();
  // A pull tells samples apart by the rows of y.
  const bool can_pull = lanes.per_sample || lanes.samples == 1;
  const Array all = can_pull && states < lanes.width() ? by_reverse_mode(lanes, chain, group, consts, y)
                                                       : by_forward_mode(lanes, chain, group, consts, y);
  Dims dims = group.varshape().to_dims();
  dims.push_back(group.num_state());
  dims.push_back(lanes.width());
  return reshape(all, dims);
}

CompositeTraces::CompositeTraces(const ETraceGraph& g, const CompositeTraceOptions& o) : g_(g) {
  for (std::size_t r = 0; r < g.composite_relations.size(); ++r) {
    const HiddenParamOpRelation& relation = g.composite_relations[r];
    for (std::size_t k = 0; k < relation.hidden_groups.size(); ++k)
      for (const TrainableSource& t : relation.trainables) {
        const HiddenGroup& group = g.hidden_groups[relation.hidden_groups[k]];
        traces_.push_back(
            {r, k, &t, &group, TraceSlots(relation, t, at_result(relation, group), Compat::None)});
        Dims dims{group.varshape().size(), group.num_state() * o.copies};
        for (const std::int64_t n : traces_.back().slots.pattern().slots) dims.push_back(n);
        slots_.push_back({fmt::format("composite{}/group{}/{}", r, group.index, t.key),
                          {o.trace_dtype.value_or(relation.y_var.aval.dtype), Shape(dims)},
                          PortRole::Trace,
                          g.hidden_param_op_relations.size() + r});
      }
  }
  require_budget(o);
}

void CompositeTraces::require_budget(const CompositeTraceOptions& o) const {
  const auto bytes = [&](std::size_t i) {
    return slots_[i].aval.shape.size() * static_cast<std::int64_t>(size_of(slots_[i].aval.dtype));
  };
  std::int64_t total = 0;
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    total += bytes(i);
    parts.push_back(fmt::format("{} {} bytes ({})", join(g_.module_info.leaf_names(*traces_[i].trainable)),
                                grouped(bytes(i)), to_string(slots_[i].aval)));
  }
  if (total <= o.max_bytes) return;
  throw NotSupportedError(
      o.rule,
      fmt::format("composite traces take {} bytes, over composite_max_bytes={}: {}. Raise the limit, keep "
                  "traces in a smaller trace_dtype, or leave composite off: windows (vjp_method multi-step) "
                  "carry the credit of these weights inside each window without a trace",
                  grouped(total), grouped(o.max_bytes), short_list(parts, 4)));
}

std::vector<EligibilityTrace> CompositeTraces::shown(ArraySpan memory) const {
  std::vector<EligibilityTrace> out;
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    const Trace& t = traces_[i];
    EligibilityTrace e{slots_[i].name, {}, {}};
    for (const auto& leaf : t.trainable->leaves) e.params.push_back(leaf.first);
    Dims dims = t.group->varshape().to_dims();
    const Array last = moveaxis(memory[i], 1, static_cast<int>(memory[i].rank()) - 1);
    for (std::size_t a = 1; a < last.rank(); ++a) dims.push_back(last.shape()[a]);
    e.value = reshape(last, dims);
    out.push_back(std::move(e));
  }
  return out;
}

// Per trace: its source, if it has one, and ∂h/∂y.
Arrays CompositeTraces::keep(const StepData& data) const {
  Arrays out;
  for (const Trace& t : traces_) {
    if (t.slots.has_source()) out.push_back(t.slots.source(data.composite_operands[t.relation]));
    out.push_back(data.composite_df[t.relation][t.group_of_relation]);
  }
  return out;
}

Arrays CompositeTraces::advance(const WindowData& w, ArraySpan kept, ArraySpan memory,
                                const std::vector<CompositeGroupWindow>& groups,
                                GradientRouter& router) const {
  Arrays next;
  std::size_t at = 0;
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    const Trace& t = traces_[i];
    const Lanes lanes(relation_of(t), *t.group);
    const CompositeGroupWindow& gw = groups[t.group->index];
    const Array source = t.slots.has_source() ? at_lanes(kept[at++], lanes) : Array();
    const Array& derived = kept[at++];  // [K, *varshape, S, Y] -> [K, S, X, Y]
    const std::int64_t steps = derived.shape()[0];
    const Array f = gw.injected(
        moveaxis(reshape(derived, {steps, lanes.positions, t.group->num_state(), lanes.width()}), 1, 2));

    CarriedWindow carried = gw.carried;
    for (Array* each : {&carried.suffix, &carried.later, &carried.own}) *each = behind(*each);
    const std::int64_t outputs = lanes.sample_y.size();
    const Arrays operands = parameter_operands(g_, relation_of(t), w.params);
    TraceWindow tw;
    tw.name = slots_[i].name;
    tw.trace = memory[i];
    tw.rounding = rounding_key(w, tw.trace.dtype(), kFirstNumber + i);
    tw.transition = at_outputs(carried.transition, outputs);
    tw.injection = rows_as_steps(injection(carried, f), lanes);
    tw.source = source;
    tw.gain = t.slots.window(operands, {}).gain;
    Array entry = carried.entry;
    if (gw.entry.defined()) entry = add_cotangents(entry, squeeze(gw.entry, {0}));
    tw.entry = at_outputs(entry, outputs);
    const Array met = weighted(carried, f, w.composite_own[t.relation].meets_signal);
    if (met.defined()) tw.weighted = rows_as_steps(met, lanes);
    const TraceWindowResult moved = trace_window(t.slots.pattern(), tw);
    next.push_back(moved.trace);
    if (moved.gradient.defined()) router.add(*t.trainable, t.slots.to_operand(operands, moved.gradient));
  }
  return next;
}

void CompositeTraces::contract(const WindowData& w, ArraySpan memory, ArraySpan signal,
                               GradientRouter& router) const {
  for (std::size_t i = 0; i < traces_.size(); ++i) {
    const Trace& t = traces_[i];
    const Lanes lanes(relation_of(t), *t.group);
    const Arrays operands = parameter_operands(g_, relation_of(t), w.params);
    TraceWindow tw;
    tw.name = slots_[i].name;
    tw.trace = memory[i];
    tw.entry = at_outputs(squeeze(signal[t.group->index], {0}), lanes.sample_y.size());
    const Shape& e = tw.entry.shape();
    tw.transition = zeros_of({tw.entry.dtype(), {e[0], e[0], e[1], e[2]}});
    tw.injection = zeros_of({tw.entry.dtype(), {0, e[0], e[1], e[2]}});
    const Array gradient = trace_window(t.slots.pattern(), tw).gradient;
    router.add(*t.trainable, t.slots.to_operand(operands, gradient));
  }
}

}  // namespace etrace
