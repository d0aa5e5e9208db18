// OSTL with its recurrent matrix H: D-RTRL whose Jacobians keep the recurrent products (scope `coupled`).
#include "etrace/parameter_traces.h"
#include "etrace/rules.h"
#include "learn/operator_rules.h"
#include "learn/rule_rows.h"

namespace etrace {

void OSTLRecurrent::configure(CompileOptions& o) const { o.include_recurrent_mixing = true; }

std::unique_ptr<const BoundRule> OSTLRecurrent::bind(const ETraceGraph& g) const {
  refuse_inner_loops(g, name(), "there, Jacobians are without the recurrent products that this rule keeps");
  return D_RTRL::bind(g);
}

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
