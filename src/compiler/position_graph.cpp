// Positions: an index into the shape that all states of a group share. A program preserves positions if
// output position p depends on input position p only. Start at sweep_positions.
#include "compiler/position_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "compiler/mixing.h"
#include "compiler/program_between.h"
#include "compiler/sample_moves.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/linalg.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "ops/dot_dims.h"

namespace etrace {

namespace {

// For each axis of the positions: the axis of a value that carries it. An axis of size 1 says nothing about a
// position and is never followed, so that values may drop it and get it back.
using AxisMap = std::vector<std::size_t>;

AxisMap leading_axes(std::size_t rank) {
  AxisMap map(rank);
  for (std::size_t i = 0; i < rank; ++i) map[i] = i;
  return map;
}

bool is_mixing(const Eqn& eqn) { return is_mixing_etp(eqn) || is_plain_product(eqn); }

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

// Follows the axes that carry positions through a program, as derivatives see it: nothing passes
// stop_gradient, a number that is not floating, or the choice of a branch. Of samples, which are positions on
// a leading axis, products tell whether they keep them apart.
enum class Positions : std::uint8_t { OfStates, Samples };
class Sweeper {
 public:
  Sweeper(const Shape& varshape, Compat compat, Positions what = Positions::OfStates)
      : varshape_(varshape), compat_(compat), what_(what) {}

  PositionSweep run_values(const Jaxpr& program, std::span<const Var> sources) {
    values_ = true;
    return run(program, sources);
  }
  PositionSweep run(const Jaxpr& program, std::span<const Var> sources) {
    for (const Var& v : sources) {
      if (!carries_positions(v.aval.shape)) {
        result_.reason = fmt::format("a value of shape {} does not carry the positions {}",
                                     to_string(v.aval.shape), to_string(varshape_));
        return result_;
      }
      reach(v, source_map(v.aval.shape));
    }
    for (const Eqn* eqn : ways(program)) {
      if (!reads_reached(*eqn)) continue;
      step(*eqn);
      if (!result_.reason.empty()) {
        result_.mixing = nullptr;
        return result_;
      }
    }
    check_outputs(program);
    return result_;
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

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  // Rules of derivatives are programs of their own: tangents pass stop_gradient as values do. The reference
  // follows values.
  bool ends_derivatives() const { return compat_ == Compat::None && !in_rule_ && !values_; }
  std::vector<const Eqn*> ways(const Jaxpr& program) const {
    if (ends_derivatives()) return derivative_ways(program, program.outs);
    std::vector<const Eqn*> all;
    for (const Eqn& eqn : program.eqns) all.push_back(&eqn);
    return all;
  }
  // For a body.
  Sweeper inside() const {
    Sweeper inner(varshape_, compat_, what_);
    inner.in_rule_ = in_rule_;
    inner.values_ = values_;
    return inner;
  }
  // For a program that computes derivatives.
  Sweeper inside_rule() const {
    Sweeper inner = inside();
    inner.in_rule_ = true;
    return inner;
  }

  void reach(const Var& v, AxisMap map) {
    if (!is_floating(v.aval.dtype) && ends_derivatives()) return;
    for (std::size_t i = 0; compat_ == Compat::None && i < map.size(); ++i)
      if (varshape_[i] == 1) map[i] = kNone;
    maps_.insert_or_assign(v.id, std::move(map));
  }
  const AxisMap* map_of(const Atom& a) const {
    const Var* v = as_var(a);
    const auto it = v != nullptr ? maps_.find(v->id) : maps_.end();
    return it == maps_.end() ? nullptr : &it->second;
  }
  bool reads_reached(const Eqn& eqn) const {
    return std::any_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) { return map_of(a) != nullptr; });
  }
  void fail(std::string reason, const Eqn* at = nullptr) {
    result_.reason = std::move(reason);
    result_.at = at;
  }

  void step(const Eqn& eqn) {
    if (is_mixing(eqn)) return mix(eqn);
    const bool gradient_enabled_etp = is_etp(*eqn.prim) && !is_mixing_etp(eqn);
    // The reference does not know that a spike keeps positions apart.
    const bool coupling_spike = eqn.prim == &heaviside_surrogate_gradient_p && compat_ != Compat::None;
    if (gradient_enabled_etp || (eqn.prim->spec.elementwise && !coupling_spike)) return elementwise(eqn);
    if (compat_ == Compat::None && move(eqn)) return;
    if (!values_ || !move_samples(eqn)) fail(not_preserving(eqn), &eqn);
  }

