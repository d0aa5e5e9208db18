// Derivatives of scan. Reverse mode: a primal scan that also stacks residuals, then a linear scan over them;
// its transpose runs the other way.
#include <algorithm>

#include "control/scan.h"
#include "control/step_products.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "transform/env.h"

namespace etrace::loops {

namespace {

// Tangents of the operands named in `active`, zeros where a carry starts without one.
Arrays tangents_of(ArraySpan x, ArraySpan dx, const Mask& active, std::size_t begin, std::size_t count) {
  Arrays out;
  for (std::size_t i = begin; i < begin + count; ++i)
    if (active[i]) out.push_back(instantiate(dx[i], x[i].aval()));
  return out;
}

// Index list [begin, begin + count).
void append_range(std::vector<std::size_t>& list, std::size_t begin, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) list.push_back(begin + i);
}

// Forced outputs: every active carry.
Mask forced(const Scan& s, const Mask& in) {
  return join({part(in, s.num_consts, s.num_carry), Mask(s.num_ys(), false)});
}

}  // namespace

ValuesAndTangents scan_jvp(const Params& params, ArraySpan x, ArraySpan dx) {
  const Scan s(params);
  const Mask active =
      carry_fixpoint(s, defined_mask(dx), [&](const Mask& in) { return jvp(*s.body, in, {}).active_out; });
  const Jvp j = jvp(*s.body, active, forced(s, active));
  const std::size_t n = x.size(), nx = s.num_xs(), ny = s.num_ys();
  const std::size_t dc = count(part(active, 0, s.num_consts)),
                    dk = count(part(active, s.num_consts, s.num_carry));
  const std::size_t dxs = count(active) - dc - dk;
  // (consts carry xs | dconsts dcarry dxs) -> consts dconsts | carry dcarry | xs dxs
  std::vector<std::size_t> in_order, out_order;
  append_range(in_order, 0, s.num_consts);
  append_range(in_order, n, dc);
  append_range(in_order, s.num_consts, s.num_carry);
  append_range(in_order, n + dc, dk);
  append_range(in_order, s.num_consts + s.num_carry, nx);
  append_range(in_order, n + dc + dk, dxs);
  const std::size_t dys = count(part(j.active_out, s.num_carry, ny));
  append_range(out_order, 0, s.num_carry);
  append_range(out_order, s.num_carry + ny, dk);
  append_range(out_order, s.num_carry, ny);
  append_range(out_order, s.num_carry + ny + dk, dys);
  const ClosedJaxpr body = select_outputs(reorder_inputs(j.jaxpr, in_order), out_order);
  const Arrays out =
      bind_primitive(scan_p,
                     join({s.consts(x), tangents_of(x, dx, active, 0, s.num_consts), s.carry(x),
                           tangents_of(x, dx, active, s.num_consts, s.num_carry), s.xs(x),
                           tangents_of(x, dx, active, s.num_consts + s.num_carry, nx)}),
                     s.with_body(body, s.num_consts + dc, s.num_carry + dk));
  const ArraySpan o(out);
  const Arrays values = join({o.first(s.num_carry), o.subspan(s.num_carry + dk, ny)});
  const Arrays tangents = join({o.subspan(s.num_carry, dk), o.subspan(s.num_carry + dk + ny)});
  return {values, spread(tangents, j.active_out)};
}

