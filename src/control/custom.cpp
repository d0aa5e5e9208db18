// Functions with derivatives of their own.
//   custom_jvp_call: y = call_jaxpr(x); (y, dy) = jvp_jaxpr(x, dx). Without a rule the body is
//   differentiated. custom_vjp_call: y = call_jaxpr(x); (y, residuals) = fwd_jaxpr(x); ct_x =
//   bwd_jaxpr(residuals, ct_y).
#include <algorithm>
#include <memory>
#include <unordered_set>

#include "control/body.h"
#include "control/loops.h"
#include "control/splice.h"
#include "etrace/bodies.h"
#include "etrace/control.h"
#include "etrace/error.h"
#include "etrace/ops/elementwise.h"
#include "etrace/ops/shape.h"
#include "transform/env.h"

namespace etrace {

namespace {

Avals call_abstract(const Params& params, std::span<const Aval> in) {
  const JaxprPtr body = params.jaxpr("call_jaxpr");
  require_types("custom derivative call", "operand", {in.begin(), in.end()}, body->in_avals());
  return body->out_avals();
}

Arrays call_lower(const Params& params, ArraySpan x) { return eval_jaxpr(*params.jaxpr("call_jaxpr"), x); }

Kernel custom_kernel(const KernelRequest& r) { return call_kernel(r.params.jaxpr("call_jaxpr"), r.context); }

Arrays instantiated(ArraySpan x, ArraySpan dx) {
  Arrays out;
  for (std::size_t i = 0; i < x.size(); ++i) out.push_back(instantiate(dx[i], x[i].aval()));
  return out;
}

ValuesAndTangents differentiate_body(const Params& params, ArraySpan x, ArraySpan dx, TangentMode mode) {
  const JaxprPtr body = params.jaxpr("call_jaxpr");
  return jvp_eval(body->jaxpr, to_arrays(body->consts), x, dx, mode);
}

// Values are those of the call, not of the rule: a derivative of the derivative finds the rule again.
ValuesAndTangents by_rule(const Params& params, ArraySpan x, ArraySpan dx, TangentMode mode) {
  const JaxprPtr rule = params.jaxpr_or_null("jvp_jaxpr");
  if (rule == nullptr) return differentiate_body(params, x, dx, mode);
  // Inlined, because a call would tie values to tangents, which reverse mode must tell apart.
  const Arrays out = eval_jaxpr(inline_calls(*rule), join({x, instantiated(x, dx)}));
  const std::size_t n = params.jaxpr("call_jaxpr")->jaxpr.outs.size();
  if (out.size() != 2 * n)
    throw CompilationError("custom_jvp_call", "the rule returns " + std::to_string(out.size()) +
                                                  " values for " + std::to_string(n) +
                                                  " results; it must return values and tangents");
  return {bind_primitive(custom_jvp_call_p, x, params), join({ArraySpan(out).subspan(n)})};
}

Arrays broadcast_all(ArraySpan x, const Mask& batched, std::int64_t n) {
  Arrays out;
  for (std::size_t i = 0; i < x.size(); ++i)
    out.push_back(batched[i] ? x[i] : broadcast_to(x[i], x[i].shape().with_front(n)));
  return out;
}

// A nested program mapped over all of its inputs and outputs.
JaxprPtr mapped(const JaxprPtr& program, std::int64_t n) {
  return share(
      vmap(*program, Mask(program->jaxpr.invars.size(), true), n, Mask(program->jaxpr.outs.size(), true))
          .jaxpr);
}

Params map_programs(const Params& params, std::initializer_list<const char*> keys, std::int64_t n) {
  Params out = params;
  for (const char* key : keys)
    if (const JaxprPtr program = params.jaxpr_or_null(key)) out = out.with(key, mapped(program, n));
  return out;
}

std::vector<BodyUse> call_bodies(const Eqn& eqn) { return {call_use(eqn.params.jaxpr("call_jaxpr"))}; }

Array vec(const std::vector<double>& values) {
  return Tensor::of(values, {static_cast<std::int64_t>(values.size())});
}

}  // namespace

const Primitive custom_jvp_call_p{{
    .name = "custom_jvp_call",
    .doc = "calls `call_jaxpr`; its tangent is that of `jvp_jaxpr`",
    .params = {"call_jaxpr", "jvp_jaxpr", "num_consts"},
    .ignored_params = {"name", "symbolic_zeros"},
    .abstract = call_abstract,
    .kernel = custom_kernel,
    .lower = call_lower,
    .batch =
        [](const Params& params, ArraySpan x, const Mask& batched, std::int64_t n) {
          return bind_primitive(custom_jvp_call_p, broadcast_all(x, batched, n),
                                map_programs(params, {"call_jaxpr", "jvp_jaxpr"}, n));
        },
    .jvp_joint = [](const Params& p, ArraySpan x,
                    ArraySpan dx) { return by_rule(p, x, dx, TangentMode::Joint); },
    .linearize = [](const Params& p, ArraySpan x,
                    ArraySpan dx) { return by_rule(p, x, dx, TangentMode::Linear); },
    .bodies = call_bodies,
    .samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> {
      const Aval v{Dtype::F64, {3}};
      const ClosedJaxpr f = make_jaxpr([](ArraySpan x) { return Arrays{sin(x[0]) * x[0]}; }, Avals{v});
      const ClosedJaxpr rule = make_jaxpr(
          [](ArraySpan a) {
            return Arrays{sin(a[0]) * a[0], (cos(a[0]) * a[0] + sin(a[0])) * a[1]};
          },
          Avals{v, v});
      return {{{vec({0.4, -1.0, 2.2})},
               {{"call_jaxpr", share(f)}, {"jvp_jaxpr", share(rule)}, {"num_consts", 0}}},
              {{vec({0.4, -1.0, 2.2})}, {{"call_jaxpr", share(f)}, {"num_consts", 0}}}};
    },
}};

// The linear map that reverse mode meets in place of a custom_vjp_call. It has no value of its own, only a
// transpose.
//   operands: residuals, dx; results: dy; ct_x = bwd_jaxpr(residuals, ct_y)
extern const Primitive custom_vjp_linear_p;
const Primitive custom_vjp_linear_p{{
    .name = "custom_vjp_linear",
    .doc = "the linear map whose transpose is `bwd_jaxpr`; exists inside reverse mode only",
    .params = {"bwd_jaxpr", "num_res"},
    .abstract =
        [](const Params& params, std::span<const Aval> in) {
          const JaxprPtr bwd = params.jaxpr("bwd_jaxpr");
          const auto num_res = static_cast<std::size_t>(params.integer("num_res"));
          const Avals bwd_in = bwd->in_avals(), bwd_out = bwd->out_avals();
          Avals expected(bwd_in.begin(), bwd_in.begin() + static_cast<std::ptrdiff_t>(num_res));
          expected.insert(expected.end(), bwd_out.begin(), bwd_out.end());
          require_types("custom_vjp_linear", "operand", {in.begin(), in.end()}, expected);
          return Avals(bwd_in.begin() + static_cast<std::ptrdiff_t>(num_res), bwd_in.end());
        },
    .transpose =
        [](const Params& params, ArraySpan ct, ArraySpan x, std::span<const Aval>) {
          const JaxprPtr bwd = params.jaxpr("bwd_jaxpr");
          const auto num_res = static_cast<std::size_t>(params.integer("num_res"));
          Arrays args(x.begin(), x.begin() + static_cast<std::ptrdiff_t>(num_res));
          const Avals types = bwd->in_avals();
          for (std::size_t i = 0; i < ct.size(); ++i) args.push_back(instantiate(ct[i], types[num_res + i]));
          return join({Arrays(num_res), eval_jaxpr(*bwd, args)});
        },
    .batch =
        [](const Params& params, ArraySpan x, const Mask& batched, std::int64_t n) {
          return bind_primitive(custom_vjp_linear_p, broadcast_all(x, batched, n),
                                map_programs(params, {"bwd_jaxpr"}, n));
        },
    .samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> { return {}; },
}};

namespace {

ValuesAndTangents custom_vjp_linearize(const Params& params, ArraySpan x, ArraySpan dx) {
  const JaxprPtr fwd = params.jaxpr_or_null("fwd_jaxpr"), bwd = params.jaxpr_or_null("bwd_jaxpr");
  if (fwd == nullptr || bwd == nullptr) return differentiate_body(params, x, dx, TangentMode::Linear);
  const Arrays out = eval_jaxpr(*fwd, x);
  const std::size_t n = params.jaxpr("call_jaxpr")->jaxpr.outs.size();
  const Params linear{{"bwd_jaxpr", bwd}, {"num_res", out.size() - n}};
  return {
      bind_primitive(custom_vjp_call_p, x, params),
      bind_primitive(custom_vjp_linear_p, join({ArraySpan(out).subspan(n), instantiated(x, dx)}), linear)};
}

// Is an equation linear in these operands? What is not known to be is not.
bool linear_in(const Eqn& eqn, const Mask& operands) {
  for (const Var& v : eqn.out)
    if (!is_floating(v.aval.dtype)) return false;
  for (const Primitive* p : {&add_p, &add_any_p, &sub_p, &concatenate_p, &stack_p})
    if (eqn.prim == p) return true;
  if (eqn.prim == &select_n_p) return !operands[0];
  if (eqn.prim == &div_p) return !operands[1];
  return eqn.prim->spec.transpose != nullptr && nested_jaxprs(eqn).empty() && count(operands) == 1;
}

// Whether all that depends on the inputs from `first` on is linear in them.
bool linear_from(const Jaxpr& jaxpr, std::size_t first) {
  std::unordered_set<std::uint64_t> dependent;
  for (std::size_t i = first; i < jaxpr.invars.size(); ++i) dependent.insert(jaxpr.invars[i].id);
  for (const Eqn& eqn : jaxpr.eqns) {
    Mask operands;
    for (const Atom& a : eqn.in)
      operands.push_back(as_var(a) != nullptr && dependent.contains(as_var(a)->id));
    if (count(operands) == 0) continue;
    if (!linear_in(eqn, operands)) return false;
    for (const Var& v : eqn.out) dependent.insert(v.id);
  }
  return true;
}

// What depends on the inputs from `first` on is taken by its values, so that it can be transposed: calls are
// spelled out, marks go. All else keeps its rules, for a derivative of the derivative.
class ByValue {
 public:
  ByValue(const ClosedJaxpr& program, std::size_t first)
      : out_{{program.jaxpr.constvars, program.jaxpr.invars, {}, {}}, program.consts} {
    for (std::size_t i = first; i < program.jaxpr.invars.size(); ++i)
      dependent_.insert(program.jaxpr.invars[i].id);
    write(program.jaxpr.eqns);
    out_.jaxpr.outs = names_(program.jaxpr.outs);
  }
  ClosedJaxpr taken() && { return std::move(out_); }