  bool move_samples(const Eqn& eqn) {
    SampleAxes axes;
    for (const Atom& a : eqn.in) {
      const AxisMap* map = map_of(a);
      axes.push_back(map != nullptr && (*map)[0] != kNone ? std::optional((*map)[0]) : std::nullopt);
    }
    const std::optional<std::size_t> axis = samples_behind(eqn, axes);
    if (!axis) return false;
    for (const Var& v : eqn.out) reach(v, {*axis});
    return true;
  }

  void mix(const Eqn& eqn) {
    if (what_ == Positions::Samples) return mix_samples(eqn);
    if (result_.mixing != nullptr)
      return fail(
          fmt::format("the transition applies more than one position-mixing equation reachable from the "
                      "hidden state ({}, {}); "
                      "their composed transfer is not the pattern of either one.",
                      result_.mixing->prim->name(), eqn.prim->name()),
          &eqn);
    const EtpRules* rules = etp_rules(*eqn.prim);
    if (rules == nullptr || rules->adjacency == nullptr)
      return fail(fmt::format("the position-mixing equation '{}' has no adjacency rule", eqn.prim->name()),
                  &eqn);
    for (std::size_t i = 0; i < eqn.in.size(); ++i)
      if (map_of(eqn.in[i]) != nullptr && i != *rules->x_operand)
        return fail(fmt::format("the hidden state enters '{}' as a weight", eqn.prim->name()));
    const Shape x = aval_of(eqn.in[*rules->x_operand]).shape, y = eqn.out[0].aval.shape;
    if (x != varshape_ || y != varshape_)
      return fail(fmt::format("'{}' maps shape {} to shape {}, but the hidden states have shape {}",
                              eqn.prim->name(), to_string(x), to_string(y), to_string(varshape_)),
                  &eqn);
    if (varshape_.is_scalar() || rules->adjacency(eqn.params, varshape_.back()).empty())
      return fail(fmt::format("the adjacency rule of '{}' makes no statement about an axis of this size",
                              eqn.prim->name()));
    result_.mixing = &eqn;
    reach(eqn.out[0], leading_axes(varshape_.rank()));
  }

  // A product keeps samples apart if it does not sum over their axis.
  void mix_samples(const Eqn& eqn) {
    std::optional<std::size_t> axis;
    if (eqn.prim == &dot_general_p)
      axis = product_axis(eqn);
    else if (const EtpRules* rules = etp_rules(*eqn.prim); rules != nullptr)
      axis = operator_axis(eqn, *rules);
    if (!axis && values_ && move_samples(eqn)) return;
    // A convolution of several groups of samples has fewer results than samples.
    if (!axis || !still_there({*axis}, eqn.out[0].aval.shape))
      return fail(fmt::format("'{}' may sum over samples", eqn.prim->name()));
    reach(eqn.out[0], {*axis});
  }
  // Batched operators have the samples of x in front.
  std::optional<std::size_t> operator_axis(const Eqn& eqn, const EtpRules& rules) const {
    for (std::size_t i = 0; i < eqn.in.size(); ++i)
      if (const AxisMap* map = map_of(eqn.in[i]);
          map != nullptr && (!rules.batched || rules.x_operand != i || (*map)[0] != 0))
        return std::nullopt;
    return 0;
  }
  // Results have the shared axes in front, then the free ones of both operands.
  std::optional<std::size_t> product_axis(const Eqn& eqn) const {
    const DotDims d = dot_dims(eqn.params);
    std::optional<std::size_t> found;
    std::size_t before = d.lhs_batch.size();
    for (const std::size_t side : {0, 1}) {
      const Dims &shared = side == 0 ? d.lhs_batch : d.rhs_batch,
                 &summed = side == 0 ? d.lhs_contract : d.rhs_contract;
      const auto has = [](const Dims& axes, std::size_t a) {
        return std::find(axes.begin(), axes.end(), static_cast<std::int64_t>(a)) != axes.end();
      };
      const AxisMap* map = map_of(eqn.in[side]);
      std::size_t at = before;
      for (std::size_t a = 0; a < aval_of(eqn.in[side]).shape.rank(); ++a) {
        const bool samples = map != nullptr && (*map)[0] == a;
        if (samples && has(summed, a)) return std::nullopt;
        if (has(summed, a)) continue;
        const auto place = std::find(shared.begin(), shared.end(), static_cast<std::int64_t>(a));
        const std::size_t to =
            place != shared.end() ? static_cast<std::size_t>(place - shared.begin()) : at++;
        if (samples && found && *found != to) return std::nullopt;
        if (samples) found = to;
      }
      before = at;
    }
    return found;
  }

