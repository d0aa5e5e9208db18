// D-RTRL: one trace per parameter element and output position.
//   e ← D·e + ∂h/∂y·∂y/∂θ        grad θ = Σ ⟨∂L/∂h, e⟩
// D is the Jacobian's block at each position, without recurrent products (scope `diagonal`).
#include <fmt/format.h>

#include "etrace/error.h"
#include "etrace/parameter_traces.h"
#include "etrace/rules.h"
#include "learn/rule_rows.h"

namespace etrace {

D_RTRL::D_RTRL(const ParamDimOptions& o) : options_(o) {
  if (o.trace_dtype && !is_floating(*o.trace_dtype))
    throw TypeError("D_RTRL",
                    fmt::format("trace_dtype {} cannot hold a trace; use float64, float32, bfloat16 or "
                                "float16",
                                etrace::name(*o.trace_dtype)));
}

std::string D_RTRL::describe() const {
  return options_.trace_dtype ? fmt::format("{} (traces in {})", name(), etrace::name(*options_.trace_dtype))
                              : name();
}

void D_RTRL::configure(CompileOptions& o) const { o.include_recurrent_mixing = false; }

LearningRule::Theory D_RTRL::theory(bool) const { return {Theory::Exact}; }

std::unique_ptr<const BoundRule> D_RTRL::bind(const ETraceGraph& g) const {
  return std::make_unique<ParameterTraces>(
      g, ParameterTraceOptions{.rule = name(), .trace_dtype = options_.trace_dtype});
}

namespace {

const RegisterRule kDRtrl(
    {.name = "D_RTRL",
     .aliases = {"ParamDimVjpAlgorithm"},
     .doc = "one trace per weight and output, Jacobians without recurrent products; memory "
            "batch x weights",
     .expectation = "exact where states act on themselves position by position, outside of "
                    "recurrent products",
     .options = {trace_dtype_option(),
                 {"fast_solve", RuleOption::Type::Flag, "true", "true, false",
                  "how the reference system sums; here all sums are fast, and it changes nothing"}},
     .make = [](const RuleOptions& o) {
       return std::make_shared<D_RTRL>(ParamDimOptions{o.dtype("trace_dtype")});
     }});

}  // namespace

}  // namespace etrace
