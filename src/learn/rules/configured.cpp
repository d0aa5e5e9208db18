// Any coordinate of etrace/config.h by name: {"ETraceConfig", {{"recurrence_scope", "coupled"}, …}}.
#include "etrace/rules.h"
#include "learn/rules/rule_rows.h"

namespace etrace {

namespace {

std::vector<RuleOption> coordinates_and_settings() {
  std::vector<RuleOption> out = config_options();
  out.push_back(trace_dtype_option());
  out.push_back({"snap_max_jacobian_elements", RuleOption::Type::Integer, "16777216", "at least 1",
                 "sparse_n: refuse if positions x (neighbours x states)² is more"});
  out.push_back({"random_feedback_key", RuleOption::Type::Integer, "", "any",
                 "random_feedback: from which its matrices are drawn"});
  out.push_back(unfiltered_option());
  out.push_back({"modulator", RuleOption::Type::Number, "", "a number",
                 "modulatory: the third factor where a call gives none"});
  out.push_back({"projection_key", RuleOption::Type::Integer, "42", "any",
                 "random_projection: from which signs are drawn"});
  return with_composite_options(std::move(out));
}

const RegisterRule kConfigured(
    {.name = "ETraceConfig",
     .aliases = {"config"},
     .doc = "a rule that is put together from options: what is carried, by what, in which scope, times what",
     .expectation = LearningRule::Theory::Exact,
     .gradient = "what its coordinates allow",
     .options = coordinates_and_settings(),
     .make =
         [](const RuleOptions& o) {
           RuleOptions axes;
           for (const RuleOption& known : config_options())
             if (const Attr* value = o.find(known.name)) axes.set(known.name, *value);
           RuleSettings s;
           s.trace_dtype = o.dtype("trace_dtype");
           s.snap_max_jacobian_elements =
               o.integer("snap_max_jacobian_elements").value_or(s.snap_max_jacobian_elements);
           if (const auto key = o.integer("random_feedback_key"))
             s.random_feedback_key = static_cast<std::uint64_t>(*key);
           s.unfiltered = listed(o.text("unfiltered").value_or(""));
           if (const auto m = o.number("modulator")) s.modulator = Array(*m);
           if (const auto key = o.integer("projection_key"))
             s.projection.projection_key = static_cast<std::uint64_t>(*key);
           const CompositeChoice composite = composite_choice(o);
           s.composite = composite.on;
           s.composite_max_bytes = composite.max_bytes;
           return std::make_shared<ConfiguredRule>(ETraceConfig(axes), s);
         },
     .compared = {}});

}  // namespace

}  // namespace etrace