  // All reached operands must carry positions on the same axes; other operands are constants of the position.
  void elementwise(const Eqn& eqn) {
    const AxisMap* common = nullptr;
    for (const Atom& a : eqn.in) {
      const AxisMap* map = map_of(a);
      const Shape& shape = aval_of(a).shape;
      if (compat_ != Compat::None && !shape.is_scalar() && !begins_with(shape, varshape_))
        return fail(not_preserving(eqn));
      if (map == nullptr) continue;
      if (shape.is_scalar() && varshape_.size() > 1) return fail(not_preserving(eqn));
      if (common != nullptr && *common != *map)
        return fail(fmt::format("'{}' meets positions on different axes", eqn.prim->name()));
      common = map;
    }
    for (const Var& v : eqn.out) {
      if (compat_ != Compat::None && !v.aval.shape.is_scalar() && !begins_with(v.aval.shape, varshape_))
        return fail(not_preserving(eqn));
      if (!still_there(*common, v.aval.shape)) return fail(not_preserving(eqn));
      reach(v, *common);
    }
  }

  // Along mapped axes a value has the positions' size; along unmapped ones it may grow by broadcasting.
  bool still_there(const AxisMap& map, const Shape& shape) const {
    for (std::size_t i = 0; i < map.size(); ++i)
      if (map[i] != kNone && (map[i] >= shape.rank() || shape[map[i]] != varshape_[i])) return false;
    return true;
  }

  bool is_position_axis(const AxisMap& map, std::size_t axis) const {
    return std::find(map.begin(), map.end(), axis) != map.end();
  }

  bool touches_positions(const AxisMap& map, const Dims& axes) const {
    return std::any_of(axes.begin(), axes.end(),
                       [&](std::int64_t a) { return is_position_axis(map, static_cast<std::size_t>(a)); });
  }

  // Operations that rearrange axes or work along axes that carry no positions. False: not one of these, or it
  // would move positions.
  bool move(const Eqn& eqn) {
    if (eqn.prim == &concatenate_p || eqn.prim == &stack_p) return join(eqn);
    if (eqn.prim == &custom_jvp_call_p || (eqn.prim == &custom_vjp_call_p && compat_ == Compat::None))
      return custom_call(eqn);
    if (eqn.prim == &cond_p) return conditional(eqn);
    if (eqn.prim == &while_p) return while_loop(eqn);
    if (eqn.prim == &scan_p) return scan_loop(eqn);
    const AxisMap* map = map_of(eqn.in[0]);
    if (map == nullptr) return false;
    const Shape& in = aval_of(eqn.in[0]).shape;
    if (eqn.prim == &broadcast_in_dim_p) return broadcast(eqn, *map, in);
    if (eqn.prim == &transpose_p) {
      const Dims perm = eqn.params.dims("permutation");
      AxisMap moved(*map);
      for (std::size_t& m : moved)
        for (std::size_t k = 0; m != kNone && k < perm.size(); ++k)
          if (static_cast<std::size_t>(perm[k]) == m) {
            m = k;
            break;
          }
      return settle(eqn, moved);
    }
    if (eqn.prim == &squeeze_p || eqn.prim == &reduce_sum_p || eqn.prim == &reduce_max_p ||
        eqn.prim == &reduce_min_p || eqn.prim == &reduce_prod_p) {
      const Dims axes = eqn.params.dims(eqn.prim == &squeeze_p ? "dimensions" : "axes");
      return !touches_positions(*map, axes) && settle(eqn, without_axes(*map, axes));
    }
    if (eqn.prim == &expand_dims_p) return settle(eqn, with_axes(*map, eqn.params.dims("dimensions")));
    if (eqn.prim == &reshape_p) return reshape_units(eqn, *map, in);
    if (eqn.prim == &slice_p) {
      const Shape& out = eqn.out[0].aval.shape;
      for (std::size_t i = 0; i < in.rank(); ++i)
        if (in[i] != out[i] && is_position_axis(*map, i)) return false;
      return settle(eqn, *map);
    }
    return false;
  }

