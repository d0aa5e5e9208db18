// Positions: an index into the shape that all states of a group share. A program preserves positions if
// output position p depends on input position p only. Start at sweep_positions.
#include "compiler/position_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "compiler/mixing.h"
#include "compiler/program_between.h"
#include "control/loops.h"
#include "core/dataflow.h"
#include "etrace/axes.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"

namespace etrace {

namespace {

// For each axis of the positions: the axis of a value that carries it. An axis of size 1 says nothing about a
// position and is never followed, so that values may drop it and get it back.
using AxisMap = std::vector<std::size_t>;
constexpr std::size_t kNone = static_cast<std::size_t>(-1);

AxisMap leading_axes(std::size_t rank) {
  AxisMap map(rank);
  for (std::size_t i = 0; i < rank; ++i) map[i] = i;
  return map;
}

bool is_mixing(const Eqn& eqn) { return is_mixing_etp(eqn) || eqn.prim->spec.product; }

bool begins_with(const Shape& shape, const Shape& prefix) {
  return shape.rank() >= prefix.rank() && std::equal(prefix.begin(), prefix.end(), shape.begin());
}

std::string not_preserving(const Eqn& eqn) {
  return fmt::format(
      "equation '{}' on the hidden path is not an elementwise position-preserving operation, so it may move "
      "or couple "
      "positions",
      eqn.prim->name());
}

// Follows the axes that carry positions through a program, as the rows tell (etrace/axes.h) and as
// derivatives see it: nothing passes stop_gradient, a number that is not floating, or the choice of a branch.
// Samples are positions on a leading axis.
enum class Positions : std::uint8_t { OfStates, Samples };
class Sweeper : public DataflowRules<std::optional<AxisMap>> {  // none: positions do not reach it
 public:
  using Values = std::vector<Value>;
  using Flow = Dataflow<Sweeper>;

  Sweeper(const Shape& varshape, Compat compat, Positions what = Positions::OfStates)
      : varshape_(varshape), compat_(compat), what_(what) {}

  PositionSweep run_values(const Jaxpr& program, std::span<const Var> sources) {
    values_ = true;
    return run(program, sources);
  }
  PositionSweep run(const Jaxpr& program, std::span<const Var> sources) {
    Flow flow(*this);
    for (const Var& v : sources) {
      if (!carries_positions(v.aval.shape)) {
        result_.reason = fmt::format("a value of shape {} does not carry the positions {}",
                                     to_string(v.aval.shape), to_string(varshape_));
        return result_;
      }
      flow.set(v, kept(v.aval, source_map(v.aval.shape)));
    }
    flow.run(program);
    if (done()) result_.mixing = nullptr;
    for (const Atom& a : program.outs)
      if (!done()) check_output(flow.at(a));
    return result_;
  }

  // Of Dataflow --------------------------------------------------------------------------------------------
  static bool reached(const Value& v) { return v.has_value(); }
  bool done() const { return !result_.reason.empty(); }
  bool follows_choices() const { return !ends_derivatives(); }
  std::vector<const Eqn*> equations(const Jaxpr& program) const {
    if (ends_derivatives()) return derivative_ways(program, program.outs);
    return DataflowRules::equations(program);
  }

  Values step(const Eqn& eqn, const Values& in) {
    if (is_mixing(eqn) && what_ == Positions::OfStates) return mix(eqn, in);
    if (compat_ != Compat::None) return as_reference(eqn, in);
    if (eqn.prim->spec.elementwise) require_one_place(eqn, in);
    const AxisTable axes = axes_of(eqn);
    Values out;
    for (std::size_t k = 0; k < eqn.out.size(); ++k)
      if (!done()) out.push_back(behind(eqn, axes, in, k));
    return out;
  }

  bool join(Value& into, const Value& more) {
    if (!more || into == more) return false;
    if (into) fail("positions come on different axes");
    into = more;
    return true;
  }
  // Slices lie along the first axis of what is scanned, which must hold no positions.
  Value sliced(const Value& v) {
    if (v && std::find(v->begin(), v->end(), std::size_t{0}) != v->end()) fail("a loop runs along positions");
    return moved(v, -1);
  }
  Value stacked(const Value& v) const { return moved(v, 1); }
  // One position would decide for all.
  void chosen(const Eqn&, const Value& by, const Values&) {
    if (by) fail("a position chooses for all");
  }