namespace {

// Where each residual of the body comes from: an operand that does not change over time, a scanned operand,
// or a value that must be stacked. Residuals that depend on constants only are computed once, outside.
struct ResidualPlan {
  enum Source : std::uint8_t { Invariant, Scanned, Stacked };
  std::vector<Source> source;
  std::vector<std::size_t> index;  // Scanned: which xs
};

ResidualPlan plan_residuals(const Scan& s, const Linearization& lin) {
  ResidualPlan plan;
  const Jaxpr& primal = lin.primal.jaxpr;
  const std::size_t first = s.num_carry + s.num_ys();
  Mask varying(primal.invars.size(), true);
  for (std::size_t i = 0; i < s.num_consts; ++i) varying[i] = false;
  const Mask changes = outputs_reached(lin.primal, varying);
  for (std::size_t r = 0; r < lin.num_residuals; ++r) {
    plan.source.push_back(changes[first + r] ? ResidualPlan::Stacked : ResidualPlan::Invariant);
    plan.index.push_back(0);
    const Var* v = as_var(primal.outs[first + r]);
    for (std::size_t i = 0; v != nullptr && i < s.num_xs(); ++i)
      if (primal.invars[s.num_consts + s.num_carry + i] == *v) {
        plan.source.back() = ResidualPlan::Scanned;
        plan.index.back() = i;
      }
  }
  return plan;
}

// The invariant residuals, evaluated outside the loop: they read constants only.
Arrays invariant_residuals(const Scan& s, const Linearization& lin, const ResidualPlan& plan, ArraySpan x) {
  std::vector<std::size_t> wanted;
  for (std::size_t r = 0; r < plan.source.size(); ++r)
    if (plan.source[r] == ResidualPlan::Invariant) wanted.push_back(s.num_carry + s.num_ys() + r);
  if (wanted.empty()) return {};
  const ClosedJaxpr once = eliminate_dead_code(select_outputs(lin.primal, wanted));
  Arrays args(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(s.num_consts));
  for (std::size_t i = s.num_consts; i < once.jaxpr.invars.size(); ++i)
    args.push_back(zeros_of(once.jaxpr.invars[i].aval));
  return eval_jaxpr(once, args);
}

ValuesAndTangents scan_linearize_plain(const Scan& s, ArraySpan x, ArraySpan dx) {
  const Mask active = carry_fixpoint(s, defined_mask(dx),
                                     [&](const Mask& in) { return linearize(*s.body, in, {}).active_out; });
  const Linearization lin = linearize(*s.body, active, forced(s, active));
  const ResidualPlan plan = plan_residuals(s, lin);
  const std::size_t ny = s.num_ys();

  std::vector<std::size_t> primal_outs;
  append_range(primal_outs, 0, s.num_carry + ny);
  for (std::size_t r = 0; r < lin.num_residuals; ++r)
    if (plan.source[r] == ResidualPlan::Stacked) primal_outs.push_back(s.num_carry + ny + r);
  const Arrays primal = bind_primitive(
      scan_p, x,
      s.with_body(eliminate_dead_code(select_outputs(lin.primal, primal_outs)), s.num_consts, s.num_carry));
  const Arrays invariant = invariant_residuals(s, lin, plan, x);

  // Operands of the linear scan: invariant residuals, dconsts | dcarry | stacked and scanned residuals, dxs.
  const std::size_t dc = count(part(active, 0, s.num_consts)),
                    dk = count(part(active, s.num_consts, s.num_carry));
  const std::size_t dxs = count(active) - dc - dk;
  std::vector<std::size_t> order, varying;
  Arrays consts, xs;
  std::size_t next_invariant = 0, next_stacked = s.num_carry + ny;
  for (std::size_t r = 0; r < lin.num_residuals; ++r) {
    if (plan.source[r] == ResidualPlan::Invariant) {
      order.push_back(r);
      consts.push_back(invariant[next_invariant++]);
    } else {
      varying.push_back(r);
      xs.push_back(plan.source[r] == ResidualPlan::Stacked ? primal[next_stacked++] : s.xs(x)[plan.index[r]]);
    }
  }
  append_range(order, lin.num_residuals, dc + dk);
  order.insert(order.end(), varying.begin(), varying.end());
  append_range(order, lin.num_residuals + dc + dk, dxs);
  const Arrays linear =
      bind_primitive(scan_p,
                     join({consts, tangents_of(x, dx, active, 0, s.num_consts),
                           tangents_of(x, dx, active, s.num_consts, s.num_carry), xs,
                           tangents_of(x, dx, active, s.num_consts + s.num_carry, s.num_xs())}),
                     Scan(s)
                         .with_body(reorder_inputs(lin.linear, order), consts.size() + dc, dk)
                         .without("checkpoint_every"));
  return {{primal.begin(), primal.begin() + static_cast<std::ptrdiff_t>(s.num_carry + ny)},
          spread(linear, lin.active_out)};
}

// Time steps [begin, end) of stacked arrays.
Arrays time_slice(ArraySpan xs, std::int64_t begin, std::int64_t end) {
  Arrays out;
  for (const Array& a : xs) out.push_back(a.defined() ? slice_axis(a, 0, begin, end) : a);
  return out;
}

Arrays reshape_time(ArraySpan xs, const Dims& leading, std::size_t drop) {
  Arrays out;
  for (const Array& a : xs) {
    if (!a.defined()) {
      out.push_back(a);
      continue;
    }
    Dims dims = leading;
    dims.insert(dims.end(), a.shape().begin() + static_cast<std::ptrdiff_t>(drop), a.shape().end());
    out.push_back(reshape(a, dims));
  }
  return out;
}

// Segments of K steps: the primal pass keeps the carry at each segment's start; the linear pass recomputes a
// segment's residuals from it. Memory O(length/K + K) instead of O(length).
ValuesAndTangents scan_linearize_segments(const Scan& s, ArraySpan x, ArraySpan dx) {
  const std::int64_t every = s.checkpoint_every, segments = s.length / every;
  Scan inner = s, outer = s;
  inner.length = every;
  inner.checkpoint_every = outer.checkpoint_every = 0;
  outer.length = segments;
  const Params inner_params = inner.with_body(*s.body, s.num_consts, s.num_carry);
  const Arrays xs = reshape_time(s.xs(x), {segments, every}, 1),
               dxs = reshape_time(s.xs(dx), {segments, every}, 1);
  const Arrays args = join({s.consts(x), s.carry(x), xs});

  // Primal: one scan over segments that also emits the carry at each start.
  Avals types = avals_of(args);
  for (std::size_t i = s.num_consts + s.num_carry; i < types.size(); ++i)
    types[i].shape = types[i].shape.without(0);
  const ClosedJaxpr primal_body = make_jaxpr(
      [&](ArraySpan a) {
        return join({bind_primitive(scan_p, a, inner_params), s.carry(a)});
      },
      types);
  const Arrays primal = bind_primitive(scan_p, args, outer.with_body(primal_body, s.num_consts, s.num_carry));
  const ArraySpan starts = ArraySpan(primal).subspan(s.num_carry + s.num_ys());

  // Linear: consts, dconsts | dcarry | carry at start, xs, dxs.
  const Mask active = carry_fixpoint(s, defined_mask(dx),
                                     [&](const Mask& in) { return linearize(*s.body, in, {}).active_out; });
  const Mask ac = part(active, 0, s.num_consts), ak = part(active, s.num_consts, s.num_carry);
  const Mask ax = part(active, s.num_consts + s.num_carry, s.num_xs());
  const Arrays dconsts = tangents_of(x, dx, active, 0, s.num_consts);
  const Arrays dcarry = tangents_of(x, dx, active, s.num_consts, s.num_carry);
  const Arrays dxs_active = select(dxs, ax);
  const Arrays linear_args = join({s.consts(x), dconsts, dcarry, starts, xs, dxs_active});
  Avals linear_types = avals_of(linear_args);
  for (std::size_t i = s.num_consts + dconsts.size() + dcarry.size(); i < linear_types.size(); ++i)
    linear_types[i].shape = linear_types[i].shape.without(0);
  Mask active_ys;
  const ClosedJaxpr linear_body = make_jaxpr(
      [&](ArraySpan a) {
        std::size_t at = 0;
        auto next = [&](std::size_t n) { return a.subspan(std::exchange(at, at + n), n); };
        const ArraySpan consts = next(s.num_consts), dc = next(dconsts.size()), dk = next(dcarry.size());
        const ArraySpan start = next(s.num_carry), x_seg = next(s.num_xs()), dx_seg = next(dxs_active.size());
        const Arrays in = join({consts, start, x_seg});
        const Arrays din = join({spread(dc, ac), spread(dk, ak), spread(dx_seg, ax)});
        const ValuesAndTangents out = scan_linearize_plain(inner, in, din);
        Arrays dy;
        active_ys.clear();
        for (std::size_t i = 0; i < out.y.size(); ++i) {
          const bool is_carry = i < s.num_carry;
          const bool keep = is_carry ? ak[i] : out.dy[i].defined();
          if (!is_carry) active_ys.push_back(keep);
          if (keep) dy.push_back(instantiate(out.dy[i], out.y[i].aval()));
        }
        return dy;
      },
      linear_types);
  const Arrays linear = bind_primitive(
      scan_p, linear_args, outer.with_body(linear_body, s.num_consts + dconsts.size(), dcarry.size()));

  const ArraySpan p(primal), l(linear);
  ValuesAndTangents out;
  out.y =
      join({p.first(s.num_carry), reshape_time(p.subspan(s.num_carry, s.num_ys()), {segments * every}, 2)});
  out.dy = join({spread(l.first(dcarry.size()), ak),
                 spread(reshape_time(l.subspan(dcarry.size()), {segments * every}, 2), active_ys)});
  return out;
}

}  // namespace