  bool settle(const Eqn& eqn, AxisMap map) {
    if (!still_there(map, eqn.out[0].aval.shape)) return false;
    reach(eqn.out[0], std::move(map));
    return true;
  }

  static AxisMap without_axes(AxisMap map, const Dims& axes) {
    for (std::size_t& m : map)
      if (m != kNone)
        m -= static_cast<std::size_t>(std::count_if(
            axes.begin(), axes.end(), [&](std::int64_t a) { return static_cast<std::size_t>(a) < m; }));
    return map;
  }

  static AxisMap with_axes(AxisMap map, Dims axes) {
    std::sort(axes.begin(), axes.end());
    for (const std::int64_t a : axes)
      for (std::size_t& m : map)
        if (m != kNone && m >= static_cast<std::size_t>(a)) ++m;
    return map;
  }

  bool broadcast(const Eqn& eqn, const AxisMap& map, const Shape& in) {
    const Dims to = eqn.params.dims("broadcast_dimensions");
    const Shape& out = eqn.out[0].aval.shape;
    AxisMap moved(map);
    for (std::size_t i = 0; i < map.size(); ++i) {
      if (map[i] == kNone) continue;
      const auto target = static_cast<std::size_t>(to[map[i]]);
      if (in[map[i]] != out[target]) return false;
      moved[i] = target;
    }
    return settle(eqn, adopt_batch(moved, out));
  }

  // A source that lacked leading position axes gets them by broadcasting: unmapped leading axes of the right
  // size are they.
  AxisMap adopt_batch(AxisMap map, const Shape& shape) const {
    for (std::size_t i = 0; i < map.size(); ++i)
      if (map[i] == kNone && i < shape.rank() && shape[i] == varshape_[i] && !is_position_axis(map, i))
        map[i] = i;
    return map;
  }

  // Reshapes that only add or drop axes of size 1, and those behind the samples.
  bool reshape_units(const Eqn& eqn, const AxisMap& map, const Shape& in) {
    const Shape& out = eqn.out[0].aval.shape;
    if (what_ == Positions::Samples && map[0] == 0 && out.rank() > 0 && out[0] == in[0])
      return settle(eqn, map);
    std::vector<std::size_t> to(in.rank(), kNone);
    std::size_t j = 0;
    for (std::size_t i = 0; i < in.rank(); ++i) {
      if (in[i] == 1) continue;
      while (j < out.rank() && out[j] == 1) ++j;
      if (j == out.rank() || out[j] != in[i]) return false;
      to[i] = j++;
    }
    while (j < out.rank())
      if (out[j++] != 1) return false;
    AxisMap moved(map);
    for (std::size_t& m : moved)
      if (m != kNone) {
        m = to[m];
      }
    return settle(eqn, moved);
  }

  bool join(const Eqn& eqn) {
    const bool stacks = eqn.prim == &stack_p;
    const auto axis = static_cast<std::size_t>(eqn.params.integer(stacks ? "axis" : "dimension"));
    const AxisMap* common = nullptr;
    for (const Atom& a : eqn.in) {
      const AxisMap* map = map_of(a);
      if (map == nullptr) continue;
      if (common != nullptr && *common != *map) return false;
      common = map;
    }
    if (common == nullptr || (!stacks && is_position_axis(*common, axis))) return false;
    return settle(eqn, stacks ? with_axes(*common, {static_cast<std::int64_t>(axis)}) : *common);
  }

  // Follows positions through a body whose inputs are the equation's operands from `first` on. False: they
  // are not preserved. What the outputs carry is left in `inner`.
  bool sweep_body(const Jaxpr& body, const Eqn& eqn, std::size_t first, Sweeper& inner) const {
    for (std::size_t i = 0; i < body.invars.size(); ++i)
      if (const AxisMap* map = map_of(eqn.in[first + i])) inner.reach(body.invars[i], *map);
    return inner.sweep_equations(body);
  }

  bool sweep_equations(const Jaxpr& body) {
    for (const Eqn* e : ways(body)) {
      if (!reads_reached(*e)) continue;
      if (is_mixing(*e) && what_ == Positions::OfStates) return false;
      step(*e);
      if (!result_.reason.empty()) return false;
    }
    return true;
  }

