// while: carry = body(body_consts, carry) as long as cond(cond_consts, carry).
//   operands: cond consts, body consts, carry; results: final carry.
// Reverse mode is tape_while's (control/tape_while.cpp).
#include "control/while.h"

#include <algorithm>
#include <limits>

#include "etrace/bodies.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "transform/env.h"

namespace etrace::loops {

Params while_params(ClosedJaxpr cond, std::size_t cond_nconsts, ClosedJaxpr body, std::size_t body_nconsts) {
  return {{"cond_jaxpr", share(std::move(cond))},
          {"cond_nconsts", cond_nconsts},
          {"body_jaxpr", share(std::move(body))},
          {"body_nconsts", body_nconsts}};
}

Avals slice_of(std::span<const Aval> in, std::size_t begin, std::size_t count) {
  const auto s = in.subspan(begin, count);
  return {s.begin(), s.end()};
}

Avals joined(const Avals& a, const Avals& b) {
  Avals out = a;
  out.insert(out.end(), b.begin(), b.end());
  return out;
}

Avals selected(const Avals& avals, const Mask& mask) {
  Avals out;
  for (const std::size_t i : positions(mask)) out.push_back(avals[i]);
  return out;
}

Avals check_loop(std::string_view op, const Params& params, std::span<const Aval> in) {
  const auto operands = static_cast<std::int64_t>(in.size());
  const std::int64_t nc = params.integer("cond_nconsts"), nb = params.integer("body_nconsts");
  const While w(params);
  // Compared one by one: the sum of hostile counts could overflow.
  if (nc < 0 || nb < 0 || nc > operands || nb > operands - nc ||
      static_cast<std::int64_t>(w.num_carry()) > operands - nc - nb)
    throw CompilationError(std::string(op), "cond_nconsts or body_nconsts do not fit the operands");
  const Avals carry = slice_of(in, w.num_consts(), w.num_carry());
  require_types(op, "operand of the condition", joined(slice_of(in, 0, w.cond_nconsts), carry),
                w.cond->in_avals());
  require_types(op, "result of the condition", w.cond->out_avals(), {{Dtype::Bool, {}}});
  require_types(op, "operand of the body", joined(slice_of(in, w.cond_nconsts, w.body_nconsts), carry),
                w.body->in_avals());
  require_types(op, "carry", w.body->out_avals(), carry);
  return carry;
}

Arrays active_tangents(ArraySpan x, ArraySpan dx, const Mask& active) {
  Arrays out;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (active[i]) out.push_back(instantiate(dx[i], x[i].aval()));
  return out;
}

namespace {

// (x…, dx of active inputs…) -> (y…, dy named in `out`…), tangents apart from values: loops and branches
// inside tie one to the other in forward mode, and what is tied cannot be transposed.
ClosedJaxpr tangents_apart(const ClosedJaxpr& f, const Mask& active, const Mask& out) {
  const Linearization lin = linearize(f, active, out);
  const std::size_t num_in = f.jaxpr.invars.size(), num_out = f.jaxpr.outs.size();
  return make_jaxpr(
      [&](ArraySpan a) {
        const Arrays values = eval_jaxpr(lin.primal, a.first(num_in));
        const ArraySpan v(values);
        return join(
            {v.first(num_out), eval_jaxpr(lin.linear, join({v.subspan(num_out), a.subspan(num_in)}))});
      },
      joined(f.in_avals(), selected(f.in_avals(), active)));
}

}  // namespace

ClosedJaxpr body_with_tangents(const ClosedJaxpr& body, std::size_t num_consts, const Mask& consts,
                               const Mask& carry, TangentMode mode) {
  const Mask active = join({consts, carry});
  const ClosedJaxpr j =
      mode == TangentMode::Joint ? jvp(body, active, carry).jaxpr : tangents_apart(body, active, carry);
  const std::size_t nk = carry.size(), dc = count(consts), dk = count(carry);
  std::vector<std::size_t> order;
  auto range = [&](std::size_t begin, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) order.push_back(begin + i);
  };
  range(0, num_consts);
  range(num_consts + nk, dc);
  range(num_consts, nk);
  range(num_consts + nk + dc, dk);
  return reorder_inputs(j, order);
}

Array mapped_to(const Array& a, bool is_mapped, bool wanted, std::int64_t n) {
  return wanted && !is_mapped ? broadcast_to(a, a.shape().with_front(n)) : a;
}

Array where_samples(const Array& pred, const Array& a, const Array& b) {
  Dims dims(a.rank(), 1);
  dims[0] = pred.shape()[0];
  return where(broadcast_to(reshape(pred, dims), a.shape()), a, b);
}