ValuesAndTangents scan_linearize(const Params& params, ArraySpan x, ArraySpan dx) {
  const Scan s(params);
  if (s.checkpoint_every <= 0 || s.length <= s.checkpoint_every) return scan_linearize_plain(s, x, dx);
  const std::int64_t rest = s.length % s.checkpoint_every;
  if (rest == 0) return scan_linearize_segments(s, x, dx);

  // Whole segments first, then the steps that are left over, in the order of processing.
  Scan head = s, tail = s;
  head.length = s.length - rest;
  tail.length = rest;
  const std::int64_t head_begin = s.reverse ? rest : 0, tail_begin = s.reverse ? 0 : head.length;
  auto steps = [&](ArraySpan a, std::int64_t begin, std::int64_t n) {
    return time_slice(s.xs(a), begin, begin + n);
  };
  const ValuesAndTangents h = scan_linearize_segments(
      head, join({x.first(s.num_consts + s.num_carry), steps(x, head_begin, head.length)}),
      join({dx.first(s.num_consts + s.num_carry), steps(dx, head_begin, head.length)}));
  const ValuesAndTangents t = scan_linearize_plain(
      tail, join({s.consts(x), ArraySpan(h.y).first(s.num_carry), steps(x, tail_begin, rest)}),
      join({s.consts(dx), ArraySpan(h.dy).first(s.num_carry), steps(dx, tail_begin, rest)}));
  ValuesAndTangents out = t;
  for (std::size_t i = s.num_carry; i < out.y.size(); ++i) {
    const Arrays y = s.reverse ? Arrays{t.y[i], h.y[i]} : Arrays{h.y[i], t.y[i]};
    const bool moves = h.dy[i].defined() || t.dy[i].defined();
    const Array dh = moves ? instantiate(h.dy[i], h.y[i].aval()) : Array(),
                dt = moves ? instantiate(t.dy[i], t.y[i].aval()) : Array();
    out.y[i] = concatenate(y, 0);
    if (moves) out.dy[i] = concatenate(s.reverse ? Arrays{dt, dh} : Arrays{dh, dt}, 0);
  }
  return out;
}

