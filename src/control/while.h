// What while and tape_while share: the running loop, and the loop mapped over samples.
#pragma once

#include <algorithm>

#include "base/interruptible.h"
#include "control/body.h"
#include "control/loops.h"

namespace etrace::loops {

Params while_params(ClosedJaxpr cond, std::size_t cond_nconsts, ClosedJaxpr body, std::size_t body_nconsts);

Avals slice_of(std::span<const Aval> in, std::size_t begin, std::size_t count);
Avals joined(const Avals& a, const Avals& b);
Avals selected(const Avals& avals, const Mask& mask);

// Typing of the loop proper. Returns the types of the carry.
Avals check_loop(std::string_view op, const Params& params, std::span<const Aval> in);

// The running loop. The first iteration reads the carry from the operands and writes it to its place, the
// others replace it there.
class Loop {
 public:
  Loop(const While& w, ScratchLayout& layout, const etp_context& context)
      : w_(w),
        cond_(resolve_body(w.cond, context), {}),
        body_(loop_body(w.body, w.body_nconsts, w.num_carry(), context)),
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
      Interruptible::check();
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

// Carries that have a tangent, or are mapped, given which constants and carries start so.
template <class Step>
Mask loop_fixpoint(const Mask& consts, Mask carry, const Step& step) {
  for (;;) {
    const Mask after = carry | step(join({consts, carry}));
    if (after == carry) return carry;
    carry = after;
  }
}

Arrays active_tangents(ArraySpan x, ArraySpan dx, const Mask& active);
// The body with tangents: (consts, dconsts, carry, dcarry) -> (carry, dcarry), given (consts, carry) ->
// (carry).
ClosedJaxpr body_with_tangents(const ClosedJaxpr& body, std::size_t num_consts, const Mask& consts,
                               const Mask& carry, TangentMode);

// The loop mapped over samples. If each sample decides for itself, the loop runs until all are done, and
// samples that are done keep their carry.
struct MappedLoop {
  ClosedJaxpr cond, body;
  Mask carry;                // which carries are mapped
  bool own_decision;         // the condition differs between samples
  std::size_t body_nconsts;  // the body of own decisions also reads the condition's constants, first
};
MappedLoop map_loop(const While& w, const Mask& cond_consts, const Mask& body_consts, const Mask& carry0,
                    std::int64_t n);
Array mapped_to(const Array& a, bool is_mapped, bool wanted, std::int64_t n);
Arrays mapped_carry(ArraySpan carry, const Mask& is_mapped, const Mask& wanted, std::int64_t n);
// select(pred, a, b) with one predicate per sample.
Array where_samples(const Array& pred, const Array& a, const Array& b);

std::vector<PrimitiveSpec::Sample> while_samples(std::uint64_t seed);

}  // namespace etrace::loops
