// while: carry = body(body_consts, carry) as long as cond(cond_consts, carry).
//   operands: cond consts, body consts, carry; results: final carry.
// tape_while: the loop that reverse mode needs. It runs the same loop from its start, keeping the carry of
// every iteration on a tape inside the kernel, and then walks the tape backwards:
//   r = back(back_consts, c_k, r)  for k = N-1 … 0.        Shapes stay static; the tape is the kernel's own.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "control/body.h"
#include "control/loop_rules.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "transform/env.h"

namespace etrace {

namespace {

struct While {
  JaxprPtr cond, body;
  std::size_t cond_nconsts, body_nconsts;

  explicit While(const Params& p)
      : cond(p.jaxpr("cond_jaxpr")),
        body(p.jaxpr("body_jaxpr")),
        cond_nconsts(static_cast<std::size_t>(p.integer("cond_nconsts"))),
        body_nconsts(static_cast<std::size_t>(p.integer("body_nconsts"))) {}

  std::size_t num_carry() const { return body->jaxpr.outs.size(); }
  std::size_t num_consts() const { return cond_nconsts + body_nconsts; }
  template <class T>
  std::span<const T> cond_consts(std::span<const T> x) const {
    return x.first(cond_nconsts);
  }
  template <class T>
  std::span<const T> body_consts(std::span<const T> x) const {
    return x.subspan(cond_nconsts, body_nconsts);
  }
  template <class T>
  std::span<const T> carry(std::span<const T> x) const {
    return x.subspan(num_consts(), num_carry());
  }
};

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

// Typing of the loop proper, shared by both primitives. Returns the types of the carry.
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

// The running loop. The first iteration reads the carry from the operands and writes it to its place, the
// others replace it there.
class Loop {
 public:
  Loop(const While& w, ScratchLayout& layout)
      : w_(w),
        cond_(resolve_body(w.cond), {}),
        body_(loop_body(w.body, w.body_nconsts, w.num_carry())),
        cond_workspace_(layout.take(cond_.workspace_bytes())),
        body_workspace_(layout.take(body_.workspace_bytes())),
        cond_in_(layout.take_pointers(w.cond_nconsts + w.num_carry())),
        body_in_(layout.take_pointers(w.body_nconsts + w.num_carry())) {
    for (const Aval& a : w.body->out_avals()) bytes_.push_back(a.bytes());
  }

  // Calls visit(carry pointers) at the start of each iteration; leaves the final carry in `carry`.
  template <class Visit>
  void run(const void* const* in, void* const* carry, std::byte* scratch, const Visit& visit) const {
    const std::size_t nk = w_.num_carry();
    auto** const cond_in = reinterpret_cast<const void**>(scratch + cond_in_);
    auto** const body_in = reinterpret_cast<const void**>(scratch + body_in_);
    cond_.prepare(scratch + cond_workspace_);
    body_.prepare(scratch + body_workspace_);
    std::copy_n(in, w_.cond_nconsts, cond_in);
    std::copy_n(in + w_.cond_nconsts, w_.body_nconsts, body_in);
    const void* const* now = in + w_.num_consts();
    for (;;) {
      std::copy_n(now, nk, cond_in + w_.cond_nconsts);
      if (!keep_going(cond_in, scratch)) break;
      visit(now);
      std::copy_n(now, nk, body_in + w_.body_nconsts);
      body_.run(body_in, carry, scratch + body_workspace_);
      now = carry;
    }
    copy_unless_same(carry, now, bytes_);
  }

 private:
  bool keep_going(const void* const* in, std::byte* scratch) const {
    bool go = false;
    void* result = &go;
    cond_.run(in, &result, scratch + cond_workspace_);
    return go;
  }

