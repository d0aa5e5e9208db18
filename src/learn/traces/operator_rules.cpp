// Derived rules. An operand slot with anchor p obeys, per sample,
//   e[slot,a] ← Σ_c D[p,a,c]·e[slot,c] + df[p,a]·∂y[p]/∂θ[slot]
//   grad θ = Σ_{samples, positions, a} signal[p,a]·e[slot,a].
// ∂y[p]/∂θ is what the operator's source says, a product of data and gain; without one it comes from reverse
// mode through the forward function with a cotangent of ones, because each slot feeds its anchor alone. A
// function of the operand that is not element by element would break that, so θ is then its result
// (trace_form in etp/common.h decides). Where one parameter feeds many positions (position axes), the
// cotangent is taken at one position at a time.
#include "learn/traces/operator_rules.h"

#include <fmt/format.h>

#include <algorithm>

#include "etp/common.h"
#include "etrace/error.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"

namespace etrace {

namespace {

Avals types_of(const HiddenParamOpRelation& r) {
  Avals out;
  for (const Atom& a : r.operands) out.push_back(aval_of(a));
  return out;
}

// Strides of a flat index over `axes` of the slots: what a walk along each slot axis adds.
Dims strides_over(const std::vector<int>& axes, const Shape& shape, std::size_t slot_rank) {
  const Dims own = strides_of(shape);
  Dims out(slot_rank, 0);
  for (std::size_t i = 0; i < axes.size(); ++i) out[static_cast<std::size_t>(axes[i])] += own[i];
  return out;
}

// The function that the operator applies to a trainable operand: the name of its static parameter, or
// nothing.
std::string function_key(const HiddenParamOpRelation& r, const std::string& key) {
  for (const Trainable& t : etp_rules(*r.primitive)->trainables(r.eqn_params))
    if (t.key == key && !t.fn.empty() && r.eqn_params.jaxpr_or_null(t.fn) != nullptr) return t.fn;
  return {};
}

bool contains(const std::vector<int>& v, std::size_t i) {
  return std::find(v.begin(), v.end(), static_cast<int>(i)) != v.end();
}

bool contains_false(const std::vector<bool>& v) { return std::find(v.begin(), v.end(), false) != v.end(); }

}  // namespace

void refuse_inner_loops(const ETraceGraph& g, const std::string& rule, const char* why) {
  for (const HiddenGroup& group : g.hidden_groups)
    if (group.descent)
      throw NotSupportedError(rule, fmt::format("group {} lives inside a loop that is traced inside: {}. Use "
                                                "D_RTRL, or unroll the loop with a larger scan_unroll_limit",
                                                group.index, why));
}

Array x_trace(const HiddenParamOpRelation& r, const Array& x) {
  const EtpRules& rules = *etp_rules(*r.primitive);
  if (rules.x_representation != nullptr) return rules.x_representation(r.eqn_params, x, types_of(r));
  return convert(x, is_floating(x.dtype()) ? x.dtype() : r.y_var.aval.dtype);
}

Aval x_trace_aval(const HiddenParamOpRelation& r) {
  return x_trace(r, zeros_of(aval_of(r.operands[*etp_rules(*r.primitive)->x_operand]))).aval();
}

void refuse_further_data(const ETraceGraph& g, const std::string& rule, const char* why) {
  for (const HiddenParamOpRelation& r : g.hidden_param_op_relations) {
    const EtpRules& rules = *etp_rules(*r.primitive);
    std::vector<bool> fixed = r.fixed_operands;
    if (rules.x_operand) fixed[*rules.x_operand] = true;  // it is filtered
    if (!contains_false(fixed)) continue;
    for (const TrainableSource& trainable : r.trainables) {
      const auto derivative = [&](ArraySpan operands) {
        const Function forward = [&](ArraySpan theta) {
          Arrays in(operands.begin(), operands.end());
          in[trainable.operand] = theta[0];
          return r.primitive->spec.lower(r.eqn_params, in);
        };
        const Array ct = full(r.y_var.aval.shape, 1.0, r.y_var.aval.dtype);
        return Arrays{vjp(forward)(Arrays{operands[trainable.operand], ct})[1]};
      };
      const std::optional<std::size_t> read = etp::data_read(types_of(r), fixed, derivative);
      if (!read) continue;
      std::string operand = std::to_string(*read);
      for (const Trainable& t : rules.trainables(r.eqn_params))
        if (t.operand == *read) operand += " ('" + t.key + "')";
      throw NotSupportedError(
          rule,
          fmt::format("{}: operand {} of {} changes with the data: {}. Use D_RTRL, or make it a parameter",
                      to_string(trainable.path), operand, r.primitive->name(), why));
    }
  }
}

TraceSlots::TraceSlots(const HiddenParamOpRelation& r, const TrainableSource& t, const HiddenGroup& group,
                       Compat compat, std::int64_t copies)
    : relation_(&r), operand_(t.operand), key_(t.key), width_(group.trace_state_width() * copies) {
  const auto form_of = [&](bool keep_function) {
    return etp::trace_form(*r.primitive, r.eqn_params, t.key, types_of(r), r.y_var.aval, r.fixed_operands,
                           keep_function);
  };
  etp::TraceForm form = form_of(false);
  // The reference keeps the slots of the operand whatever its function mixes.
  // LIMIT: not where a parameter feeds many positions (conv, einsum with shared axes); there, traces are
  // those of the function's result, and gradients are exact, under compat too.
  spread_ = compat == Compat::Braintrace && form.function != nullptr && !form.effective &&
            form.anchors.position_axes.empty() &&
            form.function->in_avals()[0].shape == form.function->out_avals()[0].shape;
  if (spread_) form = form_of(true);
  function_ = form.function;
  params_ = form.params;
  anchors_ = form.anchors;
  effective_ = form.effective;
  batched_op_ = etp_rules(*r.primitive)->batched;
  const Shape varshape = group.varshape(), y = r.y_var.aval.shape;
  sample_y_ = batched_op_ ? y.without(0) : y;
  // A batched operator on one sample may feed states without a batch. A weight as large as all samples
  // together has a slot of its own for each of them, and so no batch either.
  const bool one_sample = batched_op_ && y == varshape.with_front(1);
  has_batch_ = !one_sample && (batched_op_ || (group.batch_size && varshape != y));
  if (has_batch_) batch_ = group.batch();
  if (!one_sample && varshape != (has_batch_ && !batched_op_ ? y.with_front(batch_) : y)) {
    throw NotSupportedError(
        "learn", fmt::format("{}: the output {} of {} is spread over the hidden shape "
                             "{} by broadcasting; give it that shape",
                             to_string(r.path()), to_string(y), r.primitive->name(), to_string(varshape)));
  }
  positions_ = sample_y_.size();
  pattern_.slots = anchors_.slots;
  pattern_.position_axes = anchors_.position_axes;
  pattern_.anchor_table = anchors_.table;
  if (anchors_.table.empty())
    pattern_.anchor_strides = strides_over(anchors_.y_axes, sample_y_, anchors_.slots.rank());
  derived_ = !form.source;
  has_gain_ = form.source && form.source->gain.defined();
  source_of_x_ = form.source_of_x;
  if (derived_) {
    pattern_.source_strides = strides_of(anchors_.slots);
  } else if (form.source->values.defined()) {
    const Shape values = batched_op_ ? form.source->values.shape().without(0) : form.source->values.shape();
    pattern_.source_table = form.source->table;
    if (form.source->table.empty())
      pattern_.source_strides = form.source->strides.empty()
                                    ? strides_over(form.source->axes, values, anchors_.slots.rank())
                                    : form.source->strides;
  }
  if (spread_) folded_ = positions_;
  if (compat == Compat::Braintrace && r.primitive == &etp_einsum_p && !anchors_.position_axes.empty())
    fold_positions();
}

// The reference keeps no slot per shared position of an einsum: it sums them, a product of sums in place of a
// sum of products. Here that is a window in which the positions of one step stand as steps.
void TraceSlots::fold_positions() {
  const int dropped = static_cast<int>(anchors_.position_axes.size());  // they lead among the slots
  Dims kept_slots, kept_y;
  std::vector<int> y_axes;
  for (std::size_t a = static_cast<std::size_t>(dropped); a < anchors_.slots.rank(); ++a)
    kept_slots.push_back(anchors_.slots[a]);
  for (std::size_t k = 0; k < anchors_.y_axes.size(); ++k) {
    if (anchors_.y_axes[k] < dropped) {
      folded_y_axes_.push_back(static_cast<int>(k));
      folded_ *= sample_y_[k];
    } else {
      y_axes.push_back(anchors_.y_axes[k] - dropped);
      kept_y.push_back(sample_y_[k]);
    }
  }
  positions_ = sample_y_.size() / folded_;
  derived_ = true;  // the derivative at every position has the layout that folds
  pattern_ = {};
  pattern_.slots = Shape(kept_slots);
  pattern_.anchor_strides = strides_over(y_axes, Shape(kept_y), kept_slots.size());
  pattern_.source_strides = strides_of(pattern_.slots);
}

// Layout ----------------------------------------------------------------------------------------------------
Aval TraceSlots::trace_aval(std::optional<Dtype> stored) const {
  Dims dims{batch_, width_};
  for (const std::int64_t n : pattern_.slots) dims.push_back(n);
  return {stored.value_or(relation_->y_var.aval.dtype), Shape(dims)};
}

Array TraceSlots::unpack(const Array& trace) const {
  const Array shown = moveaxis(trace, 1, static_cast<int>(trace.rank()) - 1);
  return has_batch_ ? shown : squeeze(shown, {0});
}

Array TraceSlots::pack(const Array& shown) const {
  const Array with_batch = has_batch_ ? shown : expand_dims(shown, {0});
  return moveaxis(with_batch, static_cast<int>(with_batch.rank()) - 1, 1);
}

// [K, M…, B·P] -> [K, M…, B, y…]
Array TraceSlots::split_samples(const Array& v) const {
  Dims dims = v.shape().to_dims();
  dims.back() = batch_;
  for (const std::int64_t n : sample_y_) dims.push_back(n);
  return reshape(v, dims);
}

Array TraceSlots::summed(const Array& v) const {
  Dims dims = v.shape().to_dims();
  const auto lead = static_cast<int>(dims.size());  // K, M…, B come before y
  dims.back() = batch_;
  dims.push_back(positions_);
  if (folded_y_axes_.empty()) return reshape(v, dims);
  Dims axes;
  for (const int a : folded_y_axes_) axes.push_back(lead + a);
  return reshape(reduce_sum(split_samples(v), axes), dims);
}

// [K, M…, B·P] -> [K·P, M…, B, P]: what one position injects reaches the slots of all.
Array TraceSlots::spread(const Array& v) const {
  Dims dims = v.shape().to_dims();
  dims.back() = batch_;
  dims.push_back(positions_);
  const Array by_position =
      moveaxis(reshape(v, dims), static_cast<int>(dims.size()) - 1, 1);  // [K, P, M…, B]
  Dims all = by_position.shape().to_dims();
  all.push_back(positions_);
  const Array everywhere = broadcast_to(expand_dims(by_position, {-1}), Shape(all));
  dims[0] *= positions_;
  return reshape(everywhere, dims);
}

Array TraceSlots::lined_up(const Array& v) const {
  if (spread_) return spread(v);
  if (folded_y_axes_.empty()) return summed(v);
  // [K, M…, B, y…] -> [K, folded…, M…, B, rest…] -> [K·J, M…, B, P]
  const Array split = split_samples(v);
  const std::size_t lead = v.rank();
  Dims order{0};
  for (const int a : folded_y_axes_) order.push_back(static_cast<std::int64_t>(lead) + a);
  for (std::size_t a = 1; a < lead; ++a) order.push_back(static_cast<std::int64_t>(a));
  for (std::size_t a = 0; a < sample_y_.rank(); ++a)
    if (!contains(folded_y_axes_, a)) order.push_back(static_cast<std::int64_t>(lead + a));
  Dims dims = v.shape().to_dims();
  dims[0] *= folded_;
  dims.back() = batch_;
  dims.push_back(positions_);
  return reshape(transpose(split, order), dims);
}

// Sources ---------------------------------------------------------------------------------------------------
// Cotangent of the operand (or of the effective weight) for one sample and a cotangent of that sample's y.
Array TraceSlots::sample_vjp(ArraySpan operands, const Array& ct) const {
  const EtpRules& rules = *etp_rules(*relation_->primitive);
  Arrays in(operands.begin(), operands.end());
  if (batched_op_ && rules.x_operand)
    for (const std::size_t i : data_operands()) in[i] = expand_dims(in[i], {0});
  const Array at = effective_ ? rules.effective->weight(params_, in) : in[operand_];
  const Function forward = [&](ArraySpan theta) {
    Arrays with = in;
    Array y;
    if (effective_) {
      y = rules.effective->forward(params_, with, theta[0]);
    } else {
      with[operand_] = theta[0];
      y = relation_->primitive->spec.lower(params_, with)[0];
    }
    return Arrays{batched_op_ ? squeeze(y, {0}) : y};
  };
  return vjp(forward)(Arrays{at, ct})[1];
}

// One sample: [slots…]
Array TraceSlots::sample_derivative(ArraySpan operands) const {
  const Dtype dtype = relation_->y_var.aval.dtype;
  if (spread_) {  // [P, slots…]
    const Array each = reshape(eye(positions_, dtype), sample_y_.with_front(positions_).to_dims());
    const Arrays in(operands.begin(), operands.end());
    return vmap([&](ArraySpan ct) { return Arrays{sample_vjp(in, ct[0])}; })(Arrays{each})[0];
  }
  if (anchors_.position_axes.empty())
    return reshape(sample_vjp(operands, full(sample_y_, 1.0, dtype)), anchors_.slots.to_dims());
  // One position at a time: a mask over y for every combination of position axes.
  Dims sizes, axes{0};
  for (const int a : anchors_.position_axes) {
    sizes.push_back(anchors_.slots[static_cast<std::size_t>(a)]);
    for (std::size_t k = 0; k < anchors_.y_axes.size(); ++k)
      if (anchors_.y_axes[k] == a) axes.push_back(static_cast<std::int64_t>(k) + 1);
  }
  const std::int64_t count = Shape(sizes).size();
  const Array ones = reshape(eye(count, dtype), Shape(sizes).with_front(count).to_dims());
  const Array masks = broadcast_in_dim(ones, sample_y_.with_front(count), axes);  // [count, y…]
  const Arrays held(operands.begin(), operands.end());
  const Function at_position = [&](ArraySpan m) { return Arrays{sample_vjp(held, m[0])}; };
  const Array all = vmap(at_position)(Arrays{masks})[0];  // [count, parameter…]
  // [positions…, the other slots…], brought into the order of the slots.
  Dims shape, permutation(anchors_.slots.rank());
  std::vector<std::size_t> order;
  for (const int a : anchors_.position_axes) order.push_back(static_cast<std::size_t>(a));
  for (std::size_t a = 0; a < anchors_.slots.rank(); ++a)
    if (!contains(anchors_.position_axes, a)) order.push_back(a);
  for (std::size_t k = 0; k < order.size(); ++k) {
    shape.push_back(anchors_.slots[order[k]]);
    permutation[order[k]] = static_cast<std::int64_t>(k);
  }
  return transpose(reshape(all, shape), permutation);
}

Array TraceSlots::derivative(ArraySpan operands) const {
  const EtpRules& rules = *etp_rules(*relation_->primitive);
  if (!batched_op_ || !rules.x_operand) return sample_derivative(operands);
  const Arrays held(operands.begin(), operands.end());
  const std::vector<std::size_t> data = data_operands();
  const Function one = [&](ArraySpan sample) {
    Arrays in = held;
    for (std::size_t k = 0; k < data.size(); ++k) in[data[k]] = sample[k];
    return Arrays{sample_derivative(in)};
  };
  Arrays batched;
  for (const std::size_t i : data) batched.push_back(operands[i]);
  return vmap(one)(batched)[0];
}

// All that the operator takes besides weights: with the batch axis, if it is a batched one.
std::vector<std::size_t> TraceSlots::data_operands() const {
  std::vector<bool> weight(relation_->operands.size(), false);
  for (const Trainable& t : etp_rules(*relation_->primitive)->trainables(params_)) weight[t.operand] = true;
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i < weight.size(); ++i)
    if (!weight[i]) out.push_back(i);
  return out;
}

