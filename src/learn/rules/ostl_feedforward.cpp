// OSTL without its recurrent matrix H: the factorised trace with a decay that is almost none. (None at all is
// pp_prop of rank 1.)
#include "etrace/rules.h"

namespace etrace {

OSTLFeedforward::OSTLFeedforward()
    : ConfiguredRule("OSTLFeedforward", ETraceAxes{.trace_factorization = TraceFactorization::IoFactorized,
                                                   .decay = PerSide<double>(1e-6)}) {}

namespace {

const RegisterRule kOstlFeedforward(
    {.name = "OSTLFeedforward",
     .aliases = {"ostl_feedforward"},
     .doc = "pp_prop that forgets at once (decay 1e-6); memory batch x (inputs + outputs x states "
            "of a unit)",
     .expectation = LearningRule::Theory::Approximate,
     .gradient = "approximate: only the step itself is in the trace",
     .options = {},
     .make = [](const RuleOptions&) { return std::make_shared<OSTLFeedforward>(); }});

}  // namespace

}  // namespace etrace