  While w_;
  Routine cond_, body_;
  std::size_t cond_workspace_, body_workspace_, cond_in_, body_in_;
  std::vector<std::size_t> bytes_;
};

Kernel while_kernel(const KernelRequest& r) {
  const While w(r.params);
  ScratchLayout layout;
  const auto loop = std::make_shared<const Loop>(w, layout);
  Kernel kernel;
  kernel.run = [loop](const KernelArgs& a) {
    loop->run(a.in, a.out, static_cast<std::byte*>(a.scratch), [](const void* const*) {});
  };
  kernel.scratch_bytes = layout.size();
  for (std::size_t i = 0; i < w.num_carry(); ++i) kernel.in_place.push_back({i, w.num_consts() + i});
  return kernel;
}

// Carries that have a tangent, or are mapped, given which constants and carries start so.
template <class Step>
Mask loop_fixpoint(const Mask& consts, Mask carry, const Step& step) {
  for (;;) {
    const Mask after = carry | step(join({consts, carry}));
    if (after == carry) return carry;
    carry = after;
  }
}

Arrays active_tangents(ArraySpan x, ArraySpan dx, const Mask& active) {
  Arrays out;
  for (std::size_t i = 0; i < x.size(); ++i)
    if (active[i]) out.push_back(instantiate(dx[i], x[i].aval()));
  return out;
}

// The body with tangents: (consts, dconsts, carry, dcarry) -> (carry, dcarry), given (consts, carry) ->
// (carry).
ClosedJaxpr body_with_tangents(const ClosedJaxpr& body, std::size_t num_consts, const Mask& consts,
                               const Mask& carry) {
  const ClosedJaxpr j = jvp(body, join({consts, carry}), carry).jaxpr;
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

Avals selected(const Avals& avals, const Mask& mask) {
  Avals out;
  for (const std::size_t i : positions(mask)) out.push_back(avals[i]);
  return out;
}

ValuesAndTangents while_jvp(const Params& params, ArraySpan x, ArraySpan dx) {
  const While w(params);
  const Mask consts = defined_mask(w.body_consts(dx));
  const Mask carry = loop_fixpoint(consts, defined_mask(w.carry(dx)),
                                   [&](const Mask& in) { return jvp(*w.body, in).active_out; });
  const ClosedJaxpr body = body_with_tangents(*w.body, w.body_nconsts, consts, carry);
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
  return {bind_primitive(while_p, x, params), while_jvp(params, x, dx).dy};
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

Array mapped_to(const Array& a, bool is_mapped, bool wanted, std::int64_t n) {
  return wanted && !is_mapped ? broadcast_to(a, a.shape().with_front(n)) : a;
}

// select(pred, a, b) with one predicate per sample.
Array where_samples(const Array& pred, const Array& a, const Array& b) {
  Dims dims(a.rank(), 1);
  dims[0] = pred.shape()[0];
  return where(broadcast_to(reshape(pred, dims), a.shape()), a, b);
}

// The loop mapped over samples. If each sample decides for itself, the loop runs until all are done, and
// samples that are done keep their carry.
struct MappedLoop {
  ClosedJaxpr cond, body;
  Mask carry;                // which carries are mapped
  bool own_decision;         // the condition differs between samples
  std::size_t body_nconsts;  // the body of own decisions also reads the condition's constants, first
};

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

// tape_while ------------------------------------------------------------------------------------------------

struct TapeWhile : While {
  JaxprPtr back;
  std::size_t back_nconsts;

  explicit TapeWhile(const Params& p)
      : While(p),
        back(p.jaxpr("back_jaxpr")),
        back_nconsts(static_cast<std::size_t>(p.integer("back_nconsts"))) {}

  std::size_t num_r() const { return back->jaxpr.outs.size(); }
  template <class T>
  std::span<const T> back_consts(std::span<const T> x) const {
    return x.subspan(num_consts() + num_carry(), back_nconsts);
  }
  template <class T>
  std::span<const T> r(std::span<const T> x) const {
    return x.subspan(num_consts() + num_carry() + back_nconsts);
  }
};

Params tape_params(const Params& loop, ClosedJaxpr back, std::size_t back_nconsts) {
  return loop.with("back_jaxpr", share(std::move(back))).with("back_nconsts", back_nconsts);
}

Avals tape_abstract(const Params& params, std::span<const Aval> in) {
  const Avals carry = check_loop("tape_while", params, in);
  const TapeWhile w(params);
  if (params.integer("back_nconsts") < 0 ||
      in.size() != w.num_consts() + w.num_carry() + w.back_nconsts + w.num_r())
    throw CompilationError("tape_while", "back_nconsts does not fit the operands");
  const Avals back_consts = slice_of(in, w.num_consts() + w.num_carry(), w.back_nconsts);
  const Avals r = slice_of(in, w.num_consts() + w.num_carry() + w.back_nconsts, w.num_r());
  require_types("tape_while", "operand of the backward body", joined(joined(back_consts, carry), r),
                w.back->in_avals());
  require_types("tape_while", "result of the backward body", w.back->out_avals(), r);
  return r;
}

// Tapes that grow to the longest loop seen and are kept, one for every run that is under way at once.
class Tapes {
 public:
  using Tape = std::vector<std::byte>;
  Tape take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) return {};
    Tape tape = std::move(idle_.back());
    idle_.pop_back();
    return tape;
  }
  void give(Tape tape) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(tape));
  }

