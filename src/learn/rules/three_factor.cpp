// Three factors: D-RTRL's trace, and a modulator from outside in place of ∂L/∂h. What has no trace learns
// from the loss, as always.
#include "etrace/array.h"
#include "etrace/rules.h"
#include "learn/rules/rule_rows.h"

namespace etrace {

ThreeFactor::ThreeFactor(const ThreeFactorOptions& o)
    : ConfiguredRule("ThreeFactor", ETraceAxes{.learning_signal = LearningSignal::Modulatory},
                     {.trace_dtype = o.trace_dtype,
                      .modulator = o.modulator,
                      .composite = o.composite,
                      .composite_max_bytes = o.composite_max_bytes}) {}

namespace {

const RegisterRule kThreeFactor(
    {.name = "ThreeFactor",
     .aliases = {"three_factor"},
     .doc = "D_RTRL's trace times a modulator from outside, such as a reward; single steps; the memory of "
            "D_RTRL",
     .expectation = LearningRule::Theory::Unknown,
     .gradient = "no statement: the modulator decides",
     .options = with_composite_options({{"modulator", RuleOption::Type::Number, "", "a number",
                                         "the third factor where a call gives none"},
                                        trace_dtype_option()}),
     .make =
         [](const RuleOptions& o) {
           ThreeFactorOptions own;
           if (const auto m = o.number("modulator")) own.modulator = Array(*m);
           own.trace_dtype = o.dtype("trace_dtype");
           const CompositeChoice composite = composite_choice(o);
           own.composite = composite.on;
           own.composite_max_bytes = composite.max_bytes;
           return std::make_shared<ThreeFactor>(own);
         },
     .compared = {{{"modulator", 1.0}}}});

}  // namespace

}  // namespace etrace
