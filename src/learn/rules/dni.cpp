// DNI, decoupled neural interfaces: D-RTRL in windows, and an estimate of ∂(later losses)/∂h at the exit of
// each for parameters that no trace carries (learn/plan/exit_credit.h). With an estimate of zero it is
// D-RTRL.
#include "etrace/rules.h"
#include "learn/rules/rule_rows.h"

namespace etrace {

DNI::DNI(const DNIOptions& o)
    : ConfiguredRule("DNI", ETraceAxes{.learning_signal = LearningSignal::Bootstrapped},
                     {.trace_dtype = o.trace_dtype,
                      .synthesizer = o.synthesizer,
                      .composite = o.composite,
                      .composite_max_bytes = o.composite_max_bytes}) {}

namespace {

const RegisterRule kDni(
    {.name = "DNI",
     .aliases = {},
     .doc =
         "D_RTRL in windows, with an estimate of later losses for parameters without a trace; its memory and "
         "the estimator's",
     .expectation = LearningRule::Theory::Exact,
     .gradient = "that of D_RTRL; parameters without a trace are exact as far as the estimate is",
     .options = with_composite_options({trace_dtype_option()}),
     .make = [](const RuleOptions& o) {
       const CompositeChoice composite = composite_choice(o);
       return std::make_shared<DNI>(
           DNIOptions{nullptr, o.dtype("trace_dtype"), composite.on, composite.max_bytes});
     }});

}  // namespace

}  // namespace etrace