  // The reason is told of the whole equation. Functions with derivatives of their own are followed by values,
  // and by their rules: tangents pass stop_gradient as values do.
  void enter(const Eqn& eqn) {
    if (compat_ != Compat::None) return fail(not_preserving(eqn), &eqn);
    ++depth_;
    if (has_own_derivative(eqn)) ++in_rule_;
  }
  void leave(const Eqn& eqn, const Values& in, Values& out) {
    if (compat_ != Compat::None) return;
    if (has_own_derivative(eqn)) {
      if (!done()) follow_rule(eqn, in, out);
      --in_rule_;
    }
    if (--depth_ == 0 && done()) fail(not_preserving(eqn), &eqn);
  }

 private:
  // Sources hold the positions as leading axes, with axes of size 1 between them (a sample without a batch,
  // as a convolution gives it); or, broadcast over the batch, they lack some of the leading ones.
  bool carries_positions(const Shape& shape) const {
    return begins_with(shape, varshape_) || is_suffix(shape) || among_units(shape).has_value();
  }
  // The axes of a shape that is the positions with axes of size 1 more or less.
  std::optional<AxisMap> among_units(const Shape& shape) const {
    if (compat_ != Compat::None) return std::nullopt;
    AxisMap map(varshape_.rank(), kNone);
    std::size_t at = 0;
    for (std::size_t i = 0; i < map.size(); ++i) {
      if (varshape_[i] == 1) continue;
      while (at < shape.rank() && shape[at] == 1) ++at;
      if (at == shape.rank() || shape[at] != varshape_[i]) return std::nullopt;
      map[i] = at++;
    }
    return map;
  }
  bool is_suffix(const Shape& shape) const {
    return compat_ == Compat::None && shape.rank() < varshape_.rank() &&
           std::equal(shape.begin(), shape.end(),
                      varshape_.end() - static_cast<std::ptrdiff_t>(shape.rank()));
  }
  // A source without the leading axes stands for a value that is the same along them: they map to no axis.
  AxisMap source_map(const Shape& shape) const {
    if (begins_with(shape, varshape_)) return leading_axes(varshape_.rank());
    if (!is_suffix(shape)) return *among_units(shape);
    AxisMap map(varshape_.rank(), kNone);
    const std::size_t missing = varshape_.rank() - shape.rank();
    for (std::size_t i = 0; i < shape.rank(); ++i) map[missing + i] = i;
    return map;
  }

  // The reference follows values.
  bool ends_derivatives() const { return compat_ == Compat::None && in_rule_ == 0 && !values_; }
  // Influence is followed along the rules, so these must preserve positions as the values do.
  void follow_rule(const Eqn& eqn, const Values& in, Values& out) {
    if (const JaxprPtr rule = eqn.params.jaxpr_or_null("jvp_jaxpr")) return tangents(*rule, in, out);
    const JaxprPtr fwd = eqn.params.jaxpr_or_null("fwd_jaxpr"), bwd = eqn.params.jaxpr_or_null("bwd_jaxpr");
    if (fwd != nullptr && bwd != nullptr) cotangents(*fwd, *bwd, eqn, in, out);
  }
  // (x…, dx…) -> (y…, dy…)
  void tangents(const ClosedJaxpr& rule, const Values& in, Values& out) {
    Flow flow(*this);
    for (std::size_t i = 0; i < in.size(); ++i) {
      flow.set(rule.jaxpr.invars[i], in[i]);
      flow.set(rule.jaxpr.invars[in.size() + i], in[i]);
    }
    flow.run(rule);
    for (std::size_t i = 0; i < out.size() && !done(); ++i)
      join(out[i], flow.at(rule.jaxpr.outs[out.size() + i]));
  }
  // (x…) -> (y…, residuals…), (residuals…, ct of y…) -> (ct of x…)
  void cotangents(const ClosedJaxpr& fwd, const ClosedJaxpr& bwd, const Eqn& eqn, const Values& in,
                  const Values& out) {
    // A value that does not depend on positions may have a derivative all the same.
    for (std::size_t i = 0; i < out.size(); ++i)
      if (is_floating(eqn.out[i].aval.dtype) && !out[i]) return fail("a result has a derivative of its own");
    Flow forward(*this), backward(*this);
    for (std::size_t i = 0; i < in.size(); ++i) forward.set(fwd.jaxpr.invars[i], in[i]);
    forward.run(fwd);
    const std::size_t n = out.size(), residuals = fwd.jaxpr.outs.size() - n;
    for (std::size_t i = 0; i < residuals + n; ++i)
      backward.set(bwd.jaxpr.invars[i],
                   i < residuals ? forward.at(fwd.jaxpr.outs[n + i]) : out[i - residuals]);
    backward.run(bwd);
    for (std::size_t i = 0; i < in.size() && !done(); ++i)
      if (Value to = in[i]) join(to, backward.at(bwd.jaxpr.outs[i]));
  }

