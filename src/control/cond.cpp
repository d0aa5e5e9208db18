// cond: branches[index](operands…); the index is clamped to the branches there are.
//   operands: index (i32 or bool), operands; all branches have the same types.
#include <algorithm>

#include "control/body.h"
#include "etrace/bodies.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "transform/env.h"

namespace etrace {

namespace {

Params cond_params(std::vector<ClosedJaxpr> branches) {
  Attr::List list;
  for (ClosedJaxpr& b : branches) list.emplace_back(share(std::move(b)));
  return {{"branches", Attr::list(std::move(list))}};
}

std::vector<JaxprPtr> branches_of(const Params& params) {
  std::vector<JaxprPtr> branches = params.jaxprs("branches");
  if (branches.empty()) throw CompilationError("cond", "there are no branches");
  return branches;
}

Avals cond_abstract(const Params& params, std::span<const Aval> in) {
  const std::vector<JaxprPtr> branches = branches_of(params);
  if (in.empty() || !in[0].shape.is_scalar() || (in[0].dtype != Dtype::I32 && in[0].dtype != Dtype::Bool))
    throw CompilationError("cond", "the index must be an i32 or bool scalar, found " +
                                       (in.empty() ? std::string("nothing") : to_string(in[0])));
  const Avals operands(in.begin() + 1, in.end());
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const std::string where = "branch " + std::to_string(i);
    require_types("cond", where + ", operand", operands, branches[i]->in_avals());
    require_types("cond", where + ", result", branches[i]->out_avals(), branches[0]->out_avals());
  }
  return branches[0]->out_avals();
}

// Pairs that some branch wants in place hold for all of them.
std::vector<Alias> shared_aliases(const std::vector<ResolvedProgram>& branches) {
  std::vector<Alias> out;
  for (const ResolvedProgram& b : branches)
    for (const Alias& a : b.natural_aliases())
      if (std::none_of(out.begin(), out.end(),
                       [&](const Alias& o) { return o.result == a.result || o.argument == a.argument; }))
        out.push_back(a);
  std::sort(out.begin(), out.end(), [](const Alias& a, const Alias& b) { return a.result < b.result; });
  return out;
}

Kernel cond_kernel(const KernelRequest& r) {
  std::vector<ResolvedProgram> branches;
  for (const JaxprPtr& b : branches_of(r.params)) branches.push_back(resolve_body(b, r.context));
  const std::vector<Alias> aliases = shared_aliases(branches);
  auto programs = std::make_shared<std::vector<Routine>>();
  Kernel kernel;
  for (ResolvedProgram& b : branches) {
    programs->emplace_back(std::move(b), aliases);
    kernel.scratch_bytes = std::max(kernel.scratch_bytes, programs->back().workspace_bytes());
  }
  for (const Alias& a : aliases) kernel.in_place.push_back({a.result, a.argument + 1});
  const bool is_bool = r.x(0).dtype == Dtype::Bool;
  kernel.run = [programs, is_bool](const KernelArgs& args) {
    std::int64_t index = is_bool ? static_cast<std::int64_t>(*static_cast<const bool*>(args.in[0]))
                                 : *static_cast<const std::int32_t*>(args.in[0]);
    index = std::clamp<std::int64_t>(index, 0, static_cast<std::int64_t>(programs->size()) - 1);
    const Routine& branch = (*programs)[static_cast<std::size_t>(index)];
    branch.prepare(args.scratch);
    branch.run(args.in + 1, args.out, args.scratch);
  };
  return kernel;
}

ValuesAndTangents cond_jvp(const Params& params, ArraySpan x, ArraySpan dx) {
  const std::vector<JaxprPtr> branches = branches_of(params);
  const Mask active = defined_mask(dx.subspan(1));
  Mask active_out(branches[0]->jaxpr.outs.size(), false);
  for (const JaxprPtr& b : branches) active_out = active_out | jvp(*b, active).active_out;
  std::vector<ClosedJaxpr> with_tangents;
  for (const JaxprPtr& b : branches) with_tangents.push_back(jvp(*b, active, active_out).jaxpr);
  const Arrays out =
      bind_primitive(cond_p, join({x, select(dx.subspan(1), active)}), cond_params(with_tangents));
  const ArraySpan o(out);
  return {join({o.first(active_out.size())}), spread(o.subspan(active_out.size()), active_out)};
}

// Each branch leaves residuals of its own; every branch returns a place for all of them, zeros for the
// others'.
ValuesAndTangents cond_linearize(const Params& params, ArraySpan x, ArraySpan dx) {
  const std::vector<JaxprPtr> branches = branches_of(params);
  const Mask active = defined_mask(dx.subspan(1));
  const std::size_t num_out = branches[0]->jaxpr.outs.size(), num_in = x.size() - 1;
  Mask active_out(num_out, false);
  for (const JaxprPtr& b : branches) active_out = active_out | linearize(*b, active).active_out;
  std::vector<Linearization> lin;
  for (const JaxprPtr& b : branches) lin.push_back(linearize(*b, active, active_out));

  Avals residuals;
  std::vector<std::size_t> first;  // where a branch's residuals start
  for (const Linearization& l : lin) {
    first.push_back(residuals.size());
    const Avals out = l.primal.out_avals();
    residuals.insert(residuals.end(), out.begin() + static_cast<std::ptrdiff_t>(num_out), out.end());
  }
  std::vector<ClosedJaxpr> primal, linear;
  const Avals in = branches[0]->in_avals();
  Avals linear_in = residuals;
  for (std::size_t i = 0; i < num_in; ++i)
    if (active[i]) linear_in.push_back(in[i]);
  for (std::size_t b = 0; b < lin.size(); ++b) {
    primal.push_back(make_jaxpr(
        [&](ArraySpan a) {
          const Arrays own = eval_jaxpr(lin[b].primal, a);
          Arrays out(own.begin(), own.begin() + static_cast<std::ptrdiff_t>(num_out));
          for (const Aval& r : residuals) out.push_back(zeros_of(r));
          std::copy(own.begin() + static_cast<std::ptrdiff_t>(num_out), own.end(),
                    out.begin() + static_cast<std::ptrdiff_t>(num_out + first[b]));
          return out;
        },
        in));
    linear.push_back(make_jaxpr(
        [&](ArraySpan a) {
          return eval_jaxpr(lin[b].linear,
                            join({a.subspan(first[b], lin[b].num_residuals), a.subspan(residuals.size())}));
        },
        linear_in));
  }
  const Arrays out = bind_primitive(cond_p, x, cond_params(primal));
  const ArraySpan o(out);
  const Arrays dy = bind_primitive(
      cond_p, join({x.first(1), o.subspan(num_out), select(dx.subspan(1), active)}), cond_params(linear));
  return {join({o.first(num_out)}), spread(dy, active_out)};
}

Arrays cond_transpose(const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval>) {
  if (!x[0].defined()) throw NotSupportedError("cond", "transposing a conditional with respect to its index");
  const ArraySpan operands = x.subspan(1);
  const Mask known = defined_mask(operands), with_ct = defined_mask(ct);
  Mask linear(known);
  linear.flip();
  std::vector<ClosedJaxpr> back;
  for (const JaxprPtr& b : branches_of(params)) back.push_back(transpose(*b, linear, with_ct));
  const Arrays out = bind_primitive(cond_p, join({x.first(1), select(operands, known), select(ct, with_ct)}),
                                    cond_params(back));
  return join({Arrays(1), spread(out, linear)});
}

Arrays cond_batch(const Params& params, ArraySpan x, const Mask& batched, std::int64_t n) {
  const std::vector<JaxprPtr> branches = branches_of(params);
  const Mask mapped = part(batched, 1, batched.size() - 1);
  const Mask all(branches[0]->jaxpr.outs.size(), true);
  std::vector<ClosedJaxpr> programs;
  for (const JaxprPtr& b : branches) programs.push_back(vmap(*b, mapped, n, all).jaxpr);
  if (!batched[0]) return bind_primitive(cond_p, x, cond_params(programs));

  // Each sample takes its own branch: all are evaluated, and the index selects.
  std::vector<Arrays> results;
  for (const ClosedJaxpr& p : programs) results.push_back(eval_jaxpr(p, x.subspan(1)));
  const auto last = static_cast<std::int64_t>(branches.size()) - 1;
  const Array index = clamp(0, convert(x[0], Dtype::I32), Array(last));
  Arrays out;
  for (std::size_t k = 0; k < all.size(); ++k) {
    Arrays cases;
    for (const Arrays& r : results) cases.push_back(r[k]);
    Dims dims(cases[0].rank(), 1);
    dims[0] = n;
    out.push_back(select_n(broadcast_to(reshape(index, dims), cases[0].shape()), cases));
  }
  return out;
}

Eqn cond_prune(const Eqn& eqn, const Mask& used) {
  const std::vector<JaxprPtr> branches = branches_of(eqn.params);
  Mask read(eqn.in.size() - 1, false);
  for (const JaxprPtr& b : branches) read = read | inputs_read(*b, used);
  std::vector<ClosedJaxpr> smaller;
  for (const JaxprPtr& b : branches) {
    smaller.push_back(eliminate_dead_code(*b, used));
    std::vector<Var> invars;
    for (const std::size_t i : positions(read)) invars.push_back(smaller.back().jaxpr.invars[i]);
    smaller.back().jaxpr.invars = invars;
  }
  Eqn out = eqn;
  out.params = cond_params(std::move(smaller));
  out.in = {eqn.in[0]};
  for (const std::size_t i : positions(read, 1)) out.in.push_back(eqn.in[i]);
  out.out.clear();
  for (const std::size_t i : positions(used)) out.out.push_back(eqn.out[i]);
  return out;
}

std::vector<PrimitiveSpec::Sample> cond_samples(std::uint64_t) {
  const Aval v{Dtype::F64, {3}};
  const Avals in{v, v};
  const Params p = cond_params({make_jaxpr(
                                    [](ArraySpan a) {
                                      return Arrays{sin(a[0]) * a[1], a[0]};
                                    },
                                    in),
                                make_jaxpr(
                                    [](ArraySpan a) {
                                      return Arrays{a[1] * a[1] * a[1], a[1] - a[0]};
                                    },
                                    in),
                                make_jaxpr(
                                    [](ArraySpan a) {
                                      return Arrays{a[0] / (2.0 + cos(a[1])), a[1]};
                                    },
                                    in)});
  const Array x = Tensor::of(std::vector<double>{0.3, -1.2, 0.8}, {3}),
              y = Tensor::of(std::vector<double>{1.1, 0.4, -0.6}, {3});
  auto index = [](std::int64_t i) { return Array(Tensor::full({Dtype::I32, {}}, i)); };
  return {{{index(0), x, y}, p}, {{index(1), x, y}, p}, {{index(7), x, y}, p}, {{index(-3), x, y}, p}};
}

Array branch_index(const Array& predicate) {
  if (!predicate.shape().is_scalar())
    throw ValueError("cond", "the predicate must be a scalar, found " + to_string(predicate.aval()) +
                                 "; use where() to choose element by element");
  return convert(predicate, Dtype::I32);
}

}  // namespace

