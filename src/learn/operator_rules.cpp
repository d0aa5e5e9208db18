// Derived rules. An operand slot with anchor p obeys, per sample,
//   e[slot,a] ← Σ_c D[p,a,c]·e[slot,c] + df[p,a]·∂y[p]/∂θ[slot],     grad θ = Σ_{samples, positions, a}
//   signal[p,a]·e[slot,a].
// ∂y[p]/∂θ comes from reverse mode through the operator's own forward function: with cotangent df it gives
// the product at once, because each slot feeds its anchor alone. Where one parameter feeds many positions
// (position axes), the cotangent is taken at one position at a time.
#include "learn/operator_rules.h"

#include <fmt/format.h>

#include <algorithm>

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

// Moves the last axis to the front and back again.
Array last_to_front(const Array& a) { return moveaxis(a, -1, 0); }
Array front_to_last(const Array& a) { return moveaxis(a, 0, static_cast<int>(a.rank()) - 1); }

}  // namespace

TraceSlots::TraceSlots(const HiddenParamOpRelation& r, const TrainableSource& t, const HiddenGroup& group,
                       Compat compat)
    : relation_(&r), operand_(t.operand), width_(group.trace_state_width()) {
  const EtpRules& rules = *etp_rules(*r.primitive);
  const Avals types = types_of(r);
  anchors_ = rules.anchors(r.eqn_params, t.key, types, r.y_var.aval);
  if (compat == Compat::Braintrace && r.primitive == &etp_einsum_p) drop_positions();
  effective_ = rules.effective != nullptr && rules.effective->key == t.key;
  batched_op_ = rules.batched;
  const Shape varshape = group.varshape(), y = r.y_var.aval.shape;
  sample_y_ = batched_op_ ? y.without(0) : y;
  if (varshape.rank() == sample_y_.rank() + 1 && varshape.without(0) == sample_y_) {
    batch_ = varshape[0];
  } else if (varshape != sample_y_) {
    throw NotSupportedError(
        "learn",
        fmt::format(
            "{}: the output {} of {} is spread over the hidden shape {} by broadcasting; give it that shape",
            to_string(r.path()), to_string(y), r.primitive->name(), to_string(varshape)));
  }
}

// The reference keeps no slot per shared position of an einsum: it sums them, a product of sums in place of a
// sum of products.
void TraceSlots::drop_positions() {
  Dims kept;
  std::vector<int> y_axes;
  for (std::size_t a = 0; a < anchors_.slots.rank(); ++a)
    if (std::count(anchors_.position_axes.begin(), anchors_.position_axes.end(), static_cast<int>(a)) == 0)
      kept.push_back(anchors_.slots[a]);
  const int dropped = static_cast<int>(anchors_.position_axes.size());  // they lead among the slots
  for (std::size_t k = 0; k < anchors_.y_axes.size(); ++k) {
    if (anchors_.y_axes[k] < dropped)
      summed_.push_back(static_cast<int>(k));
    else
      y_axes.push_back(anchors_.y_axes[k] - dropped);
  }
  anchors_ = {Shape(kept), y_axes, {}, {}};
}

Aval TraceSlots::trace_aval() const {
  Dims dims = anchors_.slots.to_dims();
  dims.push_back(width_);
  const Shape shape(dims);
  return {relation_->y_var.aval.dtype, has_batch() ? shape.with_front(batch_) : shape};
}

// One sample: a value per position, with any trailing axes, read at every slot's anchor.
Array TraceSlots::to_slots(const Array& all_positions) const {
  Dims summed;
  for (const int a : summed_) summed.push_back(a);
  const Array per_position = reduce_sum(all_positions, summed);
  const std::size_t y_rank = sample_y_.rank() - summed_.size(), extra = per_position.rank() - y_rank;
  Dims out = anchors_.slots.to_dims();
  for (std::size_t i = 0; i < extra; ++i) out.push_back(per_position.shape()[y_rank + i]);
  if (!anchors_.table.empty()) {
    Dims flat{sample_y_.size()};
    flat.insert(flat.end(), out.end() - static_cast<std::ptrdiff_t>(extra), out.end());
    const Array index = Tensor::of(anchors_.table, {static_cast<std::int64_t>(anchors_.table.size())});
    return reshape(take(reshape(per_position, flat), index, 0), out);
  }
  Dims axes;
  for (const int a : anchors_.y_axes) axes.push_back(a);
  for (std::size_t i = 0; i < extra; ++i)
    axes.push_back(static_cast<std::int64_t>(anchors_.slots.rank() + i));
  // broadcast_in_dim wants ascending axes: sort them, and the operand's axes with them.
  Dims order(axes.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int64_t>(i);
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return axes[static_cast<std::size_t>(a)] < axes[static_cast<std::size_t>(b)];
  });
  Dims sorted;
  for (const std::int64_t i : order) sorted.push_back(axes[static_cast<std::size_t>(i)]);
  return broadcast_in_dim(transpose(per_position, order), Shape(out), sorted);
}

