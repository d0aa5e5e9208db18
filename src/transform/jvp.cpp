// Forward mode: every equation is replaced by its value and, if a tangent reaches it, by its tangent rule.
//   y = f(x),  dy = J_f(x)·dx
#include "etrace/error.h"
#include "etrace/transform.h"
#include "transform/env.h"

namespace etrace {

namespace {

// A tangent lives in the space of its value; integers and booleans have none, nor has what cannot move.
void drop_absent_tangents(ArraySpan y, Arrays& dy) {
  for (std::size_t i = 0; i < y.size(); ++i)
    dy[i] = is_floating(y[i].dtype()) ? without_zero(dy[i]) : Array();
}

ValuesAndTangents jvp_eqn(const Eqn& eqn, const Arrays& x, const Arrays& dx, TangentMode mode) {
  const PrimitiveSpec& spec = eqn.prim->spec;
  if (mode == TangentMode::Linear && spec.linearize != nullptr) return spec.linearize(eqn.params, x, dx);
  if (spec.jvp_joint != nullptr) return spec.jvp_joint(eqn.params, x, dx);
  Arrays y = bind_primitive(*eqn.prim, x, eqn.params);
  if (spec.jvp != nullptr) {
    Arrays dy = spec.jvp(eqn.params, x, y, dx);
    return {std::move(y), std::move(dy)};
  }
  if (spec.lower != nullptr) {
    // The value keeps the primitive's identity; the tangent goes through its lowering.
    const Recording body = record(avals_of(x), [&](ArraySpan in) { return spec.lower(eqn.params, in); });
    return {std::move(y), jvp_eval(body.jaxpr, body.captured, x, dx, mode).dy};
  }
  throw NotSupportedError(
      std::string(eqn.prim->name()),
      "this operation has no derivative rule; wrap it in stop_gradient or give it one with custom_jvp",
      eqn.origin);
}

}  // namespace

ValuesAndTangents jvp_eval(const Jaxpr& jaxpr, ArraySpan consts, ArraySpan x, ArraySpan dx,
                           TangentMode mode) {
  Env values, tangents;
  for (std::size_t i = 0; i < consts.size(); ++i) values.set(jaxpr.constvars[i], consts[i]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    values.set(jaxpr.invars[i], x[i]);
    if (is_floating(jaxpr.invars[i].aval.dtype)) tangents.set(jaxpr.invars[i], without_zero(dx[i]));
  }
  auto tangent = [&](const Atom& a) { return as_var(a) != nullptr ? tangents.get(*as_var(a)) : Array(); };
  for (const Eqn& eqn : jaxpr.eqns) {
    const OriginScope scope(eqn.origin, OriginScope::Absolute);
    const Arrays in = values.get_all(eqn.in);
    Arrays din;
    for (const Atom& a : eqn.in) din.push_back(tangent(a));
    if (!any_defined(din)) {
      values.set_all(eqn.out, bind_primitive(*eqn.prim, in, eqn.params));
      continue;
    }
    ValuesAndTangents out = jvp_eqn(eqn, in, din, mode);
    drop_absent_tangents(out.y, out.dy);
    values.set_all(eqn.out, out.y);
    tangents.set_all(eqn.out, out.dy);
  }
  ValuesAndTangents result;
  for (const Atom& a : jaxpr.outs) {
    result.y.push_back(values.get(a));
    result.dy.push_back(tangent(a));
  }
  return result;
}

namespace {
Avals active_avals(const Avals& in, const Mask& active) {
  Avals out;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (active[i]) out.push_back(in[i]);
  return out;
}

Mask checked_mask(const Mask& mask, std::size_t size, const char* what) {
  if (mask.size() != size)
    throw ValueError("transform", std::string(what) + " has " + std::to_string(mask.size()) +
                                      " entries for " + std::to_string(size) + " values");
  return mask;
}

// Fills in forced zeros and returns the tangents that are there.
Arrays gather_tangents(const ValuesAndTangents& out, const Mask& force, Mask& active_out) {
  Arrays dy;
  for (std::size_t i = 0; i < out.y.size(); ++i) {
    const bool forced = !force.empty() && force[i];
    active_out.push_back(out.dy[i].defined() || forced);
    if (active_out.back()) dy.push_back(instantiate(out.dy[i], out.y[i].aval()));
  }
  return dy;
}
}  // namespace

Jvp jvp(const ClosedJaxpr& closed, const Mask& active, const Mask& force_out) {
  const Avals in = closed.in_avals();
  checked_mask(active, in.size(), "the mask of active inputs");
  Avals all = in;
  for (const Aval& a : active_avals(in, active)) all.push_back(a);
  Jvp result;
  const Arrays consts = to_arrays(closed.consts);
  result.jaxpr = close(record(all, [&](ArraySpan args) {
    const ArraySpan x = args.first(in.size());
    const Arrays dx = spread(args.subspan(in.size()), active);
    ValuesAndTangents out = jvp_eval(closed.jaxpr, consts, x, dx);
    Arrays outs = out.y;
    for (Array& t : gather_tangents(out, force_out, result.active_out)) outs.push_back(std::move(t));
    return outs;
  }));
  return result;
}

Linearization linearize(const ClosedJaxpr& closed, const Mask& active, const Mask& force_out) {
  const Avals in = closed.in_avals();
  checked_mask(active, in.size(), "the mask of active inputs");
  Linearization result;
  Recording linear;
  const Arrays consts = to_arrays(closed.consts);
  result.primal = close(record(in, [&](ArraySpan x) {
    ValuesAndTangents out;
    linear = record(active_avals(in, active), [&](ArraySpan tangents) {
      out = jvp_eval(closed.jaxpr, consts, x, spread(tangents, active), TangentMode::Linear);
      return gather_tangents(out, force_out, result.active_out);
    });
    Arrays outs = out.y;
    for (const Array& r : linear.captured)
      if (r.is_tracer()) outs.push_back(r);
    return outs;
  }));
  // Captured values of the primal program become leading inputs; constants stay constants.
  Jaxpr body = std::move(linear.jaxpr);
  std::vector<Var> residuals, constvars;
  for (std::size_t i = 0; i < linear.captured.size(); ++i) {
    const bool residual = linear.captured[i].is_tracer();
    (residual ? residuals : constvars).push_back(body.constvars[i]);
    if (!residual) result.linear.consts.push_back(linear.captured[i].tensor());
  }
  result.num_residuals = residuals.size();
  body.constvars = std::move(constvars);
  body.invars.insert(body.invars.begin(), residuals.begin(), residuals.end());
  result.linear.jaxpr = std::move(body);
  result.primal = eliminate_dead_code(result.primal);
  return result;
}

}  // namespace etrace