  Value kept(const Aval& type, AxisMap map) const {
    if (type.shape.size() == 0 || (!is_floating(type.dtype) && ends_derivatives())) return {};
    for (std::size_t i = 0; compat_ == Compat::None && i < map.size(); ++i)
      if (varshape_[i] == 1) map[i] = kNone;
    return map;
  }
  void fail(std::string reason, const Eqn* at = nullptr) {
    result_.reason = std::move(reason);
    result_.at = at;
  }

  // What a result carries: every axis of the positions on the one axis that comes from it in all operands
  // that positions reach.
  Value behind(const Eqn& eqn, const AxisTable& axes, const Values& in, std::size_t result) {
    const Aval& type = eqn.out[result].aval;
    AxisMap map(varshape_.rank(), kNone);
    if (!depends(axes, in, result)) return {};
    for (std::size_t p = 0; p < map.size(); ++p) {
      if (varshape_[p] == 1) continue;
      const bool there =
          std::any_of(in.begin(), in.end(), [&](const Value& v) { return v && (*v)[p] != kNone; });
      map[p] =
          there ? axis_behind(axes, in, result, p, type.shape) : gained_axis(axes, in, result, p, type.shape);
      if (there && map[p] == kNone) return differ(eqn);
    }
    return kept(type, std::move(map));
  }
  Value differ(const Eqn& eqn) {
    fail(what_ == Positions::Samples && is_mixing(eqn)
             ? fmt::format("'{}' may sum over samples", eqn.prim->name())
             : not_preserving(eqn),
         &eqn);
    return {};
  }
  // Elementwise operations need no axes to tell that.
  void require_one_place(const Eqn& eqn, const Values& in) {
    AxisMap places(varshape_.rank(), kNone);
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (!in[i]) continue;
      if (aval_of(eqn.in[i]).shape.is_scalar() && varshape_.size() > 1) return fail(not_preserving(eqn));
      for (std::size_t p = 0; p < places.size(); ++p) {
        const std::size_t axis = (*in[i])[p];
        if (axis != kNone && places[p] != kNone && axis != places[p])
          return fail(fmt::format("'{}' meets positions on different axes", eqn.prim->name()));
        if (axis != kNone) places[p] = axis;
      }
    }
  }
  static bool depends(const AxisTable& axes, const Values& in, std::size_t result) {
    bool any = axes.from[result].empty();
    for (const auto& by_operand : axes.from[result])
      for (std::size_t i = 0; i < in.size(); ++i)
        any = any || (in[i] && by_operand[i].kind != AxisSource::Nothing);
    return any;
  }
  // Where an operand lacks the axis, it is the same along it: broadcast, say.
  std::size_t axis_behind(const AxisTable& axes, const Values& in, std::size_t result, std::size_t p,
                          const Shape& shape) const {
    for (std::size_t b = 0; b < shape.rank(); ++b) {
      bool all = shape[b] == varshape_[p];
      for (std::size_t i = 0; all && i < in.size(); ++i) {
        const AxisSource& s = axes.at(b, i, result);
        if (!in[i] || s.kind == AxisSource::Nothing) continue;
        const std::size_t from = (*in[i])[p];
        all = from == kNone ? s.kind == AxisSource::Same : s == AxisSource{AxisSource::Along, from};
      }
      if (all) return b;
    }
    return kNone;
  }
  // A source that lacked leading position axes gets them by broadcasting, the last ones first where that
  // happens in steps.
  std::size_t gained_axis(const AxisTable& axes, const Values& in, std::size_t result, std::size_t p,
                          const Shape& shape) const {
    const std::size_t missing = is_suffix(shape) ? varshape_.rank() - shape.rank() : 0, b = p - missing;
    bool repeats = p >= missing && b < shape.rank() && shape[b] == varshape_[p];
    for (std::size_t i = 0; repeats && i < in.size(); ++i)
      repeats = !in[i] || axes.at(b, i, result).kind == AxisSource::Same;
    return repeats ? b : kNone;
  }
  static Value moved(Value v, int by) {
    for (std::size_t i = 0; v && i < v->size(); ++i)
      if ((*v)[i] != kNone) (*v)[i] += static_cast<std::size_t>(by);
    return v;
  }