 private:
  void write(const std::vector<Eqn>& eqns) {
    for (Eqn eqn : eqns) {
      eqn.in = names_(eqn.in);
      const bool depends = std::any_of(eqn.in.begin(), eqn.in.end(), [&](const Atom& a) {
        return as_var(a) != nullptr && dependent_.contains(as_var(a)->id);
      });
      if (depends && has_own_derivative(eqn)) {
        std::vector<Eqn> body;
        const std::vector<Atom> outs =
            splice(inline_calls(*eqn.params.jaxpr("call_jaxpr")), eqn.in, out_, body);
        write(body);
        for (std::size_t i = 0; i < outs.size(); ++i) names_.set(eqn.out[i], names_(outs[i]));
        continue;
      }
      if (depends)
        for (const Var& v : eqn.out) dependent_.insert(v.id);
      if (depends && eqn.prim == &stop_gradient_p) eqn.prim = &copy_p;
      out_.jaxpr.eqns.push_back(std::move(eqn));
    }
  }

  ClosedJaxpr out_;
  Renaming names_;
  std::unordered_set<std::uint64_t> dependent_;
};

// A backward rule that is linear in the cotangents, ct_x = Jᵀ·ct_y, has J for its own transpose.
ValuesAndTangents custom_vjp_jvp(const Params& params, ArraySpan x, ArraySpan dx) {
  const JaxprPtr fwd = params.jaxpr_or_null("fwd_jaxpr"), bwd = params.jaxpr_or_null("bwd_jaxpr");
  if (fwd == nullptr || bwd == nullptr) return differentiate_body(params, x, dx, TangentMode::Joint);
  const Arrays out = eval_jaxpr(*fwd, x);
  const std::size_t n = params.jaxpr("call_jaxpr")->jaxpr.outs.size(), num_residuals = out.size() - n;
  const ClosedJaxpr rule = ByValue(inline_calls(*bwd), num_residuals).taken();
  if (!linear_from(rule.jaxpr, num_residuals))
    throw NotSupportedError(
        "custom_vjp_call",
        "forward mode through a function that only has a backward rule, and one that is not "
        "(or not visibly) linear in the cotangent; give it a custom_jvp rule");
  Arrays operands(out.begin() + static_cast<std::ptrdiff_t>(n), out.end());
  operands.resize(num_residuals + n);
  const Arrays dy = transpose_eval(rule.jaxpr, to_arrays(rule.consts), operands, dx);
  return {bind_primitive(custom_vjp_call_p, x, params), join({ArraySpan(dy).subspan(num_residuals)})};
}

}  // namespace

const Primitive custom_vjp_call_p{{
    .name = "custom_vjp_call",
    .doc = "calls `call_jaxpr`; its cotangents are those of `bwd_jaxpr` after `fwd_jaxpr`",
    .params = {"call_jaxpr", "fwd_jaxpr", "bwd_jaxpr", "num_consts"},
    .ignored_params = {"name", "symbolic_zeros", "fwd_jaxpr_thunk", "out_trees"},
    .abstract = call_abstract,
    .kernel = custom_kernel,
    .lower = call_lower,
    .batch =
        [](const Params& params, ArraySpan x, const Mask& batched, std::int64_t n) {
          return bind_primitive(custom_vjp_call_p, broadcast_all(x, batched, n),
                                map_programs(params, {"call_jaxpr", "fwd_jaxpr", "bwd_jaxpr"}, n));
        },
    .jvp_joint = custom_vjp_jvp,
    .linearize = custom_vjp_linearize,
    .bodies = call_bodies,
    .samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> {
      const Aval v{Dtype::F64, {3}};
      const ClosedJaxpr f = make_jaxpr([](ArraySpan x) { return Arrays{x[0] * x[0] * x[0]}; }, Avals{v});
      return {{{vec({0.4, -1.0, 2.2})}, {{"call_jaxpr", share(f)}}}};
    },
}};

namespace {

// Every call of a function traces its rules, so that rules that call it would trace without end: the same
// function again, or one that is made anew by every call and is only seen to go ever deeper.
class TracedOnce {
 public:
  TracedOnce(const char* who, const std::shared_ptr<const char>& function) : function_(function.get()) {
    constexpr std::size_t kDeepest = 100;
    if (active_.size() >= kDeepest || std::find(active_.begin(), active_.end(), function_) != active_.end())
      throw CompilationError(who,
                             "the function or a rule of its derivative calls the function itself, and so its "
                             "own rules, without end; call the plain function there");
    active_.push_back(function_);
  }
  ~TracedOnce() { active_.pop_back(); }
  TracedOnce(const TracedOnce&) = delete;
  TracedOnce& operator=(const TracedOnce&) = delete;

