// D-RTRL: one trace per parameter element and output position (etrace/parameter_traces.h).
//   e ← D·e + ∂h/∂y·∂y/∂θ        grad θ = Σ ⟨∂L/∂h, e⟩
// D is the Jacobian's block at each position, without recurrent products (scope `diagonal`).
#include "etrace/rules.h"
#include "learn/rules/rule_rows.h"

namespace etrace {

D_RTRL::D_RTRL(const ParamDimOptions& o)
    : ConfiguredRule("D_RTRL", ETraceConfig(),
                     {.trace_dtype = o.trace_dtype,
                      .composite = o.composite,
                      .composite_max_bytes = o.composite_max_bytes}) {}

namespace {

const RegisterRule kDRtrl(
    {.name = "D_RTRL",
     .aliases = {"ParamDimVjpAlgorithm"},
     .doc = "one trace per weight and output, Jacobians without recurrent products; memory "
            "batch x weights x states of a unit",
     .expectation = LearningRule::Theory::Exact,
     .gradient = "exact where states act on themselves position by position, outside of "
                 "recurrent products",
     .options = with_composite_options(
         {trace_dtype_option(),
          {"fast_solve", RuleOption::Type::Flag, "true", "true, false",
           "how the reference system sums; here all sums are fast, and it changes nothing"}}),
     .make =
         [](const RuleOptions& o) {
           const CompositeChoice composite = composite_choice(o);
           return std::make_shared<D_RTRL>(
               ParamDimOptions{o.dtype("trace_dtype"), composite.on, composite.max_bytes});
         },
     .compared = {{}, {{"composite", true}}}});

}  // namespace

}  // namespace etrace