  // A call preserves positions if its body does.
  bool call(const Jaxpr& body, const Eqn& eqn, std::size_t first) { return call(body, eqn, first, inside()); }
  bool call(const Jaxpr& body, const Eqn& eqn, std::size_t first, Sweeper inner) {
    if (!sweep_body(body, eqn, first, inner)) return false;
    for (std::size_t i = 0; i < eqn.out.size(); ++i)
      if (!agree(inner.map_of(body.outs[i]), eqn.out[i])) return false;
    return true;
  }

  // What reaches v by one more way, if anything does, must carry positions on the axes that it has.
  bool agree(const AxisMap* map, const Var& v) {
    if (map == nullptr) return true;
    if (const AxisMap* other = map_of(v); other != nullptr && *other != *map) return false;
    reach(v, *map);
    return true;
  }

  // A function with derivatives of its own preserves positions if its values do and if its rules do, along
  // which influence is followed. (The reference looks at the values alone.)
  bool custom_call(const Eqn& eqn) {
    if (!call(eqn.params.jaxpr("call_jaxpr")->jaxpr, eqn, 0, inside_rule())) return false;
    if (compat_ != Compat::None) return true;
    if (const JaxprPtr rule = eqn.params.jaxpr_or_null("jvp_jaxpr")) return tangents(rule->jaxpr, eqn);
    const JaxprPtr fwd = eqn.params.jaxpr_or_null("fwd_jaxpr"), bwd = eqn.params.jaxpr_or_null("bwd_jaxpr");
    return fwd == nullptr || bwd == nullptr || cotangents(fwd->jaxpr, bwd->jaxpr, eqn);
  }

  // (x…, dx…) -> (y…, dy…)
  bool tangents(const Jaxpr& rule, const Eqn& eqn) {
    Sweeper inner = inside_rule();
    for (std::size_t i = 0; i < eqn.in.size(); ++i)
      if (const AxisMap* map = map_of(eqn.in[i])) {
        inner.reach(rule.invars[i], *map);
        inner.reach(rule.invars[eqn.in.size() + i], *map);
      }
    if (!inner.sweep_equations(rule)) return false;
    for (std::size_t i = 0; i < eqn.out.size(); ++i)
      if (!agree(inner.map_of(rule.outs[eqn.out.size() + i]), eqn.out[i])) return false;
    return true;
  }

  // (x…) -> (y…, residuals…), (residuals…, ct of y…) -> (ct of x…)
  bool cotangents(const Jaxpr& fwd, const Jaxpr& bwd, const Eqn& eqn) {
    Sweeper forward = inside_rule(), backward = inside_rule();
    if (!sweep_body(fwd, eqn, 0, forward)) return false;
    const std::size_t n = eqn.out.size(), residuals = fwd.outs.size() - n;
    // A value that does not depend on positions may have a derivative all the same.
    for (const Var& v : eqn.out)
      if (is_floating(v.aval.dtype) && map_of(v) == nullptr) return false;
    for (std::size_t i = 0; i < residuals; ++i)
      if (const AxisMap* map = forward.map_of(fwd.outs[n + i])) backward.reach(bwd.invars[i], *map);
    for (std::size_t i = 0; i < n; ++i)
      if (const AxisMap* map = map_of(eqn.out[i])) backward.reach(bwd.invars[residuals + i], *map);
    if (!backward.sweep_equations(bwd)) return false;
    for (std::size_t i = 0; i < eqn.in.size(); ++i) {
      const AxisMap *to = map_of(eqn.in[i]), *found = backward.map_of(bwd.outs[i]);
      if (to != nullptr && found != nullptr && *to != *found) return false;
    }
    return true;
  }

  // Every branch. Where values are followed, the choice must not depend on the positions.
  bool conditional(const Eqn& eqn) {
    if (map_of(eqn.in[0]) != nullptr) return false;
    for (const JaxprPtr& branch : eqn.params.jaxprs("branches"))
      if (!call(branch->jaxpr, eqn, 1)) return false;
    return true;
  }

  // Which values carry positions, and where.
  using Maps = std::vector<std::optional<AxisMap>>;
  Maps maps_of(const Eqn& eqn, std::size_t first, std::size_t count) const {
    Maps out(count);
    for (std::size_t i = 0; i < count; ++i)
      if (const AxisMap* map = map_of(eqn.in[first + i])) out[i] = *map;
    return out;
  }

