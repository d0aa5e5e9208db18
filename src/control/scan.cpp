// scan: carry, y_t = body(consts, carry, x_t), t = 0 … length-1 (descending if `reverse`).
//   operands: consts, carry, xs (leading axis = time); results: final carry, ys (leading axis = time).
// Reverse mode: a primal scan that also stacks residuals, then a linear scan over them; its transpose runs
// the other way.
#include <algorithm>

#include "control/body.h"
#include "control/step_products.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "transform/env.h"

namespace etrace {

namespace {

// The parameters in one place, and the split of operands and results.
struct Scan {
  JaxprPtr body;
  std::int64_t length;
  bool reverse;
  std::size_t num_consts, num_carry;
  std::int64_t checkpoint_every;

  explicit Scan(const Params& p)
      : body(p.jaxpr("jaxpr")),
        length(p.integer("length")),
        reverse(p.boolean_or("reverse", false)),
        num_consts(static_cast<std::size_t>(p.integer("num_consts"))),
        num_carry(static_cast<std::size_t>(p.integer("num_carry"))),
        checkpoint_every(p.integer_or("checkpoint_every", 0)) {}

  Params with_body(ClosedJaxpr program, std::size_t consts, std::size_t carry) const {
    Params p{{"jaxpr", share(std::move(program))},
             {"length", length},
             {"reverse", reverse},
             {"num_consts", consts},
             {"num_carry", carry}};
    return checkpoint_every > 0 ? p.with("checkpoint_every", checkpoint_every) : p;
  }

  std::size_t num_xs() const { return body->jaxpr.invars.size() - num_consts - num_carry; }
  std::size_t num_ys() const { return body->jaxpr.outs.size() - num_carry; }
  template <class T>
  std::span<const T> consts(std::span<const T> x) const {
    return x.first(num_consts);
  }
  template <class T>
  std::span<const T> carry(std::span<const T> x) const {
    return x.subspan(num_consts, num_carry);
  }
  template <class T>
  std::span<const T> xs(std::span<const T> x) const {
    return x.subspan(num_consts + num_carry);
  }
};

Avals scan_abstract(const Params& params, std::span<const Aval> in) {
  const Scan s(params);
  const Avals body_in = s.body->in_avals(), body_out = s.body->out_avals();
  if (params.integer("num_consts") < 0 || params.integer("num_carry") < 0 || s.num_consts > body_in.size() ||
      s.num_carry > body_in.size() - s.num_consts || s.num_carry > body_out.size() || s.length < 0)
    throw CompilationError("scan", "num_consts, num_carry or length do not fit the body");
  Avals expected = body_in;
  for (std::size_t i = s.num_consts + s.num_carry; i < expected.size(); ++i)
    expected[i].shape = expected[i].shape.with_front(s.length);
  require_types("scan", "operand", {in.begin(), in.end()}, expected);
  require_types("scan", "carry",
                {body_out.begin(), body_out.begin() + static_cast<std::ptrdiff_t>(s.num_carry)},
                {body_in.begin() + static_cast<std::ptrdiff_t>(s.num_consts),
                 body_in.begin() + static_cast<std::ptrdiff_t>(s.num_consts + s.num_carry)});
  Avals out = body_out;
  for (std::size_t i = s.num_carry; i < out.size(); ++i) out[i].shape = out[i].shape.with_front(s.length);
  return out;
}

// Runs the body step by step. The first step reads the carry from the operands and writes it to the results,
// the others replace it there. Slices of xs and ys are read and written where they lie.
class ScanLoop {
 public:
  explicit ScanLoop(const Scan& s) : scan_(s), body_(loop_body(s.body, s.num_consts, s.num_carry)) {
    const Avals in = s.body->in_avals(), out = s.body->out_avals();
    for (std::size_t i = 0; i < s.num_carry; ++i) carry_bytes_.push_back(out[i].bytes());
    for (std::size_t i = s.num_consts + s.num_carry; i < in.size(); ++i) x_bytes_.push_back(in[i].bytes());
    for (std::size_t i = s.num_carry; i < out.size(); ++i) y_bytes_.push_back(out[i].bytes());
    workspace_ = layout_.take(body_.workspace_bytes());
    in_ = layout_.take_pointers(in.size());
    out_ = layout_.take_pointers(out.size());
  }

  Kernel kernel() && {
    Kernel kernel;
    kernel.scratch_bytes = layout_.size();
    for (std::size_t i = 0; i < scan_.num_carry; ++i) kernel.in_place.push_back({i, scan_.num_consts + i});
    kernel.run = [loop = std::make_shared<const ScanLoop>(std::move(*this))](const KernelArgs& args) {
      loop->run(args);
    };
    return kernel;
  }