namespace {

// Carries that do not depend on linear values run ahead in a scan of their own; the linear part reads them as
// xs.
Arrays transpose_after_known(const Scan& s, const Mask& linear, ArraySpan ct, ArraySpan x,
                             std::span<const Aval> in) {
  Mask known(linear);
  known.flip();
  const Mask lk = part(linear, s.num_consts, s.num_carry), kk = part(known, s.num_consts, s.num_carry);
  const std::size_t num_linear = count(lk), num_known = count(kk);
  ClosedJaxpr ahead = eliminate_dead_code(*s.body, join({kk, Mask(s.num_ys(), false)}));
  std::vector<Var> invars;
  for (const std::size_t i : positions(known)) invars.push_back(ahead.jaxpr.invars[i]);
  for (const std::size_t i : positions(kk, s.num_consts))
    ahead.jaxpr.outs.emplace_back(ahead.jaxpr.invars[i]);
  ahead.jaxpr.invars = std::move(invars);
  const Arrays walked = bind_primitive(scan_p, select(x, known),
                                       s.with_body(ahead, count(part(known, 0, s.num_consts)), num_known));

  // The body of the rest: consts | linear carry | xs, known carry.
  std::vector<std::size_t> order, outs = positions(lk);
  append_range(order, 0, s.num_consts);
  for (const std::size_t i : positions(lk, s.num_consts)) order.push_back(i);
  append_range(order, s.num_consts + s.num_carry, s.num_xs());
  for (const std::size_t i : positions(kk, s.num_consts)) order.push_back(i);
  append_range(outs, s.num_carry, s.num_ys());
  const ArraySpan starts = ArraySpan(walked).subspan(num_known);
  const Arrays rest = join({s.consts(x), select(s.carry(x), lk), s.xs(x), starts});
  Avals types(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(s.num_consts));
  for (const std::size_t i : positions(lk, s.num_consts)) types.push_back(in[i]);
  types.insert(types.end(), in.begin() + static_cast<std::ptrdiff_t>(s.num_consts + s.num_carry), in.end());
  for (const Array& a : starts) types.push_back(a.aval());
  const Arrays cts = scan_transpose(
      s.with_body(select_outputs(reorder_inputs(*s.body, order), outs), s.num_consts, num_linear),
      join({select(ct.first(s.num_carry), lk), ct.subspan(s.num_carry)}), rest, types);
  const ArraySpan c(cts);
  return join({s.consts(c), spread(c.subspan(s.num_consts, num_linear), lk),
               c.subspan(s.num_consts + num_linear, s.num_xs())});
}

}  // namespace

