// Options that several rules have.
#pragma once

#include "etrace/learning_rule.h"

namespace etrace {

inline RuleOption trace_dtype_option() {
  return {"trace_dtype", RuleOption::Type::Dtype, "", "f16, bf16, f32, f64",
          "type that traces are kept in; sums stay in the model's type"};
}

inline RuleOption unfiltered_option() {
  return {"unfiltered", RuleOption::Type::Text, "", "paths, with commas between them",
          "hidden states whose signals meet the trace itself and not its filter"};
}
// "a/b, c" -> {"a/b", "c"}
std::vector<std::string> listed(const std::string& text);

}  // namespace etrace