// Data that is not there any more, and that what is asked for does not read.
Arrays TraceSlots::filled(ArraySpan operands) const {
  Arrays out(operands.begin(), operands.end());
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!out[i].defined()) out[i] = zeros_of(aval_of(relation_->operands[i]));
  return out;
}

Arrays TraceSlots::behind_function(ArraySpan operands) const {
  Arrays out(operands.begin(), operands.end());
  if (function_ != nullptr) out[operand_] = eval_jaxpr(*function_, operands.subspan(operand_, 1))[0];
  return out;
}

Array TraceSlots::source(ArraySpan operands) const {
  const EtpRules& rules = *etp_rules(*relation_->primitive);
  const Arrays in = behind_function(operands);
  const Array values = derived_ ? derivative(in) : rules.source(params_, key_, in)->values;
  if (!values.defined()) return values;
  const bool per_sample = batched_op_ && rules.x_operand;
  const std::int64_t elements = per_sample ? values.shape().without(0).size() : values.size();
  Array flat = reshape(values, {per_sample ? batch_ : 1, elements});
  if (!per_sample && has_batch_) flat = broadcast_to(flat, {batch_, elements});
  if (folded_ == 1) return expand_dims(flat, {0});
  // Positions lead among the slots: [B, J, rest] -> [J, B, rest]
  return transpose(reshape(flat, {batch_, folded_, elements / folded_}), {1, 0, 2});
}