// With body linear in (dconsts, dcarry, dxs): the transposed scan runs the other way, carrying the cotangent
// of the carry and the sums of those of the constants, but for products, which are summed after it.
Arrays scan_transpose(const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in) {
  const Scan s(params);
  Mask linear;
  for (const Array& a : x) linear.push_back(!a.defined());
  linear = carry_fixpoint(s, linear, [&](const Mask& m) { return outputs_reached(*s.body, m); });
  const Mask lc = part(linear, 0, s.num_consts), lk = part(linear, s.num_consts, s.num_carry);
  const Mask lx = part(linear, s.num_consts + s.num_carry, s.num_xs());
  if (count(lk) != s.num_carry) return transpose_after_known(s, linear, ct, x, in);
  const Mask with_ct = join({Mask(s.num_carry, true), defined_mask(ct.subspan(s.num_carry))});
  const std::size_t num_known_consts = s.num_consts - count(lc), num_known_xs = s.num_xs() - count(lx);
  // One step: (known consts, known xs, ct carry, ct ys) -> (ct consts, ct carry, ct xs)
  const StepProducts back(transpose(*s.body, linear, with_ct), {num_known_consts, num_known_xs, count(lc)});
  const std::size_t num_sums = count(back.stays());

  Mask known(linear);
  known.flip();
  const Arrays consts = select(s.consts(x), part(known, 0, s.num_consts));
  Arrays carry;
  for (std::size_t i = 0; i < s.num_carry; ++i) carry.push_back(instantiate(ct[i], in[s.num_consts + i]));
  const std::vector<std::size_t> summed = positions(lc);
  for (std::size_t i = 0; i < summed.size(); ++i)
    if (back.stays()[i]) carry.push_back(zeros_of(in[summed[i]]));
  const Arrays xs = join({select(s.xs(x), part(known, s.num_consts + s.num_carry, s.num_xs())),
                          select(ct.subspan(s.num_carry), part(with_ct, s.num_carry, s.num_ys()))});
  const Arrays args = join({consts, carry, xs});
  Avals types = avals_of(args);
  for (std::size_t i = consts.size() + carry.size(); i < types.size(); ++i)
    types[i].shape = types[i].shape.without(0);
  const ClosedJaxpr body = make_jaxpr(
      [&](ArraySpan a) {
        const ArraySpan k = a.subspan(consts.size(), carry.size()),
                        rest = a.subspan(consts.size() + carry.size());
        const Arrays cts = eval_jaxpr(back.body(), join({a.first(consts.size()), rest.first(num_known_xs),
                                                         k.first(s.num_carry), rest.subspan(num_known_xs)}));
        const ArraySpan c(cts);
        Arrays sums;
        for (std::size_t i = 0; i < num_sums; ++i) sums.push_back(k[s.num_carry + i] + c[i]);
        return join({c.subspan(num_sums, s.num_carry), sums, c.subspan(num_sums + s.num_carry)});
      },
      types);
  Scan reversed = s;
  reversed.reverse = !s.reverse;
  const Arrays out = bind_primitive(scan_p, args, reversed.with_body(body, consts.size(), carry.size()));
  const ArraySpan o(out), stacked = o.subspan(s.num_carry + num_sums);
  const ArraySpan factors = stacked.last(back.num_factors());
  Arrays sums = spread(o.subspan(s.num_carry, num_sums), back.stays());
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (!back.stays()[i]) sums[i] = back.sum(i, ArraySpan(xs).first(num_known_xs), factors);
  return join({spread(sums, lc), spread(o.first(s.num_carry), lk),
               spread(stacked.first(stacked.size() - factors.size()), lx)});
}

}  // namespace etrace::loops