  Values mix(const Eqn& eqn, const Values& in) {
    if (result_.mixing != nullptr)
      fail(fmt::format("the transition applies more than one position-mixing equation reachable from the "
                       "hidden state ({}, {}); "
                       "their composed transfer is not the pattern of either one.",
                       result_.mixing->prim->name(), eqn.prim->name()),
           &eqn);
    else if (const EtpRules* rules = etp_rules(*eqn.prim); rules == nullptr || rules->adjacency == nullptr)
      fail(fmt::format("the position-mixing equation '{}' has no adjacency rule", eqn.prim->name()), &eqn);
    else
      mix_by(eqn, in, *rules);
    return done() ? Values{} : Values{kept(eqn.out[0].aval, leading_axes(varshape_.rank()))};
  }
  void mix_by(const Eqn& eqn, const Values& in, const EtpRules& rules) {
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i] && i != *rules.x_operand)
        return fail(fmt::format("the hidden state enters '{}' as a weight", eqn.prim->name()));
    const Shape x = aval_of(eqn.in[*rules.x_operand]).shape, y = eqn.out[0].aval.shape;
    if (x != varshape_ || y != varshape_)
      return fail(fmt::format("'{}' maps shape {} to shape {}, but the hidden states have shape {}",
                              eqn.prim->name(), to_string(x), to_string(y), to_string(varshape_)),
                  &eqn);
    const AxisMap& places = *in[*rules.x_operand];
    for (std::size_t p = 0; p < places.size(); ++p)
      if (places[p] != p && places[p] != kNone)
        return fail(fmt::format("the hidden state enters '{}' with its axes exchanged", eqn.prim->name()),
                    &eqn);
    if (varshape_.is_scalar() || rules.adjacency(eqn.params, varshape_.back()).empty())
      return fail(fmt::format("the adjacency rule of '{}' makes no statement about an axis of this size",
                              eqn.prim->name()));
    result_.mixing = &eqn;
    if (depth_ > 0) fail(not_preserving(eqn));
  }

  // The reference knows elementwise operations on the positions alone, but not that a spike keeps them apart.
  Values as_reference(const Eqn& eqn, const Values& in) {
    const auto fits = [&](const Shape& s) { return s.is_scalar() || begins_with(s, varshape_); };
    const bool known =
        is_etp(*eqn.prim) || (eqn.prim->spec.elementwise && eqn.prim != &heaviside_surrogate_gradient_p);
    const bool all =
        std::all_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) { return fits(aval_of(a).shape); }) &&
        std::all_of(eqn.out.begin(), eqn.out.end(),
                    [&](const Var& v) { return begins_with(v.aval.shape, varshape_); });
    Values out(eqn.out.size());
    for (std::size_t i = 0; i < in.size(); ++i)
      if (in[i] && (!known || !all || (aval_of(eqn.in[i]).shape.is_scalar() && varshape_.size() > 1)))
        fail(not_preserving(eqn), known ? nullptr : &eqn);
    for (Value& v : out) v = leading_axes(varshape_.rank());
    return out;
  }

  void check_output(const Value& v) {
    for (std::size_t i = 0; v && i < v->size(); ++i)
      if ((*v)[i] != i && (*v)[i] != kNone) return fail("positions end on other axes than they started on");
  }

  Shape varshape_;
  Compat compat_;
  Positions what_;
  int depth_ = 0, in_rule_ = 0;  // bodies around, of them functions with derivatives of their own
  bool values_ = false;          // are followed, whatever derivatives do
  PositionSweep result_;
};

}  // namespace

PositionSweep sweep_positions(const Jaxpr& program, std::span<const Var> sources, const Shape& varshape,
                              Compat compat) {
  return Sweeper(varshape, compat).run(program, sources);
}

std::string why_samples_mix(const Jaxpr& program, std::span<const Var> sources, std::int64_t samples) {
  if (samples == 1) return {};
  return Sweeper({samples}, Compat::None, Positions::Samples).run(program, sources).reason;
}

std::string why_sample_values_mix(const Jaxpr& program, std::span<const Var> sources, std::int64_t samples) {
  if (samples == 1) return {};
  return Sweeper({samples}, Compat::None, Positions::Samples).run_values(program, sources).reason;
}

}  // namespace etrace
