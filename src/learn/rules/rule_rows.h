// Options that several rules have.
#pragma once

#include "etrace/rules.h"

namespace etrace {

inline RuleOption trace_dtype_option() {
  return {"trace_dtype", RuleOption::Type::Dtype, "", "f16, bf16, f32, f64",
          "type that traces are kept in; sums stay in the model's type"};
}

inline RuleOption unfiltered_option() {
  return {"unfiltered", RuleOption::Type::Text, "", "paths, with commas between them",
          "hidden states whose learning signals are multiplied with the trace itself, not with its filter"};
}
// "a/b, c" -> {"a/b", "c"}
std::vector<std::string> listed(const std::string& text);
// Of rules with one trace per parameter, in scopes diagonal and coupled.
struct CompositeChoice {
  bool on;
  std::int64_t max_bytes;
};
inline CompositeChoice composite_choice(const RuleOptions& o) {
  return {o.flag("composite").value_or(false), o.integer("composite_max_bytes").value_or(kCompositeMaxBytes)};
}
inline std::vector<RuleOption> with_composite_options(std::vector<RuleOption> own) {
  own.push_back({"composite", RuleOption::Type::Flag, "false", "true, false",
                 "trace weights behind other weights, too; memory batch x weights x states of all units"});
  own.push_back({"composite_max_bytes", RuleOption::Type::Integer, std::to_string(kCompositeMaxBytes),
                 "at least 0", "composite: refuse if these traces take more"});
  return own;
}

}  // namespace etrace
