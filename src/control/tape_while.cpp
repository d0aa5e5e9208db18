// tape_while: the loop that reverse mode needs. It runs a while loop from its start, keeping the carry of
// every iteration on a tape inside the kernel, and then walks the tape backwards:
//   r = back(back_consts, c_k, r)  for k = N-1 … 0.        Shapes stay static; the tape is the kernel's own.
#include <algorithm>
#include <cstring>
#include <mutex>

#include "control/while.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "transform/env.h"

namespace etrace::loops {

namespace {

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
  TapeLoop(const TapeWhile& w, const etp_context& context)
      : w_(w),
        loop_(w, layout_, context),
        back_(loop_body(w.back, w.back_nconsts + w.num_carry(), w.num_r(), context)) {
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
  const auto loop = std::make_shared<TapeLoop>(w, r.context);
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
  const ClosedJaxpr body = body_with_tangents(*w.body, w.body_nconsts, consts, carry, TangentMode::Joint);
  const ClosedJaxpr cond =
      insert_unused_inputs(*w.cond, w.cond->jaxpr.invars.size(), selected(w.body->out_avals(), carry));
  // (consts, carry, dconsts, dcarry, r, dr) -> (consts, dconsts, carry, dcarry, r, dr)
  const ClosedJaxpr back =
      body_with_tangents(*w.back, w.back_nconsts + w.num_carry(), outer, r, TangentMode::Joint);
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

}  // namespace etrace::loops

namespace etrace {

const Primitive tape_while_p{{
    .name = "tape_while",
    .doc = "runs a while loop, then r = back_jaxpr(consts, carry_k, r) over its iterations, last first",
    .params = {"cond_jaxpr", "cond_nconsts", "body_jaxpr", "body_nconsts", "back_jaxpr", "back_nconsts"},
    .abstract = loops::tape_abstract,
    .kernel = loops::tape_kernel,
    .batch = loops::tape_batch,
    .jvp_joint = loops::tape_jvp,
    .linearize = [](const Params& params, ArraySpan x, ArraySpan dx) -> ValuesAndTangents {
      return {bind_primitive(tape_while_p, x, params), loops::tape_jvp(params, x, dx).dy};
    },
    .samples = loops::tape_samples,
}};

}  // namespace etrace
