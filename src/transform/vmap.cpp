// Batching: every equation that a mapped value reaches is replaced by its batched form; the mapped axis
// always leads.
#include "etrace/error.h"
#include "etrace/ops/shape.h"
#include "etrace/transform.h"
#include "transform/env.h"

namespace etrace {

namespace {

BatchedArrays batch_eqn(const Eqn& eqn, const Arrays& x, const Mask& batched, std::int64_t n) {
  const PrimitiveSpec& spec = eqn.prim->spec;
  if (spec.batch != nullptr) {
    Arrays out = spec.batch(eqn.params, x, batched, n);
    const std::size_t size = out.size();
    return {std::move(out), Mask(size, true)};
  }
  if (spec.lower != nullptr) {
    Avals in;
    for (std::size_t i = 0; i < x.size(); ++i)
      in.push_back(batched[i] ? Aval{x[i].dtype(), x[i].shape().without(0)} : x[i].aval());
    const Recording body = record(in, [&](ArraySpan args) { return spec.lower(eqn.params, args); });
    return batch_eval(body.jaxpr, body.captured, x, batched, n);
  }
  throw NotSupportedError(std::string(eqn.prim->name()), "this operation has no batching rule", eqn.origin);
}

}  // namespace

BatchedArrays batch_eval(const Jaxpr& jaxpr, ArraySpan consts, ArraySpan x, const Mask& batched,
                         std::int64_t n) {
  Env values;
  std::unordered_map<std::uint64_t, bool> mapped;
  for (std::size_t i = 0; i < consts.size(); ++i) values.set(jaxpr.constvars[i], consts[i]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    values.set(jaxpr.invars[i], x[i]);
    if (batched[i]) mapped[jaxpr.invars[i].id] = true;
  }
  auto is_mapped = [&](const Atom& a) { return as_var(a) != nullptr && mapped.contains(as_var(a)->id); };
  for (const Eqn& eqn : jaxpr.eqns) {
    const OriginScope scope(eqn.origin, OriginScope::Absolute);
    const Arrays in = values.get_all(eqn.in);
    Mask in_mapped;
    bool any = false;
    for (const Atom& a : eqn.in) {
      in_mapped.push_back(is_mapped(a));
      any = any || in_mapped.back();
    }
    if (!any) {
      values.set_all(eqn.out, bind_primitive(*eqn.prim, in, eqn.params));
      continue;
    }
    const BatchedArrays out = batch_eqn(eqn, in, in_mapped, n);
    values.set_all(eqn.out, out.values);
    for (std::size_t i = 0; i < eqn.out.size(); ++i)
      if (out.batched[i]) mapped[eqn.out[i].id] = true;
  }
  BatchedArrays result;
  for (const Atom& a : jaxpr.outs) {
    result.values.push_back(values.get(a));
    result.batched.push_back(is_mapped(a));
  }
  return result;
}

Batched vmap(const ClosedJaxpr& closed, const Mask& batched, std::int64_t n, const Mask& force_out) {
  Avals in = closed.in_avals();
  if (batched.size() != in.size())
    throw ValueError("vmap", "the mask has " + std::to_string(batched.size()) + " entries for " +
                                 std::to_string(in.size()) + " inputs");
  for (std::size_t i = 0; i < in.size(); ++i)
    if (batched[i]) in[i].shape = in[i].shape.with_front(n);
  Batched result;
  const Arrays consts = to_arrays(closed.consts);
  result.jaxpr = close(record(in, [&](ArraySpan x) {
    BatchedArrays out = batch_eval(closed.jaxpr, consts, x, batched, n);
    for (std::size_t i = 0; i < out.values.size(); ++i) {
      if (out.batched[i] || force_out.empty() || !force_out[i]) continue;
      out.values[i] = broadcast_to(out.values[i], out.values[i].shape().with_front(n));
      out.batched[i] = true;
    }
    result.batched_out = out.batched;
    return out.values;
  }));
  return result;
}

}  // namespace etrace