 private:
  std::mutex mutex_;
  std::vector<Tape> idle_;
};

class TapeLoop {
 public:
  explicit TapeLoop(const TapeWhile& w)
      : w_(w), loop_(w, layout_), back_(loop_body(w.back, w.back_nconsts + w.num_carry(), w.num_r())) {
    for (const Aval& a : w.body->out_avals()) {
      sizes_.push_back(a.bytes());
      offsets_.push_back(record_.take(a.bytes()));
    }
    for (const Aval& a : w.back->out_avals()) r_sizes_.push_back(a.bytes());
    carry_ = layout_.take(record_.size());
    carry_pointers_ = layout_.take_pointers(w.num_carry());
    back_workspace_ = layout_.take(back_.workspace_bytes());
    back_in_ = layout_.take_pointers(w.back->jaxpr.invars.size());
  }
  std::size_t scratch_bytes() const { return layout_.size(); }

  void run(const KernelArgs& args) {
    auto* const scratch = static_cast<std::byte*>(args.scratch);
    auto** const carry = reinterpret_cast<void**>(scratch + carry_pointers_);
    for (std::size_t i = 0; i < w_.num_carry(); ++i) carry[i] = scratch + carry_ + offsets_[i];
    Tapes::Tape tape = tapes_.take();
    std::size_t count = 0;
    loop_.run(args.in, carry, scratch, [&](const void* const* now) { save(now, count++, tape); });
    walk_back(args, tape, count);
    tapes_.give(std::move(tape));
  }

 private:
  void save(const void* const* carry, std::size_t k, Tapes::Tape& tape) const {
    const std::size_t need = (k + 1) * record_.size();
    if (tape.size() < need) tape.resize(std::max(need, 2 * tape.size()));
    for (std::size_t i = 0; i < sizes_.size(); ++i)
      if (sizes_[i] != 0) std::memcpy(tape.data() + k * record_.size() + offsets_[i], carry[i], sizes_[i]);
  }

  void walk_back(const KernelArgs& args, const Tapes::Tape& tape, std::size_t count) const {
    auto* const scratch = static_cast<std::byte*>(args.scratch);
    auto** const in = reinterpret_cast<const void**>(scratch + back_in_);
    const std::size_t nb = w_.back_nconsts, nk = w_.num_carry(), nr = w_.num_r();
    const void* const* rest = args.in + w_.num_consts() + nk;
    if (count == 0) return copy_unless_same(args.out, rest + nb, r_sizes_);
    back_.prepare(scratch + back_workspace_);
    std::copy_n(rest, nb, in);
    std::copy_n(rest + nb, nr, in + nb + nk);
    for (std::size_t k = count; k-- > 0;) {
      for (std::size_t i = 0; i < nk; ++i) in[nb + i] = tape.data() + k * record_.size() + offsets_[i];
      back_.run(in, args.out, scratch + back_workspace_);
      if (k + 1 == count) std::copy_n(args.out, nr, in + nb + nk);
    }
  }

  TapeWhile w_;
  ScratchLayout layout_, record_;  // of the scratch; of one carry
  Loop loop_;
  Routine back_;
  std::vector<std::size_t> sizes_, offsets_, r_sizes_;
  std::size_t carry_, carry_pointers_, back_workspace_, back_in_;
  Tapes tapes_;
};

