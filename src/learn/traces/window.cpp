#include "learn/traces/window.h"

#include <algorithm>

#include "etrace/control.h"
#include "etrace/ops/numpy.h"
#include "etrace/transform.h"
#include "learn/traces/lists.h"

namespace etrace {

Array states_first(const HiddenGroup& group, const Array& value, int state_axes) {
  // [K, (L,) *varshape, M…]
  const std::int64_t steps = value.shape()[0] * (group.descent ? value.shape()[1] : 1);
  const Shape varshape = group.varshape();
  Dims dims{steps, varshape.size()};
  for (std::size_t i = value.rank() - static_cast<std::size_t>(state_axes); i < value.rank(); ++i)
    dims.push_back(value.shape()[i]);
  return moveaxis(reshape(value, dims), 1, state_axes + 1);
}

namespace {

// Σ_c a[…, i, c, X]·b[…, c, j, X] over small matrices in front of the positions.
Array times(const Array& a, const Array& b) {
  if (a.shape()[0] == 1) return a * b;
  return reduce_sum(expand_dims(a, {2}) * expand_dims(b, {0}), {1});  // [i, c, 1, X]·[1, c, j, X]
}
// Σ_i d[i, c, X]·v[i, X]
Array transposed_times(const Array& d, const Array& v) { return reduce_sum(d * expand_dims(v, {1}), {0}); }

Array indices(const Dims& list) { return Tensor::of(list, {static_cast<std::int64_t>(list.size())}); }

// The unit matrix at every position of `like` [K, M, M, X…].
Array identity(const Array& like) {
  const Shape shape = like.shape().without(0);
  return broadcast_in_dim(eye(shape[0], like.dtype()), shape, {0, 1});
}

}  // namespace

namespace {

// Signals of whole steps at one of their inner ones: [K, …] -> [K·L, …], zero elsewhere.
enum class Substep : std::uint8_t { First, Last };
Array at_substep(const Array& signal, std::int64_t inner, Substep which) {
  if (inner == 1 || !signal.defined()) return signal;
  std::vector<PadAxis> axes(signal.rank() + 1);
  (which == Substep::First ? axes[1].high : axes[1].low) = inner - 1;
  const Array padded = pad(expand_dims(signal, {1}), convert(Array(0.0), signal.dtype()), axes);
  Dims dims = signal.shape().to_dims();
  dims[0] *= inner;
  return reshape(padded, dims);
}

// [K·L], true at the last inner step of each.
Array last_substeps(std::int64_t steps, std::int64_t inner) {
  return equal_to(arange(steps, Dtype::I32) % Array(inner), Array(inner - 1));
}

// What additions to a trace meet, from the last step backwards.
class AdjointScan {
 public:
  AdjointScan(const StepSignals& s, std::int64_t steps, std::int64_t inner)
      : inner_(inner), has_before_(s.before.defined()) {
    const Array none = zeros_of({s.after.dtype(), s.after.shape().without(0)});
    init = {none};
    xs = {at_substep(s.after, inner, Substep::Last)};
    if (has_before_) xs.push_back(at_substep(s.before, inner, Substep::First));
    if (inner == 1) return;
    init.push_back(none);
    xs.push_back(last_substeps(steps, inner));
  }

  // Carried: b; with inner steps, of b what the current step gives and what the later ones do.
  ScanResult step(const Array& d, ArraySpan carry, ArraySpan now) const {
    const Array signal = now[0];
    const auto in_front = [&](const Array& later) {
      const Array moved = transposed_times(d, later);
      return has_before_ ? moved + now[1] : moved;
    };
    if (inner_ == 1) return {{in_front(signal + carry[0])}, {carry[0]}};
    const Array own = where(now.back(), signal, carry[1]),
                later = where(now.back(), carry[0] + carry[1], carry[0]);
    return {{in_front(later), transposed_times(d, own)}, {later, own}};
  }

  Arrays init, xs;