MappedLoop map_loop(const While& w, const Mask& cond_consts, const Mask& body_consts, const Mask& carry0,
                    std::int64_t n) {
  MappedLoop m;
  m.carry =
      loop_fixpoint(body_consts, carry0, [&](const Mask& in) { return vmap(*w.body, in, n).batched_out; });
  m.own_decision = vmap(*w.cond, join({cond_consts, m.carry}), n).batched_out[0];
  if (m.own_decision) m.carry.assign(m.carry.size(), true);
  const Batched cond = vmap(*w.cond, join({cond_consts, m.carry}), n);
  const Batched body = vmap(*w.body, join({body_consts, m.carry}), n, m.carry);
  m.body_nconsts = w.body_nconsts;
  m.cond = cond.jaxpr;
  m.body = body.jaxpr;
  if (!m.own_decision) return m;
  m.cond = make_jaxpr([&](ArraySpan a) { return Arrays{any(eval_jaxpr(cond.jaxpr, a)[0])}; },
                      cond.jaxpr.in_avals());
  Avals types = slice_of(cond.jaxpr.in_avals(), 0, w.cond_nconsts);
  types = joined(types, body.jaxpr.in_avals());
  m.body_nconsts = w.num_consts();
  m.body = make_jaxpr(
      [&](ArraySpan a) {
        const ArraySpan old = a.subspan(w.num_consts());
        const Array go = eval_jaxpr(cond.jaxpr, join({a.first(w.cond_nconsts), old}))[0];
        Arrays next = eval_jaxpr(body.jaxpr, a.subspan(w.cond_nconsts));
        for (std::size_t i = 0; i < next.size(); ++i) next[i] = where_samples(go, next[i], old[i]);
        return next;
      },
      types);
  return m;
}

Arrays mapped_carry(ArraySpan carry, const Mask& is_mapped, const Mask& wanted, std::int64_t n) {
  Arrays out;
  for (std::size_t i = 0; i < carry.size(); ++i)
    out.push_back(mapped_to(carry[i], is_mapped[i], wanted[i], n));
  return out;
}

std::vector<PrimitiveSpec::Sample> while_samples(std::uint64_t) {
  // while sum(h²) > limit: h ← h∘d ; k ← k + 1.   Operands: limit | d | h, k
  const Aval v{Dtype::F64, {3}}, s{Dtype::F64, {}}, i{Dtype::I32, {}};
  const ClosedJaxpr cond =
      make_jaxpr([](ArraySpan a) { return Arrays{sum(a[1] * a[1]) > a[0]}; }, Avals{s, v, i});
  const ClosedJaxpr body = make_jaxpr(
      [](ArraySpan a) {
        return Arrays{sin(a[1]) * a[0], a[2] + Array(1)};
      },
      Avals{v, v, i});
  const Array limit = Tensor::full(s, 0.1), d = Tensor::of(std::vector<double>{0.5, -0.6, 0.7}, {3});
  const Array h = Tensor::of(std::vector<double>{1.5, 0.9, -1.1}, {3}), k = Tensor::full(i, std::int64_t{0});
  return {{{limit, d, h, k}, while_params(cond, 1, body, 1)},
          {{limit * 1000.0, d, h, k}, while_params(cond, 1, body, 1)}};
}

