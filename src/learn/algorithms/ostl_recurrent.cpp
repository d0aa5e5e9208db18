// OSTL with its recurrent matrix H: D-RTRL whose Jacobians keep the recurrent products (scope `coupled`).
#include "etrace/rules.h"
#include "learn/rule_rows.h"

namespace etrace {

OSTLRecurrent::OSTLRecurrent(const ParamDimOptions& o)
    : ConfiguredRule("OSTLRecurrent", ETraceAxes{.recurrence_scope = RecurrenceScope::Coupled},
                     {.trace_dtype = o.trace_dtype}) {}

namespace {

const RegisterRule kOstlRecurrent(
    {.name = "OSTLRecurrent",
     .aliases = {"ostl_recurrent"},
     .doc = "D_RTRL with the recurrent products' own blocks in the Jacobian; the same memory",
     .expectation = "exact where positions of a group do not act on each other",
     .options = {trace_dtype_option()},
     .make = [](const RuleOptions& o) {
       return std::make_shared<OSTLRecurrent>(ParamDimOptions{o.dtype("trace_dtype")});
     }});

}  // namespace

}  // namespace etrace