Kernel tape_kernel(const KernelRequest& r) {
  const TapeWhile w(r.params);
  const auto loop = std::make_shared<TapeLoop>(w);
  Kernel kernel;
  kernel.run = [loop](const KernelArgs& args) { loop->run(args); };
  kernel.scratch_bytes = loop->scratch_bytes();
  for (std::size_t i = 0; i < w.num_r(); ++i)
    kernel.in_place.push_back({i, w.num_consts() + w.num_carry() + w.back_nconsts + i});
  return kernel;
}

ValuesAndTangents tape_jvp(const Params& params, ArraySpan x, ArraySpan dx) {
  const TapeWhile w(params);
  const Mask consts = defined_mask(w.body_consts(dx)), back_consts = defined_mask(w.back_consts(dx));
  const Mask carry = loop_fixpoint(consts, defined_mask(w.carry(dx)),
                                   [&](const Mask& in) { return jvp(*w.body, in).active_out; });
  const Mask outer = join({back_consts, carry});
  const Mask r = loop_fixpoint(outer, defined_mask(w.r(dx)),
                               [&](const Mask& in) { return jvp(*w.back, in).active_out; });
  const ClosedJaxpr body = body_with_tangents(*w.body, w.body_nconsts, consts, carry);
  const ClosedJaxpr cond =
      insert_unused_inputs(*w.cond, w.cond->jaxpr.invars.size(), selected(w.body->out_avals(), carry));
  // (consts, carry, dconsts, dcarry, r, dr) -> (consts, dconsts, carry, dcarry, r, dr)
  const ClosedJaxpr back = body_with_tangents(*w.back, w.back_nconsts + w.num_carry(), outer, r);
  const std::size_t nb = w.back_nconsts, nk = w.num_carry(), db = count(back_consts), dk = count(carry);
  std::vector<std::size_t> order;
  auto range = [&](std::size_t begin, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) order.push_back(begin + i);
  };
  range(0, nb);
  range(nb + nk, db);
  range(nb, nk);
  range(nb + nk + db, dk);
  range(nb + nk + db + dk, w.num_r() + count(r));
  const Arrays out = bind_primitive(
      tape_while_p,
      join({w.cond_consts(x), w.body_consts(x), active_tangents(w.body_consts(x), w.body_consts(dx), consts),
            w.carry(x), active_tangents(w.carry(x), w.carry(dx), carry), w.back_consts(x),
            active_tangents(w.back_consts(x), w.back_consts(dx), back_consts), w.r(x),
            active_tangents(w.r(x), w.r(dx), r)}),
      tape_params(while_params(cond, w.cond_nconsts, body, w.body_nconsts + count(consts)),
                  reorder_inputs(back, order), nb + db));
  const ArraySpan o(out);
  return {join({o.first(w.num_r())}), spread(o.subspan(w.num_r()), r)};
}