namespace {

Kernel while_kernel(const KernelRequest& r) {
  const While w(r.params);
  ScratchLayout layout;
  const auto loop = std::make_shared<const Loop>(w, layout, r.context);
  Kernel kernel;
  kernel.run = [loop](const KernelArgs& a) {
    loop->run(a.in, a.out, static_cast<std::byte*>(a.scratch), [](const void* const*) {});
  };
  kernel.scratch_bytes = layout.size();
  for (std::size_t i = 0; i < w.num_carry(); ++i) kernel.in_place.push_back({i, w.num_consts() + i});
  return kernel;
}

ValuesAndTangents while_jvp(const Params& params, ArraySpan x, ArraySpan dx, TangentMode mode) {
  const While w(params);
  const Mask consts = defined_mask(w.body_consts(dx));
  const Mask carry = loop_fixpoint(consts, defined_mask(w.carry(dx)),
                                   [&](const Mask& in) { return jvp(*w.body, in).active_out; });
  const ClosedJaxpr body = body_with_tangents(*w.body, w.body_nconsts, consts, carry, mode);
  const ClosedJaxpr cond =
      insert_unused_inputs(*w.cond, w.cond->jaxpr.invars.size(), selected(w.body->out_avals(), carry));
  const Arrays out = bind_primitive(
      while_p,
      join({w.cond_consts(x), w.body_consts(x), active_tangents(w.body_consts(x), w.body_consts(dx), consts),
            w.carry(x), active_tangents(w.carry(x), w.carry(dx), carry)}),
      while_params(cond, w.cond_nconsts, body, w.body_nconsts + count(consts)));
  const ArraySpan o(out);
  return {join({o.first(w.num_carry())}), spread(o.subspan(w.num_carry()), carry)};
}

// The number of iterations is not known, so residuals cannot be stacked: the linear part runs the loop again.
ValuesAndTangents while_linearize(const Params& params, ArraySpan x, ArraySpan dx) {
  return {bind_primitive(while_p, x, params), while_jvp(params, x, dx, TangentMode::Linear).dy};
}

Arrays while_transpose(const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval> in) {
  const While w(params);
  Mask linear;
  for (const Array& a : x) linear.push_back(!a.defined());
  const Mask lc = part(linear, w.cond_nconsts, w.body_nconsts);
  const Mask lk = loop_fixpoint(lc, part(linear, w.num_consts(), w.num_carry()),
                                [&](const Mask& m) { return outputs_reached(*w.body, m); });
  Mask kc(lc), kk(lk);
  kc.flip();
  kk.flip();
  const Mask cond_reads = part(inputs_read(*w.cond, {true}), w.cond_nconsts, w.num_carry());
  for (std::size_t i = 0; i < lk.size(); ++i)
    if (lk[i] && cond_reads[i])
      throw NotSupportedError("while", "transposing a loop whose condition depends on a linear value");

  // The loop of the known carries alone, and one iteration of the linear ones backwards.
  auto only = [](const ClosedJaxpr& program, const Mask& inputs) {
    ClosedJaxpr out = program;
    out.jaxpr.invars.clear();
    for (const std::size_t i : positions(inputs)) out.jaxpr.invars.push_back(program.jaxpr.invars[i]);
    return out;
  };
  const ClosedJaxpr known_cond = only(*w.cond, join({Mask(w.cond_nconsts, true), kk}));
  const ClosedJaxpr known_body = only(eliminate_dead_code(*w.body, kk), join({kc, kk}));
  const ClosedJaxpr linear_body = eliminate_dead_code(*w.body, lk);
  const ClosedJaxpr pull =
      transpose(linear_body, join({lc, lk}));  // (known consts, known carry, ct) -> (ct consts, ct carry)
  const Arrays known_consts = select(w.body_consts(x), kc), known_carry = select(w.carry(x), kk);
  Arrays r;
  for (const std::size_t i : positions(lk)) r.push_back(instantiate(ct[i], in[w.num_consts() + i]));
  const std::size_t num_linear = r.size(), num_sums = count(lc);
  for (const std::size_t i : positions(lc)) r.push_back(zeros_of(in[w.cond_nconsts + i]));
  const ClosedJaxpr back = make_jaxpr(
      [&](ArraySpan a) {  // (known consts, known carry, r)
        const ArraySpan state = a.subspan(known_consts.size() + known_carry.size());
        const Arrays cts = eval_jaxpr(
            pull, join({a.first(known_consts.size() + known_carry.size()), state.first(num_linear)}));
        Arrays next(cts.begin() + static_cast<std::ptrdiff_t>(num_sums), cts.end());
        for (std::size_t i = 0; i < num_sums; ++i) next.push_back(state[num_linear + i] + cts[i]);
        return next;
      },
      avals_of(join({known_consts, known_carry, r})));
  const Arrays out =
      bind_primitive(tape_while_p, join({w.cond_consts(x), known_consts, known_carry, known_consts, r}),
                     while_params(known_cond, w.cond_nconsts, known_body, known_consts.size())
                         .with("back_jaxpr", share(back))
                         .with("back_nconsts", known_consts.size()));
  const ArraySpan o(out);
  return join({Arrays(w.cond_nconsts), spread(o.subspan(num_linear), lc), spread(o.first(num_linear), lk)});
}

Arrays while_batch(const Params& params, ArraySpan x, const Mask& batched, std::int64_t n) {
  const While w(params);
  const Mask cc = part(batched, 0, w.cond_nconsts), bc = part(batched, w.cond_nconsts, w.body_nconsts);
  const Mask kc = part(batched, w.num_consts(), w.num_carry());
  const MappedLoop m = map_loop(w, cc, bc, kc, n);
  const Arrays body_consts =
      m.own_decision ? join({w.cond_consts(x), w.body_consts(x)}) : join({w.body_consts(x)});
  Arrays out =
      bind_primitive(while_p, join({w.cond_consts(x), body_consts, mapped_carry(w.carry(x), kc, m.carry, n)}),
                     while_params(m.cond, w.cond_nconsts, m.body, m.body_nconsts));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = mapped_to(out[i], m.carry[i], true, n);
  return out;
}

}  // namespace

}  // namespace etrace::loops