 private:
  void run(const KernelArgs& args) const {
    const std::size_t nc = scan_.num_consts, nk = scan_.num_carry;
    if (scan_.length == 0) return copy_unless_same(args.out, args.in + nc, carry_bytes_);
    auto* const scratch = static_cast<std::byte*>(args.scratch);
    auto** const in = reinterpret_cast<const void**>(scratch + in_);
    auto** const out = reinterpret_cast<void**>(scratch + out_);
    body_.prepare(scratch + workspace_);
    std::copy_n(args.in, nc + nk, in);
    std::copy_n(args.out, nk, out);
    for (std::int64_t step = 0; step < scan_.length; ++step) {
      const auto t = static_cast<std::size_t>(scan_.reverse ? scan_.length - 1 - step : step);
      for (std::size_t i = 0; i < x_bytes_.size(); ++i)
        in[nc + nk + i] = static_cast<const std::byte*>(args.in[nc + nk + i]) + t * x_bytes_[i];
      for (std::size_t i = 0; i < y_bytes_.size(); ++i)
        out[nk + i] = static_cast<std::byte*>(args.out[nk + i]) + t * y_bytes_[i];
      body_.run(in, out, scratch + workspace_);
      if (step == 0) std::copy_n(args.out, nk, in + nc);
    }
  }

  Scan scan_;
  Routine body_;
  std::vector<std::size_t> carry_bytes_, x_bytes_, y_bytes_;
  ScratchLayout layout_;
  std::size_t workspace_, in_, out_;
};

Kernel scan_kernel(const KernelRequest& r) { return ScanLoop(Scan(r.params)).kernel(); }

// Which carries have a tangent (or are mapped), given which operands have one: those that start with one and
// those that receive one in the body. `step` says which outputs follow from which inputs.
template <class Step>
Mask carry_fixpoint(const Scan& s, Mask in, const Step& step) {
  for (;;) {
    const Mask before = part(in, s.num_consts, s.num_carry);
    const Mask after = before | part(step(in), 0, s.num_carry);
    if (after == before) return in;
    for (std::size_t i = 0; i < s.num_carry; ++i) in[s.num_consts + i] = after[i];
  }
}

// Forced outputs: every active carry.
Mask forced(const Scan& s, const Mask& in) {
  return join({part(in, s.num_consts, s.num_carry), Mask(s.num_ys(), false)});
}

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

Arrays scan_transpose(const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in);

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

Arrays scan_batch(const Params& params, ArraySpan x, const Mask& batched, std::int64_t n) {
  const Scan s(params);
  const Mask mapped =
      carry_fixpoint(s, batched, [&](const Mask& in) { return vmap(*s.body, in, n, {}).batched_out; });
  Mask force(s.body->jaxpr.outs.size(), true);
  for (std::size_t i = 0; i < s.num_carry; ++i) force[i] = mapped[s.num_consts + i];
  const Batched body = vmap(*s.body, mapped, n, force);
  Arrays args;
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool is_x = i >= s.num_consts + s.num_carry;
    Array a = x[i];
    if (is_x && mapped[i]) a = moveaxis(a, 0, 1);
    if (!is_x && mapped[i] && !batched[i]) a = broadcast_to(a, a.shape().with_front(n));
    args.push_back(a);
  }
  Arrays out = bind_primitive(scan_p, args, s.with_body(body.jaxpr, s.num_consts, s.num_carry));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (i >= s.num_carry)
      out[i] = moveaxis(out[i], 1, 0);
    else if (!mapped[s.num_consts + i])
      out[i] = broadcast_to(out[i], out[i].shape().with_front(n));
  }
  return out;
}

// Keeps the used results, the carries they depend on, and the operands these read.
Eqn scan_prune(const Eqn& eqn, const Mask& used) {
  const Scan s(eqn.params);
  Mask keep = used, read;
  for (;;) {
    read = inputs_read(*s.body, keep);
    const Mask needed = part(keep, 0, s.num_carry) | part(read, s.num_consts, s.num_carry);
    if (needed == part(keep, 0, s.num_carry)) break;
    for (std::size_t i = 0; i < s.num_carry; ++i) keep[i] = needed[i];
  }
  for (std::size_t i = 0; i < s.num_carry; ++i) read[s.num_consts + i] = keep[i];
  ClosedJaxpr body = eliminate_dead_code(*s.body, keep);
  std::vector<Var> invars;
  for (const std::size_t i : positions(read)) invars.push_back(body.jaxpr.invars[i]);
  body.jaxpr.invars = invars;
  Eqn smaller = eqn;
  smaller.in.clear();
  smaller.out.clear();
  for (const std::size_t i : positions(read)) smaller.in.push_back(eqn.in[i]);
  for (const std::size_t i : positions(keep)) smaller.out.push_back(eqn.out[i]);
  smaller.params =
      s.with_body(std::move(body), count(part(read, 0, s.num_consts)), count(part(keep, 0, s.num_carry)));
  return smaller;
}