// Cotangent of the operand (or of the effective weight) for one sample and a cotangent of that sample's y.
Array TraceSlots::sample_vjp(ArraySpan operands, const Array& ct) const {
  const EtpRules& rules = *etp_rules(*relation_->primitive);
  Arrays in(operands.begin(), operands.end());
  if (batched_op_ && rules.x_operand) {
    Array& x = in[*rules.x_operand];
    x = expand_dims(x, {0});
  }
  const Params& params = relation_->eqn_params;
  const Array at = effective_ ? rules.effective->weight(params, in) : in[operand_];
  const Function forward = [&](ArraySpan theta) {
    Arrays with = in;
    Array y;
    if (effective_) {
      y = rules.effective->forward(params, with, theta[0]);
    } else {
      with[operand_] = theta[0];
      y = relation_->primitive->spec.lower(params, with)[0];
    }
    return Arrays{batched_op_ ? squeeze(y, {0}) : y};
  };
  return vjp(forward)(Arrays{at, ct})[1];
}

Array TraceSlots::sample_instant(ArraySpan operands, const Array& df) const {
  const Arrays held(operands.begin(), operands.end());
  if (anchors_.position_axes.empty()) {
    const Function one = [&](ArraySpan ct) { return Arrays{sample_vjp(held, ct[0])}; };
    const Array per_state = vmap(one)(Arrays{last_to_front(df)})[0];  // [M, slots…] up to shape
    Dims dims = anchors_.slots.to_dims();
    dims.insert(dims.begin(), width_);
    return front_to_last(reshape(per_state, dims));
  }
  // One position at a time: a mask over y for every combination of position axes.
  Dims position_sizes;
  for (const int a : anchors_.position_axes)
    position_sizes.push_back(anchors_.slots[static_cast<std::size_t>(a)]);
  const Shape positions(position_sizes);
  const std::int64_t count = positions.size();
  // index[slots] of the position, brought to y: positions are axes of y as well.
  Array mask;
  {
    const Array flat = reshape(eye(count, df.dtype()), [&] {
      Dims d{count};
      d.insert(d.end(), position_sizes.begin(), position_sizes.end());
      return d;
    }());
    Dims axes{0};
    for (const int a : anchors_.position_axes)
      for (std::size_t k = 0; k < anchors_.y_axes.size(); ++k)
        if (anchors_.y_axes[k] == a) axes.push_back(static_cast<std::int64_t>(k) + 1);
    mask = broadcast_in_dim(flat, sample_y_.with_front(count), axes);  // [count, y…]
  }
  const Function at_position = [&](ArraySpan m) {
    const Function one = [&](ArraySpan ct) { return Arrays{sample_vjp(held, ct[0] * m[0])}; };
    return Arrays{vmap(one)(Arrays{last_to_front(df)})[0]};
  };
  const Array all = vmap(at_position)(Arrays{mask})[0];  // [count, M, parameter…]
  // [M, positions…, the other slots…], brought into the order of the slots.
  Dims shape{width_};
  std::vector<std::size_t> order;
  for (const int a : anchors_.position_axes) order.push_back(static_cast<std::size_t>(a));
  for (std::size_t a = 0; a < anchors_.slots.rank(); ++a)
    if (std::count(order.begin(), order.end(), a) == 0) order.push_back(a);
  Dims permutation(order.size() + 1, 0);
  for (std::size_t k = 0; k < order.size(); ++k) {
    shape.push_back(anchors_.slots[order[k]]);
    permutation[order[k] + 1] = static_cast<std::int64_t>(k) + 1;
  }
  return front_to_last(transpose(reshape(moveaxis(all, 0, 1), shape), permutation));
}