namespace etrace {

namespace {

// Keeps the used carries, those that the condition reads, and those that these depend on.
Eqn while_prune(const Eqn& eqn, const Mask& used) {
  const auto nc = static_cast<std::size_t>(eqn.params.integer("cond_nconsts"));
  const auto nb = static_cast<std::size_t>(eqn.params.integer("body_nconsts"));
  ClosedJaxpr cond = *eqn.params.jaxpr("cond_jaxpr"), body = *eqn.params.jaxpr("body_jaxpr");
  Mask keep = used | part(inputs_read(cond, {true}), nc, used.size());
  for (;;) {
    const Mask needed = keep | part(inputs_read(body, keep), nb, keep.size());
    if (needed == keep) break;
    keep = needed;
  }
  const auto carried = [&](std::vector<Var>& invars, std::size_t consts) {
    std::vector<Var> left(invars.begin(), invars.begin() + static_cast<std::ptrdiff_t>(consts));
    for (const std::size_t i : positions(keep, consts)) left.push_back(invars[i]);
    invars = std::move(left);
  };
  body = eliminate_dead_code(body, keep);
  carried(cond.jaxpr.invars, nc);
  carried(body.jaxpr.invars, nb);
  Eqn smaller = eqn;
  smaller.in.resize(nc + nb);
  smaller.out.clear();
  for (const std::size_t i : positions(keep)) {
    smaller.in.push_back(eqn.in[nc + nb + i]);
    smaller.out.push_back(eqn.out[i]);
  }
  smaller.params =
      eqn.params.with("cond_jaxpr", share(std::move(cond))).with("body_jaxpr", share(std::move(body)));
  return smaller;
}

}  // namespace

const Primitive while_p{{
    .name = "while",
    .doc = "carry = body_jaxpr(consts, carry) while cond_jaxpr(consts, carry)",
    .params = {"cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts"},
    .abstract =
        [](const Params& params, std::span<const Aval> in) {
          const Avals carry = loops::check_loop("while", params, in);
          if (in.size() != loops::While(params).num_consts() + carry.size())
            throw CompilationError("while", "more operands than constants and carries");
          return carry;
        },
    .kernel = loops::while_kernel,
    .transpose = loops::while_transpose,
    .batch = loops::while_batch,
    .jvp_joint = [](const Params& p, ArraySpan x,
                    ArraySpan dx) { return loops::while_jvp(p, x, dx, TangentMode::Joint); },
    .linearize = loops::while_linearize,
    .prune = while_prune,
    .bodies = [](const Eqn& eqn) -> std::vector<BodyUse> {
      const loops::While w(eqn.params);
      BodyUse condition{w.cond, {}, {}, true}, body = call_use(w.body, w.cond_nconsts);
      for (std::size_t i = 0; i < w.cond_nconsts; ++i) condition.in.push_back({i});
      for (std::size_t i = 0; i < w.num_carry(); ++i) {
        condition.in.push_back({w.num_consts() + i, false, i});
        body.in[w.body_nconsts + i].again = i;
      }
      return {body, condition};
    },
    .samples = loops::while_samples,
}};

Arrays while_loop(const std::function<Array(ArraySpan)>& condition, const Function& body,
                  const Arrays& init) {
  Arrays first = init;
  Body b = trace_body(avals_of(first), body);
  while (adapt_bare_numbers(first, b.program.jaxpr.out_avals())) b = trace_body(avals_of(first), body);
  const Body c = trace_body(avals_of(first), [&](ArraySpan a) { return Arrays{condition(a)}; });
  return bind_primitive(while_p, join({c.captured, b.captured, first}),
                        loops::while_params(c.program, c.captured.size(), b.program, b.captured.size()));
}

Arrays fori_loop(std::int64_t lower, std::int64_t upper,
                 const std::function<Arrays(const Array& i, ArraySpan)>& body, const Arrays& init) {
  constexpr std::int64_t kLeast = std::numeric_limits<std::int32_t>::min(),
                         kMost = std::numeric_limits<std::int32_t>::max();
  if (lower < kLeast || upper - 1 > kMost)
    throw ValueError("fori_loop", "from " + std::to_string(lower) + " to " + std::to_string(upper) +
                                      ": the index is an i32; count from 0 and add the rest");
  // The number of iterations is known: a scan over the index, so that reverse mode is cheap.
  const std::int64_t n = std::max<std::int64_t>(0, upper - lower);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < n; ++i) indices.push_back(lower + i);
  const Array index = convert(Tensor::of(indices, {n}), Dtype::I32);
  return scan(
             [&](ArraySpan carry, ArraySpan i) {
               return ScanResult{body(i[0], carry), {}};
             },
             init, {index})
      .carry;
}

}  // namespace etrace
