// e-prop: D-RTRL, with a low-pass filter behind the trace (that of the model's leaky readout, unless another
// is given; readout_filter.h) and with fixed random weights in place of the gradient's way back, if wanted.
//   e ← D·e + ∂h/∂y·∂y/∂θ     ē ← κ·ē + e     grad θ = Σ ⟨λ', ē⟩     λ' = λ, or (λ/‖λ‖)·B
// The filter moves with the trace. The reference moves it when it forms a gradient; compat does as well.
#include <fmt/format.h>

#include "etrace/error.h"
#include "etrace/rules.h"
#include "learn/rules/rule_rows.h"

namespace etrace {

EProp::EProp(const EPropOptions& o)
    : ConfiguredRule(
          "EProp",
          ETraceAxes{.learning_signal = o.feedback == Feedback::Random ? LearningSignal::RandomFeedback
                                                                       : LearningSignal::Symmetric,
                     .trace_filter = o.kappa_filter_decay ? TraceFilter::Kappa : TraceFilter::None,
                     .kappa = o.kappa_filter_decay},
          {.trace_dtype = o.trace_dtype,
           .random_feedback_key = o.random_feedback_key,
           .unfiltered = o.unfiltered,
           .kappa_of_readout = !o.kappa_filter_decay,
           .readouts_unfiltered = true,
           .composite = o.composite,
           .composite_max_bytes = o.composite_max_bytes}) {}

namespace {

Feedback feedback_named(const std::string& word) {
  if (word == "symmetric") return Feedback::Symmetric;
  if (word == "random") return Feedback::Random;
  throw ValueError("EProp", fmt::format("feedback is \"{}\"; it must be symmetric or random", word));
}

const RegisterRule kEProp(
    {.name = "EProp",
     .aliases = {"e_prop"},
     .doc =
         "D_RTRL with a filter behind the trace, that of the model's leaky readout, and random feedback, if "
         "wanted; the memory of D_RTRL, twice that with a filter",
     .expectation = LearningRule::Theory::Exact,
     .gradient = "that of D_RTRL with symmetric feedback and no filter, else approximate",
     .options = with_composite_options(
         {{"feedback", RuleOption::Type::Text, "symmetric", "symmetric, random",
           "how the loss comes back: by its gradient, or through fixed random weights"},
          {"kappa_filter_decay", RuleOption::Type::Number, "", "[0, 1)",
           "of the filter behind the trace; not given: that of a leaky readout, which is found by structure, "
           "for single steps; none where there is no such readout. Leaky readouts themselves are not "
           "filtered"},
          {"random_feedback_key", RuleOption::Type::Integer, "", "any",
           "from which random weights are drawn; random feedback needs it"},
          unfiltered_option(),
          trace_dtype_option()}),
     .make =
         [](const RuleOptions& o) {
           EPropOptions own;
           own.feedback = feedback_named(o.text("feedback").value_or("symmetric"));
           own.kappa_filter_decay = o.number("kappa_filter_decay");
           if (const auto key = o.integer("random_feedback_key"))
             own.random_feedback_key = static_cast<std::uint64_t>(*key);
           own.trace_dtype = o.dtype("trace_dtype");
           own.unfiltered = listed(o.text("unfiltered").value_or(""));
           const CompositeChoice composite = composite_choice(o);
           own.composite = composite.on;
           own.composite_max_bytes = composite.max_bytes;
           return std::make_shared<EProp>(own);
         },
     .compared = {{}, {{"kappa_filter_decay", 0.9}}, {{"feedback", "random"}, {"random_feedback_key", 0}}}});

}  // namespace

}  // namespace etrace