std::vector<PrimitiveSpec::Sample> scan_samples(std::uint64_t) {
  // (w | h, c | x_t) -> h' = tanh(w∘h + x_t), c' = c·x_t + h ; y = h'·c
  const Aval v{Dtype::F64, {2}};
  const ClosedJaxpr body = make_jaxpr(
      [](ArraySpan a) {
        const Array h = tanh(a[0] * a[1] + a[3]), c = a[2] * a[3] + a[1];
        return Arrays{h, c, h * c};
      },
      Avals{v, v, v, v});
  auto array = [](const std::vector<double>& values, const Shape& shape) {
    return Array(Tensor::of(values, shape));
  };
  const Array w = array({0.5, -0.7}, {2}), h = array({0.1, 0.4}, {2}), c = array({-0.3, 0.9}, {2});
  const Array xs = array({0.2, -0.1, 0.7, 0.3, -0.8, 1.1, 0.6, 0.05, -0.4, 0.33}, {5, 2});
  const Params p{
      {"jaxpr", share(body)}, {"length", 5}, {"reverse", false}, {"num_consts", 1}, {"num_carry", 2}};
  return {{{w, h, c, xs}, p},
          {{w, h, c, xs}, p.with("reverse", true)},
          {{w, h, c, xs}, p.with("checkpoint_every", 2)},
          {{w, h, c, xs}, p.with("checkpoint_every", 2).with("reverse", true)},
          {{w, h, c, zeros_of({Dtype::F64, {0, 2}})}, p.with("length", 0)}};
}

}  // namespace

const Primitive scan_p{{
    .name = "scan",
    .doc = "carry, y_t = jaxpr(consts, carry, x_t) over the leading axis of xs",
    .params = {"jaxpr", "length", "num_carry", "num_consts", "reverse", "checkpoint_every"},
    .ignored_params = {"linear", "unroll", "_split_transpose"},
    .abstract = scan_abstract,
    .kernel = scan_kernel,
    .transpose = scan_transpose,
    .batch = scan_batch,
    .jvp_joint = scan_jvp,
    .linearize = scan_linearize,
    .prune = scan_prune,
    .samples = scan_samples,
}};

ScanResult scan(const ScanBody& f, const Arrays& init, const Arrays& xs, const ScanOptions& options) {
  std::int64_t length = options.length;
  for (const Array& x : xs) {
    if (x.rank() == 0)
      throw ValueError("scan", "a scanned array must have a leading time axis, but one is a scalar");
    if (length >= 0 && x.shape()[0] != length)
      throw ValueError("scan", "scanned arrays of lengths " + std::to_string(length) + " and " +
                                   std::to_string(x.shape()[0]) + "; all must agree");
    length = x.shape()[0];
  }
  if (length < 0) throw ValueError("scan", "there are no scanned arrays, so options.length must be given");
  Avals types = avals_of(init);
  for (const Array& x : xs) types.push_back({x.dtype(), x.shape().without(0)});
  std::size_t num_carry = 0;
  const Body body = trace_body(types, [&](ArraySpan args) {
    ScanResult r = f(args.first(init.size()), args.subspan(init.size()));
    num_carry = r.carry.size();
    return join({r.carry, r.ys});
  });
  if (num_carry != init.size())
    throw ValueError("scan", "the body returns " + std::to_string(num_carry) + " carries but " +
                                 std::to_string(init.size()) + " were given");
  Params params{{"jaxpr", share(body.program)},
                {"length", length},
                {"reverse", options.reverse},
                {"num_consts", body.captured.size()},
                {"num_carry", init.size()}};
  if (options.checkpoint_every > 0) params = params.with("checkpoint_every", options.checkpoint_every);
  const Arrays out = bind_primitive(scan_p, join({body.captured, init, xs}), params);
  const ArraySpan o(out);
  return {join({o.first(num_carry)}), join({o.subspan(num_carry)})};
}

}  // namespace etrace