 private:
  static thread_local std::vector<const char*> active_;
  const char* function_;
};
thread_local std::vector<const char*> TracedOnce::active_;

}  // namespace

Function custom_jvp(Function f, Function rule) {
  return [f = std::move(f), rule = std::move(rule),
          identity = std::make_shared<const char>()](ArraySpan args) {
    const TracedOnce tracing("custom_jvp", identity);
    const Avals types = avals_of(args);
    const Body body = trace_body(types, f);
    const std::size_t nc = body.captured.size();
    // The rule sees f's captured arrays as constants: their tangents are not its business.
    Avals both = types;
    both.insert(both.end(), types.begin(), types.end());
    const Body jvp_rule = trace_body(both, rule);
    const Arrays captured = join({body.captured, jvp_rule.captured});
    const Avals all = avals_of(captured);
    const ClosedJaxpr call = insert_unused_inputs(body.program, nc, std::span(all).subspan(nc));
    // Rule inputs: all captured, x, tangents of captured (unused), dx.
    ClosedJaxpr r = insert_unused_inputs(jvp_rule.program, 0, std::span(all).first(nc));
    r = insert_unused_inputs(r, all.size() + types.size(), all);
    return bind_primitive(custom_jvp_call_p, join({captured, args}),
                          {{"call_jaxpr", share(call)}, {"jvp_jaxpr", share(r)}, {"num_consts", all.size()}});
  };
}

Function custom_vjp(Function f, Function fwd, Function bwd) {
  return [f = std::move(f), fwd = std::move(fwd), bwd = std::move(bwd),
          identity = std::make_shared<const char>()](ArraySpan args) {
    const TracedOnce tracing("custom_vjp", identity);
    const Avals types = avals_of(args);
    auto closed = [&](const Function& g, const Avals& in, const char* what) {
      const Body b = trace_body(in, g);
      for (const Array& a : b.captured)
        if (a.is_tracer())
          throw NotSupportedError("custom_vjp", std::string(what) + " uses a traced value of type " +
                                                    to_string(a.aval()) +
                                                    " from outside; pass it as an argument");
      ClosedJaxpr c = b.program;
      const auto split = c.jaxpr.invars.begin() + static_cast<std::ptrdiff_t>(b.captured.size());
      c.jaxpr.constvars.assign(c.jaxpr.invars.begin(), split);
      c.jaxpr.invars.erase(c.jaxpr.invars.begin(), split);
      c.consts = to_tensors(b.captured);
      return c;
    };
    const ClosedJaxpr call = closed(f, types, "f"), forward = closed(fwd, types, "fwd");
    const Avals out = call.out_avals(), fwd_out = forward.out_avals();
    if (fwd_out.size() < out.size())
      throw ValueError("custom_vjp", "fwd must return the values of f and then the residuals");
    Avals bwd_in(fwd_out.begin() + static_cast<std::ptrdiff_t>(out.size()), fwd_out.end());
    bwd_in.insert(bwd_in.end(), out.begin(), out.end());
    const ClosedJaxpr backward = closed(bwd, bwd_in, "bwd");
    require_types("custom_vjp", "cotangent that bwd returns for argument", backward.out_avals(), types);
    return bind_primitive(
        custom_vjp_call_p, args,
        {{"call_jaxpr", share(call)}, {"fwd_jaxpr", share(forward)}, {"bwd_jaxpr", share(backward)}});
  };
}

}  // namespace etrace