  // A body (constants…, carry…, slices…) -> (carry…, results…), repeated: a carry that positions reach must
  // carry them on the same axes in every round. Extends `carry`; what the results carry, or none: positions
  // are not preserved.
  std::optional<Maps> repeat(const Jaxpr& body, const Maps& constants, Maps& carry,
                             const Maps& slices) const {
    for (;;) {
      Sweeper inner = inside();
      std::size_t at = 0;
      for (const Maps* part : {&constants, static_cast<const Maps*>(&carry), &slices})
        for (const std::optional<AxisMap>& map : *part)
          if (const Var& v = body.invars[at++]; map) inner.reach(v, *map);
      if (!inner.sweep_equations(body)) return std::nullopt;
      Maps out;
      for (const Atom& a : body.outs) {
        const AxisMap* map = inner.map_of(a);
        out.push_back(map != nullptr ? std::optional(*map) : std::nullopt);
      }
      bool changed = false;
      for (std::size_t i = 0; i < carry.size(); ++i) {
        if (!out[i] || carry[i] == out[i]) continue;
        if (carry[i]) return std::nullopt;
        carry[i] = out[i];
        changed = true;
      }
      if (!changed) return Maps(out.begin() + static_cast<std::ptrdiff_t>(carry.size()), out.end());
    }
  }

  bool while_loop(const Eqn& eqn) {
    const auto nc = static_cast<std::size_t>(eqn.params.integer("cond_nconsts")),
               nb = static_cast<std::size_t>(eqn.params.integer("body_nconsts"));
    const Jaxpr& body = eqn.params.jaxpr("body_jaxpr")->jaxpr;
    Maps carry = maps_of(eqn, nc + nb, body.outs.size());
    if (!repeat(body, maps_of(eqn, nc, nb), carry, {})) return false;
    if (!ends_derivatives() && decides(eqn.params.jaxpr("cond_jaxpr")->jaxpr, nc, carry)) return false;
    for (std::size_t i = 0; i < carry.size(); ++i)
      if (carry[i]) reach(eqn.out[i], *carry[i]);
    return true;
  }
  // Does the condition of a loop depend on positions, so that one would decide for all?
  static bool decides(const Jaxpr& condition, std::size_t constants, const Maps& carry) {
    VarIds reached;
    for (std::size_t i = 0; i < carry.size(); ++i)
      if (carry[i]) reached.insert(condition.invars[constants + i].id);
    for (const Eqn& e : condition.eqns)
      for (const Atom& a : e.in)
        if (const Var* v = as_var(a); v != nullptr && reached.contains(v->id)) return true;
    return false;
  }

  // Slices lie along the first axis of what is scanned, which must hold no positions.
  bool scan_loop(const Eqn& eqn) {
    const auto nc = static_cast<std::size_t>(eqn.params.integer("num_consts")),
               nk = static_cast<std::size_t>(eqn.params.integer("num_carry"));
    Maps slices = maps_of(eqn, nc + nk, eqn.in.size() - nc - nk), carry = maps_of(eqn, nc, nk);
    for (std::optional<AxisMap>& map : slices) {
      if (map && is_position_axis(*map, 0)) return false;
      if (map) map = without_axes(*map, {0});
    }
    const std::optional<Maps> results =
        repeat(eqn.params.jaxpr("jaxpr")->jaxpr, maps_of(eqn, 0, nc), carry, slices);
    if (!results) return false;
    for (std::size_t i = 0; i < eqn.out.size(); ++i)
      if (const std::optional<AxisMap>& map = i < nk ? carry[i] : (*results)[i - nk])
        reach(eqn.out[i], i < nk ? *map : with_axes(*map, {0}));
    return true;
  }

  void check_outputs(const Jaxpr& program) {
    for (const Atom& a : program.outs) {
      const AxisMap* map = map_of(a);
      if (map == nullptr) continue;
      for (std::size_t i = 0; i < map->size(); ++i)
        if ((*map)[i] != i && (*map)[i] != kNone)
          return fail("positions end on other axes than they started on");
    }
  }

  Shape varshape_;
  Compat compat_;
  Positions what_;
  bool in_rule_ = false;  // of derivatives
  bool values_ = false;   // are followed, whatever derivatives do
  PositionSweep result_;
  std::unordered_map<std::uint64_t, AxisMap> maps_;
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
