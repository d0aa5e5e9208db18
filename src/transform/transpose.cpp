// Reverse mode's second half: a program that is linear in some inputs, run backwards.
//   y = A·x   becomes   ct_x = Aᵀ·ct_y,   equation by equation, last first.
#include <unordered_set>

#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/transform.h"
#include "transform/env.h"

namespace etrace {

namespace {

void add_to(Env& cotangents, const Var& v, const Array& ct) {
  if (const Array own = without_zero(ct); own.defined())
    cotangents.set(v, add_cotangents(cotangents.take(v), own));
}

Arrays transpose_eqn(const Eqn& eqn, const Arrays& ct, const Arrays& x) {
  Avals in;
  for (const Atom& a : eqn.in) in.push_back(aval_of(a));
  const PrimitiveSpec& spec = eqn.prim->spec;
  if (spec.transpose != nullptr) return spec.transpose(eqn.params, ct, x, in);
  if (spec.lower != nullptr) {
    const Recording body = record(in, [&](ArraySpan args) { return spec.lower(eqn.params, args); });
    return transpose_eval(body.jaxpr, body.captured, x, ct);
  }
  throw NotSupportedError(std::string(eqn.prim->name()), "this operation has no transpose rule", eqn.origin);
}

}  // namespace

Arrays transpose_eval(const Jaxpr& jaxpr, ArraySpan consts, ArraySpan x, ArraySpan ct) {
  Env values;
  for (std::size_t i = 0; i < consts.size(); ++i) values.set(jaxpr.constvars[i], consts[i]);
  for (std::size_t i = 0; i < x.size(); ++i) values.set(jaxpr.invars[i], x[i]);

  // Forwards: what does not depend on the linear inputs is evaluated, the rest is remembered.
  std::vector<const Eqn*> linear;
  for (const Eqn& eqn : jaxpr.eqns) {
    bool known = true;
    for (const Atom& a : eqn.in) known = known && values.get(a).defined();
    if (known) {
      const OriginScope scope(eqn.origin, OriginScope::Absolute);
      values.set_all(eqn.out, bind_primitive(*eqn.prim, values.get_all(eqn.in), eqn.params));
    } else {
      linear.push_back(&eqn);
    }
  }

  Env cotangents;
  for (std::size_t i = 0; i < jaxpr.outs.size(); ++i)
    if (const Var* v = as_var(jaxpr.outs[i])) add_to(cotangents, *v, ct[i]);
  for (std::size_t i = linear.size(); i-- > 0;) {
    const Eqn& eqn = *linear[i];
    Arrays out;
    for (const Var& v : eqn.out) out.push_back(cotangents.take(v));
    if (!any_defined(out)) continue;
    const OriginScope scope(eqn.origin, OriginScope::Absolute);
    const Arrays in = values.get_all(eqn.in);
    const Arrays cts = transpose_eqn(eqn, out, in);
    for (std::size_t k = 0; k < eqn.in.size(); ++k)
      if (const Var* v = as_var(eqn.in[k]); v != nullptr && !in[k].defined()) add_to(cotangents, *v, cts[k]);
  }

  Arrays result;
  for (std::size_t i = 0; i < x.size(); ++i)
    result.push_back(x[i].defined() ? Array() : cotangents.get(jaxpr.invars[i]));
  return result;
}

ClosedJaxpr transpose(const ClosedJaxpr& closed, const Mask& linear, const Mask& ct_active) {
  const Avals in = closed.in_avals(), out = closed.out_avals();
  const Mask with_ct = ct_active.empty() ? Mask(out.size(), true) : ct_active;
  if (linear.size() != in.size() || with_ct.size() != out.size())
    throw ValueError("transform", "transpose: the masks do not fit the program's inputs and outputs");
  Mask known(linear);
  known.flip();
  Avals args;
  for (std::size_t i = 0; i < in.size(); ++i)
    if (known[i]) args.push_back(in[i]);
  const std::size_t num_known = args.size();
  for (std::size_t i = 0; i < out.size(); ++i)
    if (with_ct[i]) args.push_back(out[i]);
  const Arrays consts = to_arrays(closed.consts);
  return eliminate_dead_code(close(record(args, [&](ArraySpan a) {
    const Arrays cts = transpose_eval(closed.jaxpr, consts, spread(a.first(num_known), known),
                                      spread(a.subspan(num_known), with_ct));
    Arrays outs;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (linear[i]) outs.push_back(instantiate(cts[i], in[i]));
    return outs;
  })));
}

ClosedJaxpr vjp(const ClosedJaxpr& closed, const Mask& active) {
  const Avals in = closed.in_avals(), out = closed.out_avals();
  Mask wanted = active.empty() ? Mask(in.size(), true) : active;
  const Linearization lin = linearize(closed, wanted);
  Avals args = in;
  args.insert(args.end(), out.begin(), out.end());
  return eliminate_dead_code(close(record(args, [&](ArraySpan a) {
    Arrays outs = eval_jaxpr(lin.primal, a.first(in.size()));
    Arrays x(outs.begin() + static_cast<std::ptrdiff_t>(out.size()), outs.end());
    outs.resize(out.size());
    x.resize(lin.num_residuals + count(wanted));
    const Arrays ct = select(a.subspan(in.size()), lin.active_out);
    const Arrays cts = transpose_eval(lin.linear.jaxpr, to_arrays(lin.linear.consts), x, ct);
    std::size_t next = lin.num_residuals;
    for (std::size_t i = 0; i < in.size(); ++i)
      if (wanted[i]) outs.push_back(instantiate(cts[next++], in[i]));
    return outs;
  })));
}

ClosedJaxpr value_and_grad(const ClosedJaxpr& closed, const Mask& active) {
  const Avals in = closed.in_avals(), out = closed.out_avals();
  if (out.empty() || !out[0].shape.is_scalar() || !is_floating(out[0].dtype))
    throw ValueError("grad", "the first output must be a floating-point scalar, but it is " +
                                 (out.empty() ? std::string("missing") : to_string(out[0])) +
                                 "; reduce the loss with sum or mean");
  const ClosedJaxpr reverse = vjp(closed, active);
  return eliminate_dead_code(close(record(in, [&](ArraySpan x) {
    Arrays args(x.begin(), x.end());
    for (std::size_t i = 0; i < out.size(); ++i)
      args.push_back(full(out[i].shape, i == 0 ? 1.0 : 0.0, out[i].dtype));
    return eval_jaxpr(reverse, args);
  })));
}

}  // namespace etrace
