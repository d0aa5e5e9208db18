// jit: a nested call, one equation. Derivatives and batching go through the body and leave no call behind.
#include <utility>

#include "control/as_written.h"
#include "control/body.h"
#include "etrace/bodies.h"
#include "etrace/control.h"
#include "etrace/ops/elementwise.h"
#include "transform/env.h"

namespace etrace {

namespace {

Arrays inline_body(const Params& params, ArraySpan x) { return eval_jaxpr(*params.jaxpr("jaxpr"), x); }

ValuesAndTangents jvp_inlined(const Params& params, ArraySpan x, ArraySpan dx, TangentMode mode) {
  const JaxprPtr body = params.jaxpr("jaxpr");
  return jvp_eval(body->jaxpr, to_arrays(body->consts), x, dx, mode);
}

Eqn prune_call(const Eqn& eqn, const Mask& used) {
  Eqn smaller = eqn;
  smaller.params = eqn.params.with("jaxpr", share(eliminate_dead_code(*eqn.params.jaxpr("jaxpr"), used)));
  smaller.out.clear();
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) smaller.out.push_back(eqn.out[i]);
  return smaller;
}

}  // namespace

const Primitive jit_p{{
    .name = "jit",
    .doc = "calls the program `jaxpr`",
    .params = {"jaxpr"},
    .ignored_params = {"name", "inline", "keep_unused", "donated_invars", "resource_env", "prevent_cse",
                       "policy", "differentiated", "compiler_options_kvs"},
    .abstract =
        [](const Params& params, std::span<const Aval> in) {
          const JaxprPtr body = params.jaxpr("jaxpr");
          require_types("jit", "operand", {in.begin(), in.end()}, body->in_avals());
          return body->out_avals();
        },
    .kernel = [](const KernelRequest& r) { return call_kernel(r.params.jaxpr("jaxpr"), r.context); },
    .lower = inline_body,
    .jvp_joint = [](const Params& p, ArraySpan x,
                    ArraySpan dx) { return jvp_inlined(p, x, dx, TangentMode::Joint); },
    .linearize = [](const Params& p, ArraySpan x,
                    ArraySpan dx) { return jvp_inlined(p, x, dx, TangentMode::Linear); },
    .prune = prune_call,
    .bodies = [](const Eqn& eqn) -> std::vector<BodyUse> { return {call_use(eqn.params.jaxpr("jaxpr"))}; },
    .samples = [](std::uint64_t) -> std::vector<PrimitiveSpec::Sample> {
      const Aval v{Dtype::F64, {3}};
      const ClosedJaxpr f = make_jaxpr(
          [](ArraySpan x) {
            return Arrays{sin(x[0]) * x[1], x[0] + 1.0};
          },
          Avals{v, v});
      const Array x = Tensor::of(std::vector<double>{0.3, -1.2, 2.0}, {3});
      return {{{x, x * 2.0}, {{"jaxpr", share(f)}}}};
    },
}};

namespace {
thread_local bool as_written = false;
thread_local std::uint64_t calls = 0;
}  // namespace

AsWritten::AsWritten() : before_(std::exchange(as_written, true)) {}
AsWritten::~AsWritten() { as_written = before_; }
bool AsWritten::active() { return as_written; }
std::uint64_t recorded_calls() { return calls; }
void count_recorded_call() { ++calls; }

Function jit(Function f) {
  return [f = std::move(f)](ArraySpan args) {
    if (AsWritten::active()) return f(args);
    count_recorded_call();
    const Body body = trace_body(avals_of(args), f);
    return bind_primitive(jit_p, join({body.captured, args}), {{"jaxpr", share(body.program)}});
  };
}

}  // namespace etrace