TraceWindow TraceSlots::window(ArraySpan operands, const Array& sources) const {
  TraceWindow w;
  if (sources.defined()) {  // [K, J, B, elements]
    const Shape& s = sources.shape();
    w.source = reshape(sources, {s[0] * s[1], s[2], s[3]});
  }
  if (derived_) return w;
  // The gain depends on what is the same in all steps.
  const EtpRules& rules = *etp_rules(*relation_->primitive);
  const Array gain = rules.source(params_, key_, behind_function(filled(operands)))->gain;
  if (gain.defined()) w.gain = reshape(gain, pattern_.parameter_dims());
  return w;
}

bool TraceSlots::is_product_of_data() const {
  return !derived_ && source_of_x_ && !has_gain_ && !effective_ && function_ == nullptr && folded_ == 1 &&
         etp_rules(*relation_->primitive)->x_representation == nullptr;
}

Array TraceSlots::made_of(ArraySpan operands, const Array& f) const {
  TraceWindow w = window(operands, has_source() ? expand_dims(source(filled(operands)), {0}) : Array());
  w.trace = zeros_of(trace_aval({}));
  w.injection = summed(expand_dims(f, {0}));  // [1, M, B, P]
  const Shape& s = w.injection.shape();
  w.transition = zeros_of({f.dtype(), {s[1], s[1], s[2], s[3]}});
  return trace_window(pattern_, w).trace;
}

