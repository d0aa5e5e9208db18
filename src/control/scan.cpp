// scan: carry, y_t = body(consts, carry, x_t), t = 0 … length-1 (descending if `reverse`).
//   operands: consts, carry, xs (leading axis = time); results: final carry, ys (leading axis = time).
#include "control/scan.h"

#include <algorithm>

#include "base/interruptible.h"
#include "etrace/bodies.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/reduce.h"
#include "etrace/ops/shape.h"
#include "transform/env.h"

namespace etrace::loops {

namespace {

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
  ScanLoop(const Scan& s, const etp_context& context)
      : scan_(s), body_(loop_body(s.body, s.num_consts, s.num_carry, context)) {
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
      Interruptible::check();
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

Kernel scan_kernel(const KernelRequest& r) { return ScanLoop(Scan(r.params), r.context).kernel(); }

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

}  // namespace etrace::loops

namespace etrace {

const Primitive scan_p{{
    .name = "scan",
    .doc = "carry, y_t = jaxpr(consts, carry, x_t) over the leading axis of xs",
    .params = {"jaxpr", "length", "num_carry", "num_consts", "reverse", "checkpoint_every"},
    .ignored_params = {"linear", "unroll", "_split_transpose"},
    .abstract = loops::scan_abstract,
    .kernel = loops::scan_kernel,
    .transpose = loops::scan_transpose,
    .batch = loops::scan_batch,
    .jvp_joint = loops::scan_jvp,
    .linearize = loops::scan_linearize,
    .prune = loops::scan_prune,
    .bodies = [](const Eqn& eqn) -> std::vector<BodyUse> {
      const loops::Scan s(eqn.params);
      BodyUse use = call_use(s.body);
      for (std::size_t i = s.num_consts; i < use.in.size(); ++i) {
        const bool carried = i < s.num_consts + s.num_carry;
        use.in[i].sliced = !carried;
        if (carried) use.in[i].again = i - s.num_consts;
      }
      for (std::size_t i = s.num_carry; i < use.out.size(); ++i) use.out[i].stacked = true;
      return {use};
    },
    .samples = loops::scan_samples,
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
  Arrays first = init;
  std::size_t num_carry = 0;
  const auto traced = [&] {
    Avals types = avals_of(first);
    for (const Array& x : xs) types.push_back({x.dtype(), x.shape().without(0)});
    return trace_body(types, [&](ArraySpan args) {
      ScanResult r = f(args.first(init.size()), args.subspan(init.size()));
      num_carry = r.carry.size();
      return join({r.carry, r.ys});
    });
  };
  Body body = traced();
  while (num_carry == init.size() && adapt_bare_numbers(first, body.program.jaxpr.out_avals()))
    body = traced();
  if (num_carry != init.size())
    throw ValueError("scan", "the body returns " + std::to_string(num_carry) + " carries but " +
                                 std::to_string(init.size()) + " were given");
  Params params{{"jaxpr", share(body.program)},
                {"length", length},
                {"reverse", options.reverse},
                {"num_consts", body.captured.size()},
                {"num_carry", init.size()}};
  if (options.checkpoint_every > 0) params = params.with("checkpoint_every", options.checkpoint_every);
  const Arrays out = bind_primitive(scan_p, join({body.captured, first, xs}), params);
  const ArraySpan o(out);
  return {join({o.first(num_carry)}), join({o.subspan(num_carry)})};
}

}  // namespace etrace
