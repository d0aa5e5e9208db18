// OSTL with its recurrent matrix H: D-RTRL whose Jacobians keep the recurrent products (scope `coupled`).
#include "etrace/rules.h"
#include "learn/rules/rule_rows.h"

namespace etrace {

OSTLRecurrent::OSTLRecurrent(const ParamDimOptions& o)
    : ConfiguredRule("OSTLRecurrent", ETraceAxes{.recurrence_scope = RecurrenceScope::Coupled},
                     {.trace_dtype = o.trace_dtype,
                      .composite = o.composite,
                      .composite_max_bytes = o.composite_max_bytes}) {}

namespace {

const RegisterRule kOstlRecurrent(
    {.name = "OSTLRecurrent",
     .aliases = {"ostl_recurrent"},
     .doc = "D_RTRL with the recurrent products' own blocks in the Jacobian; the same memory",
     .expectation = LearningRule::Theory::Exact,
     .gradient = "exact where positions of a group do not act on each other",
     .options = with_composite_options({trace_dtype_option()}),
     .make = [](const RuleOptions& o) {
       const CompositeChoice composite = composite_choice(o);
       return std::make_shared<OSTLRecurrent>(
           ParamDimOptions{o.dtype("trace_dtype"), composite.on, composite.max_bytes});
     }});

}  // namespace

}  // namespace etrace