namespace {
// Applies f to each sample if there is a batch; operands carry the batch on x only.
struct PerSample {
  std::int64_t batch;
  bool x_batched;
  std::optional<std::size_t> x_operand;

  Array operator()(ArraySpan operands, const Arrays& mapped,
                   const std::function<Array(ArraySpan, ArraySpan)>& f) const {
    if (batch == 0) return f(operands, mapped);
    Arrays args = mapped;
    std::vector<int> axes(mapped.size(), 0);
    const bool with_x = x_batched && x_operand && operands[*x_operand].defined();
    if (with_x) {
      args.push_back(operands[*x_operand]);
      axes.push_back(0);
    }
    const Function g = [&](ArraySpan a) {
      Arrays in(operands.begin(), operands.end());
      if (with_x) in[*x_operand] = a.back();
      return Arrays{f(in, a.first(mapped.size()))};
    };
    return vmap(g, axes)(args)[0];
  }
};
}  // namespace

Array TraceSlots::instant(ArraySpan operands, const Array& df) const {
  const PerSample each{batch_, batched_op_, etp_rules(*relation_->primitive)->x_operand};
  return each(operands, {df}, [&](ArraySpan in, ArraySpan m) { return sample_instant(in, m[0]); });
}

Array TraceSlots::recurrent(const Array& jacobian, const Array& trace) const {
  const PerSample each{batch_, false, std::nullopt};
  return each({}, {jacobian, trace}, [&](ArraySpan, ArraySpan m) {
    const Array d = to_slots(m[0]);                                                   // [slots…, M, M]
    const Array e = expand_dims(m[1], {static_cast<std::int64_t>(m[1].rank()) - 1});  // [slots…, 1, M]
    return sum(d * e, {static_cast<std::int64_t>(d.rank()) - 1});
  });
}

Array TraceSlots::solve(ArraySpan operands, const Array& signal, const Array& trace) const {
  const PerSample each{batch_, false, std::nullopt};
  Array g = each({}, {signal, trace}, [&](ArraySpan, ArraySpan m) {
    const Array product = to_slots(m[0]) * m[1];  // [slots…, M]
    return sum(product, {static_cast<std::int64_t>(product.rank()) - 1});
  });
  if (has_batch()) g = sum(g, {0});
  Dims positions;
  for (const int a : anchors_.position_axes) positions.push_back(a);
  if (!positions.empty()) g = sum(g, positions);
  if (!effective_) return reshape(g, aval_of(relation_->operands[operand_]).shape.to_dims());
  // From the effective weight back to the operand.
  const EtpRules& rules = *etp_rules(*relation_->primitive);
  Arrays in(operands.begin(), operands.end());
  const Function weight = [&](ArraySpan theta) {
    Arrays with = in;
    with[operand_] = theta[0];
    return Arrays{rules.effective->weight(relation_->eqn_params, with)};
  };
  return vjp(weight)(Arrays{in[operand_], g})[1];
}

Array TraceSlots::pull(ArraySpan operands, const Array& x, const Array& ct) const {
  const EtpRules& rules = *etp_rules(*relation_->primitive);
  const Params& params = relation_->eqn_params;
  Arrays in(operands.begin(), operands.end());
  if (rules.x_operand && rules.x_representation == nullptr) in[*rules.x_operand] = x;
  const Function forward = [&](ArraySpan theta) {
    if (rules.x_representation != nullptr) {
      // The representation stands for x in y = x'·f(W).
      Array w = theta[0];
      if (const JaxprPtr f = params.jaxpr_or_null("weight_fn")) w = eval_jaxpr(*f, Arrays{w})[0];
      return Arrays{matmul_plain(x, w)};
    }
    Arrays with = in;
    with[operand_] = theta[0];
    return relation_->primitive->spec.lower(params, with);
  };
  const bool own_batch = has_batch() && !batched_op_;  // an element-wise weight that feeds every sample
  if (!own_batch) return vjp(forward)(Arrays{in[operand_], ct})[1];
  const Function one = [&](ArraySpan c) { return Arrays{vjp(forward)(Arrays{in[operand_], c[0]})[1]}; };
  return sum(vmap(one)(Arrays{ct})[0], {0});
}

}  // namespace etrace