const Primitive cond_p{{
    .name = "cond",
    .doc = "branches[index](operands)",
    .params = {"branches"},
    .ignored_params = {"linear"},
    .abstract = cond_abstract,
    .kernel = cond_kernel,
    .transpose = cond_transpose,
    .batch = cond_batch,
    .jvp_joint = cond_jvp,
    .linearize = cond_linearize,
    .prune = cond_prune,
    .bodies = [](const Eqn& eqn) -> std::vector<BodyUse> {
      std::vector<BodyUse> out;
      for (const JaxprPtr& branch : branches_of(eqn.params)) out.push_back(call_use(branch, 1));
      out.push_back({nullptr, {{0}}});
      return out;
    },
    .samples = cond_samples,
}};

Arrays switch_case(const Array& index, const std::vector<Function>& functions, const Arrays& operands) {
  if (functions.empty()) throw ValueError("switch_case", "there are no branches");
  const Avals types = avals_of(operands);
  std::vector<Body> bodies;
  Arrays captured;
  for (const Function& f : functions) {
    bodies.push_back(trace_body(types, f));
    captured = join({captured, bodies.back().captured});
  }
  // Every branch takes what any branch captured.
  std::vector<ClosedJaxpr> branches;
  std::size_t before = 0;
  for (const Body& b : bodies) {
    const std::size_t own = b.captured.size();
    const Avals all = avals_of(captured);
    ClosedJaxpr program = insert_unused_inputs(b.program, own, std::span(all).subspan(before + own));
    branches.push_back(insert_unused_inputs(program, 0, std::span(all).first(before)));
    before += own;
  }
  return bind_primitive(cond_p, join({Arrays{branch_index(index)}, captured, operands}),
                        cond_params(branches));
}

Arrays cond(const Array& predicate, const Function& if_true, const Function& if_false,
            const Arrays& operands) {
  return switch_case(convert(predicate, Dtype::Bool), {if_false, if_true}, operands);
}

}  // namespace etrace