// Gradients -------------------------------------------------------------------------------------------------
Array TraceSlots::to_operand(ArraySpan operands, const Array& slot_gradient) const {
  if (!effective_) {
    if (function_ == nullptr)
      return reshape(slot_gradient, aval_of(relation_->operands[operand_]).shape.to_dims());
    const Array gradient = reshape(slot_gradient, function_->out_avals()[0].shape.to_dims());
    const Function f = [&](ArraySpan theta) { return eval_jaxpr(*function_, theta); };
    return vjp(f)(Arrays{operands[operand_], gradient})[1];
  }
  // From the effective weight back to the operand.
  const EtpRules& rules = *etp_rules(*relation_->primitive);
  Arrays in(operands.begin(), operands.end());
  if (rules.x_operand) in[*rules.x_operand] = zeros_of(aval_of(relation_->operands[*rules.x_operand]));
  const Function weight = [&](ArraySpan theta) {
    Arrays with = in;
    with[operand_] = theta[0];
    return Arrays{rules.effective->weight(relation_->eqn_params, with)};
  };
  return vjp(weight)(Arrays{in[operand_], slot_gradient})[1];
}

Array TraceSlots::pull(ArraySpan operands, const Array& x, const Array& given) const {
  // An operator without samples may feed the states of several, and one with samples, on one of them, states
  // without.
  const Array ct = reshape(has_batch_ && !batched_op_ ? reduce_sum(given, {1}) : given,
                           relation_->y_var.aval.shape.with_front(given.shape()[0]).to_dims());
  const EtpRules& rules = *etp_rules(*relation_->primitive);
  const Params& params = relation_->eqn_params;
  const auto forward = [&](const Array& theta, const Array& data) {
    if (rules.x_representation != nullptr) {
      // The representation stands for x in y = x'·f(W).
      Array w = theta;
      if (const std::string fn = function_key(*relation_, key_); !fn.empty())
        w = eval_jaxpr(*params.jaxpr(fn), Arrays{w})[0];
      return matmul_plain(data, w);
    }
    Arrays with = filled(operands);
    if (rules.x_operand) with[*rules.x_operand] = data;
    with[operand_] = theta;
    return relation_->primitive->spec.lower(params, with)[0];
  };
  if (!x.defined()) {  // y is the same for every step
    const Function once = [&](ArraySpan theta) { return Arrays{forward(theta[0], {})}; };
    return vjp(once)(Arrays{operands[operand_], reduce_sum(ct, {0})})[1];
  }
  // All steps at once: the sum over them is the contraction of a product.
  const Function all = [&](ArraySpan theta) {
    const Function one = [&](ArraySpan data) { return Arrays{forward(theta[0], data[0])}; };
    return vmap(one)(Arrays{x});
  };
  return vjp(all)(Arrays{operands[operand_], ct})[1];
}

}  // namespace etrace