 private:
  std::int64_t inner_;
  bool has_before_;
};

}  // namespace

CarriedWindow carry_window(const Array& jacobians, const StepSignals& signals, std::int64_t inner) {
  const std::int64_t steps = jacobians.shape()[0];
  const bool learns = signals.after.defined();
  const auto first = [](const Array& a) { return squeeze(slice_axis(a, 0, 0, 1), {0}); };
  if (steps == 1) {
    CarriedWindow w{first(jacobians), {}, {}, {}, {}, signals.after};
    if (learns) w.entry = transposed_times(w.transition, first(signals.after));
    if (signals.before.defined()) w.entry = w.entry + first(signals.before);
    return w;
  }
  std::optional<AdjointScan> adjoint;
  Arrays init{identity(jacobians)}, xs{jacobians};
  if (learns) {
    adjoint.emplace(signals, steps, inner);
    init = joined({init, adjoint->init});
    xs = joined({xs, adjoint->xs});
  }
  const ScanResult r = scan(
      [&](ArraySpan carry, ArraySpan now) -> ScanResult {
        ScanResult s{{times(carry[0], now[0])}, {carry[0]}};
        if (!learns) return s;
        const ScanResult back = adjoint->step(now[0], carry.subspan(1), now.subspan(1));
        return {joined({s.carry, back.carry}), joined({s.ys, back.ys})};
      },
      init, xs, {.reverse = true});
  CarriedWindow w{r.carry[0], r.ys[0], {}, {}, {}, {}};
  if (!learns) return w;
  w.entry = inner == 1 ? r.carry[1] : r.carry[1] + r.carry[2];
  w.later = r.ys[1];
  w.own = inner == 1 ? signals.after : r.ys[2];
  return w;
}

CarriedWindow carry_wide_window(const JacobianOfStep& jacobian, const Aval& type, const Arrays& each,
                                const StepSignals& signals, const Dims& columns) {
  // Positions in front: [X, M, M] and [X, M].
  const auto step = [&](ArraySpan now) { return moveaxis(jacobian(now), 2, 0); };
  const DotDims product{{2}, {1}, {0}, {0}};        // Σ_c a[X, i, c]·b[X, c, j]
  const DotDims from_the_left{{1}, {1}, {0}, {0}};  // Σ_i v[X, i]·d[X, i, c]
  const std::int64_t states = type.shape[0], positions = type.shape[2];
  const bool learns = signals.after.defined();
  Arrays init{broadcast_in_dim(eye(states, type.dtype), {positions, states, states}, {1, 2})}, xs = each;
  if (learns) init.push_back(zeros_of({type.dtype, {positions, states}}));
  for (const Array& signal : {signals.after, signals.before})
    if (signal.defined()) xs.push_back(moveaxis(signal, 2, 1));
  const ScanResult r = scan(
      [&](ArraySpan carry, ArraySpan now) -> ScanResult {
        const Array d = step(now.first(each.size()));
        ScanResult s{{dot_general(carry[0], d, product)}, {take(carry[0], indices(columns), 2)}};
        if (!learns) return s;
        const Array& later = carry[1];
        const Array moved = dot_general(now[each.size()] + later, d, from_the_left);
        s.carry.push_back(signals.before.defined() ? moved + now.back() : moved);
        s.ys.push_back(later);
        return s;
      },
      init, xs, {.reverse = true});
  CarriedWindow w{moveaxis(r.carry[0], 0, 2), moveaxis(r.ys[0], 1, 3), columns, {}, {}, {}};
  if (!learns) return w;
  w.entry = moveaxis(r.carry[1], 0, 1);
  w.later = moveaxis(r.ys[1], 1, 2);
  w.own = signals.after;
  return w;
}

Array injection(const CarriedWindow& w, const Array& df) {
  if (!w.suffix.defined()) return df;
  const Array f = w.columns.empty() ? df : take(df, indices(w.columns), 1);
  return reduce_sum(w.suffix * expand_dims(f, {1}), {2});  // [K, a, c, X]·[K, 1, c, X]
}

Array weighted(const CarriedWindow& w, const Array& df, bool with_own) {
  const Array met = with_own ? add_cotangents(w.own, w.later) : w.later;
  return met.defined() ? reduce_sum(met * df, {1}) : met;
}

Arrays side_by_side(std::int64_t steps, const Function& f, ArraySpan mapped) {
  if (steps != 1) return vmap(f)(mapped);
  Arrays now;
  for (const Array& x : mapped) now.push_back(squeeze(x, {0}));
  Arrays out = f(now);
  for (Array& y : out) y = expand_dims(y, {0});
  return out;
}

ScanResult over_steps(std::int64_t steps, const ScanBody& f, const Arrays& init, const Arrays& xs) {
  if (steps != 1) return scan(f, init, xs, {.length = steps});
  Arrays now;
  for (const Array& x : xs) now.push_back(squeeze(slice_axis(x, 0, 0, 1), {0}));
  ScanResult r = f(init, now);
  for (Array& y : r.ys) y = expand_dims(y, {0});
  return r;
}

bool has_zero_jacobian(const HiddenGroup& group) {
  std::vector<std::uint64_t> reached;
  for (const Var& v : group.transition_jaxpr.invars) reached.push_back(v.id);
  const auto depends = [&](const Atom& a) {
    return as_var(a) != nullptr && std::find(reached.begin(), reached.end(), as_var(a)->id) != reached.end();
  };
  for (const Eqn& eqn : group.transition_jaxpr.eqns)
    if (std::any_of(eqn.in.begin(), eqn.in.end(), depends))
      for (const Var& v : eqn.out) reached.push_back(v.id);
  return std::none_of(group.transition_jaxpr.outs.begin(), group.transition_jaxpr.outs.end(), depends);
}

Array sample_mask(const Array& active, std::size_t rank) {
  if (!active.defined() || active.rank() == 1) return active;
  Dims dims = active.shape().to_dims();
  dims.resize(std::max(rank, dims.size()), 1);
  return reshape(active, dims);
}

Array position_mask(const Array& active, const HiddenGroup& group) {
  if (!active.defined() || active.rank() == 1) return active;
  const std::int64_t steps = active.shape()[0], samples = active.shape()[1], all = group.varshape().size();
  return reshape(broadcast_to(expand_dims(active, {2}), {steps, samples, all / samples}), {steps, 1, all});
}

Array rounding_key(const WindowData& w, Dtype stored, std::size_t trace) {
  if (size_of(stored) != 2) return {};
  const auto word = [](std::uint64_t v) {
    return full({}, static_cast<double>(static_cast<std::uint32_t>(v)), Dtype::U32);
  };
  return convert(w.calls, Dtype::U32) * word(0x9e3779b9) + word(0x85ebca6b * (trace + 1));
}

Arrays parameter_operands(const ETraceGraph& g, const HiddenParamOpRelation& r, ArraySpan params) {
  const ClosedJaxpr& program = g.module_info.closed_jaxpr;
  const auto constant = [&](const Var& v) -> Array {
    for (std::size_t i = 0; i < program.consts.size(); ++i)
      if (program.jaxpr.constvars[i] == v) return program.consts[i];
    return {};
  };
  Arrays out(r.operands.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (const Var* v = as_var(r.operands[i]))
      out[i] = constant(*v);
    else
      out[i] = full({}, std::get<Literal>(r.operands[i]).value, std::get<Literal>(r.operands[i]).dtype);
  }
  const std::vector<ParamLeaf> leaves = param_leaves(g.module_info);
  for (const TrainableSource& t : r.trainables) {
    Arrays at, consts;
    for (const auto& [path, leaf] : t.leaves)
      for (std::size_t i = 0; i < leaves.size(); ++i)
        if (leaves[i].path == path && leaves[i].leaf == leaf) at.push_back(params[i]);
    for (const Var& v : t.processing.constvars) consts.push_back(constant(v));
    out[t.operand] = t.processing.eqns.empty() ? at.at(0) : eval_jaxpr(t.processing, consts, at)[0];
  }
  return out;
}

}  // namespace etrace