Arrays tape_batch(const Params& params, ArraySpan x, const Mask& batched, std::int64_t n) {
  const TapeWhile w(params);
  const std::size_t nk = w.num_carry();
  const Mask cc = part(batched, 0, w.cond_nconsts), bc = part(batched, w.cond_nconsts, w.body_nconsts);
  const Mask kc = part(batched, w.num_consts(), nk),
             backc = part(batched, w.num_consts() + nk, w.back_nconsts);
  const MappedLoop m = map_loop(w, cc, bc, kc, n);
  const Mask r0 = part(batched, w.num_consts() + nk + w.back_nconsts, w.num_r());
  Mask r = loop_fixpoint(join({backc, m.carry}), r0,
                         [&](const Mask& in) { return vmap(*w.back, in, n).batched_out; });
  if (m.own_decision) r.assign(r.size(), true);
  const Batched mapped_back = vmap(*w.back, join({backc, m.carry, r}), n, r);
  ClosedJaxpr back = mapped_back.jaxpr;
  Arrays body_consts = join({w.body_consts(x)}), back_consts = join({w.back_consts(x)});
  if (m.own_decision) {
    // Iterations in which a sample had finished are no iterations of that sample.
    const ClosedJaxpr cond = vmap(*w.cond, join({cc, m.carry}), n).jaxpr;
    const Avals types = joined(slice_of(cond.in_avals(), 0, w.cond_nconsts), mapped_back.jaxpr.in_avals());
    back = make_jaxpr(
        [&](ArraySpan a) {
          const ArraySpan rest = a.subspan(w.cond_nconsts), old = rest.subspan(w.back_nconsts + nk);
          const Array go =
              eval_jaxpr(cond, join({a.first(w.cond_nconsts), rest.subspan(w.back_nconsts, nk)}))[0];
          Arrays next = eval_jaxpr(mapped_back.jaxpr, rest);
          for (std::size_t i = 0; i < next.size(); ++i) next[i] = where_samples(go, next[i], old[i]);
          return next;
        },
        types);
    body_consts = join({w.cond_consts(x), body_consts});
    back_consts = join({w.cond_consts(x), back_consts});
  }
  Arrays out = bind_primitive(
      tape_while_p,
      join({w.cond_consts(x), body_consts, mapped_carry(w.carry(x), kc, m.carry, n), back_consts,
            mapped_carry(w.r(x), r0, r, n)}),
      tape_params(while_params(m.cond, w.cond_nconsts, m.body, m.body_nconsts), back, back_consts.size()));
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = mapped_to(out[i], r[i], true, n);
  return out;
}

std::vector<PrimitiveSpec::Sample> tape_samples(std::uint64_t seed) {
  // The loop of while's sample; backwards r ← r∘c∘w + c, c the carry of each iteration. Back constant: w.
  PrimitiveSpec::Sample s = while_samples(seed)[0];
  const Aval v{Dtype::F64, {3}}, i{Dtype::I32, {}};
  const ClosedJaxpr back =
      make_jaxpr([](ArraySpan a) { return Arrays{a[3] * a[1] * a[0] + a[1]}; }, Avals{v, v, i, v});
  s.operands.push_back(Tensor::of(std::vector<double>{0.9, 1.1, -0.8}, {3}));
  s.operands.push_back(Tensor::of(std::vector<double>{0.2, -0.4, 0.6}, {3}));
  s.params = tape_params(s.params, back, 1);
  return {s};
}

}  // namespace

const Primitive while_p{{
    .name = "while",
    .doc = "carry = body_jaxpr(consts, carry) while cond_jaxpr(consts, carry)",
    .params = {"cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts"},
    .abstract =
        [](const Params& params, std::span<const Aval> in) {
          const Avals carry = check_loop("while", params, in);
          if (in.size() != While(params).num_consts() + carry.size())
            throw CompilationError("while", "more operands than constants and carries");
          return carry;
        },
    .kernel = while_kernel,
    .transpose = while_transpose,
    .batch = while_batch,
    .jvp_joint = while_jvp,
    .linearize = while_linearize,
    .prune = while_prune,
    .samples = while_samples,
}};

const Primitive tape_while_p{{
    .name = "tape_while",
    .doc = "runs a while loop, then r = back_jaxpr(consts, carry_k, r) over its iterations, last first",
    .params = {"cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts", "back_jaxpr", "back_nconsts"},
    .abstract = tape_abstract,
    .kernel = tape_kernel,
    .batch = tape_batch,
    .jvp_joint = tape_jvp,
    .linearize = [](const Params& params, ArraySpan x, ArraySpan dx) -> ValuesAndTangents {
      return {bind_primitive(tape_while_p, x, params), tape_jvp(params, x, dx).dy};
    },
    .samples = tape_samples,
}};

Arrays while_loop(const std::function<Array(ArraySpan)>& condition, const Function& body,
                  const Arrays& init) {
  const Avals types = avals_of(init);
  const Body c = trace_body(types, [&](ArraySpan a) { return Arrays{condition(a)}; });
  const Body b = trace_body(types, body);
  return bind_primitive(while_p, join({c.captured, b.captured, init}),
                        while_params(c.program, c.captured.size(), b.program, b.captured.size()));
}

Arrays fori_loop(std::int64_t lower, std::int64_t upper,
                 const std::function<Arrays(const Array& i, ArraySpan)>& body, const Arrays& init) {
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
